//! Finds the owner of a sandbox from the sandbox itself: by the note that was written when it was made, else by the
//! branch that is checked out. The link in the sandbox is not needed.

use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::admin::{self, At, Note};
use super::files::hash::{self, Format};
use super::ground::ground;
use super::measure::lens;
use super::rig::GitRepo;
use crate::domain::ids::{Oid, RaiderId, SlotName};
use crate::ports::repo::{Provenance, RepoError};

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
    for admin in admin::of_sandbox(repo, sandbox)? {
        let found = by_branch(repo, &raider, &admin)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns true if HEAD's commit has these bytes under that name; without bytes, if it or the index has the name. Reads
/// ours only, without any configuration of an agent.
pub(super) fn has_committed(
    repo: &GitRepo,
    sandbox: &Path,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<bool, RepoError> {
    let Some(head) = ground(repo, sandbox)?.head else {
        return Ok(false);
    };
    repo.take(std::slice::from_ref(&head))?;
    let listed = repo
        .git()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["ls-tree", head.as_str(), "--", name])
        .run()?
        .text();
    // `<mode> <kind> <oid>\t<path>`
    let Some(bytes) = bytes else {
        return Ok(!listed.is_empty() || is_staged(repo, sandbox, name)?);
    };
    let blob = listed.split_ascii_whitespace().nth(2);
    let Some(blob) = blob.and_then(|blob| Oid::new(blob).ok()) else {
        return Ok(false);
    };
    let found = hash::bytes(Format::of(&blob), bytes);
    found
        .map(|found| found == blob)
        .at("cannot hash the content of", sandbox)
}

/// Returns true if the index has the name: the agent is about to commit that file, or a merge that it is to finish brings it.
/// True as well where the index cannot be read.
fn is_staged(repo: &GitRepo, sandbox: &Path, name: &str) -> Result<bool, RepoError> {
    let Some(admin) = admin::linked(sandbox) else {
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
