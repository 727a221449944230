//! A witness's memory of its rig between looks. Held by the root, which hands it over, so that a restarted witness goes on with it; removed
//! with the rig. It is only a cache: what is lost with the process is observed again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stall::Silences;
use super::stuck_work::RetryLedger;
use crate::domain::ids::RaiderId;
use crate::domain::restart::Mono;

/// A witness's memory.
#[derive(Default)]
pub struct Memory {
    /// The sessions that may be stalled.
    pub(super) silences: Silences,
    /// Pieces of work without progress.
    pub(super) retries: RetryLedger,
    /// Sandboxes that were judged.
    pub(super) judged_sandboxes: JudgedSandboxes,
    /// Branches of raiders that are gone and that could not be deleted.
    tried_branches: Mutex<BTreeSet<String>>,
    /// The last branch that a patrol looked at.
    looked_at_branch: Mutex<String>,
}

impl Memory {
    /// Returns the branches that could not be deleted.
    pub(super) fn tried_branches(&self) -> BTreeSet<String> {
        let tried = self.tried_branches.lock();
        tried.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the next of these branches by name: after the last that was returned, or again from the first.
    pub(super) fn next_branches(&self, mut sorted: Vec<String>, most: usize) -> Vec<String> {
        sorted.sort();
        let last = self.looked_at_branch.lock();
        let mut last = last.unwrap_or_else(PoisonError::into_inner);
        let begin = sorted.partition_point(|branch| *branch <= *last);
        let begin = if begin == sorted.len() { 0 } else { begin };
        let next: Vec<String> = sorted.into_iter().skip(begin).take(most).collect();
        *last = next.last().cloned().unwrap_or_default();
        next
    }

    /// Notes a branch that could not be deleted.
    pub(super) fn branch_stays(&self, branch: String) {
        let tried = self.tried_branches.lock();
        tried.unwrap_or_else(PoisonError::into_inner).insert(branch);
    }
}

/// Raiders whose sandboxes were judged and kept. Judging one measures everything in it, so an event that changes
/// nothing about it waits for the patrol.
#[derive(Default)]
pub(super) struct JudgedSandboxes(Mutex<Judged>);

#[derive(Default)]
struct Judged {
    kept: BTreeSet<RaiderId>,
    /// Since when the owner of each sandbox has been unknown.
    unread: BTreeMap<RaiderId, Mono>,
    /// Since when the rig's sandboxes cannot be listed.
    blind: Option<Mono>,
    /// Sessions, by token, that every patrol since then saw without their agents.
    dead_agents: BTreeMap<RaiderId, (String, Mono)>,
}

impl JudgedSandboxes {
    fn judged(&self) -> MutexGuard<'_, Judged> {
        // A poisoned lock costs at most another judgement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a sandbox that was judged and is kept: unrelated events do not have it judged again.
    pub(super) fn keep(&self, raider: &RaiderId) {
        self.judged().kept.insert(raider.clone());
    }

    /// Returns all of them.
    pub(super) fn all(&self) -> BTreeSet<RaiderId> {
        self.judged().kept.clone()
    }

    /// Drops a raider: its slot is free, or its state changed.
    pub(super) fn remove(&self, raider: &RaiderId) {
        self.judged().kept.remove(raider);
    }

    /// Drops all, so that each is judged again.
    pub(super) fn clear(&self) {
        self.judged().kept.clear();
    }

    /// Notes the sandboxes whose owner is unknown now. Returns since when, for each.
    pub(super) fn record_unknown_owners(
        &self,
        these: &BTreeSet<RaiderId>,
        now: Mono,
    ) -> BTreeMap<RaiderId, Mono> {
        let unread = &mut self.judged().unread;
        unread.retain(|raider, _| these.contains(raider));
        for raider in these {
            unread.entry(raider.clone()).or_insert(now);
        }
        unread.clone()
    }

    /// Notes that the sandboxes cannot be listed now. Returns since when.
    pub(super) fn record_unlistable(&self, now: Mono) -> Mono {
        *self.judged().blind.get_or_insert(now)
    }

    /// Notes that they can be listed.
    pub(super) fn record_listable(&self) {
        self.judged().blind = None;
    }

    /// Notes that the rig is held: how long sandboxes could not be listed or read counts from its end.
    pub(super) fn record_held(&self) {
        let mut judged = self.judged();
        judged.blind = None;
        judged.unread.clear();
    }

    /// Notes that a patrol saw these sessions without their agents, and no others.
    pub(super) fn record_dead_agents(&self, these: BTreeMap<RaiderId, String>, now: Mono) {
        let dead_agents = &mut self.judged().dead_agents;
        dead_agents.retain(|raider, (token, _)| these.get(raider) == Some(token));
        for (raider, token) in these {
            dead_agents.entry(raider).or_insert((token, now));
        }
    }

    /// Returns since when every patrol has seen this session without its agent; none when the last patrol did not.
    pub(super) fn agent_missing_since(&self, raider: &RaiderId, token: &str) -> Option<Mono> {
        let judged = self.judged();
        let (seen, since) = judged.dead_agents.get(raider)?;
        (seen == token).then_some(*since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each patrol had looked at 30,000 that an agent had made.
    #[test]
    fn branches_are_looked_at_in_turn() {
        let memory = Memory::default();
        let next = |names: &str| {
            let all = names.chars().map(String::from).collect();
            memory.next_branches(all, 2).concat()
        };
        assert_eq!(next("cab"), "ab");
        assert_eq!(next("cab"), "c");
        assert_eq!(next("cab"), "ab", "again from the first");
        assert_eq!(next("xab"), "x", "one that is new");
        assert_eq!(next(""), "");
        assert_eq!(next("ab"), "ab");
    }
}
