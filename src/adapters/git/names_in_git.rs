//! Tells whether git has a file of a name anywhere: in a commit, a stash entry or a tree that a file of git names. It may have
//! written a file of any bytes there then: filters, encodings, line ends and keywords change what it stores, and only the
//! session's own git knows which of them applied.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::admin::{self, At as _};
use super::reflog_commits::{ids, kinds_there};
use super::rig::{GitRepo, locked};
use super::unreadable;
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The refs of salvages in ours. They have what sessions wrote, and git writes no file from them.
const SALVAGES: &str = "refs/horde/salvage/";
/// The directories of a git directory whose files name objects: refs, their reflogs, and what operations in progress keep.
const NAMING: [&str; 5] = ["refs", "logs", "rebase-merge", "rebase-apply", "sequencer"];
/// The largest file that is read: a reflog of 100,000 lines fits.
const FILE_MAX: u64 = 64 << 20;
/// The number of files that are read: more are no work of git that an agent uses.
const FILES_MAX: usize = 500_000;

/// A search of all history for a name. It takes long, and a file that cannot be moved is looked at again and again.
#[derive(Debug)]
pub(super) struct Search {
    /// The objects that it began at. One that was missing is not among them: it may be there later.
    tips: BTreeSet<Oid>,
    /// Set once a commit had such a file, also if nothing names that commit any more.
    is_named: bool,
}

/// Returns true if a commit, a stash entry or a tree that the rig's repositories name has a file of this name, or if that
/// cannot be found out: a history that cannot be followed, because an agent fetched a part of it, may have one.
pub(super) fn is_named(repo: &GitRepo, name: &str) -> Result<bool, RepoError> {
    let Some(named) = named(repo)? else {
        return Ok(true);
    };
    let (there, missing) = kinds_there(repo, &named)?;
    // One that is there and cannot be opened may have it. It is opened by this, for the next look.
    if !missing.is_empty() && unreadable::check(repo, &missing, "").is_err() {
        return Ok(true);
    }
    let of = |wanted: &[&str]| -> BTreeSet<Oid> {
        let those = there
            .iter()
            .filter(|(_, kind)| wanted.contains(&kind.as_str()));
        those.map(|(id, _)| id.clone()).collect()
    };
    let (tips, trees) = (of(&["commit", "tag"]), of(&["tree", "tag"]));
    let before = locked(&repo.state.names_in_git).get(name).cloned();
    if let Some(before) = before.as_deref().filter(|before| before.tips == tips) {
        return Ok(before.is_named || is_in_tree(repo, name, &trees)?);
    }
    // What the last search has looked at has no such file.
    let known = before.as_deref().map(|before| &before.tips);
    let Some(is_named) = is_in_history(repo, name, &tips, known)? else {
        return Ok(true);
    };
    // A file that was told must not count because another fetch has replaced `FETCH_HEAD`.
    let is_named = is_named || before.as_deref().is_some_and(|before| before.is_named);
    let search = Arc::new(Search { tips, is_named });
    locked(&repo.state.names_in_git).insert(name.to_owned(), search);
    Ok(is_named || is_in_tree(repo, name, &trees)?)
}

/// Searches the commits that these reach, without those that the known ones reach. None for a history that cannot be followed.
fn is_in_history(
    repo: &GitRepo,
    name: &str,
    tips: &BTreeSet<Oid>,
    known: Option<&BTreeSet<Oid>>,
) -> Result<Option<bool>, RepoError> {
    let is_new = |tip: &&Oid| !known.is_some_and(|known| known.contains(*tip));
    let new = tips.iter().filter(is_new).map(|tip| format!("{tip}\n"));
    let known = known.into_iter().flatten().map(|tip| format!("^{tip}\n"));
    let found = repo
        .lens()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["log", "--ignore-missing", "--full-history", "--stdin"])
        .args(["--format=", "--raw", "--no-renames", "-m", "--root"])
        .args(["-O/dev/null", "--", name])
        .stdin(new.chain(known).collect::<String>())
        .output()?;
    // `:<mode before> <mode after> ...\t<path>`: neither a link nor a directory, with files of its own, could be read as an outcome.
    let text = found.text();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(':'));
    let has_file = |line: &str| {
        let (fields, path) = line.split_once('\t').unwrap_or((line, ""));
        path == name
            && fields
                .split(' ')
                .take(2)
                .any(|mode| mode.starts_with("100"))
    };
    Ok(found.ok().then(|| lines.any(has_file)))
}

/// Searches these trees, and the trees that these tags name: no history has them.
fn is_in_tree(repo: &GitRepo, name: &str, trees: &BTreeSet<Oid>) -> Result<bool, RepoError> {
    if trees.is_empty() {
        return Ok(false);
    }
    let asked: String = trees.iter().map(|id| format!("{id}^{{}}\n")).collect();
    let ask = ["cat-file", "--batch-check=%(objecttype) %(objectname)"];
    let told = repo.lens().args(ask).stdin(asked).run()?.text();
    for tree in told.lines().filter_map(|line| line.strip_prefix("tree ")) {
        let list = repo.lens().env("GIT_LITERAL_PATHSPECS", "1");
        let list = list.args(["ls-tree", tree, "--", name]).run()?.text();
        // `<mode> <kind> <id>\t<path>`: a link is no file that could be read as an outcome.
        if list.starts_with("100") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the objects that the refs of ours name, and those that the git directories of theirs name: refs, reflogs, the list of
/// stash entries, `FETCH_HEAD` and its like, and what an operation in progress keeps. None where that cannot be found out.
fn named(repo: &GitRepo) -> Result<Option<BTreeSet<Oid>>, RepoError> {
    let ours = repo.refs()?.into_iter();
    let mut named: BTreeSet<Oid> = ours
        .filter(|(_, name)| !name.starts_with(SALVAGES))
        .map(|it| it.0)
        .collect();
    let mut files = 0;
    for top in [vec![repo.theirs().to_owned()], admin::entries(repo)?].concat() {
        // A link would lead to what is no repository of the rig.
        let is_dir = fs::symlink_metadata(&top).is_ok_and(|meta| meta.is_dir());
        if is_dir && !named_in(&top, &mut named, &mut files)? {
            return Ok(None);
        }
    }
    // After the files of the refs: one that is packed meanwhile is in the one or the other.
    named.extend(repo.their_refs().list("refs/")?.into_values());
    // Reflogs name the object of no commit.
    named.retain(|id| id.as_str().bytes().any(|digit| digit != b'0'));
    Ok(Some(named))
}

/// Collects the ids that the files of a git directory name. No link in it is followed. Returns false if a file cannot be read, or
/// if there are too many.
fn named_in(top: &Path, named: &mut BTreeSet<Oid>, files: &mut usize) -> Result<bool, RepoError> {
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        let entries = match opened(top, &dir, || fs::read_dir(top.join(&dir)))? {
            Found::There(entries) => entries,
            Found::Nothing => continue,
            Found::Unknown => return Ok(false),
        };
        for entry in entries {
            let entry = entry.at("cannot list", &top.join(&dir))?;
            let name = dir.join(entry.file_name());
            let kind = match entry.file_type() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                kind => kind.at("cannot read", &top.join(&name))?,
            };
            let is_below = dir != Path::new("");
            if kind.is_dir() && (is_below || NAMING.iter().any(|it| name == Path::new(it))) {
                open.push(name);
            } else if kind.is_file() && (is_below || is_pseudo_ref(&name)) {
                *files += 1;
                match opened(top, &name, || beneath::read(top, &name, FILE_MAX))? {
                    Found::There(text) if *files <= FILES_MAX => {
                        named.extend(ids(&text.unwrap_or_default()));
                    }
                    Found::Nothing => {}
                    Found::There(_) | Found::Unknown => return Ok(false),
                }
            }
        }
    }
    Ok(true)
}

/// Returns true for a file such as `HEAD`, `FETCH_HEAD` or `AUTO_MERGE`, or a ref of any other name at the top.
fn is_pseudo_ref(name: &Path) -> bool {
    let name = name.to_string_lossy();
    let others = [
        "index",
        "sharedindex",
        "config",
        "description",
        "packed-refs",
        "shallow",
    ];
    let is_other = others.iter().any(|other| name.starts_with(other));
    !is_other && !["gitdir", "commondir"].contains(&&*name)
}

/// The result of a read in a git directory.
enum Found<T> {
    There(T),
    /// There is nothing, or no file.
    Nothing,
    /// It stays closed, or is too large.
    Unknown,
}

/// Reads, and reads once more after what an agent closed by permissions was opened.
fn opened<T>(
    top: &Path,
    name: &Path,
    read: impl Fn() -> io::Result<T>,
) -> Result<Found<T>, RepoError> {
    let is_closed = |error: &io::Error| error.kind() == ErrorKind::PermissionDenied;
    let mut result = read();
    if result.as_ref().is_err_and(is_closed) {
        // What cannot be opened is read again, and is unknown then.
        let _opened = beneath::open_up(top, Path::new("")).and(beneath::open_way(top, name));
        result = read();
    }
    match result {
        Ok(value) => Ok(Found::There(value)),
        Err(error) => match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::FileTooLarge => Ok(Found::Unknown),
            _ if admin::is_nothing(&error) || admin::is_strange(&error) => Ok(Found::Nothing),
            _ => Err(admin::failed("cannot read", &top.join(name), &error)),
        },
    }
}
