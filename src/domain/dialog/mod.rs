//! Dialogs on an agent's screen: decides if the program waits for text, or asks a question that a text would answer by
//! accident (issue "nothing types blindly").
//!
//! ```text
//!  ScreenView ──► patterns of the harness ──► a dialog that it is known to ask
//!             ├─► buttons.rs: choices side by side
//!             ├─► menu.rs: a list with one selected row
//!             ├─► line.rs: "[y/N]", "Press Enter", "Password:" at the cursor
//!             ├─► the input line of its patterns ──► Ready
//!             ├─► no patterns of one: reads lines, or asked for marked pastes ──► Ready
//!             └─► none of these ──► Unrecognised: nothing is typed
//! ```
//!
//! `answer.rs` decides which keys choose an entry, and when the dialog has closed.

pub mod answer;
mod buttons;
mod line;
mod menu;
mod several;

use std::sync::LazyLock;

use regex::Regex;

use super::question::{Pattern, asked};
use super::screen::{Reads, ScreenView};
use super::terminal_text::at_rest;

pub use self::answer::{Answering, Reply, Step, Unanswerable, choose};
pub use self::several::Several;

/// A question of a program to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialog {
    /// The question, one line.
    pub question: String,
    /// The form of its answer.
    pub form: Form,
    /// The rows above its choices, from top to bottom, which show what the question is about: two dialogs may have the
    /// same question and the same choices. Empty where the question is at the cursor.
    pub above: Vec<String>,
}

/// The form in which a dialog takes its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// A list with a selected entry: a number key, or arrows and Enter.
    Menu {
        /// The entries from top to bottom.
        choices: Vec<Choice>,
        /// The selected entry, where it can be seen.
        selected: Option<usize>,
        /// Set when entries are ticked one by one, and submitted together.
        multiple: bool,
        /// The keys for that, where the dialog names them.
        several: Option<Several>,
        /// Set when entries stand side by side: left and right move the selection.
        across: bool,
    },
    /// A letter at the cursor: `[y/N]`.
    Letters {
        /// The answers that it names.
        choices: Vec<Choice>,
        /// Set when an answer stands there already, and waits for Enter.
        typed: bool,
    },
    /// Any key: "Press Enter to continue".
    AnyKey,
    /// A word that the screen hides: a password.
    Secret,
    /// The harness's patterns match, but the form of the answer is unknown.
    Unrecognised,
}

/// A possible answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its text.
    pub label: String,
    /// The key that chooses it, where the dialog shows one.
    pub key: Option<char>,
    /// True when it is ticked; none where it has no box.
    pub ticked: Option<bool>,
}

/// The key that a label names at its end: "Yes, proceed (y)", "No (esc)".
static NAMED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\((esc|[a-z])\)$").expect("the pattern is tested"));

impl Choice {
    /// Returns the key that its label names.
    fn named(&self) -> Option<&str> {
        let found = NAMED.captures(&self.label)?;
        found.get(1).map(|key| key.as_str())
    }
}

/// The readiness of a screen for text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// The program takes text.
    Ready,
    /// A dialog is open.
    Asks(Dialog),
    /// The screen does not tell what the program would do with a text.
    Unrecognised,
}

/// Patterns of a harness's screens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Looks<'a> {
    /// A question to a person (`needs_input_patterns`).
    pub asks: &'a [Pattern],
    /// The line that takes text (`input_patterns`).
    pub input: &'a [Pattern],
}

impl Dialog {
    /// Returns the entries that can be chosen, as a person sees them.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        match &self.form {
            Form::Menu { choices, .. } | Form::Letters { choices, .. } => choices,
            Form::AnyKey | Form::Secret | Form::Unrecognised => &[],
        }
    }

    /// Returns true when both are the same question with the same answers, whatever is selected.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let labels = |dialog: &Self| -> Vec<String> {
            let labels = dialog.choices().iter();
            labels.map(|choice| choice.label.clone()).collect()
        };
        self.question == other.question && labels(self) == labels(other)
    }

    /// Returns true when both look the same, apart from the text above them and input behind them.
    #[must_use]
    pub fn looks_like(&self, other: &Self) -> bool {
        let ticks = |dialog: &Self| -> Vec<Option<bool>> {
            let choices = dialog.choices().iter();
            choices.map(|choice| choice.ticked).collect()
        };
        self.is_same(other) && self.selected() == other.selected() && ticks(self) == ticks(other)
    }

    fn selected(&self) -> Option<usize> {
        match self.form {
            Form::Menu { selected, .. } => selected,
            _ => None,
        }
    }

    /// Returns true when both stand below the same text, apart from spinners and clocks. One may show more of the text
    /// than the other.
    #[must_use]
    pub fn is_below_the_same(&self, other: &Self) -> bool {
        let mut rows = self.above.iter().rev().zip(other.above.iter().rev());
        rows.all(|(one, other)| at_rest(one) == at_rest(other))
    }
}

/// Finds the open dialog.
#[must_use]
pub fn find(looks: &Looks<'_>, view: &ScreenView) -> Option<Dialog> {
    let text = view.text();
    let known = asked(looks.asks, &text);
    let seen = match view.hides_input {
        // A question further up was answered.
        Some(true) => line::find(view),
        _ => buttons::find(view)
            .or_else(|| menu::find(view))
            .or_else(|| line::find(view)),
    };
    match (known, seen) {
        // A pattern may match the hint about keys, while the question stands above the choices.
        (Some(_), Some(seen)) if seen.question.contains('?') => Some(seen),
        (Some(found), Some(seen)) => Some(Dialog {
            question: match menu::is_hint(&found) {
                true => seen.question,
                false => found,
            },
            ..seen
        }),
        (Some(question), None) => Some(Dialog {
            question,
            form: Form::Unrecognised,
            above: Vec::new(),
        }),
        // A harness that shows its input line asks nothing, even if its text looks like a dialog.
        (None, Some(_)) if asked(looks.input, &text).is_some() => None,
        (None, seen) => seen,
    }
}

/// Returns the readiness for text. Where the input line of a program is known, any other screen of it is unrecognised:
/// a panel of a later version would take a paste for keys.
#[must_use]
pub fn readiness(looks: &Looks<'_>, view: &ScreenView) -> Readiness {
    if let Some(dialog) = find(looks, view) {
        return Readiness::Asks(dialog);
    }
    let takes = match looks.input {
        [] => view.reads() != Reads::Keys || view.bracketed_paste == Some(true),
        input => asked(input, &view.text()).is_some(),
    };
    match takes {
        true => Readiness::Ready,
        false => Readiness::Unrecognised,
    }
}

#[cfg(test)]
mod tests;
