//! Claims: at most one task works on a piece of work at a time, within this process.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ids::{RaiderId, RelicId, RigName};

/// The key of a piece of work. Sessions are named by their tokens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimKey {
    /// The check of all accounts.
    Accounts,
    /// The charge of a relic that a rig's `auto_charge` or a rework starts.
    Charge(RelicId),
    /// The charges of a rig's waiting relics.
    Charges(RigName),
    /// Telling a session about its compaction.
    Compaction(String),
    /// The refresh of git's facts about a rig's sandboxes.
    Glances(RigName),
    /// Telling a session that its limit is over.
    GoesOn(String),
    /// The look whether a rig's repository is still there.
    Ground(RigName),
    /// The call of a person about a hanging look of a rig's witness.
    HangCall(RigName),
    /// The landing lane of a rig.
    Lane(RigName),
    /// The deletion of branches that raiders of a rig left.
    LeftBranches(RigName),
    /// The handling of a message to a witness.
    Message(u64),
    /// The commands of `[notify]`.
    Notify,
    /// The removal of a raider; while it is held, the slot stays with its incarnation.
    Nuke(RaiderId),
    /// The end of an orphan session; while it is held, the session is not adopted.
    Orphan(String),
    /// The outbox files of a raider, by the names that the files hold.
    Outbox(String, String),
    /// The reading of a raider's outcome file.
    Outcome(RaiderId),
    /// The wait for the next such reading; waits that know that the session has ended are separate.
    NextOutcome(RaiderId, bool),
    /// The preparation of a rig.
    Prepare(RigName),
    /// Typing the first prompt of a session.
    Prompt(String),
    /// The opening of a pull request of a rig.
    PullRequest(RigName),
    /// The removal of a raider whose work is over.
    Release(RaiderId),
    /// The repair of a raider's sandbox; while it is held, no session starts in it.
    Repair(RaiderId),
    /// `[retention]`.
    Retention,
    /// The run of a saga.
    Saga(u64),
    /// The reading or removal of a salvage.
    Salvage(String),
    /// The reading of a session's screen.
    Screen(String),
    /// The search for old sessions of a rig.
    SessionAges(RigName),
    /// The step about a raider that may be stalled.
    Stall(RaiderId),
    /// The search for stalled raiders of a rig.
    Stalls(RigName),
    /// The judgement of a raider that may be a zombie.
    Suspect(RaiderId),
    /// Emptying the trash.
    Trash,
    /// Typing into a session.
    Typing(String),
    /// The upkeep of a rig's repository.
    Upkeep(RigName),
    /// Reading transcripts.
    Usage,
}

/// The keys of the work in progress, each with whether it is wanted once more. An actor that was restarted after a
/// panic finds the tasks of its predecessor still running: the claim prevents the same work from being done twice.
#[derive(Clone, Default)]
pub struct Claims(Arc<Mutex<BTreeMap<ClaimKey, bool>>>);

impl Claims {
    fn held(&self) -> MutexGuard<'_, BTreeMap<ClaimKey, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when a task holds the claim.
    #[must_use]
    pub fn is_claimed(&self, key: &ClaimKey) -> bool {
        self.held().contains_key(key)
    }

    /// Claims a piece of work; none when another task holds the claim.
    #[must_use]
    pub fn claim(&self, key: ClaimKey) -> Option<Claim> {
        self.take(key, false)
    }

    /// Claims a piece of work, or asks the task that holds the claim to repeat it, because something may have changed
    /// since it began ([`Claim::give_back`]).
    #[must_use]
    pub fn claim_or_repeat(&self, key: ClaimKey) -> Option<Claim> {
        self.take(key, true)
    }

    fn take(&self, key: ClaimKey, repeat: bool) -> Option<Claim> {
        match self.held().entry(key) {
            Entry::Occupied(mut again) => {
                *again.get_mut() |= repeat;
                None
            }
            Entry::Vacant(free) => {
                let key = free.key().clone();
                free.insert(false);
                let claims = Some(self.clone());
                Some(Claim { claims, key })
            }
        }
    }
}

/// Held while the work goes on; freed when dropped, even by a panic.
#[must_use = "dropped at once, it protects nothing"]
pub struct Claim {
    /// None once it was given back.
    claims: Option<Claims>,
    key: ClaimKey,
}

impl Claim {
    /// Ends the claim, unless another task asked for the work meanwhile: then the claim stays, and the work must be
    /// repeated.
    pub fn give_back(mut self) -> Option<Self> {
        let claims = self.claims.take()?;
        let mut held = claims.held();
        if held.get_mut(&self.key).is_some_and(std::mem::take) {
            drop(held);
            self.claims = Some(claims);
            return Some(self);
        }
        held.remove(&self.key);
        None
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(claims) = &self.claims {
            claims.held().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Claims and their keys.

    use super::*;

    fn raider(name: &str) -> RaiderId {
        name.parse().unwrap()
    }

    #[test]
    fn claimed_work_is_free_again_when_its_claim_is_dropped() {
        let claims = Claims::default();
        let claim = claims.claim(ClaimKey::Trash).unwrap();
        assert!(claims.claim(ClaimKey::Trash).is_none());
        assert!(claims.is_claimed(&ClaimKey::Trash));
        drop(claim);
        assert!(!claims.is_claimed(&ClaimKey::Trash));
    }

    #[test]
    fn work_that_is_wanted_meanwhile_is_done_once_more() {
        let claims = Claims::default();
        let claim = claims.claim_or_repeat(ClaimKey::Notify).unwrap();
        for _ in 0..3 {
            assert!(claims.claim_or_repeat(ClaimKey::Notify).is_none());
        }
        let claim = claim.give_back().unwrap();
        assert!(claim.give_back().is_none());
        assert!(!claims.is_claimed(&ClaimKey::Notify));
    }

    /// Claims of different work never share a key, whatever the names of raiders, rigs and files are.
    #[test]
    fn different_work_has_different_keys() {
        let claims = Claims::default();
        let toast = raider("horde/raiders/Toast");
        let keys = [
            ClaimKey::Outcome(toast.clone()),
            ClaimKey::NextOutcome(toast.clone(), false),
            ClaimKey::NextOutcome(toast.clone(), true),
            ClaimKey::Nuke(toast.clone()),
            ClaimKey::Nuke(raider("rust/raiders/Toast")),
            ClaimKey::Release(toast),
            ClaimKey::Outbox("a/b".into(), "c".into()),
            ClaimKey::Outbox("a".into(), "b/c".into()),
            ClaimKey::Saga(1),
            ClaimKey::Message(1),
        ];
        let held: Vec<_> = keys.iter().map(|key| claims.claim(key.clone())).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
