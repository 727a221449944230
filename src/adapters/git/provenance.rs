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

/// Returns where these bytes are committed under that name, by HEAD's commit; without bytes, any under that name, also
/// in the index. Reads ours only, without any configuration of an agent.
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
    let blob = blob_of(repo, &head, name)?;
    let is_there = match (bytes, &blob) {
        (None, blob) => blob.is_some() || is_staged(repo, sandbox, name)?,
        (Some(_), None) => false,
        (Some(bytes), Some(blob)) => {
            let found = hash::bytes(Format::of(blob), bytes);
            found.at("cannot hash the content of", sandbox)? == *blob
        }
    };
    if !is_there {
        return Ok(Committed::No);
    }
    let Some(note) = Note::read(repo, sandbox) else {
        return Ok(Committed::Before);
    };
    // The session may have changed a file that the repository has.
    let before = blob_of(repo, &note.base, name)?;
    match before.is_some() && before == blob {
        true => Ok(Committed::Before),
        false => Ok(Committed::OnBranch),
    }
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

/// Returns true if the index has the name: the agent is about to commit that file, or a merge that it is to finish brings it.
/// True as well where the index cannot be read.
fn is_staged(repo: &GitRepo, sandbox: &Path, name: &str) -> Result<bool, RepoError> {
    let Some(admin) = entry_links::linked(sandbox) else {
        return Ok(true);
    };
    let index = lens(repo)?.1.index(&admin, &repo.recent)?;
    let mut entries = index.entries.iter();
    Ok(index.odd.is_some() || entries.any(|staged| staged.path == name.as_bytes()))
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
