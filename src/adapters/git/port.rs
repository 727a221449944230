//! [`GitRepo`]'s implementation of the port, each method in its module.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::rig::{GitRepo, locked};
use super::{
    branches, checkout, commit_checks, committed, custody, default_branch, diff, discard,
    existing_branch, facts, fetch, gate, ignored, land, merge, pinned_stashes, pins, prepare,
    progress, provenance, remote, repair, retired, salvage, sandbox, sandbox_fault, stash,
    stash_watch, upkeep,
};
use crate::domain::default_branch::Change;
use crate::domain::doctor::BranchFacts;
use crate::domain::existing_branch::BranchAt;
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId, SlotName};
use crate::domain::merge::MergeOutcome;
use crate::domain::nuke::NukePermit;
use crate::domain::sandbox_fault::SandboxFault;
use crate::domain::work_diff::{Diff, DiffSum};
use crate::ports::repo::{
    Committed, GateRun, GateSpec, LandRequest, Measurement, PendingWork, PinnedStashes, Provenance,
    Repo, RepoError, SalvageRecord, SandboxSpec, TargetState,
};

impl Repo for GitRepo {
    fn prepare(&self) -> Result<(), RepoError> {
        self.begin_preparing();
        let prepared = prepare::prepare(self);
        self.set_prepared(&prepared);
        // Where the rig is held, its directories may lead to other places.
        if prepared.is_ok() {
            stash_watch::watch(self);
        }
        prepared
    }

    fn held(&self) -> Option<String> {
        self.unprepared()
    }

    fn ready(&self) -> Result<(), RepoError> {
        custody::check(self)
    }

    fn take_mended(&self) -> Vec<String> {
        self.take_mended()
    }

    fn program(&self) -> Result<String, RepoError> {
        prepare::version()
    }

    fn default_branch(&self) -> Result<String, RepoError> {
        fetch::default_branch(self)
    }

    fn default_change(&self) -> Result<Option<Change>, RepoError> {
        default_branch::change(self)
    }

    fn follow_default(&self, branch: &str) -> Result<(), RepoError> {
        default_branch::follow(self, branch)
    }

    fn user_email(&self) -> Option<String> {
        self.email()
    }

    fn fetch_branch(&self, branch: &str) -> Result<Option<Oid>, RepoError> {
        fetch::fetch_branch(self, branch)
    }

    fn find_branch(&self, branch: &str) -> Result<BranchAt, RepoError> {
        existing_branch::find(self, branch)
    }

    fn fork_point(&self, head: &Oid, target: &str) -> Result<Option<Oid>, RepoError> {
        existing_branch::fork_point(self, head, target)
    }

    fn make_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError> {
        sandbox::make(self, spec)
    }

    fn sandboxes(&self) -> Result<Vec<(SlotName, PathBuf)>, RepoError> {
        sandbox::list(self)
    }

    fn sandbox_fault(&self, sandbox: &Path) -> Result<Option<SandboxFault>, RepoError> {
        sandbox_fault::find(self, sandbox)
    }

    fn provenance(&self, sandbox: &Path) -> Result<Option<Provenance>, RepoError> {
        provenance::provenance(self, sandbox)
    }

    fn committed(
        &self,
        sandbox: &Path,
        name: &str,
        bytes: Option<&[u8]>,
    ) -> Result<Committed, RepoError> {
        committed::committed(self, sandbox, name, bytes)
    }

    fn leave_out(&self, patterns: &[String]) -> Result<(), RepoError> {
        ignored::leave_out(self, patterns)
    }

    fn measure(&self, sandbox: &Path, target: &str) -> Result<Measurement, RepoError> {
        facts::facts(self, sandbox, target)
    }

    fn glance(&self, sandbox: &Path, target: &str) -> Result<(u64, u64, u64), RepoError> {
        facts::glance(self, sandbox, target)
    }

    fn diff_of_sandbox(&self, sandbox: &Path, target: &str) -> Result<Diff, RepoError> {
        diff::of_sandbox(self, sandbox, target)
    }

    fn diff_of_landing(&self, work: &PendingWork) -> Result<Diff, RepoError> {
        diff::of_landing(self, work)
    }

    fn sum_of_landing(&self, work: &PendingWork) -> Result<DiffSum, RepoError> {
        diff::sum_of_landing(self, work)
    }

    fn changed_paths(&self, head: &Oid, target: &str) -> Result<Vec<String>, RepoError> {
        diff::paths_of_commit(self, head, target)
    }

    fn progress(&self, sandbox: &Path) -> Result<String, RepoError> {
        progress::progress(self, sandbox)
    }

    fn changes(&self, sandbox: &Path) -> Result<String, RepoError> {
        progress::changes(self, sandbox)
    }

    fn spare_branches(&self) -> Result<Vec<BranchFacts>, RepoError> {
        branches::spare(self)
    }

    fn raider_branches(&self) -> Result<Vec<String>, RepoError> {
        branches::of_raiders(self)
    }

    fn drop_branch(&self, branch: &str) -> Result<bool, RepoError> {
        // Locked, so that no worktree checks the branch out meanwhile.
        let _worktrees = locked(&self.state.worktrees);
        branches::drop_branch(self, branch)
    }

    fn maintain(&self) -> Result<bool, RepoError> {
        upkeep::maintain(self)
    }

    fn expire_retired(&self, before: Timestamp) -> Result<usize, RepoError> {
        retired::expire(self, before)
    }

    fn expire_stash(&self, before: Timestamp) -> Result<usize, RepoError> {
        stash::expire(self, before)
    }

    fn salvage_size(&self, sandbox: &Path) -> Result<u64, RepoError> {
        salvage::size(self, sandbox)
    }

    fn salvage(
        &self,
        sandbox: &Path,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<SalvageRecord, RepoError> {
        salvage::salvage(self, sandbox, raider, incarnation)
    }

    fn salvage_head(
        &self,
        head: &Oid,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<SalvageRecord, RepoError> {
        salvage::keep(self, head, raider, incarnation)
    }

    fn fit(&self, sandbox: &Path, head: &Oid, target: &str) -> Result<(), RepoError> {
        commit_checks::check(self, sandbox, head, target)
    }

    fn holds(&self, commit: &Oid, target: &str) -> Result<bool, RepoError> {
        facts::holds(self, commit, target)
    }

    fn strays(&self, sandbox: &Path, branch: &str, target: &str) -> Result<Vec<Oid>, RepoError> {
        facts::strays(self, sandbox, branch, target)
    }

    fn remains(&self, sandbox: &Path, target: &str) -> Result<Option<GitFacts>, RepoError> {
        facts::remains(self, sandbox, target)
    }

    fn pinned_stashes(&self) -> Result<Vec<PinnedStashes>, RepoError> {
        pinned_stashes::list(self)
    }

    fn tips(&self, names: &[String]) -> Result<Vec<(String, Oid)>, RepoError> {
        salvage::tips(self, names)
    }

    fn present_tips(&self, names: &[String]) -> Result<Vec<(String, Oid)>, RepoError> {
        salvage::present_tips(self, names)
    }

    fn delete_refs(&self, refs: &[(String, Oid)]) -> Result<(), RepoError> {
        salvage::delete_refs(self, refs)
    }

    fn restore(&self, record: &SalvageRecord, to: &Path) -> Result<(), RepoError> {
        salvage::restore(self, record, to)
    }

    fn discard_sandbox(
        &self,
        permit: &NukePermit,
        trash: &Path,
        still: &dyn Fn() -> Result<(), RepoError>,
    ) -> Result<(), RepoError> {
        discard::discard(self, permit, trash, still)
    }

    fn forget_sandbox(
        &self,
        sandbox: &Path,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<(), RepoError> {
        discard::forget(self, sandbox, raider, incarnation)
    }

    fn repair_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError> {
        repair::repair(self, spec)
    }

    fn fetch_target(&self, branch: &str) -> Result<TargetState, RepoError> {
        remote::fetch_target(self, branch)
    }

    fn remote_head(&self, branch: &str) -> Result<Option<Oid>, RepoError> {
        remote::remote_head(self, branch)
    }

    fn push_branch(
        &self,
        branch: &str,
        head: &Oid,
        expected: Option<&Oid>,
    ) -> Result<(), RepoError> {
        remote::push_branch(self, branch, head, expected)
    }

    fn delete_branch(&self, branch: &str, head: &Oid) -> Result<(), RepoError> {
        remote::delete_branch(self, branch, head)
    }

    fn pin(&self, mr: &RelicId, head: &Oid) -> Result<(), RepoError> {
        pins::pin(self, mr, head)
    }

    fn unpin(&self, mr: &RelicId) -> Result<(), RepoError> {
        pins::unpin(self, mr)
    }

    fn merge(&self, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
        merge::merge(self, request)
    }

    fn run_gate(&self, commit: &Oid, gate: &GateSpec) -> Result<GateRun, RepoError> {
        gate::run_gate(self, commit, gate)
    }

    fn stop_gate(&self) {
        self.state.running_gate.stop();
    }

    fn checkout_free(&self, target: &str, landing: Option<(&Oid, &Oid)>) -> Result<(), RepoError> {
        checkout::look(self, target, landing)
    }

    fn recover_landing(&self) -> Result<(), RepoError> {
        checkout::recover(self)
    }

    fn land(&self, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError> {
        land::land(self, target, old, new)
    }

    fn landed(&self, target: &str, commit: &Oid) -> Result<bool, RepoError> {
        land::landed(self, target, commit)
    }

    fn has(&self, tip: &Oid, commit: &Oid) -> Result<bool, RepoError> {
        land::has(self, tip, commit)
    }

    fn is_reverted(&self, began: &Oid, head: &Oid, tip: &Oid) -> Result<Option<bool>, RepoError> {
        land::is_reverted(self, began, head, tip)
    }

    fn on_main(&self, head: &Oid, target: &str) -> Result<bool, RepoError> {
        land::on_main(self, head, target)
    }
}
