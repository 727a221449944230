//! An agent with a question on its screen (`contract.md`, `needs_input_patterns`, condition `needs_input`).

use std::fs;

use serde_json::{Value, json};

use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;

const ASKS: &str = r#"
[harness.asks]
command = ["sh", "-c", 'clear; printf "Trust this folder? (y) "; read -r answer; clear; echo "$answer"; exec sleep 1000']
prompt = "arg"
env = { TERM = "xterm", SEASON = "winter" }
needs_input_patterns = ['^Trust this .*\(y\)']

[notify]
on = ["needs_input"]
run = ["sh", "-c", "cat >>told"]

[[agents]]
name = "mayor"
harness = "asks"
prompt = "p"
"#;

fn mayor(city: &City) -> Value {
    city.ask("agent.list", json!({})).unwrap()[0].clone()
}

/// The question is shown and reported, and its session stays until it is answered, even over an edit of its
/// configuration.
#[test]
fn a_question_is_told_and_defers_a_restart_until_it_is_answered() {
    for provider in ["holder", "tmux"] {
        if provider == "tmux" && !crate::support::tmux::is_there() {
            continue;
        }
        let city = Plan::new()
            .set("daemon", "patrol_interval", r#""1s""#)
            .set("session", "provider", &format!("{provider:?}"))
            .add(ASKS)
            .start();
        until("the question is shown", || {
            mayor(&city)["condition"] == "needs_input"
        });
        let asking = mayor(&city);
        assert_eq!(asking["detail"], "Trust this folder? (y)");
        let told = wait("a person is told", || {
            fs::read_to_string(city.root().join("told"))
                .ok()
                .filter(|told| told.ends_with('\n'))
        });
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["type"], "raider.needs_input");
        assert_eq!(told["subject"], "mayor");
        let file = city.root().join("city.toml");
        let toml = fs::read_to_string(&file).unwrap();
        fs::write(&file, toml.replace("winter", "summer")).unwrap();
        let reloaded = city.hd(&["reload"]).json();
        assert_eq!(reloaded["actions"][0]["action"], "deferred", "{reloaded}");
        until("it is shown as deferred", || {
            mayor(&city)["deferred"] == true
        });
        assert_eq!(mayor(&city)["pid"], asking["pid"]);
        assert_eq!(city.hd(&["answer", "mayor", "yes"]).code, 0);
        let restarted = city.wait_event(2, "agent.started", "mayor");
        assert_eq!(restarted["cause"], "drift");
    }
}
