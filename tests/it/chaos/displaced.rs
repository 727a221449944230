//! The directory of a city is removed, moved or replaced while its supervisor runs: there are never two supervisors, and
//! never two copies of an agent, whichever directory the next one is started on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use horde_supervisor::testing::poll::pass;
use nix::sys::signal::Signal;
use serde_json::json;

use super::{agent, crowd, named, plan, runs_as};
use crate::support::live::{City, LIMIT, until, wait};
use crate::support::{processes, program};

/// The way in which another directory takes the place of the city's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `cp -a C B; rm -rf C; mv B C`.
    Removed,
    /// `cp -a C B; mv C A; mv B C`.
    Moved,
    /// As the first, but the copy has neither the state of the city nor that of its rigs.
    Afresh,
}

fn city() -> City {
    crowd(1).start()
}

fn copied(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// Replaces the directory. Returns the new path of the original, if it still exists.
fn replace(city: &City, way: Way) -> Option<PathBuf> {
    let root = city.root();
    let (copy, away) = (root.with_extension("copy"), root.with_extension("away"));
    copied(root, &copy);
    if way == Way::Afresh {
        for state in [".horde", "horde"] {
            let _there = fs::remove_dir_all(copy.join(state));
        }
    }
    match way {
        Way::Moved => fs::rename(root, &away).unwrap(),
        Way::Removed | Way::Afresh => {
            until("it is removed", || fs::remove_dir_all(root).is_ok());
        }
    }
    fs::rename(&copy, root).unwrap();
    (way == Way::Moved).then_some(away)
}

/// Starts a supervisor that must refuse to run, and returns its exit code and words.
fn refused(city: &City, root: &Path) -> (Option<i32>, String) {
    let mut second = city.program("horde-supervisor");
    let Output { status, stderr, .. } = second.arg(root).current_dir(root).output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.code().is_some(), "{status}: {said}");
    (status.code(), said)
}

/// Waits until the only agent runs, and returns its process.
fn runs(city: &City) -> u32 {
    let pid = wait("the agent runs", || {
        let agents = city.ask("agent.list", json!({})).ok()?;
        let agent = agents.as_array()?.first()?.clone();
        (agent["state"] == "running").then(|| agent["pid"].as_u64())?
    });
    u32::try_from(pid).unwrap()
}

fn replaced(way: Way) {
    let mut city = city();
    let agent = runs_as(&city, "a0", 1);
    let old = city.pid();
    // It cannot have ended before the second one starts.
    processes::signal(old, Signal::SIGSTOP);
    let away = replace(&city, way);
    let (code, said) = refused(&city, city.root());
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&format!("(pid {old})")), "{said}");
    assert!(said.contains("replaced while it ran"), "{said}");
    let stop = city.hd_text(&["stop"]);
    assert!(stop.code != 0, "nothing was stopped: {stop:?}");
    assert!(stop.err.contains(&format!("(pid {old})")), "{stop:?}");
    assert!(processes::runs(agent), "no process ended it");
    processes::signal(old, Signal::SIGCONT);
    assert_eq!(city.ended().code(), Some(1), "{way:?}");
    assert!(named(&city, "sleep").is_empty(), "its sessions ended first");
    city.start();
    let again = runs(&city);
    // Its program has the name of the shell until that has replaced itself.
    wait("one copy", || {
        (named(&city, "sleep") == [again]).then_some(())
    });
    city.stop();
    assert!(named(&city, "sleep").is_empty(), "stopped is stopped");
    if let Some(away) = away {
        fs::remove_dir_all(away).unwrap();
    }
}

#[test]
fn backup_that_replaces_a_running_city_waits_for_the_end_of_its_supervisor() {
    replaced(Way::Removed);
}

#[test]
fn copy_that_takes_the_place_of_a_moved_running_city_waits_for_the_end_of_its_supervisor() {
    replaced(Way::Moved);
}

#[test]
fn city_made_afresh_in_the_place_of_a_running_one_waits_for_the_end_of_its_supervisor() {
    replaced(Way::Afresh);
}

/// The id of a city is held, too: its copy has the same one, and its original is not at the recorded place.
#[test]
fn copy_of_a_city_that_was_moved_while_it_runs_is_refused() {
    let city = city();
    let agent = runs_as(&city, "a0", 1);
    let root = city.root();
    let (copy, moved) = (root.with_extension("copy"), root.with_extension("moved"));
    fs::rename(root, &moved).unwrap();
    copied(&moved, &copy);
    for there in [&moved, &copy] {
        let (code, said) = refused(&city, there);
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(&format!("(pid {})", city.pid())), "{said}");
    }
    assert!(!root.exists(), "nothing is made there");
    fs::rename(&moved, root).unwrap();
    fs::remove_dir_all(&copy).unwrap();
    assert_eq!(runs_as(&city, "a0", 1), agent);
    assert_eq!(named(&city, "sleep"), [agent]);
}

/// A directory in the place of a moved city keeps it from being moved back: its supervisor ends, and both can start.
#[test]
fn something_new_in_the_place_of_a_moved_city_ends_its_supervisor() {
    let mut city = city();
    runs_as(&city, "a0", 1);
    let root = city.root().to_owned();
    let moved = root.with_extension("moved");
    fs::rename(&root, &moved).unwrap();
    fs::create_dir(&root).unwrap();
    assert_eq!(city.ended().code(), Some(1));
    assert!(named(&city, "sleep").is_empty());
    assert_eq!(
        fs::read_dir(&root).unwrap().count(),
        0,
        "nothing is written there"
    );
    fs::remove_dir(&root).unwrap();
    fs::rename(&moved, &root).unwrap();
    let log = fs::read_to_string(root.join("supervisor.log")).unwrap();
    assert!(log.contains("another directory is at"), "{log}");
    city.start();
    runs(&city);
    assert_eq!(named(&city, "sleep").len(), 1);
}

#[test]
fn city_that_is_removed_ends_its_supervisor_and_its_sessions() {
    let mut city = city();
    runs_as(&city, "a0", 1);
    let (root, copy) = (city.root().to_owned(), city.root().with_extension("copy"));
    copied(&root, &copy);
    until("it is removed", || fs::remove_dir_all(&root).is_ok());
    assert_eq!(city.ended().code(), Some(1));
    assert!(named(&city, "sleep").is_empty());
    assert!(!root.exists(), "nothing is made there");
    fs::rename(&copy, &root).unwrap();
    city.start();
    runs(&city);
    assert_eq!(named(&city, "sleep").len(), 1);
}

/// Paths, with inode, size and time of change.
type Listing = BTreeMap<PathBuf, (u64, u64, i64, i64)>;

/// Returns everything below a directory.
fn listing(dir: &Path) -> Listing {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let seen = (meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec());
            if meta.is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path, seen);
        }
    }
    found
}

/// Asserts that nothing below a directory has changed since it was listed.
fn unchanged(root: &Path, before: &Listing) {
    let after = listing(root);
    let changed = after
        .iter()
        .filter(|(path, it)| before.get(*path) != Some(it));
    let gone = before.iter().filter(|(path, _)| !after.contains_key(*path));
    // A few of them tell enough.
    let shown: Vec<_> = changed.chain(gone).map(|(path, _)| path).take(20).collect();
    assert!(shown.is_empty(), "changed or gone: {shown:?}");
}

/// An agent that delays the end of its supervisor.
fn deaf() -> String {
    agent("a0", "trap '' TERM; while :; do sleep 100000; done")
}

/// Gates were tried again, and git and clean-ups ran, by path, for as long as the sessions took to end: in the directory
/// that was there by then.
#[test]
fn work_under_way_changes_nothing_in_the_directory_that_replaces_the_city() {
    let gates = r#"[{ name = "slow", run = "{root}/gate", retries = 5 }]"#;
    let mut city = City::made(&plan().set("forge", "gates", gates).add(&deaf()));
    let root = city.root().to_owned();
    let (gate, began) = (root.join("gate"), root.with_extension("began"));
    program::script(
        &gate,
        &format!("echo began >>{}; exec sleep 100000", began.display()),
    );
    city.start();
    runs_as(&city, "a0", 1);
    let relic = city.work("one", &["commit one.txt", "hd done"]);
    until("its gate runs", || began.exists());
    // The change of a file that has been decided on is not taken back: the removal of its sandbox is over.
    city.wait_event(1, "raider.nuked", "horde/raiders/Toast");
    processes::signal(city.pid(), Signal::SIGSTOP);
    until("git has ended", || named(&city, "git").is_empty());
    let away = replace(&city, Way::Moved).unwrap();
    let before = listing(&root);
    processes::signal(city.pid(), Signal::SIGCONT);
    assert_eq!(city.ended().code(), Some(1));
    unchanged(&root, &before);
    assert_eq!(fs::read_to_string(&began).unwrap(), "began\n");
    fs::remove_file(&began).unwrap();
    program::script(&gate, "true");
    city.start();
    city.wait_status(&relic, "closed");
    fs::remove_dir_all(away).unwrap();
}

/// The search for late writes in a sandbox on its way out ended after the city was replaced, and the sandbox was renamed by
/// path.
#[test]
#[ignore = "long tier: chaos"]
fn removal_under_way_changes_nothing_in_the_directory_that_replaces_the_city() {
    let mut city = plan().add(&deaf()).start();
    runs_as(&city, "a0", 1);
    let files = "mkdir many; for n in $(seq 5000); do : >many/$n; done; git add many";
    city.work("many", &[files, "commit one.txt", "sign ready", "forever"]);
    city.wait_sign("ready");
    let mut nuke = city.program("hd");
    nuke.args(["raider", "nuke", "Toast", "--salvage", "--yes"]);
    let mut nuke = nuke
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let root = city.root().to_owned();
    let sandbox = root.join("horde/raiders/Toast");
    let deadline = Instant::now() + LIMIT;
    // Without a pause: the search is short.
    while sandbox.exists() && Instant::now() < deadline {
        std::hint::spin_loop();
    }
    processes::signal(city.pid(), Signal::SIGSTOP);
    until("git has ended", || named(&city, "git").is_empty());
    let away = replace(&city, Way::Moved).unwrap();
    let before = listing(&root);
    processes::signal(city.pid(), Signal::SIGCONT);
    assert_eq!(city.ended().code(), Some(1));
    unchanged(&root, &before);
    nuke.wait().unwrap();
    city.start();
    city.wait_no_raiders();
    fs::remove_dir_all(away).unwrap();
}

/// Returns the number of times that any thread of a process has waited.
fn waits(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: PathBuf| {
        let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    threads.map(|thread| of(thread.unwrap().path())).sum()
}

/// The supervisor had looked at its city's directory each second.
#[test]
#[ignore = "long tier: chaos"]
fn supervisor_at_rest_is_not_woken() {
    let city = crowd(2).start();
    for name in ["a0", "a1"] {
        runs_as(&city, name, 1);
    }
    until("three seconds pass without it", || {
        let before = waits(city.pid());
        pass(Duration::from_secs(3));
        waits(city.pid()) == before
    });
}
