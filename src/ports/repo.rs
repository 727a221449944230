//! What the custody of sandboxes and the merge queue need of git.
//!
//! One [`Repo`] per rig stands for its bare `repo.git` and its remote. Every method may block and
//! is called on a blocking thread. No method destroys work except [`Repo::discard_sandbox`], which
//! wants a [`NukePermit`] and verifies it again, and [`Repo::delete_refs`], which ends a salvage.

mod error;
mod gate;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::ailment::Ailment;
use crate::domain::doctor::BranchFacts;
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId, SlotName};
use crate::domain::ignored::Ignored;
use crate::domain::merge::{LandStyle, MergeOutcome};
use crate::domain::nuke::NukePermit;
use crate::domain::saved_work::SavedWork;

pub use self::error::{RepoError, is_no_room};
pub use self::gate::{GateRun, GateSpec};

/// What to make a sandbox from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Whose it is.
    pub raider: RaiderId,
    /// The relic it works on (names the task directory).
    pub relic: RelicId,
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// The new branch.
    pub branch: String,
    /// Where the branch starts.
    pub base: Oid,
    /// The sandbox's directory.
    pub path: PathBuf,
    /// The task directory, `.horde/tasks/<rig>/<relic>/<incarnation>`, holding `TASK.md` and
    /// `outcome`, which are linked into the sandbox and excluded from git.
    pub task_dir: PathBuf,
    /// Untracked files copied from the rig's checkout (relative paths).
    pub copy: Vec<String>,
}

/// What one measurement of a sandbox shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// What a removal is decided by.
    pub facts: GitFacts,
    /// Files that ignore rules hide and salvage does not keep, nor tools make again. They are no part of the
    /// facts: whatever becomes of them makes no permit stale.
    pub ignored: Ignored,
}

/// Whose a sandbox is, as can be told from itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Which incarnation's.
    pub incarnation: Incarnation,
    /// What it was made to work on.
    pub relic: RelicId,
    /// The branch that it was made with.
    pub branch: String,
    /// Where the branch started, or is, where that is not known.
    pub base: Oid,
    /// When it was made.
    pub made: Timestamp,
}

/// Where salvage went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SalvageRecord {
    /// `<rig>-<raider>-<incarnation>` plus `.n` for a second one of the same incarnation.
    pub id: String,
    /// Refs written, full names, in `repo.git`.
    pub refs: Vec<String>,
    /// Bytes of file content that only salvage holds.
    pub bytes: u64,
    /// Ignored paths that were not salvaged, at most a few hundred.
    pub ignored: Vec<String>,
    /// The work of the attempt, as commits.
    #[serde(default)]
    pub work: SavedWork,
    /// Fingerprint of the state that was written, as [`GitFacts`] has it; none where a commit alone was kept,
    /// or it is not known any more.
    #[serde(default)]
    pub fingerprint: Option<String>,
}

/// A remote's name, its URL and where its target branch is, as last fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetState {
    /// The target branch's commit.
    pub tip: Oid,
    /// Its tree.
    pub tree: Oid,
}

/// One commit to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandRequest {
    /// The head of the work.
    pub head: Oid,
    /// The tips of the target that the work, and earlier attempts at it, were begun on. What these reach and the target
    /// does not was taken off the target by a force-push since, and does not come back with the work.
    pub began: Vec<Oid>,
    /// The commit to land on.
    pub onto: Oid,
    /// Rebase, squash or merge.
    pub style: LandStyle,
    /// Subject line for squash and merge commits.
    pub title: String,
    /// Trailers added to the landed commit, `Key: value`.
    pub trailers: Vec<String>,
    /// Committer of the landed commits.
    pub committer: Signature,
}

/// A name and an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name.
    pub name: String,
    /// E-mail address.
    pub email: String,
}

/// git, as one rig needs it (`3-architecture.md`, 3.4).
pub trait Repo: Send + Sync {
    /// Makes `repo.git` if it is not there, takes over remotes and settings from the rig's path,
    /// and says what this repository cannot do. Idempotent; run at start and on reload.
    ///
    /// # Errors
    /// [`RepoError`]: the rig cannot be worked on, and why.
    fn prepare(&self) -> Result<(), RepoError>;

    /// Why nothing can be done with it: it has never been made ready, and the last attempt failed.
    fn held(&self) -> Option<String>;

    /// Says what of its repositories was removed or damaged and is whole again, since this was last asked, in whole
    /// sentences without a full stop.
    fn take_mended(&self) -> Vec<String> {
        Vec::new()
    }

    /// Which git it is that works here: what `git version` prints.
    ///
    /// # Errors
    /// [`RepoError`]: it cannot be run.
    fn program(&self) -> Result<String, RepoError>;

    /// The default branch, discovered from `origin/HEAD` or the path's HEAD.
    ///
    /// # Errors
    /// [`RepoError`].
    fn default_branch(&self) -> Result<String, RepoError>;

    /// `user.email` of the rig's repository, where it has one.
    fn user_email(&self) -> Option<String>;

    /// Fetches the branch from the remote and says where it is.
    ///
    /// # Errors
    /// [`RepoError`].
    fn fetch_target(&self, branch: &str) -> Result<TargetState, RepoError>;

    /// Fetches a pushed branch; none when the remote has no such branch.
    ///
    /// # Errors
    /// [`RepoError`].
    fn fetch_branch(&self, branch: &str) -> Result<Option<Oid>, RepoError>;

    /// Makes the sandbox: worktree on a new branch, links, excludes, copies, refreshed index.
    /// Idempotent for the same spec: a half-made sandbox of the same incarnation is completed.
    /// Where the branch already exists, its commits are kept.
    ///
    /// # Errors
    /// [`RepoError`].
    fn make_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError>;

    /// The sandboxes on the file system: slot name and directory. Discovery, never a stored list.
    ///
    /// # Errors
    /// [`RepoError`].
    fn sandboxes(&self) -> Result<Vec<(SlotName, PathBuf)>, RepoError>;

    /// Whether work can go on in the sandbox, judged by its administrative files alone: cheap, no
    /// subprocess. A lock on it is no ailment.
    ///
    /// # Errors
    /// [`RepoError`]: it cannot be seen.
    fn ailment(&self, sandbox: &Path) -> Result<Option<Ailment>, RepoError>;

    /// Whose the sandbox is, where no hook says it: as noted when it was made, else by its branch. None
    /// when nothing tells.
    ///
    /// # Errors
    /// [`RepoError`]: it cannot be seen.
    fn provenance(&self, sandbox: &Path) -> Result<Option<Provenance>, RepoError>;

    /// Whether a commit has these bytes under that name: the one that the sandbox's HEAD names.
    ///
    /// # Errors
    /// [`RepoError`]: it cannot be told.
    fn has_committed(&self, sandbox: &Path, name: &str, bytes: &[u8]) -> Result<bool, RepoError>;

    /// Leaves files that match these ignore patterns out of what every sandbox of the rig holds as work: what a harness
    /// drops, and what the supervisor writes for it. They are remembered.
    ///
    /// # Errors
    /// [`RepoError`]: it cannot be written down.
    fn leave_out(&self, patterns: &[String]) -> Result<(), RepoError>;

    /// Measures a sandbox now.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be judged.
    fn measure(&self, sandbox: &Path, target: &str) -> Result<Measurement, RepoError>;

    /// Measures a sandbox now, for its facts alone.
    ///
    /// # Errors
    /// As [`Repo::measure`].
    fn facts(&self, sandbox: &Path, target: &str) -> Result<GitFacts, RepoError> {
        Ok(self.measure(sandbox, target)?.facts)
    }

    /// A cheap description for `status`: ahead, dirty and untracked counts. May be a little old.
    ///
    /// # Errors
    /// [`RepoError`].
    fn glance(&self, sandbox: &Path, target: &str) -> Result<(u64, u64, u64), RepoError>;

    /// A mark of HEAD, reflog and index that changes with them. A few looks at files, no process.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be seen.
    fn progress(&self, sandbox: &Path) -> Result<String, RepoError>;

    /// A mark of what is in no commit that changes with each edit of it. Costs a `git status`.
    ///
    /// # Errors
    /// [`RepoError`]: the sandbox cannot be seen.
    fn changes(&self, sandbox: &Path) -> Result<String, RepoError>;

    /// Pushes `head` to the remote branch and reads it back. With `expected`, the remote branch
    /// must be there (lease); none means it may be absent or an ancestor of `head`.
    ///
    /// # Errors
    /// [`RepoError`].
    fn push_branch(
        &self,
        branch: &str,
        head: &Oid,
        expected: Option<&Oid>,
    ) -> Result<(), RepoError>;

    /// Where the remote has the branch now.
    ///
    /// # Errors
    /// [`RepoError`].
    fn remote_head(&self, branch: &str) -> Result<Option<Oid>, RepoError>;

    /// Deletes the remote branch if it is still at `head`; gone already is fine. The local branch
    /// goes too when another ref reaches it.
    ///
    /// # Errors
    /// [`RepoError`].
    fn delete_branch(&self, branch: &str, head: &Oid) -> Result<(), RepoError>;

    /// Branches of raiders, present and past, that no worktree has checked out.
    ///
    /// # Errors
    /// [`RepoError`].
    fn spare_branches(&self) -> Result<Vec<BranchFacts>, RepoError>;

    /// Deletes a local branch that another ref reaches and no worktree has checked out; any other
    /// stays. True when it is gone.
    ///
    /// # Errors
    /// [`RepoError`].
    fn drop_branch(&self, branch: &str) -> Result<bool, RepoError>;

    /// Joins what many operations have left in many parts, where there is much of it. No object and no ref goes.
    /// Returns whether it did. It may take long, and nothing else waits for it.
    ///
    /// # Errors
    /// [`RepoError`]; the repository is as good as before.
    fn maintain(&self) -> Result<bool, RepoError>;

    /// Removes what was set aside of worktrees that are gone, where nothing was under way or staged and refs
    /// hold all that it names; says how many. The rest stays: it may be the last to hold some work.
    ///
    /// # Errors
    /// [`RepoError`].
    fn drop_retired(&self) -> Result<usize, RepoError>;

    /// Removes what was set aside of worktrees before that time, whatever it holds, and says how many. Work is
    /// kept no longer than that.
    ///
    /// # Errors
    /// [`RepoError`].
    fn expire_retired(&self, before: Timestamp) -> Result<usize, RepoError>;

    /// Takes the stash entries from before that time out of the list that all sandboxes share, but those of
    /// living sandboxes; says how many.
    ///
    /// # Errors
    /// [`RepoError`].
    fn expire_stash(&self, before: Timestamp) -> Result<usize, RepoError>;

    /// How many bytes of file content salvage of this sandbox would save, about; nothing is written.
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

    /// Keeps a commit that no sandbox holds any more as salvage of the incarnation that made it. The
    /// same one again is the same salvage.
    ///
    /// # Errors
    /// [`RepoError::NotFound`] when `repo.git` has no such commit.
    fn salvage_head(
        &self,
        head: &Oid,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<SalvageRecord, RepoError>;

    /// Checks that the commits of a sandbox's head that no remote has are ones that git itself would make.
    ///
    /// # Errors
    /// [`RepoError::Rejected`] says which commit has what.
    fn fit(&self, sandbox: &Path, head: &Oid, target: &str) -> Result<(), RepoError>;

    /// Whether the target, a queue pin, salvage or somebody's branch on a remote reaches the commit. Those
    /// of raiders are deleted there once somebody thinks that they are done with.
    ///
    /// # Errors
    /// [`RepoError`].
    fn holds(&self, commit: &Oid, target: &str) -> Result<bool, RepoError>;

    /// What a sandbox whose directory is gone had committed and nothing else holds: the tips of its
    /// branch and of what was checked out, as far as no remote, queue pin or salvage reaches them.
    ///
    /// # Errors
    /// [`RepoError`]: it cannot be judged.
    fn strays(&self, sandbox: &Path, branch: &str, target: &str) -> Result<Vec<Oid>, RepoError>;

    /// What git still knows of a sandbox whose directory is gone, beside commits of its branch: what was
    /// staged (as `dirty`), commits that only its reflog names, operations in progress, submodules. A
    /// salvage saves it, a repair makes it a sandbox again. None while the directory is there, and where
    /// git knows of nothing.
    ///
    /// # Errors
    /// [`RepoError`]: it cannot be judged.
    fn remains(&self, sandbox: &Path, target: &str) -> Result<Option<GitFacts>, RepoError>;

    /// Where these refs point; those that are gone are left out.
    ///
    /// # Errors
    /// [`RepoError`].
    fn tips(&self, names: &[String]) -> Result<Vec<(String, Oid)>, RepoError>;

    /// Deletes these refs, all or none, each only if it still points there. Gone already is fine.
    ///
    /// # Errors
    /// [`RepoError::Moved`] when one points elsewhere.
    fn delete_refs(&self, refs: &[(String, Oid)]) -> Result<(), RepoError>;

    /// Makes a worktree at `to` whose HEAD, index, dirty and untracked files are as salvaged.
    ///
    /// # Errors
    /// [`RepoError`]; `to` must not exist.
    fn restore(&self, record: &SalvageRecord, to: &Path) -> Result<(), RepoError>;

    /// Re-verifies the permit against the sandbox as it is now, renames the directory into
    /// `trash` and prunes the worktree entry. The only way a sandbox goes. Idempotent: a
    /// sandbox that is gone already is fine. To verify it may take minutes: `still` is asked behind that,
    /// immediately before the rename, and what it refuses stays as it is.
    ///
    /// # Errors
    /// [`RepoError::PermitStale`] when anything changed since the permit was given; what `still` says.
    fn discard_sandbox(
        &self,
        permit: &NukePermit,
        trash: &Path,
        still: &dyn Fn() -> Result<(), RepoError>,
    ) -> Result<(), RepoError>;

    /// Finishes a removal that was interrupted behind the rename: sets what `repo.git` still knows
    /// of the sandbox aside, and drops the incarnation's branches where another ref reaches them.
    /// Nothing to finish is fine.
    ///
    /// # Errors
    /// [`RepoError::PermitStale`] when the sandbox is there: that takes a permit.
    fn forget_sandbox(
        &self,
        sandbox: &Path,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<(), RepoError>;

    /// Makes the sandbox's administrative files whole again (gitdir links, index, lock) or
    /// recreates it from its branch; content found on disk stays.
    ///
    /// # Errors
    /// [`RepoError`].
    fn repair_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError>;

    /// Points `refs/horde/mq/<mr>` at `head`, so that no nuke takes it out of the queue.
    ///
    /// # Errors
    /// [`RepoError`].
    fn pin(&self, mr: &RelicId, head: &Oid) -> Result<(), RepoError>;

    /// Drops the pin. Gone already is fine.
    ///
    /// # Errors
    /// [`RepoError`].
    fn unpin(&self, mr: &RelicId) -> Result<(), RepoError>;

    /// Makes, in memory, the commits that would land. Writes objects, moves no ref.
    ///
    /// # Errors
    /// [`RepoError`]; a conflict is an outcome, not an error.
    fn merge(&self, request: &LandRequest) -> Result<MergeOutcome, RepoError>;

    /// Checks `commit` out in the rig's gate worktree and runs one gate in it: own process group,
    /// ended as a whole at the timeout.
    ///
    /// # Errors
    /// [`RepoError`] when the worktree could not be brought to exactly that tree.
    fn run_gate(&self, commit: &Oid, gate: &GateSpec) -> Result<GateRun, RepoError>;

    /// Looks whether the checkout of a rig without a remote could move with the target: it is clean, in
    /// the middle of nothing and, where it is known what lands (from, to), no ignored or untracked file is
    /// in the way. Fine where no checkout would move.
    ///
    /// # Errors
    /// [`RepoError::CheckoutBusy`] says why not.
    fn checkout_free(&self, target: &str, landing: Option<(&Oid, &Oid)>) -> Result<(), RepoError>;

    /// Moves the target from `old` to `new` (lease) and reads it back. On a rig without a remote
    /// the path's branch moves, and its checkout with it when that is free.
    ///
    /// # Errors
    /// [`RepoError::Moved`] when somebody else pushed; nothing landed then.
    fn land(&self, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError>;

    /// Whether `commit` is on the target as the remote has it now.
    ///
    /// # Errors
    /// [`RepoError`].
    fn landed(&self, target: &str, commit: &Oid) -> Result<bool, RepoError>;

    /// Whether every commit of `head` is on some remote's default branch, as ancestor or as an
    /// equal patch (`witness-patrol.md`, verifyCommitOnMain), white space included, and was not taken
    /// back there. Commits of which this is said may still be held by nothing: it is no reason to let
    /// them go.
    ///
    /// # Errors
    /// [`RepoError`].
    fn on_main(&self, head: &Oid, target: &str) -> Result<bool, RepoError>;
}
