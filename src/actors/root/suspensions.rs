//! The callers of orders about suspensions, in the events that follow.

use super::Root;
use crate::actors::records::operator_orders::{self, SuspensionOrder};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::ChildId;

impl Root {
    /// Returns the event of a session that ends because its child is suspended, and that the root had not started.
    pub(super) fn orphan_suspended(&self, id: &ChildId) -> NewEvent {
        let event = NewEvent::new(EventType::AgentSuspended, id, Cause::Suspended);
        self.named(id, event)
    }

    /// Journals an event of a child's step, with the caller of the order that brought it about.
    pub(super) fn journal_step(&mut self, id: &ChildId, event: NewEvent) {
        let kind = event.kind;
        self.journal(self.named(id, event));
        self.forget_suspension(id, kind);
    }

    /// Journals the end of a child's session.
    pub(super) fn journal_end(&mut self, id: &ChildId, kind: EventType, cause: Cause) {
        let record = self.children.get(id);
        if let Some(ended) = record.map(|record| record.ended(kind, cause)) {
            self.journal_step(id, ended);
        }
    }

    /// Forgets the order to resume a child once it is resumed, or was suspended by the configuration since.
    fn forget_suspension(&mut self, id: &ChildId, kind: EventType) {
        let is_told = matches!(kind, EventType::AgentSuspended | EventType::AgentResumed);
        let is_over = |order: &SuspensionOrder| !order.suspends;
        if !is_told || !self.suspensions.get(id).is_some_and(is_over) {
            return;
        }
        self.suspensions.remove(id);
        let child = id.clone();
        let forgotten = self.world.store.begin(move |txn| {
            operator_orders::update(txn, &|said| {
                if said.suspensions.get(&child).is_some_and(is_over) {
                    said.suspensions.remove(&child);
                }
            })
        });
        let id = id.clone();
        tokio::spawn(async move {
            if let Err(error) = forgotten.await {
                tracing::warn!(
                    child = %id,
                    %error,
                    "the order to resume a child could not be deleted; the event of a later resumption may name its \
                    caller"
                );
            }
        });
    }
}
