//! Merges in memory.

use super::FakeRepo;
use crate::domain::merge::MergeOutcome;
use crate::ports::repo::{LandRequest, RepoError};

impl FakeRepo {
    /// Merges, as scripted or clean. The same merge is the same commit.
    pub(super) fn merged(&self, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
        let mut inner = self.enter("merge", request.head.as_str())?;
        if let Some(outcome) = inner.outcomes.pop_front() {
            return Ok(outcome);
        }
        let head = request.head.clone();
        if inner.landed.contains(&head) || inner.target.contains(&head) {
            return Ok(MergeOutcome::Nothing);
        }
        let key = (head.clone(), request.onto.clone());
        let tip = match inner.merges.get(&key).cloned() {
            Some(tip) => tip,
            None => inner.oid(),
        };
        inner.merges.insert(key, tip.clone());
        inner.made.insert(tip.clone(), head);
        let tree = tip.clone();
        Ok(MergeOutcome::Clean { tip, tree })
    }
}
