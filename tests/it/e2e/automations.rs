//! Automations with the real daemon (`contract.md`, 2.2; `health-patrol.md`, automation dispatch).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::git::write;
use crate::support::live::{City, wait};
use crate::support::plan::Plan;
use crate::support::processes;

fn city(automations: &[(&str, &str)], more: &str) -> City {
    let city = City::made(&Plan::new().add(more));
    for (name, text) in automations {
        let file = format!("automations/{name}/automation.toml");
        write(city.root(), &file, text);
    }
    city
}

fn started(automations: &[(&str, &str)]) -> City {
    let mut city = city(automations, "");
    city.start();
    city
}

fn lines(city: &City, file: &str) -> Vec<String> {
    let text = fs::read_to_string(city.root().join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn listed(city: &City, name: &str) -> Value {
    let status = city.ask("status", json!({})).unwrap();
    let all = status["automations"].as_array().unwrap().clone();
    let mut found = all.into_iter().filter(|one| one["name"] == name);
    found
        .next()
        .unwrap_or_else(|| panic!("{name} is not listed"))
}

/// A cooldown that never ran is due at the start; a disabled or skipped automation is not. No agent is needed for it
/// (`health-patrol.md`, invariants: self-sufficiency).
#[test]
fn a_cooldown_runs_at_the_start_and_shows_when_it_runs_next() {
    let cool =
        "gate = \"cooldown\"\ninterval = \"1h\"\nexec = \"echo $HD_AUTOMATION >> cool.log\"\n";
    let never = "gate = \"cooldown\"\ninterval = \"1s\"\nexec = \"touch never\"\n";
    let off = format!("{never}enabled = false\n");
    let all = [("cool", cool), ("noisy", never), ("off", off.as_str())];
    let mut city = city(&all, "[automations]\nskip = [\"noisy\"]\n");
    city.start();
    city.wait_event(1, "automation.completed", "cool");
    assert_eq!(lines(&city, "cool.log"), ["cool"]);
    let cool = listed(&city, "cool");
    assert_eq!(
        (&cool["gate"], &cool["running"]),
        (&json!("cooldown"), &json!(false))
    );
    assert!(
        cool["last"].is_string() && cool["next"].is_string(),
        "{cool}"
    );
    let names = city.hd(&["auto", "list"]).json();
    let names = names.as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["cool", "off"]);
    assert_eq!(city.hd(&["auto", "run", "noisy"]).code, 4);
    assert!(!city.root().join("never").exists());
}

#[test]
fn a_condition_fires_when_its_flag_is_there() {
    let text = "gate = \"condition\"\ninterval = \"50ms\"\ncheck = \"test -f flag\"\n\
                exec = \"rm flag; echo x >> log\"\n";
    let city = started(&[("cond", text)]);
    for n in 1..=2 {
        assert_eq!(lines(&city, "log").len(), n - 1);
        write(city.root(), "flag", "");
        city.wait_event(n, "automation.completed", "cond");
        assert!(!city.root().join("flag").exists());
    }
}

#[test]
fn event_opens_every_gate_that_waits_for_it() {
    let exec = "exec = \"cat > tmp.log; mv tmp.log merged.log\"\n";
    let text = format!("gate = \"event\"\non = \"raider.merged\"\n{exec}");
    let city = started(&[("merged", text.as_str())]);
    let relic = city.work("land", &["commit a.txt", "hd done", "forever"]);
    city.wait_status(&relic, "closed");
    city.wait_event(1, "automation.completed", "merged");
    let told: Value = serde_json::from_str(&lines(&city, "merged.log").join("")).unwrap();
    assert_eq!(told["type"], "raider.merged");
    assert_eq!(told["data"]["relic"], json!(relic));
}

/// A script of its own, run in the city's directory, with `hd` available: the relic that it makes is an event for
/// another automation.
#[test]
fn a_manual_run_finds_its_script_and_the_supervisor() {
    let city = city(
        &[
            (
                "made",
                "gate = \"event\"\non = \"relic.created\"\nexec = \"cat >> made.log\"\n",
            ),
            ("hand", "gate = \"manual\"\nexec = \"work.sh tidy\"\n"),
        ],
        "",
    );
    let work = "hd run \"$1\" > run.log 2>&1 && pwd >> run.log\n";
    write(city.root(), "automations/hand/work.sh", work);
    let mut city = city;
    city.start();
    assert_eq!(city.happened("automation.fired", "hand").len(), 0);
    let ran = city.hd(&["auto", "run", "hand", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?} {:?}", lines(&city, "run.log"));
    let said = lines(&city, "run.log");
    assert_eq!(said.last().map(String::as_str), city.root().to_str());
    city.wait_event(1, "automation.completed", "made");
    assert!(lines(&city, "made.log").join("").contains("relic.created"));
}

/// A timeout ends the whole process group and processes that left it; the output so far is kept, and exit codes tell
/// the outcome.
#[test]
fn a_timeout_ends_everything_that_was_started() {
    let script = "exec = \"echo begun; setsid sleep 600 & echo $! > pid; sleep 600\"\n";
    let city = started(&[
        (
            "slow",
            &format!("gate = \"manual\"\ntimeout = \"1s\"\n{script}"),
        ),
        (
            "bad",
            "gate = \"manual\"\nexec = \"echo why; exit 7\"\nretries = 1\n",
        ),
    ]);
    assert_eq!(city.hd(&["auto", "run", "slow", "--wait"]).code, 1);
    let pid: u32 = lines(&city, "pid")[0].parse().unwrap();
    assert!(!processes::runs(pid));
    let failed = city.wait_event(1, "automation.failed", "slow");
    assert_eq!(
        (&failed["cause"], &failed["data"]["tail"]),
        (&json!("timeout"), &json!("begun\n"))
    );
    assert_eq!(city.hd(&["auto", "run", "bad", "--wait"]).code, 1);
    let history = city.hd(&["auto", "history", "bad"]).json();
    let run = &history[0];
    assert_eq!(
        (&run["state"], &run["end"], &run["code"]),
        (&json!("failed"), &json!("exit_code"), &json!(7))
    );
    assert_eq!(
        (&run["attempts"], &run["tail"]),
        (&json!(2), &json!("why\n"))
    );
    assert_eq!(
        city.hd(&["auto", "history"])
            .json()
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

/// `health-patrol.md`, known limitations: a run that a crash of the supervisor interrupted is noticed, ended and
/// reported once; its record keeps the cooldown from firing again.
#[test]
fn a_run_that_outlives_its_supervisor_is_ended_and_reported_once() {
    let text = "gate = \"cooldown\"\ninterval = \"1h\"\ntimeout = \"1h\"\n\
                exec = \"echo $$ > pid.tmp; mv pid.tmp pid; sleep 600\"\n";
    let mut city = started(&[("long", text)]);
    let pid = wait("it runs", || lines(&city, "pid").pop());
    let pid: u32 = pid.parse().unwrap();
    assert_eq!(listed(&city, "long")["running"], json!(true));
    city.kill();
    assert!(processes::runs(pid));
    city.start();
    let failed = city.wait_event(1, "automation.failed", "long");
    assert_eq!(failed["cause"], "crash");
    assert!(!processes::runs(pid));
    city.stop();
    city.start();
    assert_eq!(city.happened("automation.failed", "long").len(), 1);
    assert_eq!(city.happened("automation.fired", "long").len(), 1);
}

#[test]
fn disabled_automation_stays_disabled_over_a_restart() {
    let text = "gate = \"event\"\non = \"relic.created\"\nexec = \"echo x >> log\"\n";
    let mut city = started(&[
        ("tell", text),
        (
            "off",
            "gate = \"manual\"\nexec = \"true\"\nenabled = false\n",
        ),
    ]);
    city.hd(&["auto", "disable", "tell"]).json();
    city.stop();
    city.start();
    assert_eq!(listed(&city, "tell")["enabled"], json!(false));
    city.relic("one", &[]);
    city.hd(&["auto", "enable", "tell"]).json();
    city.relic("two", &[]);
    city.wait_event(1, "automation.completed", "tell");
    assert_eq!(lines(&city, "log"), ["x"]);
    // A command must not overrule an automation's file.
    assert_eq!(city.hd(&["auto", "enable", "off"]).code, 1);
    assert_eq!(city.hd(&["auto", "run", "off", "--wait"]).code, 0);
}

/// A rig's own automations run only if the rig is trusted, in the rig's checkout, and a raider may not run any.
#[test]
fn a_rig_carries_automations_only_when_it_is_trusted() {
    let own = "gate = \"manual\"\nexec = \"own.sh\"\n";
    let mut city = City::made(&Plan::new());
    let folder = "horde-checkout/.horde/automations/own";
    write(city.root(), &format!("{folder}/automation.toml"), own);
    write(
        city.root(),
        &format!("{folder}/own.sh"),
        "#!/bin/sh\necho $HD_RIG:$PWD:$HD_RAIDER > $HD_CITY/own.log\n",
    );
    let script = city.root().join(folder).join("own.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    city.start();
    assert_eq!(city.hd(&["auto", "run", "own"]).code, 4);
    city.stop();
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let toml = toml.replace(
        "prefix = \"gt\"\n",
        "prefix = \"gt\"\ntrust_automations = true\n",
    );
    write(city.root(), "city.toml", &toml);
    city.start();
    assert_eq!(city.hd(&["auto", "run", "own", "--wait"]).code, 0);
    let checkout = city.root().join("horde-checkout");
    assert_eq!(
        lines(&city, "own.log"),
        [format!("horde:{}:", checkout.display())]
    );
    city.work("try", &["try run hd --json auto run own", "forever"]);
    let tried = city.wait_tried("run");
    assert_eq!(tried.error(1)["kind"], "forbidden");
}

/// The graceful stop ends running automations; an invalid folder is an error of the configuration like any other.
#[test]
fn a_stop_ends_runs_and_a_broken_automation_keeps_the_daemon_from_starting() {
    let text = "gate = \"manual\"\ntimeout = \"1h\"\nexec = \"echo $$ > pid.tmp; mv pid.tmp pid; sleep 600\"\n";
    let mut city = started(&[("long", text)]);
    city.hd(&["auto", "run", "long"]).json();
    let pid: u32 = wait("it runs", || lines(&city, "pid").pop())
        .parse()
        .unwrap();
    city.stop();
    assert!(!processes::runs(pid));
    city.start();
    let history = city.hd(&["auto", "history", "long"]).json();
    assert_eq!(history[0]["end"], "shutdown");
    city.stop();
    write(
        city.root(),
        "automations/long/automation.toml",
        "gate = \"manuel\"\n",
    );
    let status = city.supervisor().status().unwrap();
    assert_eq!(status.code(), Some(2));
    write(city.root(), "automations/long/automation.toml", text);
}
