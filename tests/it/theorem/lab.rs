//! A city whose git is real: one rig with a bare origin in a temporary directory, and a daemon that
//! can be made to die at any journalled step.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::city::repo;
use crate::support::git::{git, try_git, write};
use crate::support::repository::repository;
use horde_supervisor::adapters::git::GitRepo;
use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::saga::FaultPoint;
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::world::{Scenario, TestCity};

/// Another line of work, which conflicts with every edit of its only file.
pub const OTHER: &str = "refs/horde/test/other";

/// The contents of a file with converted line endings, as it is checked out.
pub const CRLF: &[u8] = b"one\r\ntwo\r\n";

/// A file whose checkout can be prevented.
pub const HELD: &str = "src/last.held";

const HOUR: Duration = Duration::from_secs(3600);

/// The action at a fault point.
enum Act {
    Die,
    Do(Box<dyn FnOnce() + Send>),
}

/// The action at the next fault points.
#[derive(Default)]
pub struct Fate {
    next: Mutex<Option<(Vec<FaultPoint>, Act)>>,
    /// The point at which the daemon died.
    dead: Mutex<Option<FaultPoint>>,
}

impl Fate {
    /// Makes the daemon die at the first of these points that it reaches: from then on, no task passes any fault point.
    pub fn die(&self, at: &[FaultPoint]) {
        *self.next.lock().unwrap() = Some((at.to_vec(), Act::Die));
    }

    /// Runs something else at this point.
    pub fn meanwhile(&self, at: FaultPoint, act: impl FnOnce() + Send + 'static) {
        *self.next.lock().unwrap() = Some((vec![at], Act::Do(Box::new(act))));
    }

    /// Returns the point at which the daemon died, if it did.
    pub fn dead(&self) -> Option<FaultPoint> {
        *self.dead.lock().unwrap()
    }

    /// Cancels the planned action.
    pub fn spare(&self) {
        *self.next.lock().unwrap() = None;
    }

    fn reach(&self, point: FaultPoint) {
        let mut next = self.next.lock().unwrap();
        let act = next
            .take_if(|(at, _)| at.contains(&point))
            .map(|(_, act)| act);
        drop(next);
        match act {
            Some(Act::Do(act)) => act(),
            Some(Act::Die) => *self.dead.lock().unwrap() = Some(point),
            None => {}
        }
        // Not a panic, because that would be printed. Waiting tasks are gone with the daemon.
        if self.dead().is_some() {
            std::panic::resume_unwind(Box::new("dead"));
        }
    }
}

/// A city with its rig.
pub struct Lab {
    dir: tempfile::TempDir,
    pub repo: Arc<GitRepo>,
    pub fate: Arc<Fate>,
    city: Option<TestCity>,
    /// Files by which agents configure git for all sandboxes, as they were before any did.
    plain: Vec<(PathBuf, Vec<u8>)>,
}

/// The names of those files, below theirs.
const TOLD: [&str; 4] = ["config", "info/attributes", "info/exclude", "info/grafts"];

impl Lab {
    /// Makes a daemon on a prepared rig.
    pub async fn new() -> Self {
        // On the disk, because in memory fewer fingerprints of files are trusted, and most sandboxes are on disks.
        let dir = horde_supervisor::testing::scratch_on_disk();
        let root = fs::canonicalize(dir.path()).expect("a path");
        found(&root);
        let repo = repo(&root, RigSource::Path(root.join("checkout")), true);
        repo.prepare().expect("prepared");
        let bare = repo.theirs().display().to_string();
        let other = format!("HEAD:{OTHER}");
        git(&root.join("checkout"), &["push", "-q", &bare, &other]);
        let mut lab = Self {
            dir,
            repo: Arc::new(repo),
            fate: Arc::default(),
            city: None,
            plain: Vec::new(),
        };
        let told = TOLD.map(|name| lab.repo.theirs().join(name));
        lab.plain = told
            .map(|file| (file.clone(), fs::read(file).unwrap_or_default()))
            .into();
        lab.city = Some(lab.scenario().start().await);
        lab
    }

    fn scenario(&self) -> Scenario {
        let (fate, root) = (Arc::clone(&self.fate), self.path("city"));
        let mut scenario = Scenario::new()
            .with(|city| {
                city.root = root;
                city.daemon.patrol_interval = HOUR;
                city.rigs[0].witness.keep_dirty = HOUR * 3;
            })
            .fault(Arc::new(move |point| fate.reach(point)));
        scenario.repo = Some(Arc::clone(&self.repo) as _);
        scenario
    }

    /// Returns the running daemon.
    pub fn city(&self) -> &TestCity {
        self.city.as_ref().expect("a city")
    }

    /// Kills the daemon and starts it again; it may die once more at one of these points.
    pub async fn restart(&mut self, at: &[FaultPoint]) {
        let city = self.city.take().expect("a city");
        let clock = Arc::clone(&city.world.clock);
        let parts = city.crash().await;
        *self.fate.dead.lock().unwrap() = None;
        self.fate.die(at);
        self.city = Some(self.scenario().start_on(parts, clock).await);
    }

    /// Undoes the configuration that an agent gave git for all sandboxes: the next case begins as the first.
    pub fn untell(&self) {
        for (file, text) in &self.plain {
            match text.is_empty() {
                true => drop(fs::remove_file(file)),
                false => fs::write(file, text).expect("written"),
            }
        }
        let theirs = self.repo.theirs();
        for repository in [theirs, self.repo.repo_dir()] {
            drop(fs::remove_file(repository.join("packed-refs.lock")));
        }
        remove_locks(&theirs.join("refs"));
        let list = [
            "for-each-ref",
            "--format=%(refname)",
            "refs/replace",
            "refs/remotes/origin/mine",
        ];
        for name in git(theirs, &list).lines() {
            git(theirs, &["update-ref", "-d", name]);
        }
        let main = "refs/remotes/origin/main";
        let tip = git(self.repo.repo_dir(), &["rev-parse", main]);
        git(theirs, &["update-ref", main, &tip]);
    }

    /// Returns a path beside the city.
    pub fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path())
            .expect("a path")
            .join(name)
    }

    /// Sets whether the git of the user's checkout keeps modes and links, as on a file system that has none.
    pub fn keep_modes(&self, kept: bool) {
        let checkout = self.path("checkout");
        for key in ["core.fileMode", "core.symlinks"] {
            match kept {
                true => git(&checkout, &["config", "--unset-all", key]),
                false => git(&checkout, &["config", key, "false"]),
            };
        }
        self.repo.prepare().expect("prepared");
    }

    /// Returns the stash entries that another raider took.
    pub fn taken(&self) -> Vec<git2::Oid> {
        let list = fs::read_to_string(self.path("taken")).unwrap_or_default();
        let ids = list.lines().map(git2::Oid::from_str);
        ids.collect::<Result<_, _>>().expect("ids")
    }

    /// Sets whether checkouts leave out the held file.
    pub fn hold(&self, hold: bool) {
        for (key, value) in [("clean", "cat"), ("smudge", "false"), ("required", "true")] {
            let key = format!("filter.held.{key}");
            for repository in [self.repo.repo_dir(), self.repo.theirs()] {
                match hold {
                    true => drop(git(repository, &["config", &key, value])),
                    // A start may have removed the key.
                    false => drop(try_git(repository, &["config", "--unset", &key])),
                }
            }
        }
    }

    /// Another client changes a file on the target.
    pub fn move_target(&self, file: &str, text: &[u8]) {
        let repo = git2::Repository::open(self.path("origin.git")).expect("a repository");
        let tip = repo
            .find_reference("refs/heads/main")
            .and_then(|tip| tip.peel_to_commit());
        let tip = tip.expect("a commit");
        let mut update = git2::build::TreeUpdateBuilder::new();
        let blob = repo.blob(text).expect("stored");
        update.upsert(file, blob, git2::FileMode::Blob);
        let tree = update
            .create_updated(&repo, &tip.tree().expect("a tree"))
            .expect("a tree");
        let tree = repo.find_tree(tree).expect("a tree");
        let who = git2::Signature::now("Bob", "bob@example.invalid").expect("somebody");
        let at = Some("refs/heads/main");
        repo.commit(at, &who, &who, "theirs\n", &tree, &[&tip])
            .expect("committed");
    }
}

/// Removes the locks of refs below a directory.
fn remove_locks(dir: &Path) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            remove_locks(&path);
        } else if path.extension().is_some_and(|end| end == "lock") {
            fs::remove_file(path).expect("removed");
        }
    }
}

/// Makes a checkout with a bare origin, a second line of work at its HEAD, and a library.
fn found(root: &Path) {
    let (checkout, library) = (root.join("checkout"), root.join("library"));
    repository(&library, None, |dir| write(dir, "code", "library\n"));
    repository(&checkout, Some("origin.git"), fill);
    git(&checkout, &["checkout", "-q", "-b", "other"]);
    write(&checkout, "src/a.txt", "theirs\n");
    git(&checkout, &["commit", "-qam", "other"]);
}

fn fill(checkout: &Path) {
    for (name, text) in [
        ("README", "hello\n"),
        ("src/a.txt", "a\n"),
        ("src/b.txt", "b\n"),
        ("src/deep/c.txt", "c\n"),
        ("src/deep/d.txt", "d\n"),
        ("src/deep/e.txt", "e\n"),
        ("src/deep/f.txt", "f\n"),
        ("src/stat", "stat\n"),
        ("src/mode", "mode\n"),
        ("src/book.nb", "b\n"),
        ("src/x.dat", "one\ntwo\n"),
        ("kind/file", "a file\n"),
        ("kind/dir/file", "a directory\n"),
        (HELD, "held\n"),
        ("run.sh", "#!/bin/sh\n"),
        (".gitignore", "*.ignored\ntarget/\n.env\n"),
        (
            ".gitattributes",
            "*.eol text eol=crlf\n*.held filter=held\n*.nb filter=strip\n*.dat filter=none-such text eol=lf\n",
        ),
    ] {
        write(checkout, name, text);
    }
    write(checkout, "crlf.eol", CRLF);
    let exec = fs::Permissions::from_mode(0o755);
    fs::set_permissions(checkout.join("run.sh"), exec).expect("set");
    std::os::unix::fs::symlink("README", checkout.join("link")).expect("linked");
    std::os::unix::fs::symlink("a.txt", checkout.join("src/link")).expect("linked");
}
