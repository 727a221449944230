//! Changes that a supervisor notices by itself (`health-patrol.md`, config reload): no patrol and no request comes
//! during these tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::live::{City, until};
use crate::support::plan::{self, Plan};

fn agent(name: &str) -> String {
    plan::agent(name, "exec sleep 1000", "")
}

/// Puts a file with an agent there in a single step.
fn put(path: &Path, name: &str) {
    let new = path.with_extension("new");
    fs::write(&new, agent(name)).unwrap();
    fs::rename(new, path).unwrap();
}

/// Makes a link as `ln -sfn` does.
fn link(target: &str, link: &Path) {
    let new = link.with_extension("new");
    symlink(target, &new).unwrap();
    fs::rename(new, link).unwrap();
}

fn wait_agents(city: &City, mut names: Vec<&str>) {
    names.sort_unstable();
    until(&format!("{names:?}"), || {
        let agents = city.ask("agent.list", json!({})).unwrap();
        let known = agents.as_array().unwrap().iter();
        let mut known: Vec<_> = known.map(|one| one["name"].as_str().unwrap()).collect();
        known.sort_unstable();
        known == names
    });
}

fn reload_error(city: &City) -> Value {
    city.ask("status", json!({})).unwrap()["last_reload_error"].clone()
}

/// Edited behind a link, redirected, in folders that come and go: an include is noticed wherever it is.
#[test]
fn an_include_is_followed_wherever_it_leads() {
    let far = horde_supervisor::testing::scratch();
    let away = far.path().join("away");
    let plan = Plan::new();
    let mut city = City::made(&plan);
    let root = city.root().to_owned();
    for folder in ["store/v1", "store/v2", "teams"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::create_dir(&away).unwrap();
    let include = format!(
        "include = [\"one.toml\", \"frag/*.toml\", \"teams/*/team.toml\", \"{}/*.toml\"]\n",
        away.display()
    );
    fs::write(root.join("city.toml"), include + &plan.toml()).unwrap();
    put(&root.join("store/1.toml"), "one");
    put(&root.join("store/2.toml"), "two");
    put(&root.join("store/v1/f.toml"), "old");
    put(&root.join("store/v2/f.toml"), "new");
    put(&away.join("a.toml"), "away");
    link("store/1.toml", &root.join("one.toml"));
    link("store/v1", &root.join("frag"));
    city.start();
    wait_agents(&city, vec!["one", "old", "away"]);
    put(&root.join("store/1.toml"), "edited");
    wait_agents(&city, vec!["edited", "old", "away"]);
    link("store/2.toml", &root.join("one.toml"));
    wait_agents(&city, vec!["two", "old", "away"]);
    link("store/v2", &root.join("frag"));
    wait_agents(&city, vec!["two", "new", "away"]);
    fs::remove_dir_all(&away).unwrap();
    wait_agents(&city, vec!["two", "new"]);
    fs::create_dir(&away).unwrap();
    put(&away.join("b.toml"), "back");
    wait_agents(&city, vec!["two", "new", "back"]);
    fs::create_dir(root.join("teams/blue")).unwrap();
    put(&root.join("teams/blue/team.toml"), "blue");
    wait_agents(&city, vec!["two", "new", "back", "blue"]);
    put(&root.join("teams/blue/team.toml"), "azure");
    wait_agents(&city, vec!["two", "new", "back", "azure"]);
}

/// The missing file is watched for, wherever it is.
#[test]
fn an_include_that_was_missing_mends_the_city() {
    let far = horde_supervisor::testing::scratch();
    let plan = Plan::new();
    let city = plan.start();
    let one = far.path().join("not/there/one.toml");
    let include = format!("include = [\"{}\"]\n", one.display());
    fs::write(city.root().join("city.toml"), include + &plan.toml()).unwrap();
    until("it is missed", || {
        reload_error(&city)
            .as_str()
            .is_some_and(|error| error.contains("one.toml"))
    });
    // The supervisor's own writes into the city's directory also cause a reload while the configuration is invalid.
    until("it is quiet", || {
        let log = fs::metadata(city.root().join("supervisor.log")).unwrap();
        let written = log.modified().unwrap().elapsed();
        written.is_ok_and(|ago| ago > Duration::from_secs(1))
    });
    fs::create_dir_all(one.parent().unwrap()).unwrap();
    put(&one, "late");
    wait_agents(&city, vec!["late"]);
    assert_eq!(reload_error(&city), Value::Null);
}

#[test]
fn an_automation_that_a_trusted_rig_comes_to_carry_is_found() {
    let plan = Plan::new();
    let mut city = City::made(&plan);
    let path = "path = \"horde-checkout\"\n";
    let trusting = format!("{path}trust_automations = true\n");
    fs::write(
        city.root().join("city.toml"),
        plan.toml().replace(path, &trusting),
    )
    .unwrap();
    city.start();
    let folder = city.root().join("horde-checkout/.horde/automations/greet");
    fs::create_dir_all(&folder).unwrap();
    let automation = "exec = \"true\"\ngate = \"manual\"\n";
    fs::write(folder.join("automation.toml"), automation).unwrap();
    let known = |what: &str| {
        let all = city.ask("auto.list", json!({})).unwrap().to_string();
        all.contains(what)
    };
    until("it is there", || known("greet"));
    fs::rename(&folder, folder.with_file_name("salute")).unwrap();
    until("it has another name", || known("salute") && !known("greet"));
}

/// A link to the city may change its target; the supervisor stays at its first place.
#[test]
fn a_supervisor_stays_with_the_city_that_it_was_started_in() {
    let place = horde_supervisor::testing::scratch();
    let (city, other) = (City::made(&Plan::new()), place.path().join("other"));
    fs::create_dir(&other).unwrap();
    let elsewhere = "[workspace]\nname = \"e2e\"\n".to_owned() + &agent("stranger");
    fs::write(other.join("city.toml"), elsewhere).unwrap();
    let named = place.path().join("city");
    symlink(city.root(), &named).unwrap();
    let mut supervisor = city.program("horde-supervisor");
    supervisor.arg(&named).stdout(Stdio::null());
    let mut supervisor = supervisor.stderr(Stdio::null()).spawn().unwrap();
    until("it answers", || city.ask("ping", json!({})).is_ok());
    link("other", &named);
    assert_eq!(city.hd(&["reload"]).json()["errors"], json!([]));
    wait_agents(&city, Vec::new());
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    fs::write(city.root().join("city.toml"), toml + &agent("own")).unwrap();
    wait_agents(&city, vec!["own"]);
    city.hd(&["stop"]).json();
    assert!(supervisor.wait().unwrap().success());
}
