//! Ignore rules, read by us: the `.gitignore` files of the directories that are walked, where they are
//! regular files of a sane size, and lists that an agent does not share with others. A path that is tracked
//! is never ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::ops::Bound;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::super::bytes::{self, RelPath};
use super::open::{Named, Root};
use super::walk::{Pass, Sieve, has_part};

/// A longer list is not read: what it would hide counts as work.
const LIST_MAX: u64 = 1024 * 1024;

/// The name of such a list.
const NAME: &[u8] = b".gitignore";

/// Rules that hold in a whole sandbox, the weakest first: the user's own, those of the rig's checkout.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Excludes(Vec<Gitignore>);

impl Excludes {
    /// Reads lists of rules. One that is not there says nothing.
    pub(in super::super) fn read<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        let texts = files.into_iter().filter_map(|file| {
            let is_file = fs::metadata(file).is_ok_and(|meta| meta.is_file());
            is_file.then(|| fs::read(file).ok()).flatten()
        });
        Self(texts.map(|text| rules(&text)).collect())
    }
}

/// What is taken of a sandbox.
#[derive(Debug)]
pub(in super::super) struct Rules<'a> {
    excludes: &'a Excludes,
    /// Rules of directories.
    lists: BTreeMap<RelPath, Gitignore>,
    /// Paths that HEAD or an index has.
    tracked: &'a BTreeSet<RelPath>,
    /// Paths that are left out.
    skipped: BTreeSet<RelPath>,
    /// Directories that rules hide, and that are taken for what is tracked in them.
    mixed: BTreeSet<RelPath>,
}

impl<'a> Rules<'a> {
    /// These excludes, and what the directories say.
    pub(in super::super) fn new(excludes: &'a Excludes, tracked: &'a BTreeSet<RelPath>) -> Self {
        Self {
            excludes,
            lists: BTreeMap::new(),
            tracked,
            skipped: BTreeSet::new(),
            mixed: BTreeSet::new(),
        }
    }

    /// Leaves a path out.
    pub(in super::super) fn skip(&mut self, path: impl Into<RelPath>) {
        self.skipped.insert(path.into());
    }

    fn is_tracked(&self, path: &[u8], is_dir: bool) -> bool {
        if !is_dir {
            return self.tracked.contains(path);
        }
        let below = bytes::below(path, b"");
        let from = (Bound::Included(&below[..]), Bound::Unbounded);
        let mut next = self.tracked.range::<[u8], _>(from);
        self.tracked.contains(path) || next.next().is_some_and(|found| found.starts_with(&below))
    }

    /// Whether rules hide the path itself: those of the deepest directory count first.
    fn is_hidden(&self, path: &[u8], is_dir: bool) -> bool {
        let ask = |list: &Gitignore, name: &[u8]| match list.matched(bytes::path(name), is_dir) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        };
        let mut end = path.len();
        while let Some(cut) = path[..end].iter().rposition(|byte| *byte == b'/') {
            if let Some(list) = self.lists.get(&path[..cut])
                && let Some(hides) = ask(list, &path[cut + 1..])
            {
                return hides;
            }
            end = cut;
        }
        let top = self.lists.get(&b""[..]).into_iter();
        let mut all = top.chain(self.excludes.0.iter().rev());
        all.find_map(|list| ask(list, path)).unwrap_or(false)
    }

    /// Whether a directory on the way to the path is hidden, although something tracked is in it.
    fn is_in_hidden(&self, path: &[u8]) -> bool {
        let mut cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        !self.mixed.is_empty() && cuts.any(|(cut, _)| self.mixed.contains(&path[..cut]))
    }
}

impl Sieve for Rules<'_> {
    fn enter(&mut self, root: &Root, dir: &[u8], names: &[Named]) {
        if has_part(dir) || !names.iter().any(|(name, _)| name == NAME) {
            return;
        }
        let Ok(file) = root.file(&bytes::below(dir, NAME)) else {
            return;
        };
        let mut text = Vec::new();
        let read = file.take(LIST_MAX + 1).read_to_end(&mut text);
        if read.is_ok() && text.len() as u64 <= LIST_MAX {
            self.lists.insert(dir.to_vec(), rules(&text));
        }
    }

    fn judge(&mut self, path: &[u8], is_dir: bool) -> Pass {
        if self.skipped.contains(path) {
            return Pass::Skip;
        }
        // What lies in a git directory no rule was made for.
        if has_part(path) {
            return Pass::Take;
        }
        let tracked = self.is_tracked(path, is_dir);
        if tracked && !is_dir {
            return Pass::Take;
        }
        let hidden = self.is_hidden(path, is_dir) || self.is_in_hidden(path);
        match (hidden, tracked) {
            (false, _) => Pass::Take,
            (true, false) => Pass::Hide,
            (true, true) => {
                self.mixed.insert(path.to_vec());
                Pass::Take
            }
        }
    }
}

/// The rules of a list. A line that is none is passed over.
fn rules(text: &[u8]) -> Gitignore {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut builder = GitignoreBuilder::new("");
    for line in text.split(|byte| *byte == b'\n') {
        // What is no text matches no name, so that nothing is hidden by it.
        if let Ok(line) = std::str::from_utf8(line) {
            let _passed_over = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::super::walk::walk;
    use super::*;

    fn found(
        files: &[(&str, &str)],
        tracked: &[&str],
        excludes: &str,
    ) -> (Vec<String>, Vec<String>) {
        let dir = crate::testing::scratch();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let list = tempfile::NamedTempFile::new().unwrap();
        fs::write(list.path(), excludes).unwrap();
        let excludes = Excludes::read([list.path(), Path::new("/nowhere")]);
        let tracked = tracked
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let mut rules = Rules::new(&excludes, &tracked);
        let walked = walk(&Root::open(dir.path()).unwrap(), &mut rules).unwrap();
        let files = walked
            .entries
            .into_iter()
            .filter(|it| it.kind != super::super::walk::Kind::Dir);
        let text = |path: RelPath| String::from_utf8(path).unwrap();
        (
            files.map(|it| text(it.path)).collect(),
            walked.hidden.into_iter().map(text).collect(),
        )
    }

    #[test]
    fn rules_of_deeper_directories_count_first() {
        let files = [
            (".gitignore", "*.log\n/build/\n!kept.log\n# no rule\n"),
            ("a.log", ""),
            ("kept.log", ""),
            ("build/x", ""),
            ("sub/build/x", ""),
            ("sub/.gitignore", "!b.log\nown\n"),
            ("sub/b.log", ""),
            ("sub/c.log", ""),
            ("sub/own/deep", ""),
            ("own/deep", ""),
            ("local", ""),
        ];
        let (taken, hidden) = found(&files, &[], "local\n");
        let wanted = [
            ".gitignore",
            "kept.log",
            "own/deep",
            "sub/.gitignore",
            "sub/b.log",
            "sub/build/x",
        ];
        assert_eq!(taken, wanted);
        assert_eq!(
            hidden,
            ["a.log", "build/", "local", "sub/c.log", "sub/own/"]
        );
    }

    #[test]
    fn tracked_path_is_never_ignored_and_its_neighbours_are() {
        let files = [
            (".gitignore", "target/\n*.x\n"),
            ("target/tracked", ""),
            ("target/deep/tracked", ""),
            ("target/deep/other", ""),
            ("target/other", ""),
            ("a.x", ""),
            ("b.x", ""),
        ];
        let tracked = ["a.x", "target/tracked", "target/deep/tracked"];
        let (taken, hidden) = found(&files, &tracked, "");
        let wanted = [".gitignore", "a.x", "target/deep/tracked", "target/tracked"];
        assert_eq!(taken, wanted);
        assert_eq!(hidden, ["b.x", "target/deep/other", "target/other"]);
    }

    #[test]
    fn nothing_is_hidden_in_a_git_directory() {
        let files = [
            (".gitignore", "*.log\nlogs\n"),
            ("in/.git/logs/HEAD", ""),
            ("in/.git/a.log", ""),
        ];
        let (taken, hidden) = found(&files, &[], "");
        assert_eq!(taken, [".gitignore", "in/.git/a.log", "in/.git/logs/HEAD"]);
        assert!(hidden.is_empty());
    }

    #[test]
    fn pipe_in_the_place_of_a_list_is_not_waited_for() {
        let dir = crate::testing::scratch();
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&dir.path().join(".gitignore"), mode).unwrap();
        let (excludes, tracked) = (Excludes::default(), BTreeSet::new());
        let mut rules = Rules::new(&excludes, &tracked);
        let walked = walk(&Root::open(dir.path()).unwrap(), &mut rules).unwrap();
        assert_eq!(walked.entries.len(), 1);
    }
}
