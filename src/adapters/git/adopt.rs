//! Migrates a city of the first layout, which has one repository for each rig. At the first start the refs that count
//! move into ours: salvage, pins of the queue, branches that a push left there, and the target if nothing is pushed.
//! The remotes are asked again for their branches.

use super::admin::{self, failed};
use super::rig::GitRepo;
use crate::adapters::mounts;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The refs that move under their own names.
const KEPT: &[&str] = &["refs/horde/"];
/// The refs of an interrupted first fetch.
const SEED: &str = "refs/horde/seed/";
/// The prefix of the old remote-tracking refs until the first fetch, which then only transfers new objects.
const KNOWN: &str = "refs/horde/seed/adopted";

/// Takes over the refs of theirs. A second call, or a call without refs, succeeds.
pub(super) fn adopt(repo: &GitRepo) -> Result<(), RepoError> {
    let theirs = repo.their_refs();
    let mut wanted: Vec<(String, Oid)> = Vec::new();
    for prefix in KEPT {
        let kept = theirs.list(prefix)?;
        wanted.extend(kept.into_iter().filter(|(name, _)| !name.starts_with(SEED)));
    }
    for (name, id) in theirs.list("refs/remotes/")? {
        if let Some(short) = name.strip_prefix("refs/remotes/") {
            wanted.push((format!("{KNOWN}/{short}"), id));
        }
    }
    if !repo.pushes() {
        let heads = theirs.list("refs/heads/")?;
        let of_raider = |name: &str| name.starts_with("refs/heads/raider/");
        wanted.extend(heads.into_iter().filter(|(name, _)| !of_raider(name)));
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let ids: Vec<Oid> = wanted.iter().map(|(_, id)| id.clone()).collect();
    repo.take(&ids)?;
    let script: String = wanted
        .iter()
        .map(|(name, id)| format!("update {name} {id}\n"))
        .collect();
    repo.git()
        .args(["-c", "core.fsync=committed,reference"])
        .args(["update-ref", "--stdin"])
        .stdin(script)
        .run()?;
    tracing::info!(rig = %repo.name(), refs = wanted.len(), "the refs of a city of the first layout were migrated to the supervisor's repository");
    drop_gates(repo)
}

/// Removes the gate's worktree from theirs: it belongs to ours from now on.
fn drop_gates(repo: &GitRepo) -> Result<(), RepoError> {
    for admin in admin::entries(repo)? {
        let name = admin.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("gate-") && admin::leads_back(&admin, &repo.forge_dir().join(&*name)) {
            mounts::remove_dir_all(&admin)
                .map_err(|error| failed("cannot remove", &admin, &error))?;
        }
    }
    Ok(())
}
