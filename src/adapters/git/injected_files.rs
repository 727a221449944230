//! Files that the supervisor adds to a sandbox: links to the task and the outcome, and copies of files of the rig's
//! checkout. All of them are excluded from git.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use super::admin::{At, Note, failed};
use super::bytes::{self, RelPath};
use super::digest;
use super::files::list::list;
use super::files::open::Root;
use super::files::paths::Paths;
use super::files::walk::Entry;
use super::rig::GitRepo;
use crate::adapters::{beneath, exclude};
use crate::domain::ids::Oid;
use crate::domain::task_names::{OUTCOMES, TASK, TASK_ELSE, beside, is_link_target};
use crate::ports::repo::{RepoError, SandboxSpec};
use crate::regular;

/// All names that are excluded from git in all sandboxes.
pub(super) const EXCLUDED: [&str; 4] = [TASK, TASK_ELSE, OUTCOMES[0], OUTCOMES[1]];

/// Returns the names among `names` that a commit has.
pub(super) fn tracked<const N: usize>(
    repo: &GitRepo,
    commit: &Oid,
    names: [&str; N],
) -> Result<[bool; N], RepoError> {
    let known = repo.known();
    if let Some(found) = known.and_then(|known| known.at_top(commit, names)) {
        return Ok(found);
    }
    let list: String = names
        .iter()
        .map(|name| format!("{commit}:{name}\n"))
        .collect();
    let git = repo.git().args(["cat-file", "--batch-check=%(objectname)"]);
    let text = git.stdin(list).run()?.text();
    let mut lines = text.lines();
    Ok(names.map(|_| lines.next().is_some_and(|line| Oid::new(line).is_ok())))
}

/// Makes the links. Leaves a file in place of a link alone.
pub(super) fn make(repo: &GitRepo, spec: &SandboxSpec) -> Result<(), RepoError> {
    let names = [TASK, OUTCOMES[0], OUTCOMES[1]];
    let [tracks_task, tracks_outcome @ ..] = tracked(repo, &spec.base, names)?;
    let task = if tracks_task { TASK_ELSE } else { TASK };
    let mut wanted = vec![(task, TASK)];
    for (name, tracks) in OUTCOMES.into_iter().zip(tracks_outcome) {
        if !tracks {
            wanted.push((name, "outcome"));
        }
    }
    for (name, target) in wanted {
        let target = spec.task_dir.join(target);
        let link = spec.path.join(name);
        match fs::read_link(&link) {
            Ok(found) if found == target => continue,
            // Our link, but for another location of the city or another incarnation.
            Ok(_) if is_ours(&spec.path, name.as_bytes()) => {
                fs::remove_file(&link).at("cannot link", &link)?;
            }
            Ok(_) => continue,
            Err(_) if fs::symlink_metadata(&link).is_ok() => continue,
            Err(_) => {}
        }
        symlink(&target, &link).at("cannot link", &link)?;
    }
    Ok(())
}

/// Returns true if the path is a link that we made: `.../tasks/<rig>/<relic>/<incarnation>/<file>`.
pub(super) fn is_ours(sandbox: &Path, path: &[u8]) -> bool {
    if !EXCLUDED.iter().any(|name| name.as_bytes() == path) {
        return false;
    }
    let target = fs::read_link(sandbox.join(bytes::path(path)));
    // None that we made leads to another sandbox.
    let is_ours =
        |target: &PathBuf| is_link_target(sandbox, target) && beside(sandbox, target).is_none();
    target.is_ok_and(|target| is_ours(&target))
}

/// The name of a link that is being made; one that is left by a crash is replaced at the next try.
const BESIDE: &str = ".horde-link";

/// Points our links in a worktree to the new place of a city that was moved.
///
/// # Errors
/// When a link cannot be made, for example in a directory that the agent closed.
pub(super) fn follow(worktree: &Path, old: &Path, new: &Path) -> std::io::Result<()> {
    let beside = worktree.join(BESIDE);
    if fs::symlink_metadata(&beside).is_ok_and(|found| found.is_symlink()) {
        fs::remove_file(&beside)?;
    }
    for name in EXCLUDED {
        let link = worktree.join(name);
        let ours = fs::read_link(&link).ok();
        let ours = ours.filter(|_| is_ours(worktree, name.as_bytes()));
        let Some(rest) = ours.as_ref().and_then(|it| it.strip_prefix(old).ok()) else {
            continue;
        };
        // Renamed over it: after a crash there is still a link.
        symlink(new.join(rest), &beside)?;
        fs::rename(&beside, &link)?;
    }
    Ok(())
}

/// Returns the names that rules do not hide: a task that is no longer a link, and an edited copy, are work.
pub(super) fn names(note: Option<&Note>) -> BTreeSet<RelPath> {
    let own = EXCLUDED.iter().map(|name| name.as_bytes().to_vec());
    let copied = note.into_iter().flat_map(|note| note.copied.keys());
    own.chain(copied.map(|name| name.as_bytes().to_vec()))
        .collect()
}

/// Leaves out copied files that are unchanged: the checkout has them.
pub(super) fn without_copies(
    root: &Root,
    mut entries: Vec<Entry>,
    note: Option<&Note>,
    tracked: &Paths<'_>,
) -> Vec<Entry> {
    let Some(note) = note.filter(|note| !note.copied.is_empty()) else {
        return entries;
    };
    let copied: BTreeMap<&[u8], &String> = note
        .copied
        .iter()
        .map(|(name, digest)| (name.as_bytes(), digest))
        .collect();
    // An unreadable file counts as edited; saving it will tell why.
    entries.retain(|entry| match copied.get(entry.path.as_slice()) {
        Some(digest) if entry.git_mode().is_some() && !tracked.contains(&entry.path) => {
            !digest::of_entry(root, entry).is_ok_and(|now| now == **digest)
        }
        _ => true,
    });
    entries
}

/// Removes a replaced outcome file, which is saved but is no work.
pub(super) fn not_work(untracked: &mut BTreeSet<RelPath>) {
    untracked.retain(|path| !OUTCOMES.iter().any(|name| name.as_bytes() == path));
}

/// Copies the configured untracked files from the rig's checkout unless they exist already, and notes the copies.
pub(super) fn copy(repo: &GitRepo, spec: &SandboxSpec, note: &mut Note) -> Result<(), RepoError> {
    if spec.copy.is_empty() {
        return Ok(());
    }
    let from = repo.source().path().ok_or_else(|| {
        RepoError::Failed("copy needs a rig with a path: this one has only a remote".to_owned())
    })?;
    for name in &spec.copy {
        let relative = plain(name)?;
        let source = from.join(&relative);
        let meta = fs::symlink_metadata(&source).map_err(|error| {
            let why = failed("cannot read", &source, &error);
            RepoError::NotFound(format!("{name:?} in `copy`: {why}"))
        })?;
        if !meta.is_dir() {
            copy_one(&source, &spec.path, &relative, note)?;
            continue;
        }
        for file in list(&source, false)? {
            let relative = relative.join(bytes::path(&file));
            copy_one(&from.join(&relative), &spec.path, &relative, note)?;
        }
    }
    // File by file: other files that the agent adds to a copied directory are its work.
    exclude(repo, note.copied.keys().map(String::as_str))
}

/// Returns a path that stays below the directory that it is joined to, and out of `.git`.
fn plain(name: &str) -> Result<PathBuf, RepoError> {
    let path: PathBuf = Path::new(name)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    let inside = path.components().all(|part| match part {
        Component::Normal(part) => part != ".git",
        _ => false,
    });
    if !inside || path.as_os_str().is_empty() {
        return Err(RepoError::Failed(format!(
            "{name:?} cannot be copied: it must be a path below the checkout"
        )));
    }
    Ok(path)
}

fn copy_one(source: &Path, to: &Path, relative: &Path, note: &mut Note) -> Result<(), RepoError> {
    let target = to.join(relative);
    let fail = |error: std::io::Error| failed("cannot copy to", &target, &error);
    let name = relative.to_string_lossy().into_owned();
    let found = fs::symlink_metadata(source).map_err(fail)?;
    if !found.is_symlink() {
        // A FIFO would block for ever.
        regular::regular(&found).at("cannot copy", source)?;
    }
    if fs::symlink_metadata(&target).is_ok() {
        // An unreadable file is the agent's.
        let same = digest::of_file(&target).ok();
        if let Some(same) = same
            && same == digest::of_file(source)?
        {
            note.copied.entry(name).or_insert(same);
        }
        return Ok(());
    }
    // The files checked out there are the work of agents: a directory may be a link that leads elsewhere.
    let parent = relative.parent().unwrap_or(Path::new(""));
    beneath::make_dirs(to, parent).map_err(fail)?;
    if found.is_symlink() {
        symlink(fs::read_link(source).map_err(fail)?, &target).map_err(fail)?;
    } else {
        // Atomically: a torn copy would count as the agent's edit.
        let part = relative.with_file_name(format!(
            ".horde-copy-{}",
            relative.file_name().unwrap_or_default().to_string_lossy()
        ));
        copy_whole(source, to, &part)
            .and_then(|()| beneath::rename(to, &part, relative))
            .map_err(fail)?;
    }
    note.copied.insert(name, digest::of_file(&target)?);
    Ok(())
}

/// Copies a regular file with its mode. Anything else is an error, and does not block.
fn copy_whole(source: &Path, to: &Path, part: &Path) -> std::io::Result<()> {
    let name = Path::new(source.file_name().unwrap_or_default());
    let dir = source.parent().unwrap_or(Path::new("/"));
    let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let mut from = beneath::open(dir, name)?.ok_or_else(gone)?;
    let mut file = beneath::create_anew(to, part)?;
    std::io::copy(&mut from, &mut file)?;
    file.set_permissions(from.metadata()?.permissions())
}

/// Adds names at the root of every sandbox to `info/exclude` of `repo.git`.
pub(super) fn exclude<'a>(
    repo: &GitRepo,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), RepoError> {
    let rules = names.into_iter().map(|name| {
        let name = name.trim_start_matches("./").trim_end_matches('/');
        let mut rule = String::from("/");
        for char in name.chars() {
            if matches!(char, '*' | '?' | '[' | '\\' | ' ') {
                rule.push('\\');
            }
            rule.push(char);
        }
        rule
    });
    let rules: Vec<String> = rules.collect();
    let file = repo.theirs().join(exclude::FILE);
    exclude::add(repo.theirs(), rules.iter().map(String::as_str)).at("cannot add rules to", &file)
}
