//! The brakes of planned session cycles, mainly of handoffs. A handoff costs the program nothing and the supervisor a
//! new session: a program that hands off as soon as it is started would start sessions without end.
//!
//! A handoff is hurried when its session lived for less than [`LONG`] and nothing changed since the last handoff: no
//! commit, no step, nothing of the relic. So is each planned cycle beyond [`CYCLES_MAX`] within [`CYCLE_WINDOW`],
//! whatever changed. The first [`FREE`] hurried handoffs in a row pass; the successor of each further one waits, longer
//! each time; at number [`CALL`] a person is called.

use std::collections::VecDeque;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::ids::Oid;
use super::restart::Mono;

/// A session that lived for this long worked: its handoffs are rare.
pub const LONG: Duration = Duration::from_secs(600);
/// The number of hurried handoffs in a row that pass: a first session may read and plan, and a context may have been
/// nearly full.
pub const FREE: u32 = 3;
/// The number in a row at which a person is called: by then it has waited twice.
pub const CALL: u32 = 6;
/// The longest note of a handoff, in bytes.
pub const NOTE_MAX: usize = 16 * 1024;
/// The first wait; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// The longest wait: six sessions an hour.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// A mark of a raider's progress at a handoff; none where it cannot be observed.
pub type Progress = Option<String>;

/// Returns the mark for this head and these relics. Marks are only compared, and the texts of relics may be long.
#[must_use]
pub fn mark(head: &Oid, relics: &[u8]) -> String {
    let digest = Sha256::digest(relics);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{head} {hex}")
}

/// The answer to a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a handoff must be answered"]
pub enum Pace {
    /// The next session starts at once.
    Free {
        /// Set when this ends a row of hurried handoffs for which a person was called.
        over: bool,
    },
    /// The next session waits.
    Braked {
        /// The wait.
        wait: Duration,
        /// The number of this hurried handoff in the row.
        count: u32,
        /// The time since the first of the row.
        within: Duration,
        /// Set when a person is to be called: once in a row.
        call: bool,
    },
}

/// Counts the hurried handoffs of one child in a row. Lost with the supervisor, like deaths that are counted in memory.
#[derive(Debug, Clone, Default)]
pub struct HandoffBrake {
    row: u32,
    since: Mono,
    last: Progress,
    called: bool,
}

impl HandoffBrake {
    /// Counts a handoff at `now`, of a session that lived for `lived`. `crowded`: there were too many planned cycles
    /// recently.
    pub fn on_handoff(
        &mut self,
        now: Mono,
        lived: Duration,
        progress: Progress,
        crowded: bool,
    ) -> Pace {
        let moved = progress.is_some() && progress != self.last;
        if progress.is_some() {
            self.last = progress;
        }
        let over = (lived >= LONG || moved) && !crowded;
        let settled = over && std::mem::take(&mut self.called);
        if over {
            self.row = 0;
        }
        if self.row == 0 {
            self.since = now;
        }
        self.row = self.row.saturating_add(1);
        if crowded {
            self.row = self.row.max(FREE + 1);
        }
        let Some(beyond) = self.row.checked_sub(FREE + 1) else {
            return Pace::Free { over: settled };
        };
        let call = self.row >= CALL && !std::mem::replace(&mut self.called, self.row >= CALL);
        Pace::Braked {
            wait: (FIRST_WAIT * 2_u32.saturating_pow(beyond.min(16))).min(LONGEST_WAIT),
            count: self.row,
            within: now.saturating_sub(self.since),
            call,
        }
    }
}

/// Planned session cycles (handoff, drift, idle) are not deaths, but too many of them are.
#[derive(Debug, Clone, Default)]
pub struct CycleBrake {
    cycles: VecDeque<Mono>,
}

/// More than this many planned cycles within [`CYCLE_WINDOW`] make the next one a death
/// (`rules.md`, restart).
pub const CYCLES_MAX: usize = 10;
/// See [`CYCLES_MAX`].
pub const CYCLE_WINDOW: Duration = Duration::from_secs(600);

impl CycleBrake {
    /// Counts a planned cycle; returns true when it must count as a death.
    #[must_use]
    pub fn on_cycle(&mut self, now: Mono) -> bool {
        while self
            .cycles
            .front()
            .is_some_and(|at| now.saturating_sub(*at) >= CYCLE_WINDOW)
        {
            self.cycles.pop_front();
        }
        if self.cycles.len() >= CYCLES_MAX {
            return true;
        }
        self.cycles.push_back(now);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRIEF: Duration = Duration::from_secs(4);

    const fn at(seconds: u64) -> Mono {
        Duration::from_secs(seconds)
    }

    #[test]
    fn mark_is_short_whatever_the_relics_say_and_differs_with_them() {
        let head = crate::testing::records::oid('a');
        let (one, other) = (vec![b'x'; 1 << 20], vec![b'y'; 1 << 20]);
        let marked = mark(&head, &one);
        assert!(marked.len() < 120, "{marked}");
        assert_eq!(mark(&head, &one), marked);
        assert_ne!(mark(&head, &other), marked);
        assert_ne!(mark(&crate::testing::records::oid('b'), &one), marked);
    }

    #[test]
    fn too_many_planned_cycles_are_a_death() {
        let mut brake = CycleBrake::default();
        for cycle in 0..10 {
            assert!(!brake.on_cycle(at(cycle)), "cycle {cycle}");
        }
        assert!(brake.on_cycle(at(11)));
        assert!(!brake.on_cycle(at(600)));
    }

    /// Waits in seconds, 0 for none, and true when a person is called.
    fn paces(brake: &mut HandoffBrake, handoffs: &[(Duration, &str)]) -> Vec<(u64, bool)> {
        let mut now = 0;
        let mut pace = |(lived, progress): &(Duration, &str)| {
            now += lived.as_secs();
            let progress = Some((*progress).to_owned());
            match brake.on_handoff(at(now), *lived, progress, false) {
                Pace::Free { .. } => (0, false),
                Pace::Braked { wait, call, .. } => (wait.as_secs(), call),
            }
        };
        handoffs.iter().map(&mut pace).collect()
    }

    #[test]
    fn three_hurried_handoffs_pass_then_each_waits_longer_and_the_sixth_calls_once() {
        let paces = paces(&mut HandoffBrake::default(), &[(BRIEF, "same"); 12]);
        let waits: Vec<_> = paces.iter().map(|(wait, _)| *wait).collect();
        assert_eq!(waits, [0, 0, 0, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
        let calls: Vec<_> = (1..).zip(&paces).filter(|(_, (_, call))| *call).collect();
        assert_eq!(calls.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn progress_or_a_long_session_ends_the_row() {
        for end in [(BRIEF, "a commit"), (LONG, "same")] {
            let mut handoffs = vec![(BRIEF, "same"); 6];
            handoffs.push(end);
            handoffs.extend([(BRIEF, end.1); 2]);
            let mut brake = HandoffBrake::default();
            let paces = paces(&mut brake, &handoffs);
            assert_eq!(paces[5], (40, true));
            assert!(
                paces[6..].iter().all(|pace| *pace == (0, false)),
                "{paces:?}"
            );
            let next = brake.on_handoff(at(9000), BRIEF, Some(end.1.into()), false);
            assert!(matches!(next, Pace::Braked { count: 4, .. }), "{next:?}");
        }
    }

    #[test]
    fn unknown_progress_counts_as_none_and_hides_no_progress() {
        let mut brake = HandoffBrake::default();
        for (progress, count) in [
            (Some("one"), 1),
            (None, 2),
            (Some("one"), 3),
            (None, 4),
            (Some("two"), 1),
        ] {
            let pace = brake.on_handoff(at(1), BRIEF, progress.map(str::to_owned), false);
            let row = match pace {
                Pace::Free { .. } => brake.row,
                Pace::Braked { count, .. } => count,
            };
            assert_eq!(row, count, "{progress:?}");
        }
    }

    #[test]
    fn a_crowd_of_cycles_is_braked_whatever_changed() {
        let mut brake = HandoffBrake::default();
        let pace = brake.on_handoff(at(1), BRIEF, Some("one".into()), true);
        assert!(matches!(pace, Pace::Braked { count: 4, .. }), "{pace:?}");
        let pace = brake.on_handoff(at(2), BRIEF, Some("two".into()), true);
        assert!(matches!(pace, Pace::Braked { count: 5, .. }), "{pace:?}");
        let pace = brake.on_handoff(at(3), BRIEF, Some("three".into()), false);
        assert_eq!(pace, Pace::Free { over: false });
    }

    #[test]
    fn the_end_of_a_row_that_a_person_was_called_for_is_told() {
        let mut brake = HandoffBrake::default();
        let _row = paces(&mut brake, &[(BRIEF, "same"); 6]);
        let pace = brake.on_handoff(at(60), BRIEF, Some("a commit".into()), false);
        assert_eq!(pace, Pace::Free { over: true });
    }
}
