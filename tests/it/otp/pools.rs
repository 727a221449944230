//! Pools, the counterpart of OTP's `simple_one_for_one`: many of a kind, that come and go.

use serde_json::{Value, json};

use super::{agent, bystander, kill, later, made, pid, runs_as, shown};
use crate::support::git::write;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;
use crate::support::processes;

/// Makes a city with a pool whose size stands in the file `wanted`.
fn pool(plan: Plan, lines: &str, size: usize) -> City {
    let keys = "pool = { min = 0, max = 120, check = \"cat wanted\", check_interval = \"500ms\", \
                drain_timeout = \"0s\" }\nshutdown_timeout = \"0s\"";
    let mut city = made(&plan.add(&(agent("worker", lines, keys) + &bystander())));
    write(city.root(), "wanted", size.to_string());
    city.start();
    members(&city, size);
    city
}

fn workers(city: &City) -> Vec<Value> {
    let agents = city.ask("agent.list", json!({})).unwrap();
    let mut agents = agents.as_array().unwrap().clone();
    agents.retain(|agent| agent["name"].as_str().unwrap().starts_with("worker-"));
    agents
}

/// Waits until this number of members runs.
fn members(city: &City, count: usize) -> Vec<Value> {
    wait(&format!("{count} members"), || {
        let workers = workers(city);
        let up = workers.iter().all(|worker| worker["state"] == "running");
        (up && workers.len() == count).then_some(workers)
    })
}

/// `simple_one_for_one`, `simple_one_for_one_escalation`, `simple_one_for_one_extra`, `sup_start_map_simple`: after a
/// death the pool has as many members as before, the others unchanged, and the dead member returns under its name; over
/// the limit it alone is quarantined.
#[test]
fn member_that_dies_comes_back_with_its_name() {
    let lines = "stamp \"is $HD_SESSION $0 $PWD\"\nrest";
    let city = pool(Plan::new().set("daemon", "max_restarts", "2"), lines, 3);
    let before = members(&city, 3);
    for death in 1..=3 {
        runs_as(&city, "worker-2", death);
        kill(&city, "worker-2");
    }
    city.wait_event(1, "agent.quarantined", "worker-2");
    later(&city);
    let after = workers(&city);
    assert_eq!((&after[0], &after[2]), (&before[0], &before[2]));
    assert_eq!(after[1]["state"], "quarantined");
    city.hd(&["agent", "unquarantine", "worker-2"]).json();
    members(&city, 3);
    let dir = city.root().display();
    for name in ["worker-1", "worker-2", "worker-3"] {
        let said = format!("is e2e-{name} sh {dir}");
        // The newest session of each has written its stamp, too.
        until("it has spoken", || {
            super::stamps_of(&city, name).last() == Some(&said)
        });
        let own = super::stamps_of(&city, name);
        assert!(own.iter().all(|own| *own == said || own == "up"), "{own:?}");
    }
}

/// `child_adm_simple`: members are called by their own names; another name is not found, and its agent lives;
/// `sup_start_child_returns_error_simple`: a pool as such cannot be started.
#[test]
fn members_are_called_by_name_and_others_are_left_alone() {
    let city = pool(Plan::new(), "rest", 2);
    let before = members(&city, 2);
    for _ in 0..2 {
        city.hd(&["agent", "stop", "worker-1"]).json();
        assert_eq!(shown(&city, "worker-1")["state"], "stopped");
    }
    assert_eq!(shown(&city, "worker-2"), before[1]);
    let stranger = pid(&shown(&city, "later")).to_string();
    for name in ["worker-7", "worker", &stranger] {
        assert_eq!(
            city.hd(&["agent", "stop", name]).error(4)["kind"],
            "not_found"
        );
    }
    assert!(processes::runs(stranger.parse().unwrap()));
    city.hd(&["agent", "start", "worker"]).error(4);
    later(&city);
    assert_eq!(city.happened("agent.started", "worker").len(), 0);
    // Another member has taken its place meanwhile, so one of the three has to end later.
    city.hd(&["agent", "start", "worker-1"]).json();
    until("it was started again", || {
        city.happened("agent.started", "worker-1").len() == 2
    });
}

/// `simple_one_for_one_corruption`, `do_not_save_child_specs_for_temporary_children`: members come and go; nothing is
/// left of former members.
#[test]
fn members_come_and_go_and_leave_nothing() {
    let city = pool(Plan::new(), "rest", 2);
    for _ in 0..3 {
        write(city.root(), "wanted", "8");
        members(&city, 8);
        write(city.root(), "wanted", "2");
        members(&city, 2);
    }
    // The daemon; and of the member and the bystander: holder, agent, and its sleep.
    until("no process is left", || {
        processes::of(city.root()).len() == 1 + 3 * 3
    });
    assert!(
        city.events()
            .iter()
            .all(|event| event["type"] != "agent.crashed")
    );
}
