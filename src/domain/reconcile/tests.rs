//! Every row of the table, and idempotence.

use super::*;
use crate::domain::ids::{AgentName, Generation};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn agent(name: &str) -> ChildId {
    ChildId::Agent(AgentName::new(name).unwrap())
}

fn raider() -> ChildId {
    ChildId::Raider("horde/raiders/Toast".parse().unwrap())
}

fn wanted(id: ChildId, mode: Mode) -> Wanted {
    let session = id.session_id("city");
    Wanted {
        id,
        session,
        incarnation: Incarnation(0),
        mode,
        fingerprint: Some("new".into()),
        idle_timeout: Some(Duration::from_secs(60)),
    }
}

fn session(id: &ChildId, state: RunState) -> SessionFacts {
    SessionFacts {
        id: id.session_id("city"),
        token: format!("token-{id}"),
        generation: Generation(1),
        incarnation: Incarnation(0),
        state,
        agent: None,
        holder: None,
        started_at: NOW,
        last_activity: Some(NOW),
        last_output: Some(NOW),
        attached: false,
        guessed: false,
    }
}

fn lost() -> RunState {
    RunState::Lost { why: "x".into() }
}

fn unknown() -> RunState {
    RunState::Unknown { why: "x".into() }
}

fn up(fingerprint: &str, draining: bool) -> Tended {
    Tended::Up {
        fingerprint: Some(fingerprint.into()),
        draining,
    }
}

fn orphan(mode: Option<Mode>) -> Decision {
    Decision::StopOrphan {
        session: id().session_id("city"),
        token: format!("token-{}", id()),
        owner: mode.map(|_| id()),
        suspended: mode == Some(Mode::Suspended),
    }
}

fn decide(
    mode: Option<Mode>,
    tended: Option<Tended>,
    state: Option<RunState>,
    change: impl FnOnce(&mut SessionFacts),
) -> Vec<Decision> {
    let id = agent("a");
    let mut sessions: Vec<_> = state.map(|state| session(&id, state)).into_iter().collect();
    sessions
        .iter_mut()
        .for_each(|facts| facts.last_activity = Some(NOW));
    if let Some(facts) = sessions.first_mut() {
        change(facts);
    }
    plan(&PlanInputs {
        sessions,
        wanted: mode
            .map(|mode| wanted(id.clone(), mode))
            .into_iter()
            .collect(),
        busy: BTreeSet::new(),
        asking: BTreeSet::new(),
        tended: tended.map(|tended| (id, tended)).into_iter().collect(),
        now: NOW,
    })
}

type Row = (
    Option<Mode>,
    Option<Tended>,
    Option<RunState>,
    Vec<Decision>,
);

fn id() -> ChildId {
    agent("a")
}

fn check(rows: impl IntoIterator<Item = Row>) {
    for (mode, tended, state, decisions) in rows {
        let row = format!("{mode:?} {tended:?} {state:?}");
        assert_eq!(decide(mode, tended, state, |_| {}), decisions, "{row}");
    }
}

/// `health-patrol.md`, reconciliation state machine: not running, healthy, drifted.
#[test]
fn wanted_child_is_started_adopted_or_replaced() {
    use Mode::Run;
    use RunState::Running;
    let drift = Decision::Cycle(id(), Cause::Drift);
    check([
        (Some(Run), None, None, vec![Decision::Start(id())]),
        (Some(Run), None, Some(lost()), vec![Decision::Start(id())]),
        (Some(Run), None, Some(Running), vec![Decision::Adopt(id())]),
        (Some(Run), None, Some(unknown()), vec![]),
        (
            Some(Run),
            Some(Tended::Suspended),
            None,
            vec![Decision::Resume(id())],
        ),
        (
            Some(Run),
            Some(up("new", true)),
            Some(Running),
            vec![Decision::KeepOn(id())],
        ),
        (
            Some(Run),
            Some(up("old", false)),
            Some(Running),
            vec![drift],
        ),
        (Some(Run), Some(up("new", false)), Some(Running), vec![]),
        (Some(Run), Some(up("old", false)), Some(unknown()), vec![]),
        (Some(Run), Some(Tended::Waiting), None, vec![]),
        (Some(Run), Some(Tended::Resting), None, vec![]),
        (Some(Run), Some(Tended::Ending), None, vec![]),
    ]);
}

/// `health-patrol.md`, orphan cleanup: pool excess drains, the suspended stop.
#[test]
fn child_that_should_not_run_is_suspended_or_drained() {
    use Mode::{Drain, Suspended};
    use RunState::Running;
    check([
        (
            Some(Suspended),
            Some(up("new", false)),
            Some(Running),
            vec![Decision::Suspend(id(), Cause::Suspended)],
        ),
        (
            Some(Suspended),
            Some(Tended::Waiting),
            None,
            vec![Decision::Suspend(id(), Cause::Suspended)],
        ),
        (Some(Suspended), Some(Tended::Suspended), None, vec![]),
        (Some(Suspended), None, None, vec![]),
        (
            Some(Suspended),
            None,
            Some(Running),
            vec![orphan(Some(Suspended))],
        ),
        (
            Some(Drain),
            None,
            Some(Running),
            vec![Decision::Adopt(id()), Decision::Drain(id())],
        ),
        (Some(Drain), None, None, vec![]),
        // The child is being adopted.
        (
            Some(Drain),
            Some(Tended::Waiting),
            Some(Running),
            vec![Decision::Drain(id())],
        ),
        (
            Some(Drain),
            Some(up("old", false)),
            Some(Running),
            vec![Decision::Drain(id())],
        ),
        (Some(Drain), Some(up("old", true)), Some(Running), vec![]),
        (
            Some(Drain),
            Some(Tended::Waiting),
            None,
            vec![Decision::Remove(id())],
        ),
    ]);
}

/// A child that is no longer configured is removed, and orphans are ended.
#[test]
fn unwanted_child_is_removed() {
    use RunState::Running;
    check([
        (
            None,
            Some(up("new", false)),
            None,
            vec![Decision::Remove(id())],
        ),
        (
            None,
            Some(Tended::Waiting),
            None,
            vec![Decision::Remove(id())],
        ),
        (
            None,
            Some(Tended::Resting),
            None,
            vec![Decision::Remove(id())],
        ),
        (None, Some(Tended::Ending), None, vec![]),
        (
            Some(Mode::Drain),
            Some(Tended::Resting),
            None,
            vec![Decision::Remove(id())],
        ),
        (None, None, Some(Running), vec![orphan(None)]),
        (None, None, Some(unknown()), vec![]),
        (None, None, Some(lost()), vec![]),
        // Its session could not be ended when it was laid to rest.
        (
            Some(Mode::Suspended),
            Some(Tended::Suspended),
            Some(Running),
            vec![orphan(Some(Mode::Suspended))],
        ),
        (
            Some(Mode::Run),
            Some(Tended::Resting),
            Some(Running),
            vec![orphan(Some(Mode::Run))],
        ),
        (
            Some(Mode::Run),
            Some(Tended::Resting),
            Some(unknown()),
            vec![],
        ),
    ]);
}

/// Idle is checked before drift; an attached session is never disturbed; unknown activity is not inactivity.
#[test]
fn sub_states_of_a_running_session_are_asked_in_order() {
    let late = NOW.checked_sub(Duration::from_secs(60)).unwrap();
    let ask = |fingerprint, change: &dyn Fn(&mut SessionFacts)| {
        let running = Some(RunState::Running);
        decide(
            Some(Mode::Run),
            Some(up(fingerprint, false)),
            running,
            |facts| {
                facts.started_at = late;
                facts.last_activity = Some(late);
                change(facts);
            },
        )
    };
    let idle = vec![Decision::Cycle(agent("a"), Cause::Idle)];
    let drift = vec![Decision::Cycle(agent("a"), Cause::Drift)];
    assert_eq!(ask("old", &|_| {}), idle);
    assert_eq!(ask("old", &|facts| facts.attached = true), []);
    assert_eq!(ask("new", &|facts| facts.last_activity = None), []);
    assert_eq!(ask("old", &|facts| facts.last_activity = None), drift);
    assert_eq!(ask("new", &|facts| facts.last_activity = Some(NOW)), []);
    assert_eq!(ask("new", &|facts| facts.started_at = NOW), []);
}

/// An open question protects its session against idle and drift, but not against an operator or the configuration.
#[test]
fn session_with_an_open_question_is_neither_idle_nor_drifted() {
    let late = NOW.checked_sub(Duration::from_secs(60)).unwrap();
    let decide = |mode, asks: bool| {
        let mut facts = session(&id(), RunState::Running);
        (facts.started_at, facts.last_activity) = (late, Some(late));
        let asking = asks.then(|| facts.id.clone()).into_iter().collect();
        plan(&PlanInputs {
            sessions: vec![facts],
            wanted: vec![wanted(id(), mode)],
            tended: [(id(), up("old", false))].into(),
            asking,
            now: NOW,
            ..PlanInputs::default()
        })
    };
    assert_eq!(decide(Mode::Run, false).len(), 1);
    assert_eq!(decide(Mode::Run, true), []);
    assert_eq!(
        decide(Mode::Suspended, true),
        [Decision::Suspend(id(), Cause::Suspended)]
    );
    assert_eq!(decide(Mode::Drain, true), [Decision::Drain(id())]);
}

/// `rules.md`, drift hash: for raiders drift waits for the next session cycle.
#[test]
fn raiders_are_not_restarted_for_drift_and_are_removed_only_without_a_hook() {
    let mut own = wanted(raider(), Mode::Run);
    own.fingerprint = None;
    let seen = PlanInputs {
        sessions: vec![session(&raider(), RunState::Running)],
        wanted: vec![own],
        tended: [(raider(), up("old", false))].into(),
        ..PlanInputs::default()
    };
    assert_eq!(plan(&seen), []);
    let unhooked = PlanInputs {
        wanted: Vec::new(),
        sessions: Vec::new(),
        ..seen
    };
    assert_eq!(plan(&unhooked), [Decision::Remove(raider())]);
    let waits = PlanInputs {
        tended: [(raider(), Tended::Waiting)].into(),
        ..unhooked.clone()
    };
    assert_eq!(plan(&waits), [], "nothing of it runs");
    let busy = PlanInputs {
        busy: [raider().session_id("city")].into(),
        ..unhooked
    };
    assert_eq!(plan(&busy), [], "a saga is at it");
}

#[test]
fn child_of_an_open_saga_is_left_alone() {
    let id = raider();
    let seen = PlanInputs {
        sessions: vec![session(&id, RunState::Running)],
        wanted: vec![wanted(id.clone(), Mode::Suspended)],
        busy: [id.session_id("city")].into(),
        ..PlanInputs::default()
    };
    assert_eq!(plan(&seen), []);
}

/// `health-patrol.md`, invariant: reconciliation is idempotent.
#[test]
fn a_second_look_at_a_converged_city_decides_nothing() {
    let ids = [agent("a"), agent("b"), agent("c")];
    let modes = [Mode::Run, Mode::Suspended, Mode::Drain];
    let tended = [up("new", false), Tended::Suspended, up("new", true)];
    let seen = PlanInputs {
        sessions: [0, 2]
            .map(|at: usize| session(&ids[at], RunState::Running))
            .to_vec(),
        wanted: ids
            .iter()
            .cloned()
            .zip(modes)
            .map(|(id, mode)| wanted(id, mode))
            .collect(),
        asking: BTreeSet::new(),
        busy: BTreeSet::new(),
        tended: ids.iter().cloned().zip(tended).collect(),
        now: NOW,
    };
    assert_eq!(plan(&seen), []);
}

#[test]
fn a_session_of_an_earlier_incarnation_is_replaced() {
    let mut now = wanted(agent("a"), Mode::Run);
    now.incarnation = Incarnation(2);
    let seen = PlanInputs {
        sessions: vec![session(&agent("a"), RunState::Running)],
        wanted: vec![now],
        ..PlanInputs::default()
    };
    assert_eq!(plan(&seen), [Decision::Start(agent("a"))]);
}
