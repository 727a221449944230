//! A start that is put off, or that an operator tries.

use super::tests::{agent, facts, in_phase, letter, policy};
use super::*;

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
        ChildExit::Homeless(no()),
    ];
    for exit in failures {
        for cause in [Cause::Operator, Cause::RateLimit, Cause::Suspended] {
            let before = Phase::Resting(Rest::Order(cause));
            let mut child = in_phase(before.clone());
            let _actions = child.step(Event::Woken(Cause::Operator), &waits);
            let _actions = child.step(Event::Exited(Some(exit.clone())), &waits);
            assert_eq!(*child.phase(), before, "{exit:?}");
        }
        let mut child = in_phase(Phase::Resting(Rest::Over));
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
        let mut child = in_phase(Phase::Resting(Rest::Over));
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
