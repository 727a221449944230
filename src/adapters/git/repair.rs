//! Repairs a sandbox's administrative files. The work tree stays as it is, except if there is none at all: then it is
//! recreated.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::admin::{self, At, Note, failed, free_name};
use super::bytes;
use super::command::{CHECKOUT, Git};
use super::entry_links;
use super::measure::lens;
use super::rig::{GitRepo, locked, resolve};
use super::theirs::{self, Head};
use super::{injected_files, refill, revive, sandbox};
use crate::adapters::city_root;
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::ports::repo::{RepoError, SandboxSpec};

/// The age above which a lock file is stale: git holds its locks for moments.
const LOCK_MAX_AGE: Duration = Duration::from_secs(60);

/// Repairs the sandbox, or recreates it from its branch.
pub(super) fn repair(repo: &GitRepo, spec: &SandboxSpec) -> Result<(), RepoError> {
    let _serial = locked(&repo.state.worktrees);
    sandbox::check(repo, spec)?;
    // Its reflog may know better where it was than at its base.
    revive::check(repo, &spec.path);
    sandbox::ensure_branch(repo, spec)?;
    let bare = is_bare(&spec.path)?;
    let admin = home(repo, spec)?;
    let mut note = Note::begun(repo, spec).unwrap_or_else(|| Note {
        complete: !bare,
        ..Note::of(spec)
    });
    // Noted first: a half-filled sandbox must neither be worked in nor count as one whose files were deleted.
    note.unfilled |= bare;
    note.write(repo, &spec.path)?;
    heal(repo, spec, &admin)?;
    if !note.complete {
        return sandbox::fill(repo, spec, &admin, note)?.completed(repo, &spec.path);
    }
    let index = admin.join("index");
    let git = || repo.work(&spec.path, &index).limit(CHECKOUT);
    mend_index(repo, &admin, git)?;
    if note.unfilled {
        refill::fill_missing(git)?;
        sandbox::refresh(git())?;
        note.unfilled = false;
    }
    injected_files::make(repo, spec)?;
    injected_files::copy(repo, spec, &mut note)?;
    note.write(repo, &spec.path)
}

/// Returns true if the work tree is missing, or contains only its link.
fn is_bare(dir: &Path) -> Result<bool, RepoError> {
    match fs::read_dir(dir) {
        Ok(list) => Ok(list.flatten().all(|entry| entry.file_name() == ".git")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(failed("cannot list", dir, &error)),
    }
}

/// Returns the sandbox's administrative directory, a new one if it has none.
fn home(repo: &GitRepo, spec: &SandboxSpec) -> Result<PathBuf, RepoError> {
    match find(repo, spec)? {
        Some(admin) => Ok(admin),
        None => new_admin(repo, spec),
    }
}

/// Turns the files at the path into a worktree. Returns its administrative directory.
pub(super) fn make_worktree(repo: &GitRepo, spec: &SandboxSpec) -> Result<PathBuf, RepoError> {
    let admin = home(repo, spec)?;
    heal(repo, spec, &admin)?;
    Ok(admin)
}

/// As [`make_worktree`], but with a new administrative directory, which no agent has changed.
pub(super) fn settle_anew(repo: &GitRepo, spec: &SandboxSpec) -> Result<PathBuf, RepoError> {
    let admin = new_admin(repo, spec)?;
    heal(repo, spec, &admin)?;
    Ok(admin)
}

/// Makes both links correct, and HEAD valid.
fn heal(repo: &GitRepo, spec: &SandboxSpec, admin: &Path) -> Result<(), RepoError> {
    city_root::make_dirs(&spec.path).at("cannot make", &spec.path)?;
    let dot_git = spec.path.join(".git");
    if fs::symlink_metadata(&dot_git).is_ok_and(|meta| meta.is_dir()) {
        // An agent ran `git init` here: its repository stays, under another name.
        let aside = free_name(&spec.path, "found.git");
        fs::rename(&dot_git, &aside).at("cannot move", &dot_git)?;
    }
    let mut link = b"gitdir: ".to_vec();
    link.extend_from_slice(bytes::of(admin));
    link.push(b'\n');
    admin::write_whole_by(admin, &dot_git, &link)?;
    let mut back = bytes::of(&dot_git).to_vec();
    back.push(b'\n');
    admin::write_whole(&admin.join("gitdir"), &back)?;
    admin::write_whole(&admin.join("commondir"), b"../..\n")?;
    admin::unlock(admin)?;
    // Locked by a killed `git worktree add`, or by an agent, which may not block a repair.
    set_aside(&admin.join("locked"))?;
    for lock in ["index.lock", "HEAD.lock"] {
        if is_stale(&admin.join(lock)) {
            set_aside(&admin.join(lock))?;
        }
    }
    mend_head(repo, spec, admin)
}

/// Finds the sandbox's administrative directory: by both links, by the link back, by the sandbox's own link, or by
/// name if nothing else claims it (the city was moved). An agent can make one of that name, and any link back.
fn find(repo: &GitRepo, spec: &SandboxSpec) -> Result<Option<PathBuf>, RepoError> {
    if let Ok(place) = entry_links::locate(repo, &spec.path) {
        return Ok(Some(place.admin));
    }
    if let Some(admin) = own(repo, &spec.path)? {
        return Ok(Some(admin));
    }
    let note = Note::read(repo, &spec.path);
    let is_ours = note.as_ref().is_none_or(|note| note.is_of(spec));
    Ok(by_name(repo, &spec.path, note.as_ref()).filter(|_| is_ours))
}

/// Finds the administrative directory of a sandbox by its name, if no worktree claims it: both links name a place that
/// does not exist. An agent writes both, so that the link back must name this slot, at any place; without one, only the
/// name that the supervisor gave it counts.
pub(super) fn by_name(repo: &GitRepo, sandbox: &Path, note: Option<&Note>) -> Option<PathBuf> {
    let home = admin::home(repo)?;
    let slot = sandbox.file_name()?;
    let written = entry_links::read_link_file(&sandbox.join(".git"));
    let written = written.ok().flatten();
    let by_link = written.as_deref().and_then(Path::file_name);
    // Without a note, an agent may have made the directory of that name.
    let by_name = note.and(Some(slot));
    let entry = note.map(|note| entry_name(&note.raider, note.incarnation));
    let by_entry = entry.as_ref().map(AsRef::as_ref);
    let is_own = |name: &OsStr| match admin::line(&home.join(name), Path::new("gitdir")) {
        Ok(Some(text)) => is_of_slot(bytes::path(text.trim_ascii_end()), slot),
        _ => Some(name) == by_entry,
    };
    let names = [by_link, by_entry, by_name].into_iter().flatten();
    let own = names.filter(|name| is_own(name));
    let mut all = own.map(|name| home.join(name));
    all.find(|admin| is_dir(admin) && !claimed(admin))
}

/// Returns true if a link back names the sandbox of this slot, at any place.
fn is_of_slot(link: &Path, slot: &OsStr) -> bool {
    let mut above = link.ancestors().map(Path::file_name);
    let expected = [OsStr::new(".git"), slot, OsStr::new("raiders")];
    expected
        .iter()
        .all(|part| above.next().flatten() == Some(part))
}

/// Returns true for a directory, and not for a link to one, which an agent can make.
fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Returns the first directory that names the sandbox and that no other sandbox's link leads to.
fn own(repo: &GitRepo, sandbox: &Path) -> Result<Option<PathBuf>, RepoError> {
    for admin in entry_links::of_sandbox(repo, sandbox)? {
        if !entry_links::is_of_another(repo, &admin, sandbox)? {
            return Ok(Some(admin));
        }
    }
    Ok(None)
}

/// Returns true if the directory leads to a work tree that exists.
pub(super) fn claimed(admin: &Path) -> bool {
    let Ok(Some(text)) = admin::line(admin, Path::new("gitdir")) else {
        return false;
    };
    admin.join(bytes::path(text.trim_ascii_end())).exists()
}

/// Makes an administrative directory on the sandbox's branch, as `git worktree add` would.
fn new_admin(repo: &GitRepo, spec: &SandboxSpec) -> Result<PathBuf, RepoError> {
    let head = head_line(spec);
    admin::make(
        repo,
        &entry_name(&spec.raider, spec.incarnation),
        head.as_bytes(),
        &spec.path,
    )
}

/// The name of a sandbox's administrative directory, unique per incarnation: the link in a sandbox that was moved
/// elsewhere still names the old directory, and git would otherwise work on the new raider's HEAD and index there.
fn entry_name(raider: &RaiderId, incarnation: Incarnation) -> String {
    let name = &raider.name;
    match incarnation.0 {
        1 => name.to_string(),
        later => format!("{name}.{later}"),
    }
}

fn head_line(spec: &SandboxSpec) -> String {
    format!("ref: refs/heads/{}\n", spec.branch)
}

/// Points HEAD back to the branch if git cannot read it, or if it names a commit that is gone.
fn mend_head(repo: &GitRepo, spec: &SandboxSpec, admin: &Path) -> Result<(), RepoError> {
    // Anything but a file, for example a pipe, counts as unreadable.
    let named = match theirs::head(admin).ok().flatten() {
        Some(Head::Ref(_)) => return Ok(()),
        Some(Head::Commit(id)) => resolve(repo.lens(), id.as_str())?,
        None => None,
    };
    if named.is_some() {
        return Ok(());
    }
    let file = admin.join("HEAD");
    set_aside(&file)?;
    admin::write_whole(&file, head_line(spec).as_bytes())
}

/// Makes a missing or unreadable index again from HEAD; the files then decide what is dirty. Joins an index of two
/// parts, because git, run on ours, does not find the other part.
fn mend_index(repo: &GitRepo, admin: &Path, git: impl Fn() -> Git) -> Result<(), RepoError> {
    let index = admin.join("index");
    let (_, lens) = lens(repo)?;
    // A copy is read: an agent may put a pipe in its place.
    let is_file = fs::symlink_metadata(&index).is_ok_and(|found| found.is_file());
    if is_file && lens.index(admin, &repo.recent)?.odd.is_none() {
        return match lens.joined()? {
            Some(whole) => admin::write_whole(&index, &whole),
            None => Ok(()),
        };
    }
    set_aside(&index)?;
    let head = match theirs::head(admin)? {
        Some(Head::Commit(id)) => Some(id),
        Some(Head::Ref(name)) => repo.their_refs().resolve(&name)?,
        None => None,
    };
    // A branch without a commit has nothing to read, and a sandbox without an index is broken.
    let tree = head.as_ref().map_or("--empty", Oid::as_str);
    git().args(["read-tree", tree]).run()?;
    sandbox::refresh(git())
}

/// Returns true if a lock is stale by its change time or its modification time. An agent can set the latter, but a time
/// in the future counts for nothing.
pub(super) fn is_stale(lock: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(lock) else {
        return false;
    };
    let changed = Timestamp::from_second(found.ctime()).ok();
    let changed = changed.map(|changed| Timestamp::now().duration_since(changed));
    let changed = changed.and_then(|age| Duration::try_from(age).ok());
    let written = found.modified().ok().and_then(|time| time.elapsed().ok());
    [changed, written]
        .iter()
        .flatten()
        .any(|age| *age > LOCK_MAX_AGE)
}

/// Renames a file out of the way, if it exists, and returns its new place. Deletes nothing.
pub(super) fn set_aside(file: &Path) -> Result<Option<PathBuf>, RepoError> {
    if fs::symlink_metadata(file).is_err() {
        return Ok(None);
    }
    let dir = file.parent().unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let aside = free_name(dir, &format!("{name}.aside"));
    fs::rename(file, &aside).at("cannot move", file)?;
    Ok(Some(aside))
}
