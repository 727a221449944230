//! Tells whether git has a file of a name anywhere: in a commit, a stash entry or a tree that a file of git names. It may have
//! written a file of any bytes there then: filters, encodings, line ends and keywords change what it stores, and only the
//! session's own git knows which of them applied.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin;
use super::reflog_commits::{ids, kinds_there};
use super::rig::{GitRepo, locked};
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The refs of salvages in ours. They have what sessions wrote, and git writes no file from them.
const SALVAGES: &str = "refs/horde/salvage/";
/// The largest file that is read: a reflog of 100,000 lines fits.
const FILE_MAX: u64 = 64 << 20;
/// The directories in theirs that name no objects, or are read apart.
const PASSED: [&str; 4] = ["objects", "worktrees", "modules", "lfs"];

/// A search of all history for a name. It takes long, and a file that cannot be moved is looked at again and again.
#[derive(Debug)]
pub(super) struct Search {
    /// The objects that it began at.
    tips: BTreeSet<Oid>,
    is_named: bool,
}

/// Returns true if a commit, a stash entry or a tree that the rig's repositories name has a file of this name, or if that
/// cannot be found out: a history that cannot be followed, because an agent fetched a part of it, may have one.
pub(super) fn is_named(repo: &GitRepo, name: &str) -> Result<bool, RepoError> {
    let Some(tips) = tips(repo)? else {
        return Ok(true);
    };
    let before = locked(&repo.state.names_in_git).remove(name);
    let before = match before {
        Some(before) if before.tips == tips => {
            let is_named = before.is_named;
            locked(&repo.state.names_in_git).insert(name.to_owned(), before);
            return Ok(is_named);
        }
        // What the last search has looked at has no such file.
        Some(before) if !before.is_named => before.tips,
        Some(_) | None => BTreeSet::new(),
    };
    let is_named = is_in_history(repo, name, (&tips, &before))? || is_in_tree(repo, name, &tips)?;
    let search = Search { tips, is_named };
    locked(&repo.state.names_in_git).insert(name.to_owned(), search);
    Ok(is_named)
}

/// Searches the commits that these reach, without those that the others reach.
fn is_in_history(
    repo: &GitRepo,
    name: &str,
    (tips, before): (&BTreeSet<Oid>, &BTreeSet<Oid>),
) -> Result<bool, RepoError> {
    let new = tips.difference(before).map(|tip| format!("{tip}\n"));
    let known = before.iter().map(|tip| format!("^{tip}\n"));
    let found = repo
        .lens()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["log", "--ignore-missing", "--full-history", "--stdin"])
        .args(["--format=", "--raw", "--no-renames", "-m", "--root"])
        .args(["--", name])
        .stdin(new.chain(known).collect::<String>())
        .output()?;
    // `:<mode before> <mode after> ...`: a link is no file that could be read as an outcome.
    let text = found.text();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(':'));
    let has_file = |line: &str| line.split(' ').take(2).any(|mode| mode.starts_with("100"));
    Ok(!found.ok() || lines.any(has_file))
}

/// Searches the trees and tags among these: a tag may name a tree, which no history has.
fn is_in_tree(repo: &GitRepo, name: &str, tips: &BTreeSet<Oid>) -> Result<bool, RepoError> {
    let kinds = kinds_there(repo, tips)?.0.into_iter();
    let trees = kinds.filter(|(_, kind)| kind == "tree" || kind == "tag");
    let asked: String = trees.map(|(id, _)| format!("{id}:{name}\n")).collect();
    if asked.is_empty() {
        return Ok(false);
    }
    let ask = ["cat-file", "--batch-check=%(objecttype)"];
    let told = repo.lens().args(ask).stdin(asked).run()?.text();
    Ok(told.lines().any(|line| line == "blob"))
}

/// Returns the objects that the refs of ours name, and those that anything in the git directories of theirs names: refs,
/// reflogs, the list of stash entries, `FETCH_HEAD` and its like, and what an operation in progress keeps. None if one of these
/// files is too large to be read.
fn tips(repo: &GitRepo) -> Result<Option<BTreeSet<Oid>>, RepoError> {
    let ours = repo.refs()?.into_iter();
    let mut tips: BTreeSet<Oid> = ours
        .filter(|(_, name)| !name.starts_with(SALVAGES))
        .map(|it| it.0)
        .collect();
    tips.extend(repo.their_refs().list("refs/")?.into_values());
    for dir in [vec![repo.theirs().to_owned()], admin::entries(repo)?].concat() {
        if !named_below(&dir, &mut tips)? {
            return Ok(None);
        }
    }
    let zeros = |id: &Oid| id.as_str().bytes().all(|digit| digit == b'0');
    tips.retain(|id| !zeros(id));
    Ok(Some(tips))
}

/// Collects the ids that the files of a git directory name. What an agent put in the place of one names nothing. Returns
/// false if one is too large.
fn named_below(top: &Path, tips: &mut BTreeSet<Oid>) -> Result<bool, RepoError> {
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        let path = top.join(&dir);
        let listed = match fs::read_dir(&path) {
            Err(error) if admin::is_nothing(&error) => continue,
            listed => listed.map_err(|error| admin::failed("cannot list", &path, &error))?,
        };
        for entry in listed {
            let entry = entry.map_err(|error| admin::failed("cannot list", &path, &error))?;
            let name = dir.join(entry.file_name());
            let kind = match entry.file_type() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                kind => kind.map_err(|error| admin::failed("cannot read", &path, &error))?,
            };
            let is_passed = PASSED.iter().any(|passed| name == Path::new(passed));
            if kind.is_dir() && !is_passed {
                open.push(name);
            } else if kind.is_file() && !is_binary(&name) {
                match beneath::read(top, &name, FILE_MAX) {
                    Ok(text) => tips.extend(ids(&text.unwrap_or_default())),
                    Err(error) if error.kind() == ErrorKind::FileTooLarge => return Ok(false),
                    Err(error) if admin::is_nothing(&error) || beneath::is_odd(&error) => {}
                    Err(error) => return Err(admin::failed("cannot read", &name, &error)),
                }
            }
        }
    }
    Ok(true)
}

/// Returns true for an index, whose entries name no trees of commits.
fn is_binary(name: &Path) -> bool {
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    name == "index" || name.starts_with("sharedindex.")
}
