//! The supervisor's own files are removed, moved or replaced while it runs, or before.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use horde_supervisor::testing::poll::pass;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use super::{count, crowd, kill, named, runs_as};
use crate::support::live::{City, until};
use crate::support::plan::Plan;
use crate::support::processes;

on_tmux_too!(
    daily: ;
    long: removed_lock_and_socket_are_made_again_and_no_second_supervisor_runs,
    removed_state_doubles_no_agent_and_its_store_is_not_begun_anew_silently,
    state_that_is_moved_away_is_moved_back,
    city_that_is_moved_is_said_and_a_stop_at_its_new_place_ends_everybody,
    copy_of_a_city_is_refused_and_ends_no_agent_and_a_backup_in_its_place_starts,
    lost_store_is_refused_until_a_person_decides
);

fn patrolled(agents: usize) -> Plan {
    crowd(agents).set("daemon", "patrol_interval", r#""1s""#)
}

/// Runs a second supervisor of the city and returns its output.
fn second(city: &City, words: &[&str]) -> Output {
    let mut second = city.program("horde-supervisor");
    second.arg(city.root()).args(words).output().unwrap()
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn answers(city: &City) {
    until("it can be asked again", || {
        city.ask("ping", json!({})).is_ok()
    });
}

fn fifo(path: &Path) {
    mkfifo(path, Mode::S_IRWXU).unwrap();
}

fn in_log(city: &City, words: &str) {
    until(&format!("the log says {words:?}"), || {
        let log = fs::read_to_string(city.root().join("supervisor.log")).unwrap_or_default();
        log.contains(words)
    });
}

/// Weakness W8 of an earlier system: a workspace whose branch had been renamed counted as an orphan and was reset,
/// and two programs could clean up at once.
/// Case lock-removed of an adversary: lock and socket are removed at runtime.
#[test]
fn removed_lock_and_socket_are_made_again_and_no_second_supervisor_runs() {
    let city = patrolled(1).start();
    let agent = runs_as(&city, "a0", 1);
    let state = city.root().join(".horde");
    fs::remove_file(state.join("supervisor.lock")).unwrap();
    fs::remove_file(state.join("control.sock")).unwrap();
    let refused = second(&city, &[]);
    assert_eq!(refused.status.code(), Some(4), "{}", output_text(&refused));
    assert!(
        output_text(&refused).contains(&city.pid().to_string()),
        "{}",
        output_text(&refused)
    );
    answers(&city);
    assert!(state.join("supervisor.lock").exists());
    until("it is told", || count(&city, "ground.mended") == 2);
    assert_eq!(city.hd(&["ping"]).json()["pid"], city.pid());
    assert_eq!(runs_as(&city, "a0", 1), agent);
    assert_eq!(named(&city, "sleep"), [agent]);
}

#[test]
#[ignore = "long tier: chaos"]
fn file_in_the_place_of_the_socket_is_reported_and_left_alone() {
    let city = patrolled(1).start();
    let socket = city.root().join(".horde/control.sock");
    let moved = city.root().join("moved.sock");
    for (times, what) in [(1, "a FIFO"), (2, "a link")] {
        fs::rename(&socket, &moved).unwrap();
        match what {
            "a FIFO" => fifo(&socket),
            _ => symlink(&moved, &socket).unwrap(),
        }
        in_log(&city, &format!("the control socket was replaced by {what}"));
        assert!(fs::symlink_metadata(&socket).is_ok(), "it is still there");
        fs::remove_file(&socket).unwrap();
        fs::remove_file(&moved).unwrap();
        answers(&city);
        until("it is over", || {
            !city.hd(&["doctor"]).out.contains("control.sock")
        });
        assert_eq!(count(&city, "ground.lost"), times);
    }
    let calls = || city.ask("status", json!({})).unwrap()["escalations"].clone();
    until("no person is called any more", || calls() == 0);
}

/// `rm -rf .horde`: no session is doubled, all answer and can be ended, and the store is not begun anew.
/// Case state-removed of an adversary: the state directory is removed at runtime.
#[test]
fn removed_state_doubles_no_agent_and_its_store_is_not_begun_anew_silently() {
    let mut city = patrolled(2).start();
    let mut before = [runs_as(&city, "a0", 1), runs_as(&city, "a1", 1)];
    before.sort_unstable();
    let relic = city.relic("kept", &[]);
    let state = city.root().join(".horde");
    // The supervisor writes there meanwhile, so the removal is retried.
    until("it is removed", || fs::remove_dir_all(&state).is_ok());
    let refused = second(&city, &[]);
    assert_eq!(refused.status.code(), Some(4), "{}", output_text(&refused));
    answers(&city);
    let mut now = named(&city, "sleep");
    now.sort_unstable();
    assert_eq!(now, before);
    let made = city.ask("relic.create", json!({ "title": "more" }));
    assert!(made.unwrap_err().message.contains("removed"));
    let ill = || city.hd(&["doctor"]).out.contains("relics.db");
    until("doctor says it", ill);
    city.stop();
    assert!(named(&city, "sleep").is_empty());

    let refused = second(&city, &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", output_text(&refused));
    assert!(
        output_text(&refused).contains("--accept-store"),
        "{}",
        output_text(&refused)
    );
    let entries = fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let saved = entries.filter(|path| path.to_string_lossy().contains("relics-saved"));
    let saved: Vec<_> = saved.collect();
    fs::rename(&saved[0], state.join("relics.db")).unwrap();
    city.start();
    assert_eq!(city.status_of(&relic), "open");
}

#[test]
fn state_that_is_moved_away_is_moved_back() {
    let city = patrolled(1).start();
    let agent = runs_as(&city, "a0", 1);
    fs::rename(city.root().join(".horde"), city.root().join("away")).unwrap();
    answers(&city);
    until("it is told", || count(&city, "ground.mended") == 1);
    assert!(!city.root().join("away").exists());
    kill(agent);
    runs_as(&city, "a0", 2);
}

/// Every path of the configuration leads nowhere; sessions run on, and a stop ends them all the same.
/// Case city-moved of an adversary: a stop after the city was moved ended no session.
#[test]
fn city_that_is_moved_is_said_and_a_stop_at_its_new_place_ends_everybody() {
    let mut city = patrolled(2).start();
    runs_as(&city, "a0", 1);
    runs_as(&city, "a1", 1);
    let moved = city.root().with_extension("moved");
    fs::rename(city.root(), &moved).unwrap();
    let hd = |words: &[&str]| {
        let mut hd = city.program("hd");
        hd.arg("--city").arg(&moved).current_dir(&moved);
        hd.args(words).output().unwrap()
    };
    until("status says it", || {
        let status = hd(&["status"]);
        String::from_utf8_lossy(&status.stdout).contains("the city's directory was moved to")
    });
    let mut second = city.program("horde-supervisor");
    let second = second.arg(&moved).current_dir(&moved).output().unwrap();
    assert_eq!(second.status.code(), Some(4), "{}", output_text(&second));
    assert_eq!(named(&city, "sleep").len(), 2);
    let stopped = hd(&["stop"]);
    let left = named(&city, "sleep");
    fs::rename(&moved, city.root()).unwrap();
    assert!(stopped.status.success(), "{}", output_text(&stopped));
    assert!(left.is_empty(), "{left:?}");
    assert!(city.ended().success());
}

/// A patrol had begun to make the rig's repository anew at the old path; that counted as another directory in the city's
/// place, which ended all sessions and kept the city from being moved back.
#[test]
#[ignore = "long tier: chaos"]
fn city_that_is_moved_for_some_patrols_is_moved_back_and_its_work_goes_on() {
    let city = patrolled(1).start();
    let agent = runs_as(&city, "a0", 1);
    let before = city.work("before", &["commit a.txt", "hd done"]);
    city.wait_status(&before, "closed");
    let moved = city.root().with_extension("moved");
    fs::rename(city.root(), &moved).unwrap();
    let held = || {
        let mut hd = city.program("hd");
        hd.arg("--city").arg(&moved).current_dir(&moved);
        let shown = hd.args(["status"]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("was moved to")
    };
    until("status says it", held);
    // Some patrols.
    pass(Duration::from_secs(3));
    assert!(!city.root().exists(), "nothing is made in its place");
    fs::rename(&moved, city.root()).unwrap();
    until("the work goes on", || {
        city.ask("relic.create", json!({ "title": "probe" }))
            .is_ok()
    });
    let after = city.relic("after", &["commit b.txt", "hd done"]);
    // The next patrol finds the rig's repository again.
    until("the rig takes work", || {
        city.hd(&["charge", &after, "horde"]).code == 0
    });
    city.wait_status(&after, "closed");
    assert_eq!(named(&city, "sleep"), [agent], "no session was ended");
}

/// A copy has the session records of its original, and links that lead into the original's repositories.
#[test]
fn copy_of_a_city_is_refused_and_ends_no_agent_and_a_backup_in_its_place_starts() {
    let mut city = patrolled(1).start();
    let agent = runs_as(&city, "a0", 1);
    let root = city.root().to_owned();
    let (copy, backup) = (root.with_extension("copy"), root.with_extension("backup"));
    let copied = |to: &Path| {
        let copied = Command::new("cp").arg("-a").args([&root, to]).status();
        assert!(copied.unwrap().success());
    };
    let of_copy = |program: &str| {
        let mut program = city.program(program);
        program.current_dir(&copy);
        program
    };
    copied(&copy);
    let refused = of_copy("horde-supervisor").arg(&copy).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", output_text(&refused));
    let named = format!("is a copy of the city {}", root.display());
    assert!(
        output_text(&refused).contains(&named),
        "{}",
        output_text(&refused)
    );
    assert!(processes::runs(agent));
    // A city of an older version has no record of its place.
    fs::remove_file(copy.join(".horde/identity")).unwrap();
    let mut other = of_copy("horde-supervisor");
    let mut other = other.arg(&copy).stderr(Stdio::null()).spawn().unwrap();
    let hd = |words: &[&str]| {
        let mut hd = of_copy("hd");
        hd.args(["--json", "--city"]).arg(&copy).args(words);
        hd.output().unwrap().stdout
    };
    until("the copy has a session of its own", || {
        let agents = serde_json::from_slice::<Value>(&hd(&["agent", "list"]));
        agents.is_ok_and(|agents| agents[0]["state"] == "running" && agents[0]["pid"] != agent)
    });
    hd(&["stop"]);
    assert!(other.wait().unwrap().success());
    assert_eq!(runs_as(&city, "a0", 1), agent);
    copied(&backup);
    city.stop();
    fs::remove_dir_all(&root).unwrap();
    fs::rename(&backup, &root).unwrap();
    city.start();
    runs_as(&city, "a0", 2);
    fs::remove_dir_all(&copy).unwrap();
}

/// Case modes of an adversary: the target of a link lost its mode.
#[test]
fn link_as_state_directory_is_refused_and_its_target_keeps_its_mode() {
    let city = City::made(&crowd(1));
    let target = city.root().join("target");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o1777)).unwrap();
    symlink(&target, city.root().join(".horde")).unwrap();
    for output in [second(&city, &[]), {
        let mut hd = city.program("hd");
        hd.arg("--city")
            .arg(city.root())
            .args(["up", "-d"])
            .output()
            .unwrap()
    }] {
        assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
        assert!(
            output_text(&output).contains("a link"),
            "{}",
            output_text(&output)
        );
    }
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o1777);
    assert_eq!(
        fs::read_dir(&target).unwrap().count(),
        0,
        "nothing was written"
    );
}

/// Case no-socket of an adversary: no socket can be made at the start.
#[test]
fn without_a_socket_no_session_is_started() {
    let city = City::made(&crowd(1));
    let socket = city.root().join(".horde/control.sock");
    fs::create_dir_all(city.root().join(".horde")).unwrap();
    for what in ["a directory", "a FIFO", "a link"] {
        match what {
            "a directory" => fs::create_dir(&socket).unwrap(),
            "a FIFO" => fifo(&socket),
            _ => symlink("nowhere", &socket).unwrap(),
        }
        let before = fs::symlink_metadata(&socket).unwrap().ino();
        let refused = second(&city, &[]);
        let said = output_text(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        let why = format!("control.sock is in the way: {what}");
        assert!(said.contains(&why), "{said}");
        let after = fs::symlink_metadata(&socket).unwrap().ino();
        assert_eq!(after, before, "nothing of it was destroyed");
        let _removed = fs::remove_dir(&socket).or_else(|_| fs::remove_file(&socket));
    }
    assert!(!city.root().join(".horde/sessions").exists());
    assert_eq!(processes::of(city.root()), [0_u32; 0]);
}

/// A store that is deleted while in use, or lost while nothing runs, is reported and refused, and a new one is only
/// begun on purpose.
#[test]
fn lost_store_is_refused_until_a_person_decides() {
    let mut city = patrolled(1).start();
    let agent = runs_as(&city, "a0", 1);
    let relic = city.relic("kept", &[]);
    let state = city.root().join(".horde");
    for name in ["relics.db", "relics.db-wal", "relics.db-shm"] {
        fs::remove_file(state.join(name)).unwrap();
    }
    let refused = city
        .ask("relic.create", json!({ "title": "more" }))
        .unwrap_err();
    assert!(refused.message.contains("relics-saved"), "{refused}");
    kill(agent);
    runs_as(&city, "a0", 2);
    until("doctor says it", || {
        city.hd(&["doctor"]).out.contains("relics.db")
    });
    let saved = fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let saved = saved
        .into_iter()
        .find(|path| path.to_string_lossy().contains("relics-saved"));
    fs::rename(saved.unwrap(), state.join("relics.db")).unwrap();
    let goes_on = || city.ask("relic.create", json!({ "title": "more" })).is_ok();
    until("it goes on by itself", goes_on);
    assert_eq!(city.status_of(&relic), "open");
    until("it is over", || count(&city, "ground.mended") > 0);
    city.stop();

    fs::remove_file(state.join("relics.db")).unwrap();
    let refused = second(&city, &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", output_text(&refused));
    assert!(
        output_text(&refused).contains("--accept-store"),
        "{}",
        output_text(&refused)
    );
    assert!(!state.join("relics.db").exists(), "no new one was made");
    let mut accepts = city.supervisor();
    accepts.arg("--accept-store");
    city.start_as(accepts);
    assert!(
        city.ask("relic.list", json!({}))
            .unwrap()
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// A killed supervisor leaves its newest commits in the write-ahead log: without it the store is older.
#[test]
#[ignore = "long tier: chaos"]
fn store_that_lost_its_newest_commits_is_told_from_the_one_that_was() {
    let mut city = patrolled(1).start();
    runs_as(&city, "a0", 1);
    // The mark is written every few seconds at most.
    until("it is up for a while", || {
        let status = city.ask("status", json!({})).unwrap();
        status["uptime_s"].as_u64() > Some(2)
    });
    city.relic("more", &[]);
    let mark = city.root().join(".horde/relics.db.mark");
    until("it is marked how far it has come", || {
        let mark: Value = serde_json::from_slice(&fs::read(&mark).unwrap()).unwrap();
        mark["seq"].as_u64() > Some(3)
    });
    city.kill();
    fs::remove_file(city.root().join(".horde/relics.db-wal")).unwrap();
    let refused = second(&city, &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", output_text(&refused));
    assert!(
        output_text(&refused).contains("--accept-store"),
        "{}",
        output_text(&refused)
    );
    let mut accepts = city.supervisor();
    accepts.arg("--accept-store");
    city.start_as(accepts);
    assert_eq!(named(&city, "sleep").len(), 1);
}
