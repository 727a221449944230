//! Reads the list of stash entries. All sandboxes of a rig write to it, and one agent can add any number of entries.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::path::Path;

use super::super::admin::Note;
use super::super::ref_lock::RefLock;
use super::super::rig::GitRepo;
use super::super::share;
use super::{STASH, Stash, list_stamp};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of entries that are looked at: each look costs time for each, and an agent can list any number.
const ENTRIES_MAX: usize = 2_000;
/// The number of entries of each raider that are looked at, however many others are newer.
const OF_EACH_MAX: usize = 100;
/// The size of a list, in bytes, above which it is set aside.
const LOG_MAX: u64 = 32 << 20;
/// The number of entries of a committer that are copied one by one, if all of them cannot be copied at once.
const NEWEST: usize = 5;
/// The number of committers of whom entries are copied one by one.
const COMMITTERS: usize = 20;
/// Returns the newest entries of the list and the newest of each raider with a sandbox, newest first. Older ones were
/// pinned when they were among those.
pub(in super::super) fn entries(repo: &GitRepo) -> Result<Vec<Stash>, RepoError> {
    let notes = Note::all(repo);
    let raiders = notes.as_deref().unwrap_or_default().iter();
    let raiders: Vec<String> = raiders.map(|note| note.raider.to_string()).collect();
    let mut newest = Newest::of(&raiders);
    repo.their_refs()
        .each_reflog_line(STASH, &mut |line, is_first| {
            if is_first {
                newest = Newest::of(&raiders);
            }
            newest.add(stash_entry(&String::from_utf8_lossy(line)));
        })?;
    if newest.is_complete() {
        return Ok(newest.listed());
    }
    // Without a note its raider's entries would be left out, and count as none.
    notes.map(|_| newest.listed())
}

/// The entries of a list of any length that are looked at: one agent may add any number while another one makes one.
struct Newest {
    all: VecDeque<(u64, Stash)>,
    of_each: HashMap<String, VecDeque<(u64, Stash)>>,
    count: u64,
}

impl Newest {
    fn of(raiders: &[String]) -> Self {
        let of_each = raiders
            .iter()
            .map(|raider| (raider.clone(), VecDeque::new()));
        Self {
            all: VecDeque::new(),
            of_each: of_each.collect(),
            count: 0,
        }
    }

    fn add(&mut self, entry: Option<Stash>) {
        let Some(entry) = entry else { return };
        let push = |kept: &mut VecDeque<(u64, Stash)>, max, entry| {
            kept.push_back((self.count, entry));
            if kept.len() > max {
                kept.pop_front();
            }
        };
        if let Some(own) = self.of_each.get_mut(&entry.by) {
            push(own, OF_EACH_MAX, entry.clone());
        }
        push(&mut self.all, ENTRIES_MAX, entry);
        self.count += 1;
    }

    /// Returns true if no entry was left out.
    fn is_complete(&self) -> bool {
        self.count == self.all.len() as u64
    }

    fn listed(self) -> Vec<Stash> {
        let own = self.of_each.into_values().flatten();
        let all: BTreeMap<u64, Stash> = own.chain(self.all).collect();
        all.into_values().rev().collect()
    }
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
    let Some(aside) = share::set_aside(dir, &list)? else {
        return Ok(());
    };
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
        let toast = "horde/raiders/Toast";
        let mut newest = Newest::of(&[toast.to_owned()]);
        newest.add(Some(entry(0, "made up")));
        (1..200).for_each(|n| newest.add(Some(entry(n, toast))));
        assert!(newest.is_complete());
        (200..5_000).for_each(|n| newest.add(Some(entry(n, "flood"))));
        assert!(!newest.is_complete());
        let kept = newest.listed();
        assert_eq!(kept.len(), ENTRIES_MAX + OF_EACH_MAX);
        assert_eq!(kept.first(), Some(&entry(4_999, "flood")));
        assert_eq!(
            kept.last(),
            Some(&entry(100, toast)),
            "the newest of its own"
        );
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
