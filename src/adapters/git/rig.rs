//! The git adapter of a rig: its two repositories, its sandboxes and its remote.
//!
//! ```text
//!   ours    .horde/custody/<rig>.git   written by the supervisor only; decides
//!   theirs  <rig>/repo.git             branches and worktrees of raiders; read, never believed,
//!                                      and git never runs with its configuration
//! ```

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::admin::failed;
use super::command::Git;
use super::files::compare::{Tree, tree};
use super::files::recent::Recent;
use super::gate::RunningGate;
use super::prepare::MOVING;
use super::rig_dirs::RigDir;
use super::stash_watch::StashWatch;
use super::theirs::LoggedRefs;
use super::{checkouts, names_in_git, settings};
use crate::domain::city::RigSource;
use crate::domain::ids::{Oid, RigName};
use crate::ports::repo::RepoError;

/// Config key of ours that holds the URL the supervisor pushes to.
pub(super) const PUSH_URL_KEY: &str = "horde.pushUrl";

/// The settings of a [`GitRepo`]. Every path is absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitRig {
    /// The rig.
    pub name: RigName,
    /// Its checkout or its URL.
    pub source: RigSource,
    /// `<city>/.horde/custody/<rig>.git`, the supervisor's own repository.
    pub ours: PathBuf,
    /// `<city>/<rig>/repo.git`, the repository that agents write to.
    pub theirs: PathBuf,
    /// `<city>/<rig>/raiders`.
    pub raiders_dir: PathBuf,
    /// `<city>/<rig>/forge`, the gate worktree's parent.
    pub forge_dir: PathBuf,
    /// Set when landing pushes; otherwise it moves the target in ours only.
    pub push: bool,
}

/// git for one rig: the real [`Repo`](crate::ports::repo::Repo).
#[derive(Debug)]
pub struct GitRepo {
    rig: GitRig,
    /// `<city>/<rig>`.
    dir: RigDir,
    pub(super) state: State,
    /// Cache of recent listings.
    pub(super) recent: Recent,
}

/// The locks of a rig, and what was found out about it.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Serialises git's worktree commands: git's own locks race when worktrees are added, moved, pruned or repaired at
    /// the same time.
    pub(super) worktrees: Mutex<()>,
    /// Serialises the preparation, including its fetch.
    pub(super) preparing: Mutex<()>,
    /// Serialises the repair of theirs: two repairs of the same damage would undo each other's work.
    pub(super) healing: Mutex<()>,
    /// Cache of `user.email` of the repository; cleared when the settings are taken over again.
    email: Mutex<Option<Option<String>>>,
    /// Cache of the file with the user's ignore rules.
    excludes: Mutex<Option<Option<PathBuf>>>,
    /// Set once the remains of killed attempts were cleared, which must happen before the first use.
    cleared: AtomicBool,
    /// Unreadable refs and failed repairs of theirs that were logged.
    pub(super) logged: LoggedRefs,
    /// Cache of the object format: `sha1` or `sha256`.
    format: OnceLock<String>,
    /// A stamp of the configuration of theirs when it was last found usable, held during a check.
    pub(super) config_seen: Mutex<Option<String>>,
    /// A stamp of the packed refs of theirs when they were last found readable for git, held during a check.
    pub(super) packed_seen: Mutex<Option<String>>,
    /// Stamps of the packed refs of theirs when the branch of a sandbox was last among them, by sandbox.
    pub(super) branches_seen: Mutex<HashMap<PathBuf, String>>,
    /// By the name of an outcome file: the last search of all history for it.
    pub(super) names_in_git: Mutex<HashMap<String, Arc<names_in_git::Search>>>,
    /// A stamp of the list of stash entries when they were last pinned.
    pub(super) stash_seen: Mutex<Option<String>>,
    /// The last attempt to pin the entries that left some, held while one runs.
    pub(super) stash_attempt: Mutex<Option<super::stash::Attempt>>,
    /// Stash entries that were damaged when they were to be copied.
    pub(super) stash_spoilt: Mutex<BTreeSet<Oid>>,
    /// The watch of the list of stash entries.
    pub(super) stash_watch: StashWatch,
    /// The pre-push hook that people were told of last, because it does not run.
    pub(super) hook_left_out: Mutex<Option<PathBuf>>,
    /// The switch that ends the gate under way.
    pub(super) running_gate: RunningGate,
    /// A reference to the repository itself, for work in the background; none if it is not shared.
    pub(super) me: Weak<GitRepo>,
    prepared: Mutex<Prepared>,
    /// Repairs since they were last taken, for people.
    mended: Mutex<Vec<String>>,
}

/// Locks a mutex. The guarded state lies in git's files, or every change of it is one assignment: a panic elsewhere
/// breaks nothing here.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outcome of the attempts to prepare the repository.
#[derive(Debug, Default)]
enum Prepared {
    #[default]
    NotTried,
    /// The first attempt is under way.
    Begun,
    /// The reason why the last attempt failed, and none succeeded; or why it cannot be used since.
    Failed(String),
    Once,
}

impl Drop for GitRepo {
    fn drop(&mut self) {
        if let Some(checkout) = self.rig.source.path() {
            checkouts::forget(checkout);
        }
    }
}

impl GitRepo {
    /// Makes the rig's git. Reads what was kept of its checkout, with a limit, and touches nothing else until
    /// [`Repo::prepare`](crate::ports::repo::Repo::prepare).
    #[must_use]
    pub fn new(rig: GitRig) -> Self {
        if let Some(checkout) = rig.source.path() {
            checkouts::note(checkout, &rig.ours);
        }
        let dir = rig.theirs.parent().unwrap_or(Path::new("/")).to_owned();
        Self {
            rig,
            dir: RigDir::note(dir),
            state: State::default(),
            recent: Recent::default(),
        }
    }

    /// Makes a rig's git that also pins stash entries as they are made.
    #[must_use]
    pub fn watched(rig: GitRig) -> Arc<Self> {
        Arc::new_cyclic(|me| {
            let mut repo = Self::new(rig);
            repo.state.me = Weak::clone(me);
            repo
        })
    }

    /// The rig's name.
    #[must_use]
    pub fn name(&self) -> &RigName {
        &self.rig.name
    }

    /// Remembers a repair, to tell people. The list is bounded, because an agent can cause repairs as often as it
    /// likes.
    pub(super) fn mended(&self, what: String) {
        const MOST: usize = 20;
        let mut mended = locked(&self.state.mended);
        if mended.len() < MOST && !mended.contains(&what) {
            mended.push(what);
        }
    }

    /// Returns the remembered repairs and clears the list.
    pub(super) fn take_mended(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.state.mended))
    }

    /// Returns `user.email` as taken over from the rig's checkout, or the user's own.
    pub(super) fn email(&self) -> Option<String> {
        let read = || {
            let git = settings::as_user(Git::in_dir(self.repo_dir()), self.repo_dir());
            let output = git.args(["config", "user.email"]).run().ok()?;
            Some(output.text()).filter(|email| !email.is_empty())
        };
        let mut known = locked(&self.state.email);
        known.get_or_insert_with(read).clone()
    }

    /// Returns the object format: `sha1` or `sha256`.
    pub(super) fn object_format(&self) -> Result<&str, RepoError> {
        if let Some(format) = self.state.format.get() {
            return Ok(format);
        }
        // libgit2 opens no other.
        let format = match self.known() {
            Some(_) => "sha1".to_owned(),
            None => {
                let asked = self.git().args(["rev-parse", "--show-object-format"]);
                asked.run()?.text()
            }
        };
        Ok(self.state.format.get_or_init(|| format))
    }

    /// Clears the cache of the user's own configuration.
    pub(super) fn forget_user(&self) {
        *locked(&self.state.email) = None;
        *locked(&self.state.excludes) = None;
    }

    /// Returns the file with the user's own ignore rules.
    pub(super) fn user_excludes(&self) -> Option<PathBuf> {
        let read = || {
            let asked = self.git_at_remote();
            let asked = asked.args(["config", "--type=path", "--get", "core.excludesFile"]);
            let named = asked.output().ok()?;
            if named.ok() {
                // An empty value names no file.
                return Some(PathBuf::from(named.text()))
                    .filter(|file| !file.as_os_str().is_empty());
            }
            let home = std::env::var_os("HOME").map(PathBuf::from);
            let config = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty());
            let config = config
                .map(PathBuf::from)
                .or(home.map(|home| home.join(".config")));
            config.map(|config| config.join("git").join("ignore"))
        };
        let mut known = locked(&self.state.excludes);
        known.get_or_insert_with(read).clone()
    }

    /// The rig's checkout or URL.
    #[must_use]
    pub fn source(&self) -> &RigSource {
        &self.rig.source
    }

    /// Returns the directory of the supervisor's state, `<city>/.horde`.
    pub(super) fn state_dir(&self) -> &Path {
        // `<city>/.horde/custody/<rig>.git`
        let state = self.repo_dir().ancestors().nth(2);
        state.unwrap_or(Path::new("/"))
    }

    /// Ours: `<city>/.horde/custody/<rig>.git`.
    #[must_use]
    pub fn repo_dir(&self) -> &Path {
        &self.rig.ours
    }

    /// Theirs: `<city>/<rig>/repo.git`.
    #[must_use]
    pub fn theirs(&self) -> &Path {
        &self.rig.theirs
    }

    /// `<city>/<rig>`.
    pub(super) fn rig_dir(&self) -> &Path {
        self.dir.path()
    }

    /// `<city>/<rig>/raiders`.
    #[must_use]
    pub fn raiders_dir(&self) -> &Path {
        &self.rig.raiders_dir
    }

    /// `<city>/<rig>/forge`.
    #[must_use]
    pub fn forge_dir(&self) -> &Path {
        &self.rig.forge_dir
    }

    /// Returns true if landing pushes.
    #[must_use]
    pub fn pushes(&self) -> bool {
        self.rig.push
    }

    /// Returns a `git` command that runs in ours.
    #[must_use]
    pub fn git(&self) -> Git {
        Git::in_dir(&self.rig.ours)
            .heals(&self.rig.ours)
            .besides(settings::of_user_file(&self.rig.ours))
    }

    /// Returns a `git` command that runs in ours and talks to a remote: with the user's present settings, and with the addresses
    /// that were taken over.
    pub(super) fn git_at_remote(&self) -> Git {
        settings::as_user(self.git(), &self.rig.ours)
    }

    /// Returns the files of a commit of ours.
    pub(super) fn files_of(&self, commit: &Oid) -> Result<Arc<Tree>, RepoError> {
        let list = || tree(self.git(), commit, b"");
        self.recent.trees.get_or(commit.clone(), list)
    }

    /// Returns the path of theirs, for writing. A link in its place is refused: it may lead to a repository of a
    /// person.
    ///
    /// # Errors
    /// [`RepoError::Failed`] if it is not a directory.
    pub(super) fn own_theirs(&self) -> Result<&Path, RepoError> {
        let theirs = self.theirs();
        match std::fs::symlink_metadata(theirs) {
            Ok(found) if found.is_dir() => Ok(theirs),
            Ok(_) => Err(RepoError::Failed(format!(
                "{} is not a directory: the repository of the agents was replaced",
                theirs.display()
            ))),
            Err(error) => Err(failed("cannot inspect", theirs, &error)),
        }
    }

    /// Returns true on the first call only.
    pub(super) fn first_time(&self) -> bool {
        !self.state.cleared.swap(true, Ordering::Relaxed)
    }

    /// Notes that the first attempt to prepare is under way: until it ends, the repository cannot be used.
    pub(super) fn begin_preparing(&self) {
        let mut now = locked(&self.state.prepared);
        if matches!(*now, Prepared::NotTried) {
            *now = Prepared::Begun;
        }
    }

    /// Records the outcome of an attempt to prepare. A failure after a success does not count: the repository stays
    /// prepared, but for one with the refs of a former origin.
    pub(super) fn set_prepared(&self, outcome: &Result<(), RepoError>) {
        let mut now = locked(&self.state.prepared);
        match (outcome, &*now) {
            (Ok(()), _) => *now = Prepared::Once,
            (Err(_), Prepared::Once) if !self.repo_dir().join(MOVING).exists() => {}
            (Err(why), _) => *now = Prepared::Failed(why.to_string()),
        }
    }

    /// Returns true if the repository was prepared, and was not found missing since.
    pub(super) fn is_prepared(&self) -> bool {
        matches!(*locked(&self.state.prepared), Prepared::Once)
    }

    /// Records that a prepared repository cannot be used any more, until it is prepared again.
    pub(super) fn set_unprepared(&self, why: String) {
        *locked(&self.state.prepared) = Prepared::Failed(why);
    }

    /// Returns the reason why the repository is not prepared, if that was tried.
    pub(super) fn unprepared(&self) -> Option<String> {
        let now = locked(&self.state.prepared);
        match &*now {
            Prepared::Failed(why) => Some(why.clone()),
            Prepared::Begun => Some("its repository is still being prepared".to_owned()),
            Prepared::NotTried | Prepared::Once => None,
        }
    }

    /// The URL that the supervisor pushes to.
    ///
    /// # Errors
    /// [`RepoError::Failed`] when ours was not prepared.
    pub fn push_url(&self) -> Result<String, RepoError> {
        self.setting(PUSH_URL_KEY)
    }

    /// The final URL of a remote. Commands name it, and not the remote: the user may have another URL for that.
    ///
    /// # Errors
    /// As [`GitRepo::push_url`].
    pub(super) fn url_of(&self, remote: &str) -> Result<String, RepoError> {
        match remote {
            "origin" => self.push_url(),
            other => self.setting(&format!("remote.{other}.url")),
        }
    }

    fn setting(&self, key: &str) -> Result<String, RepoError> {
        if let Some(value) = self.known().and_then(|known| known.setting(key)) {
            return Ok(value);
        }
        let git = self.git().args(["config", "--local", "--get", key]);
        let output = git.output()?;
        if output.ok() && !output.stdout.is_empty() {
            return Ok(output.text());
        }
        Err(RepoError::Failed(format!(
            "{} has no {key}: the rig was not prepared",
            self.rig.ours.display()
        )))
    }

    /// Returns the checkout that is this rig's origin if the rig has no other remote: landing moves the checkout's
    /// branch.
    ///
    /// # Errors
    /// As [`GitRepo::push_url`].
    pub fn own_origin(&self) -> Result<Option<&Path>, RepoError> {
        let Some(path) = self.rig.source.path() else {
            return Ok(None);
        };
        let url = self.push_url()?;
        Ok((Path::new(&url) == path).then_some(path))
    }

    /// Returns the last known commit of the target: the remote-tracking ref or, without pushing, the branch of ours
    /// (the remote-tracking ref until something landed).
    ///
    /// # Errors
    /// [`RepoError::Failed`] when git cannot tell.
    pub fn target_tip(&self, target: &str) -> Result<Option<Oid>, RepoError> {
        if !self.rig.push
            && let Some(tip) = self.resolve(&format!("refs/heads/{target}"))?
        {
            return Ok(Some(tip));
        }
        self.resolve(&format!("refs/remotes/origin/{target}"))
    }

    /// Returns the commit that a full ref name of ours names; none if there is no such ref.
    ///
    /// # Errors
    /// [`RepoError::Failed`] when git cannot tell.
    pub fn resolve(&self, name: &str) -> Result<Option<Oid>, RepoError> {
        match self.known().and_then(|known| known.commit(name)) {
            Some(commit) => Ok(Some(commit)),
            None => resolve(self.git(), name),
        }
    }
}

/// Resolves a full ref name, or any revision, to a commit.
pub(super) fn resolve(git: Git, name: &str) -> Result<Option<Oid>, RepoError> {
    let output = git
        .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
        .arg(format!("{name}^{{commit}}"))
        .output()?;
    match output.code {
        Some(0) => oid(&output.text()).map(Some),
        Some(1) => Ok(None),
        _ => Err(RepoError::Failed(format!(
            "{name} cannot be resolved: {}",
            output.stderr.trim()
        ))),
    }
}

/// Parses an object id from git's output.
pub(super) fn oid(text: &str) -> Result<Oid, RepoError> {
    Oid::new(text.trim()).map_err(|error| RepoError::Failed(format!("git answered: {error}")))
}
