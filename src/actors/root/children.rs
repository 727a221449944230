//! Actors and sessions of raiders and agents: a session comes up, an actor ends. The consequences are the child's step
//! (`domain/child.rs`).

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorId, ActorProcessingErr, ActorRef};

use super::super::mail::RootMail;
use super::super::prompting;
use super::{Root, RootMsg};
use crate::actors::mail::{EndRefused, How, SessionView, Work};
use crate::actors::session::child::ChildMsg;
use crate::domain::child::{ChildExit, Event, Token};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, Generation};
use crate::ports::sessions::{SessionEvent, Stopped};

impl Root {
    /// Handles a session that is up, unless `actor` is not the actor of the child's record.
    pub(super) async fn up(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        actor: ActorId,
        session: SessionView,
        how: How,
    ) {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let Some(record) = self.children.get_mut(id).filter(|record| record.is(actor)) else {
            return;
        };
        record.generation = Generation(session.generation.0 + 1);
        record.session = Some(session.clone());
        record.how = None;
        record.send(ChildMsg::Seen);
        if let Some(harness) = record.spec.harness() {
            let conditions = &self.world.directory.conditions;
            conditions.enroll(id, harness, &session.handle);
            prompting::begin(&self.world, &record.spec, harness, &session.handle);
        }
        let drifted = match &record.spec.work {
            Work::Agent(agent) => session.fingerprint.as_ref() != Some(&agent.fingerprint),
            Work::Raider { .. } => false,
        };
        let age = Duration::try_from(now.duration_since(session.since)).unwrap_or_default();
        let up = Event::Up(mono.saturating_sub(age));
        // The step answers the callers that wait for the session, and what they journal comes after its start.
        self.journal_up(id, &session, how);
        self.step(me, id, up).await;
        tokio::spawn(super::unobservable::close_escalation(
            Arc::clone(&self.world),
            id.clone(),
        ));
        if drifted {
            self.look_soon();
        }
        self.announce_drain(me, id);
        self.unblock(me).await;
    }

    fn journal_up(&self, id: &ChildId, session: &SessionView, how: How) {
        let Some(record) = self.children.get(id) else {
            return;
        };
        let data = serde_json::json!({
            "session": session.handle.id, "pid": session.agent.pid,
            "holder_pid": session.holder.as_ref().map(|holder| holder.pid),
            "generation": session.generation,
        });
        let kind = match how {
            How::Adopted => EventType::AgentAdopted,
            How::Fresh | How::Respawned | How::HandedOver => EventType::AgentStarted,
        };
        let cause = record.child.cause();
        let up = NewEvent::new(kind, id, cause).with(data);
        let mut events = vec![self.named(id, up)];
        if let (Work::Raider { hook, .. }, How::Respawned) = (&record.spec.work, how) {
            let data = serde_json::json!({ "relic": hook.relic, "incarnation": hook.incarnation });
            let respawned = NewEvent::new(EventType::RaiderRespawned, id, cause);
            events.push(self.named(id, respawned.with(data)));
        }
        self.world.store.journal(events);
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
            .children
            .iter()
            .find(|(_, record)| record.is(actor))
            .map(|(id, _)| id.clone());
        if let Some(id) = ended {
            self.child_ended(me, &id, error).await;
        }
    }

    /// Handles the end of a child's actor.
    async fn child_ended(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        error: Option<ActorProcessingErr>,
    ) {
        let Some(record) = self.children.get_mut(id) else {
            return;
        };
        record.actor = None;
        let session = record.session.take();
        let exit = exit_of(error);
        record.how = match exit {
            Some(ChildExit::Ended(how)) => Some(how),
            _ => None,
        };
        if let Some(stopping) = &self.stopping {
            let ended = Event::ShutDown {
                was_up: session.is_some(),
                is_kept: stopping.keeps_sessions(),
            };
            self.step(me, id, ended).await;
            return self.stopped_one(me);
        }
        if !self
            .ended_of_account(me, id, session.as_ref(), exit.as_ref())
            .await
        {
            self.step(me, id, Event::Exited(exit)).await;
        }
    }

    /// Handles the end of a session without an actor.
    pub(super) async fn swept(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        token: Token,
        result: Result<Stopped, EndRefused>,
    ) {
        if let Some(record) = self
            .children
            .get_mut(id)
            .filter(|record| record.child.is_swept_by(token))
        {
            record.how = result.as_ref().ok().copied();
            self.step(me, id, Event::Swept(token, result.map(drop)))
                .await;
            self.stopped_one(me);
        }
    }

    /// Requests a look: a change of the desired state was not acted on while the child was ending or starting.
    pub(super) fn look_soon(&self) {
        if self.stopping.is_none() {
            self.world.directory.tell_root(RootMail::Look);
        }
    }

    /// Routes an exit to the child that owns the session; the exit of an unowned session is left to the next look.
    pub(super) fn session_event(&mut self, event: SessionEvent) {
        let (SessionEvent::Exited(handle, _) | SessionEvent::Lost(handle, _)) = &event;
        let id = self
            .children
            .iter()
            .find(|(_, record)| record.spec.session == handle.id);
        if let Some((_, record)) = id {
            record.send(ChildMsg::Session(event));
        }
    }
}

fn exit_of(error: Option<ActorProcessingErr>) -> Option<ChildExit> {
    error.map(|error| match error.downcast_ref::<ChildExit>() {
        Some(exit) => exit.clone(),
        None => ChildExit::Broken(error.to_string()),
    })
}
