//! The life of raiders and agents: start, up, death and what follows it. One slot each.
//!
//! ```text
//!              Up                 death, within intensity
//!  Starting ────────► Running ───────────────────────────► Backoff ──► Starting
//!     ▲                │  │  │        death, too many
//!     │                │  │  └───────────────────────────► Quarantined ──► Starting
//!     └── Cycle ───────┘  │ Finished: the witness goes on
//!                         └── End / Rest ──► Ending ──► gone / Stopped
//! ```
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef};

use super::super::mail::RootMail;
use super::super::prompting;
use super::slot::{Desired, Slot, answer};
use super::{Root, RootMsg};
use crate::actors::mail::How;
use crate::actors::mail::WitnessMsg;
use crate::actors::mail::{ChildState, EndRefused};
use crate::actors::mail::{SessionView, Work};
use crate::actors::session::child::{ChildActor, ChildArgs, ChildExit, ChildMsg};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, Generation};
use crate::ports::sessions::SessionEvent;

/// Delay before a start is retried that could not see its session, or could not write.
const PUT_OFF: Duration = Duration::from_secs(5);

impl Root {
    /// Spawns the child's actor. The session's start runs in a task of the child; only ractor is awaited here.
    pub(super) async fn spawn_child(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let now = self.world.clock.now();
        let may_start = self.may_start(id);
        if self.park(id) {
            return;
        }
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.epoch += 1;
        slot.desired = Desired::Up;
        slot.session = None;
        slot.up_at = None;
        if !may_start && slot.cause != Cause::Adopted {
            // Blocked until the agents that it depends on are up.
            return slot.become_state(ChildState::Blocked, now);
        }
        slot.become_state(ChildState::Starting, now);
        let mut args = ChildArgs {
            world: Arc::clone(&self.world),
            spec: slot.spec.clone(),
            generation: slot.generation,
            cause: slot.cause,
            unattended: std::mem::take(&mut slot.unattended),
            crashed: slot.crashed,
            written: None,
        };
        args.written = self.keep(id);
        let spawned = ChildActor::spawn_linked(None, ChildActor, args, me.get_cell()).await;
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        match spawned {
            Ok((child, _task)) => slot.actor = Some(child),
            // A failed spawn sends no supervision event. It counts as a death: the restart policy limits its repetition.
            Err(error) => {
                let (id, epoch, why) = (id.clone(), slot.epoch, error.to_string());
                tracing::error!(child = %id, why, "the actor of a child could not be spawned");
                // The root lives as long as the process.
                let _gone = me.cast(RootMsg::Unspawned { id, epoch, why });
            }
        }
    }

    /// Handles the failed spawn of a child's actor, unless another was spawned since.
    pub(super) async fn unspawned(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        epoch: u64,
        why: String,
    ) {
        let due = |slot: &Slot| slot.epoch == epoch && slot.actor.is_none();
        if self.slots.get(id).is_some_and(due) {
            let exit = ChildExit::Broken(why);
            self.child_ended(me, id, Some(exit.into())).await;
            self.settled(me, id).await;
        }
    }

    pub(super) async fn up(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        actor: ActorId,
        session: SessionView,
        how: How,
    ) {
        if self.is_news(id, actor, session, how) {
            // The start has happened: nothing waits for this write.
            let _behind = self.keep(id);
            self.announce_drain(me, id);
            self.up_together(me, id).await;
            self.unblock(me).await;
        }
    }

    /// Notes that a child is up. Returns false when `actor` is not the actor of the child's slot.
    fn is_news(&mut self, id: &ChildId, actor: ActorId, session: SessionView, how: How) -> bool {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let Some(slot) = self.slots.get_mut(id).filter(|slot| slot.is(actor)) else {
            return false;
        };
        slot.generation = Generation(session.generation.0 + 1);
        slot.session = Some(session.clone());
        let age = Duration::try_from(now.duration_since(session.since)).unwrap_or_default();
        slot.up_at = Some(mono.saturating_sub(age));
        slot.send(ChildMsg::Seen);
        if let Some(harness) = slot.spec.harness() {
            let conditions = &self.world.directory.conditions;
            conditions.enroll(id, harness, &session.handle);
            prompting::begin(&self.world, &slot.spec, harness, &session.handle);
        }
        if slot.state != ChildState::Ending {
            slot.become_state(ChildState::Running, now);
        }
        let drifted = match &slot.spec.work {
            Work::Agent(agent) => session.fingerprint.as_ref() != Some(&agent.fingerprint),
            Work::Raider { .. } => false,
        };
        slot.tried = false;
        slot.crashed = false;
        slot.homeless = false;
        slot.unseen = None;
        slot.how = None;
        answer(&mut slot.waiting_up, &Ok(()));
        answer(&mut slot.waiting_wake, &Ok(()));
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
        self.world.store.journal(events);
        tokio::spawn(super::unobservable::close_escalation(
            Arc::clone(&self.world),
            id.clone(),
        ));
        if drifted {
            self.look_soon();
        }
        true
    }

    /// Routes the end of an actor. Matches by the actor's id, never by name: after a planned replacement the old
    /// actor's end still arrives.
    pub(super) async fn actor_ended(
        &mut self,
        me: &ActorRef<RootMsg>,
        actor: ActorId,
        error: Option<ActorProcessingErr>,
    ) {
        if let Some(index) = self.infra.iter().position(|infra| infra.is(actor)) {
            self.infra_ended(me, index, error);
            return;
        }
        let ended = self
            .slots
            .iter()
            .find(|(_, slot)| slot.is(actor))
            .map(|(id, _)| id.clone());
        if let Some(id) = ended {
            self.child_ended(me, &id, error).await;
            self.settled(me, &id).await;
        }
    }

    /// Continues a group restart after a child's session or actor ended and its own consequences are done.
    pub(super) async fn settled(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        // A next start waits for this write in the store's queue.
        let _behind = self.keep(id);
        self.go_on_together(me, id).await;
    }

    /// Handles the end of a child's actor.
    pub(super) async fn child_ended(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        error: Option<ActorProcessingErr>,
    ) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.actor = None;
        let session = slot.session.take();
        let exit = exit_of(error);
        slot.how = exit.as_ref().and_then(ChildExit::how);
        slot.unseen = None;
        if let Some(stopping) = &self.stopping {
            let kept = stopping.keeps_sessions();
            self.ended_at_stop(id, session.is_some(), kept);
            return self.stopped_one(me);
        }
        if !self.ended_of_account(id, session.as_ref(), exit.as_ref()) {
            self.ended(me, id, exit).await;
        }
    }

    /// Handles the end of a child's actor according to the child's desired state.
    async fn ended(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, exit: Option<ChildExit>) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if slot.draining && matches!(slot.desired, Desired::Up | Desired::Cycle(_)) {
            // A draining member ended by itself: it gets no fresh session.
            slot.desired = Desired::Ended(Cause::Drained);
        }
        match (&slot.desired, exit) {
            (Desired::Ended(_) | Desired::Resting(_), Some(ChildExit::Undead(why))) => {
                self.undead(id, why);
            }
            // The actor ended without having seen its session end, so the session may still run.
            (Desired::Ended(_) | Desired::Resting(_), Some(exit))
                if exit.unopened().is_some() || matches!(exit, ChildExit::Broken(_)) =>
            {
                self.sweep_any(me, id);
            }
            (Desired::Ended(cause), _) => {
                let cause = *cause;
                self.gone(id, cause);
            }
            (Desired::Resting(cause), _) => {
                let cause = *cause;
                self.at_rest(id, cause);
            }
            (Desired::Up, Some(exit))
                if exit.unopened().is_some() && !slot.waiting_up.is_empty() =>
            {
                slot.no_session(exit.unopened().unwrap_or_default());
                self.slots.remove(id);
            }
            (Desired::Up | Desired::Cycle(_), Some(ChildExit::Homeless(why))) => {
                self.homeless(me, id, why);
            }
            (Desired::Up | Desired::Cycle(_), Some(exit)) if exit.will_pass() => {
                self.put_off(me, id, &exit);
            }
            (Desired::Together, exit @ Some(ChildExit::Undead(_) | ChildExit::Broken(_))) => {
                self.died(me, id, exit, Cause::Group).await;
            }
            (Desired::Together, _) => self.ended_together(me, id).await,
            (Desired::Cycle(cause), exit) => {
                let cause = *cause;
                self.cycled(me, id, cause, exit).await;
            }
            (Desired::Up, Some(ChildExit::Finished)) => {
                slot.become_state(ChildState::Finished, now);
                self.finished(id);
            }
            (Desired::Up, exit) => {
                answer_operators(slot, exit.as_ref());
                self.died(me, id, exit, Cause::Internal).await;
            }
        }
    }

    /// The session reached its desired end: callers that wait for it get success and need not unwind.
    fn finished(&mut self, id: &ChildId) {
        if let Some(slot) = self.slots.get_mut(id) {
            answer(&mut slot.waiting_up, &Ok(()));
            answer(&mut slot.waiting_wake, &Ok(()));
        }
        if let ChildId::Raider(raider) = id {
            let finished = WitnessMsg::Finished(raider.clone());
            self.world.directory.tell_witness(&raider.rig, finished);
        }
    }

    /// Retries a start later when the session's state is unknown or the store cannot be written. Not a death, and no
    /// reason to start a second session; retried without limit.
    fn put_off(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, exit: &ChildExit) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        tracing::warn!(
            child = %id,
            why = %exit,
            "session not started: its state is unknown or nothing can be written; the start is delayed"
        );
        slot.unseen = Some(exit.to_string());
        answer_operators(slot, Some(exit));
        slot.desired = Desired::Up;
        if std::mem::take(&mut slot.tried) {
            return slot.become_state(ChildState::Stopped, now);
        }
        slot.back_off(now, PUT_OFF);
        slot.epoch += 1;
        let (id, epoch) = (id.clone(), slot.epoch);
        let _timer = me.send_after(PUT_OFF, move || RootMsg::Retry { id, epoch });
    }

    /// Handles a child's end during the supervisor's stop: the session ended, or was left running on purpose.
    fn ended_at_stop(&mut self, id: &ChildId, had_session: bool, kept: bool) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.become_state(ChildState::Stopped, now);
        let why = || EndRefused::Undead {
            id: id.clone(),
            why: "the supervisor is stopping and keeps its sessions".into(),
        };
        answer(
            &mut slot.waiting_end,
            &if kept { Err(why()) } else { Ok(()) },
        );
        let ended = slot.ended(EventType::AgentStopped, Cause::Shutdown);
        if had_session && !kept {
            self.journal(ended);
        }
    }

    /// Handles the end of a session that was to be replaced as planned.
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
        if cause == Cause::Handoff && !undead {
            return self.handed_off(me, id).await;
        }
        // Replacing a shell whose agent died is the response to a death, so it counts as one.
        if undead || cause == Cause::AgentDead || slot.brake.on_cycle(mono) {
            return self.died(me, id, exit, cause).await;
        }
        slot.cause = cause;
        self.journal(NewEvent::new(EventType::AgentRestarted, id, cause));
        self.spawn_child(me, id).await;
    }

    /// Marks a child as at rest, after an operator's stop or a suspension.
    pub(super) fn at_rest(&mut self, id: &ChildId, cause: Cause) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.become_state(ChildState::Stopped, now);
        answer(&mut slot.waiting_end, &Ok(()));
        slot.no_session("it was suspended or stopped");
        let kind = match cause {
            Cause::Suspended => EventType::AgentSuspended,
            _ => EventType::AgentStopped,
        };
        let ended = slot.ended(kind, cause);
        self.journal(ended);
        self.look_soon();
    }

    /// Requests a look: a change of the desired state was not acted on while the child was ending or starting.
    fn look_soon(&self) {
        if self.stopping.is_none() {
            self.world.directory.tell_root(RootMail::Look);
        }
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
            slot.on_trial = true;
            let event = NewEvent::new(EventType::AgentUnquarantined, id, Cause::WindowPassed);
            self.world.store.journal(vec![event]);
        }
        self.spawn_child(me, id).await;
    }

    /// Releases a quarantined child when its quarantine has expired.
    pub(super) fn release_in_time(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let mono = self.world.clock.mono();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.epoch += 1;
        let until = slot.deaths.quarantined_until(mono).unwrap_or(mono);
        let (id, epoch) = (id.clone(), slot.epoch);
        let _timer = me.send_after(until.saturating_sub(mono), move || RootMsg::Retry {
            id,
            epoch,
        });
    }

    /// Removes the slot of a child that is gone for good, and answers the callers that wait for its end.
    pub(super) fn gone(&mut self, id: &ChildId, cause: Cause) {
        let Some(mut slot) = self.slots.remove(id) else {
            return;
        };
        self.leave(&mut slot);
        let kind = match cause {
            Cause::Drained => EventType::AgentDrained,
            _ => EventType::AgentStopped,
        };
        self.journal(slot.ended(kind, cause));
        answer(&mut slot.waiting_end, &Ok(()));
        slot.no_session("it was ended");
        if matches!(cause, Cause::Removed | Cause::Drained) {
            self.look_soon();
        }
    }

    /// Routes an exit to the child that owns the session; the exit of an unowned session is left to the next look.
    pub(super) fn session_event(&mut self, event: SessionEvent) {
        let (SessionEvent::Exited(handle, _) | SessionEvent::Lost(handle, _)) = &event;
        let id = self
            .slots
            .iter()
            .find(|(_, slot)| slot.spec.session == handle.id);
        if let Some((_, slot)) = id {
            slot.send(ChildMsg::Session(event));
        }
    }
}

/// Tells the operators that asked for the session why there is none. A child that rested before rests again, unless
/// every caller has stopped waiting: then the start goes on.
pub(super) fn answer_operators(slot: &mut Slot, exit: Option<&ChildExit>) {
    let told = slot.waiting_wake.iter().any(|reply| !reply.is_closed());
    let failed = matches!(
        exit,
        Some(
            ChildExit::StartFailed(_)
                | ChildExit::Homeless(_)
                | ChildExit::Unseen(_)
                | ChildExit::Unwritable(_)
        )
    );
    slot.tried &= told && failed;
    if let Some(exit) = exit {
        answer(&mut slot.waiting_wake, &Err(exit.to_string()));
    }
}

fn exit_of(error: Option<ActorProcessingErr>) -> Option<ChildExit> {
    error.map(|error| match error.downcast_ref::<ChildExit>() {
        Some(exit) => exit.clone(),
        None => ChildExit::Broken(error.to_string()),
    })
}
