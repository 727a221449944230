//! Checks the text of a tree as a remote does that checks objects.

use std::collections::BTreeSet;

use super::super::bytes;
use super::Fault;
use super::names::{is_dot_git, is_read_by_git};
use crate::domain::ids::Oid;

/// The longest name of a tree entry that a remote accepts.
const NAME_MAX: usize = 4_096;

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: Vec<u8>,
    pub id: Oid,
    /// The mode. git keeps the low bits of one that is too long.
    pub mode: u32,
    /// Set when the mode begins with a zero.
    is_padded: bool,
}

/// The kind of object that a mode stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum EntryKind {
    Tree,
    Blob,
    /// A commit of another repository, as git takes every mode that it does not know.
    Gitlink,
}

impl Entry {
    /// Returns the kind by the type bits alone: git takes `40755` for a directory, too.
    pub(super) fn kind(&self) -> EntryKind {
        match self.mode & 0o170_000 {
            0o040_000 => EntryKind::Tree,
            0o100_000 | 0o120_000 => EntryKind::Blob,
            _ => EntryKind::Gitlink,
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind() == EntryKind::Tree
    }

    /// Returns the key by which git sorts entries.
    fn key(&self) -> Vec<u8> {
        let end: &[u8] = if self.is_dir() { b"/" } else { b"" };
        [&self.name, end].concat()
    }
}

/// Returns the entries of a tree, `<mode> <name>\0<id>` each; none if the tree has another form.
pub(super) fn entries(text: &[u8], id_len: usize) -> Option<Vec<Entry>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let (mode, after) = rest.split_at(space);
        let end = after.iter().position(|byte| *byte == 0)?;
        let (name, after) = after[1..].split_at(end - 1);
        let id = after.get(1..=id_len)?;
        rest = &after[id_len + 1..];
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        found.push(Entry {
            name: name.to_vec(),
            id: Oid::new(hex).ok()?,
            mode: octal(mode)?,
            is_padded: mode.starts_with(b"0"),
        });
    }
    Some(found)
}

/// Reads a mode as git does. None if it is empty or has other characters.
fn octal(mode: &[u8]) -> Option<u32> {
    let is_octal = !mode.is_empty() && mode.iter().all(|digit| matches!(digit, b'0'..=b'7'));
    let digits = mode.iter().map(|digit| u32::from(digit - b'0'));
    is_octal.then(|| digits.fold(0, |mode: u32, digit| mode << 3 | digit))
}

/// Returns the faults of a tree with this text.
pub(super) fn tree_faults(text: &[u8], tree: &Oid) -> Vec<Fault> {
    let Some(entries) = entries(text, tree.as_str().len() / 2) else {
        return vec![Fault::whole("one of its trees is garbled")];
    };
    let mut names = BTreeSet::new();
    let mut faults = Vec::new();
    let is_sorted = entries.is_sorted_by(|one, next| one.key() <= next.key());
    if !is_sorted {
        faults.push(Fault::whole("the entries of a tree are not sorted"));
    }
    for entry in entries {
        let is_twice = !names.insert(entry.name.clone());
        let shown = || bytes::lossy(&entry.name);
        // Faults of the tree that has the entry, whatever other trees have it, too.
        if is_twice || entry.is_padded {
            let why = match is_twice {
                true => "twice in a tree",
                false => "has a mode that begins with 0",
            };
            faults.push(Fault::whole(format!("{} {why}", shown())));
            continue;
        }
        let (why, asked) = match entry.name.as_slice() {
            b"" => ("an entry of a tree without a name".to_owned(), None),
            b"." | b".." => (format!("an entry of a tree named {}", shown()), None),
            name if name.contains(&b'/') => (format!("a path for a name: {}", shown()), None),
            name if is_dot_git(name) => {
                let why = "in a tree, which some file systems take for .git";
                (format!("{:?} {why}", shown()), None)
            }
            name if name.len() > NAME_MAX => ("a name that is too long".to_owned(), None),
            _ if entry.id.as_str().bytes().all(|digit| digit == b'0') => {
                (format!("an entry that names nothing: {}", shown()), None)
            }
            name if is_read_by_git(name) => (String::new(), Some(tree.clone())),
            _ => continue,
        };
        faults.push(Fault {
            why,
            entry: Some(entry),
            asked,
        });
    }
    faults
}

/// Returns the fault of an entry whose object is of another kind than its mode says.
pub(super) fn kind_fault(entry: &Entry, kind: &str) -> Option<Fault> {
    let wanted = match entry.kind() {
        EntryKind::Tree => "tree",
        EntryKind::Blob => "blob",
        // The commit is in another repository.
        EntryKind::Gitlink => return None,
    };
    (kind != wanted).then(|| Fault {
        why: format!(
            "{} names a {kind}, not a {wanted}",
            bytes::lossy(&entry.name)
        ),
        entry: Some(entry.clone()),
        asked: None,
    })
}
