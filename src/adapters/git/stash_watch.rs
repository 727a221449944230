//! Watches the list of stash entries, so that they are pinned at once: any agent may remove another's entry, and a later
//! `gc` would destroy it. If the kernel has no watches left, the patrols pin them.
//!
//! An entry is safe when its objects are copied, some milliseconds after it was made. One that is removed from the list and
//! destroyed by `git prune` before that is lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::rig::{GitRepo, locked};
use super::{share, stash};
use crate::adapters::watch::DirWatch;

/// The directory of the list, below theirs.
const DIR: &str = "logs/refs";
/// The directories below theirs that are watched: with each of the others, the one of the list can be moved away.
const WATCHED: [&str; 3] = ["", "logs", DIR];
/// The name of the list in that directory.
const NAME: &str = "stash";
/// The longest pause between two looks at the list of a rig that is written without end.
const PAUSE: Duration = Duration::from_millis(300);
/// The pause after a first look; it doubles with each look. An entry that is made and removed during a pause is not seen.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The watch of one rig.
#[derive(Debug, Default)]
pub(super) struct StashWatch(Mutex<Watching>);

#[derive(Debug, Default)]
struct Watching {
    /// The watched directories.
    dirs: Option<Ids>,
    /// The reason why nothing is watched, as it was logged.
    said: Option<String>,
}

/// The devices and inodes of directories.
type Ids = [(u64, u64); WATCHED.len()];

/// The watches of all rigs of this process: the kernel limits the inotify instances of a user, and not the directories of one.
static ALL: Mutex<Option<All>> = Mutex::new(None);

struct All {
    watch: DirWatch,
    rigs: BTreeMap<PathBuf, Weak<GitRepo>>,
    wakers: Wakers,
}

/// The worker that reads the list of a directory. The lock is taken to report a change, never while waiting for one.
type Wakers = Arc<Mutex<BTreeMap<PathBuf, SyncSender<()>>>>;

/// Watches the list unless it is watched already. An agent may put another directory in its place. A failure is only
/// logged: the patrols read the list all the same.
pub(super) fn watch(repo: &GitRepo) {
    let me = Weak::clone(&repo.state.me);
    if me.strong_count() == 0 || !super::prepare::is_lent(repo) {
        return;
    }
    let mut watching = locked(&repo.state.stash_watch.0);
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
    let found = || -> Option<Ids> {
        let mut ids = Ids::default();
        for (id, below) in ids.iter_mut().zip(WATCHED) {
            let found = fs::symlink_metadata(repo.theirs().join(below)).ok();
            let found = found.filter(fs::Metadata::is_dir)?;
            *id = (found.dev(), found.ino());
        }
        Some(ids)
    };
    if watching.dirs.is_some() && watching.dirs == found() {
        return Ok(());
    }
    // git makes the directory with the first entry, which would then be noticed too late.
    share::own_dir(repo, Path::new(DIR)).map_err(|why| why.to_string())?;
    // The ids are read first: a directory that replaces one meanwhile has another id.
    let now = found();
    add(me, repo.theirs())?;
    watching.dirs = now;
    Ok(())
}

/// Watches the list of the repository in a directory beside those of the other rigs.
fn add(me: &Weak<GitRepo>, dir: &Path) -> Result<(), String> {
    let mut all = locked(&ALL);
    let all = match &mut *all {
        Some(all) => all,
        none => none.insert(open()?),
    };
    all.rigs.retain(|_, repo| repo.strong_count() > 0);
    if !all.rigs.get(dir).is_some_and(|repo| repo.ptr_eq(me)) {
        let repo = Weak::clone(me);
        let pin = move || {
            if let Some(repo) = repo.upgrade() {
                stash::keep(&repo);
                // The directory may have been replaced by another one, whose list is new.
                watch(&repo);
                stash::keep(&repo);
            }
        };
        let waker = spawn(pin).map_err(|error| error.to_string())?;
        locked(&all.wakers).insert(dir.to_owned(), waker);
        all.rigs.insert(dir.to_owned(), Weak::clone(me));
    }
    locked(&all.wakers).retain(|dir, _| all.rigs.contains_key(dir));
    let of = |rig: &PathBuf| WATCHED.map(|below| rig.join(below));
    let dirs: Vec<PathBuf> = all.rigs.keys().flat_map(of).collect();
    let mut failed = all.watch.watch(&dirs).failed;
    let own = of(&dir.to_owned());
    let failed = own.iter().find_map(|dir| failed.remove(dir));
    failed.map_or(Ok(()), Err)
}

fn open() -> Result<All, String> {
    let wakers = Wakers::default();
    let named = Arc::clone(&wakers);
    // An event may have been lost, and the list that it was about is unknown.
    let lost = Arc::clone(&wakers);
    let wake_all = move || locked(&lost).values().for_each(wake);
    let watch = DirWatch::new(Arc::new(wake_all)).map_err(|error| error.to_string())?;
    watch.filter(Some(Box::new(move |path| {
        if let Some(rig) = rig_of(path)
            && let Some(waker) = locked(&named).get(rig).cloned()
        {
            wake(&waker);
        }
        false
    })));
    let rigs = BTreeMap::new();
    Ok(All {
        watch,
        rigs,
        wakers,
    })
}

/// Returns the repository whose list a changed path is, or is a directory of.
fn rig_of(path: &Path) -> Option<&Path> {
    let list = Path::new(DIR).join(NAME);
    let mut within = list.ancestors().filter(|below| *below != Path::new(""));
    let below = within.find(|below| path.ends_with(below))?;
    path.ancestors().nth(below.components().count())
}

/// Asks for one more run. A run that is already asked for covers this change, too.
fn wake(waker: &SyncSender<()>) {
    let _asked_already_or_ended = waker.try_send(());
}

/// Starts the thread that runs this when it is woken. The thread ends when its waker is dropped.
fn spawn(run: impl FnMut() + Send + 'static) -> std::io::Result<SyncSender<()>> {
    let (waker, woken) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("stash".to_owned());
    thread.spawn(move || work(&woken, run)).map(|_| waker)
}

/// Runs at once when it is woken, and after a pause where it was woken meanwhile.
fn work(woken: &Receiver<()>, mut run: impl FnMut()) {
    let (mut pause, mut idle) = (FIRST_PAUSE, Instant::now());
    while woken.recv().is_ok() {
        pause = match idle.elapsed() < PAUSE {
            true => PAUSE.min(pause * 2),
            false => FIRST_PAUSE,
        };
        run();
        thread::sleep(pause);
        idle = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_the_list_or_of_a_directory_above_it_is_of_its_repository() {
        for (path, rig) in [
            (
                "/c/.horde/repo.git/logs/refs/stash",
                Some("/c/.horde/repo.git"),
            ),
            ("/c/.horde/repo.git/logs/refs", Some("/c/.horde/repo.git")),
            ("/c/.horde/repo.git/logs", Some("/c/.horde/repo.git")),
            ("/c/.horde/repo.git/logs/HEAD", None),
            ("/c/.horde/repo.git/packed-refs", None),
            ("/c/.horde/repo.git/refs/stash", None),
        ] {
            assert_eq!(rig_of(Path::new(path)), rig.map(Path::new), "{path}");
        }
    }

    /// It ran for each change, without end.
    #[test]
    fn burst_of_changes_is_looked_at_once_more_at_its_end_and_after_a_pause() {
        let (waker, woken) = mpsc::sync_channel(1);
        let (began, begins) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let worker = thread::spawn(move || {
            work(&woken, || {
                began.send(Instant::now()).unwrap();
                goes.recv().unwrap();
            });
        });
        wake(&waker);
        let first = begins.recv().unwrap();
        (0..1_000).for_each(|_| wake(&waker));
        go.send(()).unwrap();
        let second = begins.recv().unwrap();
        assert!(second.duration_since(first) >= FIRST_PAUSE);
        go.send(()).unwrap();
        let mut last = second;
        let pauses = (0..6).map(|_| {
            wake(&waker);
            let begun = begins.recv().unwrap();
            go.send(()).unwrap();
            begun.duration_since(std::mem::replace(&mut last, begun))
        });
        assert!(pauses.max() >= Some(PAUSE), "it is written without end");
        drop(waker);
        worker.join().unwrap();
        assert_eq!(begins.try_iter().count(), 0);
    }
}
