//! Decides if a session that should work is stalled, and the next step against it (`raider-lifecycle.md`, stalled;
//! `contract.md`, `stall_after` and `nudges`).
//!
//! ```text
//!                    silent            silent for `stall_after`, and for as long again before each step
//!  Fresh ──────────────────► Deeper ──────────────────────────► Nudge … Nudge ─► Restart ─► Escalate ─► Called
//!    ▲                                                                                                    │
//!    └───── work (HEAD, dirty set, relic): at once; signs (output, CPU): once they went on for a while ◄──┘
//! ```
//!
//! Every channel is a mark that is compared with the previous one, and silence is measured on the monotonic clock. No
//! time stamp is trusted, so a jump of the wall clock stalls no session. The costly channels (dirty set, CPU) are
//! observed only while all others are silent, and count as silent from that observation on: a step may come a little
//! late, and never early. While a channel cannot be observed no step is taken; after `stall_after` of that, a person is
//! called.
//!
//! A session whose screen only moves (a spinner that turns for hours) gives signs for ever. That is no stall, for a
//! long command looks the same, but a person is called ([`SpinnerWatch`]).
//!
//! The answer to a nudge is a sign, and so is its echo on the terminal: both begin a new silence, but only activity
//! that lasts for `stall_after` takes a step back. Otherwise a session that answers each nudge and hangs again would
//! never be restarted, and no person would be called.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::spinner::SpinnerWatch;
use super::ids::Incarnation;
use super::restart::Mono;

mod spinner;

/// A program that uses less than one part in this many of a processor is idle.
const IDLE: u32 = 50;
/// Silence for one part in this many of `stall_after` is worth a deeper look.
const WORTH: u32 = 10;

/// The marks of a session that are cheap to observe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Token of the session.
    pub session: String,
    /// Time of the last output on its terminal.
    pub output: Option<Timestamp>,
    /// HEAD, reflog and index of its sandbox; none while they cannot be observed.
    pub git: Option<String>,
    /// The relic that it works on.
    pub relic: String,
    /// Fingerprint of the screen without spinners and clocks; none while the screen cannot be seen.
    pub picture: Option<u64>,
}

/// The marks of a session that are costly to observe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Depth {
    /// The uncommitted content of its sandbox.
    pub changes: String,
    /// Processor time used by its processes.
    pub cpu: Duration,
}

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Nothing new.
    None,
    /// The session is alive: output, processor time.
    Sign,
    /// The work advances: a commit, a changed file, a changed relic.
    Work,
}

/// The action to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Wait until then.
    Fresh {
        /// Time of the next look that is worthwhile.
        until: Mono,
    },
    /// Observe the costly marks, and judge again.
    Deeper,
    /// Its screen only moves: observe the costly marks ([`SpinnerWatch`]).
    Spins,
    /// Nudge the agent; the value is the attempt number.
    Nudge(u32),
    /// End the session and start a fresh one.
    Restart,
    /// Call a person.
    Escalate,
    /// Nothing: a person has been called.
    Called,
}

/// The thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// `stall_after`.
    pub after: Duration,
    /// `nudges`.
    pub nudges: u32,
}

/// The steps taken against a stalled raider so far; kept in the store, so that no step is repeated after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// The raider's incarnation.
    pub incarnation: Incarnation,
    /// When its last progress was seen.
    pub since: Timestamp,
    /// The number of nudges sent.
    pub nudges: u32,
    /// The session that was to be restarted.
    pub ended: Option<String>,
    /// Set when a person was called.
    pub called: bool,
}

/// A wait that a session declared with `hd wait`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Token of the session that declared it.
    pub session: String,
    /// When it was declared.
    pub at: Timestamp,
    /// When it ends.
    pub until: Timestamp,
    /// The reason, in the agent's words.
    pub reason: String,
}

impl Steps {
    /// Starts the record of a stall, with no step taken.
    #[must_use]
    pub fn none(incarnation: Incarnation, since: Timestamp) -> Self {
        Self {
            incarnation,
            since,
            nudges: 0,
            ended: None,
            called: false,
        }
    }
}

/// Returns the first step that was not taken yet.
fn next_step(policy: &Policy, steps: Option<&Steps>, session: &str) -> Verdict {
    let told = steps.map_or(0, |steps| steps.nudges);
    match steps.and_then(|steps| steps.ended.as_deref()) {
        None if told < policy.nudges => Verdict::Nudge(told + 1),
        None => Verdict::Restart,
        // The session was to be ended and still runs: the earlier attempt was interrupted.
        Some(ended) if ended == session => Verdict::Restart,
        Some(_) if steps.is_some_and(|steps| steps.called) => Verdict::Called,
        Some(_) => Verdict::Escalate,
    }
}

/// The state of one session between looks.
#[derive(Debug, Clone)]
pub struct Watch {
    marks: Marks,
    /// When activity was last observed.
    since: Mono,
    /// When the last step was taken, or the session was first seen.
    stepped: Mono,
    depth: Option<Sounding>,
    /// The end of the declared wait, on both clocks.
    wait: Option<(Timestamp, Mono)>,
    /// Since when a cheap mark cannot be observed.
    unseen: Option<Mono>,
    /// Since when the costly marks cannot be observed.
    unsounded: Option<Mono>,
    /// Set when people may have been called because the session cannot be observed.
    lost: bool,
    /// Tracks if the screen only moves.
    pub still: SpinnerWatch,
}

#[derive(Debug, Clone)]
struct Sounding {
    depth: Depth,
    /// The first sounding of this silence.
    first: Mono,
    /// The last sounding.
    last: Mono,
}

impl Watch {
    /// Starts to watch a session, which counts as active until now.
    #[must_use]
    pub fn new(marks: Marks, now: Mono) -> Self {
        Self {
            still: SpinnerWatch::new(marks.picture, now),
            marks,
            since: now,
            stepped: now,
            depth: None,
            wait: None,
            unseen: None,
            unsounded: None,
            lost: true,
        }
    }

    /// Returns the token of the session.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.marks.session
    }

    /// Returns the time since the last activity.
    #[must_use]
    pub fn silence(&self, now: Mono) -> Duration {
        now.saturating_sub(self.since)
    }

    /// Compares the cheap marks. A person at the terminal, or called to it, counts as a sign in any case. A mark that
    /// cannot be observed is compared when it can be again.
    pub fn compare(&mut self, mut marks: Marks, attended: bool, now: Mono) -> Progress {
        let before = self.marks.git.take();
        let first = before.is_none() && marks.git.is_some();
        marks.git = marks.git.or_else(|| before.clone());
        let committed = before.is_some() && marks.git != before;
        let progress = if committed || marks.relic != self.marks.relic {
            Progress::Work
        } else if attended || first || marks.output != self.marks.output {
            Progress::Sign
        } else {
            Progress::None
        };
        if progress > Progress::None {
            self.since = now;
            (self.depth, self.unsounded) = (None, None);
        }
        let moves = attended || progress == Progress::Work;
        let writes = marks.output != self.marks.output;
        self.still.observe(marks.picture, writes, moves, now);
        self.marks = marks;
        progress
    }

    /// Records if all cheap marks could be observed.
    pub fn sighted(&mut self, all: bool, now: Mono) {
        self.unseen = (!all).then(|| self.unseen.unwrap_or(now));
    }

    /// Records that the costly marks could not be observed.
    pub fn unsounded(&mut self, now: Mono) {
        self.unsounded.get_or_insert(now);
    }

    /// Returns true when people are to be called because the session cannot be observed: marks are missing, and the
    /// rest is silent, for `stall_after`. A new silence begins then.
    pub fn is_lost(&mut self, policy: &Policy, now: Mono) -> bool {
        let long = |since: &Mono| now.saturating_sub(*since) >= policy.after;
        let blind = [self.unseen, self.unsounded].iter().flatten().any(long);
        let lost = blind && long(&self.since);
        if lost {
            self.lost = true;
            self.again(now);
        }
        lost
    }

    /// Returns true once when the session, which may have been lost, can be observed again.
    pub fn is_found(&mut self) -> bool {
        let seen = self.unseen.is_none() && self.unsounded.is_none();
        seen && std::mem::take(&mut self.lost)
    }

    /// Compares the costly marks; the first call has nothing to compare with.
    pub fn look_deeper(&mut self, depth: Depth, now: Mono) -> Progress {
        self.unsounded = None;
        let Some(before) = &mut self.depth else {
            let (first, last) = (now, now);
            self.depth = Some(Sounding { depth, first, last });
            return Progress::None;
        };
        let used = depth.cpu.saturating_sub(before.depth.cpu);
        let progress = if depth.changes != before.depth.changes {
            Progress::Work
        } else if used > now.saturating_sub(before.last) / IDLE {
            Progress::Sign
        } else {
            Progress::None
        };
        if progress > Progress::None {
            self.since = now;
        }
        before.depth = depth;
        before.last = now;
        progress
    }

    /// Sets the wait that is declared at present, if any. Its end is fixed on the monotonic clock when it is first
    /// seen.
    pub fn waits(&mut self, wait: Option<&Wait>, wall: Timestamp, now: Mono) {
        let wait = wait.filter(|wait| wait.session == self.marks.session);
        let known = self.wait.map(|(until, _)| until);
        if known != wait.map(|wait| wait.until) {
            self.wait = wait.map(|wait| {
                let length = |from| Duration::try_from(wait.until.duration_since(from));
                let left = length(wall).unwrap_or_default();
                (
                    wait.until,
                    now + left.min(length(wait.at).unwrap_or_default()),
                )
            });
        }
        if self.wait.is_some_and(|(_, end)| now < end) {
            self.still.waited(now);
        }
    }

    /// Records that a step was taken.
    pub fn stepped(&mut self, now: Mono) {
        self.stepped = now;
        self.again(now);
    }

    /// Begins a new silence, after which the next step follows.
    pub fn again(&mut self, now: Mono) {
        self.since = now;
    }

    /// Returns true when a stalled raider has recovered.
    #[must_use]
    pub fn recovers(&self, progress: Progress, policy: &Policy, now: Mono) -> bool {
        match progress {
            Progress::None => false,
            Progress::Sign => now.saturating_sub(self.stepped) >= policy.after,
            Progress::Work => true,
        }
    }

    /// Returns the action to take now.
    #[must_use]
    pub fn judge(&self, policy: &Policy, steps: Option<&Steps>, now: Mono) -> Verdict {
        let quiet = self.wait.map_or(self.since, |(_, end)| end.max(self.since));
        let until = quiet + policy.after / WORTH;
        if now < until {
            let waits = self.wait.is_some_and(|(_, end)| now < end);
            if !waits && self.still.is_due(policy, now) {
                return Verdict::Spins;
            }
            return Verdict::Fresh { until };
        }
        let Some(sounding) = &self.depth else {
            return Verdict::Deeper;
        };
        let until = quiet.max(sounding.first) + policy.after;
        if now < until {
            Verdict::Fresh { until }
        } else if sounding.last < now {
            Verdict::Deeper
        } else {
            next_step(policy, steps, &self.marks.session)
        }
    }
}

#[cfg(test)]
mod tests;
