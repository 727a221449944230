//! Finds the owner of a stash entry: the raider that git wrote beside it, else the branch that it names. Other evidence is
//! used for an entry that names no branch of a sandbox: an entry of `git merge --autostash`, or of `git stash` with a detached
//! HEAD. Such an entry belongs to at most one sandbox, so that entries of one agent do not block all sandboxes of the rig. An entry without a known owner is kept in ours all the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::admin::Note;
use super::ground::ground;
use super::reflog_commits;
use super::rig::GitRepo;
use super::stash::{Stash, branch_of, parents};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A sandbox that may have made an entry.
struct Maker<'n> {
    note: &'n Note,
    /// The commits that its HEAD is or was on.
    commits: BTreeSet<Oid>,
    branches: BTreeSet<String>,
}

/// The owners of entries.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// The branch of the sandbox that made each entry, if it is known.
    pub(super) told: BTreeMap<Oid, String>,
    /// The entries whose owner is unknown now, because they, or a sandbox that may have made them, could not be read.
    pub(super) unsure: BTreeSet<Oid>,
}

/// Returns the owners of these entries: by the name of the raider that git wrote beside one, by the branch that it names, or
/// by the commit that it was made on.
pub(super) fn owners(
    repo: &GitRepo,
    entries: &[&Stash],
    notes: &[Note],
) -> Result<Owners, RepoError> {
    let mut owners = Owners::default();
    if entries.is_empty() {
        return Ok(owners);
    }
    let ids: Vec<Oid> = entries.iter().map(|entry| entry.commit.clone()).collect();
    let parents = parents(repo, &ids)?;
    // An unreadable sandbox claims no entry, and a claim of another sandbox may not be the only one.
    let makers: Vec<_> = notes.iter().filter_map(|note| maker(repo, note)).collect();
    for entry in entries {
        let id = &entry.commit;
        let is_sure = makers.len() == notes.len() && !parents.unseen.contains(id);
        let owner = match named_by(entry, notes) {
            None if is_sure => made(entry, &makers, &parents.of),
            by => by,
        };
        match owner {
            Some(note) => drop(owners.told.insert(id.clone(), note.branch.clone())),
            None if is_sure => {}
            None => drop(owners.unsure.insert(id.clone())),
        }
    }
    Ok(owners)
}

fn maker<'n>(repo: &GitRepo, note: &'n Note) -> Option<Maker<'n>> {
    let sandbox = repo.raiders_dir().join(note.raider.name.as_str());
    let ground = ground(repo, &sandbox).ok()?;
    let reflog = reflog_commits::reflogs(repo, &ground).ok()?;
    let mut commits = reflog.commits;
    commits.extend(ground.head);
    let mut branches: BTreeSet<String> = reflog.branches.into_iter().collect();
    branches.extend(ground.branch);
    Some(Maker {
        note,
        commits,
        branches,
    })
}

/// The sandbox of the raider that git wrote beside an entry.
pub(super) fn named_by<'n>(entry: &Stash, notes: &'n [Note]) -> Option<&'n Note> {
    let is_by = |note: &&Note| note.raider.to_string() == entry.by;
    only(notes.iter().filter(is_by))
}

/// The sandbox that made an entry, by its branch or its commit.
fn made<'n>(entry: &Stash, makers: &[Maker<'n>], parents: &HashMap<Oid, Oid>) -> Option<&'n Note> {
    let of = |is_of: &dyn Fn(&Maker<'_>) -> bool| {
        only(makers.iter().filter(|maker| is_of(maker))).map(|maker| maker.note)
    };
    let on_branch = || {
        let branch = branch_of(&entry.message)?;
        of(&|maker| maker.branches.contains(branch))
    };
    let on_commit = || {
        let commit = parents.get(&entry.commit)?;
        of(&|maker| maker.commits.contains(commit))
    };
    on_branch().or_else(on_commit)
}

/// Returns the only item; none if there are several.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}
