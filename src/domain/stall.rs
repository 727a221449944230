//! Whether a session that should work is stalled, and what is done about it next
//! (`raider-lifecycle.md`, stalled; `2-contract.md`, `stall_after` and `nudges`).
//!
//! ```text
//!                    silent            silent for `stall_after`, and for as long again before each step
//!  Fresh ──────────────────► Deeper ──────────────────────────► Nudge … Nudge ─► Restart ─► Escalate ─► Called
//!    ▲                                                                                                    │
//!    └───── work (HEAD, dirty set, relic): at once; signs (output, CPU): once they went on for a while ◄──┘
//! ```
//!
//! Every channel is a mark that is compared with the one before, and silence is measured on the
//! monotonic clock: no stamp is believed, so no jump of the wall clock makes anybody stalled. What is
//! costly to see (dirty set, CPU) is looked at only where everything else is silent, and counts as
//! silent from that look on: a step may come a little late, and never early. While anything cannot be seen
//! no step is taken; a person is called when that lasts for `stall_after`.
//!
//! A session whose screen only moves, a spinner turning for hours, gives signs for ever. It is no stall, for a long
//! command looks like that; but a person is called ([`Still`]).
//!
//! An answer to a nudge is a sign, and so is its echo on the terminal: they begin a new silence, but
//! only what goes on for `stall_after` takes a step back. Else a session that greets and hangs, or says
//! each time that it cannot go on, would never be restarted, and nobody would be called.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::still::Still;
use super::ids::Incarnation;
use super::restart::Mono;

mod still;

/// A program that uses less of one processor than one part in this many only waits.
const IDLE: u32 = 50;
/// Silence for one part in this many of `stall_after` is worth a deeper look.
const WORTH: u32 = 10;

/// What is cheap to see of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Which session it is.
    pub session: String,
    /// When it last wrote to its terminal.
    pub output: Option<Timestamp>,
    /// HEAD, reflog and index of its sandbox; none while they cannot be seen.
    pub git: Option<String>,
    /// The relic that it works on.
    pub relic: String,
    /// Stands for what its screen shows but spinners and clocks; none while it cannot be seen.
    pub picture: Option<u64>,
}

/// What is costly to see of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Depth {
    /// What of its sandbox is in no commit.
    pub changes: String,
    /// Processor time that its processes have used.
    pub cpu: Duration,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Nothing new.
    None,
    /// It lives: output, processor time.
    Sign,
    /// It gets on: a commit, a changed file, a changed relic.
    Work,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing before then.
    Fresh {
        /// When it is worth another look.
        until: Mono,
    },
    /// Look at what is costly to see, and judge again.
    Deeper,
    /// Its screen only moves: look at what is costly to see ([`Still`]).
    Spins,
    /// Tell it, for the so-manieth time.
    Nudge(u32),
    /// End the session and start a fresh one.
    Restart,
    /// Call a person.
    Escalate,
    /// Nothing: a person has been called.
    Called,
}

/// How long is too long, and what is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// `stall_after`.
    pub after: Duration,
    /// `nudges`.
    pub nudges: u32,
}

/// What was done about a stalled raider so far; kept in the store, so that nothing is done twice
/// because somebody forgot it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Which incarnation of the raider.
    pub incarnation: Incarnation,
    /// When it was found stalled.
    pub since: Timestamp,
    /// How often it was told.
    pub nudges: u32,
    /// The session that was to be restarted for it.
    pub ended: Option<String>,
    /// A person was called.
    pub called: bool,
}

/// A declared wait (`hd wait`): one session's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Which session declared it.
    pub session: String,
    /// When.
    pub at: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// For what, in its words.
    pub reason: String,
}

impl Steps {
    /// Stalled, and nothing was done about it yet.
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

/// The first step that was not taken yet.
fn next_step(policy: &Policy, steps: Option<&Steps>, session: &str) -> Verdict {
    let told = steps.map_or(0, |steps| steps.nudges);
    match steps.and_then(|steps| steps.ended.as_deref()) {
        None if told < policy.nudges => Verdict::Nudge(told + 1),
        None => Verdict::Restart,
        // It was to be ended and runs on: whoever was at it was interrupted.
        Some(ended) if ended == session => Verdict::Restart,
        Some(_) if steps.is_some_and(|steps| steps.called) => Verdict::Called,
        Some(_) => Verdict::Escalate,
    }
}

/// What is remembered of one session from look to look.
#[derive(Debug, Clone)]
pub struct Watch {
    marks: Marks,
    /// When something was last seen to have happened.
    since: Mono,
    /// When the last step was taken, or the session was first seen.
    stepped: Mono,
    depth: Option<Sounding>,
    /// The end of the declared wait, on both clocks.
    wait: Option<(Timestamp, Mono)>,
    /// Since when something that is cheap to see cannot be seen.
    unseen: Option<Mono>,
    /// Since when what is costly to see cannot be seen.
    unsounded: Option<Mono>,
    /// People may have been called because it cannot be seen.
    lost: bool,
    /// Whether its screen only moves.
    pub still: Still,
}

#[derive(Debug, Clone)]
struct Sounding {
    depth: Depth,
    /// The first of this silence.
    first: Mono,
    /// The last one.
    last: Mono,
}

impl Watch {
    /// A session that is seen for the first time: it counts as active until now.
    #[must_use]
    pub fn new(marks: Marks, now: Mono) -> Self {
        Self {
            still: Still::new(marks.picture, now),
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

    /// Which session it is.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.marks.session
    }

    /// How long nothing has happened.
    #[must_use]
    pub fn silence(&self, now: Mono) -> Duration {
        now.saturating_sub(self.since)
    }

    /// Compares what is cheap to see. A person who is at the terminal, or is asked to come, is a sign,
    /// whatever is seen. What cannot be seen is compared when it is seen again.
    pub fn look(&mut self, mut marks: Marks, attended: bool, now: Mono) -> Progress {
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
        self.still.saw(marks.picture, writes, moves, now);
        self.marks = marks;
        progress
    }

    /// Takes in whether all that is cheap to see could be seen.
    pub fn sighted(&mut self, all: bool, now: Mono) {
        self.unseen = (!all).then(|| self.unseen.unwrap_or(now));
    }

    /// What is costly to see could not be seen.
    pub fn unsounded(&mut self, now: Mono) {
        self.unsounded.get_or_insert(now);
    }

    /// Whether people are to be called because it cannot be seen: it is silent as far as can be told, and
    /// that for long. A new silence begins then.
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

    /// Whether it is seen again, after it may have been lost. Asked once.
    pub fn is_found(&mut self) -> bool {
        let seen = self.unseen.is_none() && self.unsounded.is_none();
        seen && std::mem::take(&mut self.lost)
    }

    /// Compares what is costly to see; the first time there is nothing to compare with.
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

    /// Takes the wait that is declared at present, if one is. Its end is fixed on the monotonic clock
    /// when it is first seen.
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

    /// A step was taken.
    pub fn stepped(&mut self, now: Mono) {
        self.stepped = now;
        self.again(now);
    }

    /// Everything was silent until now: a new silence begins, for the next step.
    pub fn again(&mut self, now: Mono) {
        self.since = now;
    }

    /// Whether a stalled raider goes on.
    #[must_use]
    pub fn recovers(&self, progress: Progress, policy: &Policy, now: Mono) -> bool {
        match progress {
            Progress::None => false,
            Progress::Sign => now.saturating_sub(self.stepped) >= policy.after,
            Progress::Work => true,
        }
    }

    /// What to do now.
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
