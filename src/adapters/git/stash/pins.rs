//! Pins stash entries in ours, as long as their sandbox exists or salvage is kept.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::super::admin::Note;
use super::super::object_copy::looked_up;
use super::super::rig::{GitRepo, oid};
use super::{COMMIT, Stash};
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::ports::repo::RepoError;

/// The prefix of the pins in ours: `<rig>/<raider>/<incarnation>/list`. There may be any number of entries, and every
/// look at a sandbox reads all refs of ours. Therefore one ref names a chain of commits: the first parent is the
/// previous commit of the chain, the other parents are entries.
pub(in super::super) const PINS: &str = "refs/horde/stash/";
/// The last part of the ref's name.
const LIST: &str = "list";
/// The place of entries without a known sandbox, by the day on which they were pinned: another agent may remove them
/// from the list. The entries of a day expire together, without regard to later ones.
const UNCLAIMED: &str = "refs/horde/stash/unclaimed/";
/// The prefix of the refs of salvage: one names each entry that is saved.
const SALVAGE: &str = "refs/horde/salvage/";
/// The largest number of entries in one commit.
const CHUNK: usize = 1_000;

/// Returns the place of the pins of a sandbox.
pub(super) fn place(raider: &RaiderId, incarnation: Incarnation) -> String {
    format!("{PINS}{}/{}/{incarnation}/", raider.rig, raider.name)
}

/// Returns the entries that salvage has.
pub(super) fn saved(repo: &GitRepo) -> Result<BTreeSet<Oid>, RepoError> {
    let refs = repo.refs()?.into_iter();
    let saved = refs.filter(|(_, name)| name.starts_with(SALVAGE));
    Ok(saved.map(|it| it.0).collect())
}

/// Pins entries that ours has as those of no known sandbox, unless they are pinned so already.
pub(super) fn pin_as_unclaimed(
    repo: &GitRepo,
    mut entries: BTreeSet<Oid>,
) -> Result<(), RepoError> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut refs = repo.refs()?;
    refs.retain(|(_, name)| name.starts_with(UNCLAIMED));
    for pinned in entries_of(repo, &refs)? {
        entries.remove(&pinned);
    }
    let today = Timestamp::now().strftime("%Y-%m-%d");
    pin_in(repo, &format!("{UNCLAIMED}{today}/"), &entries)
}

/// Returns the entries that refs pin.
pub(in super::super) fn entries_of(
    repo: &GitRepo,
    refs: &[(Oid, String)],
) -> Result<BTreeSet<Oid>, RepoError> {
    let links = chain(repo, refs.iter().map(|it| it.0.clone()))?;
    Ok(links.into_iter().flat_map(|(_, entries)| entries).collect())
}

/// The number of tries to pin entries while another thread pins others in the same place.
const TRIES: usize = 10;

/// Pins entries that ours has in a place. Does not lock: if another thread was faster, its pins are read and the pin
/// is tried again.
pub(super) fn pin_in(
    repo: &GitRepo,
    place: &str,
    entries: &BTreeSet<Oid>,
) -> Result<(), RepoError> {
    again_if_outrun(|| try_pin(repo, place, entries))
}

/// Tries a change of a list again while other threads are faster.
fn again_if_outrun(change: impl Fn() -> Result<(), RepoError>) -> Result<(), RepoError> {
    let mut done = change();
    for _ in 1..TRIES {
        match &done {
            Err(why) if was_outrun(why) => done = change(),
            _ => break,
        }
    }
    done
}

/// Returns true if another thread had the ref at that moment, or has moved it. git has no exit code of its own for that.
fn was_outrun(why: &RepoError) -> bool {
    matches!(why, RepoError::Git { stderr, .. } if stderr.contains("cannot lock ref"))
}

fn try_pin(repo: &GitRepo, place: &str, entries: &BTreeSet<Oid>) -> Result<(), RepoError> {
    if entries.is_empty() {
        return Ok(());
    }
    let pinned = pinned(repo, place)?;
    let new = entries.difference(&pinned.entries).cloned().collect();
    // The kinds are read from ours: with a parent of another kind, git could walk no ref of ours.
    let new = commits(repo, &new)?;
    if new.is_empty() {
        return Ok(());
    }
    // The last commit is written again with more parents, unless it is full.
    let (mut last, mut open) = match (&pinned.tip, pinned.last) {
        (Some(_), Some((before, last))) if last.len() < CHUNK => (before, last),
        (Some(tip), _) => (tip.clone(), Vec::new()),
        (None, _) => (write(repo, &[])?, Vec::new()),
    };
    open.extend(new);
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

/// Returns the commits of ours among these objects.
///
/// # Errors
/// The kind of one of them cannot be read: that says nothing about it.
fn commits(repo: &GitRepo, ids: &BTreeSet<Oid>) -> Result<BTreeSet<Oid>, RepoError> {
    let (mut found, mut asked) = (BTreeSet::new(), Vec::new());
    let known = repo.known();
    for id in ids {
        match known.as_ref().and_then(|known| known.kind(id)) {
            Some(COMMIT) => drop(found.insert(id.clone())),
            Some(_) => {}
            None => asked.push(id),
        }
    }
    for (id, kind) in looked_up(repo.git(), "%(objecttype)", asked)? {
        match kind.as_deref() {
            Some(COMMIT) => drop(found.insert(id)),
            Some("tree" | "blob" | "tag") => {}
            _ => {
                let what = format!("the kind of an object of ours is unknown: {id}");
                return Err(RepoError::Failed(what));
            }
        }
    }
    Ok(found)
}

/// Writes a commit that holds others. Its time is that of the pin: the times in an entry are the agent's claim.
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

/// The pins of a sandbox.
#[derive(Default)]
struct Pinned {
    entries: BTreeSet<Oid>,
    /// The commit that the ref names.
    tip: Option<Oid>,
    /// The previous commit of the chain, and the entries of this one.
    last: Option<(Oid, Vec<Oid>)>,
}

fn pinned(repo: &GitRepo, place: &str) -> Result<Pinned, RepoError> {
    let list = format!("{place}{LIST}");
    let tip = repo.refs()?.into_iter().find(|(_, name)| *name == list);
    let mut found = Pinned {
        tip: tip.map(|it| it.0),
        ..Pinned::default()
    };
    for (before, entries) in chain(repo, found.tip.clone().into_iter())? {
        found.entries.extend(entries.iter().cloned());
        found.last.get_or_insert((before, entries));
    }
    Ok(found)
}

/// Follows the chains of commits from these tips. Returns for each commit the previous one and its entries.
fn chain(
    repo: &GitRepo,
    tips: impl Iterator<Item = Oid>,
) -> Result<Vec<(Oid, Vec<Oid>)>, RepoError> {
    let tips: String = tips.map(|tip| format!("{tip}\n")).collect();
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    let list = ["rev-list", "--first-parent", "--format=%H %P", "--stdin"];
    let told = repo.git().args(list).stdin(tips).run()?.text();
    let mut found = Vec::new();
    for line in told.lines().filter(|line| !line.starts_with("commit ")) {
        let mut parents = line.split(' ').skip(1).filter(|id| !id.is_empty());
        if let Some(before) = parents.next() {
            let entries = parents.map(oid).collect::<Result<Vec<_>, _>>()?;
            found.push((oid(before)?, entries));
        }
    }
    Ok(found)
}

/// Returns the entries of a sandbox that are no longer in the list. The sandbox's agent may have removed them itself:
/// that cannot be told.
pub(in super::super) fn dropped(
    repo: &GitRepo,
    note: Option<&Note>,
    listed: &[Stash],
) -> Result<Vec<Oid>, RepoError> {
    let Some(note) = note else {
        return Ok(Vec::new());
    };
    let listed: BTreeSet<&Oid> = listed.iter().map(|entry| &entry.commit).collect();
    let pinned = pinned(repo, &place(&note.raider, note.incarnation))?;
    let mut dropped = pinned.entries;
    dropped.retain(|commit| !listed.contains(commit));
    Ok(dropped.into_iter().collect())
}

/// Removes the pins of a removed sandbox. An entry that no salvage has stays pinned as unclaimed, because an entry may appear
/// after the last measurement.
pub(in super::super) fn unpin(
    repo: &GitRepo,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<(), RepoError> {
    let place = place(raider, incarnation);
    again_if_outrun(|| {
        let mut refs = repo.refs()?;
        refs.retain(|(_, name)| name.starts_with(&place));
        let left = &entries_of(repo, &refs)? - &saved(repo)?;
        pin_as_unclaimed(repo, left)?;
        // Fails where another thread has pinned one more since they were read.
        delete(repo, &refs)
    })
}

/// Deletes refs of ours, all or none: each must still be what it was.
fn delete(repo: &GitRepo, refs: &[(Oid, String)]) -> Result<(), RepoError> {
    if refs.is_empty() {
        return Ok(());
    }
    let lines = refs
        .iter()
        .map(|(id, name)| format!("delete {name} {id}\n"));
    let git = repo.git().args(["update-ref", "--stdin"]);
    git.stdin(lines.collect::<String>()).run().map(drop)
}

/// Removes the pins from before that time of sandboxes that were forgotten without being discarded.
pub(super) fn expire_pins(
    repo: &GitRepo,
    before: Timestamp,
    notes: &[Note],
) -> Result<(), RepoError> {
    let living: Vec<String> = notes
        .iter()
        .map(|note| place(&note.raider, note.incarnation))
        .collect();
    let is_gone = |name: &str| !living.iter().any(|place| name.starts_with(place));
    let made = |id: &Oid| Some(repo.known()?.committed(id)?.1);
    let is_old = |made| made < before.as_second();
    let mut refs = repo.refs()?;
    refs.retain(|(id, name)| {
        name.starts_with(PINS) && is_gone(name) && made(id).is_some_and(is_old)
    });
    delete(repo, &refs)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::super::super::rig::locked;
    use super::super::super::testing::Rigged;
    use super::*;

    /// A patrol that reads the list does not wait for git.
    #[test]
    fn pins_of_two_threads_are_all_kept_and_nothing_is_locked_meanwhile() {
        let rigged = Rigged::new();
        let repo = &rigged.repo;
        let commits: Vec<Oid> = (0..12)
            .map(|n| rigged.commit(&rigged.base, &[("f", &*format!("{n}\n"))]))
            .collect();
        let place = format!("{PINS}horde/Toast/1/");
        std::thread::scope(|scope| {
            let _looks = locked(&repo.state.stash_seen);
            let (told, heard) = mpsc::channel();
            for half in commits.chunks(6) {
                let (told, place) = (told.clone(), &place);
                scope.spawn(move || {
                    for commit in half {
                        let one = BTreeSet::from([commit.clone()]);
                        told.send(pin_in(repo, place, &one)).unwrap();
                    }
                });
            }
            for _ in &commits {
                let pinned = heard.recv_timeout(Duration::from_secs(20));
                pinned.expect("it waits for the lock").unwrap();
            }
        });
        let pinned = pinned(repo, &place).unwrap();
        assert_eq!(pinned.entries, commits.into_iter().collect());
    }
}
