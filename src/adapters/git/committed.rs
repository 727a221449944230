//! Tells whether a file in a sandbox came with a commit, or from the session. Reads ours, the index and the objects of theirs
//! only, without any configuration of an agent.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin::{self, At, Note};
use super::entry_links;
use super::files::hash::{self, Format};
use super::files::index::Staged;
use super::files::walk;
use super::ground::ground;
use super::measure::lens;
use super::object_copy::missing;
use super::reflog_commits::head_reflogs;
use super::repair::is_stale;
use super::rig::GitRepo;
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::{Committed, RepoError};

/// The number of branches that an agent has fetched which are asked for a commit: more do not fit into a command.
const FETCHED_MAX: usize = 1000;
/// The attributes by which git gives a file a content that only its configuration, or a table of characters, can tell.
const CONVERSIONS: [&str; 2] = ["filter", "working-tree-encoding"];
/// The name of a list of attributes.
const LIST: &str = ".gitattributes";
/// The number of different lists of former commits that are asked.
const LISTS_MAX: usize = 20;
/// The largest list of attributes of a sandbox that is read.
const ATTRIBUTES_MAX: u64 = 1024 * 1024;

/// Returns where these bytes are committed under that name, and whether git has them at all: a file that a merge, a
/// checkout or a stash wrote stays in the sandbox after HEAD and index have forgotten it. Without bytes, returns where anything of
/// that name is.
pub(super) fn committed(
    repo: &GitRepo,
    sandbox: &Path,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<Committed, RepoError> {
    if is_written(sandbox) {
        return Ok(Committed::Unsettled);
    }
    let found = found(repo, sandbox, name, bytes)?;
    // HEAD and index may be those from before a git that has worked meanwhile.
    Ok(match is_written(sandbox) {
        true => Committed::Unsettled,
        false => found,
    })
}

fn found(
    repo: &GitRepo,
    sandbox: &Path,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<Committed, RepoError> {
    let head = ground(repo, sandbox)?.head;
    let now = match &head {
        Some(head) => {
            repo.take(std::slice::from_ref(head))?;
            blob_of(repo, head, name)?
        }
        // A new branch without a commit.
        None => None,
    };
    let same = bytes
        .map(|bytes| same_blobs(repo, sandbox, bytes))
        .transpose()?;
    let staged = staged(repo, sandbox, name)?;
    let file = walk::stamp_in(sandbox, name)
        .filter(|file| bytes.is_none_or(|bytes| file.size == bytes.len() as u64));
    let as_written = staged.iter().flatten().find(|staged| {
        let is_refreshed = |file| staged.is_refreshed(file);
        !staged.promised && file.as_ref().is_some_and(is_refreshed)
    });
    // A filter or an encoding gives a file other bytes than its object has, and the index knows the file that git wrote.
    let is_it = |blob: &Oid| {
        let is_same = same.as_ref().is_none_or(|same| same.contains(blob));
        is_same || as_written.is_some_and(|staged| staged.id == *blob)
    };
    if let Some(head) = head.filter(|_| now.as_ref().is_some_and(is_it)) {
        return by_commit(repo, sandbox, &head, name);
    }
    let is_staged = staged
        .as_ref()
        .is_none_or(|staged| staged.iter().any(|staged| is_it(&staged.id)));
    let is_brought = || entry_links::linked(sandbox).is_some_and(|admin| is_bringing(&admin));
    match same {
        None if !is_staged => Ok(Committed::No),
        _ if is_staged && is_brought() => Ok(Committed::Before),
        None => Ok(Committed::OnBranch),
        Some(_) if as_written.is_some() => Ok(Committed::Known),
        Some(same) => {
            let absent = missing(repo.lens(), &same)?;
            if absent.len() < same.len() {
                return Ok(Committed::Known);
            }
            Ok(match is_converted(repo, sandbox, name)? {
                true => Committed::Converted,
                false => Committed::No,
            })
        }
    }
}

/// Returns true in the middle of an operation that brings files of other commits.
fn is_bringing(admin: &Path) -> bool {
    let marks = [
        "MERGE_HEAD",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
        "rebase-merge",
        "rebase-apply",
    ];
    let mut marks = marks.iter().map(|mark| admin.join(mark));
    marks.any(|mark| fs::symlink_metadata(mark).is_ok())
}

/// Returns a text with its keywords as git stores them (`ident`): `$Id: <object> $` is `$Id$` there.
fn without_ident(text: &[u8]) -> Vec<u8> {
    const KEYWORD: &[u8] = b"$Id: ";
    let (mut rest, mut stored) = (text, Vec::new());
    while let Some(at) = rest.windows(KEYWORD.len()).position(|part| part == KEYWORD) {
        let behind = &rest[at + KEYWORD.len()..];
        let line = behind
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let Some(end) = line.iter().position(|byte| *byte == b'$') else {
            stored.extend(&rest[..at + KEYWORD.len()]);
            rest = behind;
            continue;
        };
        stored.extend(&rest[..at]);
        stored.extend(b"$Id$");
        rest = &behind[end + 1..];
    }
    stored.extend(rest);
    stored
}

/// Returns the objects of these bytes: as they are, and with the line ends and keywords that git stores.
fn same_blobs(repo: &GitRepo, sandbox: &Path, bytes: &[u8]) -> Result<Vec<Oid>, RepoError> {
    let format = Format::named(repo.object_format()?);
    let hash = |bytes: &[u8]| hash::bytes(format, bytes);
    let lines = bytes.split(|byte| *byte == b'\n');
    let stored = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let stored = stored.collect::<Vec<_>>().join(&b'\n');
    let mut forms = vec![
        bytes.to_vec(),
        without_ident(bytes),
        without_ident(&stored),
        stored,
    ];
    forms.sort();
    forms.dedup();
    let objects: Result<Vec<_>, _> = forms.iter().map(|form| hash(form)).collect();
    objects.at("cannot hash the content of", sandbox)
}

/// Tells whether a commit of this branch alone has brought the file, or has changed it.
fn by_commit(
    repo: &GitRepo,
    sandbox: &Path,
    head: &Oid,
    name: &str,
) -> Result<Committed, RepoError> {
    let Some(note) = Note::read(repo, sandbox) else {
        return Ok(Committed::Before);
    };
    // The branch's own commits: what it was rebased on, or has merged, is on another branch as well. The agent may have
    // fetched that since the supervisor did.
    let own = [
        format!("--exclude=refs/remotes/*/{}", note.branch),
        format!("--exclude=refs/heads/{}", note.branch),
    ];
    let fetched = repo.their_refs().list("refs/remotes/")?.into_iter();
    let fetched = fetched.filter(|(name, _)| !name.ends_with(&note.branch));
    let fetched = fetched.map(|(_, tip)| tip.to_string()).take(FETCHED_MAX);
    let commits = repo
        .lens()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args([
            "rev-list",
            "--ignore-missing",
            "--simplify-merges",
            "--max-count=1",
            head.as_str(),
        ])
        .args(["--not", note.base.as_str()])
        .args(fetched)
        .args(&own)
        .arg("--glob=refs/remotes/*")
        .args(&own)
        .args(["--glob=refs/heads/*", "--", name])
        .run()?
        .text();
    Ok(match commits.trim().is_empty() {
        true => Committed::Before,
        false => Committed::OnBranch,
    })
}

/// Returns the object that a commit has under a name.
fn blob_of(repo: &GitRepo, commit: &Oid, name: &str) -> Result<Option<Oid>, RepoError> {
    let listed = repo
        .git()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["ls-tree", commit.as_str(), "--", name])
        .run()?
        .text();
    // `<mode> <kind> <oid>\t<path>`
    let blob = listed.split_ascii_whitespace().nth(2);
    Ok(blob.and_then(|blob| Oid::new(blob).ok()))
}

/// Returns the entries that the index has under a name: the agent is about to commit them, or a merge that it is to finish
/// brings them. None where the index cannot be read.
fn staged(repo: &GitRepo, sandbox: &Path, name: &str) -> Result<Option<Vec<Staged>>, RepoError> {
    let Some(admin) = entry_links::linked(sandbox) else {
        return Ok(None);
    };
    let index = lens(repo)?.1.index(&admin, &repo.recent)?;
    let entries = index.entries.iter();
    let found = entries.filter(|staged| staged.path == name.as_bytes());
    Ok(index.odd.is_none().then(|| found.cloned().collect()))
}

/// Returns true while git changes the files of a sandbox: index and HEAD are the old ones until it has ended.
fn is_written(sandbox: &Path) -> bool {
    let lock = entry_links::linked(sandbox).map(|admin| admin.join("index.lock"));
    lock.is_some_and(|lock| fs::symlink_metadata(&lock).is_ok() && !is_stale(&lock))
}

/// Returns true if a filter or an encoding applies to a file at the top of a sandbox, by the lists of attributes there, of
/// the rig, and of the commits that HEAD was at: none of its bytes need be known to git then.
fn is_converted(repo: &GitRepo, sandbox: &Path, name: &str) -> Result<bool, RepoError> {
    let theirs = (repo.theirs().to_owned(), PathBuf::from("info/attributes"));
    let mut places = vec![theirs];
    if let Some(dir) = sandbox.parent() {
        let own = Path::new(sandbox.file_name().unwrap_or_default());
        places.push((dir.to_owned(), own.join(LIST)));
    }
    let mut lists = BTreeSet::new();
    for (dir, file) in places {
        match beneath::read(&dir, &file, ATTRIBUTES_MAX) {
            Ok(list) => lists.extend(list),
            // git does not follow a link there, or read anything else that is no file.
            Err(error) if beneath::is_odd(&error) && error.kind() != ErrorKind::FileTooLarge => {}
            // Any conversion may be in it.
            Err(_) => return Ok(true),
        }
    }
    for blob in lists_of_commits(repo, sandbox)? {
        let list = repo.lens().args(["cat-file", "blob", blob.as_str()]);
        lists.insert(list.run()?.stdout);
    }
    for list in lists {
        if converts(repo, &list, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the lists of attributes at the top of the commits that HEAD was at, the present one among them: a switch to another
/// branch takes the list away, and leaves a file that git has forgotten.
fn lists_of_commits(repo: &GitRepo, sandbox: &Path) -> Result<BTreeSet<Oid>, RepoError> {
    let ground = ground(repo, sandbox)?;
    let admins: Vec<_> = ground.admin.iter().cloned().collect();
    let mut commits = head_reflogs(&admins)?.commits;
    commits.extend(ground.head);
    let asked = commits.iter().map(|commit| format!("{commit}:{LIST}\n"));
    let listed = repo
        .lens()
        .args(["cat-file", "--batch-check=%(objectname) %(objecttype)"])
        .stdin(asked.collect::<String>().into_bytes())
        .run()?
        .text();
    // A line for each: `<oid> blob`, or `<name> missing`.
    let blobs = listed.lines().filter_map(|line| line.strip_suffix(" blob"));
    let blobs: BTreeSet<_> = blobs.filter_map(|blob| Oid::new(blob).ok()).collect();
    Ok(blobs.into_iter().take(LISTS_MAX).collect())
}

/// Returns true if a list of attributes has a conversion for a file beside it.
fn converts(repo: &GitRepo, list: &[u8], name: &str) -> Result<bool, RepoError> {
    let tree = admin::scratch(repo)?;
    let path = tree.path().join(LIST);
    fs::write(&path, list).at("cannot write", &path)?;
    let found = repo
        .git()
        .env("GIT_WORK_TREE", tree.path())
        .env("GIT_INDEX_FILE", tree.path().join("no-index"))
        .arg("-C")
        .arg(tree.path())
        .args(["check-attr", "-z"])
        .args(CONVERSIONS)
        .args(["--", name])
        .run()?;
    // `<path> NUL <attribute> NUL <value> NUL`
    let values = found.stdout.split(|byte| *byte == 0).skip(2).step_by(3);
    let is_set = |value: &[u8]| !matches!(value, b"unspecified" | b"unset" | b"");
    Ok(values.into_iter().any(is_set))
}
