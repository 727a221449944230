//! Stash entries, of which all sandboxes of a rig share one list: any of them can take another's out of it. Each is
//! pinned in ours for as long as its sandbox is there, so that it is saved with that whatever becomes of the list.
//!
//! A nuke saves the entries of its branch without taking them out of the list: they go when they were kept for as
//! long as salvage is. An agent writes what an entry says of its time: what counts is when it was first seen here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use jiff::Timestamp;

use super::admin::{Note, stamp};
use super::branches::checked_out;
use super::ground::{Ground, ground};
use super::rig::{GitRepo, oid};
use super::sighted::{Sighted, sight};
use super::traces::{self, HeadReflog};
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::ports::repo::RepoError;

/// The list.
const STASH: &str = "refs/stash";
/// Where entries are pinned in ours: `<rig>/<raider>/<incarnation>/list`. There may be any number of entries, and every
/// look at a sandbox reads all refs of ours: one ref names a commit whose first parent is another such commit, and whose
/// others are entries. An earlier version had a ref for each entry, which has its commit's name in place of `list`.
pub(super) const PINS: &str = "refs/horde/stash/";
/// The last part of that.
const LIST: &str = "list";
/// The place of those that no sandbox's branch names: whoever made them, another agent may take them out of the list.
const UNCLAIMED: &str = "refs/horde/stash/unclaimed/";
/// So many entries are parents of one commit.
const CHUNK: usize = 1_000;

/// A stash entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stash {
    /// Its commit.
    pub(super) commit: Oid,
    /// Its message.
    pub(super) message: String,
}

/// Where the entries of a sandbox are pinned.
fn place(raider: &RaiderId, incarnation: Incarnation) -> String {
    format!("{PINS}{}/{}/{incarnation}/", raider.rig, raider.name)
}

/// Pins the entries that a sandbox has now, where the list is another than when it was last looked at. A failure is logged
/// and no error: the next patrol tries again.
pub(super) fn keep(repo: &GitRepo, sandbox: &Path) {
    let log = repo.theirs().join("logs").join(STASH);
    let Some(now) = stamp(&log) else {
        return;
    };
    if repo.stash_seen().get(sandbox) == Some(&now) {
        return;
    }
    let kept = || {
        let ground = ground(repo, sandbox)?;
        let reflog = traces::reflogs(repo, &ground)?;
        let entries = whole(repo, &ground, &reflog)?.0;
        pin(repo, ground.note.as_ref(), &entries)?;
        pin_unclaimed(repo)
    };
    match kept() {
        Ok(()) => drop(repo.stash_seen().insert(sandbox.to_owned(), now)),
        // It has no entries that could be told from others, which its ailment says.
        Err(RepoError::Broken { .. } | RepoError::NotFound(_)) => {}
        Err(why) => {
            let sandbox = sandbox.display();
            tracing::warn!(%sandbox, %why, "its stash entries cannot be pinned");
        }
    }
}

/// Returns the entries of a sandbox, taken into ours, and those that are damaged.
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

/// Pins the entries that name no branch of a sandbox that is there or was when they came to light.
fn pin_unclaimed(repo: &GitRepo) -> Result<(), RepoError> {
    let (entries, sighted) = listed(repo)?;
    let is_unclaimed = |id: &Oid| sighted.of(id).is_some_and(|sight| !sight.is_named);
    let ids = entries.into_iter().map(|entry| entry.commit);
    let ids: BTreeSet<Oid> = ids.filter(is_unclaimed).collect();
    let mut there: BTreeSet<Oid> = traces::kinds(repo, &ids)?
        .into_iter()
        .map(|it| it.0)
        .collect();
    for damaged in repo.take_whole(&there.iter().cloned().collect::<Vec<_>>())? {
        there.remove(&damaged);
    }
    pin_in(repo, UNCLAIMED, &there)
}

fn pin_in(repo: &GitRepo, place: &str, entries: &BTreeSet<Oid>) -> Result<(), RepoError> {
    if entries.is_empty() {
        return Ok(());
    }
    // What another thread pins at the same time is not to be lost.
    let _serial = repo.stash_seen();
    let pinned = pinned(repo, place)?;
    let new: BTreeSet<&Oid> = entries.difference(&pinned.entries).collect();
    if new.is_empty() {
        return Ok(());
    }
    // The last commit is written again with more parents, unless it has enough.
    let (mut last, mut open) = match (&pinned.tip, pinned.last) {
        (Some(_), Some((before, last))) if last.len() < CHUNK => (before, last),
        (Some(tip), _) => (tip.clone(), Vec::new()),
        (None, _) => (write(repo, &[])?, Vec::new()),
    };
    open.extend(new.into_iter().cloned());
    for chunk in open.chunks(CHUNK) {
        last = write(repo, &[std::slice::from_ref(&last), chunk].concat())?;
    }
    let name = format!("{place}{LIST}");
    let was = pinned.tip.as_ref().map_or("", Oid::as_str);
    let git = repo.git();
    git.args(["update-ref", &name, last.as_str(), was])
        .run()
        .map(drop)
}

/// Writes a commit that holds others. Its time is that of the pin: what an entry says is the agent's word.
fn write(repo: &GitRepo, parents: &[Oid]) -> Result<Oid, RepoError> {
    let store = |kind: &str, text: String| {
        let git = repo
            .git()
            .args(["hash-object", "-t", kind, "-w", "--stdin"]);
        oid(&git.stdin(text).run()?.text())
    };
    let tree = store("tree", String::new())?;
    let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
    let now = Timestamp::now().as_second();
    let by = format!("horde <stash@horde.invalid> {now} +0000");
    let head = format!("tree {tree}\n{parents}author {by}\ncommitter {by}\n");
    store("commit", head + "\nStash entries of a sandbox\n")
}

/// What is pinned for a sandbox.
#[derive(Default)]
struct Pinned {
    entries: BTreeSet<Oid>,
    /// Those that an earlier version pinned, each with a ref.
    single: BTreeSet<Oid>,
    /// What the ref names.
    tip: Option<Oid>,
    /// The commit before that, and its entries.
    last: Option<(Oid, Vec<Oid>)>,
}

fn pinned(repo: &GitRepo, place: &str) -> Result<Pinned, RepoError> {
    let mut found = Pinned::default();
    for (id, name) in repo.refs()? {
        match name.strip_prefix(place) {
            Some(LIST) => found.tip = Some(id),
            Some(_) => drop(found.single.insert(id)),
            None => {}
        }
    }
    let Some(tip) = &found.tip else {
        return Ok(found);
    };
    let git = repo
        .git()
        .args(["rev-list", "--first-parent", "--format=%H %P"]);
    let told = git.arg(tip.as_str()).run()?.text();
    for line in told.lines().filter(|line| !line.starts_with("commit ")) {
        let mut parents = line.split(' ').skip(1).filter(|id| !id.is_empty());
        let Some(before) = parents.next() else {
            continue;
        };
        let entries = parents.map(oid).collect::<Result<Vec<_>, _>>()?;
        found.entries.extend(entries.iter().cloned());
        found.last.get_or_insert((oid(before)?, entries));
    }
    Ok(found)
}

/// The entries of a sandbox that the list has no more. Its owner may have taken them back: that cannot be told.
pub(super) fn dropped(
    repo: &GitRepo,
    note: Option<&Note>,
    listed: &[Stash],
) -> Result<Vec<Oid>, RepoError> {
    let Some(note) = note else {
        return Ok(Vec::new());
    };
    let listed: BTreeSet<&Oid> = listed.iter().map(|entry| &entry.commit).collect();
    let pinned = pinned(repo, &place(&note.raider, note.incarnation))?;
    let mut dropped = &pinned.entries | &pinned.single;
    dropped.retain(|commit| !listed.contains(commit));
    Ok(dropped.into_iter().collect())
}

/// Removes the pins of a sandbox that is gone. What it had is saved.
pub(super) fn unpin(
    repo: &GitRepo,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<(), RepoError> {
    let place = place(raider, incarnation);
    drop_pins(repo, |name, _| name.starts_with(&place)).map(drop)
}

fn drop_pins(repo: &GitRepo, goes: impl Fn(&str, &Oid) -> bool) -> Result<usize, RepoError> {
    let mut refs = repo.refs()?;
    refs.retain(|(id, name)| name.starts_with(PINS) && goes(name, id));
    let script: String = refs
        .iter()
        .map(|(id, name)| format!("delete {name} {id}\n"))
        .collect();
    if !script.is_empty() {
        let git = repo.git().args(["update-ref", "--stdin"]).stdin(script);
        git.run()?;
    }
    Ok(refs.len())
}

/// Removes the pins of sandboxes that were forgotten without being discarded, from before that time.
fn expire_pins(repo: &GitRepo, before: Timestamp, notes: &[Note]) -> Result<(), RepoError> {
    let living: Vec<String> = notes
        .iter()
        .map(|note| place(&note.raider, note.incarnation))
        .collect();
    let is_gone = |name: &str| !living.iter().any(|place| name.starts_with(place));
    join_pins(repo, is_gone)?;
    let made = |id: &Oid| Some(repo.known()?.committed(id)?.1);
    drop_pins(repo, |name, id| {
        let is_old = |made| made < before.as_second();
        is_gone(name) && name.ends_with(LIST) && made(id).is_some_and(is_old)
    })
    .map(drop)
}

/// Pins anew what an earlier version pinned with a ref for each entry: such a ref says nothing of when that was, and the
/// entry what its agent wanted.
fn join_pins(repo: &GitRepo, is_gone: impl Fn(&str) -> bool) -> Result<(), RepoError> {
    let mut single: BTreeMap<String, BTreeSet<Oid>> = BTreeMap::new();
    for (id, name) in repo.refs()? {
        let place = name.strip_suffix(id.as_str());
        if let Some(place) = place.filter(|place| place.starts_with(PINS) && is_gone(place)) {
            single.entry(place.to_owned()).or_default().insert(id);
        }
    }
    for (place, entries) in &single {
        pin_in(repo, place, entries)?;
        let is_single = |name: &str, id: &Oid| name == format!("{place}{id}");
        drop_pins(repo, is_single)?;
    }
    Ok(())
}

/// Takes the entries that were first seen before that time out of the list, but those that a living sandbox may have made,
/// and says how many. One whose directory is gone lives until what it had is saved, and its note is removed.
pub(super) fn expire(repo: &GitRepo, before: Timestamp) -> Result<usize, RepoError> {
    // No sandbox is made or removed between the question and the act.
    let _serial = repo.worktrees();
    let in_use = checked_out(repo)?;
    let notes = Note::all(repo)?;
    let is_used = |branch: &str| {
        let full = format!("refs/heads/{branch}");
        in_use.iter().any(|(used, _)| *used == full)
            || notes.iter().any(|note| note.branch == branch)
    };
    let sighted = listed(repo)?.1;
    // What cannot be read stays, and so does what came since.
    let stays = |line: &str| {
        let entry = stash_entry(line);
        let sight = entry.as_ref().and_then(|it| sighted.of(&it.commit));
        let (Some(entry), Some(sight)) = (entry, sight) else {
            return true;
        };
        // One that named the branch of a sandbox was that one's.
        let may_be = |note: &Note| !sight.is_named && note.stashes_from <= sight.nth;
        let living = branch_of(&entry.message).is_some_and(is_used) || notes.iter().any(may_be);
        living || sight.at >= before.as_second()
    };
    // What the list has is pinned for as long as it has that.
    pin_unclaimed(repo)?;
    expire_pins(repo, before, &notes)?;
    let gone = repo.their_refs().thin_log(STASH, stays)?;
    pin_unclaimed(repo)?;
    Ok(gone)
}

/// The number of the next entry that comes to light. A failure is logged: each entry may be of any sandbox then.
pub(super) fn next(repo: &GitRepo) -> u64 {
    match listed(repo) {
        Ok((_, sighted)) => sighted.next,
        Err(why) => {
            tracing::warn!(rig = %repo.name(), %why, "the stash entries that are there cannot be noted");
            0
        }
    }
}

/// The list, newest first, and since when its entries are known.
fn listed(repo: &GitRepo) -> Result<(Vec<Stash>, Sighted), RepoError> {
    let log = repo.their_refs().reflog(STASH)?;
    let entries = String::from_utf8_lossy(&log);
    let entries: Vec<_> = entries.lines().rev().filter_map(stash_entry).collect();
    // A note that cannot be read names no branch, and its sandbox may have made anything.
    let notes = match entries.is_empty() {
        true => Vec::new(),
        false => Note::all(repo).unwrap_or_default(),
    };
    let branch = |note: &'_ Note| (note.branch.clone(), note.stashes_from);
    let branches: HashMap<String, u64> = notes.iter().map(branch).collect();
    let floor = notes.iter().map(|note| note.stashes_from).max();
    let named = entries.iter().map(|entry| {
        let from = branch_of(&entry.message).and_then(|branch| branches.get(branch));
        (entry.commit.clone(), from.copied())
    });
    let sighted = sight(repo, floor.unwrap_or_default(), named)?;
    Ok((entries, sighted))
}

/// The stash entries that belong to this sandbox: of those that came to light since it exists, the ones whose message names
/// one of its branches, and the ones that named no sandbox's branch and were made on a commit that it had.
fn stashes(
    repo: &GitRepo,
    note: Option<&Note>,
    ground: &Ground,
    reflog: &HeadReflog,
) -> Result<Vec<Stash>, RepoError> {
    let (entries, sighted) = listed(repo)?;
    let ids: BTreeSet<Oid> = entries.iter().map(|entry| entry.commit.clone()).collect();
    let parents = parents(repo, &ids)?;
    let is_own = |branch: &str| {
        ground.branch.as_deref() == Some(branch)
            || note.is_some_and(|note| note.branch == branch)
            || reflog.branches.contains(branch)
    };
    let since = note.map_or(0, |note| note.stashes_from);
    let is_here = |entry: &Oid| {
        let on = parents.get(entry);
        on.is_some_and(|on| reflog.commits.contains(on) || ground.head.as_ref() == Some(on))
    };
    let ours = entries.into_iter().filter(|stash| {
        let sight = sighted.of(&stash.commit);
        let names_own = branch_of(&stash.message).is_some_and(is_own);
        let is_named = sight.is_some_and(|sight| sight.is_named);
        sight.is_none_or(|sight| sight.nth >= since)
            && (names_own || (!is_named && is_here(&stash.commit)))
    });
    Ok(ours.collect())
}

/// Reads `<old> <new> <name> <address> <time> <zone>\t<message>`. The time is the word of an agent.
fn stash_entry(line: &str) -> Option<Stash> {
    let (head, message) = line.split_once('\t').unwrap_or((line, ""));
    let commit = Oid::new(head.split(' ').nth(1)?).ok()?;
    Some(Stash {
        commit,
        message: message.to_owned(),
    })
}

/// The first parents of commits, as far as they are there.
fn parents(repo: &GitRepo, ids: &BTreeSet<Oid>) -> Result<HashMap<Oid, Oid>, RepoError> {
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

/// `WIP on <branch>: ...` or `On <branch>: ...`; none for other messages and a detached HEAD.
fn branch_of(message: &str) -> Option<&str> {
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
