//! The custody half of [`GitRepo`]'s answer to the port.

use std::path::{Path, PathBuf};

use super::rig::GitRepo;
use super::{discard, facts, fetch, prepare, repair, salvage, sandbox};
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, Oid, RaiderId, SlotName};
use crate::domain::nuke::NukePermit;
use crate::ports::repo::{RepoError, SalvageRecord, SandboxSpec};

impl GitRepo {
    /// See the port.
    pub fn prepare(&self) -> Result<(), RepoError> {
        prepare::prepare(self)
    }

    /// See the port.
    pub fn default_branch(&self) -> Result<String, RepoError> {
        fetch::default_branch(self)
    }

    /// See the port.
    pub fn fetch_branch(&self, branch: &str) -> Result<Option<Oid>, RepoError> {
        fetch::fetch_branch(self, branch)
    }

    /// See the port.
    pub fn make_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError> {
        sandbox::make(self, spec)
    }

    /// See the port.
    pub fn sandboxes(&self) -> Result<Vec<(SlotName, PathBuf)>, RepoError> {
        sandbox::list(self)
    }

    /// See the port.
    pub fn facts(&self, sandbox: &Path, target: &str) -> Result<GitFacts, RepoError> {
        facts::facts(self, sandbox, target)
    }

    /// See the port.
    pub fn glance(&self, sandbox: &Path, target: &str) -> Result<(u64, u64, u64), RepoError> {
        facts::glance(self, sandbox, target)
    }

    /// See the port.
    pub fn salvage(
        &self,
        sandbox: &Path,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<SalvageRecord, RepoError> {
        salvage::salvage(self, sandbox, raider, incarnation)
    }

    /// See the port.
    pub fn restore(&self, record: &SalvageRecord, to: &Path) -> Result<(), RepoError> {
        salvage::restore(self, record, to)
    }

    /// See the port.
    pub fn discard_sandbox(&self, permit: &NukePermit, trash: &Path) -> Result<(), RepoError> {
        discard::discard(self, permit, trash)
    }

    /// See the port.
    pub fn repair_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError> {
        repair::repair(self, spec)
    }
}
