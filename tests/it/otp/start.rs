//! Start: an empty city, an invalid one, and a large one.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use super::{agent, in_state, made, runs_as, shown, stamps, started, with};
use crate::support::live::{City, Ran, wait};
use crate::support::plan::Plan;
use crate::support::processes;

/// `sup_start_normal`.
#[test]
fn a_city_without_agents_starts_answers_and_stops_without_a_trace() {
    let mut city = started(&Plan::new());
    assert_eq!(city.ask("agent.list", json!({})).unwrap(), json!([]));
    city.stop();
    assert!(!city.root().join(".horde/control.sock").exists());
    assert_eq!(processes::of(city.root()), Vec::<u32>::new());
}

/// `sup_start_ignore_child`: a child without work is suspended here. It is listed and does not keep the next one from
/// starting.
#[test]
fn a_suspended_agent_is_listed_and_the_next_one_starts() {
    let off = agent("off", "rest", "suspended = true");
    let city = started(&with(&[off, agent("on", "polite", "")]));
    runs_as(&city, "on", 1);
    assert_eq!(in_state(&city, "off", "suspended")["pid"], Value::Null);
    assert_eq!(stamps(&city), ["on up"]);
    // Neither is a mistake: the agent exists, and has no session.
    city.hd(&["agent", "stop", "off"]).json();
    assert_eq!(
        city.hd(&["agent", "restart", "off"]).error(1)["kind"],
        "conflict"
    );
}

/// Runs `horde-supervisor` on a city whose `city.toml` ends with these lines.
fn refused(city: &City, toml: &str, more: &str) -> Ran {
    let path = city.root().join("city.toml");
    fs::write(&path, format!("{toml}\n{more}\n")).unwrap();
    let output = city
        .program("horde-supervisor")
        .arg(&path)
        .output()
        .unwrap();
    Ran {
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The errors of a city with an agent `good`, and words of the message for each.
fn malformed() -> Vec<(String, &'static [&'static str])> {
    let group = |strategy: &str| super::group(strategy, &["good"]);
    vec![
        ("[[agents]]\ncommand = [\"true\"]".into(), &["name"]),
        (
            "[[agents]]\nname = \"mute\"".into(),
            &["neither `command` nor `harness`"],
        ),
        ("agents = 3".into(), &["agents"]),
        (
            agent("x", "", "restrat = \"permanent\""),
            &["restrat", "did you mean", "restart"],
        ),
        (agent("x", "", "significant = true"), &["significant"]),
        (
            agent("x", "", "restart = \"prmanent\""),
            &["prmanent", "permanent"],
        ),
        (agent("x", "", "restart = 3"), &["expected", "integer"]),
        (
            agent("x", "", "shutdown_timeout = -10"),
            &["duration", "integer"],
        ),
        (agent("x", "", "shutdown_timeout = \"-10s\""), &["-10s"]),
        (
            agent("x", "", "shutdown_timeout = \"500000000000y\""),
            &["longer than a century"],
        ),
        (agent("x", "", "depends_on = [\"nobody\"]"), &["nobody"]),
        (
            agent("x", "", "depends_on = [\"good\"]")
                + &super::group("rest_for_one", &["x", "good"]),
            &["\"x\" comes before \"good\" in their group"],
        ),
        (
            agent("x", "", "depends_on = [\"x\"]"),
            &["depend on each other"],
        ),
        (agent("good", "", ""), &["\"good\" is defined twice"]),
        (group("one_for_none"), &["one_for_none"]),
        (
            group("one_for_all") + &group("one_for_all"),
            &["a member of a group already"],
        ),
        (
            "[[groups]]\nname = \"g\"\nmembers = [\"nobody\"]".into(),
            &["nobody"],
        ),
    ]
}

/// `sup_start_error_return`, `sup_start_fail`, `sup_start_map_faulty_specs`, `child_specs`, `sup_flags`,
/// `significant_simple`: the daemon exits with 2, reports file, line and error, and has started nothing, not even a
/// lock. An unknown key, which OTP ignores, is refused here.
#[test]
fn a_configuration_that_cannot_be_is_refused_before_anything_is_started() {
    let good = with(&[agent("good", "stamp started", "")]);
    let city = made(&good);
    let toml = good.toml();
    for (more, says) in malformed() {
        let ran = refused(&city, &toml, &more);
        assert_eq!(ran.code, 2, "{more}: {ran:?}");
        for part in says.iter().chain(&["city.toml:"]) {
            assert!(
                ran.err.contains(part),
                "{part} is not in what is said of\n{more}\n{}",
                ran.err
            );
        }
    }
    for (key, value) in [
        ("max_restarts", "\"infinity\""),
        ("max_restarts", "-1"),
        ("restart_window", "\"0s\""),
        ("restart_window", "\"500000000000y\""),
        ("restart_backoff", "{ jitter = 2.0 }"),
        ("restart_backoff", "{ multiplier = -1.0 }"),
    ] {
        let plan = Plan::new().set("daemon", key, value);
        let ran = refused(&city, &plan.toml(), "");
        assert_eq!(ran.code, 2, "{key} = {value}: {ran:?}");
        assert!(ran.err.contains("city.toml:"), "{}", ran.err);
        assert!(ran.err.contains(key), "{key} is not in {}", ran.err);
    }
    let missing = format!("include = [\"fragments/*.toml\", \"gone.toml\"]\n{toml}");
    let ran = refused(&city, &missing, "");
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("gone.toml"), "{}", ran.err);
    assert_eq!(stamps(&city), Vec::<String>::new());
    let state = city.root().join(".horde");
    assert!(!state.join("control.sock").exists() && !state.join("supervisor.lock").exists());
}

/// `sup_start_map`: a specification of only a name and a command gets every default.
#[test]
fn missing_restart_settings_have_defaults() {
    let city = made(&with(&[agent("plain", "rest", "")]));
    let shown = city.hd(&["config", "show"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let shown: Value = shown.json();
    let plain = &shown["agents"][0];
    assert_eq!(plain["restart"], "permanent", "{plain}");
    assert_eq!(plain["suspended"], false);
    let mut city = city;
    city.start();
    assert_eq!(
        city.hd(&["agent", "stop", "nobody"]).error(4)["kind"],
        "not_found"
    );
}

/// `scale_start_stop_many_children`, `count_children`, `which_children`,
/// `simple_one_for_one_scale_many_temporary_children`: a hundred agents start, are counted twice with the same result,
/// and stop, in no more time than expected.
#[test]
fn a_hundred_agents_start_are_counted_and_stop() {
    let mute = |number: usize| {
        format!("[[agents]]\nname = \"m{number}\"\ncommand = [\"sleep\", \"1000\"]\n")
    };
    let took = |count: usize| {
        let parts: Vec<_> = (0..count).map(mute).collect();
        let mut city = made(&with(&parts));
        let begun = Instant::now();
        city.start();
        let all = wait("all run", || {
            let agents = city.ask("agent.list", json!({})).unwrap();
            let list = agents.as_array().unwrap();
            let up = list.iter().filter(|agent| agent["state"] == "running");
            (list.len() == count && up.count() == count).then_some(agents)
        });
        let status = city.ask("status", json!({})).unwrap();
        assert_eq!(status["agents"], all, "the same, however it is asked");
        assert_eq!(shown(&city, "m0"), all[0]);
        let running = processes::of(city.root()).len();
        // The daemon, and per agent its process and its holder.
        assert_eq!(running, 1 + 2 * count);
        city.stop();
        assert_eq!(processes::of(city.root()), Vec::<u32>::new());
        begun.elapsed()
    };
    let (few, many) = (took(10), took(100));
    assert!(many < few * 50, "ten take {few:?}, a hundred {many:?}");
}
