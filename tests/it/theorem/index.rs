//! Reads git's index files by their bytes: versions 2 to 4, and those in two parts.

use std::fs;
use std::path::Path;

use git2::Oid;

/// An entry of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Empty in an entry that replaces one of a shared part.
    pub path: Vec<u8>,
    pub id: Oid,
    mode: u32,
    flags: u16,
    extended: u16,
}

/// The stage, and `assume-unchanged`.
const FLAGS: u16 = 0x3000 | 0x8000;
/// A second word of flags follows.
const EXTENDED: u16 = 0x4000;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;
/// The length of an entry before its path: stat data, mode, id and flags.
const FIXED: usize = 62;

impl Entry {
    /// Returns the stage; above 0 in a conflict.
    pub fn stage(&self) -> u16 {
        (self.flags & 0x3000) >> 12
    }

    /// Returns whether git is told not to look at the file.
    pub fn is_flagged(&self) -> bool {
        self.flags & 0x8000 != 0 || self.is_skipped()
    }

    /// Returns whether the entry wants no file.
    pub fn is_skipped(&self) -> bool {
        self.extended & SKIP_WORKTREE != 0
    }

    /// Makes the entry want a file.
    pub fn unskip(&mut self) {
        self.extended &= !SKIP_WORKTREE;
    }

    /// Returns whether the file is only promised.
    pub fn is_promised(&self) -> bool {
        self.extended & INTENT_TO_ADD != 0
    }

    /// Returns whether it names the commit of another repository.
    pub fn is_submodule(&self) -> bool {
        self.mode == 0o160_000
    }
}

/// Returns the entries of the index of a git directory, including those of a shared part. A missing index has none.
pub fn entries(git_dir: &Path) -> Vec<Entry> {
    let Ok(file) = super::look::read(&git_dir.join("index")) else {
        return Vec::new();
    };
    let (entries, rest) = parse(&file).unwrap_or_default();
    // The extensions end with a checksum.
    let mut rest = rest
        .get(..rest.len().saturating_sub(20))
        .unwrap_or_default();
    while let Some((head, tail)) = rest.split_at_checked(8) {
        let length = number(head, 4) as usize;
        if head.starts_with(b"link") && length > 20 {
            let id = Oid::from_bytes(&tail[..20]).expect("an id");
            if id.is_zero() {
                // Written under `index.skipHash`: git finds no shared part, and the names of its entries are lost to it.
                return entries;
            }
            let shared = fs::read(git_dir.join(format!("sharedindex.{id}"))).unwrap_or_default();
            let shared = parse(&shared).unwrap_or_default().0;
            return joined(entries, shared, &tail[20..length]);
        }
        rest = tail.get(length..).unwrap_or_default();
    }
    entries
}

/// Joins both parts: some entries of the shared one are deleted, others replaced by nameless ones.
fn joined(entries: Vec<Entry>, mut shared: Vec<Entry>, bitmaps: &[u8]) -> Vec<Entry> {
    let (deleted, rest) = bitmap(bitmaps);
    let (replaced, _) = bitmap(rest);
    let (mut all, new): (Vec<_>, Vec<_>) = entries.into_iter().partition(|it| !it.path.is_empty());
    for (at, by) in replaced.into_iter().zip(new) {
        let path = std::mem::take(&mut shared[at].path);
        shared[at] = Entry { path, ..by };
    }
    let kept = shared.into_iter().enumerate();
    all.extend(
        kept.filter(|(at, _)| !deleted.contains(at))
            .map(|(_, it)| it),
    );
    all.sort_by(|one, other| (&one.path, one.stage()).cmp(&(&other.path, other.stage())));
    all
}

/// Returns the positions that are set in a compressed bitmap (EWAH), and the remaining bytes.
fn bitmap(bytes: &[u8]) -> (Vec<usize>, &[u8]) {
    let length = 8 * number(bytes, 4) as usize;
    let words = bytes[8..8 + length].chunks_exact(8);
    let mut words = words.map(|word| u64::from_be_bytes(word.try_into().expect("eight bytes")));
    let (mut set, mut at) = (Vec::new(), 0);
    while let Some(marker) = words.next() {
        let same = ((marker >> 1) & 0xffff_ffff) as usize * 64;
        if marker & 1 == 1 {
            set.extend(at..at + same);
        }
        at += same;
        for word in words.by_ref().take((marker >> 33) as usize) {
            set.extend(
                (0..64)
                    .filter(|bit| word >> bit & 1 == 1)
                    .map(|bit| at + bit),
            );
            at += 64;
        }
    }
    (set, &bytes[8 + length + 4..])
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the entries, and the remaining bytes.
fn parse(file: &[u8]) -> Option<(Vec<Entry>, &[u8])> {
    if file.len() < 12 || !file.starts_with(b"DIRC") {
        return None;
    }
    let packed = number(file, 4) == 4;
    let mut entries: Vec<Entry> = Vec::new();
    let mut rest = &file[12..];
    for _ in 0..number(file, 8) {
        let flags = short(rest.get(..FIXED)?, 60);
        let mut head = FIXED;
        let mut extended = 0;
        if flags & EXTENDED != 0 {
            extended = short(rest.get(..head + 2)?, head);
            head += 2;
        }
        let mut path = Vec::new();
        if packed {
            // The number of bytes at the end of the path before that are left out.
            let (cut, length) = varint(&rest[head..])?;
            head += length;
            let before = entries.last().map(|entry| &entry.path[..]);
            let before = before.unwrap_or_default();
            path.extend_from_slice(&before[..before.len().checked_sub(cut)?]);
        }
        let end = rest[head..].iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(&rest[head..head + end]);
        entries.push(Entry {
            path,
            id: Oid::from_bytes(&rest[40..60]).ok()?,
            mode: number(rest, 24),
            flags: flags & FLAGS,
            extended: extended & (SKIP_WORKTREE | INTENT_TO_ADD),
        });
        let length = match packed {
            true => head + end + 1,
            false => (head + end + 8) & !7,
        };
        rest = rest.get(length..)?;
    }
    Some((entries, rest))
}

/// Parses a number of any length, as git writes offsets. Returns its length, too.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (n, byte) in bytes.iter().enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, n + 1));
        }
        value += 1;
    }
    None
}
