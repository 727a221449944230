//! Reload (`health-patrol.md`, config reload; `rules.md`, reload): noticed without a request, judged as a whole,
//! applied without a restart of the supervisor.

use std::fs;

use serde_json::{Value, json};

use crate::support::git::{git, write};
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;

/// A plan with two agents.
fn two() -> Plan {
    Plan::new()
        .agent("mayor", "exec sleep 1000", r#"env = { SEASON = "winter" }"#)
        .agent("clerk", "exec sleep 1000", "")
}

fn agent(city: &City, name: &str) -> Value {
    let agents = city.ask("agent.list", json!({})).unwrap();
    let mut agents = agents.as_array().unwrap().iter();
    let found = agents.find(|agent| agent["name"] == name);
    found.cloned().unwrap_or_default()
}

fn running(city: &City, name: &str) -> u64 {
    wait(&format!("{name} runs"), || {
        let agent = agent(city, name);
        (agent["state"] == "running").then(|| agent["pid"].as_u64())?
    })
}

fn toml(city: &City) -> String {
    fs::read_to_string(city.root().join("city.toml")).unwrap()
}

/// Saves as an editor does: a new file is renamed over the old one.
fn save(city: &City, toml: &str) {
    let new = city.root().join(".city.toml.new");
    fs::write(&new, toml).unwrap();
    fs::rename(new, city.root().join("city.toml")).unwrap();
}

/// An edit is seen without a request; an agent that drifted gets a fresh session, and no other does.
#[test]
fn an_edit_is_applied_by_itself_and_touches_only_whom_it_concerns() {
    let city = two().start();
    let (mayor, clerk) = (running(&city, "mayor"), running(&city, "clerk"));
    save(&city, &toml(&city).replace("winter", "summer"));
    city.wait_event(1, "agent.drifted", "mayor");
    city.wait_event(2, "agent.started", "mayor");
    assert_ne!(running(&city, "mayor"), mayor);
    assert_eq!(running(&city, "clerk"), clerk);
    let told = city.hd(&["reload"]).json();
    let actions = json!([
        { "agent": "mayor", "action": "restart" }, { "agent": "clerk", "action": "none" },
    ]);
    assert_eq!(told["actions"], actions, "the newest application");
    assert!(told["applied_at"].is_string());
    let status = city.ask("status", json!({})).unwrap();
    assert_eq!(status["config_revision"], told["revision"]);
    assert_eq!(city.happened("config.reloaded", "e2e").len(), 1);
}

/// `--dry-run` tells the actions and does nothing.
#[test]
fn dry_run_of_a_reload_changes_nothing() {
    let city = two().start();
    let mayor = running(&city, "mayor");
    let old = toml(&city);
    save(&city, &old.replace("winter", "summer"));
    let told = city.hd(&["reload", "--dry-run"]).json();
    assert!(told["errors"].as_array().unwrap().is_empty());
    city.wait_event(2, "agent.started", "mayor");
    assert_ne!(running(&city, "mayor"), mayor);
    // The edit is in force: a further reload would change nothing.
    let none = |name| json!({ "agent": name, "action": "none" });
    let again = city.hd(&["reload", "--dry-run"]).json();
    assert_eq!(again["actions"][0], none("mayor"));
}

/// Rigs and raiders are reported as well, and only those that change.
#[test]
fn reload_reports_the_fate_of_rigs_and_raiders() {
    let plan = Plan::new().rig("other", "ot").rig("spare", "sp");
    let mut city = City::made(&plan);
    let whole = toml(&city);
    let at = whole.find("[[rigs]]\nname = \"spare\"").unwrap();
    save(&city, &whole[..at]);
    city.start();
    city.work("stay", &["sign up", "forever"]);
    city.wait_sign("up");
    let edited = whole.replace("env = { GIT", "env = { A = \"b\", GIT");
    let other = edited.find("[[rigs]]\nname = \"other\"").unwrap();
    let spare = edited.find("[[rigs]]\nname = \"spare\"").unwrap();
    let edited = format!("{}{}", &edited[..other], &edited[spare..]);
    save(&city, &edited.replacen("max = 4", "max = 5", 1));
    let told = wait("it is in force", || {
        let told = city.hd(&["reload"]).json();
        (told["rigs"].as_array()?.len() == 3).then_some(told)
    });
    let rigs = [
        ("horde", "changed"),
        ("spare", "added"),
        ("other", "removed"),
    ];
    let mut rigs = rigs.map(|(rig, action)| json!({ "rig": rig, "action": action }));
    rigs[0]["keys"] = json!(["raiders.max"]);
    assert_eq!(told["rigs"], json!(rigs));
    let toast = "horde/raiders/Toast";
    let raider = json!({ "raider": toast, "action": "deferred", "harness": "script" });
    assert_eq!(told["raiders"], json!([raider]));
    let said = city.hd_text(&["reload"]).out;
    assert!(
        said.starts_with("the configuration has not changed since "),
        "{said}"
    );
    assert!(said.contains("git's settings were read again"), "{said}");
    save(
        &city,
        &toml(&city)
            .replacen("max = 5", "max = 6\nnudges = 1", 1)
            .replacen("prefix = \"gt\"", "prefix = \"gt\"\nsuspended = true", 1),
    );
    let said = wait("it is in force", || {
        let said = city.hd_text(&["reload"]).out;
        (!said.starts_with("the configuration has not")).then_some(said)
    });
    for line in [
        "changed   rig horde: raiders.max, raiders.nudges, suspended",
        "drain     horde/raiders/Toast: it is suspended, and its session ends",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

/// Returns the subjects of the findings of `hd doctor` about the configuration.
fn config_findings(city: &City) -> Vec<String> {
    let said: Value = serde_json::from_str(&city.hd(&["doctor"]).out).unwrap();
    let mut findings = said["findings"].as_array().unwrap().clone();
    findings.retain(|finding| finding["kind"] == "config");
    let subject = |finding: &Value| finding["subject"].as_str().unwrap().to_owned();
    findings.iter().map(subject).collect()
}

/// `TestControllerReloadInvalidConfig`: a reload is applied as a whole or not at all: an invalid edit changes nothing,
/// and `status` tells why.
#[test]
fn a_broken_edit_keeps_the_old_configuration() {
    let city = two().start();
    let mayor = running(&city, "mayor");
    let good = toml(&city);
    save(
        &city,
        &good
            .replace("winter", "summer")
            .replace("max = 4", "mx = 4"),
    );
    let told = city.hd(&["reload"]);
    assert_eq!(told.code, 2, "{told:?}");
    let told: Value = serde_json::from_str(&told.out).unwrap();
    let error = told["errors"][0].as_str().unwrap();
    assert!(error.contains("did you mean"), "{error}");
    let error = || city.ask("status", json!({})).unwrap()["last_reload_error"].clone();
    assert!(error().as_str().unwrap().contains("city.toml:"));
    // `hd doctor` finds the error itself: that the supervisor refused the file is not said as well.
    let file = city.root().display().to_string();
    assert_eq!(config_findings(&city), [file]);
    assert_eq!(running(&city, "mayor"), mayor);
    save(&city, &good.replace("name = \"e2e\"", "name = \"other\""));
    until("the new name is refused", || {
        error()
            .as_str()
            .is_some_and(|error| error.contains("\"other\""))
    });
    // The file has no error: only the supervisor knows that it is not in force.
    assert_eq!(config_findings(&city), ["e2e"]);
    save(&city, &good);
    until("all is well", || error().is_null());
    assert_eq!(city.happened("config.rejected", "e2e").len(), 2);
    assert_eq!(running(&city, "mayor"), mayor);
}

/// A rig can be added and removed; a removed rig with work drains first.
#[test]
fn a_rig_comes_and_goes_without_a_restart() {
    let both = Plan::new().rig("other", "ot");
    let mut city = City::made(&both);
    let (one, two) = (Plan::new().toml(), both.toml());
    save(&city, &one);
    city.start();
    save(&city, &two);
    let rigs = || {
        let status = city.ask("status", json!({})).unwrap();
        let rigs = status["rigs"].as_array().unwrap().iter();
        rigs.map(|rig| rig["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    until("the rig is there", || rigs() == ["horde", "other"]);
    let relic = city.relic_in(
        "other",
        "over there",
        &["commit a.txt", "await go", "hd done"],
    );
    city.hd(&["charge", &relic, "other"]).json();
    city.wait_session(&relic, 1);
    save(&city, &one);
    city.wait_event(2, "config.reloaded", "e2e");
    assert_eq!(rigs(), ["horde", "other"], "it holds work");
    let next = city.relic_in("other", "more", &["hd done"]);
    city.hd(&["charge", &next, "other"]).error(1);
    city.sign("go");
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    until("the rig is gone", || {
        city.hd(&["reload"]).json();
        rigs() == ["horde"]
    });
}

/// An outcome file that the repository has is no agent's report, also in a rig that a reload has added.
#[test]
fn committed_outcome_file_is_no_word_in_a_rig_that_was_added() {
    let both = Plan::new().rig("other", "ot");
    let mut city = City::made(&both);
    let checkout = city.root().join("other-checkout");
    let outcome = "{\"id\":\"ot-1\",\"outcome\":\"passed\"}\n";
    write(&checkout, ".horde-outcome", outcome);
    git(&checkout, &["add", "--force", ".horde-outcome"]);
    git(&checkout, &["commit", "--quiet", "-m", "an outcome"]);
    git(&checkout, &["push", "--quiet", "origin", "main"]);
    save(&city, &Plan::new().toml());
    city.start();
    save(&city, &both.toml());
    city.wait_event(1, "config.reloaded", "e2e");
    let relic = city.relic_in(
        "other",
        "over there",
        &[
            "[ $n = 2 ] || { commit half.txt; exit 1; }",
            "commit rest.txt",
            "hd done",
        ],
    );
    assert_eq!(relic, "ot-1", "the outcome speaks of it");
    city.hd(&["charge", &relic, "other"]).json();
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    let origin = city.root().join("other-origin.git");
    let files = git(&origin, &["ls-tree", "--name-only", "main"]);
    assert!(files.lines().any(|name| name == "rest.txt"), "{files}");
}

/// A rig's settings change under its raiders: running raiders go on, later ones use the new settings.
#[test]
fn the_settings_of_a_rig_change_while_it_works() {
    let city = Plan::new().set("raiders", "max", "1").start();
    let relic = city.work("first", &["await go", "commit first.txt", "hd done"]);
    let first = city.wait_session(&relic, 1)["session"]["pid"].clone();
    let second = city.relic("second", &["commit second.txt", "hd done"]);
    city.hd(&["charge", &second, "horde"]).error(1);
    let gates =
        "[rigs.forge]\ngates = [{ name = \"house\", run = \"touch ../../../signs/gated\" }]\n";
    let old = toml(&city);
    let new = old.replace("max = 1", "max = 2");
    save(&city, &new.replace("[rigs.forge]\n", gates));
    city.wait_event(1, "config.reloaded", "e2e");
    city.charge(&second);
    city.wait_sign("gated");
    city.wait_status(&second, "closed");
    assert_eq!(city.wait_session(&relic, 1)["session"]["pid"], first);
    city.sign("go");
    city.wait_status(&relic, "closed");
}

/// Automation folders are watched, also a folder whose file comes later.
#[test]
fn a_new_automation_is_found_without_a_restart() {
    let city = City::new();
    let folder = city.root().join("automations/greet");
    fs::create_dir_all(&folder).unwrap();
    let automation = "exec = \"true\"\ngate = \"manual\"\n";
    fs::write(folder.join("automation.toml"), automation).unwrap();
    until("it is there", || {
        let known = city.ask("auto.list", json!({})).unwrap();
        known[0]["name"] == "greet"
    });
    city.hd(&["auto", "run", "greet"]).json();
    city.wait_event(1, "automation.completed", "greet");
}

/// An explicit stop, and a suspension, outlive the supervisor.
#[test]
fn operator_orders_about_an_agent_hold_over_a_restart() {
    let mut city = two().start();
    running(&city, "mayor");
    running(&city, "clerk");
    city.hd(&["agent", "stop", "mayor"]).json();
    city.hd(&["agent", "suspend", "clerk"]).json();
    until("both rest", || {
        agent(&city, "mayor")["state"] == "stopped" && agent(&city, "clerk")["state"] == "suspended"
    });
    assert_eq!(city.happened("agent.suspended", "clerk").len(), 1);
    city.stop();
    city.start();
    assert_eq!(agent(&city, "mayor")["state"], "stopped");
    assert_eq!(agent(&city, "clerk")["state"], "suspended");
    city.hd(&["agent", "start", "mayor"]).json();
    city.hd(&["agent", "resume", "clerk"]).json();
    running(&city, "mayor");
    running(&city, "clerk");
}

/// A suspended raider keeps slot and sandbox, and resumes its work there.
#[test]
fn a_suspended_raider_goes_on_where_it_was() {
    let city = City::new();
    let relic = city.work(
        "slow",
        &["echo x >dirty.txt", "await go", "commit a.txt", "hd done"],
    );
    city.wait_session(&relic, 1);
    let name = city.raiders()[0]["name"].as_str().unwrap().to_owned();
    until("it has begun", || {
        city.sandbox(&name).join("dirty.txt").exists()
    });
    city.hd(&["raider", "suspend", &name]).json();
    until("its session ended", || {
        city.raiders()[0]["session"].is_null()
    });
    assert!(city.sandbox(&name).join("dirty.txt").exists());
    city.hd(&["agent", "start", &name]).error(1);
    city.hd(&["raider", "resume", &name]).json();
    city.wait_session(&relic, 2);
}

/// Makes a city with a pool of one to three workers and this check.
fn pool(check: &str, interval: &str) -> City {
    let pool = format!(
        "pool = {{ min = 1, max = 3, check = {check:?}, check_interval = {interval:?}, drain_timeout = \"100ms\" }}"
    );
    City::made(&Plan::new().agent("worker", "exec sleep 1000", &pool))
}

/// `[[patches.agents]]`, groups and pools from the file to the running city.
#[test]
fn a_pool_is_as_large_as_its_check_says() {
    let mut city = pool("cat wanted", "100ms");
    fs::write(city.root().join("wanted"), "2\n").unwrap();
    city.start();
    let members = || {
        let agents = city.ask("agent.list", json!({})).unwrap();
        let up = |agent: &&Value| agent["state"] == "running";
        agents.as_array().unwrap().iter().filter(up).count()
    };
    until("two members", || members() == 2);
    let status = city.ask("status", json!({})).unwrap();
    let pool = &status["pools"][0];
    assert!(pool["last_check"].is_string(), "{pool}");
    let counts = ["min", "max", "wanted", "running", "draining", "error"].map(|key| &pool[key]);
    let expected = json!([1, 3, 2, 2, 0, null]);
    assert_eq!(json!(counts), expected);
    assert_eq!(agent(&city, "worker-2")["pool"], "worker");
    fs::write(city.root().join("wanted"), "7\n").unwrap();
    until("no more than max", || members() == 3);
    fs::write(city.root().join("wanted"), "0\n").unwrap();
    until("no fewer than min", || members() == 1);
    assert!(
        !city
            .events()
            .iter()
            .any(|event| event["type"] == "agent.crashed")
    );
}

/// A check that hangs is ended by its time limit; its pool falls back to `min` and tells why.
#[test]
fn a_pool_whose_check_hangs_has_min_and_says_why() {
    let mut city = pool("cat wanted || exec sleep 1000", "500ms");
    let wanted = city.root().join("wanted");
    fs::write(&wanted, "2\n").unwrap();
    city.start();
    let status = || city.ask("status", json!({})).unwrap()["pools"][0].clone();
    until("two members", || status()["running"] == 2);
    fs::remove_file(&wanted).unwrap();
    // A single member may also be due to a late earlier check: one answer has to show both.
    until("it falls back and says why", || {
        let pool = status();
        let error = pool["error"].to_string();
        pool["running"] == 1 && error.contains("no answer within 500ms")
    });
    fs::write(&wanted, "3\n").unwrap();
    until("it is asked again", || status()["running"] == 3);
}

/// A suspended rig: sessions end, sandboxes stay, nothing is charged and nothing lands; after resuming, everything
/// continues.
#[test]
fn a_suspended_rig_rests_and_goes_on_where_it_was() {
    let city = City::new();
    let steps = [
        "[ $n = 2 ] || { echo half >half.txt; sign up; forever; }",
        "await go",
        "commit half.txt",
        "hd done",
    ];
    let relic = city.work("rest", &steps);
    city.wait_sign("up");
    let landing = city.work("land", &["commit landed.txt", "await later", "hd done"]);
    city.wait_session(&landing, 1);
    let good = toml(&city);
    let off = good.replace(
        "path = \"horde-checkout\"\n",
        "path = \"horde-checkout\"\nsuspended = true\n",
    );
    assert_ne!(good, off);
    save(&city, &off);
    city.hd(&["reload"]).json();
    city.wait_event(1, "rig.suspended", "horde");
    for name in ["Toast", "Shadow"] {
        city.wait_event(1, "agent.suspended", &format!("horde/raiders/{name}"));
    }
    until("no session is left", || {
        let raiders = city.raiders();
        raiders.len() == 2 && raiders.iter().all(|raider| raider["session"].is_null())
    });
    let rig = || city.ask("status", json!({})).unwrap()["rigs"][0].clone();
    assert_eq!(
        (&rig()["suspended"], &rig()["forge"]["paused"]),
        (&json!(true), &json!(true))
    );
    assert!(city.sandbox("Toast").join("half.txt").exists());
    assert_eq!(
        city.hd(&["agent", "start", "Toast"]).error(1)["kind"],
        "conflict"
    );
    let next = city.relic("more", &["hd done"]);
    city.hd(&["charge", &next, "horde"]).error(1);
    assert_eq!(city.sessions_of(&relic), 1);
    save(&city, &good);
    city.hd(&["reload"]).json();
    city.wait_event(1, "rig.resumed", "horde");
    city.wait_session(&relic, 2);
    assert!(city.sandbox("Toast").join("half.txt").exists());
    assert_eq!(
        (&rig()["suspended"], &rig()["forge"]["paused"]),
        (&json!(false), &json!(false))
    );
    city.sign("go");
    city.sign("later");
    city.wait_status(&relic, "closed");
    city.wait_status(&landing, "closed");
    let crashed = |event: &Value| event["type"] == "agent.crashed";
    assert!(
        !city.events().iter().any(crashed),
        "a suspension is no death"
    );
    assert_eq!(city.happened("rig.suspended", "horde").len(), 1);
    assert_eq!(city.happened("rig.resumed", "horde").len(), 1);
}
