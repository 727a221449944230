//! Stash entries. All sandboxes of a rig share one list, so that any of them can remove another's entries. Each entry
//! is pinned in ours as long as its sandbox exists, so that it is saved with the sandbox whatever happens to the
//! list.
//!
//! A nuke saves the entries of its branch without removing them from the list: they are removed after the retention
//! time of salvage. The time in an entry is an agent's claim: the time when it was first seen here counts.

mod list;
mod pins;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use jiff::Timestamp;

pub(super) use self::list::entries;
use self::list::{newest_of_each, set_large_aside, stash_entry};
pub(super) use self::pins::{PINS, dropped, entries_of, unpin};
use self::pins::{expire_pins, pin_as_unclaimed, pin_in, place, saved};
use super::admin::{Note, stamp};
use super::branches::checked_out;
use super::ground::Ground;
use super::object_copy::{SPLITS_MAX, is_damage};
use super::reflog_commits::{self, HeadReflog};
use super::rig::{GitRepo, locked};
use super::stash_first_seen::{self, Claim, FirstSeenLog, sight};
use super::{stash_owner, unreadable};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The ref whose reflog is the list.
const STASH: &str = "refs/stash";
/// The kind of object that an entry is.
const COMMIT: &str = "commit";

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

/// The list at one moment.
struct Listed {
    /// The newest first.
    entries: Vec<Stash>,
    /// Since when they are known.
    sighted: FirstSeenLog,
}

impl Listed {
    fn ids(&self) -> BTreeSet<Oid> {
        let ids = self.entries.iter().map(|entry| entry.commit.clone());
        ids.collect()
    }

    /// The branch of the sandbox that an entry is of.
    fn owner(&self, entry: &Oid) -> Option<&str> {
        self.sighted.of(entry)?.owner.as_deref()
    }
}

/// The last attempt to pin the entries of a list that left some of them.
#[derive(Debug)]
pub(super) struct Attempt {
    list: Option<String>,
    took: Duration,
    ended: Instant,
}

impl Attempt {
    /// The pause before the same list is tried again, in durations of the attempt: the patrol of each sandbox asks for one, and
    /// an agent can make it take long.
    const PAUSE: u32 = 10;

    fn covers(&self, list: &Option<String>) -> bool {
        self.list == *list && self.ended.elapsed() < self.took * Self::PAUSE
    }
}

/// Pins the entries of the list if it changed since all of them were examined, unless this is done at the moment. A failure is
/// only logged: the next patrol retries.
pub(super) fn keep(repo: &GitRepo) {
    let Ok(mut last) = repo.state.stash_attempt.try_lock() else {
        return;
    };
    let now = list_stamp(repo);
    let is_covered = last.as_ref().is_some_and(|last| last.covers(&now));
    if now.is_none() || is_covered || *locked(&repo.state.stash_seen) == now {
        return;
    }
    let began = Instant::now();
    let pinned = pin_listed(repo).and_then(|is_all| {
        if is_all {
            set_large_aside(repo, &now)?;
        }
        Ok(is_all)
    });
    if let Err(why) = &pinned {
        let rig = repo.name();
        tracing::warn!(%rig, %why, "new stash entries of the sandboxes could not be pinned; the next patrol tries again");
    }
    if let Ok(true) = pinned {
        *locked(&repo.state.stash_seen) = now;
        *last = None;
        return;
    }
    *last = Some(Attempt {
        list: now,
        took: began.elapsed(),
        ended: Instant::now(),
    });
}

/// Returns a stamp of the list; none if there is none.
fn list_stamp(repo: &GitRepo) -> Option<String> {
    stamp(&repo.theirs().join("logs").join(STASH))
}

/// Pins each entry for its sandbox, or as unclaimed. Returns true if every entry was examined and every owner is settled.
fn pin_listed(repo: &GitRepo) -> Result<bool, RepoError> {
    let entries = entries(repo)?;
    if entries.is_empty() {
        return Ok(true);
    }
    let all: BTreeSet<Oid> = entries.iter().map(|entry| entry.commit.clone()).collect();
    locked(&repo.state.stash_spoilt).retain(|id| all.contains(id));
    // Copied first: the search for owners takes longer, and any agent may remove an entry meanwhile.
    let tried = locked(&repo.state.stash_spoilt).clone();
    let Sound { commits, is_all } = sound(repo, &entries, &tried)?;
    let listed = judged(repo, entries)?;
    // Read after the search for owners: a sandbox may have been removed during it.
    let notes = Note::all(repo);
    let is_gone = |owner: &str| !is_noted(notes.as_deref().unwrap_or_default(), owner);
    pin_unclaimed(repo, &listed, &commits, is_gone)?;
    // If a note cannot be read, the next patrol tries again, because entries of that sandbox are not pinned yet.
    for note in notes? {
        let own = |id: &&Oid| listed.owner(id) == Some(&note.branch);
        let own = commits.iter().filter(own).cloned().collect();
        pin_in(repo, &place(&note.raider, note.incarnation), &own)?;
    }
    Ok(is_all && listed.sighted.is_settled())
}

/// Entries that ours has.
struct Sound {
    commits: BTreeSet<Oid>,
    /// Set when every entry was examined.
    is_all: bool,
}

/// Copies the listed objects that exist and are whole into ours, except those that were tried, and returns the commits
/// among them. An object of another kind is copied but is not an entry. A damaged object is not retried as a rule: an
/// agent can list any number of them, and each costs git processes.
fn sound(repo: &GitRepo, listed: &[Stash], tried: &BTreeSet<Oid>) -> Result<Sound, RepoError> {
    let ids: BTreeSet<Oid> = listed.iter().map(|entry| entry.commit.clone()).collect();
    let ids = &ids - tried;
    // One copy at once, because an agent may remove an entry and its objects meanwhile. The search below finds the objects
    // that make this copy fail; it may take long, and reaches any entry at any time.
    if repo.take(&Vec::from_iter(ids.clone())).is_err() {
        for id in newest_of_each(listed, &ids) {
            let _damaged = repo.take(std::slice::from_ref(id));
        }
    }
    let (found, absent) = reflog_commits::kinds_there(repo, &ids)?;
    let there: Vec<Oid> = found.iter().map(|it| it.0.clone()).collect();
    let left = repo.take_each(&there)?;
    locked(&repo.state.stash_spoilt).extend(left.damaged.iter().cloned());
    // An entry that cannot be opened now is tried again, and stops no other.
    let is_readable = absent.is_empty() || unreadable::check(repo, &absent, "").is_ok();
    let is_all = left.unseen.is_empty() && left.closed.is_empty() && is_readable;
    let left = [left.damaged, left.unseen, left.closed].concat();
    let left = BTreeSet::from_iter(left);
    let commits = found.into_iter().filter(|(_, kind)| kind == COMMIT);
    let commits = commits.map(|it| it.0).filter(|id| !left.contains(id));
    let commits = commits.collect();
    Ok(Sound { commits, is_all })
}

/// Returns the entries of a sandbox, copied into ours, and the damaged ones.
pub(super) fn whole(
    repo: &GitRepo,
    ground: &Ground,
    reflog: &HeadReflog,
) -> Result<(Vec<Stash>, BTreeSet<Oid>), RepoError> {
    let mut found = stashes(repo, ground.note.as_ref(), ground, reflog)?;
    let ids: BTreeSet<Oid> = found.iter().map(|stash| stash.commit.clone()).collect();
    let kinds: HashMap<Oid, String> = reflog_commits::kinds(repo, &ids)?.into_iter().collect();
    // Entries known to be damaged come last: if there are too many, not all are examined. A missing entry is damaged, too.
    let (spoilt, fresh): (Vec<Oid>, Vec<Oid>) = {
        let tried = locked(&repo.state.stash_spoilt);
        ids.into_iter().partition(|id| tried.contains(id))
    };
    let mut damaged = BTreeSet::new();
    for ids in [fresh, spoilt] {
        damaged.extend(repo.take_whole(&ids)?);
    }
    locked(&repo.state.stash_spoilt).retain(|id| !kinds.contains_key(id) || damaged.contains(id));
    let is_commit = |id: &Oid| kinds.get(id).is_some_and(|kind| kind == COMMIT);
    found.retain(|stash| is_commit(&stash.commit) && !damaged.contains(&stash.commit));
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

/// Returns true if a sandbox with this branch was made and not forgotten.
fn is_noted(notes: &[Note], branch: &str) -> bool {
    notes.iter().any(|note| note.branch == branch)
}

/// Pins as unclaimed the entries without a known sandbox, and those of a removed sandbox that no salvage has. All of them
/// exist and are whole.
fn pin_unclaimed(
    repo: &GitRepo,
    listed: &Listed,
    there: &BTreeSet<Oid>,
    is_gone: impl Fn(&str) -> bool,
) -> Result<(), RepoError> {
    let (mut unclaimed, mut left) = (BTreeSet::new(), BTreeSet::new());
    for id in &listed.ids() & there {
        match listed.owner(&id).map(&is_gone) {
            None => drop(unclaimed.insert(id)),
            Some(true) => drop(left.insert(id)),
            Some(false) => {}
        }
    }
    if !left.is_empty() {
        unclaimed.extend(&left - &saved(repo)?);
    }
    pin_as_unclaimed(repo, unclaimed)
}

/// Removes the entries from the list that were first seen before that time, except those that an existing sandbox may
/// have made, and returns their number. A sandbox whose directory is gone exists until its content is saved and its
/// note removed.
pub(super) fn expire(repo: &GitRepo, before: Timestamp) -> Result<usize, RepoError> {
    // Entries of the list are pinned as long as they are in it. Each is tried again: the machine may have been the cause.
    let there = sound(repo, &entries(repo)?, &BTreeSet::new())?.commits;
    // Locked, so that no sandbox is made or removed between the check and the removal.
    let _serial = locked(&repo.state.worktrees);
    let in_use = checked_out(repo)?;
    let notes = Note::all(repo)?;
    let is_used = |branch: &str| {
        let full = format!("refs/heads/{branch}");
        in_use.iter().any(|(used, _)| *used == full) || is_noted(&notes, branch)
    };
    let before_it = listed(repo)?;
    let sighted = &before_it.sighted;
    // Entries that ours does not have stay, and so do those that were added since.
    let stays = |line: &str| {
        let entry = stash_entry(line);
        let entry = entry.filter(|it| there.contains(&it.commit));
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
    pin_unclaimed(repo, &before_it, &there, |_| false)?;
    expire_pins(repo, before, &notes)?;
    let gone = repo.their_refs().thin_log(STASH, stays)?;
    // A later entry is pinned when it is first seen.
    let is_gone = |owner: &str| !is_noted(&notes, owner);
    pin_unclaimed(repo, &listed(repo)?, &there, is_gone)?;
    Ok(gone)
}

/// Returns the number of the next new entry. After a failure, which is logged, every entry may be of any sandbox.
pub(super) fn next(repo: &GitRepo) -> u64 {
    match listed(repo) {
        Ok(listed) => listed.sighted.next,
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

/// Returns the present list, and the records of its entries.
fn listed(repo: &GitRepo) -> Result<Listed, RepoError> {
    judged(repo, entries(repo)?)
}

/// Records new entries and their owners.
fn judged(repo: &GitRepo, entries: Vec<Stash>) -> Result<Listed, RepoError> {
    // The branch of an unreadable note is unknown, and its sandbox may have made any entry: owners are searched again later.
    let notes = match entries.is_empty() {
        true => Some(Vec::new()),
        false => Note::all(repo).ok(),
    };
    let (is_known, notes) = (notes.is_some(), notes.unwrap_or_default());
    let branches = notes.iter().map(|note| (note.branch.as_str(), note));
    let branches: HashMap<&str, &Note> = branches.collect();
    let floor = notes.iter().map(|note| note.stashes_from).max();
    // The message is typed, with any branch in it. The name of the raider beside it is git's, from its session's environment.
    let named = |entry: &Stash| {
        let told = *branches.get(branch_of(&entry.message)?)?;
        let note = stash_owner::named_by(entry, &notes).unwrap_or(told);
        Some((note.stashes_from, note.branch.clone()))
    };
    let new = stash_first_seen::new(repo, entries.iter().map(|entry| &entry.commit))?;
    let is_open = |entry: &&Stash| new.contains(&entry.commit) && named(entry).is_none();
    let open: Vec<&Stash> = entries.iter().filter(is_open).collect();
    let owners = stash_owner::owners(repo, &open, &notes)?;
    let claims = entries.iter().map(|entry| {
        let (id, named) = (&entry.commit, named(entry));
        let claim = Claim {
            named,
            seems: owners.told.get(id).cloned(),
            is_unsure: !is_known || owners.unsure.contains(id),
        };
        (id.clone(), claim)
    });
    let sighted = sight(repo, floor.unwrap_or_default(), claims)?;
    Ok(Listed { entries, sighted })
}

/// Returns the stash entries of this sandbox: of those that were first seen since it was made, the ones that are its own by the
/// evidence of [`super::stash_owner`], and the ones without an owner whose message names its branch. A sandbox without a note
/// owns the entries that name a branch of it or were made on one of its commits, and that have no other owner.
fn stashes(
    repo: &GitRepo,
    note: Option<&Note>,
    ground: &Ground,
    reflog: &HeadReflog,
) -> Result<Vec<Stash>, RepoError> {
    let Listed {
        mut entries,
        sighted,
    } = listed(repo)?;
    if let Some(note) = note {
        entries.retain(|stash| {
            let sight = sighted.of(&stash.commit);
            let is_since = sight.is_none_or(|sight| sight.nth >= note.stashes_from);
            let owner = sight.and_then(|it| it.owner.as_deref());
            is_since && owner.or_else(|| branch_of(&stash.message)) == Some(&note.branch)
        });
        return Ok(entries);
    }
    let ids: Vec<Oid> = entries.iter().map(|entry| entry.commit.clone()).collect();
    let parents = parents(repo, &ids)?.of;
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

/// Returns the commits that commits were made on.
#[derive(Default)]
pub(super) struct Parents {
    /// The first parents that exist and that git can read.
    pub(super) of: HashMap<Oid, Oid>,
    /// The commits that were not examined, because too many others cannot be read.
    pub(super) unseen: BTreeSet<Oid>,
}

/// Reads the first parents. An unreadable commit does not hide others.
pub(super) fn parents(repo: &GitRepo, ids: &[Oid]) -> Result<Parents, RepoError> {
    let mut found = Parents::default();
    find_parents(repo, ids, &mut { SPLITS_MAX }, &mut found)?;
    Ok(found)
}

fn find_parents(
    repo: &GitRepo,
    ids: &[Oid],
    splits: &mut usize,
    found: &mut Parents,
) -> Result<(), RepoError> {
    if ids.is_empty() {
        return Ok(());
    }
    let list: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let listed = repo
        .lens()
        .args(["rev-list", "--no-walk=unsorted", "--parents"])
        .args(["--ignore-missing", "--stdin"])
        .stdin(list)
        .run();
    let pair = |line: &str| {
        let mut ids = line.split(' ').map(Oid::new);
        Some((ids.next()?.ok()?, ids.next()?.ok()?))
    };
    match listed {
        Ok(told) => found.of.extend(told.text().lines().filter_map(pair)),
        Err(why) if !is_damage(&why) => return Err(why),
        Err(_) if ids.len() == 1 => {}
        Err(_) if *splits == 0 => found.unseen.extend(ids.iter().cloned()),
        Err(_) => {
            *splits -= 1;
            let (some, others) = ids.split_at(ids.len() / 2);
            find_parents(repo, some, splits, found)?;
            find_parents(repo, others, splits, found)?;
        }
    }
    Ok(())
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
