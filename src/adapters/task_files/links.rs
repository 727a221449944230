//! Repairs the links of a sandbox to its task directory: an editor that saves by renaming puts a file in the place of a
//! link, and `git clean -fdx` removes it (`agent-lifecycle.md`, section 1; `contract.md`, 2.7).

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::moves;
use super::text::{IN_SANDBOX, IN_TASKS, at, changed, from_above, no_link, read_bytes};
use crate::adapters::beneath;
use crate::adapters::link_walk::LinkWalk;
use crate::domain::task_names::{
    OUTCOME, OUTCOMES, REPLACED, TASK, TASK_ELSE, beside, is_link_target,
};
use crate::ports::tasks::Repaired;

/// The number of replaced files of a kind that are kept. The next `TASK.md` stays in the sandbox, and the next outcome
/// replaces the oldest one.
const KEPT_MAX: usize = 100;

/// Returns true for a name that leads to the outcome file.
pub(super) fn is_outcome(name: &OsStr) -> bool {
    OUTCOMES.iter().any(|known| name == *known)
}

/// Tells whether git knows nothing of a file of that name, with these bytes or with any.
pub(super) type IsOwn<'a> = &'a dyn Fn(&str, Option<&[u8]>) -> bool;

/// Puts the links back. A file that may be git's stays. So does one on another file system than the task directory: its
/// outcome is read where it is. One repair of a sandbox runs at a time.
pub(super) fn repair(dir: &Path, sandbox: &Path, is_own: IsOwn<'_>) -> Repaired {
    let mut repaired = Repaired::default();
    if let Err(error) = no_link(dir) {
        repaired.failed = Some(error);
        return repaired;
    }
    // A directory without it is no sandbox, or only half of one.
    if sandbox.join(".git").symlink_metadata().is_err() {
        return repaired;
    }
    let (task, outcome) = (dir.join(TASK), dir.join(OUTCOME));
    let names = OUTCOMES.map(|name| (name, &outcome));
    let names = [(task_name(sandbox, &task, is_own), &task)]
        .into_iter()
        .chain(names);
    let wrong = names.filter_map(|(name, target)| {
        let link = sandbox.join(name);
        if name == TASK && is_of_project(sandbox, is_own) {
            return None;
        }
        let found = found(&link, target)?;
        // git brings the link of another task from a commit of its session, and what is written through it would be that
        // task's outcome.
        let is_replaced = found == Found::OldLink
            || is_own(name, None) && (*target == task || is_declared(name, &link, found, is_own));
        is_replaced.then_some((found, link, target))
    });
    let mut wrong: Vec<_> = wrong.collect();
    // The outcome that came last counts: it is moved first, and every state until the end shows it as the last one.
    wrong.sort_by_key(|(found, _, target)| (**target == outcome, Reverse(*found)));
    for (found, link, target) in wrong {
        match put_back(&link, target, found) {
            Ok(file) => repaired.moved.extend(file),
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
            Err(error) => {
                repaired.failed.get_or_insert(at(&link)(error));
            }
        }
    }
    repaired
}

/// The entry in the place of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    /// Another link to a task: of another incarnation or raider, of the city's former place, or written in another way.
    OldLink,
    /// A file that came there at this time, by a write or a rename, with its inode.
    File(Option<Timestamp>, u64),
}

/// Returns the entry in the place of a link; none for the link itself, and for what is left alone.
fn found(link: &Path, target: &Path) -> Option<Found> {
    match link.symlink_metadata() {
        Ok(file) if file.is_file() => Some(Found::File(changed(&file), file.ino())),
        Ok(other) if other.is_symlink() => {
            let leads_to = fs::read_link(link).ok()?;
            (leads_to != target && leads_to_a_task(link, &leads_to)).then_some(Found::OldLink)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Some(Found::Nothing),
        Ok(_) | Err(_) => None,
    }
}

/// Returns true for a link that leads to a file of a task.
fn leads_to_a_task(link: &Path, target: &Path) -> bool {
    let sandbox = link.parent().unwrap_or(link);
    is_link_target(sandbox, &leads_to(sandbox, target))
}

/// Returns true for a `TASK.md` that git has with this target, beside the sandbox: a project may share its tasks by such a link,
/// whether a sandbox is there or not. To replace it would leave the work tree unclean for ever.
fn is_of_project(sandbox: &Path, is_own: IsOwn<'_>) -> bool {
    let Ok(target) = fs::read_link(sandbox.join(TASK)) else {
        return false;
    };
    let text = target.as_os_str().as_bytes();
    beside(sandbox, &leads_to(sandbox, &target)).is_some() && !is_own(TASK, Some(text))
}

/// Returns the place that a link of a sandbox leads to, also by links of directories that git brought with it. Links are
/// followed as by the system, but none outside of the sandbox: it may lead to a disk that does not answer.
fn leads_to(sandbox: &Path, target: &Path) -> PathBuf {
    let real = fs::canonicalize(sandbox).unwrap_or_else(|_| sandbox.to_owned());
    let is_inside = |path: &Path| path.starts_with(sandbox) || path.starts_with(&real);
    let mut walk = LinkWalk::from(sandbox, target);
    while let Some(place) = walk.step() {
        // It leads elsewhere for each process.
        if place.starts_with("/proc") {
            break;
        }
        if is_inside(place) {
            walk.follow();
        }
    }
    walk.place()
}

/// Returns false for a file that declares nothing: a blank one, which a program may just be writing, one whose content
/// the repository has or had, and one that cannot be read.
fn is_declared(name: &str, link: &Path, found: Found, is_own: IsOwn<'_>) -> bool {
    if !matches!(found, Found::File(..)) {
        return true;
    }
    match bytes_of(link, IN_SANDBOX) {
        Ok(Some(bytes)) if bytes.trim_ascii().is_empty() => false,
        Ok(Some(bytes)) => is_own(name, Some(&bytes)),
        // It cannot be judged, so it stays. Its reader tells why it cannot be read.
        Ok(None) | Err(_) => false,
    }
}

fn bytes_of(file: &Path, levels: usize) -> io::Result<Option<Vec<u8>>> {
    let (root, name) = from_above(file, levels);
    Ok(read_bytes(root, name)?.map(|(bytes, _)| bytes))
}

/// Returns the name under which the sandbox has its task.
fn task_name(sandbox: &Path, task: &Path, is_own: IsOwn<'_>) -> &'static str {
    let leads_there = |name| fs::read_link(sandbox.join(name)).is_ok_and(|target| target == task);
    let else_there = sandbox.join(TASK_ELSE).symlink_metadata().is_ok();
    if is_of_project(sandbox, is_own) {
        return TASK_ELSE;
    }
    // A link to another task is no file of the repository.
    if found(&sandbox.join(TASK), task) == Some(Found::OldLink) {
        return TASK;
    }
    if !leads_there(TASK) && (else_there || !is_own(TASK, None)) {
        return TASK_ELSE;
    }
    TASK
}

/// Makes the link, after the file in its place was moved into the task directory. Returns where that is now.
fn put_back(link: &Path, target: &Path, found: Found) -> io::Result<Option<PathBuf>> {
    let (root, name) = from_above(link, IN_SANDBOX);
    let file = match found {
        Found::Nothing => None,
        Found::OldLink => {
            beneath::remove(root, name)?;
            None
        }
        Found::File(..) => match move_away(link, target, found) {
            // The session has removed it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            // The session has written the outcome file meanwhile, or another one. The next repair compares them.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            file => Some(file?),
        },
    };
    match beneath::symlink(root, name, target) {
        // The session has made something there meanwhile. The next repair looks at it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(file),
        made => made.map(|()| file),
    }
}

/// Moves the file itself, and not its content: a writer that still has it open writes on into the moved file. After a crash an
/// outcome is in the one or the other place, and the one before is kept aside.
fn move_away(link: &Path, target: &Path, judged: Found) -> io::Result<PathBuf> {
    if !target.ends_with(OUTCOME) {
        return to_free_name(link, IN_SANDBOX, target);
    }
    let file = link.symlink_metadata()?;
    let came = changed(&file);
    if judged != Found::File(came, file.ino()) {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let before = target.symlink_metadata().ok().filter(fs::Metadata::is_file);
    // The session wrote through its other link, or into the file itself, since.
    let is_older = |before: &fs::Metadata| {
        let text = bytes_of(target, IN_TASKS);
        let is_blank = text.is_ok_and(|text| text.unwrap_or_default().trim_ascii().is_empty());
        !is_blank && moves::declared(target, before) > came
    };
    if before.as_ref().is_some_and(is_older) {
        return to_free_name(link, IN_SANDBOX, target);
    }
    moves::note(target, &file)?;
    // The session may write into the outcome file at any moment: nothing is replaced unseen.
    let aside = match before {
        Some(before) => {
            // Should it come back, it was still declared when it was.
            moves::note(target, &before)?;
            Some(to_free_name(target, IN_TASKS, target)?)
        }
        None => None,
    };
    if let Err(error) = move_judged(link, target, &file) {
        // It stays in the sandbox; the one before counts until its time is compared again.
        if let Some(aside) = aside {
            move_anew(&aside, IN_TASKS, target, IN_TASKS)?;
        }
        return Err(error);
    }
    if let Some(aside) = aside {
        remove_unused(&aside)?;
    }
    Ok(target.to_owned())
}

/// Moves the judged file of a sandbox to the place of the outcome file.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] when there is another file now, in the one place or in the other.
fn move_judged(link: &Path, target: &Path, judged: &fs::Metadata) -> io::Result<()> {
    let (from, to) = (from_above(link, IN_SANDBOX), from_above(target, IN_TASKS));
    rename_anew(from, to)?;
    let file = target.symlink_metadata()?;
    // The inode of a removed file is given to the next one.
    let is = |file: &fs::Metadata| (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
    if is(&file) == is(judged) {
        return moves::settle(target, &file);
    }
    // git may have put it there meanwhile, or the session has written into it. It goes back, or is kept aside where the session has
    // written another one.
    if !move_anew(target, IN_TASKS, link, IN_SANDBOX)? {
        to_free_name(target, IN_TASKS, target)?;
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Renames a file to a name that nothing has. Not every file system can check that and rename in one step (NFS).
fn rename_anew(from: (&Path, &Path), to: (&Path, &Path)) -> io::Result<()> {
    match beneath::rename_between(from, to, RenameFlags::NOREPLACE) {
        Err(error) if is_no_option(&error) && !beneath::exists(to.0, to.1) => {
            beneath::rename_between(from, to, RenameFlags::empty())
        }
        Err(error) if is_no_option(&error) => Err(ErrorKind::AlreadyExists.into()),
        renamed => renamed,
    }
}

/// Moves a file to a name, and returns false if something has it already.
fn move_anew(file: &Path, levels: usize, to: &Path, to_levels: usize) -> io::Result<bool> {
    let (from, to) = (from_above(file, levels), from_above(to, to_levels));
    match rename_anew(from, to) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        moved => moved.map(|()| true),
    }
}

/// Removes an empty file that no process has open: one that has may still write an outcome into it.
fn remove_unused(file: &Path) -> io::Result<()> {
    let (root, name) = from_above(file, IN_TASKS);
    let Some(open) = beneath::open(root, name)? else {
        return Ok(());
    };
    // Nothing opens it until the lease ends, so nothing is written to it after this look.
    let Some(_lease) = beneath::Lease::of(&open) else {
        return Ok(());
    };
    match open.metadata()?.len() {
        0 => beneath::remove(root, name),
        _ => Ok(()),
    }
}

/// Moves the outcomes aside that were declared until this time, and leaves an empty file. A session that writes at that
/// moment has its file back. One in the sandbox that may be git's stays, as does one on another file system.
pub(super) fn set_aside(
    dir: &Path,
    sandbox: &Path,
    until: Option<Timestamp>,
    is_own: IsOwn<'_>,
) -> io::Result<()> {
    no_link(dir).map_err(|error| io::Error::other(error.to_string()))?;
    let path = dir.join(OUTCOME);
    for name in OUTCOMES {
        let link = sandbox.join(name);
        let Some(found @ Found::File(came, _)) = found(&link, &path) else {
            continue;
        };
        let is_declared = || is_own(name, None) && is_declared(name, &link, found, is_own);
        if came > until || !is_declared() {
            continue;
        }
        match to_free_name(&link, IN_SANDBOX, &path) {
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
            moved => drop(moved?),
        }
    }
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.is_file() || found.len() == 0 || moves::declared(&path, &found) > until {
        return Ok(());
    }
    let aside = to_free_name(&path, IN_TASKS, &path)?;
    let now = aside.symlink_metadata()?;
    let (root, name) = from_above(&path, IN_TASKS);
    if (now.len(), now.modified()?) != (found.len(), found.modified()?) {
        let from = from_above(&aside, IN_TASKS);
        return beneath::rename_between(from, (root, name), RenameFlags::NOREPLACE);
    }
    match beneath::create(root, name) {
        // The session has written the next one.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// Renames a file to a free name beside the file that its link leads to. Returns the new path.
fn to_free_name(file: &Path, levels: usize, target: &Path) -> io::Result<PathBuf> {
    let is_outcome = target.ends_with(OUTCOME);
    let name = |number| match is_outcome {
        true => target.with_file_name(format!("{OUTCOME}{REPLACED}{number}")),
        false => target.with_file_name(format!("TASK{REPLACED}{number}.md")),
    };
    let mut names = (1..=KEPT_MAX).map(name);
    let is_taken = |path: &PathBuf| path.symlink_metadata().is_ok();
    let free = match names.find(|path| !is_taken(path)) {
        Some(free) => free,
        None if is_outcome => {
            let files = (1..=KEPT_MAX).map(name);
            let age = |path: &PathBuf| path.symlink_metadata().ok().as_ref().and_then(changed);
            let oldest = files.min_by_key(age).unwrap_or_else(|| name(1));
            let (root, name) = from_above(&oldest, IN_TASKS);
            beneath::remove(root, name)?;
            oldest
        }
        None => {
            let why = format!("{KEPT_MAX} replaced files are kept already");
            return Err(io::Error::other(why));
        }
    };
    rename_anew(from_above(file, levels), from_above(&free, IN_TASKS))?;
    Ok(free)
}

fn is_no_option(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    code.is_some_and(|code| [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP].contains(&code))
}

#[cfg(test)]
mod tests;
