//! Finds the owner of a sandbox from the sandbox itself: by the note that was written when it was made, else by the
//! branch that is checked out. The link in the sandbox is not needed.

use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::admin::{self, At, Note};
use super::entry_links;
use super::files::hash::{self, Format};
use super::ground::ground;
use super::measure::lens;
use super::repair::is_stale;
use super::rig::GitRepo;
use crate::domain::ids::{Oid, RaiderId, SlotName};
use crate::ports::repo::{Committed, Provenance, RepoError};

/// Returns the evidence of the sandbox's incarnation; none if there is none.
pub(super) fn provenance(repo: &GitRepo, sandbox: &Path) -> Result<Option<Provenance>, RepoError> {
    let name = sandbox.file_name().and_then(|name| name.to_str());
    let Some(name) = name.and_then(|name| SlotName::new(name).ok()) else {
        return Ok(None);
    };
    let raider = RaiderId::new(repo.name().clone(), name);
    if let Some(note) = Note::read(repo, sandbox) {
        return Ok(by_note(&raider, note));
    }
    for admin in entry_links::of_sandbox(repo, sandbox)? {
        let found = by_branch(repo, &raider, &admin)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns where these bytes are committed under that name: by HEAD, by a commit that the branch has left behind, or by the
/// index. Without bytes, where anything is. Reads ours and the index only, without any configuration of an agent.
pub(super) fn committed(
    repo: &GitRepo,
    sandbox: &Path,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<Committed, RepoError> {
    let Some(head) = ground(repo, sandbox)?.head else {
        return Ok(Committed::No);
    };
    repo.take(std::slice::from_ref(&head))?;
    let now = blob_of(repo, &head, name)?;
    let note = Note::read(repo, sandbox);
    let Some(bytes) = bytes else {
        return match now.is_some() {
            true => by_commit(repo, note.as_ref(), &head, name),
            false if is_written(sandbox) => Ok(Committed::Before),
            false => Ok(match staged(repo, sandbox, name)? {
                Some(blobs) if blobs.is_empty() => Committed::No,
                Some(_) | None => Committed::OnBranch,
            }),
        };
    };
    let same = same_blobs(&head, sandbox, bytes)?;
    if now.is_some_and(|now| same.contains(&now)) {
        return by_commit(repo, note.as_ref(), &head, name);
    }
    let mut known = staged(repo, sandbox, name)?.unwrap_or_default();
    known.extend(left_behind(repo, note.as_ref(), &head, name)?);
    let is_of_repository = is_written(sandbox) || known.iter().any(|blob| same.contains(blob));
    Ok(match is_of_repository {
        true => Committed::Before,
        false => Committed::No,
    })
}

/// Returns the objects of these bytes: as they are, and with the line ends that git stores.
fn same_blobs(of: &Oid, sandbox: &Path, bytes: &[u8]) -> Result<Vec<Oid>, RepoError> {
    let hash = |bytes: &[u8]| hash::bytes(Format::of(of), bytes);
    let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    let stored: Vec<_> = lines
        .iter()
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect();
    let both = [hash(bytes), hash(&stored.join(&b'\n'))];
    let both: Result<Vec<_>, _> = both.into_iter().collect();
    both.at("cannot hash the content of", sandbox)
}

/// Tells whether a commit of this branch alone has brought the file, or has changed it.
fn by_commit(
    repo: &GitRepo,
    note: Option<&Note>,
    head: &Oid,
    name: &str,
) -> Result<Committed, RepoError> {
    let Some(note) = note else {
        return Ok(Committed::Before);
    };
    // The branch's own commits: what it was rebased on, or has merged, is on another branch as well.
    let own = [
        "--exclude=refs/remotes/*/".to_owned() + &note.branch,
        "--exclude=refs/heads/".to_owned() + &note.branch,
    ];
    let found = repo
        .git()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args([
            "rev-list",
            "--max-count=1",
            head.as_str(),
            "--not",
            note.base.as_str(),
        ])
        .args(&own)
        .arg("--glob=refs/remotes/*")
        .args(&own)
        .args(["--glob=refs/heads/*", "--", name])
        .run()?
        .text();
    Ok(match found.trim().is_empty() {
        true => Committed::Before,
        false => Committed::OnBranch,
    })
}

/// Returns the objects that the branch had under that name: at its start, and in its commits since. `git rm --cached` leaves
/// such a file in the sandbox.
fn left_behind(
    repo: &GitRepo,
    note: Option<&Note>,
    head: &Oid,
    name: &str,
) -> Result<Vec<Oid>, RepoError> {
    let Some(note) = note else {
        return Ok(Vec::new());
    };
    let changes = repo
        .git()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["log", "--format=", "--raw", "--no-abbrev", "--full-history"])
        .args(["--no-renames", "--no-show-signature", head.as_str()])
        .args(["--not", note.base.as_str(), "--", name])
        .run()?
        .text();
    // `:<old mode> <mode> <old oid> <oid> <letter>\t<path>`
    let sides = changes
        .lines()
        .flat_map(|line| line.split(' ').skip(2).take(2));
    let mut blobs: Vec<_> = sides.filter_map(|oid| Oid::new(oid).ok()).collect();
    blobs.extend(blob_of(repo, &note.base, name)?);
    Ok(blobs)
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

/// Returns the objects that the index has under a name: the agent is about to commit them, or a merge that it is to finish
/// brings them. None where the index cannot be read.
fn staged(repo: &GitRepo, sandbox: &Path, name: &str) -> Result<Option<Vec<Oid>>, RepoError> {
    let Some(admin) = entry_links::linked(sandbox) else {
        return Ok(None);
    };
    let index = lens(repo)?.1.index(&admin, &repo.recent)?;
    let entries = index.entries.iter();
    let found = entries.filter(|staged| staged.path == name.as_bytes());
    let found = found.map(|staged| staged.id.clone()).collect();
    Ok(index.odd.is_none().then_some(found))
}

/// Returns true while git changes the files of a sandbox: index and HEAD are the old ones until it has ended.
fn is_written(sandbox: &Path) -> bool {
    let lock = entry_links::linked(sandbox).map(|admin| admin.join("index.lock"));
    lock.is_some_and(|lock| fs::symlink_metadata(&lock).is_ok() && !is_stale(&lock))
}

fn by_note(raider: &RaiderId, note: Note) -> Option<Provenance> {
    let (relic, incarnation) = raider.of_branch(&note.branch)?;
    (note.raider == *raider && note.incarnation == incarnation).then_some(Provenance {
        incarnation,
        relic,
        base: note.base,
        made: Timestamp::from_second(note.created).ok()?,
        branch: note.branch,
    })
}

fn by_branch(
    repo: &GitRepo,
    raider: &RaiderId,
    admin: &Path,
) -> Result<Option<Provenance>, RepoError> {
    let head = admin::line(admin, Path::new("HEAD")).ok().flatten();
    let head = String::from_utf8(head.unwrap_or_default()).unwrap_or_default();
    let branch = head.trim_end().strip_prefix("ref: refs/heads/");
    let told = branch.and_then(|branch| Some((branch, raider.of_branch(branch)?)));
    let Some((branch, (relic, incarnation))) = told else {
        return Ok(None);
    };
    let Some(base) = repo.their_refs().resolve(&format!("refs/heads/{branch}"))? else {
        return Ok(None);
    };
    // git writes this file once, when it makes the worktree.
    let first = admin.join("commondir");
    let made = fs::metadata(&first).and_then(|found| found.modified());
    let made = made.at("cannot inspect", &first)?;
    let bad = |error: jiff::Error| RepoError::Failed(error.to_string());
    Ok(Some(Provenance {
        incarnation,
        relic,
        branch: branch.to_owned(),
        base,
        made: Timestamp::try_from(made).map_err(bad)?,
    }))
}
