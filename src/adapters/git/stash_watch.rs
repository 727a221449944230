//! Watches the list of stash entries, so that they are pinned as they are made: any agent may remove another's entry,
//! and a later `gc` would destroy it. If the kernel has no watches left, the patrols pin them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::rig::GitRepo;
use super::{share, stash};
use crate::adapters::watch::DirWatch;

/// The directory of the list, below theirs.
const DIR: &str = "logs/refs";
/// The name of the list in that directory.
const NAME: &str = "stash";

/// The watch of one rig.
#[derive(Default)]
pub(super) struct StashWatch(Mutex<Watching>);

#[derive(Default)]
struct Watching {
    /// None while the kernel has no watch left.
    watch: Option<DirWatch>,
    /// The device and inode of the watched directory.
    dir: Option<(u64, u64)>,
    /// The reason why nothing is watched, as it was logged.
    said: Option<String>,
}

impl std::fmt::Debug for StashWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StashWatch").finish_non_exhaustive()
    }
}

/// Watches the list unless it is watched already. An agent may put another directory in its place. A failure is only
/// logged: the patrols read the list all the same.
pub(super) fn watch(repo: &GitRepo) {
    let me = repo.me();
    if me.strong_count() == 0 || !super::prepare::is_adopted(repo) {
        return;
    }
    let watching = repo.stash_watch().0.lock();
    let mut watching = watching.unwrap_or_else(PoisonError::into_inner);
    let failed = begin(repo, &me, &mut watching).err();
    if let Some(why) = failed
        .as_ref()
        .filter(|why| watching.said.as_ref() != Some(why))
    {
        let (rig, hint) = (
            repo.name(),
            "raise the sysctl fs.inotify.max_user_instances or max_user_watches",
        );
        tracing::warn!(%rig, why, hint, "the stash list of the sandboxes cannot be watched; only patrols pin new entries");
    }
    watching.said = failed;
}

fn begin(repo: &GitRepo, me: &Weak<GitRepo>, watching: &mut Watching) -> Result<(), String> {
    let dir = repo.theirs().join(DIR);
    let found = || {
        let found = fs::symlink_metadata(&dir).ok().filter(fs::Metadata::is_dir);
        found.map(|found| (found.dev(), found.ino()))
    };
    if watching.dir.is_some() && watching.dir == found() {
        return Ok(());
    }
    // git makes the directory with the first entry, which would then be noticed too late.
    share::own_dir(repo, Path::new(DIR)).map_err(|why| why.to_string())?;
    let watch = match &watching.watch {
        Some(watch) => watch,
        None => watching.watch.insert(open(me)?),
    };
    // Read first: a directory that takes its place meanwhile is another one.
    let now = found();
    let watched = watch.watch(std::slice::from_ref(&dir));
    if let Some(why) = watched.failed {
        return Err(why);
    }
    watching.dir = now;
    Ok(())
}

fn open(me: &Weak<GitRepo>) -> Result<DirWatch, String> {
    let me = Weak::clone(me);
    let pin = move || {
        if let Some(repo) = me.upgrade() {
            stash::keep(&repo);
        }
    };
    let watch = DirWatch::new(Arc::new(pin)).map_err(|error| error.to_string())?;
    watch.filter(Some(Box::new(|path| path.ends_with(NAME))));
    Ok(watch)
}
