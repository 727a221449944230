//! Tells keys that a person typed for a dialog from those that stand in a line (`domain/begun`). Holders know no
//! dialogs: they take a choice for the begin of a line, and Enter at a dialog for the end of the line below it.

use jiff::Timestamp;

/// The state of dialogs and lines between looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Draft {
    /// Set when the last look showed a dialog.
    open: bool,
    /// The last time at which a dialog was seen open: earlier keys were for the dialog.
    asked: Option<Timestamp>,
    /// When a person last typed into a line that stood there when a dialog opened. Most programs keep that line below
    /// the dialog.
    kept: Option<Timestamp>,
}

impl Draft {
    /// Records if a dialog is open, and when a person last typed into a line that they have begun, where their keys are
    /// followed. A report of any key is not used here, because the key may have submitted the line.
    pub fn observe(&mut self, asks: bool, begun: Option<Timestamp>, now: Timestamp) {
        let was_open = std::mem::replace(&mut self.open, asks);
        let newer = begun.filter(|typed| self.is_later(*typed));
        match (was_open, asks) {
            (false, true) => self.kept = newer.or(self.kept),
            // The line could not be continued while the dialog was open.
            (true, false) => self.kept = self.kept.map(|_| now),
            // A person has continued the line, or begun another: the holder follows it again.
            (false, false) if newer.is_some() => self.kept = None,
            _ => {}
        }
        if was_open || asks {
            self.asked = Some(now);
        }
    }

    /// Records that something was submitted: a line that stood there went with it.
    pub fn submitted(&mut self) {
        if !self.open {
            self.kept = None;
        }
    }

    /// Returns when a person last typed into the line that stands in the input.
    pub fn typed_last(&self, begun: Option<Timestamp>) -> Option<Timestamp> {
        begun.filter(|typed| self.is_later(*typed)).or(self.kept)
    }

    fn is_later(&self, typed: Timestamp) -> bool {
        self.asked.is_none_or(|asked| typed > asked)
    }
}
