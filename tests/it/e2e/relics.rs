//! Relics from the command line, against the real daemon: edit, dep, ready, reopen, cancel, export and import.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::support::git::write;
use crate::support::live::City;
use crate::support::plan::Plan;

fn create(city: &City, words: &[&str]) -> String {
    let made = city.hd(&[&["relic", "create"], words].concat()).json();
    made["id"].as_str().unwrap().to_owned()
}

fn show(city: &City, id: &str) -> Value {
    city.hd(&["relic", "show", id]).json()
}

/// Returns the relics of an import, by the ids of their records.
fn by_record(told: &Value) -> BTreeMap<String, String> {
    let relics = told["relics"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    relics
        .map(|one| (text(&one["record"]), text(&one["relic"])))
        .collect()
}

#[test]
fn list_and_show_from_the_command_line() {
    let city = City::new();
    let a = create(&city, &["first", "--label", "ui", "--priority", "1"]);
    let b = create(&city, &["second", "--dep", &a]);
    let listed = |words: &[&str]| {
        let list = city.hd(&[&["relic", "list"], words].concat()).json();
        let ids = list.as_array().unwrap().iter();
        ids.map(|one| one["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--status", "open"]), [a.as_str(), b.as_str()]);
    city.hd(&["relic", "close", &a, "--reason", "done by hand"])
        .json();
    assert_eq!(listed(&["--status", "open"]), [b.as_str()]);
    assert_eq!(listed(&["--status", "closed"]), [a.as_str()]);
    let shown = show(&city, &a);
    for (key, value) in [
        ("id", json!(a)),
        ("title", json!("first")),
        ("status", json!("closed")),
        ("priority", json!(1)),
        ("labels", json!(["ui"])),
        ("raider", Value::Null),
    ] {
        assert_eq!(shown[key], value, "{key}: {shown}");
    }
    assert_eq!(show(&city, &b)["deps"], json!([a]));
    let text = city.hd_text(&["relic", "show", &a]).out;
    assert!(text.contains("first") && text.contains("closed"), "{text}");
    assert_eq!(
        city.hd(&["relic", "show", "gt-99"]).error(4)["kind"],
        "not_found"
    );
}

#[test]
fn edit_dep_ready_and_reopen_from_the_command_line() {
    let city = City::new();
    let (a, b) = (create(&city, &["first"]), create(&city, &["second"]));
    write(city.root(), "body.md", "from a file\n");
    let words = [
        "relic",
        "edit",
        &a,
        "--title",
        "better",
        "--body-file",
        "body.md",
        "--priority",
        "3",
        "--label",
        "ui",
        "--assignee",
        "alice",
    ];
    let edited = city.hd(&words).json();
    assert_eq!(edited["body"], "from a file\n");
    assert_eq!(
        (&edited["title"], &edited["priority"]),
        (&json!("better"), &json!(3))
    );
    assert_eq!(
        city.hd(&["relic", "edit", &a]).error(2)["kind"],
        "bad_request"
    );
    assert_eq!(city.hd(&["relic", "edit", "gt-99", "--title", "x"]).code, 4);

    assert_eq!(
        city.hd(&["relic", "dep", "add", &b, &a]).json()["deps"],
        json!([a])
    );
    let cycle = city.hd(&["relic", "dep", "add", &a, &b]).error(1);
    assert_eq!(cycle["kind"], "conflict");
    let message = cycle["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("{a} \u{2192} {b} \u{2192} {a}")),
        "{message}"
    );
    assert_eq!(city.hd(&["relic", "dep", "add", &a, "gt-99"]).code, 4);
    let ready = || {
        let list = city.hd(&["relic", "ready"]).json();
        let ids = list.as_array().unwrap().iter();
        ids.map(|one| one["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ready(), [a.as_str()]);
    let said = city.hd_text(&["relic", "dep", "list", &b]);
    assert!(
        said.out.contains(&format!("waits for {a} (open): better")),
        "{said:?}"
    );
    city.hd(&["relic", "close", &a]).json();
    assert_eq!(ready(), [b.as_str()]);
    let reopened = city
        .hd(&["relic", "reopen", &a, "-m", "one case is left"])
        .json();
    assert_eq!(reopened["status"], "open");
    city.hd(&["relic", "dep", "remove", &b, &a]).json();
    assert_eq!(ready(), [a.as_str(), b.as_str()], "by priority");
    let event = city.happened("relic.closed", &a).remove(0);
    assert_eq!(
        event["data"]["asker"],
        json!({ "kind": "person", "name": "operator" })
    );
}

/// Weakness W4 of an earlier system: cancelling work reset its branch while that was checked out, and its commits
/// were lost.
#[test]
fn cancel_ends_the_raider_and_keeps_its_work() {
    let city = City::new();
    let relic = city.work(
        "never ends",
        &[
            "commit a.txt",
            "printf x >dirty.txt",
            "sign ready",
            "forever",
        ],
    );
    city.wait_sign("ready");
    assert_eq!(city.hd(&["cancel", &relic]).code, 2, "without confirmation");
    assert_eq!(city.hd(&["cancel", "gt-99"]).code, 4);
    let told = city
        .hd(&["cancel", &relic, "--reason", "not wanted", "--yes"])
        .json();
    assert_eq!(
        (&told["status"], &told["nuked"]),
        (&json!("closed"), &json!("horde/raiders/Toast"))
    );
    assert!(city.raiders().is_empty());
    assert!(!city.sandbox("Toast").exists());
    let salvage = told["salvage"].as_str().unwrap();
    let restored = city.root().join("again");
    let to = restored.to_str().unwrap();
    city.hd(&["salvage", "restore", salvage, "--to", to]).json();
    for name in ["a.txt", "dirty.txt"] {
        assert!(restored.join(name).exists(), "{name}");
    }
    assert_eq!(city.happened("relic.closed", &relic).len(), 1);

    let landed = city.work("lands", &["commit b.txt", "hd done"]);
    city.wait_status(&landed, "closed");
    let refused = city.hd(&["relic", "cancel", &landed, "--yes"]).error(1);
    assert_eq!(refused["kind"], "conflict");
    // What landed before is no reason when it is reopened.
    city.hd(&["relic", "reopen", &landed, "-m", "a case is left"])
        .json();
    city.hd(&["relic", "cancel", &landed, "--yes"]).json();
    city.wait_status(&landed, "closed");
}

/// The gate of cancelled work would hold the queue for up to its timeout.
#[test]
fn cancel_ends_the_gate_of_work_in_the_queue() {
    let run = "test -e slow.txt || exit 0; : >../../../signs/gate; sleep 1000";
    let gates = format!("[{{ name = \"slow\", run = \"{run}\" }}]");
    let city = Plan::new().set("forge", "gates", &gates).start();
    let slow = city.work("hangs in its gate", &["commit slow.txt", "hd done"]);
    city.wait_sign("gate");
    let next = city.work("lands after it", &["commit next.txt", "hd done"]);
    city.hd(&["cancel", &slow, "--yes"]).json();
    city.wait_status(&next, "closed");
    let landed = city.landed();
    assert!(landed.contains(&"next.txt".to_owned()), "{landed:?}");
    assert!(!landed.contains(&"slow.txt".to_owned()), "{landed:?}");
}

#[test]
fn an_agent_in_a_session_takes_no_work_from_others() {
    let script = "until [ -e signs/go ]; do sleep 0.05; done; relic=$(cat signs/relic); n=0; \
        for op in \"relic close $relic\" \"relic cancel $relic\" \"relic edit $relic --assignee mayor\" \
        \"relic reopen $relic\" \"relic edit $relic --priority 2\"; do n=$((n + 1)); \
        hd --json --yes $op >signs/out-$n 2>signs/err-$n; echo $? >>signs/codes; done; \
        mv signs/codes signs/told; sleep 1000";
    let city = Plan::new().agent("mayor", script, "").start();
    let relic = city.work("stays", &["sign ready", "forever"]);
    city.wait_sign("ready");
    fs::write(city.root().join("signs/relic"), &relic).unwrap();
    city.sign("go");
    city.wait_sign("told");
    let codes = fs::read_to_string(city.root().join("signs/told")).unwrap();
    assert_eq!(codes, "1\n1\n1\n1\n0\n");
    for n in 1..=4 {
        let error = fs::read_to_string(city.root().join(format!("signs/err-{n}"))).unwrap();
        assert!(error.contains("\"forbidden\""), "{n}: {error}");
    }
    assert_eq!(city.status_of(&relic), "hooked");
    let edited = city.happened("relic.updated", &relic).pop().unwrap();
    assert_eq!(
        edited["data"]["asker"],
        json!({ "kind": "agent", "name": "mayor" })
    );
}

#[test]
fn an_export_restores_the_same_relics_in_another_city() {
    let city = City::new();
    let parent = create(
        &city,
        &["the whole", "--body", "text\nwith lines", "--priority", "2"],
    );
    let step = create(&city, &["a step", "--parent", &parent, "--label", "ui"]);
    let other = create(&city, &["another", "--dep", &step]);
    // A parent that waits for its step is no cycle.
    city.hd(&["relic", "dep", "add", &parent, &step]).json();
    city.hd(&["relic", "edit", &other, "--assignee", "alice"])
        .json();
    city.hd(&["relic", "close", &step]).json();
    city.hd(&["relic", "export", "all.jsonl"]).json();
    let exported = fs::read_to_string(city.root().join("all.jsonl")).unwrap();
    assert_eq!(exported.lines().count(), 3);
    // Into the same city nothing changes.
    let same = city.hd(&["relic", "import", "all.jsonl"]).json();
    assert_eq!(
        (&same["created"], &same["unchanged"]),
        (&json!(0), &json!(3))
    );

    let second = City::new();
    write(second.root(), "all.jsonl", &exported);
    let told = second.hd(&["relic", "import", "all.jsonl"]).json();
    assert_eq!(
        (&told["format"], &told["created"]),
        (&json!("jsonl"), &json!(3))
    );
    for id in [&parent, &step, &other] {
        let (mut here, mut there) = (show(&city, id), show(&second, id));
        for shown in [&mut here, &mut there] {
            shown.as_object_mut().unwrap().remove("source");
        }
        assert_eq!(here, there, "{id}");
    }
    let again = second.hd(&["relic", "export"]);
    assert_eq!(again.out, exported);
    let told = second.hd(&["relic", "import", "all.jsonl"]).json();
    assert_eq!(
        (&told["created"], &told["unchanged"]),
        (&json!(0), &json!(3))
    );
    let next = create(&second, &["next"]);
    assert!(![&parent, &step, &other].contains(&&next));
}

const BEADS: &str = r#"{"id":"bd-2","title":"second","status":"in_progress","priority":0,"issue_type":"bug","assignee":"alice","dependencies":[{"issue_id":"bd-2","depends_on_id":"bd-1","type":"blocks"}],"created_at":"2026-01-02T00:00:00Z"}
{"id":"bd-1","title":"first","status":"open","priority":4,"issue_type":"task","created_at":"2026-01-01T00:00:00Z"}
{"id":"bd-3","title":"third","status":"closed","priority":2,"issue_type":"task","created_at":"2026-01-01T00:00:00Z","closed_at":"2026-01-03T00:00:00Z"}
"#;

#[test]
fn beads_are_imported_once_and_updated_afterwards() {
    let city = City::new();
    write(city.root(), "beads.jsonl", BEADS);
    let said = city.hd_text(&["relic", "import", "beads.jsonl"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("read as beads"), "{said:?}");
    assert!(said.out.contains("3 relics made"), "{said:?}");
    let says = "priorities are mapped: 0 there, the most urgent, is 4 here; 4 there is 0";
    assert!(said.out.contains(says), "{said:?}");
    let told = city.hd(&["relic", "import", "beads.jsonl"]).json();
    assert_eq!(
        (&told["created"], &told["unchanged"]),
        (&json!(0), &json!(3))
    );
    let of = by_record(&told);
    let second = show(&city, &of["bd-2"]);
    assert_eq!(
        (&second["priority"], &second["status"]),
        (&json!(4), &json!("open"))
    );
    assert_eq!(second["deps"], json!([of["bd-1"]]));
    assert_eq!(
        (&second["labels"], &second["assignee"]),
        (&json!(["bug"]), &json!("alice"))
    );
    assert_eq!(second["created"], "2026-01-02T00:00:00Z");
    assert_eq!(second["source"], json!({ "system": "beads", "id": "bd-2" }));
    assert_eq!(show(&city, &of["bd-3"])["closed"], "2026-01-03T00:00:00Z");
    write(
        city.root(),
        "beads.jsonl",
        BEADS.replace("\"first\"", "\"first, better\""),
    );
    let told = city.hd(&["relic", "import", "beads.jsonl"]).json();
    assert_eq!(
        (&told["updated"], &told["unchanged"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(show(&city, &of["bd-1"])["title"], "first, better");
}

#[test]
fn issues_of_github_are_imported_once_and_updated_afterwards() {
    let city = City::new();
    let issue = |state: &str| {
        json!([
            {"number": 7, "title": "a bug", "body": "text", "labels": [{"name": "priority: high"}], "state": state,
             "assignees": [], "created_at": "2026-01-01T00:00:00Z", "html_url": "https://github.com/o/r/issues/7"},
            {"number": 8, "title": "a change", "state": "open", "pull_request": {"url": "x"}},
        ])
        .to_string()
    };
    write(city.root(), "issues.json", issue("open"));
    let told = city
        .hd(&["relic", "import", "issues.json", "--rig", "horde"])
        .json();
    let says = "P3 or low 1; without such a label, a relic is made with 0, and an update leaves its priority";
    let priorities = told["priorities"].as_str().unwrap();
    assert!(priorities.ends_with(says), "{priorities}");
    assert_eq!(
        (&told["format"], &told["created"]),
        (&json!("github"), &json!(1))
    );
    assert_eq!(told["skipped"], json!({ "pull_requests": 1 }));
    let id = told["relics"][0]["relic"].as_str().unwrap();
    let shown = show(&city, id);
    assert_eq!(
        (&shown["priority"], &shown["body"]),
        (&json!(3), &json!("text"))
    );
    let unlabelled = issue("open").replace("priority: high", "help wanted");
    write(city.root(), "issues.json", unlabelled);
    let told = city.hd_text(&["relic", "import", "issues.json"]);
    assert!(told.out.contains("1 updated"), "{told:?}");
    assert!(
        told.out.contains("an update leaves its priority"),
        "{told:?}"
    );
    assert_eq!(show(&city, id)["priority"], 3, "as the text says");
    write(city.root(), "issues.json", issue("closed"));
    let told = city.hd(&["relic", "import", "issues.json"]).json();
    assert_eq!(told["updated"], 1);
    assert_eq!(city.status_of(id), "closed");
}

#[test]
fn a_faulty_file_imports_nothing() {
    let city = City::new();
    let files = [
        ("{\"id\":\"a\",\"title\":\"t\"}\nnot json\n", "line 2"),
        (
            "{\"id\":\"a\",\"title\":\"t\",\"deps\":[\"b\"]}\n{\"id\":\"b\",\"title\":\"t\",\"deps\":[\"a\"]}\n",
            "line 1: a would depend on itself",
        ),
    ];
    for (text, said) in files {
        write(city.root(), "bad.jsonl", text);
        let error = city.hd(&["relic", "import", "bad.jsonl"]).error(2);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(said), "{message}");
    }
    assert_eq!(city.hd(&["relic", "list"]).json(), json!([]));
}
