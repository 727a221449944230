//! The only way to remove a sandbox. It is verified once more and renamed beside its place. Then it is searched for
//! files that were written in between; if there are any, it is renamed back, otherwise it is renamed into the trash.
//! It is never deleted beside its place: after a crash the next start renames it back. A write after the search is found in
//! the trash, before anything there is deleted.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, statat};
use rustix::io::Errno;

use super::admin::{At, Note, failed, free_name};
use super::branches::drop_branch;
use super::entry_links;
use super::facts;
use super::late_writes::{self, Began};
use super::measure::{Files, Measured, measure};
use super::rig::{GitRepo, locked};
use super::{retired, sandbox, stash};
use crate::adapters::trash::{self, stamp_now};
use crate::adapters::{beneath, mounts, standstill};
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, RaiderId, SlotName};
use crate::domain::nuke::NukePermit;
use crate::ports::repo::RepoError;

/// Verifies the permit against the sandbox as it is now, moves the sandbox into the trash if the permit still holds,
/// forgets the worktree, and deletes its branch if another ref reaches it.
pub(super) fn discard(
    repo: &GitRepo,
    permit: &NukePermit,
    trash: &Path,
    still: &dyn Fn() -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let _serial = locked(&repo.state.worktrees);
    let path = permit.sandbox();
    sandbox::inside(repo, path)?;
    put_back(path)?;
    let admins = entry_links::of_sandbox(repo, path)?;
    let note = Note::read(repo, path);
    check_owner(repo, permit, note.as_ref())?;
    let there = fs::symlink_metadata(path).is_ok();
    let mut inner = Vec::new();
    let (mut measured, mut last) = (None, None);
    if there {
        unmounted(path)?;
        let began = Began::now().at("cannot look who is in", path)?;
        last = Some((verify(repo, permit)?, began));
        measured = entry_links::linked(path);
        inner = entry_links::inside(repo, path)?;
    }
    let held = beneath::make_room(trash).at("cannot make", trash)?;
    let raider = permit.raider();
    let name = format!("{}-{}-{}", raider.rig, raider.name, permit.incarnation());
    let mut noted = None;
    if let Some((judged, began)) = &mut last {
        still()?;
        unmounted(path)?;
        let since = stamp_now();
        began.map_more().at("cannot look who is in", path)?;
        noted = measured.and_then(|admin| {
            let note = began.note(&admin, since).ok()?;
            Some((admin, note))
        });
        let note = began.note(path, since).at("cannot look who is in", path)?;
        let to = free_name(trash, &name);
        remove(repo, path, (judged, began), &held, (&to, &note))?;
        standstill::pass();
    }
    for admin in &admins {
        let measured = noted
            .as_ref()
            .filter(|(measured, _)| fs::canonicalize(admin).is_ok_and(|it| it == *measured));
        if let Some((_, note)) = measured {
            throw(
                admin,
                &held,
                (&free_name(trash, &format!("{name}.git")), note),
            )?;
        } else if !entry_links::is_of_another(repo, admin, path)? {
            // The commits that its reflog and index name were not measured.
            retired::retire(repo, admin)?;
        }
    }
    // Entries of worktrees that the agent made inside would lock their branches for ever.
    for (admin, _) in &inner {
        // An agent may have written this place into the entry of another raider, which works on.
        if !entry_links::is_of_another(repo, admin, path)? {
            retired::retire(repo, admin)?;
        }
    }
    drop_traces(repo, permit, note)
}

/// Refuses a permit for another sandbox of the rig than the raider's, or for an earlier incarnation.
fn check_owner(repo: &GitRepo, permit: &NukePermit, note: Option<&Note>) -> Result<(), RepoError> {
    let (raider, path) = (permit.raider(), permit.sandbox());
    let named = path.file_name() == Some(raider.name.as_str().as_ref());
    if !named || &raider.rig != repo.name() {
        return Err(RepoError::Failed(format!(
            "the permit of {raider} names {}",
            path.display()
        )));
    }
    match note {
        Some(note) if note.incarnation != permit.incarnation() => Err(RepoError::PermitStale(
            format!("it belongs to incarnation {} now", note.incarnation),
        )),
        _ => Ok(()),
    }
}

/// Renames a measured sandbox into the trash, with a note on it, unless something was written to it meanwhile.
fn remove(
    repo: &GitRepo,
    sandbox: &Path,
    (judged, began): (&Measured, &Began),
    trash: &OwnedFd,
    to: (&Path, &trash::Note),
) -> Result<(), RepoError> {
    let beside = leaving(sandbox);
    let step_out =
        || rename_free(sandbox, beside.file_name().unwrap_or_default()).at("cannot move", sandbox);
    let late = late_writes::watch(repo, judged, began, &beside, step_out)?;
    // The search takes as long as the sandbox is large.
    standstill::pass();
    if let Some(what) = late {
        put_back(sandbox)?;
        return Err(RepoError::PermitStale(what));
    }
    if let Err(why) = throw(&beside, trash, to) {
        put_back(sandbox)?;
        return Err(why);
    }
    Ok(())
}

/// Forgets the sandbox, and deletes its branches if another ref reaches them.
fn drop_traces(repo: &GitRepo, permit: &NukePermit, note: Option<Note>) -> Result<(), RepoError> {
    let raider = permit.raider();
    // Unpinned first, because a pin reaches the commit that its entry was made on.
    stash::unpin(repo, raider, permit.incarnation())?;
    let noted = note.map(|note| note.branch);
    let own = format!("raider/{}/", raider.name);
    let shown = permit.git().branch.clone();
    let shown = shown.filter(|branch| branch.starts_with(&own));
    standstill::pass();
    // A repair of branches that runs meanwhile knows by the note that this one is not lost ([`super::revive`]).
    Note::remove(repo, permit.sandbox())?;
    for branch in noted.into_iter().chain(shown) {
        standstill::pass();
        drop_branch(repo, &branch)?;
    }
    Ok(())
}

/// Finishes a [`discard`] that was killed. The administrative directory is retired and not thrown away: no permit
/// says that its reflog is not needed.
pub(super) fn forget(
    repo: &GitRepo,
    sandbox: &Path,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<(), RepoError> {
    let _serial = locked(&repo.state.worktrees);
    sandbox::inside(repo, sandbox)?;
    put_back(sandbox)?;
    if fs::symlink_metadata(sandbox).is_ok() {
        let what = format!("{} is there", sandbox.display());
        return Err(RepoError::PermitStale(what));
    }
    let note = Note::read(repo, sandbox);
    if note.is_none_or(|note| note.incarnation == incarnation) {
        for admin in entry_links::of_sandbox(repo, sandbox)? {
            retired::retire(repo, &admin)?;
        }
        Note::remove(repo, sandbox)?;
    }
    let own = format!("refs/heads/raider/{}/", raider.name);
    let end = format!("-{incarnation}");
    for name in repo.their_refs().list(&own)?.into_keys() {
        let branch = name.strip_prefix("refs/heads/").unwrap_or(&name);
        if branch.ends_with(&end) {
            drop_branch(repo, branch)?;
        }
    }
    Ok(())
}

/// Refuses if a person's directory or a disk is mounted in the sandbox: its files would be deleted, too.
fn unmounted(sandbox: &Path) -> Result<(), RepoError> {
    let mounts = mounts::below(sandbox);
    let mounts = mounts.at("cannot list the mounts in", sandbox)?;
    match mounts.first() {
        None => Ok(()),
        Some(mount) => Err(RepoError::Failed(format!(
            "{} is a mount point: run `umount`, then the sandbox can be removed",
            mount.display()
        ))),
    }
}

/// Measures again and compares. The target may have moved meanwhile: only the sandbox's own content must be the same,
/// and HEAD must not have become less safe.
fn verify(repo: &GitRepo, permit: &NukePermit) -> Result<Measured, RepoError> {
    let judged = permit.git();
    let measured = measure(repo, permit.sandbox(), Files::Afresh)?;
    let now = facts::judge(repo, &measured, None)?;
    match difference(judged, &now) {
        None => Ok(measured),
        Some(what) => Err(RepoError::PermitStale(what)),
    }
}

/// Returns the path of a sandbox between its last measurement and the trash. No slot has such a name.
fn leaving(sandbox: &Path) -> PathBuf {
    let name = sandbox.file_name().unwrap_or_default();
    sandbox.with_file_name(format!(".{}.leaving", name.display()))
}

/// Renames back a sandbox that a killed [`discard`] left on its way out. If its place is taken, it gets a name beside
/// that.
///
/// # Errors
/// When it cannot be renamed.
pub(super) fn put_back(sandbox: &Path) -> Result<(), RepoError> {
    let place = leaving(sandbox);
    if fs::symlink_metadata(&place).is_err() {
        return Ok(());
    }
    let mut to: PathBuf = sandbox.to_owned();
    loop {
        match rename_free(&place, to.file_name().unwrap_or_default()) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let name = format!("{}-kept", sandbox.file_name().unwrap_or_default().display());
                to = free_name(sandbox.parent().unwrap_or(sandbox), &name);
            }
            done => return done.at("cannot move back", &place),
        }
    }
}

/// Renames back every sandbox of the rig that was on its way out. A failure is only logged: the rig goes on without
/// that sandbox.
pub(super) fn put_all_back(repo: &GitRepo) {
    let names = fs::read_dir(repo.raiders_dir()).into_iter().flatten();
    for name in names.flatten().map(|entry| entry.file_name()) {
        let name = name.to_string_lossy();
        let slot = name
            .strip_prefix('.')
            .and_then(|name| name.strip_suffix(".leaving"));
        let slot = slot.and_then(|slot| SlotName::new(slot).ok());
        if let Some(slot) = slot
            && let Err(why) = put_back(&repo.raiders_dir().join(slot.as_str()))
        {
            tracing::error!(rig = %repo.name(), %slot, %why, "a sandbox whose removal was interrupted could not be renamed back; the next start or reload tries again");
        }
    }
}

/// Renames to an unused name in the same directory. Not every file system can check and rename in one step (NFS): the
/// lock of the rig's worktrees keeps the supervisor from taking the name in between.
fn rename_free(from: &Path, to: &OsStr) -> io::Result<()> {
    let (dir, from) = standstill::hold(from)?;
    match renameat_with(&dir, from, &dir, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST | Errno::NOTEMPTY) => Err(ErrorKind::AlreadyExists.into()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            match statat(&dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(ErrorKind::AlreadyExists.into()),
                Err(_) => Ok(renameat(&dir, from, &dir, to)?),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn difference(judged: &GitFacts, now: &GitFacts) -> Option<String> {
    let lost = judged.head_reachable && !now.head_reachable;
    let less = lost.then(|| "HEAD is no longer reachable".to_owned());
    now.changed_since(judged).or(less)
}

/// Renames into the trash, which must be on the same file system, because a copy would be needed otherwise.
fn throw(from: &Path, held: &OwnedFd, (to, note): (&Path, &trash::Note)) -> Result<(), RepoError> {
    trash::throw(from, held, to, note).map_err(|error| match error.kind() {
        ErrorKind::CrossesDevices => RepoError::Failed(format!(
            "{} is on another file system than {}",
            to.display(),
            from.display()
        )),
        _ => failed("cannot move into the trash", from, &error),
    })
}
