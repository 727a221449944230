//! Chooses the members of a pool that run and those that end (`health-patrol.md`, orphan cleanup: pool excess members
//! are drained gracefully).
//!
//! ```text
//!  too few:  those that drain are kept on, the last to be active first; then the lowest free numbers
//!  too many: those that have no session go, then the least busy drain, then the highest numbers;
//!            one that drains already is kept on before one without a session is
//! ```

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::agents::Pool;

/// An existing member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub number: u32,
    /// Set when it is draining.
    pub draining: bool,
    /// Set when it has a session: it neither starts, nor waits after a death or for others.
    pub up: bool,
    /// When its terminal was last used, where known.
    pub last_activity: Option<Timestamp>,
}

/// The choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Members that run.
    pub run: BTreeSet<u32>,
    /// Members that drain.
    pub drain: BTreeSet<u32>,
}

impl Pool {
    /// Returns the size that a check asks for, within the bounds.
    #[must_use]
    pub fn bounded(&self, wanted: u32) -> u32 {
        wanted.clamp(self.min, self.max)
    }
}

/// Chooses the members for a desired number.
#[must_use]
pub fn choose(wanted: u32, present: &[Member]) -> Members {
    let wanted = wanted as usize;
    let mut present: Vec<_> = present.iter().collect();
    // Preferred are members that are up, that do not drain, that were active last, and that have a low number.
    present.sort_by_key(|member| {
        let active = std::cmp::Reverse(member.last_activity);
        (!member.up, member.draining, active, member.number)
    });
    let (run, drain) = present.split_at(wanted.min(present.len()));
    let mut run: BTreeSet<u32> = run.iter().map(|member| member.number).collect();
    let drain: BTreeSet<u32> = drain.iter().map(|member| member.number).collect();
    let free = (1..).filter(|number| present.iter().all(|member| member.number != *number));
    run.extend(free.take(wanted.saturating_sub(present.len())));
    Members { run, drain }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(number: u32, draining: bool, active: Option<i64>) -> Member {
        let last_activity = active.map(|second| Timestamp::from_second(second).unwrap());
        Member {
            number,
            draining,
            up: true,
            last_activity,
        }
    }

    fn down(number: u32) -> Member {
        Member {
            up: false,
            ..member(number, false, None)
        }
    }

    fn set(numbers: &[u32]) -> BTreeSet<u32> {
        numbers.iter().copied().collect()
    }

    #[test]
    fn each_case() {
        let three = [
            member(1, false, Some(5)),
            member(2, false, Some(9)),
            member(4, false, Some(1)),
        ];
        type Row<'a> = (&'a str, u32, &'a [Member], &'a [u32], &'a [u32]);
        let table: [Row<'_>; 8] = [
            ("from nothing", 2, &[], &[1, 2], &[]),
            ("as it is", 3, &three, &[1, 2, 4], &[]),
            (
                "one more, the lowest free number",
                4,
                &three,
                &[1, 2, 3, 4],
                &[],
            ),
            ("the least busy go first", 1, &three, &[2], &[1, 4]),
            (
                "who has no session goes before who is at work",
                2,
                &[down(1), member(2, false, None), member(3, false, Some(1))],
                &[2, 3],
                &[1],
            ),
            (
                "who drains is at work, and who is in quarantine is not",
                1,
                &[member(1, true, None), down(2)],
                &[1],
                &[2],
            ),
            ("all go", 0, &three, &[], &[1, 2, 4]),
            (
                "draining members are kept before new ones are started",
                2,
                &[
                    member(1, false, None),
                    member(2, true, Some(1)),
                    member(3, true, Some(2)),
                ],
                &[1, 3],
                &[2],
            ),
        ];
        for (case, wanted, present, run, drain) in table {
            let chosen = choose(wanted, present);
            assert_eq!(
                chosen,
                Members {
                    run: set(run),
                    drain: set(drain)
                },
                "{case}"
            );
        }
    }

    proptest! {
        #[test]
        fn as_many_as_wanted_and_a_second_choice_changes_nothing(
            wanted in 0u32..8,
            present in proptest::collection::btree_map(
                1u32..10, (any::<bool>(), any::<bool>(), proptest::option::of(0i64..100)), 0..8,
            ),
        ) {
            let present: Vec<_> = present
                .into_iter()
                .map(|(n, (d, up, a))| Member { up, ..member(n, d, a) })
                .collect();
            let chosen = choose(wanted, &present);
            prop_assert_eq!(chosen.run.len(), wanted as usize);
            prop_assert!(chosen.run.is_disjoint(&chosen.drain));
            let after: Vec<_> = chosen.run.iter().map(|n| (n, false)).chain(chosen.drain.iter().map(|n| (n, true)))
                .map(|(n, draining)| {
                    let was = present.iter().find(|m| m.number == *n).cloned();
                    Member { draining, ..was.unwrap_or_else(|| down(*n)) }
                })
                .collect();
            prop_assert_eq!(choose(wanted, &after), chosen);
        }
    }
}
