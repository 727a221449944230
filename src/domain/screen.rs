//! The screen of a session as one look saw it: text, marked cells, cursor, and how the program reads
//! its terminal. Everything that is concluded from a screen is concluded from this
//! (`domain/dialog`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A screen at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScreenView {
    /// One text per row, without blanks at its end; blank rows at the end are cut.
    pub rows: Vec<String>,
    /// Cells that stand out by inverse video, or by a background that few cells have. Menus without a
    /// marker show their selection so.
    #[serde(default)]
    pub marked: Vec<Span>,
    /// Row and column of the cursor, from 0; none where it is not known.
    #[serde(default)]
    pub cursor: Option<(u16, u16)>,
    /// Whether the program asked for pastes to be marked; none where it is not known.
    #[serde(default)]
    pub bracketed_paste: Option<bool>,
    /// Whether the kernel hands the program whole lines (canonical mode); none where it is not known.
    #[serde(default)]
    pub reads_lines: Option<bool>,
    /// Whether the terminal hides what is typed while the program reads lines, as for a password; none where it is
    /// not known.
    #[serde(default)]
    pub hides_input: Option<bool>,
    /// When a person typed last, if they have begun a line and not submitted it (`domain/begun`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// When a person who is attached pressed any key, where which one is not seen: they may have begun a line. Only of
    /// the last seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Timestamp>,
    /// Bytes that were typed and that the program has left no room for yet; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
    /// What became of the inputs that the holder was given; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
}

/// How many inputs a terminal was given since its session began. The keys of a person who is attached are none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inputs {
    /// It has taken a part of so many, or may have.
    pub begun: u64,
    /// It has taken all of so many.
    pub taken: u64,
}

/// What became of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The terminal has taken all of it.
    Taken,
    /// It has taken nothing of it.
    Untouched,
    /// It has taken a part of it, or that is not known.
    Unknown,
}

impl Inputs {
    /// Says what became of the one input that was sent between two looks.
    #[must_use]
    pub fn fate(before: Option<Self>, now: Option<Self>) -> Fate {
        let more = |count: fn(Self) -> u64| count(now?).checked_sub(count(before?));
        match (more(|of| of.begun), more(|of| of.taken)) {
            (Some(0), Some(0)) => Fate::Untouched,
            (Some(1), Some(1)) => Fate::Taken,
            // After several, it is not known which of them is meant.
            _ => Fate::Unknown,
        }
    }
}

/// How a program reads its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Key by key: a text needs a key that submits it.
    Keys,
    /// Whole lines.
    Lines,
    /// A holder of an older version does not tell.
    Unknown,
}

/// Cells of one row that stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The row, from 0.
    pub row: u16,
    /// The first column, from 0.
    pub from: u16,
    /// The column behind the last one.
    pub to: u16,
}

impl ScreenView {
    /// A screen of which nothing but the text is known, as older holders give it.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self {
            rows: text.lines().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// How the program reads.
    #[must_use]
    pub fn reads(&self) -> Reads {
        match (self.bracketed_paste, self.reads_lines) {
            (Some(true), _) | (_, Some(false)) => Reads::Keys,
            (_, Some(true)) => Reads::Lines,
            (_, None) => Reads::Unknown,
        }
    }

    /// Whether what was typed before waits for the program to read.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.queued.is_some_and(|bytes| bytes > 0)
    }

    /// The text, one line per row.
    #[must_use]
    pub fn text(&self) -> String {
        self.rows.join("\n")
    }

    /// Whether cells of this row stand out.
    #[must_use]
    pub fn is_marked(&self, row: usize) -> bool {
        self.marked.iter().any(|span| usize::from(span.row) == row)
    }

    /// The text of the marked cells of a row, without blanks around it.
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
