//! Restores the branch of a sandbox that the agents' repository has lost: all sandboxes share its refs, so one agent
//! can remove the branch of another, with an emptied `packed-refs`, a link in place of a directory, or a symbolic ref.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::admin::{Note, stamp};
use super::branches::drop_branch;
use super::entry_links;
use super::measure::commit;
use super::reflog_commits::kinds;
use super::rig::{GitRepo, locked};
use super::theirs::{self, Head};
use super::{branch_conflicts, bytes, sandbox};
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::domain::plain_path::plain;
use crate::ports::repo::RepoError;

/// A ref is one line.
const LINE_MAX: u64 = 64 * 1024;
/// The number of lines that are read from the end of a reflog.
const LOOKED_AT: usize = 1_000;
/// The number of symbolic refs that are followed.
const LED_MAX: usize = 5;

/// Checks the branch of one sandbox; if it is lost, restores the lost branches of all. A failure is only logged,
/// once: each sandbox is judged as far as it can be read.
pub(super) fn check(repo: &GitRepo, sandbox: &Path) {
    let Some(name) = worked_on(repo, sandbox).map(|note| full(&note)) else {
        return;
    };
    if is_there(repo, sandbox, &name) {
        return;
    }
    let _alone = locked(&repo.state.healing);
    let Err(why) = all(repo) else { return };
    if locked(&repo.state.logged).insert(why.to_string()) {
        tracing::error!(rig = %repo.name(), %why, "a raider's branch was lost and could not be restored; the next patrol tries again");
    }
}

/// Returns the note of a sandbox that an agent has worked in. A sandbox that is being made gets its branch there.
fn worked_on(repo: &GitRepo, sandbox: &Path) -> Option<Note> {
    Note::read(repo, sandbox).filter(|note| note.complete)
}

fn full(note: &Note) -> String {
    format!("refs/heads/{}", note.branch)
}

/// Returns true if git finds the branch. Reads `packed-refs` only if it changed.
fn is_there(repo: &GitRepo, sandbox: &Path, name: &str) -> bool {
    if !branch_conflicts::is_clear(repo, name) {
        return false;
    }
    let is_found = || matches!(repo.their_refs().resolve(name), Ok(Some(_)));
    if fs::symlink_metadata(repo.theirs().join(name)).is_ok() {
        return is_found();
    }
    let now = stamp(&repo.theirs().join("packed-refs"));
    if now.is_some() && locked(&repo.state.branches_seen).get(sandbox) == now.as_ref() {
        return true;
    }
    let found = is_found();
    if let (true, Some(now)) = (found, now) {
        locked(&repo.state.branches_seen).insert(sandbox.to_owned(), now);
    }
    found
}

/// A branch to check.
struct Branch {
    sandbox: PathBuf,
    note: Note,
    name: String,
    /// Its commit behind a link.
    behind: Option<Oid>,
    /// The commits of the branch that it was made a symbolic ref to.
    others: BTreeSet<String>,
}

/// Restores the branches of all sandboxes of the rig; the caller holds the lock of the repair. A failure of one does
/// not stop the others.
pub(super) fn all(repo: &GitRepo) -> Result<(), RepoError> {
    let mut failure = None;
    for branch in branches(repo)? {
        failure = put_back(repo, &branch).err().or(failure);
    }
    failure.map_or(Ok(()), Err)
}

fn branches(repo: &GitRepo) -> Result<Vec<Branch>, RepoError> {
    let listed = sandbox::list(repo)?.into_iter();
    let branches = listed.filter_map(|(_, sandbox)| {
        let note = worked_on(repo, &sandbox)?;
        let name = full(&note);
        // Read before the link of the first branch is set aside.
        let behind = behind(repo, &name);
        let others = others(repo, &name);
        Some(Branch {
            sandbox,
            note,
            name,
            behind,
            others,
        })
    });
    Ok(branches.collect())
}

fn put_back(repo: &GitRepo, branch: &Branch) -> Result<(), RepoError> {
    let (name, theirs) = (&branch.name, repo.their_refs());
    if branch_conflicts::is_clear(repo, name) && matches!(theirs.resolve(name), Ok(Some(_))) {
        return Ok(());
    }
    // The reflog is read first, because it is set aside with the object in place of its branch.
    let seen = last_seen(repo, branch)?;
    if !branch_conflicts::is_clear(repo, name) || theirs.resolve(name).is_err() {
        branch_conflicts::check(repo, name)?;
    }
    // A packed value is older than the reflog, and than the object that hid it.
    let tip = match seen.or(branch.behind.clone()) {
        Some(tip) => tip,
        None => match packed(repo, name)? {
            Some(tip) => tip,
            None if is_left(repo, branch) => return Ok(()),
            None => branch.note.base.clone(),
        },
    };
    branch_conflicts::clear(repo, name)?;
    let file = repo.theirs().join(name);
    // The agent may have committed meanwhile.
    if fs::symlink_metadata(&file).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    theirs.create(name, &tip)?;
    // A removal of the sandbox forgets the note first, then deletes the branch.
    if Note::is_gone(repo, &branch.sandbox, branch.note.incarnation) {
        return drop_branch(repo, &branch.note.branch).map(drop);
    }
    begin_log(repo, name, &tip);
    repo.mended(format!(
        "the branch {} was removed, and was recreated at {}",
        branch.note.branch,
        tip.short()
    ));
    Ok(())
}

/// Returns the commit of a branch in `packed-refs`.
fn packed(repo: &GitRepo, name: &str) -> Result<Option<Oid>, RepoError> {
    match repo.their_refs().resolve(name)? {
        Some(tip) => commit(repo, &tip),
        None => Ok(None),
    }
}

/// Returns the commit of a branch behind a link in the place of a directory. A link that leads out of theirs is not followed:
/// a file system that is mounted there may never answer, and all sandboxes of the rig would wait for it.
fn behind(repo: &GitRepo, name: &str) -> Option<Oid> {
    let theirs = repo.theirs();
    let is_link = |above: &&str| theirs.join(above).is_symlink();
    let link = branch_conflicts::above(name).find(is_link)?;
    let place = theirs.join(link);
    let to = plain(&place.parent()?.join(fs::read_link(&place).ok()?));
    let real = fs::canonicalize(theirs).ok()?;
    let to = to.strip_prefix(theirs).or(to.strip_prefix(&real)).ok()?;
    let below = name.strip_prefix(link)?.trim_start_matches('/');
    let text = beneath::read(theirs, &to.join(below), LINE_MAX).ok()??;
    let tip = Oid::new(bytes::lossy(text.trim_ascii_end())).ok()?;
    commit(repo, &tip).ok()?
}

/// Returns the commits that the branches were at to which a symbolic ref leads, by their reflogs.
fn others(repo: &GitRepo, name: &str) -> BTreeSet<String> {
    let theirs = repo.their_refs();
    let mut commits = BTreeSet::new();
    let mut next = theirs.target(name);
    for _ in 0..LED_MAX {
        let Some(name) = next else { break };
        let log = theirs.reflog(&name).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let new = log.lines().filter_map(|line| line.split(' ').nth(1));
        commits.extend(new.map(str::to_owned));
        if let Ok(Some(tip)) = theirs.resolve(&name) {
            commits.insert(tip.to_string());
        }
        next = theirs.target(&name);
    }
    commits
}

/// Returns the lines of a reflog without those that git wrote while the branch was a symbolic ref to another, about that
/// other: they begin at its commits, where the line before does not end. `git symbolic-ref` itself writes one without a message.
fn own_lines<'l>(log: &'l str, branch: &Branch) -> Vec<&'l str> {
    let mut at = branch.note.base.as_str();
    let is_own = |line: &&'l str| {
        let mut ids = line.split(' ');
        let (old, new) = (ids.next().unwrap_or(""), ids.next().unwrap_or(""));
        let is_led = !line.contains('\t') && branch.others.contains(new);
        let is_own = !is_led && (old == at || !branch.others.contains(old));
        if is_own {
            at = new;
        }
        is_own
    };
    log.lines().filter(is_own).collect()
}

/// Begins the reflog of a restored branch: the end of HEAD's reflog may be of another branch. A failure is only logged, because
/// the branch is restored.
fn begin_log(repo: &GitRepo, name: &str, tip: &Oid) {
    let (none, now) = ("0".repeat(tip.as_str().len()), Timestamp::now().as_second());
    let line = format!("{none} {tip} horde <horde@horde.invalid> {now} +0000\tbranch: Restored\n");
    let log = beneath::append(repo.theirs(), &Path::new("logs").join(name));
    if let Err(error) = log.and_then(|mut log| log.write_all(line.as_bytes())) {
        tracing::warn!(rig = %repo.name(), branch = name, %error, "the reflog of a restored branch cannot be written; a later repair may not find its commit");
    }
}

/// Returns the last commit of a branch: by its own reflog, which git moves or deletes with the branch, or by that of the HEAD
/// that is on it.
fn last_seen(repo: &GitRepo, branch: &Branch) -> Result<Option<Oid>, RepoError> {
    let log = repo.their_refs().reflog(&branch.name);
    if let Some(tip) = last(repo, branch, &log.unwrap_or_default())? {
        return Ok(Some(tip));
    }
    let Ok(place) = entry_links::locate(repo, &branch.sandbox) else {
        return Ok(None);
    };
    match theirs::head(&place.admin) {
        Ok(Some(Head::Ref(name))) if name == branch.name => {
            let log = beneath::read(&place.admin, Path::new("logs/HEAD"), theirs::LIST_MAX);
            last(repo, branch, &log.ok().flatten().unwrap_or_default())
        }
        _ => Ok(None),
    }
}

/// Returns true if its agent has left the branch for another.
fn is_left(repo: &GitRepo, branch: &Branch) -> bool {
    let head =
        entry_links::locate(repo, &branch.sandbox).and_then(|place| theirs::head(&place.admin));
    matches!(head, Ok(Some(Head::Ref(name))) if name != branch.name)
}

/// Returns the newest commit of a reflog that exists. A deletion is a line of it, too, with zeros.
fn last(repo: &GitRepo, branch: &Branch, log: &[u8]) -> Result<Option<Oid>, RepoError> {
    let log = String::from_utf8_lossy(log);
    let ids = own_lines(&log, branch).into_iter().rev().take(LOOKED_AT);
    let ids = ids.filter_map(|line| Oid::new(line.split(' ').nth(1)?).ok());
    let ids: Vec<Oid> = ids.collect();
    let there = kinds(repo, &ids.iter().cloned().collect())?;
    let is_commit = |id: &Oid| there.iter().any(|(it, kind)| it == id && kind == "commit");
    Ok(ids.into_iter().find(is_commit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::discard::forget;
    use crate::adapters::git::testing::Rigged;
    use crate::domain::ids::{Incarnation, RaiderId, RelicId, SlotName};
    use crate::ports::repo::SandboxSpec;

    #[test]
    fn the_branch_of_a_sandbox_that_is_removed_meanwhile_is_not_restored() {
        let rig = Rigged::new();
        let repo = &rig.repo;
        let spec = SandboxSpec {
            raider: RaiderId::new(repo.name().clone(), SlotName::new("Copper").unwrap()),
            relic: RelicId::new("gt-3").unwrap(),
            incarnation: Incarnation(1),
            branch: "raider/Copper/gt-3-1".to_owned(),
            base: rig.base.clone(),
            path: repo.raiders_dir().join("Copper"),
            task_dir: rig.path("task"),
            copy: Vec::new(),
        };
        fs::create_dir_all(&spec.path).unwrap();
        Note::of(&spec).completed(repo, &spec.path).unwrap();
        crate::adapters::git::remote::track(repo, "main", &rig.base).unwrap();
        let listed = branches(repo).unwrap();
        let name = &listed[0].name;
        put_back(repo, &listed[0]).unwrap();
        let there = || repo.their_refs().resolve(name).unwrap();
        assert_eq!(
            there().as_ref(),
            Some(&rig.base),
            "the sandbox has its branch"
        );

        fs::remove_dir(&spec.path).unwrap();
        forget(repo, &spec.path, &spec.raider, spec.incarnation).unwrap();
        assert_eq!(there(), None, "the branch goes with the sandbox");
        put_back(repo, &listed[0]).unwrap();
        assert_eq!(there(), None);
    }
}
