//! Work in steps: a ritual of the city, a totem on a relic, its steps one after the other (`raider-lifecycle.md`: the
//! session layer cycles per step, the totem's state persists in relics).

use std::fs;

use serde_json::{Value, json};

use crate::support::git::write;
use crate::support::live::{City, until};
use crate::support::plan::Plan;

/// Three steps; the last begins in a fresh session.
const RITUAL: &str = r#"
description = "two halves and a look"

[vars]
place = "here"

[[steps]]
id = "first"
title = "First half of {{relic}}"
body = "Write the first half {{place}}."

[[steps]]
id = "second"
title = "Second half"
body = "Write the second half."
needs = ["first"]

[[steps]]
id = "look"
title = "Look at both"
body = "Look at {{title}}."
needs = ["second"]
fresh_session = true
"#;

fn city() -> City {
    let mut city = City::made(&Plan::new());
    write(city.root(), "rituals/halves.toml", RITUAL);
    city.start();
    city
}

/// Makes a relic with a totem of the ritual. Returns its id.
fn totem(city: &City, steps: &[&str]) -> String {
    let relic = city.relic("both halves", steps);
    let words = ["totem", "start", "halves", &relic, "--var", "place=there"];
    let started = city.hd(&words).json();
    assert_eq!(started["present"], format!("{relic}.1"), "{started}");
    relic
}

/// The whole way: each step is shown by `hd rally` and the task file, `hd step done` names the next, the last one says
/// `hd done`. The step with `fresh_session` has a session of its own, and its handoff note names it.
#[test]
fn a_totem_is_done_step_by_step_and_cycles_the_session_where_the_ritual_says_so() {
    let city = city();
    let relic = totem(
        &city,
        &[
            "[ $n = 2 ] || { try rally hd --json rally; commit a.txt; try first hd --json step done $HD_RELIC.1; }",
            "[ $n = 2 ] || { cp TASK.md ../../../signs/task.new; mv ../../../signs/task.new ../../../signs/task; }",
            "[ $n = 2 ] || { commit b.txt; hd step done -m 'mind the gap'; forever; }",
            "try again hd --json rally",
            "try third hd --json step done",
            "try fourth hd --json step done",
            "hd done",
        ],
    );
    city.charge(&relic);
    let step = |number: u32| format!("{relic}.{number}");
    let rally = city.wait_tried("rally").json();
    let progress = &rally["totem"];
    assert_eq!(progress["next"][0]["id"], step(1), "{rally}");
    assert_eq!(
        progress["next"][0]["body"], "Write the first half there.",
        "{rally}"
    );
    assert_eq!(progress["later"], json!([step(2), step(3)]), "{rally}");
    let first = city.wait_tried("first").json();
    assert_eq!(
        (&first["step"], &first["next"][0]["id"], &first["handoff"]),
        (&json!(step(1)), &json!(step(2)), &json!(false))
    );
    city.wait_sign("task");
    let task = fs::read_to_string(city.root().join("signs/task")).unwrap();
    assert!(task.contains("Write the second half."), "{task}");
    assert!(task.contains(&format!("step done {}", step(2))), "{task}");
    let prompt = city.wait_prompt(&relic, 2);
    for part in ["mind the gap", "Look at both halves.", &step(3)] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    let again = city.wait_tried("again").json();
    assert_eq!(again["totem"]["next"][0]["id"], step(3), "{again}");
    let third = city.wait_tried("third").json();
    assert_eq!(third["finished"], true, "{third}");
    assert!(
        third["text"].as_str().unwrap().contains(" done`"),
        "{third}"
    );
    let fourth = city.wait_tried("fourth").error(1);
    assert_eq!(fourth["kind"], "conflict", "{fourth}");
    city.wait_status(&relic, "closed");
    assert_eq!(city.sessions_of(&relic), 2);
    let toast = "horde/raiders/Toast";
    let handoff = &city.happened("raider.handoff", toast)[0];
    assert_eq!(handoff["data"]["totem_step"], step(3), "{handoff}");
    assert_eq!(city.happened("totem.step_done", &relic).len(), 3);
    assert_eq!(city.happened("agent.crashed", toast), Vec::<Value>::new());
    let landed = city.landed();
    assert!(landed.contains(&"a.txt".to_owned()) && landed.contains(&"b.txt".to_owned()));
}

/// A ritual of the city is there without a restart, and replaces the built-in one; a broken one leaves the last
/// configuration in force. The older words `formula` and `molecule` mean the same.
#[test]
fn a_changed_ritual_is_seen_without_a_restart() {
    let city = City::new();
    let names = || {
        let listed = city.hd(&["ritual", "list"]).json();
        let rows = listed.as_array().unwrap().iter();
        rows.map(|row| format!("{}:{}", row["name"].as_str().unwrap(), row["built_in"]))
            .collect::<Vec<_>>()
    };
    let built_in = [
        "conflict-resolution:true",
        "review:true",
        "witness-patrol:true",
        "work:true",
    ];
    assert_eq!(names(), built_in);
    write(city.root(), "rituals/work.toml", RITUAL);
    until("the file replaces the built-in ritual", || {
        names()[3] == "work:false"
    });
    let shown = city.hd(&["formula", "show", "work"]).json();
    assert_eq!(shown["steps"][0]["id"], "first", "{shown}");
    write(
        city.root(),
        "rituals/work.toml",
        "[[steps]]\nid = \"a\"\ntitle = \"{{none}}\"\n",
    );
    let refused = city.hd(&["reload"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.out.contains("there is no variable `none`"),
        "{refused:?}"
    );
    let relic = city.relic("a task", &["forever"]);
    let started = city.hd(&["molecule", "start", "work", &relic]).json();
    assert_eq!(started["steps"].as_array().unwrap().len(), 3, "{started}");
    let text = city.hd_text(&["totem", "show", &relic]).out;
    assert!(
        text.contains(&format!("now   {relic}.1 First half of {relic}")),
        "{text}"
    );
    let again = city.hd(&["totem", "start", "work", &relic]).error(1);
    assert!(
        again["message"]
            .as_str()
            .unwrap()
            .contains("has a totem already"),
        "{again}"
    );
    // A totem that was started keeps its steps.
    fs::remove_file(city.root().join("rituals/work.toml")).unwrap();
    until("the built-in ritual is back", || names() == built_in);
    let shown = city.hd(&["totem", "show", &relic]).json();
    assert_eq!(shown["steps"][2]["title"], "Look at both", "{shown}");
}

/// The state of a totem survives the death of the supervisor, and a session that died finds its step again.
#[test]
fn a_totem_survives_a_killed_supervisor_and_a_crashed_session() {
    let mut city = city();
    let relic = totem(
        &city,
        &[
            "[ $n != 1 ] || { commit a.txt; hd step done $HD_RELIC.1; sign one; await crash; exit 1; }",
            "[ $n != 2 ] || { try rally hd --json rally; hd step done; forever; }",
            "hd step done",
            "hd done",
        ],
    );
    city.charge(&relic);
    city.wait_sign("one");
    city.kill();
    city.start();
    city.sign("crash");
    let rally = city.wait_tried("rally").json();
    assert_eq!(
        rally["totem"]["next"][0]["id"],
        format!("{relic}.2"),
        "{rally}"
    );
    let prompt = city.wait_prompt(&relic, 2);
    assert!(prompt.contains("Write the second half."), "{prompt}");
    city.wait_status(&relic, "closed");
    assert_eq!(city.happened("totem.step_done", &relic).len(), 3);
}

/// An automation makes work from a ritual; it is charged although the rig does not charge automatically.
#[test]
fn an_automation_makes_a_totem_that_a_raider_works_on() {
    let mut city = City::made(&Plan::new());
    write(city.root(), "rituals/halves.toml", RITUAL);
    let automation = "description = \"both halves\"\nritual = \"halves\"\ngate = \"manual\"\nvars = { place = \"there\" }\n";
    write(
        city.root(),
        "automations/weekly/automation.toml",
        automation,
    );
    city.start();
    let run = city.hd(&["auto", "run", "weekly", "--wait"]);
    assert_eq!(run.code, 0, "{run:?}");
    let charged = city.wait_first("raider.charged");
    let relic = charged["data"]["relic"].as_str().unwrap().to_owned();
    let prompt = city.wait_prompt(&relic, 1);
    for part in [
        "both halves",
        "the automation weekly",
        "Write the first half there.",
    ] {
        assert!(
            prompt.to_lowercase().contains(&part.to_lowercase()),
            "{part}: {prompt}"
        );
    }
    let shown = city.hd(&["totem", "show", &relic]).json();
    assert_eq!(shown["by"], "automation/weekly", "{shown}");
}

/// Takes the work of its pool, and does its steps; the session that the ritual cycles finds the first ones done.
const MEMBER: &str = "until hd --json hook | grep gt-1; do sleep 0.05; done; \
    hd step done gt-1.1; hd step done gt-1.2; hd step done gt-1.3; hd done --reason 'both are there'; exec sleep 1000";

/// An automation makes work for a pool: a member takes it, does each step, and closes it. No raider is charged with it.
#[test]
fn a_pool_member_finishes_the_totem_that_an_automation_makes_for_its_pool() {
    let plan = Plan::new().agent("worker", MEMBER, "pool = { min = 1, max = 1 }");
    let mut city = City::made(&plan);
    write(city.root(), "rituals/halves.toml", RITUAL);
    let automation = "ritual = \"halves\"\npool = \"worker\"\ngate = \"manual\"\n";
    let file = "automations/weekly/automation.toml";
    write(city.root(), file, automation);
    city.start();
    let run = city.hd(&["auto", "run", "weekly", "--wait"]);
    assert_eq!(run.code, 0, "{run:?}");
    city.wait_status("gt-1", "closed");
    let done = city.happened("totem.step_done", "gt-1");
    let steps: Vec<_> = done.iter().map(|event| &event["data"]["step"]).collect();
    assert_eq!(steps, ["gt-1.1", "gt-1.2", "gt-1.3"]);
    let member = json!({ "kind": "agent", "name": "worker-1" });
    assert!(done.iter().all(|event| event["data"]["asker"] == member));
    let closed = city.happened("relic.closed", "gt-1");
    assert_eq!(closed[0]["data"]["by"], "worker-1", "{closed:?}");
    let started = city.happened("agent.started", "worker-1");
    assert_eq!(started.len(), 2, "one handoff: {started:?}");
    assert_eq!(city.all_of("raider.charged"), Vec::<Value>::new());
}
