//! Checks the commits that a branch brings: a remote must take them and git must be able to merge them. An agent can
//! make others with plumbing, for example a tree with an entry `.git`, which a checkout may take for a repository, or
//! a commit without an author. A remote that checks objects refuses such commits; one that does not hands them to
//! every clone.
//!
//! Refused is the same as with `receive.fsckObjects`: every error of `git fsck --strict` in a tree or a commit. git
//! itself checks `.gitmodules` and `.gitattributes`. Only commits that no remote has are checked, and of their trees
//! only the new entries: an agent is not responsible for faults that the project already had.

mod commit;
mod names;
pub(super) mod task_links;
mod tree;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use self::commit::{commit_fault, named};
use self::tree::{Entry, EntryKind, entries, kind_fault, tree_faults};
use super::admin::{self, Note};
use super::in_process::InProcessRepo;
use super::object_copy::looked_up;
use super::rig::{GitRepo, oid};
use super::{bytes, checkout, facts};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of commits that this process follows itself. Above this number, git follows them.
const COMMITS_MAX: usize = 2_000;

/// A fault of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    /// The description for people.
    why: String,
    /// The entry of a tree that has the fault.
    entry: Option<Entry>,
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
    let new = listed.flatten();
    let here = known
        .as_ref()
        .zip(new.as_ref())
        .and_then(|(known, commits)| {
            let is_root = |id| {
                known
                    .raw(id)
                    .is_some_and(|it| named(&it, b"parent ").is_empty())
            };
            let has_root = commits.iter().any(is_root);
            Some((CheckedTrees::of(known).search(commits)?, has_root))
        });
    let (found, has_root) = match here {
        Some(found) => found,
        None => (by_git(repo, head, &old)?, true),
    };
    // A project without any commit takes any first commit.
    if let Some(tip) = tip.as_ref().filter(|_| has_root)
        && facts::merge_base(repo, head, Some(tip))?.is_none()
    {
        return Err(RepoError::Rejected(format!(
            "{}: it shares no history with {target}",
            head.short()
        )));
    }
    if repo.own_origin()?.is_some()
        && let Some(tip) = &tip
        && let Some(base) = facts::merge_base(repo, head, Some(tip))?
    {
        checkout::included::check(repo, target, (&base, head))?;
    }
    task_links::check(repo, head, &old, new.as_deref())?;
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
    // Only the name of a missing `.gitmodules` is printed, after that of the pack: a remote checks it by itself.
    let missing = String::from_utf8_lossy(&told.stdout).lines().count() > 1;
    match said.and_then(|line| line.splitn(3, ": ").nth(2)) {
        _ if told.ok() && missing => Ok(Some("a .gitmodules that is no file of it".to_owned())),
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

    /// Returns the faults of these commits, each with its commit; none if one of them cannot be read here.
    fn search(&mut self, commits: &[Oid]) -> Option<Vec<(Oid, Fault)>> {
        let mut found = Vec::new();
        for id in commits {
            let text = self.known.raw(id)?;
            let tree_of = |commit: &[u8]| named(commit, b"tree ").into_iter().next();
            let parents = named(&text, b"parent ").into_iter();
            let parents = parents.filter_map(|id| tree_of(&self.known.raw(&id)?));
            let mut faults: Vec<Fault> = commit_fault(&text).into_iter().collect();
            if let Some(tree) = tree_of(&text) {
                self.tree(&tree, &parents.collect::<Vec<_>>(), &mut faults)?;
            }
            found.extend(faults.into_iter().map(|fault| (id.clone(), fault)));
        }
        Some(found)
    }

    /// Collects the faults of entries that are new in a tree. `before` are the parents' trees at the same path. None if
    /// a tree cannot be read here.
    fn tree(&mut self, tree: &Oid, before: &[Oid], faults: &mut Vec<Fault>) -> Option<()> {
        // An explicit stack instead of recursion: directories may be nested deeper than the call stack allows.
        let mut open = vec![(tree.clone(), before.to_vec())];
        while let Some((tree, before)) = open.pop() {
            if before.contains(&tree) || !self.trees.insert(tree.clone()) {
                continue;
            }
            let text = self.known.raw(&tree)?;
            faults.extend(tree_faults(&text, &tree));
            let read = |id: &Oid| entries(&self.known.raw(id)?, id.as_str().len() / 2);
            // By name and kind: a directory may have very many entries.
            let mut known: HashMap<(Vec<u8>, EntryKind), Vec<Oid>> = HashMap::new();
            for entry in before.iter().filter_map(read).flatten() {
                let key = (entry.name.clone(), entry.kind());
                known.entry(key).or_default().push(entry.id);
            }
            for entry in read(&tree).unwrap_or_default() {
                let key = (entry.name.clone(), entry.kind());
                let at = known.remove(&key).unwrap_or_default();
                let is_new = !at.contains(&entry.id);
                let kind = || self.known.kind(&entry.id);
                faults.extend(is_new.then(|| kind_fault(&entry, kind()?)).flatten());
                if !entry.is_dir() {
                    continue;
                }
                open.push((entry.id, at));
            }
        }
        Some(())
    }
}

/// Returns the faults of the new commits as git itself reports them, which does not say which commit has a tree.
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
    let (mut found, mut below) = (Vec::new(), BTreeMap::new());
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
        let id = oid(id)?;
        let faults = match kind {
            "commit" => commit_fault(text).into_iter().collect(),
            "tree" => {
                let named = entries(text, id.as_str().len() / 2).unwrap_or_default();
                let named = named.into_iter();
                below.extend(named.map(|it| ((it.id.clone(), it.kind()), (id.clone(), it))));
                tree_faults(text, &id)
            }
            _ => Vec::new(),
        };
        found.extend(faults.into_iter().map(|fault| (id.clone(), fault)));
        rest = rest.get(end + 1 + size + 1..).unwrap_or_default();
    }
    found.extend(kinds_by_git(repo, below.into_values().collect())?);
    Ok(found)
}

/// Returns the entries that name an object of another kind, each with its tree.
fn kinds_by_git(
    repo: &GitRepo,
    entries: Vec<(Oid, Entry)>,
) -> Result<Vec<(Oid, Fault)>, RepoError> {
    let ids = entries.iter().map(|(_, it)| &it.id);
    let kinds = looked_up(repo.git(), "%(objecttype)", ids)?;
    // An object that is missing is no matter of its kind.
    let found = entries
        .iter()
        .zip(kinds)
        .filter_map(|((tree, entry), (_, kind))| {
            let fault = kind_fault(entry, &kind?)?;
            Some((tree.clone(), fault))
        });
    Ok(found.collect())
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

/// Returns true if one of the commits `old` has this entry anywhere, with its mode: the project's own trees may have
/// faults.
fn is_old(repo: &GitRepo, fault: &Fault, old: &[Oid]) -> Result<bool, RepoError> {
    let Some(entry) = &fault.entry else {
        return Ok(false);
    };
    let mode = format!("{:06o} ", entry.mode);
    for commit in old {
        let list = ["ls-tree", "-r", "-t", "-z", "--full-tree", commit.as_str()];
        let listed = repo.git().args(list).run()?.stdout;
        let has = bytes::split(&listed).any(|line| {
            // `<mode> <kind> <oid>\t<path>`
            let at = line.iter().position(|byte| *byte == b'\t');
            let (head, path) = line.split_at(at.unwrap_or(line.len()));
            let path = path.get(1..).unwrap_or_default();
            let is_here = path.strip_suffix(entry.name.as_slice());
            head.starts_with(mode.as_bytes())
                && head.ends_with(entry.id.as_str().as_bytes())
                && is_here.is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
        });
        if has {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
