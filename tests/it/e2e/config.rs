//! Configuration as the daemon takes it (`2-contract.md`, 2.1 and 2.2).

use std::fs;
use std::process::Output;

use crate::support::live::{City, until};
use crate::support::plan::Plan;

fn supervisor(city: &City, words: &[&str]) -> Output {
    let mut supervisor = city.program("horde-supervisor");
    supervisor.args(words).arg(city.root()).output().unwrap()
}

/// `--check` says 0 or 2, and what is wrong with line and caret; nothing is started.
#[test]
fn check_tells_a_good_configuration_from_a_bad_one() {
    let city = City::made(&Plan::new());
    let good = supervisor(&city, &["--check"]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let bad = toml
        .replace("max = 4", "mx = 4")
        .replace("\"1h\"", "\"soon\"");
    fs::write(city.root().join("city.toml"), bad).unwrap();
    for words in [&["--check"][..], &[]] {
        let told = supervisor(&city, words);
        assert_eq!(told.status.code(), Some(2), "{words:?}");
        let text = String::from_utf8(told.stderr).unwrap();
        for part in ["city.toml:", "mx", "did you mean", "max", "soon", "^"] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
    assert!(!city.root().join(".horde").exists());
    assert_eq!(city.hd(&["config", "check"]).code, 2);
}

/// 2.1: another rig's role names and unknown harnesses are found before anything runs.
#[test]
fn names_of_roles_are_not_accepted_for_slots() {
    let plan = Plan::new().set("raiders", "names", r#"["Toast", "Witness"]"#);
    let city = City::made(&plan);
    let told = supervisor(&city, &["--check"]);
    assert_eq!(told.status.code(), Some(2));
    let text = String::from_utf8(told.stderr).unwrap();
    assert!(text.contains("Witness"), "{text}");
}

/// `health-patrol.md`, known limitations: an edit is seen, judged as a whole, and the old
/// configuration kept.
#[test]
fn an_edit_is_judged_when_it_is_seen_and_the_old_configuration_kept() {
    let city = City::new();
    let path = city.root().join("city.toml");
    let good = fs::read_to_string(&path).unwrap();
    let error = || city.hd(&["status"]).json()["last_reload_error"].clone();
    let told = |what: &str| {
        let says = || error().as_str().is_some_and(|error| error.contains(what));
        let pid = i32::try_from(city.pid()).unwrap();
        let pid = nix::unistd::Pid::from_raw(pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
        until("the edit is judged", || {
            error().is_null() == what.is_empty() && (says() || what.is_empty())
        });
    };
    assert!(error().is_null());
    fs::write(&path, good.replace("max = 4", "mx = 4")).unwrap();
    told("did you mean");
    fs::write(&path, good.replace("max = 4", "max = 5")).unwrap();
    told("next start");
    fs::write(&path, &good).unwrap();
    told("");
    assert_eq!(city.happened("config.rejected", "e2e").len(), 1);
    assert_eq!(city.happened("config.restart_needed", "e2e").len(), 1);
    let relic = city.work("go on", &["commit a.txt", "hd done"]);
    city.wait_status(&relic, "closed");
}
