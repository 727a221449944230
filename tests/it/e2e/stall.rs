//! A silent session (`raider-lifecycle.md`, stalled; `contract.md`, `stall_after`, `hd wait`).

use serde_json::Value;

use crate::support::live::{City, until};
use crate::support::plan::Plan;

const TOAST: &str = "horde/raiders/Toast";

fn city() -> City {
    Plan::new()
        .set("raiders", "stall_after", r#""2s""#)
        .set("raiders", "nudges", "1")
        .start()
}

/// The session is nudged, then replaced by one that is told why and finishes the work.
#[test]
fn a_silent_session_is_told_then_replaced() {
    let city = city();
    let relic = city.work(
        "hang, then work",
        &["[ $n != 1 ] || exec sleep 1000", "commit a.txt", "hd done"],
    );
    let stalled = city.wait_event(1, "raider.stalled", TOAST);
    assert_eq!(stalled["cause"], "stalled");
    let nudged = city.wait_event(1, "raider.nudged", TOAST);
    assert_eq!(
        (&nudged["cause"], &nudged["data"]["nudge"]),
        (&"stalled".into(), &1.into())
    );
    let prompt = city.wait_prompt(&relic, 2);
    assert!(
        prompt.contains("it made no progress for a long time"),
        "{prompt}"
    );
    let restarted = city.wait_event(1, "agent.restarted", TOAST);
    assert_eq!(restarted["cause"], "stalled");
    city.wait_status(&relic, "closed");
    assert_eq!(city.happened("agent.crashed", TOAST), Vec::<Value>::new());
}

/// A raider that declares a wait is left alone, and `status` shows the wait; another is shown as stalled.
#[test]
fn a_declared_wait_is_no_stall() {
    let city = city();
    city.work(
        "wait",
        &["hd wait 1h --reason 'the CI runs'", "exec sleep 1000"],
    );
    city.wait_event(1, "raider.waiting", TOAST);
    let shadow = "horde/raiders/Shadow";
    city.work("hang", &["exec sleep 1000"]);
    let of = |id: &str| {
        let raiders = city.raiders();
        raiders
            .into_iter()
            .find(|raider| raider["id"] == id)
            .unwrap()
    };
    until("it is shown as stalled", || {
        of(shadow)["state"] == "stalled"
    });
    city.wait_event(1, "agent.restarted", shadow);
    let toast = of(TOAST);
    assert_eq!(
        (&toast["state"], &toast["condition"]),
        (&"working".into(), &"waiting".into())
    );
    assert!(
        toast["detail"].as_str().unwrap().contains("the CI runs"),
        "{toast}"
    );
    assert_eq!(city.happened("raider.stalled", TOAST), Vec::<Value>::new());
    // Only the raider itself may declare its wait.
    assert_eq!(
        city.hd(&["wait", "1h", "--reason", "x"]).error(1)["kind"],
        "forbidden"
    );
}
