//! A first prompt that was pasted and not submitted: whether it still stands in the input line, and what a person may have
//! done with it.

use serde::{Deserialize, Serialize};

use super::super::screen::ScreenView;
use super::super::unsubmitted::Unsubmitted;

/// The prompt as it was pasted, and what was seen of it since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pasted {
    text: Unsubmitted,
    times: u32,
    /// It was seen to stand in the input line since.
    was_shown: bool,
    /// The last look saw it there.
    is_shown: bool,
    /// A person was at the terminal since it was seen there last.
    touched: bool,
    /// Keys were typed for a person, or Enter for the supervisor, that may have submitted it.
    pressed: bool,
    submitted: bool,
}

impl Pasted {
    /// A prompt that was pasted now, for the first time or again.
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

    /// What stands in the input line, if it does.
    #[must_use]
    pub fn text(&self) -> &Unsubmitted {
        &self.text
    }

    /// How often it was pasted.
    #[must_use]
    pub fn times(&self) -> u32 {
        self.times
    }

    /// Whether the last look saw it in the input line.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Whether its program has said that it was submitted.
    #[must_use]
    pub fn is_submitted(&self) -> bool {
        self.submitted
    }

    /// Whether it may have been submitted by a person: it stood in the input line, they were there, and it has gone.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.was_shown && !self.is_shown && (self.touched || self.pressed)
    }

    /// A look at the screen; `attached` where it is known whether a person is.
    pub fn saw(&mut self, view: &ScreenView, attached: Option<bool>) {
        self.is_shown = self.text.is_shown(view);
        self.was_shown |= self.is_shown;
        match attached {
            // What they did before left it there.
            Some(attached) if self.is_shown => self.touched = attached,
            attached => self.touched |= attached.unwrap_or_default(),
        }
    }

    /// Keys were typed for a person.
    pub fn pressed(&mut self) {
        // What they pressed before was for something else.
        self.pressed |= self.was_shown;
    }

    /// Enter was sent behind it, and may have been taken.
    #[must_use]
    pub fn entered(mut self) -> Self {
        (self.was_shown, self.pressed) = (true, true);
        self
    }

    /// No supervisor has looked for a while.
    #[must_use]
    pub fn unwatched(mut self) -> Self {
        self.touched = true;
        self
    }

    /// Its program has begun to work at something: at this, if it stood in the input line. Returns whether it did.
    pub fn begins(&mut self) -> bool {
        self.submitted |= self.is_shown;
        self.submitted
    }

    /// It was submitted.
    pub fn submits(&mut self) {
        self.submitted = true;
    }
}
