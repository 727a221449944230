//! The screen of a session at one moment: text, marked cells, cursor, and how the program reads its terminal. Every
//! conclusion about a screen starts from this (`domain/dialog`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A screen at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScreenView {
    /// The text of each row, without trailing blanks; trailing blank rows are cut.
    pub rows: Vec<String>,
    /// Cells that stand out by inverse video, or by a background that few cells have. Menus without a marker show their
    /// selection this way.
    #[serde(default)]
    pub marked: Vec<Span>,
    /// Row and column of the cursor, from 0; none where unknown.
    #[serde(default)]
    pub cursor: Option<(u16, u16)>,
    /// Set when the program asked for bracketed paste; none where unknown.
    #[serde(default)]
    pub bracketed_paste: Option<bool>,
    /// Set when the kernel hands the program whole lines (canonical mode); none where unknown.
    #[serde(default)]
    pub reads_lines: Option<bool>,
    /// Set when the terminal hides typed text while the program reads lines, as for a password; none where unknown.
    #[serde(default)]
    pub hides_input: Option<bool>,
    /// When a person last typed, if they have begun a line and not submitted it (`domain/begun`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// When an attached person pressed a key that cannot be seen: they may have begun a line. Only within the last
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Timestamp>,
    /// Bytes that were typed and that the program has left no room for yet; none where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
    /// The holder's counts of inputs; none where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
}

/// The number of inputs that a terminal was given since its session began. Keys of an attached person do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inputs {
    /// Inputs of which the terminal has taken a part, or may have.
    pub begun: u64,
    /// Inputs that the terminal has taken as a whole.
    pub taken: u64,
}

/// The fate of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The terminal has taken all of it.
    Taken,
    /// The terminal has taken nothing of it.
    Untouched,
    /// The terminal has taken a part of it, or that is unknown.
    Unknown,
}

impl Inputs {
    /// Returns the fate of the one input that was sent between two looks.
    #[must_use]
    pub fn fate(before: Option<Self>, now: Option<Self>) -> Fate {
        let more = |count: fn(Self) -> u64| count(now?).checked_sub(count(before?));
        match (more(|of| of.begun), more(|of| of.taken)) {
            (Some(0), Some(0)) => Fate::Untouched,
            (Some(1), Some(1)) => Fate::Taken,
            // After several inputs, it is unknown which of them the counts are about.
            _ => Fate::Unknown,
        }
    }
}

/// The way in which a program reads its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Key by key: a text needs a key that submits it.
    Keys,
    /// Whole lines.
    Lines,
    /// Unknown: the holder did not report it.
    Unknown,
}

/// Cells of one row that stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The row, from 0.
    pub row: u16,
    /// The first column, from 0.
    pub from: u16,
    /// The column after the last one.
    pub to: u16,
}

impl ScreenView {
    /// Makes a screen of which only the text is known.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self {
            rows: text.lines().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// Returns how the program reads.
    #[must_use]
    pub fn reads(&self) -> Reads {
        match (self.bracketed_paste, self.reads_lines) {
            (Some(true), _) | (_, Some(false)) => Reads::Keys,
            (_, Some(true)) => Reads::Lines,
            (_, None) => Reads::Unknown,
        }
    }

    /// Returns true when earlier input waits for the program to read.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.queued.is_some_and(|bytes| bytes > 0)
    }

    /// Returns the text, a line per row.
    #[must_use]
    pub fn text(&self) -> String {
        self.rows.join("\n")
    }

    /// Returns true when cells of this row stand out.
    #[must_use]
    pub fn is_marked(&self, row: usize) -> bool {
        self.marked.iter().any(|span| usize::from(span.row) == row)
    }

    /// Returns the text of the marked cells of a row, without surrounding blanks.
    #[must_use]
    pub fn marked_text(&self, row: usize) -> Option<String> {
        let span = self
            .marked
            .iter()
            .find(|span| usize::from(span.row) == row)?;
        let cells = self.rows.get(row)?.chars();
        let width = usize::from(span.to.saturating_sub(span.from));
        let text: String = cells.skip(usize::from(span.from)).take(width).collect();
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_cells_give_their_text() {
        let view = ScreenView {
            rows: vec!["ask".into(), " Allow once   Reject ".into()],
            marked: vec![Span {
                row: 1,
                from: 0,
                to: 12,
            }],
            ..ScreenView::default()
        };
        assert_eq!(view.marked_text(1).as_deref(), Some("Allow once"));
        assert_eq!(view.marked_text(0), None);
        assert!(view.is_marked(1) && !view.is_marked(0));
    }

    #[test]
    fn program_that_asks_for_marked_pastes_reads_keys_whatever_its_terminal_does() {
        for (pastes, lines, expected) in [
            (None, None, Reads::Unknown),
            (None, Some(true), Reads::Lines),
            (Some(false), Some(true), Reads::Lines),
            (Some(false), Some(false), Reads::Keys),
            (Some(true), Some(true), Reads::Keys),
            (Some(true), None, Reads::Keys),
        ] {
            let view = ScreenView {
                bracketed_paste: pastes,
                reads_lines: lines,
                ..ScreenView::default()
            };
            assert_eq!(view.reads(), expected, "{pastes:?} {lines:?}");
        }
    }

    #[test]
    fn input_is_taken_or_untouched_only_where_its_holder_says_so() {
        let inputs = |begun, taken| Some(Inputs { begun, taken });
        for (now, expected) in [
            (inputs(3, 3), Fate::Untouched),
            (inputs(4, 4), Fate::Taken),
            (inputs(4, 3), Fate::Unknown),
            (inputs(5, 5), Fate::Unknown),
            (inputs(2, 2), Fate::Unknown),
            (None, Fate::Unknown),
        ] {
            assert_eq!(Inputs::fate(inputs(3, 3), now), expected, "{now:?}");
        }
        assert_eq!(Inputs::fate(None, inputs(4, 4)), Fate::Unknown);
    }

    #[test]
    fn a_screen_of_text_has_its_rows_and_nothing_else_is_known() {
        let view = ScreenView::of_text("a\n\nb");
        assert_eq!(view.rows, ["a", "", "b"]);
        assert_eq!((view.text().as_str(), view.reads_lines), ("a\n\nb", None));
    }
}
