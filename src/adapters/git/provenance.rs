//! Finds the owner of a sandbox from the sandbox itself: by the note that was written when it was made, else by the
//! branch that is checked out. The link in the sandbox is not needed.

use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::admin::{self, At, Note};
use super::entry_links;
use super::rig::GitRepo;
use crate::domain::ids::{RaiderId, SlotName};
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
    for admin in entry_links::of_sandbox(repo, sandbox)? {
        let found = by_branch(repo, &raider, &admin)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
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
