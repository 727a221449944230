//! Identity chains (`raider-lifecycle.md`, identity): results of work outlive slots, a crash and the supervisor; what is
//! changed in the store is named; another city keeps an imported chain apart.

use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::support::git::git;
use crate::support::live::{City, until};
use crate::support::plan::Plan;

/// The identity of the scripted agent.
const SCRIPT: &str = "script";

/// Makes a city whose gate fails where a file is called `bad`.
fn gated() -> Plan {
    let gates = r#"[{ name = "test", run = "test ! -e bad", retries = 0 }]"#;
    Plan::new().set("forge", "gates", gates)
}

fn entries(city: &City) -> Vec<Value> {
    let told = city.hd(&["cv", SCRIPT, "--limit", "99"]).json();
    assert_eq!((&told["name"], &told["ok"]), (&SCRIPT.into(), &true.into()));
    told["entries"].as_array().unwrap().clone()
}

/// Returns relic, result, and whether it was the first pass.
fn results(city: &City) -> Vec<(String, String, Value)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |entry: Value| {
        let data = &entry["data"];
        (
            text(&data["relic"]),
            text(&entry["kind"]),
            data["first_pass"].clone(),
        )
    };
    entries(city).into_iter().map(one).collect()
}

/// Changes rows of the store of a city that does not run, as a program beside it would.
fn tamper(city: &City, sql: &str) {
    let store = Connection::open(city.root().join(".horde/relics.db")).unwrap();
    let triggers = [
        "identity_entries_are_not_rewritten",
        "identity_entries_are_not_cut",
    ];
    for trigger in triggers {
        store
            .execute(&format!("DROP TRIGGER {trigger}"), [])
            .unwrap();
    }
    assert_eq!(store.execute(sql, []).unwrap(), 1);
}

fn export(city: &City, file: &Path) {
    city.hd(&["cv", "export", file.to_str().unwrap()]).json();
}

#[test]
fn chain_of_an_identity_outlives_a_crash_and_goes_to_another_city() {
    let mut city = City::made(&gated());
    city.start();
    let first = city.work("first", &["commit first.rs", "hd done"]);
    city.wait_status(&first, "closed");
    let again = "if [ $n = 1 ]; then commit bad; else commit good.md; fi";
    let second = city.work("second", &[again, "hd done"]);
    until("the first attempt failed", || results(&city).len() >= 2);
    // Killed while the second attempt is under way, or has just landed.
    city.kill();
    city.start();
    city.wait_status(&second, "closed");
    until("it is recorded", || results(&city).len() >= 3);
    let row = |relic: &str, kind: &str, pass: Value| (relic.to_owned(), kind.to_owned(), pass);
    assert_eq!(
        results(&city),
        [
            row(&first, "merged", true.into()),
            row(&second, "merge_failed", Value::Null),
            row(&second, "merged", false.into()),
        ]
    );
    let all = entries(&city);
    assert_eq!(all[0]["data"]["files"]["rs"], 1, "{}", all[0]);
    assert_eq!(all[1]["data"]["failure"], "tests");
    assert_eq!(all[0]["data"]["charged_by"]["kind"], "person");
    let verified = city.hd(&["cv", "--verify"]).json();
    assert_eq!(verified["ok"], true, "{verified}");
    let record = &verified["chains"][0]["record"];
    assert_eq!(
        (&record["first_pass"], &record["reworked"]),
        (&1.into(), &1.into())
    );

    let log = git(
        &city.origin(),
        &["log", "-1", "--format=%(trailers)", "main"],
    );
    for trailer in [
        "Horde-Relic: ",
        "Horde-MR: ",
        "Raider: ",
        "Horde-Identity: script",
    ] {
        assert!(log.contains(trailer), "{log}");
    }
    goes_to_another(&city);
}

/// Imports the three entries of a city into another one, where they stay apart.
fn goes_to_another(city: &City) {
    let file = city.root().join("chains.jsonl");
    export(city, &file);
    let again = ["cv", "export", file.to_str().unwrap()];
    let refused = city.hd(&again).error(2);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("exists already"),
        "{refused}"
    );
    city.hd(&[&again[..], &["--force"]].concat()).json();
    let other = City::new();
    let path = file.to_str().unwrap();
    let refused = other.hd(&["cv", "import", path]).error(1);
    assert!(
        refused["message"].as_str().unwrap().contains("--as"),
        "{refused}"
    );
    let told = other.hd(&["cv", "import", path, "--as", "north"]).json();
    assert_eq!((&told["added"], &told["known"]), (&3.into(), &0.into()));
    let told = other.hd(&["cv", "import", path, "--as", "north"]).json();
    assert_eq!((&told["added"], &told["known"]), (&0.into(), &3.into()));
    let theirs = other.hd(&["cv", "north:script"]).json();
    assert_eq!(theirs["entries"].as_array().unwrap().len(), 3);
    other.hd(&["cv", SCRIPT]).error(4);
    assert_eq!(other.hd(&["cv", "--verify"]).json()["ok"], true);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        text.replace("first.rs", "x")
            .replace("\"rs\":1", "\"rs\":2"),
    )
    .unwrap();
    let refused = other.hd(&["cv", "import", path, "--as", "south"]).error(2);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("entry 1 of script") && message.contains("was changed"),
        "{message}"
    );
}

#[test]
fn row_that_was_changed_in_the_store_is_named() {
    let mut city = City::new();
    for name in ["a", "b", "c"] {
        let relic = city.work(name, &[&format!("commit {name}.txt"), "hd done"]);
        city.wait_status(&relic, "closed");
    }
    until("all are recorded", || results(&city).len() == 3);
    city.stop();
    tamper(
        &city,
        "UPDATE identity_entries SET data = replace(data, '\"first_pass\":true', '\"first_pass\":false') WHERE seq = 2",
    );
    city.start();
    let told = city.hd(&["cv", "--verify"]);
    assert_ne!(told.code, 0, "{told:?}");
    let screen = city.hd_text(&["cv", "--verify"]);
    assert!(
        screen
            .out
            .contains("script: entry 2 was changed: its hash is not that of its content"),
        "{screen:?}"
    );
    let refused = city.hd(&["cv", "export", "-"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    // Later work is recorded, and the break stays named.
    let relic = city.work("d", &["commit d.txt", "hd done"]);
    city.wait_status(&relic, "closed");
    let told = city.hd_text(&["cv", SCRIPT, "--verify"]);
    assert_ne!(told.code, 0);
    assert!(told.out.contains("entry 2 was changed"), "{told:?}");
}

#[test]
fn chain_whose_last_entry_is_gone_is_not_exported() {
    let mut city = City::new();
    for name in ["a", "b"] {
        let relic = city.work(name, &[&format!("commit {name}.txt"), "hd done"]);
        city.wait_status(&relic, "closed");
    }
    until("both are recorded", || results(&city).len() == 2);
    city.stop();
    tamper(&city, "DELETE FROM identity_entries WHERE seq = 2");
    city.start();
    let file = city.root().join("chains.jsonl");
    for of in [&["cv", "export"][..], &["cv", "export", SCRIPT]] {
        let refused = city.hd(&[of, &[file.to_str().unwrap()]].concat()).error(1);
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.contains("entry 2 of script is missing"),
            "{message}"
        );
    }
    assert!(!file.exists());
}

/// A better record decides, and `hd why` says so.
#[test]
fn label_with_several_harnesses_goes_to_the_better_record() {
    let more = "[harness.other]\ncommand = [\"sh\", \"../../../agent.sh\", \"{prompt}\"]\nprompt = \"file\"\n\
        env = { GIT_CONFIG_NOSYSTEM = \"1\" }\n";
    let city = gated()
        .set("raiders", "routes", r#"{ ui = ["other", "script"] }"#)
        .set("forge", "rework_attempts", "0")
        .add(more)
        .start();
    let labelled = |title: &str, step: &str| {
        let body = crate::support::live::asks::body(&[step, "hd done"]);
        let made = city
            .hd(&["relic", "create", title, "--label", "ui", "--body", &body])
            .json();
        let relic = made["id"].as_str().unwrap().to_owned();
        city.charge(&relic);
        relic
    };
    let failed = labelled("a", "commit bad");
    city.wait_status(&failed, "blocked");
    let landed = labelled("b", "commit good.txt");
    city.wait_status(&landed, "closed");
    let why = city.hd_text(&["why", &landed]);
    let said = "why: script for label ui: best record (other 0 of 1, score 0.333; script 0 of 0, score 0.500)";
    assert!(why.out.contains(said), "{why:?}");
    let chain = city.hd(&["cv", "other"]).json();
    assert_eq!(chain["entries"][0]["kind"], "merge_failed", "{chain}");
}

/// A chain that takes no entry does not keep the work from being settled: a person is called.
#[test]
fn person_is_called_when_a_result_cannot_be_recorded_in_its_chain() {
    let city = City::new();
    let store = Connection::open(city.root().join(".horde/relics.db")).unwrap();
    let refuse = "CREATE TRIGGER broken BEFORE INSERT ON identity_entries
                  BEGIN SELECT RAISE(ABORT, 'changed from outside'); END";
    store.execute(refuse, []).unwrap();
    drop(store);
    let relic = city.work("first", &["commit first.rs", "hd done"]);
    city.wait_status(&relic, "closed");
    until("a person is called", || {
        let open = city.hd(&["escalations"]).json();
        open.to_string().contains("is not in the chain of script")
    });
}

/// A name of `[identities]` is in its record and in the commit that lands; `hd mq show` prints the gate and its verdict.
#[test]
fn landed_work_names_its_configured_identity_and_its_gates() {
    let city = gated().add("[identities]\nscribe = \"script\"\n").start();
    let relic = city.work("first", &["commit a.txt", "hd done"]);
    city.wait_status(&relic, "closed");
    let record = || city.hd(&["cv", "scribe"]).json()["entries"].clone();
    until("it is recorded", || record()[0]["kind"] == "merged");
    assert_eq!(record()[0]["data"]["relic"], relic.as_str());
    assert_eq!(city.hd(&["cv", SCRIPT]).code, 4, "it has another name");
    let trailers = ["log", "-1", "--format=%(trailers)", "main"];
    let trailers = git(&city.origin(), &trailers);
    assert!(trailers.contains("Horde-Identity: scribe"), "{trailers}");
    let shown = city.hd_text(&["mq", "show", &relic]).out;
    let words: Vec<_> = shown.split_whitespace().collect();
    for pair in [["name", "test"], ["verdict", "pass"]] {
        assert!(words.windows(2).any(|it| *it == pair), "{pair:?}: {shown}");
    }
}
