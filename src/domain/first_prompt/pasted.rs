//! A first prompt that was pasted and not submitted: decides if it still stands in the input line, and what a person
//! may have done with it.

use serde::{Deserialize, Serialize};

use super::super::screen::ScreenView;
use super::super::unsubmitted::Unsubmitted;

/// The pasted prompt, and the observations since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pasted {
    text: Unsubmitted,
    times: u32,
    /// Set once it was seen in the input line.
    was_shown: bool,
    /// Set when the last look saw it there.
    is_shown: bool,
    /// Set when a person was at the terminal since it was last seen there.
    touched: bool,
    /// Set when keys were typed for a person, or Enter for the supervisor, that may have submitted it.
    pressed: bool,
    submitted: bool,
}

impl Pasted {
    /// Records a prompt that was pasted now, for the first time or again.
    #[must_use]
    pub fn new(text: Unsubmitted, times: u32) -> Self {
        Self {
            text,
            times,
            was_shown: false,
            is_shown: false,
            touched: false,
            pressed: false,
            submitted: false,
        }
    }

    /// Returns the text that may stand in the input line.
    #[must_use]
    pub fn text(&self) -> &Unsubmitted {
        &self.text
    }

    /// Returns the number of pastes.
    #[must_use]
    pub fn times(&self) -> u32 {
        self.times
    }

    /// Returns true when the last look saw it in the input line.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Returns true when its program has reported that it was submitted.
    #[must_use]
    pub fn is_submitted(&self) -> bool {
        self.submitted
    }

    /// Returns true when a person may have submitted it: it stood in the input line, they were there, and it is gone.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.was_shown && !self.is_shown && (self.touched || self.pressed)
    }

    /// Records a look at the screen; `attached` where it is known if a person is attached.
    pub fn observe(&mut self, view: &ScreenView, attached: Option<bool>) {
        self.is_shown = self.text.is_shown(view);
        self.was_shown |= self.is_shown;
        match attached {
            // Earlier keys of that person left it there.
            Some(attached) if self.is_shown => self.touched = attached,
            attached => self.touched |= attached.unwrap_or_default(),
        }
    }

    /// Records that keys were typed for a person.
    pub fn pressed(&mut self) {
        // Earlier keys were for something else.
        self.pressed |= self.was_shown;
    }

    /// Records that Enter was sent after it, and may have been taken.
    #[must_use]
    pub fn entered(mut self) -> Self {
        (self.was_shown, self.pressed) = (true, true);
        self
    }

    /// Records that no supervisor has looked for a while.
    #[must_use]
    pub fn unwatched(mut self) -> Self {
        self.touched = true;
        self
    }

    /// Records that its program has begun to work: at this prompt, if it stood in the input line. Returns true in that
    /// case.
    pub fn begins(&mut self) -> bool {
        self.submitted |= self.is_shown;
        self.submitted
    }

    /// Records that it was submitted.
    pub fn submits(&mut self) {
        self.submitted = true;
    }
}
