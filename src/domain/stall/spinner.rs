//! Detects a session that is alive and does nothing: its spinner turns, its clock runs, and nothing else happens for a
//! long time. Some programs wait like that, for hours, for the end of a limit that they do not show; others think, or
//! run a long command. The two cannot be told apart, so the session is left alone: a person is called, and its
//! condition says so. A command that still runs gets more time.

use std::time::Duration;

use super::{Depth, Policy};
use crate::domain::restart::Mono;

/// The session is left alone for this many times `stall_after` while a command of its own runs.
pub const PATIENCE: u32 = 3;
/// The costly marks are observed for the first time after one part in this many of `stall_after`: a comparison needs an
/// earlier observation.
const FIRST: u32 = 2;
/// A program draws the command that it starts, so a command is as old as the present screen. It may be drawn this much
/// later.
const DRAWN_LATE: Duration = Duration::from_secs(60);
/// A session that uses more than one part in this many of a processor computes. A spinner uses less.
const COMPUTES: u32 = 4;
/// A session without output for this long shows no spinner: it is silent, which is another case.
const QUIET: Duration = Duration::from_secs(60);

/// The state of a screen that only moves.
#[derive(Debug, Clone)]
pub struct SpinnerWatch {
    picture: Option<u64>,
    /// Since when nothing else happened.
    since: Mono,
    /// When it was last observed to write, or to be quiet.
    heard: Mono,
    /// The previous costly marks, and when they were observed.
    before: Option<(Depth, Mono)>,
    /// Set when a command of its own ran then.
    runs: bool,
    called: bool,
    /// Set when people may have been called, and were not told yet that it goes on.
    open: bool,
    /// Set when something else happened since.
    moved: bool,
}

impl SpinnerWatch {
    /// Starts to watch a session. An earlier supervisor may have called people to it.
    #[must_use]
    pub fn new(picture: Option<u64>, now: Mono) -> Self {
        Self {
            picture,
            since: now,
            heard: now,
            before: None,
            runs: false,
            called: false,
            open: true,
            moved: false,
        }
    }

    /// Records the fingerprint of the screen, if it was written to, and if anything else happened. A screen that cannot
    /// be seen may have changed.
    pub fn observe(&mut self, picture: Option<u64>, writes: bool, moves: bool, now: Mono) {
        let quiet = !writes && now.saturating_sub(self.heard) >= QUIET;
        if writes || quiet {
            self.heard = now;
        }
        if moves || quiet || picture.is_none() || picture != self.picture {
            self.picture = picture;
            self.begin(now);
        }
    }

    /// Records a declared wait, which is a reason to show only a spinner.
    pub fn waited(&mut self, now: Mono) {
        self.begin(now);
    }

    fn begin(&mut self, now: Mono) {
        (self.since, self.before, self.runs) = (now, None, false);
        (self.called, self.moved) = (false, true);
    }

    /// Returns true when the costly marks are to be observed: once before `stall_after`, and once more before a person
    /// is called.
    #[must_use]
    pub fn is_due(&self, policy: &Policy, now: Mono) -> bool {
        let still = now.saturating_sub(self.since);
        let patience = if self.runs { PATIENCE } else { 1 };
        match self.before {
            None => still >= policy.after / FIRST,
            // Both observations must be far enough apart to be compared.
            Some((_, at)) => {
                let apart = now.saturating_sub(at) >= policy.after / FIRST;
                !self.called && apart && still >= policy.after * patience
            }
        }
    }

    /// Returns the maximum age of a command of its own.
    #[must_use]
    pub fn commands_since(&self, now: Mono) -> Duration {
        now.saturating_sub(self.since) + DRAWN_LATE
    }

    /// Records the costly marks, and if a command of its own runs. When a person is to be called, returns how long only
    /// a spinner was seen.
    pub fn sounded(
        &mut self,
        depth: Depth,
        runs: bool,
        policy: &Policy,
        now: Mono,
    ) -> Option<Duration> {
        if !self.is_due(policy, now) {
            return None;
        }
        let Some((before, at)) = &self.before else {
            self.before = Some((depth, now));
            return None;
        };
        let used = depth.cpu.saturating_sub(before.cpu);
        if depth.changes != before.changes || used > now.saturating_sub(*at) / COMPUTES {
            self.begin(now);
            return None;
        }
        if runs && now.saturating_sub(self.since) < policy.after * PATIENCE {
            (self.before, self.runs) = (Some((depth, now)), true);
            return None;
        }
        (self.called, self.open, self.moved) = (true, true, false);
        Some(now.saturating_sub(self.since))
    }

    /// Records that the person could not be called: the next look tries again.
    pub fn was_not_called(&mut self) {
        self.called = false;
    }

    /// Returns true once when it goes on after people may have been called.
    pub fn goes_on(&mut self) -> bool {
        self.moved && std::mem::take(&mut self.open)
    }

    /// Records that people could not be told that it goes on: the next look tries again.
    pub fn was_not_told(&mut self) {
        self.open = true;
    }
}
