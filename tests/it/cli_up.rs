//! `hd up`, with a script for the supervisor.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use assert_cmd::cargo::cargo_bin;

use crate::cli::run;
use crate::fake_city::{FakeCity, VARIABLES};
use crate::support::program;

/// Makes a command for `hd` in a directory of its own, with this script as the supervisor beside it.
fn hd_with_supervisor(dir: &Path, script: &str) -> assert_cmd::Command {
    let own = dir.join("hd");
    program::copy(&cargo_bin("hd"), &own);
    program::script(&dir.join("horde-supervisor"), script);
    let mut hd = assert_cmd::Command::new(own);
    for name in VARIABLES {
        hd.env_remove(name);
    }
    hd
}

#[test]
fn up_says_why_the_supervisor_did_not_start() {
    let cases = [
        (2, 2, "hd config check"),
        (4, 1, "another supervisor holds"),
        (1, 1, "the last words"),
    ];
    for (its, ours, said) in cases {
        let city = FakeCity::away();
        let bin = horde_supervisor::testing::scratch();
        let script = format!("echo the last words >&2; exit {its}");
        let mut up = hd_with_supervisor(bin.path(), &script);
        let ran = run(up.args(["up", "-d", "--city"]).arg(city.root()));
        assert_eq!(ran.code, ours, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

/// Only the output of this start is shown, in full, and as people read it.
#[test]
fn up_shows_the_words_of_this_start_and_no_others() {
    let city = FakeCity::away();
    let up = |script: &str| {
        let bin = horde_supervisor::testing::scratch();
        let mut up = hd_with_supervisor(bin.path(), script);
        run(up.args(["up", "-d", "--city"]).arg(city.root()))
    };
    let many = "for n in 1 2 3 4 5 6 7 8; do echo line $n >&2; done; exit 2";
    let ran = up(many);
    assert!(ran.stderr.contains("line 1\n"), "{}", ran.stderr);
    let logged = r#"{"ts":"x","level":"info","message":"it begins"}
{"ts":"x","level":"error","message":"it cannot run","error":"no room"}"#;
    let ran = up(&format!("cat >&2 <<'E'\n{logged}\nE\nexit 1"));
    let told = "error: the supervisor ended at once\nit cannot run: no room\nhint:";
    assert!(ran.stderr.starts_with(told), "{}", ran.stderr);
}

#[test]
fn up_in_the_foreground_becomes_the_supervisor_of_the_city() {
    let city = FakeCity::away();
    let bin = horde_supervisor::testing::scratch();
    let mut up = hd_with_supervisor(bin.path(), "echo \"$1\"; exit 7");
    let ran = run(up.args(["up", "--city"]).arg(city.root()));
    let root = city.root().canonicalize().unwrap();
    assert_eq!((ran.code, ran.stdout.trim()), (7, root.to_str().unwrap()));
}

#[test]
fn up_leaves_a_running_supervisor_alone() {
    let city = FakeCity::start();
    let bin = horde_supervisor::testing::scratch();
    let mut up = hd_with_supervisor(bin.path(), "exit 1");
    let ran = run(up.args(["up", "-d", "--city"]).arg(city.root()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("runs already"), "{}", ran.stderr);
}

/// `cargo run --bin hd` builds only `hd`: a supervisor that is older than its sources is rebuilt, a newer one is left
/// alone, and so is any without cargo.
#[test]
fn a_supervisor_that_is_older_than_hd_is_built_anew_under_cargo() {
    for (age, cargo, built) in [(3600, true, true), (0, true, false), (3600, false, false)] {
        let city = FakeCity::away();
        let bin = horde_supervisor::testing::scratch();
        let mut up = hd_with_supervisor(bin.path(), "exit 7");
        let supervisor = fs::File::options()
            .append(true)
            .open(bin.path().join("horde-supervisor"));
        let then = SystemTime::now() - Duration::from_secs(age);
        supervisor.unwrap().set_modified(then).unwrap();
        // An hour old at most, because `hd` itself may have been built earlier.
        let own = fs::File::options().read(true).open(bin.path().join("hd"));
        let before = SystemTime::now() - Duration::from_secs(1800);
        own.unwrap().set_modified(before).unwrap();
        let (fake, said) = (bin.path().join("cargo"), bin.path().join("said"));
        program::script(&fake, &format!("echo \"$@\" > {}", said.display()));
        if cargo {
            up.env("CARGO", &fake);
            up.env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
        }
        let ran = run(up.args(["up", "--city"]).arg(city.root()));
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        let said = fs::read_to_string(said).unwrap_or_default();
        assert_eq!(said.contains("--bin horde-supervisor"), built, "{said}");
    }
}

/// The log tells what happened before the supervisor was gone.
#[test]
fn unanswered_start_names_the_log() {
    let city = FakeCity::away();
    let told = |verb: &[&str]| {
        let ran = run(city.hd().args(verb));
        assert_eq!(ran.code, 3, "{verb:?}");
        ran.stderr
    };
    let name = ".horde/supervisor.log";
    assert!(!told(&["events"]).contains(name), "there is none");
    fs::create_dir_all(city.root().join(".horde")).unwrap();
    fs::write(city.root().join(name), "it died\n").unwrap();
    for verb in [&["logs", "Toast"][..], &["events"], &["why", "Toast"]] {
        assert!(told(verb).contains(name), "{verb:?}");
    }
}

/// A newcomer without a coding agent is told the names that were looked for, and what to do.
#[test]
fn init_without_a_coding_agent_names_the_next_step() {
    let dir = horde_supervisor::testing::scratch();
    let (empty, city) = (dir.path().join("empty"), dir.path().join("city"));
    fs::create_dir(&empty).unwrap();
    let mut hd = assert_cmd::Command::new(cargo_bin("hd"));
    for name in VARIABLES {
        hd.env_remove(name);
    }
    let ran = run(hd.env("PATH", &empty).arg("init").arg(&city));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in [
        "no coding agent is in the PATH",
        "claude, codex, gemini",
        "Install it",
        "set `harness` in city.toml",
        "hd harness test NAME",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

/// Outside of a repository the city has no rig: `hd run` was suggested, and refused.
#[test]
fn init_without_a_repository_suggests_to_add_a_rig_before_work_is_run() {
    let dir = horde_supervisor::testing::scratch();
    let mut hd = assert_cmd::Command::new(cargo_bin("hd"));
    for name in VARIABLES {
        hd.env_remove(name);
    }
    let ran = run(hd.arg("init").arg("city").current_dir(dir.path()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let at = |part: &str| {
        ran.stderr
            .find(part)
            .unwrap_or_else(|| panic!("{part}: {}", ran.stderr))
    };
    assert!(at("hd rig add PATH") < at("hd run"), "{}", ran.stderr);
}

/// Nothing is written into a bare repository, which has no `.git`.
#[test]
fn init_makes_the_city_beside_a_bare_repository() {
    let dir = horde_supervisor::testing::scratch();
    let bare = dir.path().join("tool.git");
    let made = std::process::Command::new("git")
        .args(["init", "-q", "--bare"])
        .arg(&bare)
        .status();
    assert!(made.unwrap().success());
    let mut hd = assert_cmd::Command::new(cargo_bin("hd"));
    for name in VARIABLES {
        hd.env_remove(name);
    }
    let ran = run(hd.arg("init").current_dir(&bare));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!bare.join("city.toml").exists());
    let toml = fs::read_to_string(dir.path().join("tool-city/city.toml")).unwrap();
    let bare = bare.canonicalize().unwrap();
    assert!(toml.contains(&bare.display().to_string()), "{toml}");
}
