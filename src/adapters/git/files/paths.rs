//! Lists sorted by path, queried in their order, so that each is traversed only once.

use std::iter::Peekable;

use super::super::bytes::{self, RelPath};

/// Paths, sorted, without duplicates.
#[derive(Debug, Default)]
pub(in super::super) struct Paths<'a>(Vec<&'a [u8]>);

impl<'a> Paths<'a> {
    /// Sorts paths; concatenated sorted lists are merged.
    pub(in super::super) fn of(paths: impl IntoIterator<Item = &'a RelPath>) -> Self {
        let mut paths: Vec<_> = paths.into_iter().map(Vec::as_slice).collect();
        paths.sort();
        paths.dedup();
        Self(paths)
    }

    /// Returns true if the path is in the list.
    pub(in super::super) fn contains(&self, path: &[u8]) -> bool {
        contains(&self.0, path)
    }

    /// Returns the paths below a directory; the empty path is the top.
    pub(in super::super) fn below(&self, dir: &[u8]) -> &[&'a [u8]] {
        match dir.is_empty() {
            true => &self.0,
            false => below(&self.0, dir),
        }
    }
}

/// Returns true if a path is in a sorted list.
pub(super) fn contains(sorted: &[&[u8]], path: &[u8]) -> bool {
    sorted.binary_search(&path).is_ok()
}

/// Returns the paths of a sorted list that are below a directory.
pub(super) fn below<'s, 'a>(sorted: &'s [&'a [u8]], dir: &[u8]) -> &'s [&'a [u8]] {
    let dir = bytes::below(dir, b"");
    let from = sorted.partition_point(|path| *path < dir.as_slice());
    let rest = &sorted[from..];
    let end = rest.partition_point(|path| path.starts_with(&dir));
    &rest[..end]
}

/// A list sorted by path, queried alongside another one.
pub(in super::super) struct Beside<I: Iterator> {
    list: Peekable<I>,
    /// The last queried path. In debug builds only, because it costs more than the answer.
    #[cfg(debug_assertions)]
    last: RelPath,
}

impl<'a, T, I: Iterator<Item = (&'a RelPath, T)>> Beside<I> {
    pub(in super::super) fn new(sorted: impl IntoIterator<IntoIter = I>) -> Self {
        Self {
            list: sorted.into_iter().peekable(),
            #[cfg(debug_assertions)]
            last: RelPath::new(),
        }
    }

    /// Returns the value for this path, which must come after all paths that were queried before.
    pub(in super::super) fn at(&mut self, path: &[u8]) -> Option<T> {
        #[cfg(debug_assertions)]
        {
            assert!(self.last.as_slice() <= path, "asked out of order");
            self.last = path.to_vec();
        }
        while self
            .list
            .next_if(|(next, _)| next.as_slice() < path)
            .is_some()
        {}
        let found = self.list.next_if(|(next, _)| next.as_slice() == path);
        found.map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(paths: &[&str]) -> Vec<RelPath> {
        paths.iter().map(|path| path.as_bytes().to_vec()).collect()
    }

    #[test]
    fn directory_contains_paths_below_it_and_not_those_with_its_prefix() {
        let (one, two) = (
            owned(&["a", "a.txt", "a/x", "a/y/z", "a0"]),
            owned(&["a/x", "b"]),
        );
        let paths = Paths::of(one.iter().chain(&two));
        assert_eq!(paths.below(b"a"), [&b"a/x"[..], b"a/y/z"]);
        assert_eq!(paths.below(b"a/y"), [&b"a/y/z"[..]]);
        assert_eq!(paths.below(b"").len(), 6);
        assert!(paths.below(b"b").is_empty() && paths.below(b"c").is_empty());
        assert!(paths.contains(b"a/x") && !paths.contains(b"a/"));
    }

    #[test]
    fn list_beside_another_answers_for_each_path_that_both_have() {
        let paths = owned(&["a", "a.b", "a/b", "c"]);
        let mut beside = Beside::new(paths.iter().zip(0..));
        let asked = ["a", "a-", "a/b", "b", "c", "d"].map(|path| beside.at(path.as_bytes()));
        assert_eq!(asked, [Some(0), None, Some(2), None, Some(3), None]);
    }
}
