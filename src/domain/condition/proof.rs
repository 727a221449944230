//! What proves that an account serves a session again that told of a limit or a login.
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

/// A screen has to go on for so long: a program that is refused shows for a moment that it works, and one that
/// draws shows its input line before the rest.
const PROVES: Duration = Duration::from_secs(10);
/// A program that was given a prompt knows within this whether it is refused again.
const TRIES: Duration = Duration::from_secs(15);

/// What is known of a session since it told its account of a limit or a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Proof {
    /// Its hooks report: its screen does not prove that a model answered.
    hooked: bool,
    /// Its model answered.
    answered: bool,
    /// When a prompt was submitted that was neither answered nor refused yet.
    tries: Option<Timestamp>,
    /// Since when its screen is at work at each look.
    works: Option<Timestamp>,
    /// Since when its screen waits for text, and shows no limit and no login.
    waits: Option<Timestamp>,
    /// The last look.
    seen: Option<Timestamp>,
}

impl Proof {
    /// Its hooks report.
    pub(super) fn hears(&mut self) {
        self.hooked = true;
    }

    /// A prompt was submitted.
    pub(super) fn begins(&mut self, now: Timestamp) {
        (self.tries, self.waits) = (Some(now), None);
    }

    /// Its model answered.
    pub(super) fn answers(&mut self) {
        (self.answered, self.tries) = (true, None);
    }

    /// The account is told of a limit or login: what was before proves nothing.
    pub(super) fn starts_over(&mut self) {
        *self = Self {
            hooked: self.hooked,
            tries: self.tries,
            ..Self::default()
        };
    }

    /// Takes in a look at the screen.
    pub(super) fn saw(&mut self, sighting: &Sighting, now: Timestamp) {
        let since = |since: Option<Timestamp>, holds: bool| holds.then(|| since.unwrap_or(now));
        let waits = sighting.goes_on && !sighting.works && sighting.marks == 0;
        self.works = since(self.works, sighting.works);
        self.waits = since(self.waits, waits);
        self.seen = Some(now);
    }

    /// Whether a prompt was submitted a moment ago, so that a spinner says nothing.
    pub(super) fn is_tried(&self, now: Timestamp) -> bool {
        self.tries
            .is_some_and(|at| now.duration_since(at).unsigned_abs() < TRIES)
    }

    /// Whether the trouble is over.
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

    /// Whether a later look may find that it is, although nothing was written since.
    pub(super) fn is_pending(&self) -> bool {
        self.works.or(self.waits).is_some()
    }
}
