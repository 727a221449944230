//! A person's decision: `review = "human"`, outcome `reviewing`, `hd mq approve` and `reject` (`agent-lifecycle.md`,
//! section 6; `product.md`, human review).

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::support::git::git;
use crate::support::live::{City, until};
use crate::support::plan::Plan;
use crate::support::pty::{shown, terminal};

/// Returns the relic's newest merge request.
fn mr(city: &City, relic: &str) -> Option<Value> {
    let all = city.hd(&["mq", "list"]).json();
    let mut all = all.as_array().unwrap().iter().rev();
    all.find(|mr| mr["relic"] == relic && mr["state"] != "rejected")
        .cloned()
}

fn waits_for_a_person(city: &City, relic: &str) -> String {
    until("it waits for a person", || {
        mr(city, relic).is_some_and(|mr| mr["note"].as_str().unwrap_or("").contains("approve"))
    });
    mr(city, relic).unwrap()["id"].as_str().unwrap().to_owned()
}

/// Returns the session of Toast, as `hd status` shows it.
fn session(city: &City) -> Value {
    let status = city.hd(&["status"]).json();
    let raiders = status["rigs"][0]["raiders"].as_array().unwrap();
    let toast = raiders.iter().find(|raider| raider["name"] == "Toast");
    toast.map_or(Value::Null, |toast| toast["session"].clone())
}

/// Nothing lands before a person approves; sandbox and slot stay until then.
#[test]
fn merge_request_in_review_lands_when_it_is_approved() {
    let city = City::new();
    let relic = city.work(
        "look at it",
        &["commit a.txt", "outcome reviewing", "forever"],
    );
    let id = waits_for_a_person(&city, &relic);
    assert_eq!(mr(&city, &relic).unwrap()["state"], "reviewing");
    assert!(!city.landed().contains(&"a.txt".to_owned()));
    assert!(city.sandbox("Toast").join("a.txt").exists());
    let head = mr(&city, &relic).unwrap()["head"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = "0123456789abcdef0123456789abcdef01234567";
    for wrong in [other, &head[..4], ""] {
        let refused = city.hd(&["mq", "approve", &id, "--head", wrong]);
        assert_eq!(refused.code, 1, "{wrong:?}: {}", refused.err);
        assert!(refused.err.contains(&head), "{}", refused.err);
    }
    assert_eq!(
        city.hd(&["mq", "approve", &id, "--head", &head[..10]]).code,
        0
    );
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"a.txt".to_owned()));
    city.wait_no_raiders();
    assert_eq!(
        city.hd(&["mq", "approve", &id]).code,
        0,
        "approving twice is approving once"
    );
    assert_eq!(city.happened("mr.approved", &id).len(), 1);
}

/// A rejection goes to a fresh raider with its note, and is not counted as a rework.
#[test]
fn rejected_work_goes_to_a_fresh_raider_with_the_reason() {
    let plan =
        Plan::new()
            .set("forge", "review", r#""human""#)
            .set("forge", "rework_attempts", "0");
    let mut city = City::made(&plan);
    city.start();
    let relic = city.work(
        "mind the style",
        &[
            "commit $([ $n = 1 ] && echo bad.txt || echo good.txt)",
            "hd done",
        ],
    );
    let first = waits_for_a_person(&city, &relic);
    until("its session has ended", || session(&city).is_null());
    let silent = city.hd(&["--yes", "mq", "reject", &first]);
    assert_eq!(silent.code, 2, "{}", silent.err);
    assert!(silent.err.contains("--note"), "{}", silent.err);
    let asked = city.hd(&["mq", "reject", &first, "--note", "wrong name"]);
    assert_eq!(asked.code, 2, "it needs consent");
    let said = city.hd(&["--yes", "mq", "reject", &first, "--note", "wrong name"]);
    assert_eq!(said.code, 0);
    until("a fresh raider is at it", || city.sessions_of(&relic) == 2);
    let second = waits_for_a_person(&city, &relic);
    assert_ne!(first, second);
    let told = city.wait_prompt(&relic, 2);
    assert!(told.contains("wrong name"), "{told}");
    assert_eq!(city.hd(&["mq", "approve", &second]).code, 0);
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"good.txt".to_owned()));
    assert!(!city.landed().contains(&"bad.txt".to_owned()));
}

/// Without a review the slot is free again after `review_hold`, and the pushed work lands when it is approved.
#[test]
fn unreviewed_merge_request_waits_on_without_its_raider() {
    let plan = Plan::new().set("daemon", "patrol_interval", r#""1s""#).set(
        "witness",
        "review_hold",
        r#""1s""#,
    );
    let mut city = City::made(&plan);
    city.start();
    let relic = city.work(
        "look at it",
        &["commit a.txt", "outcome reviewing", "forever"],
    );
    let id = waits_for_a_person(&city, &relic);
    assert_eq!(
        city.happened("raider.needs_input", "horde/raiders/Toast")
            .len(),
        1
    );
    city.wait_no_raiders();
    assert_eq!(mr(&city, &relic).unwrap()["state"], "reviewing");
    assert_eq!(city.hd(&["mq", "approve", &id]).code, 0);
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"a.txt".to_owned()));
}

/// `contract.md`, `human_review_paths`: only a change of such a path waits for a person.
#[test]
fn change_of_a_review_path_waits_for_a_person() {
    let paths = r#"["migrations/"]"#;
    let plan = Plan::new().set("forge", "human_review_paths", paths);
    let mut city = City::made(&plan);
    city.start();
    let plain = city.work("the code", &["commit a.txt", "hd done"]);
    city.wait_status(&plain, "closed");
    let relic = city.work(
        "the schema",
        &[
            "mkdir -p db/migrations",
            "commit db/migrations/1.sql",
            "hd done",
            "forever",
        ],
    );
    let id = waits_for_a_person(&city, &relic);
    let shown = city.hd(&["mq", "show", &relic]).json();
    assert_eq!(shown["id"], id.as_str(), "a relic names its merge request");
    let note = shown["note"].as_str().unwrap();
    assert!(note.contains("it changes db/migrations/1.sql"), "{note}");
    assert_eq!(city.hd(&["mq", "approve", &id]).code, 0);
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"db/migrations/1.sql".to_owned()));
}

/// The session stays while a person reviews, works on after a rejection, and ends with the approval.
#[test]
fn session_stays_for_its_reviewer_and_works_on_after_a_rejection() {
    let plan = Plan::new().set("forge", "review", r#""human""#);
    let mut city = City::made(&plan);
    city.start();
    let relic = city.work(
        "talk to me",
        &[
            "commit a.txt",
            "hd done",
            "await go",
            "commit b.txt",
            "try second hd done",
            "await more",
            "commit c.txt",
            "try third hd done",
            "forever",
        ],
    );
    let first = waits_for_a_person(&city, &relic);
    let before = session(&city);
    assert!(!before.is_null(), "it can be attached to");
    let reject = ["--yes", "mq", "reject", &first, "--note", "b is missing"];
    let said = city.hd(&reject).json();
    assert_eq!(said["back_to"], "horde/raiders/Toast", "{said}");
    let inbox = city.hd(&["drums", "inbox", "Toast"]).json();
    assert_eq!(inbox["waiting"], 1, "{inbox}");
    city.sign("go");
    assert_eq!(city.wait_tried("second").code, 0);
    let second = waits_for_a_person(&city, &relic);
    assert_ne!(first, second);
    // Later commits of its own accord: the same merge request.
    let head = mr(&city, &relic).unwrap()["head"].clone();
    city.sign("more");
    assert_eq!(city.wait_tried("third").code, 0);
    until("it is submitted", || {
        mr(&city, &relic).is_some_and(|mr| mr["head"] != head && mr["needs_person"] == true)
    });
    assert_eq!(mr(&city, &relic).unwrap()["id"], second.as_str());
    assert_eq!(session(&city), before, "the same session");
    let unseen = city.hd(&["mq", "approve", &second]);
    assert_eq!(unseen.code, 1, "{}", unseen.err);
    assert!(unseen.err.contains("--head"), "{}", unseen.err);
    let head = mr(&city, &relic).unwrap()["head"].as_str().unwrap()[..10].to_owned();
    let approve = ["mq", "approve", &second, "--head", &head];
    assert_eq!(city.hd(&approve).code, 0);
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    assert_eq!(city.sessions_of(&relic), 1);
    for file in ["a.txt", "b.txt", "c.txt"] {
        assert!(city.landed().contains(&file.to_owned()), "{file}");
    }
}

/// Input of a person reaches the program while its work waits for a review, by `hd send` and by `hd attach`.
#[test]
fn reviewer_talks_to_the_session_whose_work_waits() {
    let plan = Plan::new().set("forge", "review", r#""human""#);
    let city = plan.start();
    let reads = "while read -r line; do echo \"got <$line>\"; done";
    let relic = city.work(
        "talk to me",
        &["commit a.txt", "hd done", "echo ready", reads],
    );
    waits_for_a_person(&city, &relic);
    let before = session(&city);
    let screen = || city.hd(&["peek", "Toast"]).out;
    until("it listens", || screen().contains("ready"));
    let sent = city.hd(&["send", "Toast", "why no test?"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    until("it has the question", || {
        screen().contains("got <why no test?>")
    });
    let (mut seat, end) = terminal();
    let on = || Stdio::from(end.try_clone().unwrap());
    let mut hd = city.program("hd");
    hd.env("TERM", "xterm").args(["attach", "Toast"]);
    let mut hd = hd.stdin(on()).stdout(on()).stderr(on()).spawn().unwrap();
    shown(&mut seat, "got <why no test?>");
    seat.write_all(b"and the docs?\r").unwrap();
    shown(&mut seat, "got <and the docs?>");
    seat.write_all(b"\x1c").unwrap();
    shown(&mut seat, "detached");
    assert!(hd.wait().unwrap().success());
    assert_eq!(session(&city), before, "the same session");
    assert_eq!(mr(&city, &relic).unwrap()["state"], "reviewing");
}

/// `hd mq show` has what the raider said: with `hd done`, and in its last handoff. It has them when the raider is gone, too.
#[test]
fn reviewer_is_shown_the_notes_of_the_raider() {
    let plan = Plan::new().set("forge", "review", r#""human""#);
    let city = plan.start();
    let relic = city.work(
        "explain it",
        &[
            "[ $n = 2 ] || { hd handoff -m 'the parser is half done'; forever; }",
            "commit a.txt",
            "hd done --reason 'the old format stays readable'",
            "forever",
        ],
    );
    let id = waits_for_a_person(&city, &relic);
    let notes = || city.hd(&["mq", "show", &id]).json()["raider_notes"].clone();
    let kept = notes();
    assert_eq!(
        (&kept["done"]["text"], &kept["handoff"]["text"]),
        (
            &"the old format stays readable".into(),
            &"the parser is half done".into()
        ),
        "{kept}"
    );
    assert!(kept["done"]["at"].is_string() && kept["handoff"]["at"].is_string());
    let told = city.hd_text(&["mq", "show", &id]).out;
    for said in [
        "raider_notes",
        "the old format stays readable",
        "the parser is half done",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    assert_eq!(city.hd(&["--yes", "raider", "nuke", "Toast"]).code, 0);
    assert_eq!(notes(), kept);
}

/// The reason of an outcome is for the reviewer, whether the agent or the city wants the review.
#[test]
fn reviewer_is_shown_the_reason_of_the_outcome_file() {
    let reviewed = Plan::new().set("forge", "review", r#""human""#);
    for (word, plan) in [("reviewing", Plan::new()), ("passed", reviewed)] {
        let mut city = City::made(&plan);
        city.start();
        let outcome = format!(r#"outcome {word} ',"reason":"look at the flag"'"#);
        let steps = ["commit a.txt", &outcome, "forever"];
        let relic = city.work("look at it", &steps);
        let id = waits_for_a_person(&city, &relic);
        let shown = city.hd(&["mq", "show", &id]).json();
        let notes = &shown["raider_notes"];
        assert_eq!(notes["done"]["text"], "look at the flag", "{word}: {shown}");
        assert_eq!(notes["handoff"], Value::Null);
    }
}

/// The rejected commit is on the remote, and the new one does not follow it.
#[test]
fn amended_work_is_submitted_after_a_rejection() {
    for push in ["true", "false"] {
        let plan = Plan::new()
            .set("forge", "review", r#""human""#)
            .set("forge", "push", push);
        let mut city = City::made(&plan);
        city.start();
        let amend = "git add -A && git commit --quiet --amend -m amended";
        let relic = city.work(
            "amend it",
            &[
                "commit a.txt",
                "hd done",
                "await go",
                "try same hd done",
                "echo more > a.txt",
                amend,
                "try second hd done",
                "forever",
            ],
        );
        let first = waits_for_a_person(&city, &relic);
        let reject = ["--yes", "mq", "reject", &first, "--note", "more"];
        assert_eq!(city.hd(&reject).code, 0);
        city.sign("go");
        let same = city.wait_tried("same");
        assert_ne!(same.code, 0, "the rejected head");
        assert_eq!(city.wait_tried("second").code, 0);
        let second = waits_for_a_person(&city, &relic);
        assert_ne!(first, second);
        assert_eq!(city.hd(&["mq", "approve", &second]).code, 0);
        city.wait_status(&relic, "closed");
        city.wait_no_raiders();
    }
}

/// Merges the branch of the merge request as a host does.
fn merge_on_host(city: &City, branch: &str, how: &[&str]) {
    let clone = city.root().join("host-clone");
    let (origin, to) = (city.origin(), clone.display().to_string());
    git(
        city.root(),
        &["clone", "--quiet", &origin.display().to_string(), &to],
    );
    for (key, value) in [
        ("user.name", "host"),
        ("user.email", "host@example.invalid"),
    ] {
        git(&clone, &["config", key, value]);
    }
    let name = format!("origin/{branch}");
    git(
        &clone,
        &[&["merge", "--quiet", "--no-edit"], how, &[&name]].concat(),
    );
    if how.contains(&"--squash") {
        git(&clone, &["commit", "--quiet", "-m", "squashed (#7)"]);
    }
    git(&clone, &["push", "--quiet", "origin", "HEAD:main"]);
    std::fs::remove_dir_all(&clone).unwrap();
}

/// A pull request is opened by the rig's command, and merged on the host; with its commits, then squashed.
#[test]
fn pull_request_that_is_merged_on_the_host_is_cleaned_up_as_merged() {
    let script = r#"printf '%s' "$1" > "$HD_CITY/title"; cp "$2" "$HD_CITY/body"; echo see https://host/pr/$3"#;
    let pr = serde_json::json!(["sh", "-c", script, "sh", "{title}", "{body_file}", "{mr}"]);
    let plan = Plan::new()
        .set("forge", "review", r#""human""#)
        .set("forge", "pr", &pr.to_string())
        .set("daemon", "patrol_interval", r#""1s""#);
    let mut city = City::made(&plan);
    city.start();
    for (file, how) in [("a.txt", "--no-ff"), ("b.txt", "--squash")] {
        let title = format!("add {file}; $(touch pwned) `touch pwned` \"'");
        let commit = format!("commit {file}");
        let relic = city.work(&title, &[&commit, "hd done", "forever"]);
        let id = waits_for_a_person(&city, &relic);
        let opened = city.hd(&["mq", "pr", &relic]).json();
        let url = format!("https://host/pr/{id}");
        assert_eq!(opened["url"], url.as_str(), "{opened}");
        let read = |name: &str| std::fs::read_to_string(city.root().join(name)).unwrap();
        assert_eq!(read("title"), title);
        assert!(read("body").contains(&relic), "{}", read("body"));
        assert!(!city.checkout().join("pwned").exists() && !city.root().join("pwned").exists());
        assert_eq!(city.hd(&["mq", "show", &id]).json()["pr"], url.as_str());
        let branch = mr(&city, &relic).unwrap()["branch"]
            .as_str()
            .unwrap()
            .to_owned();
        merge_on_host(&city, &branch, &[how]);
        city.wait_status(&relic, "closed");
        city.wait_no_raiders();
        assert_eq!(city.happened("mr.merged_elsewhere", &id).len(), 1);
        assert_eq!(mr(&city, &relic).unwrap()["state"], "merged");
        until("its branch is deleted", || {
            !git(&city.origin(), &["branch", "--list"]).contains(&branch)
        });
    }
}
