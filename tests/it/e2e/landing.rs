//! From charge to merged and nuked (`raider-lifecycle.md`, lifecycle; `witness-patrol.md`, signal flow).

use serde_json::Value;

use crate::support::git::git;
use crate::support::live::{City, until};
use crate::support::plan::Plan;
use crate::support::processes;

/// Returns the positions in the journal of the three messages of a relic.
fn messages(events: &[Value], relic: &str) -> [usize; 3] {
    ["POLECAT_DONE", "MERGE_READY", "MERGED"].map(|kind| {
        let is = |event: &Value| {
            let data = &event["data"];
            event["type"] == "message.sent" && data["type"] == kind && data["relic"] == relic
        };
        let found: Vec<_> = (0..events.len()).filter(|i| is(&events[*i])).collect();
        assert_eq!(found.len(), 1, "{kind} of {relic}");
        found[0]
    })
}

/// Eight raiders in parallel land eight commits, and leave nothing behind.
/// Weakness W15 of an earlier system: two charges at once could take the same name, and a charge that failed used its
/// name up.
#[test]
fn eight_raiders_in_parallel_land_eight_commits_and_leave_nothing() {
    let city = Plan::new().set("raiders", "max", "8").start();
    let names: Vec<_> = (1..=8).map(|n| format!("file-{n}.txt")).collect();
    // No raider finishes before all eight are at work.
    let tasks: Vec<_> = names
        .iter()
        .map(|name| {
            let (commit, ready) = (format!("commit {name}"), format!("sign {name}"));
            city.relic(name, &[&commit, &ready, "await go", "hd done"])
        })
        .collect();
    std::thread::scope(|scope| {
        for relic in &tasks {
            scope.spawn(|| city.charge(relic));
        }
    });
    for name in &names {
        city.wait_sign(name);
    }
    let raiders = city.raiders();
    assert_eq!(raiders.len(), 8);
    assert!(
        raiders.iter().all(|raider| raider["state"] == "working"),
        "{raiders:?}"
    );
    city.sign("go");
    for relic in &tasks {
        city.wait_status(relic, "closed");
    }
    city.wait_no_raiders();
    let landed = city.landed();
    assert!(names.iter().all(|name| landed.contains(name)), "{landed:?}");
    let log = git(&city.origin(), &["log", "--format=%an", "main"]);
    assert_eq!(
        log.lines().count(),
        9,
        "one commit of each on top of the first: {log}"
    );
    until("no branch is left on the origin", || {
        git(&city.origin(), &["for-each-ref", "refs/heads/raider"]).is_empty()
    });
    let sandboxes = std::fs::read_dir(city.root().join("horde/raiders")).unwrap();
    assert_eq!(sandboxes.count(), 0);
    let worktrees = git(&city.root().join("horde/repo.git"), &["worktree", "list"]);
    assert!(!worktrees.contains("/raiders/"), "{worktrees}");
    until("no process but the daemon", || {
        processes::of(city.root()) == [city.pid()]
    });
    let events = city.events();
    for relic in &tasks {
        let at = messages(&events, relic);
        assert!(at.is_sorted(), "{relic}: {at:?}");
    }
    let status = city.hd(&["status"]).json();
    assert_eq!(status["escalations"], 0);
    assert_eq!(status["rigs"][0]["forge"]["queue"], serde_json::json!([]));
}

/// `raider-lifecycle.md`: slots come from a pool of names and return to it at a nuke; each charge of a slot is a new
/// incarnation.
#[test]
fn a_slot_is_used_again_under_a_new_incarnation() {
    let city = City::new();
    for incarnation in 1..=2 {
        let file = format!("{incarnation}.txt");
        let commit = format!("commit {file}");
        let relic = city.relic("again", &[&commit, "hd done"]);
        let charged = city.hd(&["charge", &relic, "horde"]).json();
        assert_eq!(charged["raider"], "horde/raiders/Toast");
        assert_eq!(charged["incarnation"], incarnation);
        let branch = format!("raider/Toast/{relic}-{incarnation}");
        assert_eq!(charged["branch"], branch.as_str());
        city.wait_status(&relic, "closed");
        city.wait_no_raiders();
        assert!(city.landed().contains(&file));
    }
}

/// `polecat-lifecycle.md`: the older verbs do the same.
#[test]
fn the_older_words_take_work_all_the_way_too() {
    let city = City::new();
    let steps = ["try prime hd --json prime", "commit a.txt", "hd done"];
    let relic = city.relic("older words", &steps);
    city.hd(&["sling", &relic, "horde"]).json();
    let rally = city.wait_tried("prime").json();
    assert_eq!(rally["raider"], "horde/raiders/Toast");
    assert_eq!(rally["relic"]["id"], relic.as_str());
    let hd = rally["hd"].as_str().unwrap();
    assert!(hd.starts_with('/') && hd.ends_with("/hd"), "{hd}");
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    let pairs: [[&[&str]; 2]; 3] = [
        [&["polecat", "list"], &["raider", "list"]],
        [&["formula", "list"], &["ritual", "list"]],
        [&["mail", "inbox"], &["drums", "inbox"]],
    ];
    for [older, verb] in pairs {
        assert_eq!(city.hd(older).json(), city.hd(verb).json(), "{older:?}");
    }
    let pairs: [[&[&str]; 2]; 2] = [
        [&["molecule", "show", &relic], &["totem", "show", &relic]],
        [&["nudge", "Toast", "hello"], &["send", "Toast", "hello"]],
    ];
    for [older, verb] in pairs {
        assert_eq!(city.hd(older).error(4), city.hd(verb).error(4), "{older:?}");
    }
}
