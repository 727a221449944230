//! Orders for a child: start, end, rest, wake, cycle.

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};

use super::super::accounts;
use super::super::claims::ClaimKey;
use super::super::effects;
use super::super::world::World;
use super::child_record::ChildRecord;
use super::{Root, RootMsg};
use crate::actors::mail::ChildRef;
use crate::actors::mail::agent_spec;
use crate::actors::mail::{ChildSpec, Work};
use crate::actors::mail::{ChildView, EndRefused, Order};
use crate::actors::records::quarantine;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::child::{Child, ChildPhase, Event, Rest};
use crate::domain::event::{NewEvent, Origin};
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
        let id = spec.id.clone();
        if !self.children.contains_key(&id) {
            self.take_up(&spec, cause);
        }
        let Some(record) = self.children.get_mut(&id) else {
            return;
        };
        if record.child.is_leaving() {
            return reply_to(reply, Err("its last session is still being ended"));
        }
        record.spec = spec;
        record.waiting_up.extend(reply);
        self.step(me, &id, Event::Wanted(cause)).await;
    }

    /// Prepares the start of a child that has no record yet.
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
        let child = Child::new(Rest::Over, cause, self.world.clock.now());
        let mut record = ChildRecord::new(spec.clone(), child);
        self.restore(&mut record);
        self.children.insert(id.clone(), record);
    }

    pub(super) async fn end(
        &mut self,
        me: &ActorRef<RootMsg>,
        meant: ChildRef,
        order: Order,
        reply: RpcReplyPort<Result<(), EndRefused>>,
    ) {
        let Some(record) = self.children.get_mut(&meant.id) else {
            return self.end_stray(meant, reply);
        };
        let id = meant.id.clone();
        if !record.is_meant(&meant) {
            let _gave_up = reply.send(Err(EndRefused::Another(id)));
            return;
        }
        record.waiting_end.push(reply);
        record.meant = Some(meant);
        self.step_for(me, &id, Event::End(order.cause), order.by)
            .await;
    }

    /// Ends the session of a child that has no record.
    fn end_stray(&self, meant: ChildRef, reply: RpcReplyPort<Result<(), EndRefused>>) {
        let world = Arc::clone(&self.world);
        let grace = world.city.daemon.shutdown_timeout;
        tokio::spawn(async move {
            let ended = end_if_same(&world, meant, grace).await;
            let _gave_up = reply.send(ended.map(drop));
        });
    }

    pub(super) async fn cycle(
        &mut self,
        me: &ActorRef<RootMsg>,
        meant: &ChildRef,
        order: Order,
        (tail, progress): (Option<String>, Progress),
        reply: RpcReplyPort<Result<(), String>>,
    ) {
        let id = &meant.id;
        let result = match self.children.get(id) {
            Some(record) if !record.is_meant(meant) => Err(format!("{id} has another session now")),
            Some(record) if record.child.may_cycle() => Ok(()),
            Some(_) => Err(format!("{id} has no session to cycle")),
            None => Err(format!("{id} is unknown")),
        };
        if result.is_ok() {
            let cycle = Event::Cycle {
                cause: order.cause,
                tail,
                progress,
            };
            self.step_for(me, id, cycle, order.by).await;
        }
        let _gave_up = reply.send(result);
    }

    pub(super) async fn rest(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: ChildId,
        by: Option<Asker>,
        reply: RpcReplyPort<Result<(), EndRefused>>,
    ) {
        if let ChildId::Agent(agent) = &id {
            self.resting.insert(agent.clone());
        }
        // A child that rests stays at rest; a session that runs all the same is ended.
        let stopped = ChildPhase::Resting(Rest::Order(Cause::Operator));
        let at_rest = |record: &ChildRecord| *record.child.phase() == stopped;
        let Some(record) = self.children.get_mut(&id).filter(|record| !at_rest(record)) else {
            let session = id.session_id(&self.world.city.name);
            return self.end_stray(ChildRef::any(id, session), reply);
        };
        record.waiting_end.push(reply);
        self.step_for(me, &id, Event::Rest(Cause::Operator), by)
            .await;
    }

    pub(super) async fn wake(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: ChildId,
        order: Order,
        reply: RpcReplyPort<Result<(), String>>,
    ) {
        let known = self.children.contains_key(&id);
        if let Some(spec) = self.configured(&id).filter(|_| !known) {
            // After a failed start it rests as before.
            let rest = match &id {
                ChildId::Agent(agent) if self.resting.contains(agent) => {
                    Rest::Order(Cause::Operator)
                }
                ChildId::Agent(_) | ChildId::Raider(_) => Rest::Over,
            };
            let child = Child::new(rest, order.cause, self.world.clock.now());
            self.children
                .insert(id.clone(), ChildRecord::new(spec, child));
            self.forgive(&id);
        }
        let stopping = self.stopping.is_some();
        let Some(record) = self.children.get_mut(&id) else {
            let _gave_up = reply.send(Err(format!("{id} is unknown")));
            return;
        };
        if record.child.is_leaving() || stopping {
            let _gave_up = reply.send(Err(format!("{id} is being ended")));
            return;
        }
        if let ChildId::Agent(agent) = &id {
            self.resting.remove(agent);
        }
        if record.waiting_wake.is_empty() {
            record.wake_waited = None;
        }
        record.waiting_wake.push(reply);
        self.step_for(me, &id, Event::Woken(order.cause), order.by)
            .await;
    }

    /// Makes a step for a caller, whose name its events get. An order that changes nothing leaves the caller of the one
    /// that is being carried out.
    async fn step_for(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        event: Event,
        by: Option<Asker>,
    ) {
        let Some(record) = self.children.get_mut(id) else {
            return;
        };
        let phase = record.child.phase().clone();
        let former = std::mem::replace(&mut record.asker, by);
        self.step(me, id, event).await;
        if let Some(record) = self.children.get_mut(id)
            && *record.child.phase() == phase
        {
            record.asker = former;
        }
    }

    /// Returns an event of a child with the caller of the order that brought it about, where an operator's order did.
    pub(super) fn named(&self, id: &ChildId, event: NewEvent) -> NewEvent {
        if let Some(order) = self.suspensions.get(id)
            && order.explains(&event)
        {
            return event.asked_by(&order.by);
        }
        let asker = self
            .children
            .get(id)
            .and_then(|record| record.asker.as_ref());
        match asker {
            Some(asker) if event.cause == Cause::Operator => event.asked_by(asker),
            Some(_) | None => event,
        }
    }

    /// Unblocks the relic of a raider that an operator starts again.
    pub(super) fn unblock_relic(&self, spec: &ChildSpec) {
        let Work::Raider { hook, .. } = &spec.work else {
            return;
        };
        let relic = hook.relic.clone();
        let record = self.children.get(&spec.id);
        let asker = record.and_then(|record| record.asker.as_ref());
        let origin = asker.map_or_else(|| Cause::Operator.into(), Origin::from);
        let released =
            (self.world.store).begin(move |txn| quarantine::release(txn, &relic, origin.clone()));
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
        let records = self.children.values_mut();
        records
            .map(|record| record.view(policy, now, mono))
            .collect()
    }
}

/// Ends the running session that matches `meant`; a newer session of the same name is left alone.
pub(super) async fn end_if_same(
    world: &World,
    meant: ChildRef,
    grace: Duration,
) -> Result<Stopped, EndRefused> {
    let not_ended = |error: SessionError| EndRefused::NotEnded {
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
            stopped.map_err(not_ended)
        }
        Err(error) => Err(not_ended(error)),
    }
}
