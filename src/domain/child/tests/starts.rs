//! Tests of a start that is put off, or that an operator tries.

use super::super::*;
use super::{agent, cycle, died, facts, in_phase, letter, policy};

/// Otherwise a parked child would never go on, and a stopped one would start when its configuration changes.
#[test]
fn failed_try_of_an_operator_leaves_a_child_in_the_rest_that_it_was_in() {
    let (id, policy) = (agent(), policy());
    let gave_up = facts(&id, &policy);
    let waits = Facts {
        operator_waits: true,
        ..gave_up.clone()
    };
    let no = || "no".to_owned();
    let failures = [
        ChildExit::StartFailed(no()),
        ChildExit::Unseen(no()),
        ChildExit::NoSandbox(no()),
    ];
    for exit in failures {
        for cause in [Cause::Operator, Cause::RateLimit, Cause::Suspended] {
            let before = ChildPhase::Resting(Rest::Order(cause));
            let mut child = in_phase(before.clone());
            let _actions = child.step(Event::Woken(Cause::Operator), &waits);
            let _actions = child.step(Event::Exited(Some(exit.clone())), &waits);
            assert_eq!(*child.phase(), before, "{exit:?}");
        }
        let mut child = in_phase(ChildPhase::Resting(Rest::Over));
        let _actions = child.step(Event::Woken(Cause::Operator), &gave_up);
        let _actions = child.step(Event::Exited(Some(exit)), &gave_up);
        assert_eq!(letter(child.phase()), 'W');
    }
}

/// An order that comes meanwhile replaces the try.
#[test]
fn try_that_a_stop_ended_is_over() {
    let (id, policy) = (agent(), policy());
    let facts = Facts {
        operator_waits: true,
        ..facts(&id, &policy)
    };
    let out = Event::OutOfAccount {
        cause: Cause::RateLimit,
        text: String::new(),
    };
    for ends in [
        vec![Event::Rest(Cause::Suspended), Event::Exited(None)],
        vec![out],
    ] {
        let mut child = in_phase(ChildPhase::Resting(Rest::Over));
        let _actions = child.step(Event::Woken(Cause::Operator), &facts);
        for event in ends {
            let _actions = child.step(event, &facts);
        }
        let _actions = child.step(Event::Resumed, &facts);
        let failed = ChildExit::StartFailed("no".into());
        let _actions = child.step(Event::Exited(Some(failed)), &facts);
        assert_eq!(letter(child.phase()), 'W');
    }
}

#[test]
fn death_without_a_supervisor_is_not_forgotten_when_a_start_is_put_off() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let why = || "why".to_owned();
    for exit in [
        ChildExit::Unseen(why()),
        ChildExit::Unwritable(why()),
        ChildExit::NoSandbox(why()),
    ] {
        let mut child = in_phase(ChildPhase::Blocked);
        child.restore(DeathWindow::default(), true);
        assert!(counts_on_start(&mut child, Event::Ready, &facts));
        let _actions = child.step(Event::Exited(Some(exit)), &facts);
        let again = due(&child);
        assert!(counts_on_start(&mut child, again, &facts));
        let _actions = child.step(Event::Exited(died()), &facts);
        let counted = due(&child);
        assert!(!counts_on_start(&mut child, counted, &facts));
        assert_eq!(child.deaths().count(&policy, facts.mono), 1);
    }
}

/// A session that came up, or was ended on purpose, had no such death.
#[test]
fn session_that_is_up_or_was_ended_did_not_die_without_a_supervisor() {
    let (id, policy) = (agent(), policy());
    let facts = facts(&id, &policy);
    let rest = || Event::Rest(Cause::Suspended);
    for (events, then) in [
        (vec![Event::Up(facts.mono), cycle(Cause::Operator)], None),
        (vec![rest()], Some(Event::Resumed)),
        (vec![Event::AwaitTurn], None),
    ] {
        let mut child = in_phase(ChildPhase::Blocked);
        child.restore(DeathWindow::default(), true);
        assert!(counts_on_start(&mut child, Event::Ready, &facts));
        for event in events {
            let _actions = child.step(event, &facts);
        }
        let last = match then {
            Some(event) => {
                let _actions = child.step(Event::Exited(None), &facts);
                event
            }
            None => Event::Exited(None),
        };
        assert!(!counts_on_start(&mut child, last, &facts));
    }
}

/// Returns the end of the wait of a child.
fn due(child: &Child) -> Event {
    match child.phase() {
        ChildPhase::Backoff {
            due: Due::Timer(due),
            ..
        } => Event::Due(*due),
        phase => panic!("{phase:?}"),
    }
}

/// Takes the step, which is to start the child. Returns true when the start counts a session that does not run as
/// dead.
fn counts_on_start(child: &mut Child, event: Event, facts: &Facts<'_>) -> bool {
    let actions = child.step(event, facts);
    let spawn = actions.iter().find_map(|action| match action {
        Action::Spawn { unattended, .. } => Some(*unattended),
        _ => None,
    });
    spawn.unwrap_or_else(|| panic!("no start: {actions:?}"))
}
