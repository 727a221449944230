//! What a witness is asked to do, and what it answers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::meant::Meant;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::Origin;
use crate::domain::ids::{HarnessName, Incarnation, Oid, RaiderId, RelicId, SessionId, SlotName};
use crate::domain::ignored::Ignored;
use crate::domain::nuke::CleanupStatus;
use crate::domain::relic::Exit;
use crate::domain::relic::Hook;

/// A request to charge a relic.
#[derive(Debug, Clone)]
pub struct ChargeRequest {
    /// The work.
    pub relic: RelicId,
    /// Another harness than the rig's.
    pub harness: Option<HarnessName>,
    /// A particular slot.
    pub name: Option<SlotName>,
    /// Another branch to land on than the rig's.
    pub target: Option<String>,
    /// Why.
    pub origin: Origin,
}

/// A completed charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Charged {
    /// The raider.
    pub raider: RaiderId,
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// The work.
    pub relic: RelicId,
    /// The branch of its sandbox.
    pub branch: String,
    /// Its sandbox.
    pub sandbox: std::path::PathBuf,
    /// Its session.
    pub session: SessionId,
}

/// A declared completion.
#[derive(Debug, Clone)]
pub struct DoneRequest {
    /// The raider that declares it.
    pub raider: RaiderId,
    /// Which incarnation, where the caller said so; a stale one is refused.
    pub incarnation: Option<Incarnation>,
    /// How it ends.
    pub exit: Exit,
    /// The state of the sandbox, as the agent says it.
    pub cleanup_status: Option<CleanupStatus>,
    /// Nothing had to change.
    pub no_change: bool,
    /// A person must look before it lands.
    pub wants_review: bool,
    /// For deferred work.
    pub until: Option<Timestamp>,
    /// In the agent's words.
    pub reason: Option<String>,
    /// How it was declared: by the agent itself, its outcome file, or the outbox.
    pub cause: Cause,
}

/// An accepted completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// The raider.
    pub raider: RaiderId,
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// The work.
    pub relic: RelicId,
    /// The branch that is being pushed.
    pub branch: String,
    /// Its head.
    pub head: Oid,
    /// How it ends.
    pub exit: Exit,
    /// It had been accepted before.
    pub already: bool,
}

/// Which sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NukeTarget {
    /// The raider that has it.
    pub raider: RaiderId,
    /// Which incarnation's.
    pub incarnation: Incarnation,
    /// The branch that its work lands on.
    pub target: String,
    /// Why.
    pub cause: Cause,
    /// The relic that it worked on.
    pub relic: Option<RelicId>,
    /// When it was seen that nobody is in it; who came since is not touched. None where the session is
    /// to be ended for this.
    #[serde(default)]
    pub detected: Option<Timestamp>,
    /// Whether it had said that it is finished when this was decided: one that says so since is judged
    /// anew.
    #[serde(default)]
    pub done: bool,
    /// The caller that asked for it, where one did.
    #[serde(default)]
    pub asker: Option<Asker>,
}

impl NukeTarget {
    /// Returns the origin that the events of its removal have.
    pub(in crate::actors) fn origin(&self) -> Origin {
        let asked = self.asker.as_ref().map(Origin::from);
        asked.unwrap_or_else(|| self.cause.into())
    }

    /// The sandbox that was made for this hook.
    #[must_use]
    pub fn of(hook: &Hook, cause: Cause) -> Self {
        Self {
            raider: hook.raider.clone(),
            incarnation: hook.incarnation,
            target: hook.target.clone(),
            cause,
            relic: Some(hook.relic.clone()),
            detected: None,
            done: hook.done.is_some(),
            asker: None,
        }
    }

    /// The sessions that it is about.
    pub(in crate::actors) fn meant(&self) -> Meant {
        let meant = Meant::raider(&self.raider, self.incarnation);
        match self.detected {
            Some(_) => meant.at_rest(),
            None => meant,
        }
    }
}

/// The outcome of a nuke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nuked {
    /// The raider that is no more.
    pub raider: RaiderId,
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// The salvage that holds its work, where one was needed.
    pub salvage: Option<String>,
    /// The ignored files that were removed with the sandbox.
    #[serde(flatten)]
    pub ignored: Ignored,
}
