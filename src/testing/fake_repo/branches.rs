//! Branches of people at the pretended remote, its default branch, and the owners of sandboxes.

use std::path::Path;

use super::port::slot_of;
use super::{FakeRepo, moved};
use crate::domain::default_branch::Change;
use crate::domain::existing_branch::BranchAt;
use crate::domain::ids::Oid;
use crate::ports::repo::{Provenance, RepoError};

/// The time at which every sandbox was made: the beginning of cities.
const MADE: &str = "2026-01-01T00:00:00Z";

impl FakeRepo {
    /// Makes a branch of a person at the remote, and returns its commit.
    pub fn push_of_person(&self, branch: &str) -> Oid {
        let mut inner = self.inner();
        let head = inner.oid();
        inner.remote.insert(branch.to_owned(), head.clone());
        head
    }

    /// Has the remote name another default branch.
    pub fn change_default(&self, change: Change) {
        self.inner().default_changed = Some(change);
    }

    pub(super) fn branch_at(&self, branch: &str) -> Result<BranchAt, RepoError> {
        let inner = self.enter("find_branch", branch)?;
        let remote = inner.remote.get(branch).cloned();
        let others = match remote {
            Some(_) => Vec::new(),
            None => inner.remote.keys().cloned().collect(),
        };
        Ok(BranchAt {
            remote,
            others,
            ..BranchAt::default()
        })
    }

    /// The commit of the target at which a person's branch was made: the newest one.
    pub(super) fn forked(&self, head: &Oid) -> Result<Option<Oid>, RepoError> {
        let inner = self.enter("fork_point", head.as_str())?;
        Ok(inner.target.last().cloned())
    }

    pub(super) fn on_target(&self, method: &'static str, commit: &Oid) -> Result<bool, RepoError> {
        let inner = self.enter(method, commit.as_str())?;
        Ok(inner.target.contains(commit))
    }

    pub(super) fn on_default_branch(&self, head: &Oid) -> Result<bool, RepoError> {
        let inner = self.enter("on_main", head.as_str())?;
        Ok(inner.landed.contains(head) || inner.target.contains(head))
    }

    pub(super) fn take_branch(
        &self,
        branch: &str,
        head: &Oid,
        expected: Option<&Oid>,
    ) -> Result<(), RepoError> {
        let mut inner = self.enter("push_branch", branch)?;
        let found = inner.remote.get(branch).cloned();
        if expected.is_some() && found.as_ref() != expected {
            return Err(moved(branch, expected, found.as_ref()));
        }
        inner.remote.insert(branch.to_owned(), head.clone());
        Ok(())
    }

    pub(super) fn known_default(&self) -> Result<String, RepoError> {
        let inner = self.enter("default_branch", "")?;
        Ok(inner.default.clone().unwrap_or_else(|| "main".to_owned()))
    }

    pub(super) fn changed_default(&self) -> Result<Option<Change>, RepoError> {
        let inner = self.enter("default_change", "")?;
        let known = inner.default.as_deref().unwrap_or("main");
        Ok(inner
            .default_changed
            .clone()
            .filter(|change| change.to != known))
    }

    pub(super) fn provenance_of(&self, sandbox: &Path) -> Result<Option<Provenance>, RepoError> {
        let inner = self.enter("provenance", &sandbox.display().to_string())?;
        let found = slot_of(sandbox).and_then(|slot| inner.sandboxes.get(&slot));
        let found = found.filter(|found| !found.nameless);
        Ok(found.map(|found| Provenance {
            incarnation: found.spec.incarnation,
            relic: found.spec.relic.clone(),
            branch: found.spec.branch.clone(),
            base: found.spec.base.clone(),
            made: MADE.parse().expect("a time"),
        }))
    }
}
