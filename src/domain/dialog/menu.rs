//! Lists with a selected entry, as terminal programs draw them.
//!
//! A row counts as an entry by its number, or because it stands directly under another entry. The list counts as a
//! dialog when exactly one of its rows is selected (a marker, or cells that stand out), and, without numbers, when a
//! question or a hint about keys is near.

use std::sync::LazyLock;

use regex::Regex;

use super::{Choice, Dialog, Form, Several};
use crate::domain::question::bare as bare_words;
use crate::domain::screen::ScreenView;

/// Markers of a selected row.
const MARKERS: &[char] = &['❯', '›', '▶', '►', '→', '➜', '▸', '●', '◉', '>', '»', '*'];
/// Bullets and boxes of entries, selected or not.
const BULLETS: &[char] = &[
    '○', '◯', '●', '◉', '☐', '☑', '☒', '✓', '✔', '◻', '◼', '□', '■',
];
/// The bullets that are no boxes, and the empty boxes.
const ROUND: &[char] = &['○', '◯', '●', '◉'];
const EMPTY: &[char] = &['☐', '◻', '□'];
/// Marks the place of a tick, in lists whose hint says that entries are ticked.
const DOT: char = '•';
/// Lines that frame a dialog.
pub(super) const FRAME: &[char] = &['│', '┃', '║', '▌', '▐', '┆', '╎', '▎', '▏'];
/// The maximum distance of a question above its first answer, in rows.
const ABOVE: usize = 10;
/// The maximum distance of a hint about keys below the last answer, in rows.
const BELOW: usize = 5;
/// The maximum number of description rows between two numbered entries.
const BETWEEN: usize = 4;
/// Separates the columns of a screen.
const COLUMNS: &str = "        ";
/// More blanks than stand between an entry and its description.
const FAR: &str = "                                        ";
/// The maximum distance of a list from the end of the screen, in rows: a list further above was answered long ago, unless
/// only a footer stands below it.
const FROM_THE_END: usize = 14;
/// The maximum number of rows of a footer.
const FOOTER: usize = 3;
/// The minimum number of blank rows between a list and a footer.
const GAP: usize = 3;

static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{1,2})[.):]\s+(\S.*)$"));
static BOXED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:\[[ xX✓✔*]\]|\([ xX*]\))\s+"));
static LETTER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(.*\S)\s+\(([a-z0-9])\)$"));
static HINT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:\b(?:enter|return|esc|space|tab|arrow keys?|arrows|use)\b|↑|↓|⇆|↵).{0,60}(?:select|confirm|choose|navigate|submit|cancel|continue|dismiss|toggle|move|go back|reject|accept)",
    )
});

/// "Select a model", "Choose one:".
static SELECTS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^(?:please\s+)?(?:select|choose|pick)\b.{0,60}$"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is written here and tested")
}

/// The parts of a row.
#[derive(Debug, Clone)]
struct Row {
    marker: bool,
    /// True when its box is ticked; none where it has no box.
    ticked: Option<bool>,
    /// Set when it has a dot in the place of a tick.
    dotted: bool,
    number: Option<u32>,
    label: String,
    /// The column where the label, or its number, begins.
    column: usize,
}

/// Splits a row into frame, marker, box, number and label; none for a blank row.
fn row(text: &str) -> Option<Row> {
    let mut rest = text.trim_end().trim_end_matches(FRAME).trim_end();
    let whole = rest.chars().count();
    rest = rest.trim_start_matches(|c: char| FRAME.contains(&c) || c == ' ');
    let mut marker = false;
    if let Some(first) = rest.chars().next().filter(|c| MARKERS.contains(c)) {
        let after = &rest[first.len_utf8()..];
        if after.starts_with(' ') {
            (marker, rest) = (true, after.trim_start());
        }
    }
    let mut ticked = None;
    let bullet = |rest: &str| rest.chars().next().filter(|c| BULLETS.contains(c));
    if let Some(first) = bullet(rest) {
        let after = &rest[first.len_utf8()..];
        if after.starts_with(' ') {
            ticked = (!ROUND.contains(&first)).then(|| !EMPTY.contains(&first));
            rest = after.trim_start();
        }
    }
    let undotted = rest
        .strip_prefix(DOT)
        .filter(|after| after.starts_with(' '));
    let dotted = undotted.is_some();
    rest = undotted.map_or(rest, str::trim_start);
    let column = whole - rest.chars().count();
    let (number, mut label) = match NUMBER.captures(rest) {
        Some(found) => (
            found[1].parse().ok(),
            rest[rest.len() - found[2].len()..].to_owned(),
        ),
        None => (None, rest.to_owned()),
    };
    if let Some(found) = BOXED.find(&label) {
        ticked = Some(
            found.as_str()[1..]
                .trim_start()
                .starts_with(['x', 'X', '✓', '✔', '*']),
        );
        label = label[found.end()..].to_owned();
    }
    // Another column of the screen may stand beside the list.
    let label = label.split(FAR).next().unwrap_or_default();
    let label = label.trim().to_owned();
    (!label.is_empty()).then_some(Row {
        marker,
        ticked,
        dotted,
        number,
        label,
        column,
    })
}

/// Returns the choices of these rows; true when they are ticked one by one; and the keys for that.
fn choices(
    view: &ScreenView,
    parts: &[Row],
    (first, last): (usize, usize),
) -> (Vec<Choice>, bool, Option<Several>) {
    let below = view.rows.iter().skip(last + 1).take(BELOW);
    let below: Vec<String> = below.cloned().collect();
    let says_so = below
        .iter()
        .any(|row| row.contains("space toggle") || row.contains("enter toggle"));
    let mut choices: Vec<Choice> = parts.iter().map(choice).collect();
    let dots = choices.iter_mut().zip(parts).filter(|(_, row)| row.dotted);
    if says_so {
        dots.for_each(|(choice, _)| choice.ticked = Some(false));
    }
    let multiple = says_so || choices.iter().any(|choice| choice.ticked.is_some());
    let several = multiple
        .then(|| Several::read(view, first, &below))
        .flatten();
    (choices, multiple, several)
}

/// Finds the lowest list with a selected row.
pub(super) fn find(view: &ScreenView) -> Option<Dialog> {
    let rows: Vec<Option<Row>> = view.rows.iter().map(|text| row(text)).collect();
    let used = view.rows.len();
    let selected = |at: &usize| {
        let row = rows[*at].as_ref();
        row.is_some_and(|row| row.marker || row.number.is_some() && view.is_marked(*at))
    };
    let lowest = (0..used).rev().filter(selected);
    let marked = lowest.filter_map(|at| list(view, &rows, at));
    let unmarked = || unmarked(view, &rows).into_iter();
    marked
        .chain(unmarked())
        .find(|(last, _)| is_open(view, *last))
        .map(|(_, dialog)| dialog)
}

/// Returns true when a list whose last row is `last` may still be open: it has no later output below it.
fn is_open(view: &ScreenView, last: usize) -> bool {
    let below = view.rows.get(last + 1..).unwrap_or_default();
    if below.len() < FROM_THE_END {
        return true;
    }
    let is_blank = |row: &&String| bare(row).is_empty();
    let footer = below.iter().rev().take_while(|row| !is_blank(row)).count();
    let gap = below.iter().rev().skip(footer).take_while(is_blank).count();
    let hint = below.len() - footer - gap;
    footer <= FOOTER && gap >= GAP && hint <= BELOW
}

/// Returns a row without its frame.
fn bare(row: &str) -> &str {
    row.trim_matches(|c: char| {
        FRAME.contains(&c) || c.is_whitespace() || ('\u{2500}'..='\u{257f}').contains(&c)
    })
}

/// Returns the rows that may hold the question of a list whose first row is `first`.
pub(super) fn above(view: &ScreenView, first: usize) -> Vec<String> {
    let rows = &view.rows[first.saturating_sub(ABOVE)..first];
    // Another column, with changing numbers, may stand beside it.
    let own = |row: &String| bare(row).split(COLUMNS).next().map(str::to_owned);
    rows.iter().filter_map(own).collect()
}

/// Finds the lowest numbered list with a hint about keys, whose selection cannot be recognised.
fn unmarked(view: &ScreenView, rows: &[Option<Row>]) -> Option<(usize, Dialog)> {
    let one = |at: &usize| rows[*at].as_ref().is_some_and(|row| row.number == Some(1));
    let at = (0..rows.len()).rev().find(one)?;
    let entries = numbered(rows, at, 1);
    let (first, last) = (*entries.first()?, *entries.last()?);
    if entries.len() < 2 || !hinted(view, first, last) {
        return None;
    }
    let parts = entries.iter().filter_map(|at| rows[*at].clone());
    let parts: Vec<Row> = parts.collect();
    let (choices, multiple, several) = choices(view, &parts, (first, last));
    let form = Form::Menu {
        choices,
        selected: None,
        multiple,
        several,
        across: false,
    };
    let dialog = Dialog {
        question: question(view, first)?,
        form,
        above: above(view, first),
    };
    Some((last, dialog))
}

/// Returns the list of this selected row, and its last row.
fn list(view: &ScreenView, rows: &[Option<Row>], at: usize) -> Option<(usize, Dialog)> {
    let here = rows[at].as_ref()?;
    let entries = match here.number {
        Some(number) => numbered(rows, at, number),
        None => plain(rows, at, here.column),
    };
    let (first, last) = (*entries.first()?, *entries.last()?);
    if entries.len() < 2 {
        return None;
    }
    let row = |at: &usize| rows[*at].clone();
    let parts: Vec<Row> = entries.iter().filter_map(row).collect();
    // Two markers are a drawing, not a selection.
    if parts.iter().filter(|row| row.marker).count() > 1 {
        return None;
    }
    let hinted = hinted(view, first, last);
    let question = question(view, first);
    let asks = question.as_ref().is_some_and(|text| asks(text));
    if here.number.is_none() && !asks && !hinted {
        return None;
    }
    // A numbered list in a text has no marker, and a quoted list has neither question nor hint.
    if !asks && !hinted && parts.iter().any(|row| row.label.len() > 120) {
        return None;
    }
    let (choices, multiple, several) = choices(view, &parts, (first, last));
    let form = Form::Menu {
        choices,
        selected: entries.iter().position(|entry| *entry == at),
        multiple,
        several,
        across: false,
    };
    let dialog = Dialog {
        question: question.unwrap_or_else(|| parts[0].label.clone()),
        form,
        above: above(view, first),
    };
    Some((last, dialog))
}

fn choice(row: &Row) -> Choice {
    let digit = row.number.filter(|number| (1..=9).contains(number));
    let digit = digit.and_then(|number| char::from_digit(number, 10));
    if let (None, Some(found)) = (digit, LETTER.captures(&row.label)) {
        return Choice {
            label: found[1].to_owned(),
            key: found[2].chars().next(),
            ticked: row.ticked,
        };
    }
    Choice {
        label: row.label.clone(),
        key: digit,
        ticked: row.ticked,
    }
}

/// Returns the rows with the numbers before and after this one; descriptions may stand between them.
fn numbered(rows: &[Option<Row>], at: usize, number: u32) -> Vec<usize> {
    let number_of = |at: usize| rows[at].as_ref().and_then(|row| row.number);
    let mut entries = vec![at];
    let (mut wanted, mut seen) = (number, at);
    while let Some(before) = wanted.checked_sub(1).filter(|before| *before > 0) {
        let near = seen.saturating_sub(BETWEEN + 1)..seen;
        match near.rev().find(|at| number_of(*at) == Some(before)) {
            Some(above) => (wanted, seen) = (before, above),
            None => break,
        }
        entries.insert(0, seen);
    }
    (wanted, seen) = (number, at);
    loop {
        let near = seen + 1..(seen + BETWEEN + 2).min(rows.len());
        match near
            .into_iter()
            .find(|at| number_of(*at) == Some(wanted + 1))
        {
            Some(below) => (wanted, seen) = (wanted + 1, below),
            None => return entries,
        }
        entries.push(seen);
    }
}

/// Returns the rows directly above and below whose text begins in the same column.
fn plain(rows: &[Option<Row>], at: usize, column: usize) -> Vec<usize> {
    let fits = |at: &usize| {
        let row = rows[*at].as_ref();
        // The question itself may stand in the same column.
        let entry = |row: &Row| !row.marker && !row.label.ends_with(['?', ':']);
        row.is_some_and(|row| entry(row) && row.number.is_none() && row.column == column)
    };
    let mut above: Vec<usize> = (0..at).rev().take_while(fits).collect();
    above.reverse();
    let below = (at + 1..rows.len()).take_while(fits);
    above.into_iter().chain([at]).chain(below).collect()
}

/// Returns true when a row explains keys.
pub(super) fn is_hint(row: &str) -> bool {
    HINT.is_match(row)
}

/// Returns true when a hint about keys is near the list.
fn hinted(view: &ScreenView, first: usize, last: usize) -> bool {
    let above = view.rows[first.saturating_sub(2)..first].iter();
    let below = view.rows.iter().skip(last + 1).take(BELOW);
    above.chain(below).any(|row| is_hint(row))
}

/// Returns true when a text asks for a choice.
fn asks(text: &str) -> bool {
    text.contains('?') || SELECTS.is_match(text)
}

/// Returns the nearest row above that asks, or else the nearest row with text.
pub(super) fn question(view: &ScreenView, first: usize) -> Option<String> {
    let words = |text: &String| {
        let text = bare(text);
        (!text.is_empty()).then(|| bare_words(text))
    };
    let above = view.rows[first.saturating_sub(ABOVE)..first].iter().rev();
    let texts: Vec<String> = above.filter_map(words).collect();
    let asks = texts.iter().find(|text| text.contains('?'));
    asks.or(texts.first()).cloned()
}
