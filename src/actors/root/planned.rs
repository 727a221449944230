//! Decisions of a look applied to a child: planned cycle, suspension and resumption, draining of a pool's member,
//! removal.

use std::sync::Arc;

use ractor::ActorRef;

use super::super::mail::RootMail;
use super::super::typing::{self, Typing};
use super::look::Look;
use super::slot::Desired;
use super::{Root, RootMsg};
use crate::actors::mail::ChildState;
use crate::actors::mail::Work;
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::ChildId;
use crate::domain::prompt::PoolNotice;

impl Root {
    /// Replaces the session as planned, because it was idle for too long or its configuration changed. Not a death.
    pub(super) fn refresh(&mut self, id: &ChildId, cause: Cause) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if !matches!(slot.desired, Desired::Up) || slot.actor.is_none() {
            return;
        }
        slot.desired = Desired::Cycle(cause);
        slot.send(ChildMsg::End(slot.spec.grace));
        let kind = match cause {
            Cause::Idle => EventType::AgentIdleKilled,
            _ => EventType::AgentDrifted,
        };
        self.journal(NewEvent::new(kind, id, cause));
    }

    /// Ends the session for now. The child's records and files stay.
    pub(super) fn suspend(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, cause: Cause) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if matches!(slot.desired, Desired::Ended(_) | Desired::Resting(_)) {
            return;
        }
        slot.draining = false;
        slot.desired = Desired::Resting(cause);
        slot.become_state(ChildState::Ending, now);
        if !slot.send(ChildMsg::End(slot.spec.grace)) {
            self.sweep_any(me, id);
        }
    }

    /// Starts a child again that was suspended or parked, from its current spec, unless an operator stopped it since
    /// the look began.
    pub(super) async fn resume(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, look: &Look) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let cause = match slot.desired {
            Desired::Resting(Cause::Suspended) => Cause::Unsuspended,
            Desired::Resting(parked @ (Cause::RateLimit | Cause::Login)) => parked,
            _ => return,
        };
        if slot.state != ChildState::Stopped || slot.actor.is_some() {
            return;
        }
        slot.cause = cause;
        if let Some(spec) = look.specs.get(id) {
            slot.spec = slot.spec.renewed(spec);
        }
        self.journal(NewEvent::new(EventType::AgentResumed, id, cause));
        self.spawn_child(me, id).await;
    }

    /// Drains a member of a pool: tells it to finish, and gives it time. A member that is being started is told when it
    /// is up.
    pub(super) fn drain(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let Work::Agent(agent) = &slot.spec.work else {
            return;
        };
        if slot.draining || matches!(slot.desired, Desired::Ended(_) | Desired::Resting(_)) {
            return;
        }
        slot.draining = true;
        if slot.actor.is_none() {
            // It died since the look: there is nothing to finish.
            return self.end_for_good(me, id, Cause::Drained);
        }
        slot.drain_epoch += 1;
        let (name, epoch) = (id.clone(), slot.drain_epoch);
        let _timer = me.send_after(agent.drain_timeout, move || {
            let epoch = Some(epoch);
            RootMail::DrainDue { id: name, epoch }.into()
        });
        self.announce_drain(me, id);
    }

    /// Types a notice into the session of a draining member, if its program reads prose. A plain command gets none: the
    /// text would be input of unknown effect.
    pub(super) fn announce_drain(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        if self.slots.get(id).is_some_and(|slot| slot.draining) {
            self.send_notice(me, id, PoolNotice::Leave);
        }
    }

    /// Retries the notices that could not be typed before.
    pub(super) fn send_notices(&mut self, me: &ActorRef<RootMsg>) {
        let waiting = self.slots.iter_mut();
        let waiting = waiting.filter_map(|(id, slot)| Some((id.clone(), slot.words.take()?)));
        for (id, words) in waiting.collect::<Vec<_>>() {
            self.send_notice(me, &id, words);
        }
    }

    fn send_notice(&self, me: &ActorRef<RootMsg>, id: &ChildId, words: PoolNotice) {
        let Some(slot) = self.slots.get(id) else {
            return;
        };
        let Work::Agent(agent) = &slot.spec.work else {
            return;
        };
        if let (Some(session), Some(harness)) = (&slot.session, agent.harness.clone()) {
            let (world, handle) = (Arc::clone(&self.world), session.handle.clone());
            let (me, id) = (me.clone(), id.clone());
            tokio::spawn(async move {
                let accounts = &world.directory.accounts;
                let is_held = accounts.held(&world.city, &harness, &id).is_some();
                if is_held || typing::may_type(&world, &harness, &handle).await != Typing::Free {
                    // The root lives as long as the process.
                    let _gone = me.cast(RootMsg::Unsaid { id, words });
                    return;
                }
                let text = words.text(&world.hd());
                let sent = typing::submit(&world, &id, Some(&harness), &handle, &text).await;
                match sent {
                    Ok(()) => {}
                    // A dialog, an attached person or other text came between.
                    Err(later) if later.is_later() => {
                        let _gone = me.cast(RootMsg::Unsaid { id, words });
                    }
                    Err(error) => {
                        let session = &handle.id;
                        tracing::warn!(
                            %session,
                            %error,
                            "the message to a pool member to leave or stay could not be typed; it is not repeated"
                        );
                    }
                }
            });
        }
    }

    /// Keeps a notice for the next look, as long as it is still true.
    pub(super) fn unsaid(&mut self, id: &ChildId, words: PoolNotice) {
        if let Some(slot) = self.slots.get_mut(id)
            && slot.draining == (words == PoolNotice::Leave)
        {
            slot.words = Some(words);
        }
    }

    /// Cancels the draining of a member that is needed after all, and tells it.
    pub(super) fn keep_on(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        if let Some(slot) = self.slots.get_mut(id).filter(|slot| slot.draining) {
            slot.draining = false;
            // Makes the timer of the drain void.
            slot.drain_epoch += 1;
            // A member that has not been told to leave need not be told to stay.
            if slot.words.take().is_none() {
                self.send_notice(me, id, PoolNotice::Stay);
            }
        }
    }

    /// Ends a draining member whose time is up, or that reported that it is finished.
    pub(super) fn drain_due(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, epoch: Option<u64>) {
        let due = |slot: &&mut super::slot::Slot| {
            slot.draining && epoch.is_none_or(|epoch| epoch == slot.drain_epoch)
        };
        if self.slots.get_mut(id).filter(due).is_some() {
            self.end_for_good(me, id, Cause::Drained);
        }
    }

    /// Ends a child that is not configured any more.
    pub(super) fn remove(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let drained = self.slots.get(id).is_some_and(|slot| slot.draining);
        let cause = if drained {
            Cause::Drained
        } else {
            Cause::Removed
        };
        self.end_for_good(me, id, cause);
    }

    pub(super) fn end_for_good(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, cause: Cause) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if matches!(slot.desired, Desired::Ended(_)) {
            return;
        }
        slot.desired = Desired::Ended(cause);
        slot.become_state(ChildState::Ending, now);
        if !slot.send(ChildMsg::End(slot.spec.grace)) {
            self.sweep_any(me, id);
        }
    }
}
