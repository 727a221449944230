//! Decisions of a look that need more than a step of the child: resumption, draining of a pool's member, removal.

use std::sync::Arc;

use ractor::ActorRef;

use super::super::mail::RootMail;
use super::super::typing::{self, Typing};
use super::look::Look;
use super::{Root, RootMsg};
use crate::actors::mail::Work;
use crate::domain::cause::Cause;
use crate::domain::child::{ChildPhase, Event, Token};
use crate::domain::ids::ChildId;
use crate::domain::prompt::PoolNotice;

impl Root {
    /// Starts a child again that was suspended or parked, from its current spec, unless an operator stopped it since
    /// the look began.
    pub(super) async fn resume(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, look: &Look) {
        if let Some(record) = self.children.get_mut(id)
            && let ChildPhase::Resting(rest) = record.child.phase()
            && rest.until().is_some()
            && let Some(spec) = look.specs.get(id)
        {
            record.spec = record.spec.renewed(spec);
        }
        self.step(me, id, Event::Resumed).await;
    }

    /// Drains a member of a pool.
    pub(super) async fn drain(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        if matches!(id, ChildId::Agent(_)) {
            self.step(me, id, Event::Drain).await;
        }
    }

    /// Gives a draining member its time, and tells it to finish.
    pub(super) fn arm_drain(&self, me: &ActorRef<RootMsg>, id: &ChildId, drain: Token) {
        if let Some(Work::Agent(agent)) = self.children.get(id).map(|record| &record.spec.work) {
            let name = id.clone();
            let _timer = me.send_after(agent.drain_timeout, move || {
                let drain = Some(drain);
                RootMail::DrainDue { id: name, drain }.into()
            });
            self.announce_drain(me, id);
        }
    }

    /// Types a notice into the session of a draining member, if its program reads prose. A plain command gets none: the
    /// text would be input of unknown effect.
    pub(super) fn announce_drain(&self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let record = self.children.get(id);
        if record.is_some_and(|record| record.child.is_draining()) {
            self.send_notice(me, id, PoolNotice::Leave);
        }
    }

    /// Retries the notices that could not be typed before.
    pub(super) fn send_notices(&mut self, me: &ActorRef<RootMsg>) {
        let waiting = self.children.iter_mut();
        let waiting = waiting.filter_map(|(id, record)| Some((id.clone(), record.words.take()?)));
        for (id, words) in waiting.collect::<Vec<_>>() {
            self.send_notice(me, &id, words);
        }
    }

    fn send_notice(&self, me: &ActorRef<RootMsg>, id: &ChildId, words: PoolNotice) {
        let Some(record) = self.children.get(id) else {
            return;
        };
        let Work::Agent(agent) = &record.spec.work else {
            return;
        };
        if let (Some(session), Some(harness)) = (&record.session, agent.harness.clone()) {
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
        if let Some(record) = self.children.get_mut(id)
            && record.child.is_draining() == (words == PoolNotice::Leave)
        {
            record.words = Some(words);
        }
    }

    /// Tells a member that it is needed after all, if it has been told to leave.
    pub(super) fn tell_to_stay(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let waits = self
            .children
            .get_mut(id)
            .and_then(|record| record.words.take());
        if waits.is_none() {
            self.send_notice(me, id, PoolNotice::Stay);
        }
    }

    /// Ends a child that is not configured any more.
    pub(super) async fn remove(&mut self, me: &ActorRef<RootMsg>, id: &ChildId) {
        let record = self.children.get(id);
        let cause = match record.is_some_and(|record| record.child.is_draining()) {
            true => Cause::Drained,
            false => Cause::Removed,
        };
        self.step(me, id, Event::Remove(cause)).await;
    }
}
