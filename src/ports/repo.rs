//! The git operations that the custody of sandboxes and the merge queue need.
//!
//! Each rig has a [`Repo`] for its two bare repositories, ours (`.horde/custody/RIG.git`) and theirs (`RIG/repo.git`,
//! which agents write to), and its remote. Every method may block and is called on a blocking thread.
//!
//! Four methods destroy work: [`Repo::discard_sandbox`], which wants a [`NukePermit`] and verifies it again,
//! [`Repo::delete_refs`], which ends a salvage, and [`Repo::expire_retired`] and [`Repo::expire_stash`], which delete
//! leftovers of agents that are older than `[retention] salvage`.

mod error;
mod gate;
mod landing;
mod sandbox;
mod stashes;

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::domain::default_branch::Change;
use crate::domain::doctor::BranchFacts;
use crate::domain::existing_branch::BranchAt;
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId, SlotName};
use crate::domain::merge::MergeOutcome;
use crate::domain::nuke::NukePermit;
use crate::domain::sandbox_fault::SandboxFault;
use crate::domain::work_diff::{Diff, DiffSum};

pub use self::error::{RepoError, is_no_room};
pub use self::gate::{GateRun, GateSpec};
pub use self::landing::{LandRequest, PendingWork, Signature, TargetState};
pub use self::sandbox::{Measurement, Provenance, SalvageRecord, SandboxSpec};
pub use self::stashes::PinnedStashes;

/// The commits that have a file of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// None: git does not have these bytes, or nothing of that name.
    No,
    /// Commits of another branch as well, or a merge is bringing it: the file is the repository's.
    Before,
    /// Commits of the branch alone, or the index.
    OnBranch,
    /// HEAD does not have it, but git has these bytes, or a file of that name: git or the session may have written the file.
    Known,
    /// git is changing the sandbox's files.
    Unsettled,
}

/// Git operations of one rig.
pub trait Repo: Send + Sync {
    /// Makes both repositories where they are missing, takes over remotes and settings from the rig's path, and reports what this
    /// repository cannot do. Idempotent; run at start and on reload.
    ///
    /// # Errors
    /// [`RepoError`]: the rig cannot be worked on, and why.
    fn prepare(&self) -> Result<(), RepoError>;

    /// Returns the reason why the repository cannot be used: it was never prepared, and the last attempt failed; or
    /// [`Repo::ready`] found it missing since. Does not block.
    fn held(&self) -> Option<String>;

    /// Verifies, before work, that the repository can be used and is still there.
    ///
    /// # Errors
    /// [`RepoError::Held`]: it cannot, until it is prepared again.
    fn ready(&self) -> Result<(), RepoError> {
        self.held().map_or(Ok(()), |why| Err(RepoError::Held(why)))
    }

    /// Returns the repairs of its repositories since the last call, each as a whole sentence without a full stop.
    fn take_mended(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the output of `git version`.
    ///
    /// # Errors
    /// [`RepoError`]: git cannot be run.
    fn program(&self) -> Result<String, RepoError>;

    /// Returns the default branch, discovered from `origin/HEAD` or the path's HEAD.
    ///
    /// # Errors
    /// [`RepoError`].
    fn default_branch(&self) -> Result<String, RepoError>;

    /// Returns the change of the default branch at the remote since it was discovered; none without one. Fetches both
    /// branches.
    ///
    /// # Errors
    /// [`RepoError`].
    fn default_change(&self) -> Result<Option<Change>, RepoError>;

    /// Takes this branch of the remote for the default branch.
    ///
    /// # Errors
    /// [`RepoError`].
    fn follow_default(&self, branch: &str) -> Result<(), RepoError>;

    /// Returns `user.email` of the rig's repository, if it is set.
    fn user_email(&self) -> Option<String>;

    /// Fetches the target branch from the remote and returns its state.
    ///
    /// # Errors
    /// [`RepoError`].
    fn fetch_target(&self, branch: &str) -> Result<TargetState, RepoError>;

    /// Fetches a pushed branch; returns none when the remote has no such branch.
    ///
    /// # Errors
    /// [`RepoError`].
    fn fetch_branch(&self, branch: &str) -> Result<Option<Oid>, RepoError>;

    /// Fetches an existing branch of a person, from the remote and from the rig's checkout, so that work can begin on it.
    ///
    /// # Errors
    /// [`RepoError`].
    fn find_branch(&self, branch: &str) -> Result<BranchAt, RepoError>;

    /// Fetches the target, and returns the newest of its commits that `head` has; none without a common history, and
    /// where the remote has no such target.
    ///
    /// # Errors
    /// [`RepoError::Remote`], [`RepoError::Failed`].
    fn fork_point(&self, head: &Oid, target: &str) -> Result<Option<Oid>, RepoError>;

    /// Makes the sandbox: worktree on a new branch, links, excludes, copies, refreshed index.
    /// Idempotent for the same spec: a half-made sandbox of the same incarnation is completed.
    /// If the branch already exists, its commits are kept.
    ///
    /// # Errors
    /// [`RepoError`].
    fn make_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError>;

    /// Lists the sandboxes on the file system: slot name and directory. Discovery, never a stored list.
    ///
    /// # Errors
    /// [`RepoError`].
    fn sandboxes(&self) -> Result<Vec<(SlotName, PathBuf)>, RepoError>;

    /// Returns the fault that keeps work from going on in the sandbox, judged by its administrative files alone: cheap,
    /// no subprocess. A lock on the sandbox is no fault.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be seen.
    fn sandbox_fault(&self, sandbox: &Path) -> Result<Option<SandboxFault>, RepoError>;

    /// Returns the owner of a sandbox that no hook names: as noted when the sandbox was made, else by its branch. None
    /// when both are missing.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be seen.
    fn provenance(&self, sandbox: &Path) -> Result<Option<Provenance>, RepoError>;

    /// Returns where a file of this name with these bytes is committed, by the commit that the sandbox's HEAD names;
    /// without bytes, a file of this name, also in the index.
    ///
    /// # Errors
    /// [`RepoError`]: the commit cannot be read.
    fn committed(
        &self,
        sandbox: &Path,
        name: &str,
        bytes: Option<&[u8]>,
    ) -> Result<Committed, RepoError>;

    /// Excludes files that match these ignore patterns from what counts as work in every sandbox of the rig: files that
    /// a harness drops or the supervisor writes for it. The patterns are stored.
    ///
    /// # Errors
    /// [`RepoError`]: the patterns cannot be written.
    fn leave_out(&self, patterns: &[String]) -> Result<(), RepoError>;

    /// Measures a sandbox now.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be judged.
    fn measure(&self, sandbox: &Path, target: &str) -> Result<Measurement, RepoError>;

    /// Measures a sandbox now and returns its facts only.
    ///
    /// # Errors
    /// As [`Repo::measure`].
    fn facts(&self, sandbox: &Path, target: &str) -> Result<GitFacts, RepoError> {
        Ok(self.measure(sandbox, target)?.facts)
    }

    /// Returns a cheap description for `status`: ahead, dirty and untracked counts. May be slightly stale.
    ///
    /// # Errors
    /// [`RepoError`].
    fn glance(&self, sandbox: &Path, target: &str) -> Result<(u64, u64, u64), RepoError>;

    /// Returns what a sandbox changes, committed or not, since it left the target.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be read.
    fn diff_of_sandbox(&self, sandbox: &Path, target: &str) -> Result<Diff, RepoError>;

    /// Returns what pushed work would change on the target as it was fetched last. Where it cannot be merged, returns what it
    /// changes since it left the target. The note of the answer says which. Nothing is fetched, and no ref is moved.
    ///
    /// # Errors
    /// [`RepoError`].
    fn diff_of_landing(&self, work: &PendingWork) -> Result<Diff, RepoError>;

    /// Sums up the changes of [`Repo::diff_of_landing`]. Takes a few seconds at most.
    ///
    /// # Errors
    /// [`RepoError`].
    fn sum_of_landing(&self, work: &PendingWork) -> Result<DiffSum, RepoError>;

    /// Returns the paths that a pushed commit changes since it left the target, as it was fetched last, old and new names of
    /// renamed files alike.
    ///
    /// # Errors
    /// [`RepoError::NotFound`] when our repository has no such commit.
    fn changed_paths(&self, head: &Oid, target: &str) -> Result<Vec<String>, RepoError>;

    /// Returns a mark that changes with HEAD, reflog and index. Reads a few files, starts no process.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be seen.
    fn progress(&self, sandbox: &Path) -> Result<String, RepoError>;

    /// Returns a mark that changes with each edit of uncommitted content. Costs a `git status`.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be seen.
    fn changes(&self, sandbox: &Path) -> Result<String, RepoError>;

    /// Pushes `head` to the remote branch and reads it back. With `expected`, the remote branch must be at that commit
    /// (lease); with none, it may be absent or an ancestor of `head`.
    ///
    /// # Errors
    /// [`RepoError`].
    fn push_branch(
        &self,
        branch: &str,
        head: &Oid,
        expected: Option<&Oid>,
    ) -> Result<(), RepoError>;

    /// Returns the present head of the branch on the remote.
    ///
    /// # Errors
    /// [`RepoError`].
    fn remote_head(&self, branch: &str) -> Result<Option<Oid>, RepoError>;

    /// Deletes the remote branch if it is still at `head`; a missing branch is fine. The local branch is deleted too
    /// when another ref reaches it.
    ///
    /// # Errors
    /// [`RepoError`].
    fn delete_branch(&self, branch: &str, head: &Oid) -> Result<(), RepoError>;

    /// Lists branches of present and past raiders that no worktree has checked out.
    ///
    /// # Errors
    /// [`RepoError`].
    fn spare_branches(&self) -> Result<Vec<BranchFacts>, RepoError>;

    /// Lists the names of all branches of present and past raiders.
    ///
    /// # Errors
    /// [`RepoError`].
    fn raider_branches(&self) -> Result<Vec<String>, RepoError>;

    /// Deletes a local branch that another ref reaches and no worktree has checked out; any other stays. Returns true
    /// when the branch is gone.
    ///
    /// # Errors
    /// [`RepoError`].
    fn drop_branch(&self, branch: &str) -> Result<bool, RepoError>;

    /// Repacks the repository when many operations have left many small parts. Deletes no object and no ref. Returns
    /// true when it did. May take long; nothing else waits for it.
    ///
    /// # Errors
    /// [`RepoError`]; the repository is unharmed.
    fn maintain(&self) -> Result<bool, RepoError>;

    /// Removes the entries of worktrees that are gone and were retired before that time, whatever they hold, and
    /// returns their number: work is kept no longer than that.
    ///
    /// # Errors
    /// [`RepoError`].
    fn expire_retired(&self, before: Timestamp) -> Result<usize, RepoError>;

    /// Removes stash entries from before that time from the list that all sandboxes share, except those of living
    /// sandboxes; returns their number.
    ///
    /// # Errors
    /// [`RepoError`].
    fn expire_stash(&self, before: Timestamp) -> Result<usize, RepoError>;

    /// Returns the stash entries that are kept without a sandbox, and that no salvage has.
    ///
    /// # Errors
    /// [`RepoError`].
    fn pinned_stashes(&self) -> Result<Vec<PinnedStashes>, RepoError>;

    /// Estimates the bytes of file content that a salvage of this sandbox would save. Writes nothing.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be measured.
    fn salvage_size(&self, sandbox: &Path) -> Result<u64, RepoError>;

    /// Writes everything the sandbox holds to `refs/horde/salvage/...` and verifies that it is
    /// readable. Changes nothing in the sandbox.
    ///
    /// # Errors
    /// [`RepoError`]; the sandbox must then be kept.
    fn salvage(
        &self,
        sandbox: &Path,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<SalvageRecord, RepoError>;

    /// Keeps a commit that no sandbox holds any more as salvage of the incarnation that made it. Idempotent: the same
    /// commit gives the same salvage.
    ///
    /// # Errors
    /// [`RepoError::NotFound`] when our repository has no such commit.
    fn salvage_head(
        &self,
        head: &Oid,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<SalvageRecord, RepoError>;

    /// Checks that git itself would accept each commit of the head that no remote has.
    ///
    /// # Errors
    /// [`RepoError::Rejected`] names the commit and its defect.
    fn fit(&self, sandbox: &Path, head: &Oid, target: &str) -> Result<(), RepoError>;

    /// Returns true when the target, a queue pin, salvage or a branch of a person on a remote reaches the commit.
    /// Remote branches of raiders do not count, for they are deleted once their work seems done.
    ///
    /// # Errors
    /// [`RepoError`].
    fn holds(&self, commit: &Oid, target: &str) -> Result<bool, RepoError>;

    /// Returns the commits that only a sandbox whose directory is gone held: the tips of its branch and of its
    /// checked-out HEAD, unless a remote, queue pin or salvage reaches them.
    ///
    /// # Errors
    /// [`RepoError`]: the commits cannot be judged.
    fn strays(&self, sandbox: &Path, branch: &str, target: &str) -> Result<Vec<Oid>, RepoError>;

    /// Returns what git still knows of a sandbox whose directory is gone, beside commits of its branch: staged content
    /// (as `dirty`), commits that only its reflog names, operations in progress, submodules. A salvage saves this, a
    /// repair makes it a sandbox again. None while the directory exists, and when git knows nothing.
    ///
    /// # Errors
    /// [`RepoError`]: the remains cannot be judged.
    fn remains(&self, sandbox: &Path, target: &str) -> Result<Option<GitFacts>, RepoError>;

    /// Returns the commits of these refs; missing refs are left out. The commits themselves may be lost.
    ///
    /// # Errors
    /// [`RepoError`].
    fn tips(&self, names: &[String]) -> Result<Vec<(String, Oid)>, RepoError>;

    /// Returns the commits of these refs that are there; missing refs and lost commits are left out.
    ///
    /// # Errors
    /// [`RepoError`].
    fn present_tips(&self, names: &[String]) -> Result<Vec<(String, Oid)>, RepoError>;

    /// Deletes these refs, all or none, each only if it still points there. A missing ref is fine.
    ///
    /// # Errors
    /// [`RepoError::Moved`] when a ref points elsewhere.
    fn delete_refs(&self, refs: &[(String, Oid)]) -> Result<(), RepoError>;

    /// Makes a worktree at `to` whose HEAD, index, dirty and untracked files are as salvaged.
    ///
    /// # Errors
    /// [`RepoError`]; `to` must not exist.
    fn restore(&self, record: &SalvageRecord, to: &Path) -> Result<(), RepoError>;

    /// Verifies the permit again against the present sandbox, renames the directory into `trash` and prunes the
    /// worktree entry. No other method removes a sandbox. Idempotent: a missing sandbox is fine. The verification may
    /// take minutes, so `still` is called after it, immediately before the rename; when `still` refuses, the sandbox
    /// stays as it is.
    ///
    /// # Errors
    /// [`RepoError::PermitStale`] when anything changed since the permit was given; the error of `still`.
    fn discard_sandbox(
        &self,
        permit: &NukePermit,
        trash: &Path,
        still: &dyn Fn() -> Result<(), RepoError>,
    ) -> Result<(), RepoError>;

    /// Finishes a removal that was interrupted after the rename: retires what `repo.git` still knows of the sandbox,
    /// and deletes the incarnation's branches that another ref reaches. Idempotent.
    ///
    /// # Errors
    /// [`RepoError::PermitStale`] when the sandbox exists: its removal takes a permit.
    fn forget_sandbox(
        &self,
        sandbox: &Path,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<(), RepoError>;

    /// Repairs the sandbox's administrative files (gitdir links, index, lock) or recreates the sandbox from its branch;
    /// content found on disk stays.
    ///
    /// # Errors
    /// [`RepoError`].
    fn repair_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError>;

    /// Points `refs/horde/mq/<mr>` at `head`, so that the commit outlives a nuke of its raider.
    ///
    /// # Errors
    /// [`RepoError`].
    fn pin(&self, mr: &RelicId, head: &Oid) -> Result<(), RepoError>;

    /// Deletes the pin. A missing pin is fine.
    ///
    /// # Errors
    /// [`RepoError`].
    fn unpin(&self, mr: &RelicId) -> Result<(), RepoError>;

    /// Makes, in memory, the commits that would land. Writes objects, moves no ref.
    ///
    /// # Errors
    /// [`RepoError`]; a conflict is an outcome, not an error.
    fn merge(&self, request: &LandRequest) -> Result<MergeOutcome, RepoError>;

    /// Checks `commit` out in the rig's gate worktree and runs one gate in it, in a process group of its own that is
    /// ended as a whole at the timeout.
    ///
    /// # Errors
    /// [`RepoError`] when the worktree could not be brought to exactly that tree.
    fn run_gate(&self, commit: &Oid, gate: &GateSpec) -> Result<GateRun, RepoError>;

    /// Ends the gate that runs now, with its process group; does nothing when none runs. Returns at once.
    fn stop_gate(&self);

    /// Checks that the checkout of a rig without a remote could move with the target: it is clean, no operation is in
    /// progress and, where `landing` (from, to) is known, no ignored or untracked file is in the way. Fine where no
    /// checkout would move.
    ///
    /// # Errors
    /// [`RepoError::CheckoutBusy`] gives the reason.
    fn checkout_free(&self, target: &str, landing: Option<(&Oid, &Oid)>) -> Result<(), RepoError>;

    /// Takes back what an interrupted landing wrote into the checkout of a rig without a remote. Cheap where there is none.
    ///
    /// # Errors
    /// [`RepoError::CheckoutBusy`] while it cannot be taken back; [`RepoError`] when the checkout cannot be read or written.
    fn recover_landing(&self) -> Result<(), RepoError>;

    /// Moves the target from `old` to `new` (lease) and reads it back. On a rig without a remote, the path's branch
    /// moves, and its checkout with it when that is free.
    ///
    /// # Errors
    /// [`RepoError::Moved`] when the target moved meanwhile; nothing landed then.
    fn land(&self, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError>;

    /// Returns true when `commit` is on the target as the remote has it now.
    ///
    /// # Errors
    /// [`RepoError`].
    fn landed(&self, target: &str, commit: &Oid) -> Result<bool, RepoError>;

    /// Returns true when `tip`, which was fetched, has `commit`. The remote is not asked.
    ///
    /// # Errors
    /// [`RepoError`].
    fn has(&self, tip: &Oid, commit: &Oid) -> Result<bool, RepoError>;

    /// Returns true when the work of `head`, whose commits `tip` has, was reverted there: to revert it once more would change
    /// nothing. The work is what `head` changed of the target before its merge; of `began`, where no merge is found. None when
    /// it cannot be told, because parts of it were changed since.
    ///
    /// # Errors
    /// [`RepoError`]: it cannot be told.
    fn is_reverted(&self, began: &Oid, head: &Oid, tip: &Oid) -> Result<Option<bool>, RepoError>;

    /// Returns true when every commit of `head` is on some remote's default branch, as ancestor or as an equal patch
    /// (`witness-patrol.md`, verifyCommitOnMain; white space counts), and was not reverted there. That is no reason to
    /// drop the commits: perhaps no ref holds them.
    ///
    /// # Errors
    /// [`RepoError`].
    fn on_main(&self, head: &Oid, target: &str) -> Result<bool, RepoError>;
}
