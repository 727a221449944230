//! The upkeep of the supervisor's own repository holds up no work.

use std::fs;
use std::path::{Path, PathBuf};

use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::{eventually, scratch};

use crate::support::again::again;
use crate::support::city::{City, toast};
use crate::support::git::{commit_all, rev, write};
use crate::support::program::script;

/// Holds up a command of git until it is dropped, also by a failing test.
struct Held(PathBuf);

impl Held {
    fn at(dir: &Path) -> Self {
        let file = dir.join("hang");
        fs::write(&file, "").unwrap();
        Self(file)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// Writes a `git` that hangs in `repack` while the file `hang` is beside it.
fn hanging_git(dir: &Path) {
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join("git"));
    let git = places.find(|git| git.is_file()).expect("git");
    let (dir, git) = (dir.display(), git.display());
    let text = format!(
        "case \" $* \" in *\" repack \"*)\n\
        touch '{dir}/began'; while [ -e '{dir}/hang' ]; do sleep 0.05; done ;;\nesac\nexec '{git}' \"$@\""
    );
    script(&Path::new(&dir.to_string()).join("git"), &text);
}

#[test]
fn charge_push_and_salvage_do_not_wait_for_a_repack_that_hangs() {
    let dir = scratch();
    hanging_git(dir.path());
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", dir.path().display());
    let test = charge_push_and_salvage_do_not_wait_for_a_repack_that_hangs;
    if !again(test, &[("PATH", path.as_ref())]) {
        return;
    }
    let path = std::env::var_os("PATH").unwrap();
    let dir = std::env::split_paths(&path).next().unwrap();
    let city = City::new();
    let repo = &city.repo;
    // So many loose objects that they are packed.
    let loose = repo.repo_dir().join("objects/17");
    fs::create_dir_all(&loose).unwrap();
    for number in 0..100 {
        fs::write(loose.join(format!("tmp_{number}")), "").unwrap();
    }
    std::thread::scope(|scope| {
        let held = Held::at(&dir);
        let upkeep = scope.spawn(|| repo.maintain());
        eventually("the repack runs", || {
            dir.join("began").exists().then_some(())
        });
        let sandbox = city.sandbox();
        write(&sandbox, "README", "work\n");
        let head = Oid::new(commit_all(&sandbox, "work")).unwrap();
        assert!(city.facts(&sandbox).is_committed());
        repo.push_branch("work", &head, None).unwrap();
        assert_eq!(rev(&city.origin(), "work"), head.as_str());
        write(&sandbox, "README", "more\n");
        repo.salvage(&sandbox, &toast(), Incarnation(1)).unwrap();
        assert!(!upkeep.is_finished(), "it still hangs");
        drop(held);
        assert!(upkeep.join().unwrap().unwrap(), "it joined packs");
    });
}
