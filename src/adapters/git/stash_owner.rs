//! Finds the owner of a stash entry that names no branch of a sandbox: one of `git merge --autostash`, or of `git
//! stash` with a detached HEAD. Such an entry belongs to at most one sandbox, so that entries of one agent do not
//! hold up all others of its rig. An entry without a known owner is kept in ours all the same.

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

/// Returns for each of these entries the branch of the sandbox that made it, if known: by the raider's name that git
/// wrote beside it, by the branch that it names, or by the commit that it was made on.
pub(super) fn owners(
    repo: &GitRepo,
    entries: &[&Stash],
    notes: &[Note],
) -> Result<BTreeMap<Oid, String>, RepoError> {
    if entries.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids = entries.iter().map(|entry| entry.commit.clone()).collect();
    let parents = parents(repo, &ids)?;
    // A sandbox that cannot be read claims nothing by its commits.
    let makers: Vec<_> = notes.iter().filter_map(|note| maker(repo, note)).collect();
    let told = |entry: &&&Stash| {
        Some((
            entry.commit.clone(),
            owner(entry, notes, &makers, &parents)?,
        ))
    };
    Ok(entries.iter().filter_map(|entry| told(&entry)).collect())
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

fn owner(
    entry: &Stash,
    notes: &[Note],
    makers: &[Maker<'_>],
    parents: &HashMap<Oid, Oid>,
) -> Option<String> {
    let by = only(
        notes
            .iter()
            .filter(|note| note.raider.to_string() == entry.by),
    );
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
    let owner = by.or_else(on_branch).or_else(on_commit);
    owner.map(|note| note.branch.clone())
}

/// Returns the only item; none if there are several.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}
