//! A session that lives and does nothing: its spinner turns, its clock runs, and for a long time nothing else happens.
//! Some programs wait like that, for hours, for the end of a limit that they do not show. Others think, or run a long command.
//! Which of them it is cannot be told, so nothing is done to the session: a person is called, and its condition says so. A
//! command that still runs is left more time.

use std::time::Duration;

use super::{Depth, Policy};
use crate::domain::restart::Mono;

/// So many times `stall_after` it is left alone while a command of its own runs.
pub const PATIENCE: u32 = 3;
/// What is costly to see is looked at for the first time after one part in this many of `stall_after`: there has to be
/// something to compare with.
const FIRST: u32 = 2;
/// A program draws the command that it starts, so a command is as old as what stands on the screen. It may be drawn late.
const DRAWN_LATE: Duration = Duration::from_secs(60);
/// A session that uses more than one part in this many of one processor computes something. A spinner takes less.
const COMPUTES: u32 = 4;
/// A session that writes nothing for so long shows no spinner: it is silent, which is another matter.
const QUIET: Duration = Duration::from_secs(60);

/// What is remembered of a screen that only moves.
#[derive(Debug, Clone)]
pub struct Still {
    picture: Option<u64>,
    /// Since when nothing else happened.
    since: Mono,
    /// When it was seen to have written last, or to have been quiet.
    heard: Mono,
    /// What was costly to see before, and when that was.
    before: Option<(Depth, Mono)>,
    /// A command of its own ran then.
    runs: bool,
    called: bool,
    /// People may have been called, and were not told yet that it goes on.
    open: bool,
    /// Something else happened since.
    moved: bool,
}

impl Still {
    /// A session that is seen for the first time. An earlier supervisor may have called people to it.
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

    /// Takes in what stands for the screen, whether it was written to, and whether anything else happened. What cannot be
    /// seen may have changed.
    pub fn saw(&mut self, picture: Option<u64>, writes: bool, moves: bool, now: Mono) {
        let quiet = !writes && now.saturating_sub(self.heard) >= QUIET;
        if writes || quiet {
            self.heard = now;
        }
        if moves || quiet || picture.is_none() || picture != self.picture {
            self.picture = picture;
            self.begin(now);
        }
    }

    /// A wait that is declared is a reason to show nothing but a spinner.
    pub fn waited(&mut self, now: Mono) {
        self.begin(now);
    }

    fn begin(&mut self, now: Mono) {
        (self.since, self.before, self.runs) = (now, None, false);
        (self.called, self.moved) = (false, true);
    }

    /// Whether what is costly to see is to be looked at: once before `stall_after`, and once more before a person is
    /// called.
    #[must_use]
    pub fn is_due(&self, policy: &Policy, now: Mono) -> bool {
        let still = now.saturating_sub(self.since);
        let patience = if self.runs { PATIENCE } else { 1 };
        match self.before {
            None => still >= policy.after / FIRST,
            // Both are far enough apart to be compared.
            Some((_, at)) => {
                let apart = now.saturating_sub(at) >= policy.after / FIRST;
                !self.called && apart && still >= policy.after * patience
            }
        }
    }

    /// How old a command of its own may be.
    #[must_use]
    pub fn commands_since(&self, now: Mono) -> Duration {
        now.saturating_sub(self.since) + DRAWN_LATE
    }

    /// Takes in what is costly to see, and whether a command of its own runs. Returns how long only a spinner was seen,
    /// when a person is to be called.
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

    /// The person could not be called: the next look tries again.
    pub fn was_not_called(&mut self) {
        self.called = false;
    }

    /// Whether it goes on after people may have been called. Asked once.
    pub fn goes_on(&mut self) -> bool {
        self.moved && std::mem::take(&mut self.open)
    }

    /// People could not be told that it goes on: the next look tries again.
    pub fn was_not_told(&mut self) {
        self.open = true;
    }
}
