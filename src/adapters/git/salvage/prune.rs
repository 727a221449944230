//! Removes a salvage: deletes its refs, each by compare-and-swap, all in one git transaction. The objects stay until
//! git's garbage collection is run by hand.

use std::collections::HashMap;

use super::super::object_copy::missing;
use super::super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Returns the objects of these refs; leaves out missing refs. All refs are listed once, however many are asked for.
pub(in super::super) fn tips(
    repo: &GitRepo,
    names: &[String],
) -> Result<Vec<(String, Oid)>, RepoError> {
    let refs = repo.refs()?.into_iter().map(|(id, name)| (name, id));
    let known: HashMap<String, Oid> = refs.collect();
    let tip = |name: &String| Some((name.clone(), known.get(name)?.clone()));
    Ok(names.iter().filter_map(tip).collect())
}

/// Returns the objects of these refs as [`tips`] does, and leaves out those that ours has lost.
pub(in super::super) fn present_tips(
    repo: &GitRepo,
    names: &[String],
) -> Result<Vec<(String, Oid)>, RepoError> {
    let mut found = tips(repo, names)?;
    let known = repo.known();
    let is_known = |id: &Oid| known.as_ref().is_some_and(|known| known.kind(id).is_some());
    let ids = found.iter().map(|(_, id)| id);
    let unknown: Vec<Oid> = ids.filter(|id| !is_known(id)).cloned().collect();
    if !unknown.is_empty() {
        let lost = missing(repo.git(), &unknown)?;
        found.retain(|(_, id)| !lost.contains(id));
    }
    Ok(found)
}

/// Deletes these refs if they still have these values.
pub(in super::super) fn delete_refs(
    repo: &GitRepo,
    refs: &[(String, Oid)],
) -> Result<(), RepoError> {
    let names: Vec<String> = refs.iter().map(|(name, _)| name.clone()).collect();
    let known: HashMap<String, Oid> = tips(repo, &names)?.into_iter().collect();
    let mut script = String::new();
    for (name, tip) in refs {
        match known.get(name) {
            // An interrupted deletion continues here.
            None => {}
            Some(now) if now == tip => script.push_str(&format!("delete {name} {tip}\n")),
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
