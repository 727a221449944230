//! The end of a salvage: its refs, each by compare-and-swap, all in one transaction of git's. The
//! objects stay until somebody has git collect them.

use super::super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Where these refs point; those that are gone are left out.
pub(in super::super) fn tips(
    repo: &GitRepo,
    names: &[String],
) -> Result<Vec<(String, Oid)>, RepoError> {
    let mut tips = Vec::new();
    for name in names {
        if let Some(tip) = repo.resolve(name)? {
            tips.push((name.clone(), tip));
        }
    }
    Ok(tips)
}

/// Deletes these refs where they point as said.
pub(in super::super) fn delete_refs(
    repo: &GitRepo,
    refs: &[(String, Oid)],
) -> Result<(), RepoError> {
    let mut script = String::new();
    for (name, tip) in refs {
        match repo.resolve(name)? {
            // A deletion that was interrupted goes on here.
            None => {}
            Some(now) if now == *tip => script.push_str(&format!("delete {name} {tip}\n")),
            Some(now) => {
                return Err(RepoError::Moved {
                    name: name.clone(),
                    expected: tip.to_string(),
                    found: now.to_string(),
                });
            }
        }
    }
    // git compares again, under its locks.
    repo.git()
        .args(["-c", "core.fsync=reference", "update-ref", "--stdin"])
        .stdin(script)
        .run()
        .map(drop)
}
