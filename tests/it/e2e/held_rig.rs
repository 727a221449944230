//! A rig that cannot be prepared; the other rigs work.

use std::fs;

use serde_json::{Value, json};

use crate::support::git::git;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;

/// Returns the held rigs in the status.
fn held(city: &City) -> Vec<Value> {
    let status = city.hd(&["status"]).json();
    let ground = status["ground"].as_array().unwrap().clone();
    ground
        .into_iter()
        .filter(|it| it["part"] == "rig")
        .collect()
}

/// The whole start used to fail, and every later one, until a person mended that rig.
#[test]
fn rig_that_cannot_be_made_ready_is_held_and_the_others_start() {
    let plan = Plan::new().rig("other", "ot");
    let plan = plan.set("daemon", "patrol_interval", r#""1s""#);
    let mut city = City::made(&plan);
    // The place where its repository is made.
    let place = city.root().join("other/repo.git");
    fs::create_dir(place.parent().unwrap()).unwrap();
    fs::write(&place, "in the way").unwrap();
    city.start();
    let done = city.work("one", &["commit one.txt", "hd done"]);
    city.wait_status(&done, "closed");
    let said = wait("status says it", || held(&city).pop());
    let says = said["says"].as_str().unwrap();
    assert!(says.starts_with("rig other is held: "), "{said}");
    let found = city.hd(&["doctor"]);
    assert!(found.out.contains(says), "{}", found.out);
    let log = fs::read_to_string(city.root().join("supervisor.log")).unwrap();
    assert!(log.contains("other rigs are not affected"), "{log}");
    let waits = city.relic_in("other", "two", &["commit two.txt", "hd done"]);
    let charge = || city.hd(&["charge", &waits, "other"]);
    let refused = charge();
    assert!(
        refused.code != 0
            && refused
                .err
                .contains("the repository of the rig cannot be set up"),
        "{refused:?}"
    );
    // A change of the configuration does not depend on the held rig either.
    let file = city.root().join("city.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("max = 4", "max = 5", 1)).unwrap();
    city.hd(&["reload"]).json();
    fs::remove_file(&place).unwrap();
    wait("it is ready", || held(&city).is_empty().then_some(()));
    charge().json();
    city.wait_status(&waits, "closed");
}

/// The agent did its work twice: its session was started again before its completion was read.
#[test]
fn completion_that_was_saved_while_its_rig_was_held_is_handled_before_a_session_is_started_again() {
    // The patrol must not be what handles it.
    let plan = Plan::new().set("daemon", "patrol_interval", r#""1h""#);
    let city = plan.start();
    let relic = city.work(
        "save",
        &["commit one.txt", "sign ready", "await go", "hd done"],
    );
    city.wait_sign("ready");
    let end = led_elsewhere(&city);
    city.hd(&["reload"]).json();
    city.sign("go");
    let outbox = city.root().join(".horde/outbox");
    let saved = || fs::read_dir(&outbox).is_ok_and(|files| files.count() > 0);
    until("the completion is saved", saved);
    end();
    city.hd(&["reload"]).json();
    city.wait_status(&relic, "closed");
    let events = city.hd(&["events"]).out;
    assert_eq!(events.matches("agent.started").count(), 1, "{events}");
}

/// Leads `origin` elsewhere by a file that agents write, which holds the rig. Returns the end of that.
fn led_elsewhere(city: &City) -> impl Fn() {
    let checkout = city.checkout();
    let url = git(&checkout, &["remote", "get-url", "origin"]);
    let led = format!("[url \"/elsewhere\"]\n\tinsteadOf = {}\n", url.trim());
    fs::write(checkout.join("team.inc"), led).unwrap();
    git(&checkout, &["config", "include.path", "../team.inc"]);
    move || {
        git(&checkout, &["config", "--unset", "include.path"]);
    }
}

/// The status and the journal said it up to a patrol later, and the reload itself did not.
#[test]
fn reload_reports_a_rig_that_it_holds_and_one_that_it_makes_ready() {
    // The patrol must not be what reports it.
    let plan = Plan::new().set("daemon", "patrol_interval", r#""1h""#);
    let city = plan.start();
    city.work("wait", &["sign ready", "forever"]);
    city.wait_sign("ready");
    let end = led_elsewhere(&city);
    let told = city.hd(&["reload"]).json();
    assert_eq!(told["held"][0]["rig"], "horde", "{told}");
    assert!(
        told["held"][0]["why"]
            .as_str()
            .unwrap()
            .contains("/elsewhere")
    );
    assert_eq!(held(&city).len(), 1);
    assert_eq!(city.happened("ground.lost", "horde").len(), 1);
    let calls = || city.hd(&["escalations"]).json().as_array().unwrap().len();
    assert_eq!(calls(), 1);
    let text = city.hd_text(&["reload"]).out;
    assert!(
        text.contains("rig horde is held, and each patrol retries it: "),
        "{text}"
    );
    let unseen = city.hd(&["doctor"]).out;
    assert!(unseen.contains("once the rig is prepared"), "{unseen}");
    end();
    let told = city.hd(&["reload"]).json();
    assert_eq!(
        (&told["held"], &told["prepared"]),
        (&json!([]), &json!(["horde"]))
    );
    assert_eq!((held(&city).len(), calls()), (0, 0));
    let journal = city.hd(&["events"]).out;
    assert!(
        journal.contains("ground.lost") && journal.contains("ground.mended"),
        "{journal}"
    );
}

/// Nothing said so: `hd salvage list` named work that was gone, restore and `hd done` failed with words of git, and
/// the next start made an empty repository.
#[test]
fn repository_that_vanishes_holds_its_rig_calls_a_person_and_heals_when_it_is_back() {
    let plan = Plan::new().set("daemon", "patrol_interval", r#""1s""#);
    let mut city = plan.start();
    city.work("save", &["echo unsaved >file.txt", "sign ready", "forever"]);
    city.wait_sign("ready");
    let nuke = ["raider", "nuke", "Toast", "--salvage", "--yes"];
    city.hd(&nuke).json();
    let salvage = |city: &City| city.hd(&["salvage", "list"]).json()[0].clone();
    let id = salvage(&city)["id"].as_str().unwrap().to_owned();
    assert_eq!(salvage(&city)["present"], true);
    let custody = city.root().join(".horde/custody");
    let away = city.root().join("away");
    fs::rename(&custody, &away).unwrap();
    let is_said = |city: &City| {
        let said = wait("status says it", || held(city).pop());
        let says = said["says"].as_str().unwrap();
        assert!(
            says.contains("is missing") && says.contains("Move it back"),
            "{said}"
        );
        assert!(city.hd(&["doctor"]).out.contains(says));
        until("a person is called", || {
            city.hd(&["escalations"]).json() != serde_json::json!([])
        });
        let text = city.hd_text(&["salvage", "list"]).out;
        assert!(text.contains("unknown"), "{text}");
        let restore = city.hd_text(&["salvage", "restore", &id]);
        assert!(restore.err.contains("Move it back"), "{restore:?}");
    };
    is_said(&city);
    city.kill();
    city.start();
    is_said(&city);
    assert!(!custody.exists(), "nothing is in the way of the original");
    fs::rename(&away, &custody).unwrap();
    let heals = |city: &City| wait("it heals", || held(city).is_empty().then_some(()));
    heals(&city);
    assert_eq!(salvage(&city)["present"], true);
    city.hd(&["salvage", "restore", &id]).json();

    fs::remove_dir_all(&custody).unwrap();
    is_said(&city);
    fs::create_dir_all(city.repo()).unwrap();
    heals(&city);
    assert_eq!(salvage(&city)["present"], false);
    assert!(city.hd_text(&["salvage", "list"]).out.contains("LOST"));
    let done = city.work("one", &["commit one.txt", "hd done"]);
    city.wait_status(&done, "closed");
}
