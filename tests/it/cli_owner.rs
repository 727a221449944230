//! `hd` only speaks to a socket that no other user could have made.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::cli::run;
use crate::fake_city::FakeCity;

/// Another user's socket would receive the requests, and its answers would be believed.
#[test]
fn socket_in_a_directory_that_others_may_write_to_is_not_spoken_to() {
    let city = FakeCity::start();
    let dir = city.socket().parent().unwrap().to_owned();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = run(city.hd().args(["status"]));
    assert_eq!(ran.code, 3);
    assert!(
        ran.stderr.contains("other users may write to"),
        "{}",
        ran.stderr
    );
    assert!(city.fake.asked("status").is_empty());
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(run(city.hd().args(["--json", "status"])).code, 0);
}

/// Root has even more to lose.
#[test]
fn socket_of_another_user_is_not_spoken_to() {
    let city = FakeCity::start();
    let dir = city.socket().parent().unwrap().to_owned();
    if chown(&dir, Some(4242), None).is_err() {
        eprintln!("not tested: only root can give a directory away");
        return;
    }
    for verb in [
        &["status"][..],
        &["attach", "Toast"],
        &["send", "Toast", "secret"],
    ] {
        let ran = run(city.hd().args(verb));
        assert!(matches!(ran.code, 2 | 3), "{}", ran.stderr);
        let told = ran.stderr.contains("another user, uid 4242") && ran.stderr.contains("become");
        assert!(told || ran.code == 2, "{}", ran.stderr);
    }
    assert!(city.fake.0.asked.lock().unwrap().is_empty());
    chown(&dir, Some(0), None).unwrap();
}

/// A supervisor outside the container has no pid that this process could see.
#[test]
fn supervisor_in_another_pid_namespace_is_spoken_to() {
    let city = FakeCity::start();
    let apart = ["--user", "--map-root-user", "--pid", "--fork"];
    let mut unshare = assert_cmd::Command::new("unshare");
    if run(unshare.args(apart).arg("true")).code != 0 {
        eprintln!("skipped: no namespaces can be made here");
        return;
    }
    let mut hd = assert_cmd::Command::new("unshare");
    hd.args(apart).arg(env!("CARGO_BIN_EXE_hd"));
    hd.arg("--city").arg(city.root()).args(["--json", "status"]);
    for name in crate::fake_city::VARIABLES {
        hd.env_remove(name);
    }
    let ran = run(&mut hd);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}
