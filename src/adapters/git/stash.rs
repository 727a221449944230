//! Stash entries. All sandboxes of a rig share one list, so that any of them can remove another's entries. Each entry
//! is pinned in ours as long as its sandbox exists, so that it is saved with the sandbox whatever happens to the
//! list.
//!
//! A nuke saves the entries of its branch without removing them from the list: they are removed after the retention
//! time of salvage. The time in an entry is an agent's claim: the time when it was first seen here counts.

mod pins;

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

pub(super) use self::pins::{PINS, dropped, unpin};
use self::pins::{UNCLAIMED, expire_pins, pin_in, place, unclaimed};
use super::admin::{Note, stamp};
use super::branches::checked_out;
use super::claim;
use super::ground::Ground;
use super::rig::GitRepo;
use super::sighted::{self, Claim, Sighted, sight};
use super::traces::{self, HeadReflog};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The ref whose reflog is the list.
const STASH: &str = "refs/stash";
/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stash {
    /// Its commit.
    pub(super) commit: Oid,
    /// Its message.
    pub(super) message: String,
    /// The name of its committer.
    pub(super) by: String,
}

/// Pins the entries of the list if it changed since the last call. A failure is only logged: the next patrol tries
/// again.
pub(super) fn keep(repo: &GitRepo) {
    let now = stamp(&repo.theirs().join("logs").join(STASH));
    if now.is_none() || *repo.stash_seen() == now {
        return;
    }
    match pin_listed(repo) {
        Ok(()) => *repo.stash_seen() = now,
        Err(why) => {
            let rig = repo.name();
            tracing::warn!(%rig, %why, "new stash entries of the sandboxes could not be pinned; the next patrol tries again");
        }
    }
}

/// Pins each entry for its sandbox, or as unclaimed.
fn pin_listed(repo: &GitRepo) -> Result<(), RepoError> {
    let (entries, sighted) = listed(repo)?;
    if entries.is_empty() {
        return Ok(());
    }
    let there = sound(repo, entries.iter().map(|entry| entry.commit.clone()))?;
    let of = |id: &Oid| sighted.of(id).and_then(|sight| sight.owner.as_deref());
    pin_unclaimed(repo)?;
    // If a note cannot be read, the next patrol tries again, because entries of that sandbox are not pinned yet.
    for note in Note::all(repo)? {
        let own = there.iter().filter(|id| of(id) == Some(&note.branch));
        let place = place(&note.raider, note.incarnation);
        pin_in(repo, &place, &own.cloned().collect())?;
    }
    Ok(())
}

/// Returns those of these commits that exist and are whole, and copies them into ours.
fn sound(repo: &GitRepo, ids: impl Iterator<Item = Oid>) -> Result<BTreeSet<Oid>, RepoError> {
    let there = traces::kinds(repo, &ids.collect())?.into_iter();
    let mut there: BTreeSet<Oid> = there.map(|it| it.0).collect();
    for damaged in repo.take_whole(&there.iter().cloned().collect::<Vec<_>>())? {
        there.remove(&damaged);
    }
    Ok(there)
}

/// Returns the entries of a sandbox, copied into ours, and the damaged ones.
pub(super) fn whole(
    repo: &GitRepo,
    ground: &Ground,
    reflog: &HeadReflog,
) -> Result<(Vec<Stash>, BTreeSet<Oid>), RepoError> {
    let mut found = stashes(repo, ground.note.as_ref(), ground, reflog)?;
    let ids: Vec<Oid> = found.iter().map(|stash| stash.commit.clone()).collect();
    let damaged: BTreeSet<Oid> = repo.take_whole(&ids)?.into_iter().collect();
    found.retain(|stash| !damaged.contains(&stash.commit));
    Ok((found, damaged))
}

/// Pins entries that ours has.
pub(super) fn pin(repo: &GitRepo, note: Option<&Note>, entries: &[Stash]) -> Result<(), RepoError> {
    let Some(note) = note.filter(|_| !entries.is_empty()) else {
        return Ok(());
    };
    let entries = entries.iter().map(|entry| entry.commit.clone()).collect();
    pin_in(repo, &place(&note.raider, note.incarnation), &entries)
}

/// Pins the entries without a known sandbox.
fn pin_unclaimed(repo: &GitRepo) -> Result<(), RepoError> {
    let (entries, sighted) = listed(repo)?;
    let is_unclaimed = |id: &Oid| sighted.of(id).is_some_and(|sight| sight.owner.is_none());
    let ids = entries.into_iter().map(|entry| entry.commit);
    let mut ids: BTreeSet<Oid> = ids.filter(is_unclaimed).collect();
    if ids.is_empty() {
        return Ok(());
    }
    for pinned in unclaimed(repo)? {
        ids.remove(&pinned);
    }
    let today = Timestamp::now().strftime("%Y-%m-%d");
    pin_in(
        repo,
        &format!("{UNCLAIMED}{today}/"),
        &sound(repo, ids.into_iter())?,
    )
}

/// Removes the entries from the list that were first seen before that time, except those that an existing sandbox may
/// have made, and returns their number. A sandbox whose directory is gone exists until its content is saved and its
/// note removed.
pub(super) fn expire(repo: &GitRepo, before: Timestamp) -> Result<usize, RepoError> {
    // Locked, so that no sandbox is made or removed between the check and the removal.
    let _serial = repo.worktrees();
    let in_use = checked_out(repo)?;
    let notes = Note::all(repo)?;
    let is_used = |branch: &str| {
        let full = format!("refs/heads/{branch}");
        in_use.iter().any(|(used, _)| *used == full)
            || notes.iter().any(|note| note.branch == branch)
    };
    let sighted = listed(repo)?.1;
    // Unreadable entries stay, and so do those that were added since.
    let stays = |line: &str| {
        let entry = stash_entry(line);
        let sight = entry.as_ref().and_then(|it| sighted.of(&it.commit));
        let (Some(entry), Some(sight)) = (entry, sight) else {
            return true;
        };
        let owner = match &sight.owner {
            Some(owner) => is_used(owner),
            None => notes.iter().any(|note| note.stashes_from <= sight.nth),
        };
        let living = branch_of(&entry.message).is_some_and(is_used) || owner;
        living || sight.at >= before.as_second()
    };
    // Entries of the list are pinned as long as they are in it.
    pin_unclaimed(repo)?;
    expire_pins(repo, before, &notes)?;
    let gone = repo.their_refs().thin_log(STASH, stays)?;
    pin_unclaimed(repo)?;
    Ok(gone)
}

/// Returns the number of the next new entry. After a failure, which is logged, every entry may be of any sandbox.
pub(super) fn next(repo: &GitRepo) -> u64 {
    match listed(repo) {
        Ok((_, sighted)) => sighted.next,
        Err(why) => {
            tracing::warn!(
                rig = %repo.name(),
                %why,
                "existing stash entries could not be recorded; they count as possible work of the new sandbox"
            );
            0
        }
    }
}

/// Returns the list, newest first, and the records of its entries.
fn listed(repo: &GitRepo) -> Result<(Vec<Stash>, Sighted), RepoError> {
    let log = repo.their_refs().reflog(STASH)?;
    let entries = String::from_utf8_lossy(&log);
    let entries: Vec<_> = entries.lines().rev().filter_map(stash_entry).collect();
    // If a note cannot be read, its branch is unknown, and its sandbox may have made any entry.
    let notes = match entries.is_empty() {
        true => Vec::new(),
        false => Note::all(repo).unwrap_or_default(),
    };
    let from = |note: &Note| (note.branch.clone(), note.stashes_from);
    let branches: HashMap<String, u64> = notes.iter().map(from).collect();
    let floor = notes.iter().map(|note| note.stashes_from).max();
    let named = |entry: &Stash| {
        let branch = branch_of(&entry.message)?;
        Some((*branches.get(branch)?, branch.to_owned()))
    };
    let new = sighted::new(repo, entries.iter().map(|entry| &entry.commit))?;
    let is_open = |entry: &&Stash| new.contains(&entry.commit) && named(entry).is_none();
    let open: Vec<&Stash> = entries.iter().filter(is_open).collect();
    let owners = claim::owners(repo, &open, &notes)?;
    let claims = entries.iter().map(|entry| {
        let seems = owners.get(&entry.commit).cloned();
        let named = named(entry);
        (entry.commit.clone(), Claim { named, seems })
    });
    let sighted = sight(repo, floor.unwrap_or_default(), claims)?;
    Ok((entries, sighted))
}

/// Returns the stash entries of this sandbox: of those that were first seen since it was made, the ones whose message
/// names its branch, and the ones that are its own by other evidence ([`super::claim`]). A sandbox without a note
/// owns the entries that name a branch of it or were made on one of its commits, and that have no other owner.
fn stashes(
    repo: &GitRepo,
    note: Option<&Note>,
    ground: &Ground,
    reflog: &HeadReflog,
) -> Result<Vec<Stash>, RepoError> {
    let (mut entries, sighted) = listed(repo)?;
    if let Some(note) = note {
        entries.retain(|stash| {
            let sight = sighted.of(&stash.commit);
            let is_owner = sight.is_some_and(|it| it.owner.as_ref() == Some(&note.branch));
            let is_since = sight.is_none_or(|sight| sight.nth >= note.stashes_from);
            is_since && (is_owner || branch_of(&stash.message) == Some(&note.branch))
        });
        return Ok(entries);
    }
    let ids: BTreeSet<Oid> = entries.iter().map(|entry| entry.commit.clone()).collect();
    let parents = parents(repo, &ids)?;
    let is_own =
        |branch: &str| ground.branch.as_deref() == Some(branch) || reflog.branches.contains(branch);
    let is_here = |entry: &Oid| {
        let on = parents.get(entry);
        on.is_some_and(|on| reflog.commits.contains(on) || ground.head.as_ref() == Some(on))
    };
    entries.retain(|stash| {
        let sight = sighted.of(&stash.commit);
        let is_free = sight.is_none_or(|sight| sight.owner.is_none());
        is_free && (branch_of(&stash.message).is_some_and(is_own) || is_here(&stash.commit))
    });
    Ok(entries)
}

/// Parses `<old> <new> <name> <address> <time> <zone>\t<message>`. The time is an agent's claim.
fn stash_entry(line: &str) -> Option<Stash> {
    let (head, message) = line.split_once('\t').unwrap_or((line, ""));
    let mut fields = head.splitn(3, ' ').skip(1);
    let commit = Oid::new(fields.next()?).ok()?;
    let by = fields.next().and_then(|rest| rest.split_once(" <"));
    Some(Stash {
        commit,
        message: message.to_owned(),
        by: by.map_or_else(String::new, |(name, _)| name.to_owned()),
    })
}

/// Returns the first parents of commits, as far as they exist.
pub(super) fn parents(repo: &GitRepo, ids: &BTreeSet<Oid>) -> Result<HashMap<Oid, Oid>, RepoError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let list: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let told = repo
        .lens()
        .args(["rev-list", "--no-walk=unsorted", "--parents"])
        .args(["--ignore-missing", "--stdin"])
        .stdin(list)
        .run()?
        .text();
    let pair = |line: &str| {
        let mut ids = line.split(' ').map(Oid::new);
        Some((ids.next()?.ok()?, ids.next()?.ok()?))
    };
    Ok(told.lines().filter_map(pair).collect())
}

/// Parses `WIP on <branch>: ...` or `On <branch>: ...`; none for other messages and a detached HEAD.
pub(super) fn branch_of(message: &str) -> Option<&str> {
    let rest = message
        .strip_prefix("WIP on ")
        .or_else(|| message.strip_prefix("On "))?;
    let (branch, _) = rest.split_once(": ")?;
    (branch != "(no branch)").then_some(branch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stash_names_the_branch_it_was_made_on() {
        assert_eq!(
            branch_of("WIP on raider/Toast/gt-1-1: 12ab x"),
            Some("raider/Toast/gt-1-1")
        );
        assert_eq!(branch_of("On main: half: done"), Some("main"));
        assert_eq!(branch_of("WIP on (no branch): 12ab x"), None);
        assert_eq!(branch_of("autostash"), None);
    }
}
