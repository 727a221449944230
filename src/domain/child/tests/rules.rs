//! Tests of the rules of restart, quarantine, rest and drain, by name.

use super::super::*;
use super::{OLD, OWN, SECOND, agent, cycle, died, facts, in_phase, letter, policy, raider};

fn exit(code: Option<i32>, signal: Option<i32>) -> Option<ChildExit> {
    let exit = SessionExit {
        code,
        signal,
        at: Timestamp::UNIX_EPOCH,
        by_person: false,
        stopped: false,
    };
    Some(ChildExit::Died {
        cause: Cause::SessionDied,
        exit: Some(exit),
        tail: String::new(),
    })
}

/// A child that is being adopted has its session already.
#[test]
fn adoption_waits_for_no_account_no_dependency_and_no_quarantine() {
    let (id, policy) = (raider(), policy());
    let facts = Facts {
        parked: Some(Cause::RateLimit),
        may_start: false,
        is_suspended: true,
        ..facts(&id, &policy)
    };
    let mut child = in_phase(ChildPhase::Resting(Rest::Over));
    child.hold(&policy, facts.mono + SECOND, facts.mono, None);
    let _actions = child.step(Event::Wanted(Cause::Adopted), &facts);
    assert_eq!(letter(child.phase()), 'S');
}

/// Runs a child: each time it is up, `exit` ends its session, and the back-off passes. Returns the letters.
fn lives(child: &mut Child, facts: &Facts<'_>, exits: Vec<Option<ChildExit>>) -> String {
    let mut letters = String::new();
    for exit in exits {
        if let ChildPhase::Backoff {
            due: Due::Timer(due),
            ..
        } = child.phase()
        {
            let due = Event::Due(*due);
            let _actions = child.step(due, facts);
        }
        let _actions = child.step(Event::Up(facts.mono), facts);
        let _actions = child.step(Event::Exited(exit), facts);
        letters.push(letter(child.phase()));
    }
    letters
}

#[test]
fn as_many_deaths_as_allowed_are_answered_by_restarts_and_the_next_quarantines() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    let exits = vec![died(), died(), died()];
    assert_eq!(lives(&mut child, &facts, exits), "WWQ");
    assert_eq!(child.died_of().unwrap(), "no exit on record: the end");
}

/// `rules.md`, restart: every failed spawn is counted by the restart policy.
#[test]
fn failed_spawns_are_deaths() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    let late = Event::Unspawned(OLD, "no memory".into());
    assert_eq!(child.step(late, &facts), []);
    for expected in ['W', 'W', 'Q'] {
        let token = child.phase().token().unwrap();
        let broken = Event::Unspawned(token, "no memory".into());
        let _actions = child.step(broken, &facts);
        assert_eq!(letter(child.phase()), expected);
        if let ChildPhase::Backoff {
            due: Due::Timer(due),
            ..
        } = *child.phase()
        {
            let _actions = child.step(Event::Due(due), &facts);
        }
    }
}

#[test]
fn session_healthy_for_long_enough_clears_the_deaths() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    assert_eq!(lives(&mut child, &facts, vec![died(), died()]), "WW");
    child.phase = ChildPhase::Running {
        up_at: facts.mono - SECOND * 600,
    };
    assert_eq!(lives_on(&mut child, &facts), 'W');
}

/// Ends the session that runs, and returns the letter of what follows.
fn lives_on(child: &mut Child, facts: &Facts<'_>) -> char {
    let _actions = child.step(Event::Exited(died()), facts);
    letter(child.phase())
}

#[test]
fn raider_on_trial_that_dies_is_quarantined_at_once_and_an_agent_is_not() {
    let policy = policy();
    for (id, expected) in [(raider(), 'Q'), (agent(), 'W')] {
        let facts = facts(&id, &policy);
        let mut child = in_phase(ChildPhase::Quarantined {
            due: Due::Timer(OWN),
        });
        let actions = child.step(Event::Due(OWN), &facts);
        let over = Action::Journal(EventType::AgentUnquarantined, Cause::WindowPassed);
        assert_eq!(actions.first(), Some(&over));
        assert_eq!(
            lives(&mut child, &facts, vec![died()]),
            expected.to_string()
        );
    }
}

#[test]
fn restart_types_are_those_of_otp() {
    use RestartType::{Permanent, Temporary, Transient};
    let (id, policy) = (agent(), policy());
    let (good, term, bad) = (
        exit(Some(0), None),
        exit(None, Some(15)),
        exit(Some(1), None),
    );
    for (restart, expected) in [(Permanent, "WWW"), (Transient, "OOW"), (Temporary, "OOO")] {
        let facts = Facts {
            restart,
            ..facts(&id, &policy)
        };
        let ends = [&good, &term, &bad].map(|exit| {
            let mut child = in_phase(ChildPhase::Starting { token: OWN });
            lives(&mut child, &facts, vec![exit.clone()])
        });
        assert_eq!(ends.concat(), expected, "{restart:?}");
    }
}

#[test]
fn end_by_a_person_is_no_death() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    let by_person = Some(ChildExit::Died {
        cause: Cause::EndedByPerson,
        exit: None,
        tail: String::new(),
    });
    assert_eq!(
        lives(&mut child, &facts, vec![by_person; 20]),
        "S".repeat(20)
    );
    assert_eq!(child.deaths().count(&policy, facts.mono), 0);
}

#[test]
fn failed_start_that_a_caller_waits_for_is_no_death_and_leaves_nothing() {
    let (id, policy) = (raider(), policy());
    let facts = Facts {
        is_awaited: true,
        ..facts(&id, &policy)
    };
    for exit in [
        ChildExit::StartFailed("no".into()),
        ChildExit::NoSandbox("no".into()),
        ChildExit::Unseen("no".into()),
        ChildExit::Unwritable("no".into()),
    ] {
        let mut child = in_phase(ChildPhase::Starting { token: OWN });
        let actions = child.step(Event::Exited(Some(exit)), &facts);
        assert_eq!(*child.phase(), ChildPhase::Gone);
        let told = |action: &Action| matches!(action, Action::AnswerUp(Err(why)) if why == "no");
        assert!(actions.iter().any(told), "{actions:?}");
        let recorded = |action: &Action| matches!(action, Action::Died(_));
        assert!(!actions.iter().any(recorded), "{actions:?}");
    }
}

#[test]
fn start_that_cannot_see_its_session_is_retried_without_limit_and_is_no_death() {
    let (id, policy) = (raider(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    for _ in 0..20 {
        let unseen = ChildExit::Unseen("no holder".into());
        let _actions = child.step(Event::Exited(Some(unseen)), &facts);
        assert!(child.unseen().unwrap().contains("no holder"));
        let ChildPhase::Backoff {
            due: Due::Timer(due),
            ..
        } = *child.phase()
        else {
            panic!("{:?}", child.phase());
        };
        let _actions = child.step(Event::Due(due), &facts);
    }
    assert_eq!(child.deaths().count(&policy, facts.mono), 0);
}

#[test]
fn ten_planned_cycles_are_no_deaths_and_the_eleventh_is_one() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    let mut letters = String::new();
    for _ in 0..11 {
        let _actions = child.step(Event::Up(facts.mono), &facts);
        let _actions = child.step(cycle(Cause::Drift), &facts);
        let _actions = child.step(Event::Exited(None), &facts);
        letters.push(letter(child.phase()));
    }
    assert_eq!(letters, "SSSSSSSSSSW");
}

#[test]
fn replacing_a_session_whose_agent_is_dead_is_a_death_with_its_tail() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Running { up_at: facts.mono });
    let dead = Event::Cycle {
        cause: Cause::AgentDead,
        tail: Some("panic".into()),
        progress: None,
    };
    let actions = child.step(dead, &facts);
    assert_eq!(actions, [Action::EndActor]);
    let actions = child.step(Event::Exited(None), &facts);
    let Some(Action::Died(death)) = actions.first() else {
        panic!("{actions:?}");
    };
    assert_eq!(death.tail.as_deref(), Some("panic"));
    assert_eq!(letter(child.phase()), 'W');
}

#[test]
fn release_by_an_operator_forgets_the_deaths() {
    let (id, policy) = (raider(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    let exits = vec![died(), died(), died()];
    assert_eq!(lives(&mut child, &facts, exits), "WWQ");
    let actions = child.step(Event::Woken(Cause::Operator), &facts);
    assert!(actions.contains(&Action::Unblock), "{actions:?}");
    assert_eq!(lives(&mut child, &facts, vec![died(), died()]), "WW");
}

#[test]
fn draining_member_that_ends_gets_no_fresh_session_unless_it_is_kept() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    for (keeps, expected) in [(false, 'X'), (true, 'W')] {
        let mut child = in_phase(ChildPhase::Running { up_at: facts.mono });
        let _actions = child.step(Event::Drain, &facts);
        assert!(child.is_draining());
        if keeps {
            let actions = child.step(Event::KeepOn, &facts);
            assert_eq!(actions, [Action::KeepOn]);
        }
        assert_eq!(lives_on(&mut child, &facts), expected);
    }
}

#[test]
fn drain_ends_by_its_own_timer_and_by_no_earlier_one() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Running { up_at: facts.mono });
    let first = child.step(Event::Drain, &facts);
    let _actions = child.step(Event::KeepOn, &facts);
    let later = Facts {
        token: Token(facts.token.0 + 1),
        ..facts.clone()
    };
    let second = child.step(Event::Drain, &later);
    for (drain, expected) in [(first, 'R'), (second, 'g')] {
        let [Action::ArmDrain(token)] = drain[..] else {
            panic!("{drain:?}");
        };
        let _actions = child.step(Event::DrainDue(Some(token)), &facts);
        assert_eq!(letter(child.phase()), expected);
    }
}

#[test]
fn third_session_in_a_row_that_its_account_ends_calls_a_person_once() {
    let (id, policy) = (raider(), policy());
    let facts = facts(&id, &policy);
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    let mut calls = Vec::new();
    for _ in 0..5 {
        let out = Event::OutOfAccount {
            cause: Cause::RateLimit,
            text: "limit".into(),
        };
        let actions = child.step(out, &facts);
        let called = |action: &Action| matches!(action, Action::CallAboutParks(_));
        calls.push(actions.iter().any(called));
        let _actions = child.step(Event::Resumed, &facts);
        assert_eq!(letter(child.phase()), 'S');
    }
    assert_eq!(calls, [false, false, true, false, false]);
}

/// The members of a group wait for each other, and have no timers of their own meanwhile.
#[test]
fn death_of_a_member_leaves_the_timer_to_its_group() {
    let (id, policy) = (agent(), policy());
    let alone = facts(&id, &policy);
    let member = Facts {
        concerns_others: true,
        turn: Turn::Culprit,
        ..alone.clone()
    };
    let mut child = in_phase(ChildPhase::Starting { token: OWN });
    let actions = child.step(Event::Exited(died()), &member);
    assert_eq!(actions.last(), Some(&Action::RestartGroup(SECOND)));
    assert_eq!(letter(child.phase()), 'w');
    let actions = child.step(Event::Respecified, &member);
    assert_eq!(actions, [Action::EndGroupDelay]);
    let _actions = child.step(Event::Turn, &member);
    assert_eq!((letter(child.phase()), child.cause()), ('S', Cause::Group));
}

/// A caller that is answered reads the end in the journal.
#[test]
fn end_is_journalled_before_its_callers_are_answered() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let shut = Event::ShutDown {
        was_up: true,
        is_kept: false,
    };
    for (order, end) in [
        (Event::Rest(Cause::Operator), Event::Exited(None)),
        (Event::End(Cause::Operator), Event::Exited(None)),
        (Event::End(Cause::Operator), shut),
    ] {
        let mut child = in_phase(ChildPhase::Running { up_at: facts.mono });
        let _actions = child.step(order, &facts);
        let actions = child.step(end, &facts);
        let first = actions
            .iter()
            .position(|action| matches!(action, Action::JournalEnd(..)));
        let answer = actions
            .iter()
            .position(|action| matches!(action, Action::AnswerEnd(_)));
        assert!(first.is_some() && first < answer, "{actions:?}");
    }
}

/// The wait goes on, whichever timer ends it.
#[test]
fn group_does_not_change_since_when_a_member_waits() {
    let (id, policy) = (agent(), policy());
    let later = Facts {
        now: Timestamp::UNIX_EPOCH + SECOND * 60,
        ..facts(&id, &policy)
    };
    let own = Due::Timer(OWN);
    for (phase, event) in [
        (ChildPhase::Quarantined { due: own }, Event::AwaitTurn),
        (ChildPhase::Quarantined { due: Due::Group }, Event::Alone),
        (
            ChildPhase::Backoff {
                until: None,
                due: own,
            },
            Event::AwaitTurn,
        ),
    ] {
        let mut child = in_phase(phase);
        let _actions = child.step(event, &later);
        assert_eq!(child.since(), Timestamp::UNIX_EPOCH, "{:?}", child.phase());
    }
}
