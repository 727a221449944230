//! What was set aside of worktrees that are gone ([`super::admin::retire`]): it stays for as long as it is
//! the last that names some work, and goes once refs hold all of that.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin::{self, failed};
use super::bytes;
use super::nested::walk;
use super::rig::{GitRepo, oid};
use super::traces::tips;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Nothing that git writes there by itself is larger; what is, is not searched, and kept.
const SEARCH_MAX: u64 = 4 * 1024 * 1024;

/// Removes the entries that name nothing alone, and says how many. One that cannot be judged stays.
pub(super) fn drop(repo: &GitRepo) -> Result<usize, RepoError> {
    // Nobody sets one aside meanwhile.
    let _serial = repo.worktrees();
    let mut dropped = 0;
    for entry in list(&admin::retired(repo))? {
        match is_needed(repo, &entry) {
            Ok(true) => {}
            Ok(false) => {
                fs::remove_dir_all(&entry)
                    .map_err(|error| failed("cannot remove", &entry, &error))?;
                dropped += 1;
            }
            Err(error) => {
                let entry = entry.display();
                tracing::debug!(%entry, %error, "what was set aside cannot be judged, and stays");
            }
        }
    }
    Ok(dropped)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, RepoError> {
    let fail = |error: std::io::Error| failed("cannot list", dir, &error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    entries
        .map(|entry| Ok(entry.map_err(fail)?.path()))
        .collect()
}

/// Whether the entry names anything that no ref holds: a commit of its HEAD, reflog or of what was under
/// way in it, or staged content. What is no worktree's entry is not ours to judge.
fn is_needed(repo: &GitRepo, entry: &Path) -> Result<bool, RepoError> {
    let mut named = BTreeSet::new();
    for file in walk(entry, true)? {
        let name = bytes::lossy(&file);
        if name == "index" {
            continue;
        }
        let path = entry.join(bytes::path(&file));
        let meta = fs::symlink_metadata(&path);
        let meta = meta.map_err(|error| failed("cannot read", &path, &error))?;
        // A submodule's repository, and a part of the index, name what is not searched for here.
        let whole = name.starts_with("modules/") || name.starts_with("sharedindex.");
        if whole || meta.len() > SEARCH_MAX {
            return Ok(true);
        }
        let text = fs::read(&path).map_err(|error| failed("cannot read", &path, &error))?;
        let text = String::from_utf8_lossy(&text);
        let words = text.split(|char: char| !char.is_ascii_hexdigit());
        named.extend(words.filter_map(|word| Oid::new(word).ok()));
    }
    let Some(head) = head(repo, entry)? else {
        return Ok(true);
    };
    named.insert(head.clone());
    Ok(!are_held(repo, &named)? || is_staged(repo, entry, &head)?)
}

/// What was checked out last; its branch may be gone.
fn head(repo: &GitRepo, entry: &Path) -> Result<Option<Oid>, RepoError> {
    let read = |name: &str| fs::read_to_string(entry.join(name)).unwrap_or_default();
    let text = read("HEAD");
    let name = text.trim().trim_start_matches("ref: ");
    if !name.is_empty()
        && let Some(head) = repo.resolve(name)?
    {
        return Ok(Some(head));
    }
    let log = read("logs/HEAD");
    let last = log.lines().last().and_then(|line| line.split(' ').nth(1));
    Ok(last.and_then(|id| Oid::new(id).ok()))
}

/// Whether refs reach all of these, as far as they are there at all; what is there and no commit counts as
/// not held. What a remote has of raiders was only seen there: their branches are deleted when somebody
/// thinks that they are done with.
fn are_held(repo: &GitRepo, named: &BTreeSet<Oid>) -> Result<bool, RepoError> {
    let list: String = named.iter().map(|id| format!("{id}\n")).collect();
    let found = repo
        .git()
        .args(["cat-file", "--batch-check=%(objectname) %(objecttype)"])
        .stdin(list)
        .run()?
        .text();
    let mut commits = BTreeSet::new();
    for line in found.lines().filter(|line| !line.ends_with(" missing")) {
        match line.strip_suffix(" commit") {
            Some(id) => commits.insert(oid(id)?),
            None => return Ok(false),
        };
    }
    let format = "--format=^%(objectname) %(refname)";
    let refs = repo.git().args(["for-each-ref", format]).run()?.text();
    let refs = refs.lines().filter_map(|line| line.split_once(' '));
    let lasting = refs.filter(|(_, name)| {
        let seen = name.strip_prefix("refs/remotes/");
        !seen.is_some_and(|name| name.contains("/raider/"))
    });
    let known: String = lasting.map(|(id, _)| format!("{id}\n")).collect();
    Ok(tips(repo.git(), &commits, known.as_bytes())?.is_empty())
}

/// Whether the index has anything that the commit has not.
fn is_staged(repo: &GitRepo, entry: &Path, head: &Oid) -> Result<bool, RepoError> {
    let index = entry.join("index");
    if fs::symlink_metadata(&index).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(false);
    }
    let differs = repo
        .git()
        .env("GIT_INDEX_FILE", &index)
        .args(["diff-index", "--cached", "--quiet", head.as_str()])
        .output()?;
    // 1 for a difference; anything else could not be told.
    Ok(!differs.ok())
}
