//! Work in steps: a ritual of the city, a totem on a relic, its steps one after the other (`raider-lifecycle.md`: the
//! session layer cycles per step, the totem's state persists in relics).

use serde_json::{Value, json};

use crate::support::git::write;
use crate::support::live::City;
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
    let task = std::fs::read_to_string(city.root().join("signs/task")).unwrap();
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
