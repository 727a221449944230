//! Orders to the root about a child, and the killing of actors.

use ractor::ActorRef;

use super::{HOUR, TestCity};
use crate::actors::ask;
use crate::actors::mail::{ChildRef, RootMail};
use crate::actors::refusal::Refusal;
use crate::actors::root::RootMsg;
use crate::domain::cause::Cause;
use crate::domain::ids::ChildId;

impl TestCity {
    /// Sends a message to the root.
    pub fn send_to_root(&self, msg: impl Into<RootMsg>) -> Result<(), &'static str> {
        let sent = self.root.cast(msg.into());
        sent.map_err(|_| "the root has ended")
    }

    /// Makes the root end a child.
    pub async fn end(&self, id: &ChildId) -> Result<(), Refusal> {
        let meant = ChildRef::any(id.clone(), self.session(id));
        ask::end(&self.world, meant, Cause::Operator).await
    }

    /// Stops a child as an operator.
    pub async fn rest(&self, id: &ChildId) -> Result<(), String> {
        let id = id.clone();
        let rest = |reply| RootMail::Rest {
            id,
            by: None,
            reply,
        };
        let answer = ask::ask(Some(self.root.get_derived()), rest, HOUR)
            .await
            .unwrap();
        answer.map_err(|refused| refused.to_string())
    }

    /// Starts a child as an operator.
    pub async fn wake(&self, id: &ChildId) -> Result<(), String> {
        let (id, order) = (id.clone(), Cause::Operator.into());
        let wake = |reply| RootMail::Wake { id, order, reply };
        ask::ask(Some(self.root.get_derived()), wake, HOUR)
            .await
            .unwrap()
    }

    /// Starts a child as an operator, without waiting for the session.
    pub fn begin_wake(&self, id: &ChildId) {
        let (reply, _nobody) = ractor::concurrency::oneshot();
        let (id, order, reply) = (id.clone(), Cause::Operator.into(), reply.into());
        let wake = RootMail::Wake { id, order, reply };
        self.send_to_root(wake).unwrap();
    }

    /// Kills the actors that take such messages, as a bug would. Returns their number.
    pub fn kill_actors<M: ractor::Message>(&self) -> usize {
        Self::kill_actors_of::<M>(&self.root)
    }

    /// Kills the actors below this root that take such messages. Returns their number.
    pub fn kill_actors_of<M: ractor::Message>(root: &ActorRef<RootMsg>) -> usize {
        let children = root.get_cell().get_children();
        let hit = children
            .iter()
            .filter(|cell| cell.is_message_type_of::<M>() == Some(true));
        hit.map(|cell| cell.kill()).count()
    }
}
