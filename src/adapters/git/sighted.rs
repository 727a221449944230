//! When entries of the shared stash list were first seen here. What an entry says of its time, and of the branch that it
//! was made on, is the word of an agent: it may be as old as it likes.
//!
//! They are numbered as they come to light. A sandbox's note has the number that was next when it was made: it made none
//! of those before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use jiff::Timestamp;

use super::admin::{failed, write_whole};
use super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// What is known of an entry that is in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sight {
    /// Its number.
    pub(super) nth: u64,
    /// When it was first seen, in seconds since 1970.
    pub(super) at: i64,
    /// Whether it ever named the branch of a sandbox that was there when it came to light.
    pub(super) is_named: bool,
}

/// What is known of all entries in the list.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Sighted {
    /// The number of the next one that comes to light.
    pub(super) next: u64,
    entries: BTreeMap<Oid, Sight>,
}

impl Sighted {
    /// What is known of an entry.
    pub(super) fn of(&self, entry: &Oid) -> Option<Sight> {
        self.entries.get(entry).copied()
    }
}

/// Takes in what the list has now: entries, each with the number that was next when the sandbox was made whose branch it
/// names, if there is such a sandbox. One that the list has no more is forgotten; it is new when it comes back. No number below the floor is given: notes have those.
///
/// # Errors
/// What is known cannot be read or written.
pub(super) fn sight(
    repo: &GitRepo,
    floor: u64,
    listed: impl IntoIterator<Item = (Oid, Option<u64>)>,
) -> Result<Sighted, RepoError> {
    // What another thread has seen at the same time is not to be lost.
    let _serial = repo.stash_seen();
    let known = read(repo)?;
    let now = Timestamp::now().as_second();
    let mut found = Sighted {
        next: known.next.max(floor),
        entries: BTreeMap::new(),
    };
    for (entry, named) in listed {
        let sight = found.entries.get(&entry).or(known.entries.get(&entry));
        let mut sight = sight.copied().unwrap_or_else(|| {
            found.next += 1;
            Sight {
                nth: found.next - 1,
                at: now,
                is_named: false,
            }
        });
        // One from before was planted.
        sight.is_named |= named.is_some_and(|from| from <= sight.nth);
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

/// Reads `next <n>`, and `<oid> <nth> <at> <is named>` for each. A line that is torn is as if it were not there: its entry
/// is new, and stays for longer.
fn read(repo: &GitRepo) -> Result<Sighted, RepoError> {
    let file = file(repo);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
        Err(error) => return Err(failed("cannot read", &file, &error)),
    };
    let mut known = Sighted::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            ["next", next] => known.next = next.parse().unwrap_or_default(),
            [id, nth, at, is_named] => {
                if let (Ok(id), Ok(nth), Ok(at)) = (Oid::new(id), nth.parse(), at.parse()) {
                    let is_named = is_named == "1";
                    known.entries.insert(id, Sight { nth, at, is_named });
                }
            }
            _ => {}
        }
    }
    let numbers: BTreeSet<u64> = known.entries.values().map(|sight| sight.nth).collect();
    let after = numbers.last().map_or(0, |last| last + 1);
    known.next = known.next.max(after);
    Ok(known)
}

fn write(repo: &GitRepo, known: &Sighted) -> Result<(), RepoError> {
    let mut text = format!("next {}\n", known.next);
    for (id, sight) in &known.entries {
        let Sight { nth, at, is_named } = sight;
        text += &format!("{id} {nth} {at} {}\n", u8::from(*is_named));
    }
    let file = file(repo);
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(|error| failed("cannot make", dir, &error))?;
    }
    write_whole(&file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rigged;
    use super::*;

    fn id(digit: char) -> Oid {
        Oid::new(digit.to_string().repeat(40)).unwrap()
    }

    #[test]
    fn entries_are_numbered_as_they_come_to_light() {
        let rigged = Rigged::new();
        let repo = &rigged.repo;
        let see = |ids: &[(char, bool)]| {
            let ids = ids
                .iter()
                .map(|(digit, named)| (id(*digit), named.then_some(1)));
            sight(repo, 0, ids).unwrap()
        };
        let nth = |seen: &Sighted, digit| seen.of(&id(digit)).map(|it| (it.nth, it.is_named));
        assert_eq!(see(&[]).next, 0);
        let seen = see(&[('a', false), ('b', true)]);
        assert_eq!(nth(&seen, 'a'), Some((0, false)));
        assert_eq!(nth(&seen, 'b'), Some((1, true)));
        let planted = see(&[('a', true), ('b', true)]);
        assert_eq!(nth(&planted, 'a'), Some((0, false)), "it was there before");
        // Its sandbox is gone; once it was there.
        let seen = see(&[('b', false), ('c', false)]);
        assert_eq!((nth(&seen, 'b'), seen.next), (Some((1, true)), 3));
        assert_eq!(nth(&seen, 'a'), None);
        let again = see(&[('a', false), ('b', false), ('c', false)]);
        assert_eq!((nth(&again, 'a'), again.next), (Some((3, false)), 4));
        assert_eq!(see(&[]).next, 4, "no number is given twice");
        fs::write(file(repo), "next x\nfoo\n\u{0}").unwrap();
        let torn = sight(repo, 7, [(id('a'), None)]).unwrap();
        assert_eq!(nth(&torn, 'a'), Some((7, false)));
    }
}
