//! Orders for a child: start, end, rest, wake, cycle.

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};

use super::super::accounts;
use super::super::claims::ClaimKey;
use super::super::effects;
use super::super::world::World;
use super::slot::{Desired, Slot, answer};
use super::{Root, RootMsg};
use crate::actors::mail::ChildRef;
use crate::actors::mail::agent_spec;
use crate::actors::mail::{ChildSpec, Work};
use crate::actors::mail::{ChildState, ChildView, EndRefused};
use crate::actors::records::quarantine;
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::RunState;
use crate::domain::handoff::Progress;
use crate::domain::ids::ChildId;
use crate::ports::sessions::{SessionError, Stopped};

/// Answers an order; a caller that has gone needs no answer.
fn reply_to(reply: Option<RpcReplyPort<Result<(), String>>>, said: Result<(), &str>) {
    if let Some(reply) = reply {
        let _gave_up = reply.send(said.map_err(str::to_owned));
    }
}

impl Root {
    pub(super) async fn want(
        &mut self,
        me: &ActorRef<RootMsg>,
        spec: ChildSpec,
        cause: Cause,
        reply: Option<RpcReplyPort<Result<(), String>>>,
    ) {
        if self.stopping.is_some() {
            return reply_to(reply, Err("the supervisor is stopping"));
        }
        // The caller may have looked before the repair began.
        if let ChildId::Raider(raider) = &spec.id
            && self
                .world
                .claims
                .is_claimed(&ClaimKey::Repair(raider.clone()))
        {
            return reply_to(reply, Err("its sandbox is being rebuilt"));
        }
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let id = spec.id.clone();
        let new = !self.slots.contains_key(&id);
        let suspended = self.world.city.suspends(&id) || self.suspended.contains(&id);
        if new {
            self.take_up(&spec, cause);
        }
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        if slot.is_ending() {
            return reply_to(reply, Err("its last session is still being ended"));
        }
        slot.spec = spec;
        slot.cause = cause;
        let held = slot.deaths.quarantined_until(mono);
        if new && slot.on_trial && cause == Cause::Recovered && held.is_none() {
            // Its quarantine ended while no supervisor ran: this start is the promised trial.
            slot.cause = Cause::WindowPassed;
            let event = NewEvent::new(EventType::AgentUnquarantined, &id, Cause::WindowPassed);
            self.world.store.journal(vec![event]);
        }
        if slot.actor.is_some() {
            if slot.session.is_none() {
                slot.waiting_up.extend(reply);
            } else {
                reply_to(reply, Ok(()));
            }
            return;
        }
        if suspended && cause != Cause::Adopted {
            // It rests until it is resumed, and then starts from this spec.
            slot.desired = Desired::Resting(Cause::Suspended);
            slot.become_state(ChildState::Stopped, now);
            return reply_to(reply, Ok(()));
        }
        slot.waiting_up.extend(reply);
        match held.filter(|_| new && cause != Cause::Adopted) {
            Some(until) => {
                slot.no_session("it died too often, and is in quarantine");
                self.quarantine(me, &id, until.saturating_sub(mono));
            }
            None => self.spawn_child(me, &id).await,
        }
    }

    /// Prepares the start of a child that has no slot yet.
    fn take_up(&mut self, spec: &ChildSpec, cause: Cause) {
        let id = &spec.id;
        match (cause, spec.harness()) {
            // Its sandbox was the cause of its deaths, and an operator had that repaired.
            (Cause::Repair, _) => {
                self.forgive(id);
                self.unblock_relic(spec);
            }
            (Cause::Charged, Some(harness)) => accounts::forget(&self.world, id, harness),
            _ => {}
        }
        let mut slot = Slot::new(spec.clone(), self.world.clock.now(), cause);
        self.restore(&mut slot);
        self.slots.insert(id.clone(), slot);
    }

    /// Keeps a child in the quarantine that an earlier supervisor began.
    fn quarantine(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, wait: Duration) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.epoch += 1;
        slot.become_state(ChildState::Quarantined, now);
        let epoch = slot.epoch;
        // Stamps in the future are corrected by this write.
        let _behind = self.keep(id);
        if !self.restart_together(me, id, wait) {
            let id = id.clone();
            let _timer = me.send_after(wait, move || RootMsg::Retry { id, epoch });
        }
    }

    pub(super) fn end(
        &mut self,
        me: &ActorRef<RootMsg>,
        meant: ChildRef,
        cause: Cause,
        reply: RpcReplyPort<Result<(), EndRefused>>,
    ) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(&meant.id) else {
            return self.end_stray(meant, reply);
        };
        let id = meant.id.clone();
        if !slot.is_meant(&meant) {
            let _gave_up = reply.send(Err(EndRefused::Another(id)));
            return;
        }
        slot.waiting_end.push(reply);
        slot.desired = Desired::Ended(cause);
        slot.become_state(ChildState::Ending, now);
        if !slot.send(ChildMsg::End(slot.spec.grace)) {
            self.sweep(me, meant);
        }
    }

    /// Ends the session of a child that has no slot.
    fn end_stray(&self, meant: ChildRef, reply: RpcReplyPort<Result<(), EndRefused>>) {
        let world = Arc::clone(&self.world);
        let grace = world.city.daemon.shutdown_timeout;
        tokio::spawn(async move {
            let ended = end_meant(&world, meant, grace).await;
            let _gave_up = reply.send(ended.map(drop));
        });
    }

    /// Ends any session that a child without an actor may still have, unless it belongs to a later incarnation.
    pub(super) fn sweep_any(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        if let Some(slot) = self.slots.get(id) {
            let meant = ChildRef::of(&slot.spec);
            self.sweep(me, meant);
        }
    }

    /// Ends a session that a child without an actor may still have, if it matches `meant`.
    fn sweep(&mut self, me: &ActorRef<RootMsg>, meant: ChildRef) {
        let Some(slot) = self.slots.get_mut(&meant.id) else {
            return;
        };
        slot.epoch += 1;
        slot.become_state(ChildState::Ending, self.world.clock.now());
        let (world, me) = (Arc::clone(&self.world), me.clone());
        let (id, epoch, grace) = (meant.id.clone(), slot.epoch, slot.spec.grace);
        tokio::spawn(async move {
            let result = end_meant(&world, meant, grace).await;
            // The root lives as long as the process.
            let _gone = me.cast(RootMsg::Swept { id, epoch, result });
        });
    }

    pub(super) fn swept(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        epoch: u64,
        result: Result<Stopped, EndRefused>,
    ) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id).filter(|slot| slot.epoch == epoch) else {
            return;
        };
        slot.how = result.as_ref().ok().copied();
        match (result, &slot.desired) {
            (Err(refused), _) => self.not_ended(id, refused),
            (Ok(_), Desired::Ended(cause)) => {
                let cause = *cause;
                self.gone(id, cause);
            }
            (Ok(_), Desired::Resting(cause)) => {
                let cause = *cause;
                self.at_rest(id, cause);
            }
            (Ok(_), Desired::Up | Desired::Cycle(_) | Desired::Together) => {
                slot.become_state(ChildState::Stopped, now);
                answer(&mut slot.waiting_end, &Ok(()));
            }
        }
        self.stopped_one(me);
    }

    pub(super) fn undead(&mut self, id: &ChildId, why: String) {
        let who = id.clone();
        self.not_ended(id, EndRefused::Undead { id: who, why });
    }

    /// Refuses to the waiting callers: the session would not end, or is not the one that was meant. A child that should
    /// be gone is forgotten all the same: the next look finds what still runs and whether it is wanted.
    fn not_ended(&mut self, id: &ChildId, refused: EndRefused) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.no_session(&refused.to_string());
        answer(&mut slot.waiting_end, &Err(refused));
        slot.become_state(ChildState::Stopped, now);
        if matches!(slot.desired, Desired::Ended(_)) {
            self.slots.remove(id);
        }
    }

    pub(super) fn cycle(
        &mut self,
        meant: &ChildRef,
        cause: Cause,
        (tail, progress): (Option<String>, Progress),
        reply: RpcReplyPort<Result<(), String>>,
    ) {
        let id = &meant.id;
        let result = match self.slots.get_mut(id) {
            Some(slot) if !slot.is_meant(meant) => Err(format!("{id} has another session now")),
            Some(slot) if matches!(slot.desired, Desired::Up) && slot.actor.is_some() => {
                slot.desired = Desired::Cycle(cause);
                slot.tail = tail;
                slot.progress = progress;
                let grace = slot.spec.grace;
                slot.send(ChildMsg::End(grace));
                Ok(())
            }
            // A cycle is already under way.
            Some(slot) if matches!(slot.desired, Desired::Cycle(_)) => Ok(()),
            Some(_) => Err(format!("{id} has no session to cycle")),
            None => Err(format!("{id} is unknown")),
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
        // A child that rests stays at rest; a session that runs all the same is ended.
        let at_rest = |slot: &Slot| {
            let rests = matches!(slot.desired, Desired::Resting(Cause::Operator));
            rests && slot.state == ChildState::Stopped && slot.actor.is_none()
        };
        let Some(slot) = self.slots.get_mut(&id).filter(|slot| !at_rest(slot)) else {
            let session = id.session_id(&self.world.city.name);
            return self.end_stray(ChildRef::any(id, session), reply);
        };
        slot.waiting_end.push(reply);
        if matches!(slot.desired, Desired::Ended(_)) {
            // It is being ended for good, which includes the rest.
            return;
        }
        slot.draining = false;
        slot.desired = Desired::Resting(Cause::Operator);
        slot.become_state(ChildState::Ending, now);
        if !slot.send(ChildMsg::End(slot.spec.grace)) {
            self.sweep_any(me, &id);
        }
    }

    pub(super) async fn wake(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: ChildId,
        cause: Cause,
        reply: RpcReplyPort<Result<(), String>>,
    ) {
        let now = self.world.clock.now();
        let known = self.slots.contains_key(&id);
        if let Some(spec) = self.configured(&id).filter(|_| !known) {
            // It has rested since before this supervisor started.
            let mut slot = Slot::new(spec, now, cause);
            slot.become_state(ChildState::Stopped, now);
            self.slots.insert(id.clone(), slot);
            self.forgive(&id);
        }
        let stopping = self.stopping.is_some();
        let Some(slot) = self.slots.get_mut(&id) else {
            let _gave_up = reply.send(Err(format!("{id} is unknown")));
            return;
        };
        if slot.is_ending() || stopping {
            let _gave_up = reply.send(Err(format!("{id} is being ended")));
            return;
        }
        if let ChildId::Agent(agent) = &id {
            self.resting.remove(agent);
        }
        if slot.waiting_wake.is_empty() {
            slot.wake_waited = None;
        }
        slot.waiting_wake.push(reply);
        if slot.session.is_some() {
            return answer(&mut slot.waiting_wake, &Ok(()));
        }
        if slot.actor.is_some() {
            return;
        }
        let spec = slot.spec.clone();
        slot.tried = slot.is_at_rest();
        slot.deaths.clear();
        (slot.unattended, slot.on_trial, slot.crashed) = (false, false, false);
        slot.cause = cause;
        self.unblock_relic(&spec);
        self.start_now(me, &id).await;
        let blocked = |slot: &&mut Slot| slot.state == ChildState::Blocked;
        if let Some(slot) = self.slots.get_mut(&id).filter(blocked) {
            answer(&mut slot.waiting_wake, &Ok(()));
        }
    }

    /// Unblocks the relic of a raider that an operator starts again.
    fn unblock_relic(&self, spec: &ChildSpec) {
        let Work::Raider { hook, .. } = &spec.work else {
            return;
        };
        let relic = hook.relic.clone();
        let released =
            (self.world.store).begin(move |txn| quarantine::release(txn, &relic, Cause::Operator));
        let id = spec.id.clone();
        tokio::spawn(async move {
            if let Err(error) = released.await {
                tracing::warn!(
                    child = %id,
                    %error,
                    "the raider was started, but its relic could not be unblocked and stays \
                    blocked"
                );
            }
        });
    }

    /// Returns the spec of an agent, or of a pool's member, that was never started.
    fn configured(&self, id: &ChildId) -> Option<ChildSpec> {
        let ChildId::Agent(name) = id else {
            return None;
        };
        let city = &self.world.city;
        let agent = city.agents.iter().find_map(|agent| match agent.pool {
            None => (agent.name == *name).then(|| agent.clone()),
            Some(_) => agent.member(agent.member_number(name)?).ok(),
        })?;
        Some(agent_spec(city, &agent))
    }

    pub(super) fn views(&mut self) -> Vec<ChildView> {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let policy = &self.world.city.daemon.restart;
        let slots = self.slots.values_mut();
        slots.map(|slot| slot.view(policy, now, mono)).collect()
    }
}

/// Ends the running session that matches `meant`; a newer session of the same name is left alone.
async fn end_meant(world: &World, meant: ChildRef, grace: Duration) -> Result<Stopped, EndRefused> {
    let undead = |error: SessionError| EndRefused::Undead {
        id: meant.id.clone(),
        why: error.to_string(),
    };
    match effects::facts(world, &meant.session).await {
        Ok(None) => Ok(Stopped::Already),
        Ok(Some(facts)) if facts.state == RunState::Running && !meant.is_seen_in(&facts) => {
            Err(EndRefused::Another(meant.id))
        }
        Ok(Some(facts)) => {
            let stopped = effects::stop_seen(world, facts, grace).await;
            stopped.map_err(undead)
        }
        Err(error) => Err(undead(error)),
    }
}
