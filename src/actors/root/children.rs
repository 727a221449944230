//! Raiders and agents: one slot each.
//!
//! ```text
//!              Up                 death, within intensity
//!  Starting ────────► Running ───────────────────────────► Backoff ──► Starting
//!     ▲                │  │  │        death, too many
//!     │                │  │  └───────────────────────────► Quarantined ──► Starting
//!     └── Cycle ───────┘  │ Finished: the witness goes on
//!                         └── End / Rest ──► Ending ──► gone / Stopped
//! ```

use ractor::RpcReplyPort;

use super::super::child::{ChildActor, ChildArgs, ChildExit, ChildMsg};
use super::super::witness::WitnessMsg;
use super::{
    Actor, ActorId, ActorProcessingErr, ActorRef, Arc, Cause, ChildId, ChildSpec, Generation, How,
    NewEvent, RestartType, Root, RootMsg, SessionEvent, SessionView, Timestamp, Work,
};
use crate::domain::event::EventType;
use crate::domain::facts::SessionExit;
use crate::domain::restart::{Answer, CycleBrake, DeathWindow, Mono};

/// A child's session could not be ended.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the session of {id} could not be ended: {why}")]
pub struct EndRefused {
    /// Who.
    pub id: ChildId,
    /// What happened.
    pub why: String,
}

/// What a child does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// Its session is being started or adopted.
    Starting,
    /// Its session is up.
    Running,
    /// It died and waits for its restart.
    Backoff,
    /// It died too often.
    Quarantined,
    /// Its session is being ended.
    Ending,
    /// Its session ended after the agent said that it is finished.
    Finished,
    /// An operator stopped it, or its restart type says that it rests.
    Stopped,
}

/// A child as the root sees it.
#[derive(Debug, Clone)]
pub struct ChildView {
    /// Its spec.
    pub spec: ChildSpec,
    /// What it does.
    pub state: ChildState,
    /// Its session, while one is up.
    pub session: Option<SessionView>,
    /// Deaths that count now.
    pub restarts: u32,
    /// Until when it is quarantined.
    pub quarantined_until: Option<Timestamp>,
    /// Since when it is in this state.
    pub since: Timestamp,
}

enum Desired {
    Up,
    Cycle(Cause),
    Ended(Cause),
    Resting,
}

type Waiting<T, E> = Vec<RpcReplyPort<Result<T, E>>>;

/// What the root keeps of one child. Lost with the process, on purpose: everything but the death
/// counts is found again by looking.
pub(super) struct Slot {
    spec: ChildSpec,
    actor: Option<ActorRef<ChildMsg>>,
    desired: Desired,
    state: ChildState,
    deaths: DeathWindow,
    brake: CycleBrake,
    epoch: u64,
    generation: Generation,
    session: Option<SessionView>,
    up_at: Mono,
    since: Timestamp,
    cause: Cause,
    for_up: Waiting<SessionView, String>,
    for_end: Waiting<(), EndRefused>,
}

impl Slot {
    fn new(spec: ChildSpec, now: Timestamp, cause: Cause) -> Self {
        Self {
            spec,
            actor: None,
            desired: Desired::Up,
            state: ChildState::Starting,
            deaths: DeathWindow::default(),
            brake: CycleBrake::default(),
            epoch: 0,
            generation: Generation(1),
            session: None,
            up_at: Mono::ZERO,
            since: now,
            cause,
            for_up: Vec::new(),
            for_end: Vec::new(),
        }
    }

    pub(super) fn is(&self, actor: ActorId) -> bool {
        self.actor
            .as_ref()
            .is_some_and(|child| child.get_id() == actor)
    }

    pub(super) fn has_actor(&self) -> bool {
        self.actor.is_some()
    }

    pub(super) fn state_now(&self) -> ChildState {
        self.state
    }

    pub(super) fn grace(&self) -> std::time::Duration {
        self.spec.grace
    }

    pub(super) fn kill(&self) {
        if let Some(child) = &self.actor {
            child.kill();
        }
    }

    fn become_state(&mut self, state: ChildState, now: Timestamp) {
        self.state = state;
        self.since = now;
    }

    /// Tells the actor; false when there is none.
    pub(super) fn tell(&self, msg: ChildMsg) -> bool {
        self.actor
            .as_ref()
            .is_some_and(|child| child.cast(msg).is_ok())
    }
}

/// Answers everybody who waits; who gave up waiting is not an error.
fn answer<T: Clone + Send + 'static, E: Clone + Send + 'static>(
    waiting: &mut Waiting<T, E>,
    result: &Result<T, E>,
) {
    for reply in waiting.drain(..) {
        let _gave_up = reply.send(result.clone());
    }
}

impl Root {
    pub(super) async fn want(
        &mut self,
        me: &ActorRef<RootMsg>,
        spec: ChildSpec,
        cause: Cause,
        reply: Option<RpcReplyPort<Result<SessionView, String>>>,
    ) {
        let refuse = |reply: Option<RpcReplyPort<_>>, why: &str| {
            if let Some(reply) = reply {
                let _gave_up = reply.send(Err(why.to_owned()));
            }
        };
        if self.stopping.is_some() {
            return refuse(reply, "the supervisor is stopping");
        }
        let now = self.world.clock.now();
        let id = spec.id.clone();
        let slot = self
            .slots
            .entry(id.clone())
            .or_insert_with(|| Slot::new(spec.clone(), now, cause));
        if matches!(slot.desired, Desired::Ended(_)) {
            return refuse(reply, "its last session is still being ended");
        }
        slot.spec = spec;
        slot.cause = cause;
        if slot.actor.is_some() {
            match (&slot.session, reply) {
                (Some(session), Some(reply)) => {
                    let _gave_up = reply.send(Ok(session.clone()));
                }
                (None, Some(reply)) => slot.for_up.push(reply),
                (_, None) => {}
            }
            return;
        }
        slot.for_up.extend(reply);
        self.spawn_child(me, &id).await;
    }

    /// Makes the actor. Its start runs in a task of its own; nothing is awaited here but ractor.
    async fn spawn_child(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.epoch += 1;
        slot.desired = Desired::Up;
        slot.session = None;
        slot.become_state(ChildState::Starting, now);
        let args = ChildArgs {
            world: Arc::clone(&self.world),
            spec: slot.spec.clone(),
            generation: slot.generation,
            cause: slot.cause,
        };
        match ChildActor::spawn_linked(None, ChildActor, args, me.get_cell()).await {
            Ok((child, _task)) => slot.actor = Some(child),
            // No event follows a failed spawn: it must be answered here.
            Err(error) => {
                let (id, epoch) = (id.clone(), slot.epoch);
                tracing::error!(child = %id, %error, "an actor could not be spawned");
                let delay = std::time::Duration::from_secs(1);
                let _timer = me.send_after(delay, move || RootMsg::Retry { id, epoch });
            }
        }
    }

    pub(super) fn up(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        actor: ActorId,
        session: SessionView,
        how: How,
    ) {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let Some(slot) = self.slots.get_mut(id).filter(|slot| slot.is(actor)) else {
            return;
        };
        slot.generation = Generation(session.generation.0 + 1);
        slot.session = Some(session.clone());
        slot.up_at = mono;
        slot.become_state(ChildState::Running, now);
        answer(&mut slot.for_up, &Ok(session.clone()));
        let data = serde_json::json!({
            "session": session.handle.id, "pid": session.agent.pid,
            "holder_pid": session.holder.as_ref().map(|holder| holder.pid),
            "generation": session.generation,
        });
        let kind = match how {
            How::Adopted => EventType::AgentAdopted,
            How::Fresh | How::Respawned | How::HandedOver => EventType::AgentStarted,
        };
        let mut events = vec![NewEvent::new(kind, id, slot.cause).with(data)];
        if let (Work::Raider { hook, .. }, How::Respawned) = (&slot.spec.work, how) {
            let data = serde_json::json!({ "relic": hook.relic, "incarnation": hook.incarnation });
            let respawned = NewEvent::new(EventType::RaiderRespawned, id, slot.cause);
            events.push(respawned.with(data));
        }
        self.world.store.note(events);
        debug_assert!(me.get_id() != actor, "the root is nobody's child");
    }

    /// Answers the end of a child's actor.
    pub(super) async fn child_ended(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        error: Option<ActorProcessingErr>,
    ) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.actor = None;
        let session = slot.session.take();
        if let Some(stopping) = &self.stopping {
            let kept = stopping.keeps_sessions();
            slot.become_state(ChildState::Stopped, now);
            answer(&mut slot.for_end, &Ok(()));
            if session.is_some() && !kept {
                self.note(NewEvent::new(EventType::AgentStopped, id, Cause::Shutdown));
            }
            return self.stopped_one(me);
        }
        let exit = exit_of(error);
        match (&slot.desired, exit) {
            (Desired::Ended(_) | Desired::Resting, Some(ChildExit::Undead(why))) => {
                let refused = EndRefused {
                    id: id.clone(),
                    why,
                };
                answer(&mut slot.for_end, &Err(refused));
                slot.become_state(ChildState::Stopped, now);
            }
            (Desired::Ended(cause), _) => {
                let cause = *cause;
                self.gone(id, cause);
            }
            (Desired::Resting, _) => {
                slot.become_state(ChildState::Stopped, now);
                answer(&mut slot.for_end, &Ok(()));
                self.note(NewEvent::new(EventType::AgentStopped, id, Cause::Operator));
            }
            (Desired::Cycle(cause), exit) => {
                let cause = *cause;
                self.cycled(me, id, cause, exit).await;
            }
            (Desired::Up, Some(ChildExit::Finished)) => {
                slot.become_state(ChildState::Finished, now);
                answer(
                    &mut slot.for_up,
                    &Err("the agent had finished before".to_owned()),
                );
                if let ChildId::Raider(raider) = id {
                    let finished = WitnessMsg::Finished(raider.clone());
                    self.world.directory.tell_witness(&raider.rig, finished);
                }
            }
            (Desired::Up, Some(ChildExit::StartFailed(why))) if !slot.for_up.is_empty() => {
                answer(&mut slot.for_up, &Err(why));
                self.slots.remove(id);
            }
            (Desired::Up, exit) => self.died(me, id, exit).await,
        }
    }

    /// A planned cycle came to its turn.
    async fn cycled(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        cause: Cause,
        exit: Option<ChildExit>,
    ) {
        let mono = self.world.clock.mono();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let undead = matches!(exit, Some(ChildExit::Undead(_)));
        if undead || slot.brake.on_cycle(mono) {
            return self.died(me, id, exit).await;
        }
        slot.cause = cause;
        self.note(NewEvent::new(EventType::AgentRestarted, id, cause));
        self.spawn_child(me, id).await;
    }

    /// A death: crashed, then restarted, quarantined or left at rest.
    async fn died(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, exit: Option<ChildExit>) {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let policy = self.world.city.daemon.restart.clone();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let (cause, how, data) = describe(exit, slot.generation);
        slot.cause = cause;
        self.world.store.note(vec![
            NewEvent::new(EventType::AgentCrashed, id, cause).with(data),
        ]);
        if rests(slot.spec.restart, how.as_ref()) {
            slot.become_state(ChildState::Stopped, now);
            self.note(NewEvent::new(EventType::AgentStopped, id, cause));
            return;
        }
        let healthy = mono.saturating_sub(slot.up_at);
        if policy
            .stable_after
            .is_some_and(|stable| slot.up_at > Mono::ZERO && healthy >= stable)
        {
            slot.deaths.clear();
        }
        slot.up_at = Mono::ZERO;
        slot.epoch += 1;
        let delay = match slot.deaths.on_death(&policy, mono, (self.world.random)()) {
            Answer::Restart { after } if after.is_zero() => {
                return self.spawn_child(me, id).await;
            }
            Answer::Restart { after } => {
                slot.become_state(ChildState::Backoff, now);
                after
            }
            Answer::Quarantine { until } => {
                slot.become_state(ChildState::Quarantined, now);
                let wait = until.saturating_sub(mono);
                let data = serde_json::json!({
                    "until": now.checked_add(wait).unwrap_or(Timestamp::MAX),
                    "deaths": slot.deaths.count(&policy, mono),
                });
                let event = NewEvent::new(EventType::AgentQuarantined, id, Cause::TooManyDeaths);
                self.world.store.note(vec![event.with(data)]);
                wait
            }
        };
        let (id, epoch) = (id.clone(), slot.epoch);
        let _timer = me.send_after(delay, move || RootMsg::Retry { id, epoch });
    }

    pub(super) async fn retry(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, epoch: u64) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let waits = slot.epoch == epoch && slot.actor.is_none();
        if !waits || !matches!(slot.desired, Desired::Up) || self.stopping.is_some() {
            return;
        }
        if slot.state == ChildState::Quarantined {
            slot.cause = Cause::WindowPassed;
            let event = NewEvent::new(EventType::AgentUnquarantined, id, Cause::WindowPassed);
            self.world.store.note(vec![event]);
        }
        self.spawn_child(me, id).await;
    }

    /// The child is gone for good; whoever waited for that is told.
    fn gone(&mut self, id: &ChildId, cause: Cause) {
        let Some(mut slot) = self.slots.remove(id) else {
            return;
        };
        self.note(NewEvent::new(EventType::AgentStopped, id, cause));
        answer(&mut slot.for_end, &Ok(()));
        answer(&mut slot.for_up, &Err("it was ended".to_owned()));
    }

    pub(super) fn end(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: ChildId,
        session: crate::domain::ids::SessionId,
        cause: Cause,
        reply: RpcReplyPort<Result<(), EndRefused>>,
    ) {
        let now = self.world.clock.now();
        let grace = self.world.city.daemon.shutdown_timeout;
        let Some(slot) = self.slots.get_mut(&id) else {
            let world = Arc::clone(&self.world);
            tokio::spawn(async move {
                let stopped = super::super::effects::stop_any(&world, &session, grace).await;
                let result = stopped.map(|_| ());
                let _gave_up = reply.send(result.map_err(|e| EndRefused {
                    id,
                    why: e.to_string(),
                }));
            });
            return;
        };
        slot.for_end.push(reply);
        slot.desired = Desired::Ended(cause);
        slot.become_state(ChildState::Ending, now);
        if !slot.tell(ChildMsg::End(slot.spec.grace)) {
            self.sweep(me, &id);
        }
    }

    /// Ends whatever session a child without an actor may still have.
    fn sweep(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.epoch += 1;
        let (world, me) = (Arc::clone(&self.world), me.clone());
        let (id, epoch, grace) = (id.clone(), slot.epoch, slot.spec.grace);
        let session = slot.spec.session.clone();
        tokio::spawn(async move {
            let stopped = super::super::effects::stop_any(&world, &session, grace).await;
            let result = stopped.map(|_| ()).map_err(|error| error.to_string());
            // The root only goes with the process.
            let _gone = me.cast(RootMsg::Swept { id, epoch, result });
        });
    }

    pub(super) fn swept(&mut self, id: &ChildId, epoch: u64, result: Result<(), String>) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id).filter(|slot| slot.epoch == epoch) else {
            return;
        };
        match (result, &slot.desired) {
            (Err(why), _) => {
                let refused = EndRefused {
                    id: id.clone(),
                    why,
                };
                answer(&mut slot.for_end, &Err(refused));
                slot.become_state(ChildState::Stopped, now);
            }
            (Ok(()), Desired::Ended(cause)) => {
                let cause = *cause;
                self.gone(id, cause);
            }
            (Ok(()), Desired::Resting | Desired::Up | Desired::Cycle(_)) => {
                slot.become_state(ChildState::Stopped, now);
                answer(&mut slot.for_end, &Ok(()));
            }
        }
    }

    pub(super) fn cycle(
        &mut self,
        id: &ChildId,
        cause: Cause,
        reply: RpcReplyPort<Result<(), String>>,
    ) {
        let result = match self.slots.get_mut(id) {
            Some(slot) if matches!(slot.desired, Desired::Up) && slot.actor.is_some() => {
                slot.desired = Desired::Cycle(cause);
                let grace = slot.spec.grace;
                slot.tell(ChildMsg::End(grace));
                Ok(())
            }
            Some(_) => Err(format!("{id} has no session to cycle")),
            None => Err(format!("{id} is not known")),
        };
        let _gave_up = reply.send(result);
    }

    pub(super) fn rest(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: ChildId,
        reply: RpcReplyPort<Result<(), EndRefused>>,
    ) {
        if let ChildId::Agent(agent) = &id {
            self.resting.insert(agent.clone());
        }
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(&id) else {
            let _gave_up = reply.send(Ok(()));
            return;
        };
        slot.for_end.push(reply);
        slot.desired = Desired::Resting;
        slot.become_state(ChildState::Ending, now);
        if !slot.tell(ChildMsg::End(slot.spec.grace)) {
            self.sweep(me, &id);
        }
    }

    pub(super) async fn wake(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: ChildId,
        cause: Cause,
        reply: RpcReplyPort<Result<(), String>>,
    ) {
        if let ChildId::Agent(agent) = &id {
            self.resting.remove(agent);
        }
        let result = match self.slots.get_mut(&id) {
            None => Err(format!("{id} is not known")),
            Some(slot) if matches!(slot.desired, Desired::Ended(_)) || self.stopping.is_some() => {
                Err(format!("{id} is being ended"))
            }
            Some(slot) if slot.actor.is_some() => Ok(()),
            Some(slot) => {
                if slot.state == ChildState::Quarantined {
                    let event = NewEvent::new(EventType::AgentUnquarantined, &id, cause);
                    self.world.store.note(vec![event]);
                }
                slot.deaths.clear();
                slot.cause = cause;
                self.spawn_child(me, &id).await;
                Ok(())
            }
        };
        let _gave_up = reply.send(result);
    }

    /// Routes an exit to the child whose session it was; nobody's is left to the next look.
    pub(super) fn session_event(&mut self, event: SessionEvent) {
        let (SessionEvent::Exited(handle, _) | SessionEvent::Lost(handle, _)) = &event;
        let id = self
            .slots
            .iter()
            .find(|(_, slot)| slot.spec.session == handle.id);
        if let Some((_, slot)) = id {
            slot.tell(ChildMsg::Session(event));
        }
    }

    pub(super) fn views(&mut self) -> Vec<ChildView> {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let policy = &self.world.city.daemon.restart;
        let view = |slot: &mut Slot| ChildView {
            spec: slot.spec.clone(),
            state: slot.state,
            session: slot.session.clone(),
            restarts: slot.deaths.count(policy, mono),
            quarantined_until: slot
                .deaths
                .quarantined_until(mono)
                .filter(|_| slot.state == ChildState::Quarantined)
                .and_then(|until| now.checked_add(until.saturating_sub(mono)).ok()),
            since: slot.since,
        };
        self.slots.values_mut().map(view).collect()
    }
}

fn exit_of(error: Option<ActorProcessingErr>) -> Option<ChildExit> {
    error.map(|error| match error.downcast_ref::<ChildExit>() {
        Some(exit) => exit.clone(),
        // A panic: the session may well run on, and the next actor adopts it.
        None => ChildExit::Died {
            cause: Cause::Internal,
            exit: None,
            tail: error.to_string(),
        },
    })
}

/// Cause, how the session ended, and particulars of the event.
fn describe(
    exit: Option<ChildExit>,
    generation: Generation,
) -> (Cause, Option<SessionExit>, serde_json::Value) {
    let generation = generation.0.saturating_sub(1);
    match exit {
        Some(ChildExit::Died { cause, exit, tail }) => {
            let data = serde_json::json!({
                "code": exit.as_ref().and_then(|exit| exit.code),
                "signal": exit.as_ref().and_then(|exit| exit.signal),
                "generation": generation, "tail": tail,
            });
            (cause, exit, data)
        }
        Some(ChildExit::StartFailed(why)) => (
            Cause::StartFailed,
            None,
            serde_json::json!({ "error": why }),
        ),
        Some(ChildExit::Undead(why)) => {
            (Cause::Internal, None, serde_json::json!({ "error": why }))
        }
        Some(ChildExit::Finished) | None => (
            Cause::Internal,
            None,
            serde_json::json!({ "generation": generation }),
        ),
    }
}

/// Whether this restart type answers such an end with rest (OTP's meaning).
fn rests(restart: RestartType, exit: Option<&SessionExit>) -> bool {
    match restart {
        RestartType::Permanent => false,
        RestartType::Transient => exit.is_some_and(|exit| exit.code == Some(0)),
        RestartType::Temporary => true,
    }
}
