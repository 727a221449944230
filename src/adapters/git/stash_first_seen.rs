//! Records when the entries of the shared stash list were first seen. The time and the branch in an entry are only an
//! agent's claim: an agent can make them as old as it likes.
//!
//! The entries are numbered in the order in which they were first seen. A sandbox's note has the next number at the
//! time when it was made: no entry with a lower number is the sandbox's.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::admin::{At, read_if_there, write_whole};
use super::rig::{GitRepo, locked};
use crate::adapters::city_root;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The record of an entry that is in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FirstSeen {
    /// Its number.
    pub(super) nth: u64,
    /// The time when it was first seen, in seconds since 1970.
    pub(super) at: i64,
    /// The branch of the sandbox that owns it; none if the owner was unknown when the entry was first seen.
    pub(super) owner: Option<String>,
}

/// The evidence for the sandbox that owns an entry.
#[derive(Debug, Default, Clone)]
pub(super) struct Claim {
    /// The branch of the sandbox that an entry names, and the next number when that sandbox was made.
    pub(super) named: Option<(u64, String)>,
    /// The branch of the sandbox that made it by all other evidence. Only used when the entry is first seen.
    pub(super) seems: Option<String>,
    /// Set when the owner is unknown now, because not all sandboxes could be read.
    pub(super) is_unsure: bool,
}

/// The records of all entries in the list.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FirstSeenLog {
    /// The number of the next new entry.
    pub(super) next: u64,
    entries: BTreeMap<Oid, FirstSeen>,
    /// Entries whose owner must be searched again: not all sandboxes could be read.
    open: BTreeSet<Oid>,
}

impl FirstSeenLog {
    /// Returns the record of an entry.
    pub(super) fn of(&self, entry: &Oid) -> Option<&FirstSeen> {
        self.entries.get(entry)
    }

    /// Returns true if every entry has an owner, or is known to have none.
    pub(super) fn is_settled(&self) -> bool {
        self.open.is_empty()
    }
}

/// Returns the entries that are new, or whose owner must be searched again.
pub(super) fn new<'e>(
    repo: &GitRepo,
    listed: impl IntoIterator<Item = &'e Oid>,
) -> Result<BTreeSet<Oid>, RepoError> {
    let _serial = locked(&repo.state.stash_seen);
    let known = read(repo)?;
    let is_new = |id: &&Oid| !known.entries.contains_key(*id) || known.open.contains(*id);
    Ok(listed.into_iter().filter(is_new).cloned().collect())
}

/// Records the current list. An entry that left the list is forgotten; it counts as new when it comes back. No number
/// below `floor` is given, because notes refer to those.
///
/// # Errors
/// When the records cannot be read or written.
pub(super) fn sight(
    repo: &GitRepo,
    floor: u64,
    listed: impl IntoIterator<Item = (Oid, Claim)>,
) -> Result<FirstSeenLog, RepoError> {
    // Locked, so that no entries are lost that another thread sees at the same time.
    let _serial = locked(&repo.state.stash_seen);
    let known = read(repo)?;
    let now = Timestamp::now().as_second();
    // Another thread may have read the list later than this one, and have recorded what came meanwhile.
    let present: BTreeSet<Oid> = super::stash::entries(repo)?
        .into_iter()
        .map(|entry| entry.commit)
        .collect();
    let mut found = FirstSeenLog {
        next: known.next.max(floor),
        ..FirstSeenLog::default()
    };
    for (entry, sight) in &known.entries {
        if present.contains(entry) {
            found.entries.insert(entry.clone(), sight.clone());
            found.open.extend(known.open.get(entry).cloned());
        }
    }
    for (entry, claim) in listed {
        let before = found.entries.get(&entry).or(known.entries.get(&entry));
        let is_new = before.is_none() || known.open.contains(&entry);
        let mut sight = before.cloned().unwrap_or_else(|| {
            found.next += 1;
            FirstSeen {
                nth: found.next - 1,
                at: now,
                owner: None,
            }
        });
        // An entry from before the sandbox only pretends to be its own.
        let named = claim.named.filter(|(from, _)| *from <= sight.nth);
        let seems = claim.seems.filter(|_| is_new);
        sight.owner = sight.owner.or(named.map(|it| it.1)).or(seems);
        if is_new && claim.is_unsure && sight.owner.is_none() {
            found.open.insert(entry.clone());
        }
        found.entries.insert(entry, sight);
    }
    if found != known {
        write(repo, &found)?;
    }
    Ok(found)
}

fn file(repo: &GitRepo) -> PathBuf {
    repo.repo_dir().join("horde/stash.seen")
}

/// Reads the records. Those of a garbled file are lost: its entries count as new, and stay longer.
fn read(repo: &GitRepo) -> Result<FirstSeenLog, RepoError> {
    let text = read_if_there(&file(repo))?.unwrap_or_default();
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

fn write(repo: &GitRepo, known: &FirstSeenLog) -> Result<(), RepoError> {
    let file = file(repo);
    let text = serde_json::to_vec(known).map_err(io::Error::from);
    if let Some(dir) = file.parent() {
        city_root::make_dirs(dir).at("cannot make", dir)?;
    }
    write_whole(&file, &text.at("cannot write", &file)?)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rigged;
    use std::fs;

    use super::*;

    fn id(digit: char) -> Oid {
        Oid::new(digit.to_string().repeat(40)).unwrap()
    }

    fn named(from: u64) -> Claim {
        let named = Some((from, "raider/Toast/gt-1-1".to_owned()));
        Claim {
            named,
            ..Claim::default()
        }
    }

    #[test]
    fn entries_are_numbered_as_they_come_to_light() {
        let rigged = Rigged::new();
        let repo = &rigged.repo;
        let see = |ids: &[(char, bool)]| {
            let claim = |is_named| if is_named { named(1) } else { Claim::default() };
            let ids = ids.iter().map(|(digit, named)| (id(*digit), claim(*named)));
            sight(repo, 0, ids).unwrap()
        };
        let nth = |seen: &FirstSeenLog, digit| {
            let sight = seen.of(&id(digit));
            sight.map(|it| (it.nth, it.owner.is_some()))
        };
        assert_eq!(see(&[]).next, 0);
        let seen = see(&[('a', false), ('b', true)]);
        assert_eq!(nth(&seen, 'a'), Some((0, false)));
        assert_eq!(nth(&seen, 'b'), Some((1, true)));
        let planted = see(&[('a', true), ('b', true)]);
        assert_eq!(nth(&planted, 'a'), Some((0, false)), "it was there before");
        // The sandbox is gone, but existed once.
        let seen = see(&[('b', false), ('c', false)]);
        assert_eq!((nth(&seen, 'b'), seen.next), (Some((1, true)), 3));
        assert_eq!(nth(&seen, 'a'), None);
        let again = see(&[('a', false), ('b', false), ('c', false)]);
        assert_eq!((nth(&again, 'a'), again.next), (Some((3, false)), 4));
        assert_eq!(see(&[]).next, 4, "no number is given twice");
        fs::write(file(repo), "next x\nfoo\n\u{0}").unwrap();
        let torn = sight(repo, 7, [(id('a'), Claim::default())]).unwrap();
        assert_eq!(nth(&torn, 'a'), Some((7, false)));
    }

    /// A later look, when another sandbox may be on the same commit, changes nothing.
    #[test]
    fn owner_of_an_entry_is_the_one_it_seems_to_have_when_it_comes_to_light() {
        let rigged = Rigged::new();
        let repo = &rigged.repo;
        let seems = |branch: Option<&str>| Claim {
            seems: branch.map(str::to_owned),
            ..Claim::default()
        };
        let see = |claim: Claim| {
            let seen = sight(repo, 0, [(id('a'), claim)]).unwrap();
            seen.of(&id('a')).unwrap().owner.clone()
        };
        assert_eq!(new(repo, &[id('a'), id('b')]).unwrap().len(), 2);
        assert_eq!(see(seems(Some("one"))).as_deref(), Some("one"));
        assert_eq!(see(seems(Some("two"))).as_deref(), Some("one"));
        assert_eq!(new(repo, &[id('a'), id('b')]).unwrap(), [id('b')].into());
        sight(repo, 0, []).unwrap();
        assert_eq!(see(seems(None)), None);
        assert_eq!(see(seems(Some("two"))), None);
    }

    /// It was of none for ever.
    #[test]
    fn owner_that_cannot_be_told_when_the_entry_comes_to_light_is_looked_for_again() {
        let rigged = Rigged::new();
        let repo = &rigged.repo;
        let see = |seems: Option<&str>, is_unsure| {
            let seems = seems.map(str::to_owned);
            let claim = Claim {
                seems,
                is_unsure,
                ..Claim::default()
            };
            let seen = sight(repo, 0, [(id('a'), claim)]).unwrap();
            let owner = seen.of(&id('a')).unwrap().owner.clone();
            (owner, seen.is_settled())
        };
        for _ in 0..2 {
            assert_eq!(see(None, true), (None, false));
            assert_eq!(new(repo, &[id('a')]).unwrap(), [id('a')].into());
        }
        assert_eq!(see(Some("one"), false), (Some("one".to_owned()), true));
        assert_eq!(new(repo, &[id('a')]).unwrap(), [].into());
        assert_eq!(see(None, true), (Some("one".to_owned()), true));
    }
}
