//! `hd up`, with a script for the supervisor.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use assert_cmd::cargo::cargo_bin;

use crate::cli::run;
use crate::fake_city::{FakeCity, VARIABLES};

/// `hd` in a directory of its own, with this script as the supervisor beside it.
fn hd_with_supervisor(dir: &Path, script: &str) -> assert_cmd::Command {
    let own = dir.join("hd");
    let built = cargo_bin("hd");
    if fs::hard_link(&built, &own).is_err() {
        fs::copy(&built, &own).unwrap();
    }
    let supervisor = dir.join("horde-supervisor");
    fs::write(&supervisor, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&supervisor, fs::Permissions::from_mode(0o755)).unwrap();
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
        let bin = tempfile::tempdir().unwrap();
        let script = format!("echo the last words >&2; exit {its}");
        let mut up = hd_with_supervisor(bin.path(), &script);
        let ran = run(up.args(["up", "-d", "--city"]).arg(city.root()));
        assert_eq!(ran.code, ours, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

/// Only what this start said, in full, and as people read it.
#[test]
fn up_shows_the_words_of_this_start_and_no_others() {
    let city = FakeCity::away();
    let up = |script: &str| {
        let bin = tempfile::tempdir().unwrap();
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
    let bin = tempfile::tempdir().unwrap();
    let mut up = hd_with_supervisor(bin.path(), "echo \"$1\"; exit 7");
    let ran = run(up.args(["up", "--city"]).arg(city.root()));
    let root = city.root().canonicalize().unwrap();
    assert_eq!((ran.code, ran.stdout.trim()), (7, root.to_str().unwrap()));
}

#[test]
fn up_leaves_a_running_supervisor_alone() {
    let city = FakeCity::start();
    let bin = tempfile::tempdir().unwrap();
    let mut up = hd_with_supervisor(bin.path(), "exit 1");
    let ran = run(up.args(["up", "-d", "--city"]).arg(city.root()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("running already"), "{}", ran.stderr);
}
