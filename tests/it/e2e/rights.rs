//! A caller in a raider's session may act only as that raider, and is recognised by its process
//! (`2-contract.md`, 2.4; `4-rules.md`, security and flags).

use crate::support::live::{City, until};

/// Forbidden whatever the arguments, told in the journal, and without effect; looking is allowed.
#[test]
fn an_agent_may_not_act_on_others_or_on_the_city() {
    let city = City::new();
    let other = city.work("stay", &["sign other", "forever"]);
    let relic = city.work(
        "try",
        &[
            "try nuke hd --json raider nuke Toast --yes",
            "try own hd --json raider nuke Shadow --yes",
            "try unknown hd --json raider nuke Nobody --yes",
            "try stop hd --json stop",
            "try run hd --json run x -d",
            "try send hd --json send Toast hello",
            // Neither another session nor an empty environment hides it.
            "try aside setsid -w hd --json stop",
            "try bare env -i \"$(command -v hd)\" --city \"$HD_CITY\" --json stop",
            "try look hd --json status",
            "try hook hd --json hook",
            "sign tried",
            "forever",
        ],
    );
    city.wait_sign("other");
    city.wait_sign("tried");
    let refused = [
        "nuke", "own", "unknown", "stop", "run", "send", "aside", "bare",
    ];
    for name in refused {
        let error = city.wait_tried(name).error(1);
        assert_eq!(error["kind"], "forbidden", "{name}: {error}");
    }
    assert_eq!(city.wait_tried("look").json()["city"], "e2e");
    let hook = city.wait_tried("hook").json();
    assert_eq!(
        hook["relic"]["id"],
        relic.as_str(),
        "its own, not the other's {other}"
    );
    until("every refusal is told", || {
        let events = city.events();
        let told = events
            .iter()
            .filter(|event| event["type"] == "control.forbidden");
        told.count() == refused.len()
    });
    assert_eq!(city.raiders().len(), 2);
}
