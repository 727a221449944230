//! Requests to a witness, and their answers.

use jiff::Timestamp;
use ractor::RpcReplyPort;
use serde::{Deserialize, Serialize};

use super::child_ref::ChildRef;
use super::root::Order;
use crate::actors::claims::Claim;
use crate::actors::refusal::Refusal;
use crate::domain::answers::Charged;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::Origin;
use crate::domain::ids::{HarnessName, Incarnation, Oid, RaiderId, RelicId, SlotName};
use crate::domain::nuke::CleanupStatus;
use crate::domain::relic::Completion;
use crate::domain::relic::Hook;

/// A request to charge a relic.
#[derive(Debug, Clone)]
pub struct ChargeRequest {
    /// The work.
    pub relic: RelicId,
    /// Overrides the rig's harness.
    pub harness: Option<HarnessName>,
    /// A particular slot.
    pub name: Option<SlotName>,
    /// Overrides the branch to land on.
    pub target: Option<String>,
    /// The reason.
    pub origin: Origin,
}

/// The charges of several relics, in the order in which they get free slots.
pub struct ChargeBatch {
    /// The charges.
    pub charges: Vec<BatchedCharge>,
}

/// A charge among several.
pub struct BatchedCharge {
    /// The request.
    pub request: ChargeRequest,
    /// The existing branch that it begins on: that this one cannot be fetched need not concern the others.
    pub own_branch: Option<String>,
    /// Keeps automatic charging from its relic until it has a slot or is refused.
    pub claim: Option<Claim>,
    /// Answered when it is charged.
    pub reply: RpcReplyPort<Result<Charged, Refusal>>,
}

/// A declared completion.
#[derive(Debug, Clone)]
pub struct DoneRequest {
    /// The raider that declares it.
    pub raider: RaiderId,
    /// Its incarnation, if given; a stale one is refused.
    pub incarnation: Option<Incarnation>,
    /// The declared exit.
    pub exit: Completion,
    /// The state of the sandbox as the agent reports it.
    pub cleanup_status: Option<CleanupStatus>,
    /// Set when nothing had to change.
    pub no_change: bool,
    /// Set when a person must review before the landing.
    pub wants_review: bool,
    /// Set when it is the verdict `stuck` of a self-review, whose round is recorded with it.
    pub is_stuck_review: bool,
    /// The end of a deferral.
    pub until: Option<Timestamp>,
    /// The reason in the agent's words.
    pub reason: Option<String>,
    /// The channel: the agent itself, its outcome file, or the outbox.
    pub cause: Cause,
}

/// An accepted completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The raider.
    pub raider: RaiderId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The work.
    pub relic: RelicId,
    /// The branch that is being pushed.
    pub branch: String,
    /// Its head.
    pub head: Oid,
    /// The declared exit.
    pub exit: Completion,
    /// Set when it had been accepted before.
    pub already: bool,
    /// Set when a person may have to review it: the session stays for that.
    pub may_be_reviewed: bool,
}

/// The sandbox that a removal is about.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NukeTarget {
    /// The raider that has it.
    pub raider: RaiderId,
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The branch that its work lands on.
    pub target: String,
    /// The reason.
    pub cause: Cause,
    /// The relic that it worked on.
    pub relic: Option<RelicId>,
    /// When the sandbox was seen to have no session; a later session is left alone. None when the session is ended for
    /// the removal.
    #[serde(default)]
    pub detected: Option<Timestamp>,
    /// Set when the raider had declared its completion at the time of the decision; a later completion is judged anew.
    #[serde(default)]
    pub done: bool,
    /// The caller that asked for the removal, if any.
    #[serde(default)]
    pub asker: Option<Asker>,
    /// Set when the removal ends the work for good: its relic is closed with it, and not opened again.
    #[serde(default)]
    pub cancel: Option<Cancel>,
}

/// The order to end the work on a relic for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// The reason in the caller's words.
    pub reason: Option<String>,
}

impl NukeTarget {
    /// Returns the origin of the removal's events.
    pub(in crate::actors) fn origin(&self) -> Origin {
        let asked = self.asker.as_ref().map(Origin::from);
        asked.unwrap_or_else(|| self.cause.into())
    }

    /// Returns the order to end the session before the removal.
    pub(in crate::actors) fn order(&self) -> Order {
        Order {
            cause: self.cause,
            by: self.asker.clone(),
        }
    }

    /// The target for this hook's sandbox.
    #[must_use]
    pub fn of(hook: &Hook, cause: Cause) -> Self {
        Self {
            raider: hook.raider.clone(),
            incarnation: hook.incarnation,
            target: hook.target.clone(),
            cause,
            relic: Some(hook.relic.clone()),
            detected: None,
            done: hook.is_declared(),
            asker: None,
            cancel: None,
        }
    }

    /// Returns the sessions that the removal is about.
    pub(in crate::actors) fn child_ref(&self) -> ChildRef {
        let meant = ChildRef::raider(&self.raider, self.incarnation);
        match self.detected {
            Some(_) => meant.at_rest(),
            None => meant,
        }
    }
}
