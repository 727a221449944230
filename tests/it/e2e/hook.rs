//! A session's view of its work: its hook, `hd rally`, and the files in its sandbox (`agent-lifecycle.md`; `contract.md`, 2.3 and 2.7).

use std::fs;

use serde_json::{Value, json};

use crate::support::git::git;
use crate::support::live::{City, wait};
use crate::support::plan::Plan;

const TOAST: &str = "horde/raiders/Toast";

/// Identity, task and progress: all that a fresh session needs to continue.
#[test]
fn hook_and_rally_tell_a_session_its_work_and_where_it_was() {
    let city = City::new();
    let relic = city.work(
        "two halves",
        &[
            "[ $n != 1 ] || { try hook hd --json hook show; try rally hd --json rally; commit a.txt; }",
            "[ $n != 1 ] || { echo half >b.txt; git add b.txt; echo note >loose.txt; }",
            "[ $n != 1 ] || { hd handoff -m 'b is half done'; forever; }",
            "try again hd --json rally",
            "rm loose.txt",
            "git commit --quiet -m 'add b.txt'",
            "hd done",
        ],
    );
    let told = city.wait_tried("hook").json();
    let hook = &told["hook"];
    assert_eq!(
        (&hook["raider"], &hook["relic"]),
        (&json!(TOAST), &json!(relic))
    );
    assert_eq!(told["relic"]["title"], "two halves");
    let first = city.wait_tried("rally").json();
    for (key, value) in [
        ("raider", json!(TOAST)),
        ("incarnation", json!(1)),
        ("rig", json!("horde")),
        ("branch", json!(format!("raider/Toast/{relic}-1"))),
        ("target", json!("main")),
        ("sandbox", json!(city.sandbox("Toast"))),
        ("last_end", Value::Null),
        ("note", Value::Null),
        ("done", json!(false)),
    ] {
        assert_eq!(first[key], value, "{key}: {first}");
    }
    assert_eq!(first["relic"]["id"], relic.as_str());
    assert_eq!(
        (&first["git"]["ahead"], &first["git"]["dirty"]),
        (&json!(0), &json!([]))
    );
    let again = city.wait_tried("again").json();
    let prompt = city.wait_prompt(&relic, 2);
    assert!(prompt.contains("b is half done"), "{prompt}");
    assert_eq!(
        (&again["raider"], &again["incarnation"]),
        (&json!(TOAST), &json!(1))
    );
    // A session that compacts asks again: its first prompt is gone by then.
    assert_eq!(again["note"], "b is half done");
    assert!(again["note_at"].is_string(), "{again}");
    assert_eq!(again["last_end"], "handoff");
    assert_eq!(again["outcome"]["state"], "empty");
    for (key, part) in [
        ("rules", "Do not push"),
        ("finish", "\"outcome\":\"passed\""),
    ] {
        let text = again[key].as_str().unwrap();
        assert!(text.contains(part), "{key}: {text}");
    }
    let git = &again["git"];
    assert_eq!(
        (&git["ahead"], &git["dirty"], &git["untracked"]),
        (&json!(1), &json!(["b.txt"]), &json!(["loose.txt"]))
    );
    city.wait_status(&relic, "closed");
    // From outside there is no hook to tell of.
    assert_eq!(city.hd(&["rally"]).error(1)["kind"], "forbidden");
}

/// The task and the outcome are links out of the sandbox, which git does not see; they outlive it.
#[test]
fn task_and_outcome_are_links_that_git_overlooks_and_that_outlive_the_sandbox() {
    for (tracked, name) in [(false, "TASK.md"), (true, ".horde-task.md")] {
        let plan = match tracked {
            false => Plan::new(),
            true => Plan::new().file("TASK.md", "ours\n"),
        };
        let city = plan.start();
        let steps = [
            "sign up",
            "await go",
            "commit a.txt",
            "outcome passed",
            "forever",
        ];
        let relic = city.work("leave files", &steps);
        city.wait_sign("up");
        let sandbox = city.sandbox("Toast");
        let dir = city
            .root()
            .join(format!(".horde/tasks/horde/{relic}/Toast-1"));
        for (link, file) in [(name, "TASK.md"), (".horde-outcome", "outcome")] {
            let to = fs::canonicalize(sandbox.join(link)).unwrap();
            assert_eq!(to, dir.join(file).canonicalize().unwrap(), "{link}");
        }
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
        let task = fs::read_to_string(sandbox.join(name)).unwrap();
        assert!(task.contains("leave files"), "{task}");
        assert_eq!(fs::read_to_string(dir.join("outcome")).unwrap(), "");
        city.sign("go");
        city.wait_status(&relic, "closed");
        city.wait_no_raiders();
        assert!(!sandbox.exists());
        let outcome = fs::read_to_string(dir.join("outcome")).unwrap();
        assert!(outcome.contains(r#""outcome":"passed""#), "{outcome}");
        assert!(dir.join("TASK.md").exists());
        let landed = city.landed();
        assert_eq!(
            landed.contains(&"TASK.md".to_owned()),
            tracked,
            "{landed:?}"
        );
    }
}

/// An editor that saves by renaming, and a clean-up of ignored files: the links come back, what was written is kept, and
/// neither stands in the way of `hd done`. A patrol would come an hour later.
#[test]
fn links_that_an_editor_replaced_are_put_back_and_what_was_written_is_kept() {
    let city = Plan::new()
        .set("daemon", "patrol_interval", "\"1h\"")
        .start();
    let relic = city.work(
        "edit the task",
        &[
            "commit a.txt",
            "echo >saved; mv saved .horde-outcome",
            "echo 'my plan' >saved; mv saved TASK.md",
            "while [ ! -L TASK.md ]; do sleep 0.05; done",
            "sign back",
            "await go",
            "git clean --quiet -fdx",
            "hd done",
        ],
    );
    city.wait_sign("back");
    let sandbox = city.sandbox("Toast");
    let dir = city
        .root()
        .join(format!(".horde/tasks/horde/{relic}/Toast-1"));
    let read = |path: std::path::PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!(read(dir.join("outcome")), "");
    assert_eq!(
        read(sandbox.join(".horde-outcome")),
        "\n",
        "it declares nothing"
    );
    assert!(read(sandbox.join("TASK.md")).contains("edit the task"));
    assert_eq!(read(dir.join("TASK.replaced-1.md")), "my plan\n");
    let kept = dir.join("TASK.replaced-1.md");
    let told = wait("the event of the kept file", || {
        city.happened("raider.task_replaced", TOAST).pop()
    });
    assert_eq!(told["data"]["file"], kept.display().to_string());
    let why = city.hd_text(&["why", "Toast"]).out;
    assert!(why.contains("raider.task_replaced"), "{why}");
    let why = city.hd_text(&["why", &relic]).out;
    assert!(why.contains("raider.task_replaced"), "{why}");
    city.sign("go");
    city.wait_status(&relic, "closed");
    assert_eq!(read(dir.join("TASK.replaced-1.md")), "my plan\n");
    assert!(!city.landed().contains(&"TASK.md".to_owned()));
    let told = city.happened("raider.task_replaced", TOAST);
    assert_eq!(told.len(), 1, "once for an incarnation: {told:?}");
}
