//! Tests of the state machine of a child: here every event in every phase.

mod rules;
mod sequences;
mod starts;

use super::*;
use crate::domain::ids::AgentName;
use crate::domain::restart::{Backoff, History};

/// The token that the phases of the table wait for, and one of an earlier wait.
pub(super) const OWN: Token = Token(1000);
pub(super) const OLD: Token = Token(999);
pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn policy() -> RestartPolicy {
    RestartPolicy {
        max_restarts: 2,
        window: SECOND * 3600,
        backoff: Backoff {
            first: SECOND,
            initial: SECOND * 2,
            max: SECOND * 30,
            multiplier: 2.0,
            jitter: 0.0,
        },
        stable_after: Some(SECOND * 600),
        history: History::Memory,
    }
}

pub(super) fn agent() -> ChildId {
    ChildId::Agent(AgentName::new("mayor").unwrap())
}

pub(super) fn raider() -> ChildId {
    ChildId::Raider("horde/raiders/Toast".parse().unwrap())
}

/// Returns the facts of a quiet moment: nothing is parked, suspended or waited for.
pub(super) fn facts<'a>(id: &'a ChildId, policy: &'a RestartPolicy) -> Facts<'a> {
    Facts {
        id,
        now: Timestamp::UNIX_EPOCH,
        mono: SECOND * 10_000,
        token: Token(OWN.0 + 1),
        random: 0.0,
        policy,
        patrol: SECOND * 30,
        restart: RestartType::Permanent,
        may_start: true,
        parked: None,
        is_suspended: false,
        concerns_others: false,
        turn: Turn::None,
        is_awaited: false,
        operator_waits: false,
    }
}

pub(super) fn in_phase(phase: ChildPhase) -> Child {
    let child = Child::new(Rest::Over, Cause::Config, Timestamp::UNIX_EPOCH);
    Child { phase, ..child }
}

fn fresh(cause: Cause) -> Successor {
    Successor::Fresh {
        cause,
        tail: None,
        progress: None,
    }
}

fn replacing(by: Successor, up_at: Option<Mono>) -> ChildPhase {
    let start = up_at.is_none().then_some(OWN);
    ChildPhase::Replacing { by, up_at, start }
}

/// Returns a phase of each kind, in the order of the table's columns.
fn phases() -> Vec<ChildPhase> {
    let up_at = SECOND * 9_999;
    let leaving = |to| ChildPhase::Leaving { to, sweep: OWN };
    let backoff = |due| ChildPhase::Backoff { until: None, due };
    let quarantined = |due| ChildPhase::Quarantined { due };
    vec![
        ChildPhase::Blocked,
        ChildPhase::Starting { token: OWN },
        ChildPhase::Running { up_at },
        replacing(fresh(Cause::Operator), None),
        replacing(fresh(Cause::Operator), Some(up_at)),
        replacing(Successor::Group, Some(up_at)),
        leaving(Leave::Rest(Cause::Suspended)),
        leaving(Leave::Gone(Cause::Removed)),
        backoff(Due::Timer(OWN)),
        backoff(Due::Group),
        quarantined(Due::Timer(OWN)),
        quarantined(Due::Group),
        ChildPhase::Finished,
        ChildPhase::Resting(Rest::Order(Cause::Suspended)),
        ChildPhase::Resting(Rest::Order(Cause::Operator)),
        ChildPhase::Resting(Rest::Over),
        ChildPhase::Gone,
    ]
}

/// Returns the letter of a phase in the table.
pub(super) fn letter(phase: &ChildPhase) -> char {
    match phase {
        ChildPhase::Blocked => 'B',
        ChildPhase::Starting { .. } => 'S',
        ChildPhase::Running { .. } => 'R',
        ChildPhase::Replacing { by, .. } => match by {
            Successor::Fresh { .. } => 'F',
            Successor::Group => 'G',
        },
        ChildPhase::Leaving { to, .. } => match to {
            Leave::Rest(_) => 'r',
            Leave::Gone(_) => 'g',
        },
        ChildPhase::Backoff { due, .. } => match due {
            Due::Timer(_) => 'W',
            Due::Group => 'w',
        },
        ChildPhase::Quarantined { due } => match due {
            Due::Timer(_) => 'Q',
            Due::Group => 'q',
        },
        ChildPhase::Finished => 'E',
        ChildPhase::Resting(Rest::Order(_)) => 'o',
        ChildPhase::Resting(Rest::Over) => 'O',
        ChildPhase::Gone => 'X',
    }
}

pub(super) fn died() -> Option<ChildExit> {
    Some(ChildExit::Died {
        cause: Cause::SessionDied,
        exit: None,
        tail: "the end".into(),
    })
}

pub(super) fn cycle(cause: Cause) -> Event {
    Event::Cycle {
        cause,
        tail: None,
        progress: None,
    }
}

/// Returns the table: an event, and the phase that follows in each column. Dots keep the phase.
#[rustfmt::skip]
fn table() -> Vec<(Event, &'static str)> {
    use ChildExit::{Broken, Ended, Finished, NoSandbox, StartFailed, NotEnded, Unseen, Unwritable};
    let why = String::new;
    let exited = |exit| Event::Exited(Some(exit));
    let refused = || EndRefused::Another(agent());
    let out = Event::OutOfAccount {
        cause: Cause::RateLimit,
        text: why(),
    };
    let shut = |is_kept| Event::ShutDown {
        was_up: true,
        is_kept,
    };
    let stopped = crate::domain::facts::Stopped::Killed;
    vec![
        //                                    BSRFFGrgWwQqEooOX
        (Event::Wanted(Cause::Config),       "S.......SSSSSSSS."),
        (Event::Woken(Cause::Operator),      "S.......SSSSSSSS."),
        (Event::Resumed,                     ".............S..."),
        (Event::Respecified,                 "........SSSS...S."),
        (Event::Ready,                       "S................"),
        (Event::Due(OWN),                    "........S.S......"),
        (Event::Due(OLD),                    "................."),
        (Event::Unspawned(OWN, why()),       ".W.S............."),
        (Event::Unspawned(OLD, why()),       "................."),
        (Event::Up(SECOND),                  ".R..............."),
        (Event::Exited(None),                ".WWSSSoX........."),
        (Event::Exited(died()),              ".WWSSSoX........."),
        (exited(Ended(stopped)),             ".WWSSSoX........."),
        (exited(Unseen(why())),              ".WWWWSrg........."),
        (exited(Unwritable(why())),          ".WWWWSrg........."),
        (exited(NoSandbox(why())),            ".WWWWSrg........."),
        (exited(StartFailed(why())),         ".WWSSSrg........."),
        (exited(Finished),                   ".EESSSoX........."),
        (exited(NotEnded(why())),              ".WWWWWoX........."),
        (exited(Broken(why())),              ".WWSSWrg........."),
        (out,                                ".oo.............."),
        (shut(false),                        "OOOOOOoOOOOOO...."),
        (shut(true),                         "OOOOOOoOOOOOO...."),
        (Event::Swept(OWN, Ok(())),          "......oX........."),
        (Event::Swept(OWN, Err(refused())),  "......oX........."),
        (Event::Swept(OLD, Ok(())),          "................."),
        (Event::Swept(OLD, Err(refused())),  "................."),
        (Event::End(Cause::Operator),        "gggggggggggggggg."),
        (Event::Remove(Cause::Removed),      "gggggggggggggggg."),
        (Event::Rest(Cause::Operator),       "rrrrrrrgrrrrrrrr."),
        (Event::Rest(Cause::Suspended),      "rrrrrr..rrrrr..r."),
        (cycle(Cause::Operator),             ".FF.............."),
        (cycle(Cause::Drift),                ".FF.............."),
        (Event::Drain,                       "g.......ggggg..g."),
        (Event::KeepOn,                      "................."),
        (Event::DrainDue(None),              "................."),
        (Event::AwaitTurn,                   "wGGGG...wwqqw...."),
        (Event::Turn,                        "S.......SSSSS...."),
        (Event::Alone,                       "S.......SSQQS...."),
    ]
}

#[test]
fn every_event_in_every_phase_is_answered_as_the_table_says() {
    let (id, policy) = (agent(), policy());
    for (event, row) in table() {
        let row: Vec<_> = row.chars().collect();
        assert_eq!(row.len(), phases().len(), "{event:?}");
        for (phase, expected) in phases().into_iter().zip(row) {
            let expected = match expected {
                '.' => letter(&phase),
                letter => letter,
            };
            let mut child = in_phase(phase.clone());
            let actions = child.step(event.clone(), &facts(&id, &policy));
            let after = letter(child.phase());
            assert_eq!(after, expected, "{event:?} in {phase:?}: {actions:?}");
            let spawns = |action: &Action| matches!(action, Action::Spawn { .. });
            let spawned = actions.iter().filter(|action| spawns(action)).count();
            let begins = after == 'S' && letter(&phase) != 'S';
            assert_eq!(spawned, usize::from(begins), "{event:?} in {phase:?}");
        }
    }
}

/// An event that asks for a start is no exception.
#[test]
fn no_start_passes_a_parked_account_or_a_missing_dependency() {
    let (id, policy) = (agent(), policy());
    for (event, _) in table() {
        for phase in phases() {
            let quiet = facts(&id, &policy);
            let mut free = in_phase(phase.clone());
            let _actions = free.step(event.clone(), &quiet);
            let begins = letter(free.phase()) == 'S' && letter(&phase) != 'S';
            // An operator may try.
            if !begins || free.cause() == Cause::Operator {
                continue;
            }
            for (parked, may_start, expected) in [
                (Some(Cause::RateLimit), true, 'o'),
                (None, false, 'B'),
                (Some(Cause::Login), false, 'o'),
            ] {
                let facts = Facts {
                    parked,
                    may_start,
                    ..quiet.clone()
                };
                let mut held = in_phase(phase.clone());
                let actions = held.step(event.clone(), &facts);
                let after = letter(held.phase());
                assert_eq!(after, expected, "{event:?} in {phase:?}: {actions:?}");
            }
        }
    }
}
