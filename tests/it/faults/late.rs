//! A file written after `done` is neither landed nor lost: an operator is called, once.

use std::fs;

use serde_json::json;

use super::city::{City, CityPlan, does, touch};

#[test]
fn a_file_written_after_done_holds_the_sandbox_back_and_calls_a_person_once() {
    let city = City::running(&CityPlan::default());
    let root = city.root().display().to_string();
    let script = format!(
        "touch {root}/ready; while [ ! -e {root}/go ]; do sleep 0.05; done\n{}",
        does("w1")
    );
    let relic = city.relic("w1", 0, &script);
    let charged = city.charge(&relic);
    let ready = city.root().join("ready");
    city.wait("the raider works", || ready.exists().then_some(()));
    // With the remote away, done is accepted and waits.
    let away = city.root().join("away.git");
    fs::rename(city.origin(), &away).expect("it moves away");
    touch(&city.root().join("go"));
    city.wait_event("raider.push_blocked");
    let late = format!("{}/late", charged["sandbox"].as_str().expect("a path"));
    fs::write(&late, "precious\n").expect("a file");
    fs::rename(&away, city.origin()).expect("it comes back");

    let raised = city.wait_event("escalation.raised");
    assert!(
        raised["data"]["evidence"].to_string().contains("late"),
        "{raised}"
    );
    let mut seen = Vec::new();
    city.wait("three more patrols", || {
        let status = city.ask("status", &json!({}));
        let last = status["rigs"][0]["witness"]["last_patrol"].to_string();
        if !seen.contains(&last) {
            seen.push(last);
        }
        (seen.len() > 3).then_some(())
    });
    let sent = city.events("message.sent");
    let told = sent
        .iter()
        .filter(|event| event["data"]["type"] == "RECOVERY_NEEDED");
    assert_eq!(told.count(), 1, "{}", city.story());
    assert_eq!(city.status_of(&relic), "hooked");
    assert_eq!(
        fs::read_to_string(&late).expect("it is there"),
        "precious\n"
    );

    fs::remove_file(&late).expect("it was there");
    city.assert_landed(&[("w1".to_owned(), relic)]);
    city.assert_no_salvage();
    city.stop();
}
