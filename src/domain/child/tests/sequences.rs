//! Tests with random sequences of events, with a model of what the root does: one actor at a time, timers and sweeps that may come
//! late, and a group that restarts now and then.

use proptest::prelude::*;

use super::super::*;
use super::{agent, died, facts, policy};

/// An act of the world. Numbers choose among the timers and the sweeps, old ones included.
#[derive(Debug, Clone)]
enum Act {
    Order(Event),
    Timer(usize),
    Up,
    Exit(Option<ChildExit>),
    Sweep(usize, bool),
    Drained(usize),
    Pass(u64),
    Account(bool),
    Depends(bool),
    Restart(RestartType),
    Group(bool),
    Part(Turn),
    Waits(bool),
}

fn exits() -> Vec<Option<ChildExit>> {
    let why = || "why".to_owned();
    vec![
        None,
        died(),
        Some(ChildExit::Unseen(why())),
        Some(ChildExit::Unwritable(why())),
        Some(ChildExit::StartFailed(why())),
        Some(ChildExit::NoSandbox(why())),
        Some(ChildExit::Finished),
        Some(ChildExit::NotEnded(why())),
        Some(ChildExit::Broken(why())),
    ]
}

fn orders() -> Vec<Event> {
    let cycle = |cause| Event::Cycle {
        cause,
        tail: None,
        progress: None,
    };
    vec![
        Event::Wanted(Cause::Config),
        Event::Wanted(Cause::Recovered),
        Event::Woken(Cause::Operator),
        Event::Resumed,
        Event::Respecified,
        Event::Ready,
        Event::End(Cause::Done),
        Event::Remove(Cause::Removed),
        Event::Rest(Cause::Operator),
        Event::Rest(Cause::Suspended),
        Event::Rest(Cause::RateLimit),
        cycle(Cause::Operator),
        cycle(Cause::Handoff),
        cycle(Cause::AgentDead),
        Event::Drain,
        Event::KeepOn,
        Event::DrainDue(None),
        Event::AwaitTurn,
        Event::Turn,
        Event::Alone,
        Event::OutOfAccount {
            cause: Cause::RateLimit,
            text: "limit".into(),
        },
    ]
}

fn act() -> impl Strategy<Value = Act> {
    use RestartType::{Permanent, Temporary, Transient};
    let parts = vec![Turn::None, Turn::Culprit, Turn::Member];
    let restarts = vec![Permanent, Permanent, Transient, Temporary];
    prop_oneof![
        6 => proptest::sample::select(orders()).prop_map(Act::Order),
        4 => (0..4usize).prop_map(Act::Timer),
        6 => Just(Act::Up),
        6 => proptest::sample::select(exits()).prop_map(Act::Exit),
        3 => (0..3usize, any::<bool>()).prop_map(|(index, ended)| Act::Sweep(index, ended)),
        1 => (0..3usize).prop_map(Act::Drained),
        2 => (0..2000u64).prop_map(Act::Pass),
        1 => any::<bool>().prop_map(Act::Account),
        1 => any::<bool>().prop_map(Act::Depends),
        1 => proptest::sample::select(restarts).prop_map(Act::Restart),
        1 => any::<bool>().prop_map(Act::Group),
        1 => proptest::sample::select(parts).prop_map(Act::Part),
        1 => any::<bool>().prop_map(Act::Waits),
    ]
}

/// The root and the world around one child.
struct World<'a> {
    child: Child,
    facts: Facts<'a>,
    /// Set while it has an actor, and with it a session or a start of one.
    has_actor: bool,
    /// Timers and sweeps, the newest first; none is ever forgotten.
    timers: Vec<(Token, Mono)>,
    sweeps: Vec<Token>,
    drains: Vec<Token>,
    /// Set while the group has the child's next start in hand.
    in_group: bool,
}

impl<'a> World<'a> {
    fn new(id: &'a ChildId, policy: &'a RestartPolicy) -> Self {
        Self {
            child: Child::new(Rest::Over, Cause::Config, Timestamp::UNIX_EPOCH),
            facts: facts(id, policy),
            has_actor: false,
            timers: Vec::new(),
            sweeps: Vec::new(),
            drains: Vec::new(),
            in_group: false,
        }
    }

    fn act(&mut self, act: Act) {
        if *self.child.phase() == ChildPhase::Gone {
            // It is wanted again: a record of the same name, while timers and sweeps of the earlier one are under way.
            self.child = Child::new(Rest::Over, Cause::Config, self.facts.now);
        }
        match act {
            Act::Order(Event::OutOfAccount { .. }) if !self.child.is_wanted_up() => {}
            Act::Order(event @ Event::OutOfAccount { .. }) => self.lose_actor(event),
            // The group passes over a member whose quarantine goes on.
            Act::Order(Event::Turn) if self.is_held() => {}
            Act::Order(event) => {
                self.in_group |= matches!(event, Event::AwaitTurn);
                self.step(event);
            }
            Act::Timer(index) => self.fire(index),
            Act::Up if self.has_actor => self.step(Event::Up(self.facts.mono)),
            Act::Exit(exit) if self.has_actor => self.lose_actor(Event::Exited(exit)),
            // The end of an actor of an earlier generation.
            Act::Exit(exit) if !self.child.is_leaving() => self.is_void(Event::Exited(exit)),
            Act::Sweep(index, ended) => {
                if let Some(token) = self.sweeps.get(index).copied() {
                    self.sweep(token, ended);
                }
            }
            Act::Drained(index) => {
                if let Some(drain) = self.drains.get(index) {
                    self.step(Event::DrainDue(Some(*drain)));
                }
            }
            Act::Pass(seconds) => {
                let passed = Duration::from_secs(seconds);
                self.facts.mono += passed;
                self.facts.now += passed;
            }
            Act::Account(parked) => self.facts.parked = parked.then_some(Cause::RateLimit),
            Act::Depends(may_start) => self.facts.may_start = may_start,
            Act::Restart(restart) => self.facts.restart = restart,
            Act::Group(concerns_others) => self.facts.concerns_others = concerns_others,
            Act::Part(turn) if self.in_group => self.facts.turn = turn,
            Act::Waits(waits) => self.facts.operator_waits = waits,
            Act::Up | Act::Exit(_) | Act::Part(_) => {}
        }
    }

    fn is_held(&mut self) -> bool {
        let mono = self.facts.mono;
        self.child.deaths().quarantined_until(mono).is_some()
    }

    fn lose_actor(&mut self, event: Event) {
        self.has_actor = false;
        let was_draining = self.child.is_draining() && self.child.may_cycle();
        let before = self.child.clone();
        self.step(event.clone());
        let again = was_draining && self.has_actor;
        assert!(
            !again,
            "a draining child gets no fresh session: {event:?} in {before:?}"
        );
    }

    /// A timer fires at its time, or later than that.
    fn fire(&mut self, index: usize) {
        let Some((token, at)) = self.timers.get(index).copied() else {
            return;
        };
        self.facts.mono = self.facts.mono.max(at);
        match self.child.phase().token() == Some(token) {
            true => self.step(Event::Due(token)),
            false => self.is_void(Event::Due(token)),
        }
    }

    /// A sweep runs only while the child has no actor.
    fn sweep(&mut self, token: Token, ended: bool) {
        let result = match ended {
            true => Ok(()),
            false => Err(EndRefused::Another(self.facts.id.clone())),
        };
        match self.child.is_swept_by(token) {
            true => self.step(Event::Swept(token, result)),
            false => self.is_void(Event::Swept(token, result)),
        }
    }

    /// A late event changes nothing.
    fn is_void(&mut self, event: Event) {
        let before = self.child.clone();
        let actions = self.child.step(event.clone(), &self.facts);
        assert_eq!(actions, [], "{event:?} in {before:?}");
        assert_eq!(self.child.phase(), before.phase(), "{event:?}");
        assert_eq!(self.child.since(), before.since(), "{event:?}");
    }

    fn step(&mut self, event: Event) {
        let before = self.child.clone();
        self.facts.token.0 += 1;
        let actions = self.child.step(event.clone(), &self.facts);
        for action in &actions {
            match action {
                Action::Spawn { .. } => {
                    assert!(!self.has_actor, "two sessions: {event:?} in {before:?}");
                    self.has_actor = true;
                    is_release(before.phase(), &event);
                }
                Action::EndSession(token) if !self.has_actor => self.sweeps.insert(0, *token),
                Action::Arm { token, after } => {
                    let at = self.facts.mono + *after;
                    self.timers.insert(0, (*token, at));
                }
                Action::ArmDrain(token) => self.drains.insert(0, *token),
                Action::RestartGroup(_) => self.in_group = true,
                _ => {}
            }
        }
        self.is_attended(&event, &before);
        answers_last(&actions);
        let marked = |action: &&Action| {
            matches!(
                action,
                Action::Spawn { .. } | Action::Arm { .. } | Action::EndSession(_)
            )
        };
        // They have the same mark.
        let marked = actions.iter().filter(marked).count();
        assert!(marked <= 1, "{event:?} in {before:?}: {actions:?}");
        let begins = |action: &Action| matches!(action, Action::Spawn { .. });
        let is_same = self.child.state() == before.state() && !actions.iter().any(begins);
        let kept = self.child.since() == before.since();
        assert!(kept || !is_same, "{event:?} in {before:?}");
    }

    /// A child that is wanted has a session, a start under way, a timer or a turn; one that is not has none of them.
    fn is_attended(&self, event: &Event, before: &Child) {
        let phase = self.child.phase();
        let is_armed = |due: &Due| match due {
            Due::Timer(token) => self.timers.iter().any(|(armed, _)| armed == token),
            Due::Group => self.in_group,
        };
        let holds = match phase {
            ChildPhase::Starting { .. }
            | ChildPhase::Running { .. }
            | ChildPhase::Replacing { .. } => self.has_actor,
            ChildPhase::Leaving { sweep, .. } => self.has_actor || self.sweeps.contains(sweep),
            ChildPhase::Backoff { due, .. } | ChildPhase::Quarantined { due } => {
                !self.has_actor && is_armed(due)
            }
            ChildPhase::Blocked => !self.has_actor,
            ChildPhase::Finished | ChildPhase::Resting(_) | ChildPhase::Gone => !self.has_actor,
        };
        assert!(holds, "{event:?} in {before:?} led to {phase:?}");
    }

    /// Orders the end, and lets everything that is under way end. Returns the phase that is left.
    fn stop(&mut self, order: Event, exit: Option<ChildExit>) -> &ChildPhase {
        self.step(order);
        if self.has_actor {
            self.lose_actor(Event::Exited(exit));
        }
        if let ChildPhase::Leaving { sweep, .. } = *self.child.phase() {
            self.sweep(sweep, true);
        }
        self.child.phase()
    }
}

/// A caller that is told of an end finds it in the journal.
fn answers_last(actions: &[Action]) {
    let answers = |action: &Action| matches!(action, Action::AnswerEnd(_));
    let journals = |action: &Action| matches!(action, Action::Journal(..) | Action::JournalEnd(..));
    let mut after = actions.iter().skip_while(|action| !answers(action));
    assert!(!after.any(journals), "{actions:?}");
}

/// A quarantined child starts only when its own timer fires, when its turn comes after that, and by an order.
fn is_release(phase: &ChildPhase, event: &Event) {
    let ChildPhase::Quarantined { due } = phase else {
        return;
    };
    let releases = match event {
        Event::Due(token) => *due == Due::Timer(*token),
        Event::Woken(_) | Event::Wanted(_) | Event::Respecified | Event::Turn => true,
        _ => false,
    };
    assert!(releases, "{event:?} released a quarantined child");
}

proptest! {
    #[test]
    fn no_sequence_of_events_breaks_the_rules(acts in proptest::collection::vec(act(), 1..60)) {
        let (id, policy) = (agent(), policy());
        let mut world = World::new(&id, &policy);
        for act in acts {
            world.act(act);
        }
    }

    #[test]
    fn stop_always_ends_in_stopped(
        acts in proptest::collection::vec(act(), 1..40),
        order in proptest::sample::select(vec![
            Event::Rest(Cause::Operator),
            Event::End(Cause::Done),
            Event::Remove(Cause::Removed),
        ]),
        exit in proptest::sample::select(exits()),
    ) {
        let (id, policy) = (agent(), policy());
        let mut world = World::new(&id, &policy);
        for act in acts {
            world.act(act);
        }
        let left = world.stop(order, exit).clone();
        prop_assert!(matches!(left, ChildPhase::Resting(_) | ChildPhase::Gone), "{left:?}");
        prop_assert_eq!(left.state(), ChildState::Stopped);
        prop_assert!(!world.has_actor);
    }

    #[test]
    fn stop_of_the_supervisor_leaves_no_child_that_starts(
        acts in proptest::collection::vec(act(), 1..40),
        is_kept in any::<bool>(),
    ) {
        let (id, policy) = (agent(), policy());
        let mut world = World::new(&id, &policy);
        for act in acts {
            world.act(act);
        }
        let was_up = world.has_actor;
        world.has_actor = false;
        world.step(Event::ShutDown { was_up, is_kept });
        prop_assert_eq!(world.child.state(), ChildState::Stopped);
    }
}
