//! `hd metrics`: the text format of Prometheus, checked by a strict reader, and numbers that change.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::git::git;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;
use crate::support::processes;

/// Parses samples by name and labels. Panics at anything that version 0.0.4 forbids.
fn read(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut types) = (BTreeMap::new(), BTreeMap::new());
    let (mut helped, mut family) = (BTreeSet::new(), String::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split_once(' ').expect("a help text").0;
            assert!(helped.insert(name.to_owned()), "{line}: twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "{line}: no help");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none());
            let total = name.ends_with("_total");
            assert_eq!(kind == "counter", total, "{line}");
            name.clone_into(&mut family);
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            let name = sample.split('{').next().unwrap();
            let letter = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(letter), "{line}");
            let part = ["_bucket", "_sum", "_count"].iter();
            let part = part.filter(|_| types[&family] == "histogram");
            let mut base = part.filter_map(|part| name.strip_suffix(part));
            let base = base.next().unwrap_or(name);
            assert_eq!(base, family, "{line}: not below its TYPE");
            labels(sample);
            let value = value.parse().expect("a number");
            assert!(samples.insert(sample.to_owned(), value).is_none(), "{line}");
        }
    }
    samples
}

/// Checks `{name="value",..}`, with each name once.
fn labels(sample: &str) {
    let Some((_, rest)) = sample.split_once('{') else {
        return;
    };
    let mut rest = rest.strip_suffix('}').expect("closed");
    let mut names = BTreeSet::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").expect("a label");
        assert!(names.insert(name), "{sample}: {name} twice");
        let (value, after) = after.split_once('"').expect("a closing quote");
        assert!(!value.is_empty() && !value.contains('\\'), "{sample}");
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

fn metrics(city: &City) -> BTreeMap<String, f64> {
    let told = city.hd(&["metrics"]).json();
    assert!(
        told["content_type"]
            .as_str()
            .unwrap()
            .contains("version=0.0.4")
    );
    read(told["text"].as_str().unwrap())
}

#[test]
fn death_is_counted_under_the_child_that_died() {
    let city = Plan::new()
        .agent("cook", "exec sleep 1000", "")
        .agent("clerk", "exec sleep 1000", "")
        .start();
    let up = |n| move |samples: &BTreeMap<String, f64>| samples["horde_sessions_running"] == n;
    let all_up = || Some(metrics(&city)).filter(up(2.0));
    let before = wait("both run", all_up);
    assert_eq!(before[r#"horde_agents{state="running"}"#], 2.0);
    assert!(!before.contains_key(r#"horde_session_deaths_total{name="cook"}"#));
    assert_eq!(before[r#"horde_events_total{type="agent.crashed"}"#], 0.0);
    let agents = city.ask("agent.list", json!({})).unwrap();
    let mut agents = agents.as_array().unwrap().iter();
    let cook = agents.find(|agent| agent["name"] == "cook").unwrap()["pid"].as_u64();
    processes::signal(cook.unwrap().try_into().unwrap(), Signal::SIGKILL);
    city.wait_event(2, "agent.started", "cook");
    let after = wait("it runs again", all_up);
    for (name, value) in [
        (r#"horde_session_deaths_total{name="cook"}"#, 1.0),
        (r#"horde_session_starts_total{name="cook"}"#, 2.0),
        (r#"horde_session_restarts_total{name="cook"}"#, 1.0),
        (r#"horde_session_starts_total{name="clerk"}"#, 1.0),
        (r#"horde_events_total{type="agent.crashed"}"#, 1.0),
        ("horde_quarantined", 0.0),
        ("horde_store_degraded", 0.0),
    ] {
        assert_eq!(after[name], value, "{name}");
    }
    assert!(!after.contains_key(r#"horde_session_deaths_total{name="clerk"}"#));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        after[&format!("horde_build_info{{version=\"{version}\"}}")],
        1.0
    );
    assert!(after["process_cpu_seconds_total"] > 0.0);
    assert!(after["process_resident_memory_bytes"] > 1e6);
}

/// Landings, durations of gates and requests by caller are counted; and a raider may read the metrics.
#[test]
fn work_and_requests_are_counted() {
    let plan = Plan::new().set("forge", "gates", r#"[{ name = "test", run = "true" }]"#);
    let city = plan.start();
    city.hd(&["relic", "show", "gt-99"]).error(4);
    let steps = ["try look hd metrics", "commit a.txt", "hd done"];
    let relic = city.work("count", &steps);
    let looked = city.wait_tried("look");
    assert_eq!(looked.code, 0, "{looked:?}");
    let seen = read(&looked.out);
    assert_eq!(
        seen[r#"horde_raiders{rig="horde",state="working"}"#], 1.0,
        "{seen:?}"
    );
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    let counted = metrics(&city);
    for (name, value) in [
        (r#"horde_landings_total{rig="horde"}"#, 1.0),
        (
            r#"horde_gate_run_seconds_count{rig="horde",verdict="pass"}"#,
            1.0,
        ),
        (
            r#"horde_control_requests_total{op="relic.show",result="not_found"}"#,
            1.0,
        ),
        (
            r#"horde_control_requests_total{op="done",result="ok"}"#,
            1.0,
        ),
        (r#"horde_control_request_seconds_count{op="charge"}"#, 1.0),
        (r#"horde_relics{rig="horde",status="closed"}"#, 1.0),
        ("horde_escalations_open", 0.0),
    ] {
        assert_eq!(counted.get(name), Some(&value), "{name}");
    }
    until("a look is over", || {
        metrics(&city)["horde_patrol_seconds_count"] > 0.0
    });
    assert!(!counted.keys().any(|name| name.contains(&relic)));
}

#[test]
fn a_text_that_breaks_the_format_is_caught() {
    for bad in [
        "horde_a 1\n",
        "# HELP horde_a x\n# TYPE horde_a gauge\nhorde_a 1\nhorde_a 2\n",
        "# HELP horde_a x\n# TYPE horde_a counter\nhorde_a 1\n",
        "# HELP horde_a x\n# TYPE horde_a gauge\nhorde_a one\n",
        "# HELP horde_a x\n# TYPE horde_a gauge\nhorde_a{x=\"1\",x=\"2\"} 1\n",
    ] {
        assert!(std::panic::catch_unwind(|| read(bad)).is_err(), "{bad}");
    }
}

/// A sandbox without a hook holds a slot, and is counted separately.
#[test]
fn a_sandbox_without_a_hook_is_counted() {
    let city = City::new();
    city.work("work", &["sign up", "forever"]);
    city.wait_sign("up");
    let path = city.sandbox("Rust");
    let repo = city.root().join("horde/repo.git");
    let branch = [
        "-b",
        "raider/Rust/gt-90-1",
        path.to_str().unwrap(),
        "origin/main",
    ];
    git(
        &repo,
        &[&["worktree", "add", "--quiet"], &branch[..]].concat(),
    );
    let counted = metrics(&city);
    for state in ["working", "hookless"] {
        let name = format!(r#"horde_raiders{{rig="horde",state="{state}"}}"#);
        assert_eq!(counted[&name], 1.0, "{state}");
    }
}
