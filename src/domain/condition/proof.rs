//! The proof that an account serves a session again after a reported limit or login.
//!
//! ```text
//!   a prompt was submitted ──► nothing: it may be refused like the one before
//!   its model answered (hook) ──► proof
//!   the screen is at work ──► proof after a while, where no hook tells of answers
//!   the screen waits for text, and shows no limit and no login ──► proof of a login after a while
//! ```

use std::time::Duration;

use jiff::Timestamp;

use super::Sighting;
use crate::domain::account::Why;

/// Minimum duration of a sign on the screen: a refused program looks busy for a moment, and a program that draws shows
/// its input line before the rest.
const PROVES: Duration = Duration::from_secs(10);
/// A program knows within this time if a prompt is refused again.
const TRIES: Duration = Duration::from_secs(15);

/// The evidence since the session reported a limit or a login to its account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Proof {
    /// Set when its hooks report: its screen alone then proves no answer of the model.
    hooked: bool,
    /// Set when its model answered.
    answered: bool,
    /// When a prompt was submitted that was neither answered nor refused yet.
    tries: Option<Timestamp>,
    /// Since when each look shows its screen at work.
    works: Option<Timestamp>,
    /// Since when its screen waits for text, without a limit or login.
    waits: Option<Timestamp>,
    /// Time of the last look.
    seen: Option<Timestamp>,
}

impl Proof {
    /// Records that its hooks report.
    pub(super) fn hears(&mut self) {
        self.hooked = true;
    }

    /// Records that a prompt was submitted.
    pub(super) fn begins(&mut self, now: Timestamp) {
        (self.tries, self.waits) = (Some(now), None);
    }

    /// Records that its model answered.
    pub(super) fn answers(&mut self) {
        (self.answered, self.tries) = (true, None);
    }

    /// Starts over, because the account is told of a limit or login: earlier evidence does not count.
    pub(super) fn starts_over(&mut self) {
        *self = Self {
            hooked: self.hooked,
            tries: self.tries,
            ..Self::default()
        };
    }

    /// Records a look at the screen.
    pub(super) fn observe(&mut self, sighting: &Sighting, now: Timestamp) {
        let since = |since: Option<Timestamp>, holds: bool| holds.then(|| since.unwrap_or(now));
        let waits = sighting.goes_on && !sighting.works && sighting.marks == 0;
        self.works = since(self.works, sighting.works);
        self.waits = since(self.waits, waits);
        self.seen = Some(now);
    }

    /// Returns true when a prompt was submitted a moment ago, so that a spinner proves nothing.
    pub(super) fn is_tried(&self, now: Timestamp) -> bool {
        self.tries
            .is_some_and(|at| now.duration_since(at).unsigned_abs() < TRIES)
    }

    /// Returns true when the trouble is over.
    pub(super) fn is_given(&self, why: Why) -> bool {
        let long = |since: Option<Timestamp>| {
            let since = since.zip(self.seen);
            since.is_some_and(|(since, seen)| seen.duration_since(since).unsigned_abs() >= PROVES)
        };
        let works = !self.hooked && long(self.works);
        match why {
            Why::RateLimited => self.answered || works,
            Why::Auth => self.answered || works || long(self.waits),
        }
    }

    /// Returns true when a later look may give the proof even without new output.
    pub(super) fn is_pending(&self) -> bool {
        self.works.or(self.waits).is_some()
    }
}
