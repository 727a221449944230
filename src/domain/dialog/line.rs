//! Questions at the cursor: yes or no, any key, a password.

use std::sync::LazyLock;

use regex::Regex;

use super::{Choice, Dialog, Form};
use crate::domain::screen::ScreenView;

/// `(y/n)`, `[Y/n]`, `[yes/no]`, `(Y)es/(N)o/(D)on't ask again [Yes]:`, `[(y)es, (n)o]`, and an answer that stands there
/// already.
static LETTERS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:[\[(](?:y|yes)\s*[/|]\s*(?:n|no)(?:\s*[/|][^\])]*)?[\])]|\(y\)es\s*[/,]\s*\(n\)o[^\[\]]*?\]?)\s*(?:\[[^\]]*\])?\s*[:?>]?((?:\s+[a-z]{1,3})?\s*)$",
    )
});
/// The key of one answer in `(D)on't ask again`.
static BRACKETED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\(([A-Za-z])\)([A-Za-z' ]*)"));
/// The keys that are listed in `[y/n/q/?]`.
static LISTED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)[\[(]([a-z?](?:\s*[/|]\s*[a-z?])+)[\])]"));
static ANY_KEY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:press|hit)\s+(?:the\s+)?(?:<?(?:enter|return|any key|space)>?)(?:\s+to\s+[\w ]{1,40}|\s+when\s+[\w ]{1,40})?\s*[\])]?[.:…]*\s*$",
    )
});
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)\b(?:password|passphrase|passcode|api key|token)\b[^:?]{0,80}[:?]\s*$")
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is written here and tested")
}

/// The row of the cursor, cut at the cursor; the last row with text where the cursor is not known.
fn at_cursor(view: &ScreenView) -> Option<String> {
    let Some((row, column)) = view.cursor else {
        let last = view.rows.iter().rev().find(|row| !row.trim().is_empty());
        return last.cloned();
    };
    let text = view.rows.get(usize::from(row))?;
    let before: String = text.chars().take(usize::from(column)).collect();
    // Text after the cursor is an answer that is being typed elsewhere, or decoration.
    let after: String = text.chars().skip(usize::from(column)).collect();
    after.trim().is_empty().then_some(before)
}

/// Finds a question at the cursor.
pub(super) fn find(view: &ScreenView) -> Option<Dialog> {
    let row = at_cursor(view);
    if view.hides_input == Some(true) {
        let question = row.map(|row| row.trim().to_owned());
        let question = question.filter(|row| !row.is_empty());
        return Some(Dialog {
            question: question.unwrap_or_else(|| "it reads a word that is not shown".to_owned()),
            form: Form::Secret,
            above: Vec::new(),
        });
    }
    let row = row?;
    let mut question = row.trim();
    if question.is_empty() {
        return None;
    }
    // A typed answer that waits for Enter is no part of the question.
    let asks = LETTERS.captures(&row).and_then(|found| found.get(1));
    let asks = asks.filter(|typed| typed.as_str().trim().is_empty() || view.cursor.is_some());
    let form = if let Some(typed) = asks {
        question = row[..typed.start()].trim();
        Form::Letters {
            choices: letters(question),
            typed: !typed.as_str().trim().is_empty(),
        }
    } else if ANY_KEY.is_match(&row) && !row.contains(" or ") {
        Form::AnyKey
    } else if SECRET.is_match(&row) && view.reads_lines != Some(false) {
        Form::Secret
    } else {
        return None;
    };
    Some(Dialog {
        question: question.to_owned(),
        form,
        above: Vec::new(),
    })
}

fn letters(row: &str) -> Vec<Choice> {
    let bracketed: Vec<Choice> = BRACKETED
        .captures_iter(row)
        .filter_map(|found| {
            let key = found[1].chars().next()?;
            let label = format!("{}{}", &found[1], found[2].trim_end());
            let key = Some(key.to_ascii_lowercase());
            Some(Choice {
                label,
                key,
                ticked: None,
            })
        })
        .collect();
    if bracketed.len() >= 2 {
        return bracketed;
    }
    let listed = LISTED
        .captures(row)
        .map_or("y/n", |found| found.extract::<1>().1[0]);
    let choice = |key: char| Choice {
        label: match key {
            'y' => "Yes".to_owned(),
            'n' => "No".to_owned(),
            other => other.to_string(),
        },
        key: Some(key),
        ticked: None,
    };
    let keys = listed.to_ascii_lowercase();
    keys.split(['/', '|'])
        .filter_map(|key| key.trim().chars().next())
        .map(choice)
        .collect()
}
