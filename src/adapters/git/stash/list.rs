//! Reads the list of stash entries. All sandboxes of a rig write to it, and one agent can add any number of entries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use super::super::admin::{Note, failed, free_name};
use super::super::ref_lock::RefLock;
use super::super::rig::GitRepo;
use super::{STASH, Stash, list_stamp};
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of entries that are looked at: each look costs time for each, and an agent can list any number.
const ENTRIES_MAX: usize = 2_000;
/// The number of entries of each raider that are looked at, however many others are newer.
const OF_EACH_MAX: usize = 100;
/// The number of bytes of the list that are read. A longer one is set aside.
const LOG_MAX: u64 = 32 << 20;
/// The number of entries of a committer that are copied one by one, if all of them cannot be copied at once.
const NEWEST: usize = 5;
/// The number of committers of whom entries are copied one by one.
const COMMITTERS: usize = 20;
/// Returns the newest entries of the list and the newest of each raider with a sandbox, newest first. Older ones were
/// pinned when they were among those.
pub(in super::super) fn entries(repo: &GitRepo) -> Result<Vec<Stash>, RepoError> {
    let log = repo.their_refs().reflog_end(STASH, LOG_MAX)?;
    let log = String::from_utf8_lossy(&log);
    let all: Vec<Stash> = log.lines().rev().filter_map(stash_entry).collect();
    if all.len() <= ENTRIES_MAX {
        return Ok(all);
    }
    // Without a note its raider's entries would be left out, and count as none.
    let notes = Note::all(repo)?;
    let raiders = notes.iter().map(|note| (note.raider.to_string(), 0));
    Ok(newest(all, raiders.collect()))
}

/// Leaves out entries of a list that is too long: one agent may add any number while another one makes one.
fn newest(all: Vec<Stash>, mut raiders: HashMap<String, usize>) -> Vec<Stash> {
    let numbered = all.into_iter().enumerate();
    let kept = numbered.filter(|(nth, entry)| {
        let count = raiders.get_mut(&entry.by);
        let is_newest = count.is_some_and(|count| {
            *count += 1;
            *count <= OF_EACH_MAX
        });
        *nth < ENTRIES_MAX || is_newest
    });
    kept.map(|(_, entry)| entry).collect()
}

/// Sets a list aside that is too large, after its entries were pinned: git reads all of it in each `git stash`. A list that
/// has another stamp than `examined` stays: an entry may have been added.
pub(super) fn set_large_aside(repo: &GitRepo, examined: &Option<String>) -> Result<(), RepoError> {
    let (dir, list) = (repo.theirs(), Path::new("logs").join(STASH));
    let found = fs::symlink_metadata(dir.join(&list));
    let Some(found) = found.ok().filter(|it| it.is_file() && it.len() > LOG_MAX) else {
        return Ok(());
    };
    // git adds an entry while it holds this lock.
    let lock = RefLock::take(dir, &dir.join(STASH))?;
    if lock.is_none() || list_stamp(repo) != *examined {
        return Ok(());
    }
    // Not beside it: git takes every file there for a reflog.
    let aside = free_name(dir, "stash-list.aside");
    let to = aside.strip_prefix(dir).unwrap_or(&aside);
    let renamed = beneath::rename(dir, &list, to);
    renamed.map_err(|error| failed("cannot rename", &dir.join(&list), &error))?;
    repo.mended(format!(
        "the list of stash entries in {} had {} bytes, and is set aside as {}; the newest entries of each raider are kept",
        dir.display(),
        found.len(),
        aside.display()
    ));
    Ok(())
}

/// Returns the newest entries of each committer, [`NEWEST`] of each and [`COMMITTERS`] committers: one agent may list
/// any number of entries, and another one's may be gone soon.
pub(super) fn newest_of_each<'s>(listed: &'s [Stash], ids: &BTreeSet<Oid>) -> Vec<&'s Oid> {
    let mut of_each: BTreeMap<&str, usize> = BTreeMap::new();
    let mut newest = Vec::new();
    for entry in listed.iter().filter(|entry| ids.contains(&entry.commit)) {
        let many = of_each.len() >= COMMITTERS && !of_each.contains_key(&*entry.by);
        let count = of_each
            .entry(if many { "" } else { &entry.by })
            .or_default();
        if *count < NEWEST {
            newest.push(&entry.commit);
            *count += 1;
        }
    }
    newest
}

/// Parses `<old> <new> <name> <address> <time> <zone>\t<message>`. The time is an agent's claim.
pub(super) fn stash_entry(line: &str) -> Option<Stash> {
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

#[cfg(test)]
mod tests {
    use super::super::super::testing::Rigged;
    use super::*;

    /// An entry that was added after the look would be in no list.
    #[test]
    fn large_list_is_set_aside_only_as_it_was_examined() {
        let rigged = Rigged::new();
        let (repo, list) = (&rigged.repo, Path::new("logs").join(STASH));
        let list = repo.theirs().join(list);
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        fs::create_dir_all(repo.theirs().join("refs")).unwrap();
        let made = fs::File::create(&list).unwrap();
        made.set_len(LOG_MAX + 1).unwrap();
        let examined = list_stamp(repo);
        made.set_len(LOG_MAX + 2).unwrap();
        set_large_aside(repo, &examined).unwrap();
        assert!(list.exists(), "it changed since");
        let examined = list_stamp(repo);
        let lock = RefLock::take(repo.theirs(), &repo.theirs().join(STASH));
        set_large_aside(repo, &examined).unwrap();
        assert!(list.exists(), "a git is adding an entry");
        drop(lock);
        set_large_aside(repo, &examined).unwrap();
        assert!(!list.exists());
    }

    #[test]
    fn entry_of_a_raider_is_looked_at_however_many_others_are_newer() {
        let entry = |n: usize, by: &str| Stash {
            commit: Oid::new(format!("{n:040x}")).unwrap(),
            message: String::new(),
            by: by.to_owned(),
        };
        let mut listed: Vec<Stash> = (0..5_000).map(|n| entry(n, "flood")).collect();
        listed.push(entry(5_000, "horde/raiders/Toast"));
        listed.push(entry(5_001, "made up"));
        let toast = HashMap::from([("horde/raiders/Toast".to_owned(), 0)]);
        let kept = newest(listed.clone(), toast);
        assert_eq!(kept.len(), ENTRIES_MAX + 1);
        assert_eq!(kept.last(), listed.get(5_000));
    }

    /// An agent that lists many entries must not delay the copy of another one's.
    #[test]
    fn entries_of_each_committer_are_copied_before_the_rest_of_one() {
        let entry = |n: usize, by: &str| Stash {
            commit: Oid::new(format!("{n:040x}")).unwrap(),
            message: String::new(),
            by: by.to_owned(),
        };
        let mut listed: Vec<Stash> = (0..1_000).map(|n| entry(n, "flood")).collect();
        listed.extend((1_000..1_010).map(|n| entry(n, "Toast")));
        listed.extend((2_000..2_100).map(|n| entry(n, &format!("made up {n}"))));
        let ids: BTreeSet<Oid> = listed.iter().map(|entry| entry.commit.clone()).collect();
        let tried = BTreeSet::from([listed[1_000].commit.clone()]);
        let newest = newest_of_each(&listed, &(&ids - &tried));
        let place = |id: &Oid| usize::from_str_radix(id.as_str(), 16).unwrap();
        let of = |range: std::ops::Range<usize>| {
            let within = newest.iter().filter(|id| range.contains(&place(id)));
            within.count()
        };
        assert_eq!((of(0..1_000), of(1_000..1_010)), (NEWEST, NEWEST));
        assert!(!newest.contains(&&listed[1_000].commit));
        assert_eq!(of(2_000..2_100), COMMITTERS - 2 + NEWEST);
    }
}
