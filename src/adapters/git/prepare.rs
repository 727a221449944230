//! Makes a rig's two repositories from its checkout or URL, and refreshes their settings. The user's checkout is only
//! read.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::admin::{self, At, failed, read_if_there, remove_if_there, write_whole};
use super::command::Git;
use super::fetch::{fetch_all, network, remote_head};
use super::rig::{GitRepo, locked};
use super::settings;
use super::settings_read::{Checkout, Top};
use super::{
    checkout, checkouts, custody, discard, gate, injected_files, moved, places, share,
    share_integrity,
};
use crate::adapters::city_root;
use crate::adapters::mounts;
use crate::domain::city::RigSource;
use crate::domain::doctor::local;
use crate::domain::url_text::without_passwords;
use crate::ports::repo::RepoError;

/// A mark that exists once the first fetch is done.
pub(super) const READY: &str = "horde.ready";
/// A mark that exists while the refs of a former origin are in ours: what only that one had is no work that is safe.
pub(super) const MOVING: &str = "horde.moving";
/// A mark that exists once theirs was made to borrow from ours.
const LENT: &str = "horde.adopted";

/// The refs of salvages in a repository that was the only one of its rig.
const OLD_SALVAGES: &str = "refs/horde/salvage/";

/// Variables with settings for every git below a shell.
const SETTINGS_IN_ENV: [&str; 2] = ["GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"];

/// Returns true if theirs borrows from ours, or would if no agent had undone it.
pub(super) fn is_lent(repo: &GitRepo) -> bool {
    repo.repo_dir().join(LENT).exists()
}

/// Returns the version that the git program reports.
pub(super) fn version() -> Result<String, RepoError> {
    Ok(Git::in_dir(Path::new("/")).arg("version").run()?.text())
}

/// Refuses a git that is too old. A good answer holds for as long as the process runs.
fn check_version() -> Result<(), RepoError> {
    static IS_FINE: AtomicBool = AtomicBool::new(false);
    if !IS_FINE.load(Ordering::Relaxed) {
        local::git_version(&version()?).map_err(RepoError::Failed)?;
        tell_of_environment();
        IS_FINE.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Tells of settings in the environment of the supervisor, which are not for the repositories of agents.
fn tell_of_environment() {
    let mut names = SETTINGS_IN_ENV.iter();
    if let Some(name) = names.find(|name| std::env::var_os(name).is_some()) {
        tracing::warn!(
            name,
            "the environment of the supervisor has settings for git; git below the supervisor does not get them (write them into ~/.gitconfig)"
        );
    }
}

/// Makes or refreshes both repositories.
pub(super) fn prepare(repo: &GitRepo) -> Result<(), RepoError> {
    let _alone = locked(&repo.state.preparing);
    custody::expect(repo)?;
    check_version()?;
    let persons = match repo.source() {
        RigSource::Path(path) => Some(inspect(path, repo.rig_dir())?),
        RigSource::Remote(_) => None,
    };
    if let Err(why) = checkout::recover(repo) {
        tracing::warn!(rig = %repo.name(), %why, "a landing that was interrupted cannot be taken back now; the next landing tries again");
    }
    let serial = locked(&repo.state.worktrees);
    discard::put_all_back(repo);
    init(repo, persons.as_ref())?;
    {
        // A repair of theirs may make it as well.
        let _healing = locked(&repo.state.healing);
        share::init(repo)?;
    }
    // Before anything is written there.
    share_integrity::heal(repo);
    if let Err(error) = admin::unlock_leftovers(repo) {
        tracing::warn!(rig = %repo.name(), %error, "half-made worktrees could not be unlocked; the next preparation of the rig tries again");
    }
    settings::take_over(repo, persons.as_ref())?;
    let moving = repo.repo_dir().join(MOVING);
    repo.forget_user();
    take_attributes(repo, persons.as_ref())?;
    injected_files::exclude(repo, injected_files::EXCLUDED)?;
    if repo.first_time() {
        clear_scratch(repo)?;
        if let Err(error) = gate::end_leftovers(repo) {
            tracing::warn!(rig = %repo.name(), %error, "processes of an earlier gate could not be ended; the next gate tries again");
        }
    }
    let mark = repo.repo_dir().join(READY);
    let ready = mark.exists();
    if !is_lent(repo) {
        // If theirs borrows from ours, and ours is new, ours was removed.
        if share::borrows(repo) {
            let lost = repo.repo_dir().display();
            repo.mended(format!(
                "the supervisor's own repository of the rig, {lost}, was lost, \
            and was made again from its remote, as a person wanted: its salvages are lost"
            ));
        }
        tell_of_old_salvages(repo)?;
        write_whole(&repo.repo_dir().join(LENT), b"")?;
    }
    custody::remember(repo)?;
    places::note(repo)?;
    share::lend(repo)?;
    moved::follow(repo)?;
    // A fetch may take long, and nothing else must wait for it.
    drop(serial);
    if !ready || moving.exists() {
        fetch_all(repo, persons.as_ref(), moving.exists())?;
        let head = remote_head(repo, persons.as_ref())?;
        if let Some(head) = head {
            let head = format!("refs/remotes/origin/{head}");
            repo.git()
                .args(["symbolic-ref", "refs/remotes/origin/HEAD", &head])
                .run()?;
        }
        share::publish_all(repo);
        write_whole(&mark, b"")?;
        remove_if_there(&moving)?;
    }
    custody::remember_fetched(repo)
}

/// Tells people of salvages in theirs, where a supervisor with one repository for each rig kept them. They are not
/// taken over: agents could have written these refs.
fn tell_of_old_salvages(repo: &GitRepo) -> Result<(), RepoError> {
    let found = repo.their_refs().list(OLD_SALVAGES)?;
    if !found.is_empty() {
        let (count, dir) = (found.len(), repo.theirs().display());
        repo.mended(format!(
            "{dir} has {count} refs of salvages of an earlier version below {OLD_SALVAGES}: they are neither listed nor \
            restored, and stay there. `git --git-dir={dir} for-each-ref {OLD_SALVAGES}` shows them"
        ));
    }
    Ok(())
}

/// Makes theirs again if it is gone, with the objects to borrow, the configuration and the remote-tracking refs from
/// ours. Ours does not have the raiders' branches. Reads neither the checkout nor the user's settings: an agent would
/// decide the time of that.
pub(super) fn again(repo: &GitRepo) -> Result<(), RepoError> {
    share::init(repo)?;
    share::lend(repo)?;
    settings::give_again(repo)?;
    let attributes = repo.repo_dir().join("info/attributes");
    if let Some(text) = read_if_there(&attributes)? {
        share::write(repo, "info/attributes", &text)?;
    }
    injected_files::exclude(repo, injected_files::EXCLUDED)?;
    share::publish_all(repo);
    Ok(())
}

/// Reads the rig's path, or returns the reason why no rig can be made of it.
fn inspect(path: &Path, rig_dir: &Path) -> Result<Checkout, RepoError> {
    let shown = path.display();
    let real = fs::canonicalize(path)
        .map_err(|error| RepoError::NotFound(format!("the rig's path {shown}: {error}")))?;
    if !real.is_dir() {
        return Err(RepoError::Failed(format!("{shown} is not a directory")));
    }
    let asked = Git::in_dir(&real)
        .as_user()
        .args(["rev-parse", "--show-object-format"])
        .args(["--is-shallow-repository", "--path-format=absolute"])
        .arg("--git-common-dir")
        .output()?;
    if !asked.ok() {
        let why = asked.stderr.trim();
        // Its user's configuration may be unreadable, or its owner is another user.
        let what = match why.contains("not a git repository") {
            true => "is not the top of a git repository",
            false => "cannot be opened by git",
        };
        return Err(RepoError::Failed(format!("{shown} {what}: {why}")));
    }
    // A bare repository has none.
    let top = Git::in_dir(&real).as_user();
    let top = top.args(["rev-parse", "--show-toplevel"]).output()?;
    let top = top.ok().then(|| PathBuf::from(top.text()));
    let has_work_tree = top.is_some();
    if let Some(top) = top.filter(|top| *top != real) {
        return Err(RepoError::Failed(format!(
            "{shown} is not the top of a git repository: its work tree is {} (core.worktree)",
            top.display()
        )));
    }
    let refs = Git::in_dir(&real)
        .as_user()
        .args(["for-each-ref", "--count=1", "refs/heads", "refs/remotes"])
        .run()?;
    if refs.stdout.is_empty() {
        return Err(RepoError::Failed(format!(
            "the repository {shown} is empty: make a first commit"
        )));
    }
    let text = asked.text();
    let mut told = text.splitn(3, '\n');
    let mut next = || told.next().unwrap_or_default();
    let (format, is_shallow) = (next().to_owned(), next() != "false");
    let git_dir = PathBuf::from(next());
    // Work that lands could change its hooks and its configuration.
    if has_work_tree && git_dir.starts_with(&real) && git_dir != real.join(".git") {
        return Err(RepoError::Failed(format!(
            "the git directory of {shown} is in its work tree: {}",
            git_dir.display()
        )));
    }
    let top = Top {
        dir: real,
        git_dir,
        format,
        is_shallow,
    };
    checkouts::look(path);
    checkout::included::note(path, &top.dir)?;
    Checkout::read(top, rig_dir)
}

/// Runs `git init` with the object format of the source. Refs are kept in files, whatever the source does: git2 reads
/// no others.
fn init(repo: &GitRepo, checkout: Option<&Checkout>) -> Result<(), RepoError> {
    let dir = repo.repo_dir();
    let is_missing = |part: &str| !dir.join(part).exists();
    // git may have been killed where it worked in place.
    let is_begun_only = MADE.into_iter().any(is_missing) && !custody::is_fetched(repo)?;
    if is_missing("HEAD") || is_begun_only {
        let format = match (checkout, repo.source()) {
            (Some(checkout), _) => checkout.top.format.clone(),
            (None, RigSource::Remote(url)) => remote_format(url)?,
            (None, RigSource::Path(_)) => "sha1".to_owned(),
        };
        make_ours(dir, &format)?;
    }
    [dir.parent().unwrap_or(dir), dir]
        .into_iter()
        .try_for_each(close)
}

/// Parts of a repository that `git init` makes at last, in any version.
const MADE: [&str; 3] = ["HEAD", "config", "objects/info"];

/// The errors of a rename to the place of something that is not an empty directory.
const IN_USE: [ErrorKind; 4] = [
    ErrorKind::DirectoryNotEmpty,
    ErrorKind::AlreadyExists,
    ErrorKind::ResourceBusy,
    ErrorKind::NotADirectory,
];

/// Makes ours whole or not at all: of one that was begun only, it could not be told later whether parts were lost.
fn make_ours(dir: &Path, format: &str) -> Result<(), RepoError> {
    let parent = dir.parent().unwrap_or(dir);
    let mut private = fs::DirBuilder::new();
    private.mode(0o700);
    city_root::make_dirs_with(parent, 0o700).at("cannot make", parent)?;
    // The names of all repositories here end in `.git`.
    let fresh = dir.with_extension("new");
    match mounts::remove_dir_all(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => private.create(&fresh),
    }
    .at("cannot make", &fresh)?;
    init_bare(&fresh, format)?;
    // It takes the place of an empty one, which a person made because the original is lost, in one step: a person's word is
    // kept until then.
    match fs::rename(&fresh, dir) {
        // A link, a mount or the part that git made of one stays, and git works in it.
        Err(error) if IN_USE.contains(&error.kind()) => {
            fs::remove_dir_all(&fresh).at("cannot remove", &fresh)?;
            for lock in ["config.lock", "HEAD.lock"] {
                remove_if_there(&dir.join(lock))?;
            }
            init_bare(dir, format)
        }
        renamed => renamed.at("cannot make", dir),
    }
}

/// Removes others' access to a directory of ours: it holds the agents' work and credentials of remotes.
fn close(dir: &Path) -> Result<(), RepoError> {
    let found = fs::symlink_metadata(dir).at("cannot restrict the mode of", dir)?;
    if !found.is_dir() || found.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    tracing::warn!(path = %dir.display(), "other users could read this directory of the supervisor; its mode is changed to 0700");
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
        .at("cannot restrict the mode of", dir)
}

/// Runs `git init` for a bare repository without hooks and branches.
pub(super) fn init_bare(dir: &Path, format: &str) -> Result<(), RepoError> {
    Git::in_dir(dir)
        .args(["-c", "init.defaultRefFormat=files"])
        .args(["init", "--quiet", "--bare"])
        .args(["--template=", "--initial-branch=horde"])
        .arg(format!("--object-format={format}"))
        .arg(dir)
        .run()
        .map(drop)
}

/// Returns the object format of a remote, by the length of its ids.
fn remote_format(url: &str) -> Result<String, RepoError> {
    let git = Git::in_dir(Path::new("/")).as_user();
    let git = git.args(["ls-remote", "--heads", "--", url]);
    let text = network(git, url, "reading of the rig's repository")?.text();
    let Some(line) = text.lines().next() else {
        return Err(RepoError::Failed(format!(
            "the repository {} is empty: push a first commit",
            without_passwords(url)
        )));
    };
    let digits = line.split('\t').next().unwrap_or_default().len();
    Ok(if digits == 64 { "sha256" } else { "sha1" }.to_owned())
}

/// Copies the checkout's own attributes, for its sandboxes (`git lfs install --local`).
fn take_attributes(repo: &GitRepo, checkout: Option<&Checkout>) -> Result<(), RepoError> {
    let Some(checkout) = checkout else {
        return Ok(());
    };
    let from = checkout.top.git_dir.join("info").join("attributes");
    let text = read_if_there(&from)?.unwrap_or_default();
    let info = repo.repo_dir().join("info");
    city_root::make_dirs(&info).at("cannot make", &info)?;
    write_whole(&info.join("attributes"), &text)?;
    share::write(repo, "info/attributes", &text)
}

/// Removes the remains of killed attempts from our scratch directory.
fn clear_scratch(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.repo_dir().join("horde").join("tmp");
    match mounts::remove_dir_all(&dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("cannot clear", &dir, &error)),
    }
}
