//! Checks the commits that a branch brings: a remote must take them and git must be able to merge them. An agent can
//! make others with plumbing, for example a tree with an entry `.git`, which a checkout may take for a repository, or
//! a commit without an author. A remote that checks objects refuses such commits; one that does not hands them to
//! every clone.
//!
//! Refused is the same as with `receive.fsckObjects`: every error of `git fsck --strict` in a tree or a commit. git
//! itself checks `.gitmodules` and `.gitattributes`. Only commits that no remote has are checked, and of their trees
//! only the new entries: an agent is not responsible for faults that the project already had.

mod commit;

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use self::commit::commit_fault;
use super::admin::{self, Note};
use super::in_process::InProcessRepo;
use super::rig::{GitRepo, oid};
use super::{bytes, facts};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of commits that this process follows itself. Above this number, git follows them.
const COMMITS_MAX: usize = 2_000;
/// The longest name of a tree entry that a remote accepts.
const NAME_MAX: usize = 4_096;

/// A fault of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    /// The description for people.
    why: String,
    /// The entry of a tree that has the fault: its name and its object.
    entry: Option<(Vec<u8>, Oid)>,
    /// A tree that only git can judge.
    asked: Option<Oid>,
}

impl Fault {
    /// A fault of an object as a whole.
    fn whole(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            entry: None,
            asked: None,
        }
    }
}

/// Checks the commits of a head that no remote has.
///
/// # Errors
/// [`RepoError::Rejected`] says which commit it is, and why.
pub(super) fn check(
    repo: &GitRepo,
    sandbox: &Path,
    head: &Oid,
    target: &str,
) -> Result<(), RepoError> {
    repo.take(std::slice::from_ref(head))?;
    let tip = repo.target_tip(target)?;
    let base = Note::read(repo, sandbox).map(|note| note.base);
    let old: Vec<Oid> = [tip.clone(), base].into_iter().flatten().collect();
    let known = repo.known();
    let listed = known
        .as_ref()
        .map(|known| commits(repo, known, head, &old))
        .transpose()?;
    let (found, has_root) = match (&known, listed.flatten()) {
        (Some(known), Some(commits)) => {
            let is_root = |id| {
                known
                    .raw(id)
                    .is_some_and(|it| named(&it, b"parent ").is_empty())
            };
            let has_root = commits.iter().any(is_root);
            (CheckedTrees::of(known).search(&commits), has_root)
        }
        _ => (by_git(repo, head, &old)?, true),
    };
    // A project without any commit takes any first commit.
    if let Some(tip) = tip.filter(|_| has_root)
        && facts::merge_base(repo, head, Some(&tip))?.is_none()
    {
        return Err(RepoError::Rejected(format!(
            "{}: it shares no history with {target}",
            head.short()
        )));
    }
    for (id, fault) in found {
        if is_old(repo, &fault, &old)? || is_known(repo, &id, &old)? {
            continue;
        }
        let why = match &fault.asked {
            Some(tree) => strict(repo, tree)?,
            None => Some(fault.why),
        };
        if let Some(why) = why {
            return Err(RepoError::Rejected(format!("{}: {why}", id.short())));
        }
    }
    Ok(())
}

/// Returns git's complaint about a tree, by the checks of a remote. Includes the files in the tree that git reads.
fn strict(repo: &GitRepo, tree: &Oid) -> Result<Option<String>, RepoError> {
    let packed = repo.git().args(["pack-objects", "--stdout", "-q"]);
    let packed = packed.stdin(format!("{tree}\n")).run()?.stdout;
    let scratch = admin::scratch(repo)?;
    let file = scratch.path().join("asked.pack");
    admin::write_whole(&file, &packed)?;
    let told = repo.git().args(["index-pack", "--strict"]).arg(&file);
    let told = told.output()?;
    let said = told
        .stderr
        .lines()
        .find(|line| line.starts_with("error: object "));
    match said.and_then(|line| line.splitn(3, ": ").nth(2)) {
        _ if told.ok() => Ok(None),
        Some(why) => Ok(Some(why.trim_end().to_owned())),
        None => Err(RepoError::Failed(format!(
            "git index-pack: {}",
            told.stderr.trim_end()
        ))),
    }
}

/// The commits of a head that no remote has, the head first. None if there are too many to follow here.
fn commits(
    repo: &GitRepo,
    known: &InProcessRepo,
    head: &Oid,
    old: &[Oid],
) -> Result<Option<Vec<Oid>>, RepoError> {
    let refs = repo.refs()?.into_iter();
    let remote = refs.filter(|(_, name)| name.starts_with("refs/remotes/"));
    let mut done: HashSet<Oid> = remote.map(|it| it.0).collect();
    done.extend(old.iter().flat_map(|old| known.recent(old)));
    let (mut open, mut found) = (vec![head.clone()], Vec::new());
    while let Some(id) = open.pop() {
        if !done.insert(id.clone()) {
            continue;
        }
        if found.len() == COMMITS_MAX {
            return Ok(None);
        }
        let Some(text) = known.raw(&id) else {
            return Ok(None);
        };
        open.extend(named(&text, b"parent "));
        found.push(id);
    }
    Ok(Some(found))
}

/// The objects that lines of a commit's head name.
fn named(commit: &[u8], key: &[u8]) -> Vec<Oid> {
    let lines = commit.split(|byte| *byte == b'\n');
    let head = lines.take_while(|line| !line.is_empty());
    let ids = head.filter_map(|line| line.strip_prefix(key));
    ids.filter_map(|id| Oid::new(bytes::lossy(id)).ok())
        .collect()
}

/// The trees that were checked already.
struct CheckedTrees<'k> {
    known: &'k InProcessRepo,
    trees: HashSet<Oid>,
}

impl<'k> CheckedTrees<'k> {
    fn of(known: &'k InProcessRepo) -> Self {
        let trees = HashSet::new();
        Self { known, trees }
    }

    /// Returns the faults of these commits, each with its commit.
    fn search(&mut self, commits: &[Oid]) -> Vec<(Oid, Fault)> {
        let mut found = Vec::new();
        for id in commits {
            let Some(text) = self.known.raw(id) else {
                continue;
            };
            let tree_of = |commit: &[u8]| named(commit, b"tree ").into_iter().next();
            let parents = named(&text, b"parent ").into_iter();
            let parents = parents.filter_map(|id| tree_of(&self.known.raw(&id)?));
            let mut faults: Vec<Fault> = commit_fault(&text).into_iter().collect();
            if let Some(tree) = tree_of(&text) {
                self.tree(&tree, &parents.collect::<Vec<_>>(), &mut faults);
            }
            found.extend(faults.into_iter().map(|fault| (id.clone(), fault)));
        }
        found
    }

    /// Collects the faults of entries that are new in a tree. `before` are the parents' trees at the same path.
    fn tree(&mut self, tree: &Oid, before: &[Oid], faults: &mut Vec<Fault>) {
        // An explicit stack instead of recursion: directories may be nested deeper than the call stack allows.
        let mut open = vec![(tree.clone(), before.to_vec())];
        while let Some((tree, before)) = open.pop() {
            if before.contains(&tree) || !self.trees.insert(tree.clone()) {
                continue;
            }
            let Some(text) = self.known.raw(&tree) else {
                continue;
            };
            faults.extend(tree_faults(&text, &tree));
            let read = |id: &Oid| entries(&self.known.raw(id)?, id.as_str().len() / 2);
            let before: Vec<Vec<Entry>> = before.iter().filter_map(read).collect();
            let below = read(&tree).unwrap_or_default().into_iter();
            for entry in below.filter(|entry| entry.is_dir) {
                let same = |it: &&Entry| it.is_dir && it.name == entry.name;
                let at = before.iter().filter_map(|tree| tree.iter().find(same));
                let at = at.map(|it| it.id.clone()).collect();
                open.push((entry.id, at));
            }
        }
    }
}

/// Does the same with git, which does not say which commit has a tree.
fn by_git(repo: &GitRepo, head: &Oid, old: &[Oid]) -> Result<Vec<(Oid, Fault)>, RepoError> {
    let old: String = old.iter().map(|id| format!("^{id}\n")).collect();
    let listed = repo
        .git()
        .args([
            "rev-list",
            "--objects",
            "--no-object-names",
            "--filter=blob:none",
        ])
        .args(["--stdin", "--not", "--remotes"])
        .stdin(format!("{head}\n{old}"));
    let listed = listed.run()?;
    let read = repo.git().args(["cat-file", "--batch", "--buffer"]);
    let objects = read.stdin(listed.stdout).run()?.stdout;
    let mut found = Vec::new();
    let mut rest = objects.as_slice();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = bytes::lossy(&rest[..end]);
        let fields: Vec<&str> = line.split(' ').collect();
        let (&[id, kind, size], true) = (&fields[..], end < rest.len()) else {
            return Err(RepoError::Failed(format!("git answered: {line}")));
        };
        let size = size.parse().unwrap_or(usize::MAX);
        let Some(text) = rest.get(end + 1..).and_then(|rest| rest.get(..size)) else {
            return Err(RepoError::Failed(format!("git answered: {line}")));
        };
        let faults = match kind {
            "commit" => commit_fault(text).into_iter().collect(),
            "tree" => tree_faults(text, &oid(id)?),
            _ => Vec::new(),
        };
        let id = oid(id)?;
        found.extend(faults.into_iter().map(|fault| (id.clone(), fault)));
        rest = rest.get(end + 1 + size + 1..).unwrap_or_default();
    }
    Ok(found)
}

/// Returns true if an object is a commit that a remote or one of `old` has, so that no agent made it.
fn is_known(repo: &GitRepo, id: &Oid, old: &[Oid]) -> Result<bool, RepoError> {
    let old = old.iter().map(|old| format!("^{old}"));
    // For a tree, too, git would list nothing.
    let kind = repo.git().args(["cat-file", "-t", id.as_str()]).run()?;
    if kind.text() != "commit" {
        return Ok(false);
    }
    let asked = repo.git().args(["rev-list", "--max-count=1", id.as_str()]);
    let asked = asked.args(old).args(["--not", "--remotes"]).run()?;
    Ok(asked.text().is_empty())
}

/// Returns true if one of the commits `old` has this entry anywhere: the project's own trees may have faults.
fn is_old(repo: &GitRepo, fault: &Fault, old: &[Oid]) -> Result<bool, RepoError> {
    let Some((name, id)) = &fault.entry else {
        return Ok(false);
    };
    for commit in old {
        let list = ["ls-tree", "-r", "-t", "-z", "--full-tree", commit.as_str()];
        let listed = repo.git().args(list).run()?.stdout;
        let has = bytes::split(&listed).any(|line| {
            // `<mode> <kind> <oid>\t<path>`
            let at = line.iter().position(|byte| *byte == b'\t');
            let (head, path) = line.split_at(at.unwrap_or(line.len()));
            let path = path.get(1..).unwrap_or_default();
            let is_here = path.strip_suffix(name.as_slice());
            head.ends_with(id.as_str().as_bytes())
                && is_here.is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
        });
        if has {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An entry of a tree.
struct Entry {
    name: Vec<u8>,
    id: Oid,
    is_dir: bool,
    /// Set when the mode begins with a zero.
    is_padded: bool,
}

impl Entry {
    /// Returns the key by which git sorts entries.
    fn key(&self) -> Vec<u8> {
        let end: &[u8] = if self.is_dir { b"/" } else { b"" };
        [&self.name, end].concat()
    }
}

/// Returns the entries of a tree, `<mode> <name>\0<id>` each; none if the tree has another form.
fn entries(text: &[u8], id_len: usize) -> Option<Vec<Entry>> {
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
            is_dir: mode == b"40000" || mode == b"040000",
            is_padded: mode.starts_with(b"0"),
        });
    }
    Some(found)
}

/// Returns the faults of a tree with this text.
fn tree_faults(text: &[u8], tree: &Oid) -> Vec<Fault> {
    let Some(entries) = entries(text, tree.as_str().len() / 2) else {
        return vec![Fault::whole("one of its trees is damaged")];
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
        let (why, asked) = match entry.name.as_slice() {
            b"" => ("an entry of a tree without a name".to_owned(), None),
            b"." | b".." => (format!("an entry of a tree named {}", shown()), None),
            name if name.contains(&b'/') => (format!("a name that is a path: {}", shown()), None),
            name if is_dot_git(name) => {
                let why = "in a tree, which some file systems take for .git";
                (format!("{:?} {why}", shown()), None)
            }
            name if name.len() > NAME_MAX => ("a name that is too long".to_owned(), None),
            _ if is_twice => (format!("{} twice in a tree", shown()), None),
            _ if entry.is_padded => (format!("a mode that begins with 0: {}", shown()), None),
            _ if entry.id.as_str().bytes().all(|digit| digit == b'0') => {
                (format!("an entry without an object: {}", shown()), None)
            }
            name if is_read_by_git(name) => (String::new(), Some(tree.clone())),
            _ => continue,
        };
        faults.push(Fault {
            why,
            entry: Some((entry.name, entry.id)),
            asked,
        });
    }
    faults
}

/// Returns true if a file system may take the name for one of the files that git reads in every directory. Errs on
/// the side of yes, because git decides in the end.
fn is_read_by_git(name: &[u8]) -> bool {
    let name = bytes::lossy(name).to_ascii_lowercase();
    let name: String = name.chars().filter(is_shown).collect();
    let starts = [".gitmodules", ".gitattributes", "gitmod~", "gitatt~", "gi7"];
    starts.iter().any(|start| name.starts_with(start))
}

/// Returns true if a file system takes the name for `.git`.
fn is_dot_git(name: &[u8]) -> bool {
    is_ntfs(name) || is_hfs(name)
}

/// Compares as NTFS does: in any case, with the short name, with spaces and full stops at the end, and up to the name
/// of a stream or a backslash.
fn is_ntfs(name: &[u8]) -> bool {
    let is_git = |part: &[u8]| {
        [&b".git"[..], b"git~1"].iter().any(|git| {
            let (start, rest) = part.split_at(part.len().min(git.len()));
            start.eq_ignore_ascii_case(git) && rest.iter().all(|it| matches!(it, b' ' | b'.'))
        })
    };
    let parts = name.split(|byte| *byte == b'\\');
    let mut before_streams = parts.map(|part| part.split(|byte| *byte == b':').next());
    before_streams.any(|part| is_git(part.unwrap_or_default()))
}

/// Compares as HFS+ does: in any case, without the characters that are not shown.
fn is_hfs(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    let shown: String = name.chars().filter(is_shown).collect();
    shown.eq_ignore_ascii_case(".git")
}

/// Returns true if HFS+ does not ignore the character.
fn is_shown(char: &char) -> bool {
    !matches!(char,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
