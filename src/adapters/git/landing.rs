//! The landing half of [`GitRepo`]'s answer to the port.

use super::rig::GitRepo;
use super::{gate, land, merge, pins, remote};
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::MergeOutcome;
use crate::ports::repo::{GateRun, GateSpec, LandRequest, RepoError, TargetState};

impl GitRepo {
    /// See the port.
    pub fn fetch_target(&self, branch: &str) -> Result<TargetState, RepoError> {
        remote::fetch_target(self, branch)
    }

    /// See the port.
    pub fn remote_head(&self, branch: &str) -> Result<Option<Oid>, RepoError> {
        remote::remote_head(self, branch)
    }

    /// See the port.
    pub fn push_branch(
        &self,
        branch: &str,
        head: &Oid,
        expected: Option<&Oid>,
    ) -> Result<(), RepoError> {
        remote::push_branch(self, branch, head, expected)
    }

    /// See the port.
    pub fn delete_branch(&self, branch: &str, head: &Oid) -> Result<(), RepoError> {
        remote::delete_branch(self, branch, head)
    }

    /// See the port.
    pub fn pin(&self, mr: &RelicId, head: &Oid) -> Result<(), RepoError> {
        pins::pin(self, mr, head)
    }

    /// See the port.
    pub fn unpin(&self, mr: &RelicId) -> Result<(), RepoError> {
        pins::unpin(self, mr)
    }

    /// See the port.
    pub fn merge(&self, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
        merge::merge(self, request)
    }

    /// See the port.
    pub fn run_gate(&self, commit: &Oid, gate: &GateSpec) -> Result<GateRun, RepoError> {
        gate::run_gate(self, commit, gate)
    }

    /// See the port.
    pub fn land(&self, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError> {
        land::land(self, target, old, new)
    }

    /// See the port.
    pub fn landed(&self, target: &str, commit: &Oid) -> Result<bool, RepoError> {
        land::landed(self, target, commit)
    }

    /// See the port.
    pub fn on_main(&self, head: &Oid, target: &str) -> Result<bool, RepoError> {
        land::on_main(self, head, target)
    }
}
