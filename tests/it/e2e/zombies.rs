//! Zombies of the real daemon (`witness-patrol.md`, zombie detection algorithm and discovery over
//! tracking).

use std::fs;

use nix::sys::signal::Signal;

use crate::support::git::write;
use crate::support::live::{City, until};
use crate::support::plan::Plan;
use crate::support::processes;

const TOAST: &str = "horde/raiders/Toast";

/// Class 3, without a patrol during the test: the push hangs in the remote.
#[test]
fn a_done_that_hangs_loses_its_session_and_lands_all_the_same() {
    let city = Plan::new()
        .set("witness", "done_intent_timeout", r#""1s""#)
        .start();
    let (hook, go) = (
        city.origin().join("hooks/pre-receive"),
        city.root().join("go"),
    );
    let script = format!(
        "#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.05; done\n",
        go.display()
    );
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&hook, mode).unwrap();
    let relic = city.work("hangs", &["commit a.txt", "hd done", "forever"]);
    let zombie = city.wait_event(1, "raider.zombie", TOAST);
    assert_eq!(zombie["data"]["class"], "stuck_in_done");
    assert_eq!(zombie["data"]["relic"], relic);
    city.wait_event(1, "agent.stopped", TOAST);
    assert_eq!(city.status_of(&relic), "hooked", "it hangs still");
    write(city.root(), "go", "");
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    assert_eq!(city.landed(), [".gitignore", "README", "a.txt"]);
    assert_eq!(city.happened("raider.zombie", TOAST).len(), 1);
}

/// Class 2: the agent dies, but the shell that it was started from continues.
/// Weakness W3 of an earlier system: the death of an agent was not noticed: a shell stayed in its place, and its exit
/// code was lost.
#[test]
fn a_shell_without_its_agent_is_replaced() {
    let harness = "[harness.shell]\ncommand = [\"sh\", \"../../../agent.sh\"]\n\
                   process_names = [\"worker\"]\nprompt = \"file\"\nenv = { GIT_CONFIG_NOSYSTEM = \"1\" }\n";
    let city = Plan::new()
        .set("raiders", "harness", r#""shell""#)
        .set("witness", "spawn_grace", r#""3s""#)
        .set("daemon", "patrol_interval", r#""200ms""#)
        .add(harness)
        .start();
    write(city.root(), "worker", "sleep 1000\n");
    let steps = [
        "sh ../../../worker & echo $! >../../../pid.new",
        "mv ../../../pid.new ../../../pid",
        "forever",
    ];
    let relic = city.work("is a shell", &steps);
    let file = city.root().join("pid");
    until("the agent runs", || file.exists());
    let pid = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    processes::signal(pid.trim().parse().unwrap(), Signal::SIGKILL);
    let zombie = city.wait_event(1, "raider.zombie", TOAST);
    assert_eq!(zombie["data"]["class"], "agent_dead");
    let died = city.wait_event(1, "agent.crashed", TOAST);
    assert_eq!(died["cause"], "agent_dead");
    city.wait_session(&relic, 2);
    until("the fresh agent runs", || file.exists());
}

/// The store is lost with its hooks: the work in the sandboxes is not, and an operator can deal with it.
#[test]
fn sandboxes_whose_hooks_are_lost_are_shown_and_dealt_with() {
    let mut city = City::new();
    city.work(
        "lost",
        &["commit a.txt", "printf more >b.txt", "sign a", "forever"],
    );
    city.wait_sign("a");
    city.stop();
    let state = fs::read_dir(city.root().join(".horde")).unwrap().flatten();
    let of_store = |name: &str| name.starts_with("relics.db");
    let files = state.filter(|file| of_store(&file.file_name().to_string_lossy()));
    let lost = files.map(|file| fs::remove_file(file.path()).unwrap());
    assert!(lost.count() > 0, "the store");
    // Without that option a lost store is not begun anew.
    let mut accepts = city.supervisor();
    accepts.arg("--accept-store");
    city.start_as(accepts);
    let found = city.hd(&["raider", "show", "Toast", "--json"]).json();
    assert_eq!(found["state"], "stalled", "{found}");
    assert_eq!(found["incarnation"], 1);
    assert_eq!(found["branch"], "raider/Toast/gt-1-1");
    until("git was asked", || {
        let found = city.hd(&["raider", "show", "Toast", "--json"]).json();
        found["git"]["untracked"] == 1
    });
    assert_eq!(city.raiders().len(), 1, "and listed");
    assert_eq!(city.hd(&["raider", "nuke", "Toast", "--yes"]).code, 5);
    fs::remove_file(city.sandbox("Toast").join(".git")).unwrap();
    let repair = city.hd(&["raider", "repair", "Toast", "--yes", "--json"]);
    assert!(repair.json()["was"].is_string());
    let nuke = ["raider", "nuke", "Toast", "--salvage", "--yes", "--json"];
    assert!(city.hd(&nuke).json()["salvage"].is_string());
    assert!(!city.sandbox("Toast").exists());
    city.wait_no_raiders();
}
