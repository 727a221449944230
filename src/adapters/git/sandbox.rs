//! Makes sandboxes: a worktree on its own branch, links to the task, copied files.
//!
//! ```text
//!   branch ─► worktree without files ─► note (incomplete) ─► files and index ─► links ─► copies ─► note (complete)
//! ```
//!
//! The worktree belongs to theirs, which is written as files; the files come from ours, checked out by git with our
//! configuration.
//!
//! Each step checks whether it was done before, so that the next attempt finishes a killed one. Until the note says
//! "complete", no agent was in the sandbox.

use std::fs;
use std::path::{Path, PathBuf};

use super::admin::{self, At, Note, failed, remove_if_there};
use super::command::{CHECKOUT, Git};
use super::entry_links;
use super::files::hash::{self, Format};
use super::files::hash_cache::HashCache;
use super::files::open::Root;
use super::files::paths::Beside;
use super::files::walk::{Entry, all_below};
use super::ground::seen_file;
use super::rig::{GitRepo, locked};
use super::theirs::{self, Head};
use super::{branch_conflicts, injected_files, repair, retired, revive, stash};
use crate::adapters::city_root;
use crate::domain::ids::{Oid, SlotName};
use crate::ports::repo::{RepoError, SandboxSpec};

/// Makes the sandbox, or finishes it.
pub(super) fn make(repo: &GitRepo, spec: &SandboxSpec) -> Result<(), RepoError> {
    let _serial = locked(&repo.state.worktrees);
    clear_place(repo, spec)?;
    check(repo, spec)?;
    super::settings::keep(repo);
    match Note::begun(repo, spec) {
        Some(note) if note.complete => {
            revive::check(repo, &spec.path);
            ensure_branch(repo, spec)?;
            repair::make_worktree(repo, spec)?;
            injected_files::make(repo, spec)?;
            Ok(())
        }
        note => {
            let note = note.unwrap_or_else(|| Note {
                stashes_from: stash::next(repo),
                ..Note::of(spec)
            });
            begin(repo, spec)?;
            let admin = repair::settle_anew(repo, spec)?;
            let note = fill(repo, spec, &admin, note)?;
            check_head(repo, spec, &admin)?;
            note.completed(repo, &spec.path)
        }
    }
}

/// Renames what stands in the sandbox's place and is no directory: a link, a file or a FIFO that an agent may have put
/// there, and for which the relic would wait for a person. A link may also be a person's, so it is said where it went.
fn clear_place(repo: &GitRepo, spec: &SandboxSpec) -> Result<(), RepoError> {
    let place = &spec.path;
    let is_ours = place.parent() == Some(repo.raiders_dir());
    let stands = fs::symlink_metadata(place).is_ok_and(|found| !found.is_dir());
    if !is_ours || !stands {
        return Ok(());
    }
    if let Some(aside) = repair::set_aside(place)? {
        repo.mended(format!(
            "{} was no directory, and is renamed to {} to make room for the sandbox of {}",
            place.display(),
            aside.display(),
            spec.raider
        ));
    }
    Ok(())
}

/// Points the branch to its base, and retires git's entries for the path: no agent worked for this incarnation yet,
/// so both belong to an earlier incarnation, are half made, or were planted by the agent of another raider.
fn begin(repo: &GitRepo, spec: &SandboxSpec) -> Result<(), RepoError> {
    let name = format!("refs/heads/{}", spec.branch);
    has_base(repo, spec)?;
    // The note of this incarnation tells them apart.
    let is_strange = Note::read(repo, &spec.path).is_none();
    for admin in entry_links::of_sandbox(repo, &spec.path)? {
        // The entry of a sandbox in use may claim to be this one's.
        if entry_links::is_of_another(repo, &admin, &spec.path)? {
            continue;
        }
        let aside = retired::retire(repo, &admin)?;
        if is_strange {
            repo.mended(format!(
                "{} existed for {} before its charge, and is set aside as {}; its commits are saved",
                admin.display(),
                spec.raider,
                aside.display()
            ));
        }
    }
    branch_conflicts::check(repo, &name)?;
    if let Some(tip) = repo.their_refs().resolve(&name)?
        && tip != spec.base
    {
        branch_conflicts::move_branch(repo, &name, &tip)?;
    }
    ensure_branch(repo, spec)
}

fn has_base(repo: &GitRepo, spec: &SandboxSpec) -> Result<(), RepoError> {
    match repo.resolve(spec.base.as_str())? {
        Some(_) => Ok(()),
        None => {
            let what = format!("the base {} of {}", spec.base, spec.branch);
            Err(RepoError::NotFound(what))
        }
    }
}

/// Refuses a sandbox that is not on its branch, at its base: agents can write to git's files about it.
fn check_head(repo: &GitRepo, spec: &SandboxSpec, admin: &Path) -> Result<(), RepoError> {
    let name = format!("refs/heads/{}", spec.branch);
    let (head, tip) = (theirs::head(admin)?, repo.their_refs().resolve(&name)?);
    if head == Some(Head::Ref(name)) && tip.as_ref() == Some(&spec.base) {
        return Ok(());
    }
    Err(RepoError::Failed(format!(
        "{} is not on its branch {} at {}: another process wrote to {} during the charge. Find \
        the raider of the rig that does that, then charge again",
        spec.path.display(),
        spec.branch,
        spec.base.short(),
        admin.display()
    )))
}

/// Refuses a path that could reach outside of this rig or into another incarnation's sandbox.
pub(super) fn check(repo: &GitRepo, spec: &SandboxSpec) -> Result<(), RepoError> {
    city_root::make_dirs(repo.raiders_dir()).at("cannot make", repo.raiders_dir())?;
    inside(repo, &spec.path)?;
    if &spec.raider.rig != repo.name() {
        return Err(RepoError::Failed(format!(
            "{} does not belong to the rig {}",
            spec.raider,
            repo.name()
        )));
    }
    if !git2::Reference::is_valid_name(&format!("refs/heads/{}", spec.branch)) {
        let what = format!("{:?} is not a branch name", spec.branch);
        return Err(RepoError::Failed(what));
    }
    if let Some(note) = Note::read(repo, &spec.path)
        && !note.is_of(spec)
        && fs::symlink_metadata(&spec.path).is_ok()
    {
        return Err(RepoError::Failed(format!(
            "{} is the sandbox of {} {}, not of {} {}",
            spec.path.display(),
            note.raider,
            note.incarnation,
            spec.raider,
            spec.incarnation
        )));
    }
    Ok(())
}

/// Checks that a sandbox is a direct child of the rig's raiders directory, and not a link.
pub(super) fn inside(repo: &GitRepo, sandbox: &Path) -> Result<(), RepoError> {
    let parent = sandbox
        .parent()
        .and_then(|parent| fs::canonicalize(parent).ok());
    let raiders = fs::canonicalize(repo.raiders_dir()).ok();
    let name = sandbox.file_name().is_some();
    let link = fs::symlink_metadata(sandbox).is_ok_and(|meta| meta.is_symlink());
    if parent.is_some() && parent == raiders && name && !link {
        return Ok(());
    }
    Err(RepoError::Failed(format!(
        "{} is not a sandbox in {}",
        sandbox.display(),
        repo.raiders_dir().display()
    )))
}

/// Makes the branch at its base; an existing one keeps its commits.
pub(super) fn ensure_branch(repo: &GitRepo, spec: &SandboxSpec) -> Result<(), RepoError> {
    let name = format!("refs/heads/{}", spec.branch);
    let theirs = repo.their_refs();
    if theirs.resolve(&name)?.is_some() {
        return Ok(());
    }
    has_base(repo, spec)?;
    branch_conflicts::clear(repo, &name)?;
    theirs.create(&name, &spec.base)
}

/// Checks the files out and adds ours. The returned note does not mark the sandbox as complete yet.
pub(super) fn fill(
    repo: &GitRepo,
    spec: &SandboxSpec,
    admin: &Path,
    mut note: Note,
) -> Result<Note, RepoError> {
    note.write(repo, &spec.path)?;
    // Only a killed attempt of our own can have left it: no agent was here yet.
    let lock = admin.join("index.lock");
    remove_if_there(&lock)?;
    let tip = repo
        .their_refs()
        .resolve(&format!("refs/heads/{}", spec.branch))?
        .ok_or_else(|| RepoError::NotFound(format!("branch {}", spec.branch)))?;
    repo.take(std::slice::from_ref(&tip))?;
    let index = admin.join("index");
    let git = || repo.work(&spec.path, &index).limit(CHECKOUT);
    git()
        .args(["read-tree", "-u", "--reset", tip.as_str()])
        .run()?;
    injected_files::make(repo, spec)?;
    injected_files::copy(repo, spec, &mut note)?;
    remember(repo, &spec.path, &tip)?;
    Ok(note)
}

/// Notes the blobs that the files were made from: no agent was here yet.
fn remember(repo: &GitRepo, sandbox: &Path, commit: &Oid) -> Result<(), RepoError> {
    let fail = |error: std::io::Error| failed("cannot read", sandbox, &error);
    let blobs = repo.files_of(commit)?;
    let root = Root::open(sandbox).map_err(fail)?;
    let entries = all_below(&root, b"")?;
    let probe = admin::scratch(repo)?;
    let probe = fs::File::create(probe.path().join("probe")).map_err(fail)?;
    let mut beside = Beside::new(&*blobs);
    let files = entries.iter().filter_map(|entry| {
        let (mode, blob) = beside.at(&entry.path)?;
        (entry.git_mode() == Some(mode)).then_some((entry, blob))
    });
    // Elsewhere the fingerprints are enough.
    let format = root.is_in_memory().then(|| Format::of(commit));
    let made = |entry: &Entry| {
        let mut file = root.file(&entry.path).ok()?;
        hash::file(format?, &mut file, entry.stamp.size).ok()
    };
    let seen = HashCache::checked_out(files, made, &probe).map_err(fail)?;
    seen.write(&seen_file(repo, sandbox), &repo.recent)
}

/// Refreshes the stat data of an index, which makes every later look at it three times cheaper. git ends with 1 if a
/// file differs, which is fine.
pub(super) fn refresh(git: Git) -> Result<(), RepoError> {
    git.args(["update-index", "-q", "--refresh"])
        .output()
        .map(drop)
}

fn missing(dir: &Path) -> RepoError {
    let dir = dir.display();
    RepoError::Failed(format!(
        "{dir}, the directory of the sandboxes, does not exist: mount its disk, or create it \
        (`mkdir`) if the sandboxes are really lost"
    ))
}

/// Returns the sandboxes on the file system, by slot. A missing directory has none, unless notes of sandboxes exist:
/// then it is invisible, for example because its disk is not mounted.
pub(super) fn list(repo: &GitRepo) -> Result<Vec<(SlotName, PathBuf)>, RepoError> {
    repo.recent.tidy();
    let dir = repo.raiders_dir();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let noted = fs::read_dir(admin::notes(repo)).is_ok_and(|mut it| it.next().is_some());
            return match noted {
                true => Err(missing(dir)),
                false => Ok(Vec::new()),
            };
        }
        Err(error) => return Err(failed("cannot list", dir, &error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.at("cannot list", dir)?;
        let is_dir = entry.file_type().at("cannot list", dir)?.is_dir();
        let name = entry
            .file_name()
            .to_str()
            .and_then(|name| SlotName::new(name).ok());
        if let (true, Some(name)) = (is_dir, name) {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}
