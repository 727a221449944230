//! Ignore rules, read by us: the `.gitignore` files of the directories that are walked, where they are
//! regular files of a sane size, and lists that an agent does not share with others. A path that is tracked
//! is never ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use super::super::bytes::{self, RelPath};
use super::open::{Named, Root};
use super::paths::{self, Paths};
use super::pattern::List;
use super::walk::{Pass, Sieve, has_part};

/// A longer list is not read: what it would hide counts as work.
const LIST_MAX: u64 = 1024 * 1024;

/// The name of such a list.
const NAME: &[u8] = b".gitignore";

/// Rules that hold in a whole sandbox, the weakest first: the user's own, those of the rig's checkout.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Excludes(Vec<List>);

impl Excludes {
    /// Reads lists of rules. One that is not there says nothing.
    pub(in super::super) fn read<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        let texts = files.into_iter().filter_map(|file| {
            let is_file = fs::metadata(file).is_ok_and(|meta| meta.is_file());
            is_file.then(|| fs::read(file).ok()).flatten()
        });
        Self(texts.map(|text| List::read(&text)).collect())
    }
}

/// What is taken of a sandbox.
#[derive(Debug)]
pub(in super::super) struct Rules<'a> {
    excludes: &'a Excludes,
    /// Rules of directories.
    lists: BTreeMap<RelPath, Rc<List>>,
    /// Paths that HEAD or an index has.
    tracked: &'a Paths<'a>,
    /// Paths that are left out.
    skipped: BTreeSet<RelPath>,
    /// Directories that rules hide, and that are taken for what is tracked in them.
    mixed: BTreeSet<RelPath>,
    /// The directory that was entered last.
    here: Here<'a>,
}

/// What is the same for all entries of a directory.
#[derive(Debug, Default)]
struct Here<'a> {
    /// It is a git directory, or lies in one.
    in_git: bool,
    /// Rules hide it, or a directory that it is in, although something tracked is there.
    in_hidden: bool,
    /// The lists that have a say, the deepest first, and where in a path begins what each is asked of.
    lists: Vec<(usize, Rc<List>)>,
    /// What is tracked below it.
    tracked: &'a [&'a [u8]],
}

impl<'a> Rules<'a> {
    /// These excludes, and what the directories say.
    pub(in super::super) fn new(excludes: &'a Excludes, tracked: &'a Paths<'a>) -> Self {
        Self {
            excludes,
            lists: BTreeMap::new(),
            tracked,
            skipped: BTreeSet::new(),
            mixed: BTreeSet::new(),
            here: Here::default(),
        }
    }

    /// Leaves a path out.
    pub(in super::super) fn skip(&mut self, path: impl Into<RelPath>) {
        self.skipped.insert(path.into());
    }

    fn is_tracked(&self, path: &[u8], is_dir: bool) -> bool {
        let tracked = self.here.tracked;
        paths::contains(tracked, path) || (is_dir && !paths::below(tracked, path).is_empty())
    }

    /// Whether rules hide the path itself: those of the deepest directory count first.
    fn is_hidden(&self, path: &[u8], is_dir: bool) -> bool {
        let mut lists = self.here.lists.iter();
        let said = lists.find_map(|(from, list)| list.hides(&path[*from..], is_dir));
        let all = || self.excludes.0.iter().rev();
        said.or_else(|| all().find_map(|list| list.hides(path, is_dir)))
            .unwrap_or(false)
    }

    /// Reads the list of a directory. One that cannot be read says nothing.
    fn read(&mut self, root: &Root, dir: &[u8]) {
        let Ok(file) = root.file(&bytes::below(dir, NAME)) else {
            return;
        };
        let mut text = Vec::new();
        let read = file.take(LIST_MAX + 1).read_to_end(&mut text);
        if read.is_ok() && text.len() as u64 <= LIST_MAX {
            self.lists.insert(dir.to_vec(), Rc::new(List::read(&text)));
        }
    }

    /// The lists of a directory and of those that it is in, the deepest first.
    fn lists_of(&self, dir: &[u8]) -> Vec<(usize, Rc<List>)> {
        if self.lists.is_empty() {
            return Vec::new();
        }
        let list = |above: &[u8]| {
            let from = above.len() + usize::from(!above.is_empty());
            Some((from, Rc::clone(self.lists.get(above)?)))
        };
        ways(dir).chain([&b""[..]]).filter_map(list).collect()
    }
}

/// A directory, and those that it is in, the top apart, the deepest first.
fn ways(dir: &[u8]) -> impl Iterator<Item = &[u8]> {
    let first = Some(dir).filter(|dir| !dir.is_empty());
    std::iter::successors(first, |dir| {
        let cut = dir.iter().rposition(|byte| *byte == b'/')?;
        Some(&dir[..cut])
    })
}

impl Sieve for Rules<'_> {
    fn enter(&mut self, root: &Root, dir: &[u8], names: &[Named]) {
        let in_git = has_part(dir);
        if !in_git && names.iter().any(|(name, _)| name == NAME) {
            self.read(root, dir);
        }
        self.here = Here {
            in_git,
            in_hidden: !self.mixed.is_empty() && ways(dir).any(|dir| self.mixed.contains(dir)),
            lists: self.lists_of(dir),
            tracked: self.tracked.below(dir),
        };
    }

    fn judge(&mut self, path: &[u8], is_dir: bool) -> Pass {
        if self.skipped.contains(path) {
            return Pass::Skip;
        }
        // What lies in a git directory no rule was made for.
        if self.here.in_git || path == b".git" || path.ends_with(b"/.git") {
            return Pass::Take;
        }
        let tracked = self.is_tracked(path, is_dir);
        if tracked && !is_dir {
            return Pass::Take;
        }
        let hidden = self.here.in_hidden || self.is_hidden(path, is_dir);
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
        let tracked = tracked.iter().map(|name| name.as_bytes().to_vec());
        let tracked: Vec<RelPath> = tracked.collect();
        let tracked = Paths::of(&tracked);
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
        let (excludes, tracked) = (Excludes::default(), Paths::default());
        let mut rules = Rules::new(&excludes, &tracked);
        let walked = walk(&Root::open(dir.path()).unwrap(), &mut rules).unwrap();
        assert_eq!(walked.entries.len(), 1);
    }
}
