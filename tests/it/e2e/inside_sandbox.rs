//! A raider's verbs are accepted only from inside its own sandbox (`contract.md`, 2.4). A program that
//! several raiders share, such as the background server of a harness, runs one raider's commands in the
//! session of another; no work may be declared finished that way.

use serde_json::json;

use crate::support::live::{City, until};

const TOAST: &str = "horde/raiders/Toast";
const SHADOW: &str = "horde/raiders/Shadow";

/// Returns the environment of a raider's session, as one of its own commands sees it.
fn as_raider(name: &str, relic: &str) -> String {
    format!(
        "env HD_ACTOR=horde/raiders/{name} HD_RAIDER={name} HD_SESSION=gt-horde-{name} \
         HD_RELIC={relic} HD_INCARNATION=1"
    )
}

/// Makes two raiders. Toast's session has a background server that runs the commands in `signs/asked`, which Shadow
/// writes from its own sandbox.
fn two_raiders(city: &City, shadow: &[&str]) -> (String, String) {
    let serve = "(cd / && await asked && . \"$signs/asked\" && sign served) &";
    let toast = city.work("slow", &["commit a.txt", serve, "sign slow", "forever"]);
    let ask = [&["commit b.txt"], shadow].concat();
    let shadow = city.work("quick", &ask);
    city.wait_sign("slow");
    (toast, shadow)
}

/// Asserts that both raiders work as before, and no completion was recorded.
fn assert_unchanged(city: &City, relics: &[&String]) {
    for relic in relics {
        assert_eq!(city.status_of(relic), "hooked");
    }
    for raider in [TOAST, SHADOW] {
        for kind in ["raider.done", "raider.handoff", "message.sent"] {
            assert!(city.happened(kind, raider).is_empty(), "{kind} of {raider}");
        }
    }
    assert_eq!(city.ask("mq.list", json!({})).unwrap(), json!([]));
    let escalations = city.ask("escalations", json!({})).unwrap();
    assert_eq!(escalations, json!([]));
}

#[test]
fn a_verb_through_another_raiders_server_is_refused() {
    let city = City::new();
    let served = "cd \"$shadow\"\n\
        try done hd --json done\n\
        try claimed $as_shadow hd --json done\n\
        try handoff hd --json handoff\n\
        try wait hd --json wait 1m --reason build\n\
        try escalate hd --json escalate 'no key'\n\
        try hook hd --json hook\n\
        try rally hd --json rally\n\
        try status hd --json status";
    let write = format!(
        "{{ echo \"shadow='$PWD'\"; echo \"as_shadow='{}'\"; cat \"$signs/script\"; }} >\"$signs/.new\"; \
         mv \"$signs/.new\" \"$signs/asked\"",
        as_raider("Shadow", "gt-2")
    );
    std::fs::write(city.root().join("signs/script"), served).unwrap();
    let (toast, shadow) = two_raiders(&city, &[&write, "forever"]);
    city.wait_sign("served");
    let refused = [
        "done", "claimed", "handoff", "wait", "escalate", "hook", "rally",
    ];
    for name in refused {
        let error = city.wait_tried(name).error(1);
        assert_eq!(error["kind"], "forbidden", "{name}: {error}");
        let message = error["message"].as_str().unwrap();
        for dir in [city.sandbox("Toast"), city.sandbox("Shadow")] {
            assert!(message.contains(dir.to_str().unwrap()), "{name}: {message}");
        }
    }
    assert_eq!(city.wait_tried("status").json()["city"], "e2e");
    until("every refusal is recorded", || {
        city.happened("control.forbidden", "gt-horde-Toast").len() == refused.len()
    });
    assert_unchanged(&city, &[&toast, &shadow]);
}

#[test]
fn a_process_that_claims_another_raider_by_its_environment_is_refused() {
    let city = City::new();
    let claim = as_raider("Toast", "gt-1");
    let own = format!("try own {claim} hd --json done");
    let theirs = format!("(cd ../Toast && try theirs {claim} hd --json done)");
    let (toast, shadow) = two_raiders(
        &city,
        &[
            "await slow",
            &own,
            &theirs,
            "sign tried",
            "await go",
            "hd done",
        ],
    );
    city.wait_sign("tried");
    for name in ["own", "theirs"] {
        let error = city.wait_tried(name).error(1);
        assert_eq!(error["kind"], "forbidden", "{name}: {error}");
    }
    until("every refusal is recorded", || {
        city.happened("control.forbidden", "gt-horde-Shadow").len() == 2
    });
    assert_unchanged(&city, &[&toast, &shadow]);
    // Nothing of this has an effect: the raider completes from its own sandbox.
    city.sign("go");
    city.wait_status(&shadow, "closed");
    assert_eq!(city.status_of(&toast), "hooked");
}

#[test]
fn a_verb_is_accepted_anywhere_below_the_sandbox_and_through_links() {
    let city = City::new();
    let relic = city.work(
        "deep",
        &[
            "mkdir -p one/two && ln -s \"$PWD/one\" \"$signs/shortcut\"",
            "(cd one/two && try deep hd --json hook)",
            "(cd \"$signs/shortcut\" && try link hd --json hook)",
            "(cd .. && try above hd --json hook)",
            "sign tried",
            "forever",
        ],
    );
    city.wait_sign("tried");
    for name in ["deep", "link"] {
        assert_eq!(city.wait_tried(name).json()["relic"]["id"], relic.as_str());
    }
    assert_eq!(city.wait_tried("above").error(1)["kind"], "forbidden");
}

/// The same holds with the supervisor away: an intent that Toast's server writes for Shadow is refused.
#[test]
fn a_done_through_another_raiders_server_is_not_written_down() {
    let mut city = City::new();
    let ask = "await down; { echo \"cd '$PWD'\"; echo 'try done hd --json done'; } >\"$signs/.new\"; \
               mv \"$signs/.new\" \"$signs/asked\"";
    let (toast, shadow) = two_raiders(&city, &["sign ready", ask, "forever"]);
    city.wait_sign("ready");
    city.kill();
    city.sign("down");
    city.wait_sign("served");
    assert_eq!(city.wait_tried("done").code, 3);
    let outbox = city.root().join(".horde/outbox");
    let left = std::fs::read_dir(outbox).map_or(0, Iterator::count);
    assert_eq!(left, 0);
    city.start();
    assert_unchanged(&city, &[&toast, &shadow]);
}
