//! Which of a person's keys were for a dialog, and which stand in a line (`domain/begun`). Holders know no dialogs: a
//! choice begins a line for them, and Enter at a dialog ends the one below it.

use jiff::Timestamp;

/// What is remembered of dialogs and lines from look to look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Draft {
    /// The last look showed a dialog.
    open: bool,
    /// Until when one is known to have been open: keys that were typed before were its own.
    asked: Option<Timestamp>,
    /// When a person typed last into a line that stood there when a dialog opened. Most programs keep it below.
    kept: Option<Timestamp>,
}

impl Draft {
    /// Takes in whether a dialog is open, and when a person who has begun a line typed last, where their keys are
    /// followed. Any key at all is no line: it may have submitted one.
    pub fn saw(&mut self, asks: bool, begun: Option<Timestamp>, now: Timestamp) {
        let was_open = std::mem::replace(&mut self.open, asks);
        let newer = begun.filter(|typed| self.is_later(*typed));
        match (was_open, asks) {
            (false, true) => self.kept = newer.or(self.kept),
            // It could not be gone on with while the dialog stood before it.
            (true, false) => self.kept = self.kept.map(|_| now),
            // Who went on with it, or began another, is followed by the holder again.
            (false, false) if newer.is_some() => self.kept = None,
            _ => {}
        }
        if was_open || asks {
            self.asked = Some(now);
        }
    }

    /// Something was submitted: a line that stood there before went with it.
    pub fn submitted(&mut self) {
        if !self.open {
            self.kept = None;
        }
    }

    /// When a person typed last into the line that stands in the input.
    pub fn typed_last(&self, begun: Option<Timestamp>) -> Option<Timestamp> {
        begun.filter(|typed| self.is_later(*typed)).or(self.kept)
    }

    fn is_later(&self, typed: Timestamp) -> bool {
        self.asked.is_none_or(|asked| typed > asked)
    }
}
