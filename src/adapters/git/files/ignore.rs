//! Evaluates ignore rules without git: the `.gitignore` files of the walked directories, if they are regular files of
//! a sane size, and lists that agents cannot write. A tracked path is never ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use super::super::bytes::{self, RelPath};
use super::open::{Named, Root};
use super::paths::{self, Paths};
use super::pattern::List;
use super::walk::{Entry, Kind, Pass, Sieve, has_part};

/// The largest list that is read.
const LIST_MAX: u64 = 256 * 1024;
/// The number of patterns that are matched against one path, in addition to those for whole sandboxes: it limits the
/// cost of an agent's lists.
const PATTERNS_MAX: usize = 10_000;

/// The name of a list in a directory.
const NAME: &[u8] = b".gitignore";

/// Rules for a whole sandbox, the weakest first: the user's own, then those of the rig's checkout.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Excludes(Vec<List>);

impl Excludes {
    /// Reads lists of rules. Skips missing ones.
    pub(in super::super) fn read<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        let texts = files.into_iter().filter_map(|file| {
            let is_file = fs::metadata(file).is_ok_and(|meta| meta.is_file());
            is_file.then(|| fs::read(file).ok()).flatten()
        });
        Self(texts.map(|text| List::read(&text)).collect())
    }
}

/// The rules that decide which entries of a sandbox are taken.
#[derive(Debug)]
pub(in super::super) struct Rules<'a> {
    excludes: &'a Excludes,
    /// Rules of the directories on the way to the one that was entered last.
    lists: BTreeMap<RelPath, Rc<List>>,
    /// Directories whose lists git reads from the index.
    absent: BTreeSet<RelPath>,
    /// Paths in HEAD or in an index.
    tracked: &'a Paths<'a>,
    /// Paths that are left out.
    skipped: BTreeSet<RelPath>,
    /// Directories that rules hide, and that are walked for their tracked files.
    mixed: BTreeSet<RelPath>,
    /// The directory that was entered last.
    here: Here<'a>,
}

/// The state that all entries of a directory share.
#[derive(Debug, Default)]
struct Here<'a> {
    /// Set for a git directory and everything below.
    in_git: bool,
    /// Set when rules hide the directory, or one above it, although it has tracked files.
    in_hidden: bool,
    /// The lists that apply, the deepest first, each with the offset at which a path is compared with it.
    lists: Vec<(usize, Rc<List>)>,
    /// The tracked paths below it.
    tracked: &'a [&'a [u8]],
}

impl<'a> Rules<'a> {
    /// Makes rules from these excludes and from the lists in the directories.
    pub(in super::super) fn new(excludes: &'a Excludes, tracked: &'a Paths<'a>) -> Self {
        Self {
            excludes,
            lists: BTreeMap::new(),
            absent: BTreeSet::new(),
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

    /// Notes that a path of the index is not checked out (`skip-worktree`): git reads such a list from the index.
    pub(in super::super) fn left_out(&mut self, path: &[u8]) {
        let dir = path.strip_suffix(NAME);
        let dir = dir.filter(|dir| dir.is_empty() || dir.ends_with(b"/"));
        let dir = dir.map(|dir| dir.strip_suffix(b"/").unwrap_or(dir));
        self.absent.extend(dir.map(<[u8]>::to_vec));
    }

    fn is_tracked(&self, path: &[u8], is_dir: bool) -> bool {
        let tracked = self.here.tracked;
        paths::contains(tracked, path) || (is_dir && !paths::below(tracked, path).is_empty())
    }

    /// Returns true if rules hide the path itself. The deepest directory's rules win.
    fn is_hidden(&self, path: &[u8], is_dir: bool) -> bool {
        let mut lists = self.here.lists.iter();
        let said = lists.find_map(|(from, list)| list.hides(&path[*from..], is_dir));
        let all = || self.excludes.0.iter().rev();
        said.or_else(|| all().find_map(|list| list.hides(path, is_dir)))
            .unwrap_or(false)
    }

    /// Reads the list of a directory. If a list exists that cannot be read, its rules are unknown, and nothing below
    /// is hidden.
    fn read(&mut self, root: &Root, dir: &[u8], is_there: bool) {
        let path = bytes::below(dir, NAME);
        let list = match is_there {
            true => read(root, &path),
            false => self.absent.contains(dir).then(List::shows_all),
        };
        let Some(list) = list else {
            return;
        };
        let known: usize = self.lists.values().map(|list| list.len()).sum();
        let list = match known + list.len() > PATTERNS_MAX {
            true => List::shows_all(),
            false => list,
        };
        self.lists.insert(dir.to_vec(), Rc::new(list));
    }

    /// Returns the lists of a directory and of those above it, the deepest first.
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

/// Reads a list; none if it is not a file, which git does not read either.
fn read(root: &Root, path: &[u8]) -> Option<List> {
    let is_file = |found| Entry::of(path.to_vec(), &found).kind == Kind::File;
    if let Ok(found) = root.stat(path)
        && !found.is_some_and(is_file)
    {
        return None;
    }
    let mut text = Vec::new();
    let file = root.file(path);
    let whole = file.and_then(|file| file.take(LIST_MAX + 1).read_to_end(&mut text));
    Some(match whole {
        Ok(size) if size as u64 <= LIST_MAX => List::read(&text),
        Ok(_) | Err(_) => List::shows_all(),
    })
}

/// Returns a directory and those above it except the top, the deepest first.
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
        let on_the_way = |above: &RelPath| {
            let rest = dir.strip_prefix(above.as_slice());
            above.is_empty() || rest.is_some_and(|rest| rest.starts_with(b"/"))
        };
        self.lists.retain(|above, _| on_the_way(above));
        if !in_git {
            self.read(root, dir, names.iter().any(|(name, _)| name == NAME));
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
        // Rules are not made for files in a git directory.
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
        let files = walked.entries.into_iter().filter(|it| it.kind != Kind::Dir);
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
    fn unread_ignore_list_hides_no_file_and_overrides_others() {
        let long = format!("!kept.log\n#{}\n", "x".repeat(LIST_MAX as usize));
        let many = "a\n".repeat(PATTERNS_MAX / 2);
        let files = [
            ("a.log", ""),
            ("long/.gitignore", long.as_str()),
            ("long/deep/kept.log", ""),
            ("many/.gitignore", many.as_str()),
            ("many/b.log", ""),
            ("many/more/.gitignore", many.as_str()),
            ("many/more/.x/.gitignore", "*\n"),
            ("many/more/.x/c.log", ""),
        ];
        let (taken, hidden) = found(&files, &[], "*.log\n");
        assert_eq!(hidden, ["a.log", "many/b.log"]);
        assert!(taken.iter().any(|path| path == "long/deep/kept.log"));
        assert!(taken.iter().any(|path| path == "many/more/.x/c.log"));
    }

    #[test]
    fn ignore_list_outside_a_sparse_checkout_may_override_others() {
        let dir = crate::testing::scratch();
        for name in ["docs/deep/kept.log", "other/a.log"] {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), "").unwrap();
        }
        fs::write(dir.path().join(".gitignore"), "*.log\n").unwrap();
        let (excludes, tracked) = (Excludes::default(), Paths::default());
        let mut rules = Rules::new(&excludes, &tracked);
        for path in ["docs/.gitignore", "other/x.gitignore", "other/a"] {
            rules.left_out(path.as_bytes());
        }
        let walked = walk(&Root::open(dir.path()).unwrap(), &mut rules).unwrap();
        assert_eq!(walked.hidden, [b"other/a.log"]);
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
