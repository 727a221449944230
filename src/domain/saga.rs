//! Sagas: multi-step operations that survive `kill -9` at every step.
//!
//! Each step is idempotent and journalled when it is finished. A resumed charge or done continues after its last
//! journalled step; nuke, land and prune begin again and recognise what is done. The fault points of all sagas are in
//! one list here, because the crash sweeps run over it (`rules.md`, fault points).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::{RelicId, RigName};

words! {
    /// The operation of a saga.
    SagaKind {
        /// slot → sandbox → hook → session.
        Charge => "charge",
        /// intent → push → merge request and POLECAT_DONE → session ended.
        Done => "done",
        /// judge → salvage → judge → trash → release.
        Nuke => "nuke",
        /// intent → push → landed.
        Land => "land",
        /// intent → refs gone → row gone.
        Prune => "prune",
    }
}

/// A saga as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saga {
    /// Its number.
    pub id: u64,
    /// The operation.
    pub kind: SagaKind,
    /// The rig.
    pub rig: RigName,
    /// The subject: a raider's full id, or a merge request.
    pub subject: String,
    /// The last finished step.
    pub step: String,
    /// The data that the steps need to continue.
    pub data: Value,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When the last step was finished.
    pub progress_at: Timestamp,
}

impl Saga {
    /// Returns whether it charges this relic.
    #[must_use]
    pub fn charges(&self, relic: &RelicId) -> bool {
        let of = self.data.get("relic");
        self.kind == SagaKind::Charge && of.is_some_and(|of| of == relic.as_str())
    }

    /// Returns true for a completion that is still being pushed, so that it may be withdrawn.
    #[must_use]
    pub fn is_pushing(&self) -> bool {
        self.kind == SagaKind::Done && self.step == "intent"
    }

    /// Returns why the push of a `done` saga does not succeed.
    #[must_use]
    pub fn push_error(&self) -> Option<&str> {
        self.data.get("blocked")?.as_str()
    }

    /// Returns true when the merge request has the head that a `done` saga submits.
    #[must_use]
    pub fn is_submitted(&self) -> bool {
        self.step == "submit"
    }

    /// Returns true while the session of a `done` saga may have to stay for a person's review.
    #[must_use]
    pub fn keeps_session(&self) -> bool {
        let key = match self.is_submitted() {
            true => "keeps_session",
            false => "may_be_reviewed",
        };
        self.data.get(key).and_then(serde_json::Value::as_bool) == Some(true)
    }
}

words! {
    /// A point where the process may be killed without harm, `<saga>.<step>.<before|after>` as in `HORDE_FAULT`, in the
    /// order in which a piece of work reaches them; `before` and `after` refer to the commit that journals the step.
    FaultPoint {
        /// The slot is chosen, nothing is written.
        ChargeSlotBefore => "charge.slot.before",
        /// The slot and its incarnation are held.
        ChargeSlotAfter => "charge.slot.after",
        /// The sandbox stands, the step is not journalled.
        ChargeSandboxBefore => "charge.sandbox.before",
        /// The sandbox stands.
        ChargeSandboxAfter => "charge.sandbox.after",
        /// Before relic and raider are tied.
        ChargeHookBefore => "charge.hook.before",
        /// Relic and raider are tied.
        ChargeHookAfter => "charge.hook.after",
        /// The session runs, the charge is not yet shown.
        ChargeSessionBefore => "charge.session.before",
        /// The charge is complete.
        ChargeSessionAfter => "charge.session.after",
        /// The agent's `done` is checked, nothing is written.
        DoneIntentBefore => "done.intent.before",
        /// The intent is durable.
        DoneIntentAfter => "done.intent.after",
        /// The branch is on the remote, the step is not journalled.
        DonePushBefore => "done.push.before",
        /// The push is verified and journalled.
        DonePushAfter => "done.push.after",
        /// Before merge request and POLECAT_DONE are written.
        DoneSubmitBefore => "done.submit.before",
        /// Merge request and POLECAT_DONE are written.
        DoneSubmitAfter => "done.submit.after",
        /// The session has ended, the step is not journalled.
        DoneSessionBefore => "done.session.before",
        /// The session's end is journalled.
        DoneSessionAfter => "done.session.after",
        /// POLECAT_DONE is validated, MERGE_READY is not sent.
        WitnessReadyBefore => "witness.ready.before",
        /// MERGE_READY is sent.
        WitnessReadyAfter => "witness.ready.after",
        /// The sandbox is judged, the nuke is not journalled.
        NukeIntentBefore => "nuke.intent.before",
        /// The nuke is journalled.
        NukeIntentAfter => "nuke.intent.after",
        /// Salvage is written and not recorded.
        NukeSalvageBefore => "nuke.salvage.before",
        /// Salvage is recorded.
        NukeSalvageAfter => "nuke.salvage.after",
        /// The sandbox is in the trash, the slot is still held.
        NukeReleaseBefore => "nuke.release.before",
        /// The slot is free.
        NukeReleaseAfter => "nuke.release.after",
        /// The head is pinned, MERGE_READY is not acknowledged.
        LandPinBefore => "land.pin.before",
        /// The merge request is queued and MERGE_READY acknowledged.
        LandPinAfter => "land.pin.after",
        /// The gates are green, the landing is not journalled.
        LandIntentBefore => "land.intent.before",
        /// The landing is journalled, nothing is pushed.
        LandIntentAfter => "land.intent.after",
        /// The push is done, the landing is not recorded.
        LandPushBefore => "land.push.before",
        /// The landing is recorded and MERGED sent.
        LandPushAfter => "land.push.after",
        /// MERGED is verified, relic and hook are open.
        MergedCloseBefore => "merged.close.before",
        /// Relic and hook are closed.
        MergedCloseAfter => "merged.close.after",
        /// MERGE_FAILED is read, nothing is decided.
        ReworkBefore => "rework.before",
        /// The relic is open for a fresh raider, or blocked.
        ReworkAfter => "rework.after",
        /// It is known which refs of a salvage are to go, nothing is written.
        PruneIntentBefore => "prune.intent.before",
        /// The end of a salvage is journalled, all of it is there.
        PruneIntentAfter => "prune.intent.after",
        /// The refs of a salvage are gone, it is still listed.
        PruneDropBefore => "prune.drop.before",
        /// A salvage is gone.
        PruneDropAfter => "prune.drop.after",
    }
}
