//! The cost of the parts of custody in a sandbox of 20,000 files, in processor time of this process and of the git
//! processes that it waits for: making the sandbox, and measuring it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use horde_supervisor::adapters::git::{GitRepo, GitRig};
use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::ports::repo::{Repo, SandboxSpec};
use nix::sys::resource::UsageWho::{RUSAGE_CHILDREN, RUSAGE_SELF};

use crate::task::{Ground, git, spent};

/// The number of measurements.
const SAMPLES: u32 = 10;

/// Prints both.
pub fn measure() {
    let ground = Ground::new();
    let dir = tempfile::tempdir().expect("a directory");
    let root = fs::canonicalize(dir.path()).expect("a real path");
    let repo = repo(&root.join("city"), ground.at("checkout"));
    repo.prepare().expect("prepared");
    let spec = spec(&root, &ground.at("checkout"));
    fs::create_dir_all(&spec.task_dir).expect("a directory");
    for name in ["TASK.md", "outcome"] {
        fs::write(spec.task_dir.join(name), "").expect("a file");
    }
    let made = cost(|| repo.make_sandbox(&spec).expect("a sandbox"));
    println!("a sandbox of 20,000 files is made: {made:?}");
    fs::write(spec.path.join("more.txt"), "more\n").expect("a file");
    git(&spec.path, &["add", "more.txt"]);
    git(&spec.path, &["commit", "--quiet", "-m", "more"]);
    let first = cost(|| drop(repo.facts(&spec.path, "main").expect("facts")));
    let more = cost(|| {
        for _ in 0..SAMPLES {
            repo.facts(&spec.path, "main").expect("facts");
        }
    });
    println!("it is measured: {first:?}, again: {:?}", more / SAMPLES);
}

fn cost(act: impl FnOnce()) -> Duration {
    let now = || spent(RUSAGE_SELF) + spent(RUSAGE_CHILDREN);
    let before = now();
    act();
    now() - before
}

/// Returns the repository of the rig of a city, as its supervisor has it.
pub fn repo(city: &Path, checkout: std::path::PathBuf) -> GitRepo {
    let rig = city.join("rig");
    GitRepo::new(GitRig {
        name: "rig".parse().expect("a name"),
        source: RigSource::Path(checkout),
        ours: city.join(".horde/custody/rig.git"),
        theirs: rig.join("repo.git"),
        raiders_dir: rig.join("raiders"),
        forge_dir: rig.join("forge"),
        push: true,
    })
}

fn spec(root: &Path, checkout: &Path) -> SandboxSpec {
    let base = git(checkout, &["rev-parse", "origin/main"]);
    SandboxSpec {
        raider: "rig/raiders/Toast".parse().expect("an id"),
        relic: "gt-1".to_owned().try_into().expect("an id"),
        incarnation: Incarnation(1),
        branch: "raider/Toast/gt-1-1".to_owned(),
        base: Oid::new(base).expect("an id"),
        path: root.join("city/rig/raiders/Toast"),
        task_dir: root.join("city/.horde/tasks/rig/gt-1/Toast-1"),
        copy: Vec::new(),
    }
}
