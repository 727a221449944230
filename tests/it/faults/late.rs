//! A file written after `done` is neither landed nor lost: an operator is called, once.

use std::fs;

use serde_json::json;

use super::{does, plan};
use crate::support::live::wait;

#[test]
fn a_file_written_after_done_holds_the_sandbox_back_and_calls_a_person_once() {
    let mut city = plan().start();
    let script = format!("sign ready; await go\n{}", does("w1"));
    let relic = city.script("w1", &script);
    let raider = city.charge(&relic);
    city.wait_sign("ready");
    // With the remote away, done is accepted and waits.
    let away = city.root().join("away.git");
    fs::rename(city.origin(), &away).expect("it moves away");
    city.sign("go");
    city.wait_first("raider.push_blocked");
    let late = city.root().join(raider).join("late");
    fs::write(&late, "precious\n").expect("a file");
    fs::rename(&away, city.origin()).expect("it comes back");

    let raised = city.wait_first("escalation.raised");
    assert!(
        raised["data"]["evidence"].to_string().contains("late"),
        "{raised}"
    );
    let mut seen = Vec::new();
    wait("three more patrols", || {
        let status = city.answer("status", json!({}));
        let last = status["rigs"][0]["witness"]["last_patrol"].to_string();
        if !seen.contains(&last) {
            seen.push(last);
        }
        (seen.len() > 3).then_some(())
    });
    let sent = city.all_of("message.sent");
    let told = sent
        .iter()
        .filter(|event| event["data"]["type"] == "RECOVERY_NEEDED");
    assert_eq!(told.count(), 1);
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
