//! Deaths and restarts (`raider-lifecycle.md`, session layer; `health-patrol.md`, crash loop
//! quarantine; `rules.md`, restart).

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::git::{commit_all, git, write};
use crate::support::live::asks::session_pid as pid;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;
use crate::support::processes;

const TOAST: &str = "horde/raiders/Toast";

/// Returns the journal numbers of the newest event about Toast of each of these types.
fn newest(city: &City, kinds: &[&str]) -> Vec<u64> {
    let newest = |kind: &&str| {
        let event = city.happened(kind, TOAST).pop();
        event.unwrap_or_else(|| panic!("no {kind}"))["seq"]
            .as_u64()
            .unwrap()
    };
    kinds.iter().map(newest).collect()
}

/// `agent-lifecycle.md`, section 3: a raider killed at work is back on its sandbox, with its dirty
/// file and a prompt that says so, and the death is counted.
/// Weakness W19 of an earlier system: a crashed session was restarted at every tick for ever, after a rebase of its
/// sandbox, and without a prompt.
#[test]
fn an_agent_killed_mid_work_is_back_on_its_sandbox_with_its_dirty_file() {
    let city = City::new();
    let relic = city.work(
        "be killed",
        &[
            "[ $n = 2 ] || { commit a.txt; echo half >dirty.txt; sign dirty; forever; }",
            "await go",
            "git add dirty.txt",
            "git commit --quiet -m 'the other half'",
            "hd done",
        ],
    );
    city.wait_sign("dirty");
    // The target moves on: a restart that pulls or rebases would change the sandbox.
    let checkout = city.checkout();
    write(&checkout, "theirs.txt", "theirs\n");
    let theirs = commit_all(&checkout, "theirs");
    git(&checkout, &["push", "--quiet", "origin", "main"]);
    let sandbox = city.sandbox("Toast");
    let commits = || git(&sandbox, &["log", "--format=%H"]);
    let before = commits();
    let first = city.wait_session(&relic, 1);
    processes::signal(pid(&first), Signal::SIGKILL);
    let prompt = city.wait_prompt(&relic, 2);
    assert!(
        prompt.contains("Your last session on this task ended before"),
        "{prompt}"
    );
    let second = city.wait_session(&relic, 2);
    assert_ne!(pid(&first), pid(&second));
    assert_eq!(second["session"]["generation"], 2);
    assert_eq!(second["restarts"], 1);
    assert_eq!(second["incarnation"], first["incarnation"]);
    assert_eq!(second["sandbox"], first["sandbox"]);
    let dirty = std::fs::read_to_string(sandbox.join("dirty.txt")).unwrap();
    assert_eq!(dirty, "half\n");
    assert_eq!(
        commits(),
        before,
        "HEAD, and the commit that it is based on"
    );
    assert!(!before.contains(&theirs));
    let status = git(&sandbox, &["status", "--porcelain"]);
    assert_eq!(status, "?? dirty.txt", "no merge or rebase was begun");
    city.wait_event(1, "raider.respawned", TOAST);
    let order = newest(
        &city,
        &["agent.crashed", "agent.started", "raider.respawned"],
    );
    assert!(order.is_sorted(), "{order:?}");
    let causes = ["agent.crashed", "agent.started", "raider.respawned"];
    for kind in causes {
        assert_eq!(
            city.happened(kind, TOAST).pop().unwrap()["cause"],
            "session_died",
            "{kind}"
        );
    }
    city.sign("go");
    city.wait_status(&relic, "closed");
    for file in ["dirty.txt", "theirs.txt"] {
        assert!(city.landed().contains(&file.to_owned()), "{file}");
    }
}

/// Zombie capture (`witness-patrol.md`): the event has the text of the terminal from when its agent died.
#[test]
fn the_end_of_the_terminal_is_told_with_the_death() {
    let city = City::new();
    let relic = city.work(
        "say last words",
        &[
            "sign up$n",
            "await go",
            "echo last words $n",
            "sign said$n",
            "forever",
        ],
    );
    city.wait_sign("up1");
    city.sign("go");
    city.wait_sign("said1");
    let shown = |words: &str| {
        until("they are on the screen", || {
            let peeked = city.ask("peek", json!({ "name": "Toast" }));
            peeked.is_ok_and(|peeked| peeked["text"].as_str().unwrap().contains(words))
        });
    };
    shown("last words 1");
    processes::signal(pid(&city.wait_session(&relic, 1)), Signal::SIGKILL);
    let crashed = city.wait_event(1, "agent.crashed", TOAST);
    let tail = crashed["data"]["tail"].as_str().unwrap();
    assert!(tail.contains("last words 1"), "{crashed}");
    // The next session has its own tail; the log has both, and marks the beginning of the second.
    shown("last words 2");
    processes::signal(pid(&city.wait_session(&relic, 2)), Signal::SIGKILL);
    let crashed = city.wait_event(2, "agent.crashed", TOAST);
    let tail = crashed["data"]["tail"].as_str().unwrap();
    assert!(
        tail.contains("last words 2") && !tail.contains("last words 1"),
        "{crashed}"
    );
    shown("last words 3");
    let log = city.hd_text(&["logs", "Toast"]).out;
    let first = format!("--- session 1 of incarnation 1 on {relic}, since ");
    let places = [
        &*first,
        "last words 1",
        "--- session 2 of incarnation 1 on ",
        "last words 2",
    ];
    let places: Vec<_> = places.map(|words| log.find(words)).to_vec();
    assert!(places.is_sorted() && places[0].is_some(), "{log}");
}

/// `TestCrashTrackerQuarantineAtLimit`, `TestCrashTrackerDifferentSessions`, `TestCrashTrackerClearHistory`;
/// `health-patrol.md`, crash quarantine; `rules.md`, restart: N restarts pass, the N+1st death quarantines, once; no
/// other child is touched; an operator releases it with a clean history.
/// Weakness W19 of an earlier system: a crashed session was restarted at every tick for ever, after a rebase of its
/// sandbox, and without a prompt.
#[test]
fn a_crash_loop_is_quarantined_and_others_work_on() {
    let city = Plan::new().set("daemon", "max_restarts", "2").start();
    let looping = city.work(
        "crash",
        &[
            "[ -e $signs/mended ] || { echo last words; exit 3; }",
            "commit a.txt",
            "hd done",
        ],
    );
    let other = city.work("work on", &["await go", "commit b.txt", "hd done"]);
    city.wait_event(1, "agent.quarantined", TOAST);
    let crashes = city.happened("agent.crashed", TOAST);
    assert_eq!(crashes.len(), 3, "max_restarts + 1 deaths");
    assert!(
        crashes.iter().all(|crash| crash["data"]["code"] == 3),
        "{crashes:?}"
    );
    assert_eq!(city.sessions_of(&looping), 3);
    let toast = city.hd(&["raider", "show", "Toast"]).json();
    assert!(toast["quarantined_until"].is_string(), "{toast}");
    assert_eq!(toast["session"], Value::Null);
    city.wait_status(&looping, "blocked");
    let calls = || city.hd(&["escalations"]).json();
    until("a person is called", || calls()[0]["body"].is_string());
    let told = calls()[0]["body"].as_str().unwrap().to_owned();
    assert!(
        told.contains("3 sessions of horde/raiders/Toast died"),
        "{told}"
    );
    assert!(
        told.contains("exit code 3") && told.contains("| last words"),
        "{told}"
    );
    let screen = city.hd_text(&["status"]).out;
    assert!(
        screen.contains(&format!("! horde {looping} (crash) is blocked: ")),
        "{screen}"
    );
    assert!(
        city.hd_text(&["why", &looping])
            .out
            .contains("too_many_deaths")
    );
    let shadow = city.hd(&["raider", "show", "Shadow"]).json();
    assert_eq!(
        (&shadow["state"], &shadow["restarts"]),
        (&"working".into(), &0.into())
    );
    assert_eq!(city.sessions_of(&other), 1);
    city.sign("mended");
    city.hd(&["agent", "unquarantine", "Toast"]).json();
    city.wait_status(&looping, "closed");
    assert_eq!(city.hd(&["escalations"]).json(), json!([]), "it is settled");
    assert_eq!(city.happened("agent.quarantined", TOAST).len(), 1);
    assert_eq!(city.happened("agent.unquarantined", TOAST).len(), 1);
    assert_eq!(
        city.hd(&["agent", "unquarantine", "Shadow"]).error(1)["kind"],
        "conflict"
    );
    city.sign("go");
    city.wait_status(&other, "closed");
}

/// `TestCrashTrackerAutoClears`; `health-patrol.md`, invariant "quarantine auto-expires": no operator is needed.
#[test]
fn quarantine_ends_when_the_oldest_death_has_left_the_window() {
    let city = Plan::new()
        .set("daemon", "max_restarts", "1")
        .set("daemon", "restart_window", r#""3s""#)
        .start();
    let relic = city.work(
        "crash",
        &["[ -e $signs/mended ] || exit 3", "commit a.txt", "hd done"],
    );
    city.wait_event(1, "agent.quarantined", TOAST);
    city.sign("mended");
    let out = city.wait_event(1, "agent.unquarantined", TOAST);
    assert_eq!(out["cause"], "window_passed");
    city.wait_status(&relic, "closed");
}

/// `agent-lifecycle.md`: a holder that is killed with its agent is a death too, never a second copy.
#[test]
fn a_session_that_is_lost_with_its_holder_is_started_again() {
    let city = City::new();
    let steps = ["sign up$n", "await go", "commit a.txt", "hd done"];
    let relic = city.work("be lost", &steps);
    city.wait_sign("up1");
    let raider = city.wait_session(&relic, 1);
    let holder = raider["session"]["holder_pid"]
        .as_u64()
        .unwrap()
        .try_into()
        .unwrap();
    processes::signal(holder, Signal::SIGKILL);
    processes::signal(pid(&raider), Signal::SIGKILL);
    city.wait_sign("up2");
    until("the first is gone", || !processes::runs(pid(&raider)));
    city.sign("go");
    city.wait_status(&relic, "closed");
    assert_eq!(city.sessions_of(&relic), 2);
}

/// `raider-lifecycle.md`: a crashed raider is not shown as working before its session is up again.
#[test]
fn events_of_a_raider_are_listed_in_order_after_it_is_gone() {
    let city = City::new();
    let steps = ["[ $n = 2 ] || exit 7", "commit a.txt", "hd done"];
    let relic = city.work("tell", &steps);
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    let why = wait("the whole story", || {
        let why = city.hd(&["why", "Toast"]).json();
        let events = why["events"].as_array()?.clone();
        events
            .iter()
            .any(|event| event["type"] == "raider.nuked")
            .then_some(events)
    });
    let kinds: Vec<_> = why
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let mut rest = kinds.iter();
    for kind in [
        "agent.started",
        "raider.charged",
        "agent.crashed",
        "agent.started",
        "raider.respawned",
        "raider.done",
        "agent.stopped",
    ] {
        assert!(
            rest.any(|found| *found == kind),
            "{kind} is missing in its place: {kinds:?}"
        );
    }
    assert!(why.iter().all(|event| {
        event["cause"]
            .as_str()
            .is_some_and(|cause| !cause.is_empty())
    }));
}

/// `agent-lifecycle.md`, section 3: a session after a crash has reduced permissions.
#[test]
fn session_after_a_crash_is_started_with_the_reduced_arguments() {
    // The prompt is the last argument.
    let run = r#"'printf "%s" "$0" >"$HD_CITY/signs/arguments"; exec sh ../../../agent.sh "$1"'"#;
    let city = Plan::new()
        .harness(&format!(
            r#"["sh", "-c", {run}, "free"]
reduced = ["-c", {run}, "careful"]"#
        ))
        .start();
    let relic = city.work(
        "be killed",
        &[
            "sign up.$n",
            "[ $n = 2 ] || forever",
            "commit a.txt",
            "await go",
            "hd done",
        ],
    );
    let arguments = || std::fs::read_to_string(city.root().join("signs/arguments")).unwrap();
    city.wait_sign("up.1");
    assert_eq!(arguments(), "free");
    processes::signal(pid(&city.wait_session(&relic, 1)), Signal::SIGKILL);
    city.wait_sign("up.2");
    assert_eq!(arguments(), "careful");
    city.sign("go");
    city.wait_status(&relic, "closed");
}
