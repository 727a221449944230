//! Maintains ours: each copy of objects adds a pack, and each salvage adds refs. Packs are joined in the background,
//! beside all other work. No object is removed, even if no ref reaches it: salvage and the store name such objects.

use std::time::Duration;

use super::admin::entries_in;
use super::name_locks;
use super::rig::GitRepo;
use crate::ports::repo::RepoError;

/// The number of packs above which they are joined: git searches each for an object.
const PACKS: usize = 50;
/// The number of loose objects in one of the 256 directories that stands for several thousand.
const LOOSE: usize = 27;
/// The timeout. A large repository takes long, but nothing waits for it.
const LIMIT: Duration = Duration::from_secs(3600);

/// Joins packs and refs if there are many. Returns true if it did.
pub(super) fn maintain(repo: &GitRepo) -> Result<bool, RepoError> {
    let _turn = name_locks::take(repo.repo_dir(), "upkeep");
    if count(repo, "pack", ".pack")? <= PACKS && count(repo, "17", "")? <= LOOSE {
        return Ok(false);
    }
    // Joins packs with everything in them, and loose objects even if they are unreachable.
    repo.git()
        .args(["-c", "pack.threads=1", "-c", "repack.writeBitmaps=false"])
        .args(["repack", "-d", "-n", "--quiet", "--geometric=2"])
        .limit(LIMIT)
        .run()?;
    repo.git().args(["pack-refs", "--all"]).limit(LIMIT).run()?;
    Ok(true)
}

/// Counts the files of an object directory whose names have this suffix.
fn count(repo: &GitRepo, dir: &str, end: &str) -> Result<usize, RepoError> {
    let dir = repo.repo_dir().join("objects").join(dir);
    let entries = entries_in(&dir)?.into_iter();
    let names = entries.map(|entry| entry.file_name());
    Ok(names
        .filter(|name| name.as_encoded_bytes().ends_with(end.as_bytes()))
        .count())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rigged;
    use super::*;

    #[test]
    fn many_packs_become_few_and_no_object_goes() {
        let rig = Rigged::new();
        let repo = &rig.repo;
        let object = |text: String| {
            let made = repo
                .git()
                .args(["hash-object", "-w", "--stdin"])
                .stdin(text);
            made.run().unwrap().text()
        };
        assert!(!maintain(repo).unwrap());
        // No ref reaches any of these.
        let packs = (0..=PACKS).map(|n| {
            let id = object(format!("packed {n}"));
            let pack = repo.git().args(["pack-objects", "-q", "objects/pack/pack"]);
            pack.stdin(format!("{id}\n")).run().unwrap();
            id
        });
        let mut ids: Vec<String> = packs.collect();
        repo.git().arg("prune-packed").run().unwrap();
        ids.push(object("loose".to_owned()));
        let refs = || repo.git().arg("for-each-ref").run().unwrap().text();
        let before = refs();
        assert!(maintain(repo).unwrap());
        assert!(count(repo, "pack", ".pack").unwrap() < 10);
        assert_eq!((refs(), maintain(repo).unwrap()), (before, false));
        for id in ids.iter().map(String::as_str).chain([rig.base.as_str()]) {
            repo.git().args(["cat-file", "-e", id]).run().unwrap();
        }
        repo.git().args(["fsck", "--full"]).run().unwrap();
    }
}
