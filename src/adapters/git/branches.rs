//! Raiders' branches in theirs: those that no worktree has checked out, and the only way to delete one.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin::{self, At};
use super::bytes;
use super::existing_branch::COPIED;
use super::fetch::SEED;
use super::rig::{GitRepo, oid};
use super::stash::PINS;
use crate::domain::doctor::BranchFacts;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Returns the raiders' branches that no worktree has checked out. All are looked up at once: an agent can make any number.
pub(super) fn spare(repo: &GitRepo) -> Result<Vec<BranchFacts>, RepoError> {
    let in_use: HashSet<String> = checked_out(repo)?.into_iter().map(|it| it.0).collect();
    let listed = repo.their_refs().list("refs/heads/raider/")?;
    let spare = listed.iter().filter(|(full, _)| !in_use.contains(*full));
    let spare: Vec<(&String, &Oid)> = spare.collect();
    // The commit of each tip that ours has.
    let mut known: BTreeMap<&Oid, Oid> = BTreeMap::new();
    for (_, tip) in &spare {
        if !known.contains_key(tip)
            && let Some(commit) = repo.resolve(tip.as_str())?
        {
            known.insert(tip, commit);
        }
    }
    let lost = not_held(repo, known.values())?;
    let facts = |(full, tip): (&String, &Oid)| BranchFacts {
        name: full.strip_prefix("refs/heads/").unwrap_or(full).to_owned(),
        reachable: known.get(tip).is_some_and(|commit| !lost.contains(commit)),
    };
    Ok(spare.into_iter().map(facts).collect())
}

/// Returns those of these commits of ours, and of their ancestors, that no lasting ref reaches.
fn not_held<'a>(
    repo: &GitRepo,
    commits: impl Iterator<Item = &'a Oid>,
) -> Result<HashSet<Oid>, RepoError> {
    let held = repo.refs()?.into_iter().filter(|(_, name)| stays(name));
    let wanted = commits.map(|commit| format!("{commit}\n"));
    let wanted: String = wanted.collect();
    // git refuses a list without any commit.
    if wanted.is_empty() {
        return Ok(HashSet::new());
    }
    let held = held.map(|(id, _)| format!("^{id}\n"));
    let asked = wanted + &held.collect::<String>();
    let git = repo.git().args(["rev-list", "--ignore-missing", "--stdin"]);
    let listed = git.stdin(asked).run()?.text();
    listed.lines().map(oid).collect()
}

/// Returns true for a ref of ours that stays: pins are removed with their sandboxes, and copies of the checkout's branches after
/// their use.
fn stays(name: &str) -> bool {
    ![PINS, SEED, COPIED].iter().any(|it| name.starts_with(it))
}

/// Returns the names of all raiders' branches.
pub(super) fn of_raiders(repo: &GitRepo) -> Result<Vec<String>, RepoError> {
    let listed = repo.their_refs().list("refs/heads/raider/")?;
    let name = |full: &String| full.strip_prefix("refs/heads/").map(str::to_owned);
    Ok(listed.keys().filter_map(name).collect())
}

/// Returns the full names of branches that worktrees have checked out, with the worktrees' paths. A worktree whose
/// directory is gone does not count, however long git keeps its entry.
///
/// Reads the files itself: `git worktree list` fails when another process makes or removes a worktree at that moment.
pub(super) fn checked_out(repo: &GitRepo) -> Result<Vec<(String, PathBuf)>, RepoError> {
    let mut found = Vec::new();
    for admin in admin::entries(repo)? {
        let (head, link) = (line(&admin, "HEAD")?, line(&admin, "gitdir")?);
        let branch = head.as_deref().and_then(|head| head.strip_prefix(b"ref: "));
        // An incomplete entry is being made, or removed.
        let (Some(branch), Some(link)) = (branch, link) else {
            continue;
        };
        let link = admin.join(bytes::path(&link));
        match link.parent() {
            Some(at) if !is_gone(at) => found.push((bytes::lossy(branch), at.to_owned())),
            Some(_) | None => {}
        }
    }
    Ok(found)
}

/// Reads a file of one line; none if it does not exist, or its agent closed it by permissions.
fn line(admin: &Path, name: &str) -> Result<Option<Vec<u8>>, RepoError> {
    let text = match admin::line(admin, Path::new(name)) {
        Err(error) if admin::is_nothing(&error) => Ok(None),
        text => text,
    };
    let text = text.at("cannot read", &admin.join(name))?;
    Ok(text.map(|text| text.trim_ascii().to_owned()))
}

fn is_gone(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns true if a ref of ours reaches the commit.
fn is_held(repo: &GitRepo, commit: &Oid) -> Result<bool, RepoError> {
    match repo.resolve(commit.as_str())? {
        Some(commit) => Ok(not_held(repo, [&commit].into_iter())?.is_empty()),
        None => Ok(false),
    }
}

/// Deletes a branch of theirs if a ref of ours reaches it and no worktree has checked it out. Returns true if the
/// branch is gone.
pub(super) fn drop_branch(repo: &GitRepo, branch: &str) -> Result<bool, RepoError> {
    let name = format!("refs/heads/{branch}");
    let theirs = repo.their_refs();
    let tip = match theirs.resolve(&name) {
        Ok(Some(tip)) => tip,
        Ok(None) => return Ok(true),
        // The content of the branch is unknown.
        Err(why) => {
            tracing::warn!(rig = %repo.name(), branch, %why, "a branch cannot be read and is not deleted");
            return Ok(false);
        }
    };
    let in_use = checked_out(repo)?.iter().any(|(used, _)| *used == name);
    if in_use || !is_held(repo, &tip)? {
        return Ok(false);
    }
    theirs.delete(&name, &tip)
}
