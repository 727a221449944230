//! The steps of children: an event goes to the child's state machine (`domain/child.rs`), and the root carries out the
//! actions. Nothing else changes what a child does next.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ractor::{Actor, ActorRef};

use super::child_record::{ChildRecord, answer};
use super::orders::end_if_same;
use super::{Root, RootMsg};
use crate::actors::mail::{ChildRef, WitnessMsg};
use crate::actors::session::child::{ChildActor, ChildArgs, ChildMsg};
use crate::domain::child::{Action, ChildPhase, Event, Facts, Token};
use crate::domain::event::NewEvent;
use crate::domain::ids::ChildId;

impl Root {
    /// Gives an event to a child, and carries out what follows from it. An event of a child without record is dropped.
    /// The history is stored after it: a later start waits for this write in the store's queue.
    pub(super) fn step<'a>(
        &'a mut self,
        me: &'a ActorRef<RootMsg>,
        id: &'a ChildId,
        event: Event,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        // Boxed: the step of a member of a group leads to steps of the others.
        Box::pin(async move {
            for action in self.decide(id, event) {
                self.act(me, id, action).await;
            }
            let is_gone = |record: &ChildRecord| *record.child.phase() == ChildPhase::Gone;
            if self.children.get(id).is_some_and(is_gone) {
                self.children.remove(id);
                self.histories.counted.remove(id);
            }
            let _behind = self.keep(id);
            self.go_on_together(me, id).await;
        })
    }

    /// Returns a mark that nothing had before.
    pub(super) fn token(&mut self) -> Token {
        self.last_token += 1;
        Token(self.last_token)
    }

    fn decide(&mut self, id: &ChildId, event: Event) -> Vec<Action> {
        let (world, token) = (Arc::clone(&self.world), self.token());
        let Some(record) = self.children.get(id) else {
            return Vec::new();
        };
        let accounts = &world.directory.accounts;
        let harness = record.spec.harness();
        let parked = harness.and_then(|harness| accounts.held(&world.city, harness, id));
        let facts = Facts {
            id,
            now: world.clock.now(),
            mono: world.clock.mono(),
            token,
            random: (world.random)(),
            policy: &world.city.daemon.restart,
            patrol: world.city.daemon.patrol_interval,
            restart: record.spec.restart,
            may_start: self.may_start(id),
            parked: parked.map(|why| why.cause()),
            is_suspended: world.city.suspends(id) || self.suspended.contains(id),
            concerns_others: self.concerns_others(id),
            turn: self.turn_of(id),
            is_awaited: !record.waiting_up.is_empty(),
            operator_waits: record.waiting_wake.iter().any(|reply| !reply.is_closed()),
        };
        match self.children.get_mut(id) {
            Some(record) => record.child.step(event, &facts),
            None => Vec::new(),
        }
    }

    async fn act(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, action: Action) {
        match action {
            Action::Spawn {
                token,
                unattended,
                crashed,
            } => self.spawn(me, id, token, (unattended, crashed)).await,
            Action::Arm { token, after } => {
                let id = id.clone();
                let event = Event::Due(token);
                let _timer = me.send_after(after, move || RootMsg::Step { id, event });
            }
            Action::ArmDrain(token) => self.arm_drain(me, id, token),
            Action::KeepOn => self.tell_to_stay(me, id),
            Action::RestartGroup(delay) => self.restart_together(me, id, delay).await,
            Action::EndGroupDelay => self.end_group_delay(me, id).await,
            Action::AdvanceGroup => {
                if let Some(group) = self.group_of(id) {
                    self.advance(me, &group).await;
                }
            }
            Action::Journal(kind, cause) => {
                self.journal_step(id, NewEvent::new(kind, id, cause));
            }
            Action::Died(death) => self.record_death(id, *death),
            Action::HandedOff(pace, at) => self.record_handoff(id, pace, at),
            Action::NoSandbox(why) => self.record_no_sandbox(id, why),
            Action::PutOff(why) => tracing::warn!(
                child = %id,
                why,
                "session not started: its state is unknown or nothing can be written; the start is delayed"
            ),
            Action::CallAboutParks(text) => self.call_about_parks(id, &text),
            Action::SettleParks => self.settle_parks(id),
            Action::Leave => self.leave(id),
            Action::Finished => {
                if let ChildId::Raider(raider) = id {
                    let finished = WitnessMsg::Finished(raider.clone());
                    self.world.directory.tell_witness(&raider.rig, finished);
                }
            }
            Action::Look => self.look_soon(),
            Action::EndActor => self.with(id, |record| {
                record.send(ChildMsg::End(record.grace()));
            }),
            Action::EndSession(token) => self.end_session(me, id, token),
            Action::AnswerUp(result) => {
                self.with(id, |record| answer(&mut record.waiting_up, &result))
            }
            Action::AnswerWake(result) => {
                self.with(id, |record| answer(&mut record.waiting_wake, &result));
            }
            Action::AnswerEnd(result) => {
                self.with(id, |record| answer(&mut record.waiting_end, &result));
            }
            Action::JournalEnd(kind, cause) => self.journal_end(id, kind, cause),
            Action::Unblock => {
                if let Some(record) = self.children.get(id) {
                    self.unblock_relic(&record.spec);
                }
            }
        }
    }

    fn with(&mut self, id: &ChildId, act: impl FnOnce(&mut ChildRecord)) {
        if let Some(record) = self.children.get_mut(id) {
            act(record);
        }
    }

    /// Spawns the child's actor. The session's start runs in a task of the child; only ractor is awaited here.
    async fn spawn(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        token: Token,
        (unattended, crashed): (bool, bool),
    ) {
        let Some(record) = self.children.get_mut(id) else {
            return;
        };
        record.session = None;
        let mut args = ChildArgs {
            world: Arc::clone(&self.world),
            spec: record.spec.clone(),
            generation: record.generation,
            cause: record.child.cause(),
            unattended,
            counted: self.histories.counted.get(id).copied(),
            crashed,
            written: None,
        };
        args.written = self.keep(id);
        let spawned = ChildActor::spawn_linked(None, ChildActor, args, me.get_cell()).await;
        match spawned {
            Ok((child, _task)) => self.with(id, |record| record.actor = Some(child)),
            // A failed spawn sends no supervision event. It counts as a death: the restart policy limits its repetition.
            Err(error) => {
                let (id, why) = (id.clone(), error.to_string());
                tracing::error!(child = %id, why, "the supervisor could not start its actor for this child; that counts as a death, and the restart policy decides about the next try");
                // The root lives as long as the process.
                let event = Event::Unspawned(token, why);
                let _gone = me.cast(RootMsg::Step { id, event });
            }
        }
    }

    /// Has its actor end the session of a child. Where there is none, ends a session that the child may still have: the
    /// one that is meant, else any that does not belong to a later incarnation.
    fn end_session(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, token: Token) {
        let Some(record) = self.children.get_mut(id) else {
            return;
        };
        let meant = record.meant.take();
        if record.send(ChildMsg::End(record.grace())) {
            return;
        }
        let meant = meant.unwrap_or_else(|| ChildRef::of(&record.spec));
        let (world, me) = (Arc::clone(&self.world), me.clone());
        let (id, grace) = (id.clone(), record.grace());
        tokio::spawn(async move {
            let result = end_if_same(&world, meant, grace).await;
            // The root lives as long as the process.
            let _gone = me.cast(RootMsg::Swept { id, token, result });
        });
    }
}
