//! What a witness remembers of its rig from look to look. The root's side of the tree keeps it, so that a
//! witness that is started again goes on from it; it goes with the rig. Nothing of it matters: what is lost with the
//! process is seen again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stall::Silences;
use super::trouble::Troubles;
use crate::domain::ids::RaiderId;
use crate::domain::restart::Mono;

/// A witness's memory.
#[derive(Default)]
pub struct Memory {
    /// The sessions that may be stalled.
    pub(super) silences: Silences,
    /// Pieces of work that do not go on.
    pub(super) troubles: Troubles,
    /// The sandboxes that were judged.
    pub(super) kept: Keepers,
}

/// Raiders whose sandboxes were judged and kept. To judge one costs a measurement of all that is in it: what only
/// events tell of does not change that, and waits for the patrol.
#[derive(Default)]
pub(super) struct Keepers(Mutex<Judged>);

#[derive(Default)]
struct Judged {
    kept: BTreeSet<RaiderId>,
    /// Since when it cannot be read whose sandbox that is.
    unread: BTreeMap<RaiderId, Mono>,
    /// Since when nothing of the sandboxes can be seen.
    blind: Option<Mono>,
    /// Sessions, by their tokens, that every patrol since then saw without their agents.
    shells: BTreeMap<RaiderId, (String, Mono)>,
}

impl Keepers {
    fn judged(&self) -> MutexGuard<'_, Judged> {
        // At worst one is judged once more.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one that was judged and is kept: events that say nothing of it do not have it judged again.
    pub(super) fn keep(&self, raider: &RaiderId) {
        self.judged().kept.insert(raider.clone());
    }

    /// All of them.
    pub(super) fn all(&self) -> BTreeSet<RaiderId> {
        self.judged().kept.clone()
    }

    /// Forgets one: its slot is free, or something else became of it.
    pub(super) fn remove(&self, raider: &RaiderId) {
        self.judged().kept.remove(raider);
    }

    /// Forgets all, so that each is judged anew.
    pub(super) fn clear(&self) {
        self.judged().kept.clear();
    }

    /// Notes of which sandboxes it cannot be read now whose they are. Returns since when.
    pub(super) fn note_unread(
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

    /// Notes that nothing of the sandboxes can be seen now. Returns since when.
    pub(super) fn note_blind(&self, now: Mono) -> Mono {
        *self.judged().blind.get_or_insert(now)
    }

    /// Notes that they can be seen.
    pub(super) fn note_sight(&self) {
        self.judged().blind = None;
    }

    /// Notes that a patrol saw these sessions without their agents, and no others.
    pub(super) fn note_shells(&self, these: BTreeMap<RaiderId, String>, now: Mono) {
        let shells = &mut self.judged().shells;
        shells.retain(|raider, (token, _)| these.get(raider) == Some(token));
        for (raider, token) in these {
            shells.entry(raider).or_insert((token, now));
        }
    }

    /// Returns since when every patrol has seen this session without its agent; none when the last one has not.
    pub(super) fn shell_since(&self, raider: &RaiderId, token: &str) -> Option<Mono> {
        let judged = self.judged();
        let (seen, since) = judged.shells.get(raider)?;
        (seen == token).then_some(*since)
    }
}
