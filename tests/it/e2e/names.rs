//! Names, slots and refusals (`raider-lifecycle.md`, slots; `rules.md`, names and charge).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::live::City;
use crate::support::plan::Plan;

/// A raider's state cannot be set from outside.
#[test]
fn raider_done_and_reset_are_refused_with_advice() {
    let city = City::new();
    for verb in ["done", "reset"] {
        let ran = city.hd(&["raider", verb, "Toast"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("hd raider nuke"), "{ran:?}");
        assert_eq!(city.hd(&["polecat", verb, "Toast"]).code, 2);
    }
}

/// `rules.md`, names: short names if they are unambiguous, else a conflict that names the candidates.
#[test]
fn an_ambiguous_name_is_a_conflict_with_the_candidates() {
    let city = Plan::new().rig("other", "ot").start();
    for rig in ["horde", "other"] {
        let relic = city.relic_in(rig, "stay", &["forever"]);
        city.hd(&["charge", &relic, rig]).json();
    }
    let error = city.hd(&["raider", "show", "Toast"]).error(1);
    assert_eq!(error["kind"], "conflict");
    let message = error["message"].as_str().unwrap();
    for id in ["horde/raiders/Toast", "other/raiders/Toast"] {
        assert!(message.contains(id), "{message}");
    }
    for verb in ["peek", "logs"] {
        assert_eq!(city.hd(&[verb, "Toast"]).error(1)["kind"], "conflict");
    }
    for name in ["other/Toast", "other/raiders/Toast"] {
        let shown = city.hd(&["raider", "show", name]).json();
        assert_eq!(shown["id"], "other/raiders/Toast");
    }
    assert_eq!(
        city.hd(&["raider", "show", "Nobody"]).error(4)["kind"],
        "not_found"
    );
    assert_eq!(
        city.hd(&["raider", "nuke", "Nobody", "--yes"]).error(4)["kind"],
        "not_found"
    );
    assert_eq!(
        city.hd(&["charge", "gt-1", "nowhere"]).error(4)["kind"],
        "not_found"
    );
    assert_eq!(
        city.hd(&["charge", "gt-99", "horde"]).error(4)["kind"],
        "not_found"
    );
}

fn sandboxes(city: &City) -> usize {
    std::fs::read_dir(city.root().join("horde/raiders")).map_or(0, Iterator::count)
}

/// `rules.md`, charge: a conflict changes nothing.
#[test]
fn a_charge_that_cannot_be_changes_nothing() {
    let city = Plan::new().set("raiders", "max", "2").start();
    let first = city.work("stay", &["forever"]);
    let waiting = city.relic("wait", &["forever"]);
    let blocked = city
        .hd(&["relic", "create", "depends", "--dep", &waiting])
        .json();
    let blocked = blocked["id"].as_str().unwrap();
    let closed = city.relic("closed", &[]);
    city.hd(&["relic", "close", &closed]).json();
    let refused = |words: &[&str]| {
        let seq = city.events().last().unwrap()["seq"].clone();
        let error = city.hd(words).error(1);
        assert_eq!(error["kind"], "conflict", "{words:?}");
        assert_eq!(
            city.events().last().unwrap()["seq"],
            seq,
            "{words:?} left a trace"
        );
        assert_eq!(
            (city.raiders().len(), sandboxes(&city)),
            (1, 1),
            "{words:?}"
        );
    };
    refused(&["charge", &first, "horde"]);
    refused(&["charge", &closed, "horde"]);
    refused(&["charge", blocked, "horde"]);
    refused(&["charge", &waiting, "horde", "--name", "Toast"]);
    refused(&["charge", &waiting, "horde", "--name", "toast"]);
    refused(&["charge", &waiting, "horde", "--name", "Witness"]);
    city.charge(&waiting);
    let late = city.relic("late", &["forever"]);
    let error = city.hd(&["charge", &late, "horde"]).error(1);
    assert_eq!(error["kind"], "conflict");
    assert!(error["message"].as_str().unwrap().contains('2'), "{error}");
    assert_eq!(city.status_of(&late), "open");
    assert_eq!((city.raiders().len(), sandboxes(&city)), (2, 2));
    let ran = city.hd(&["run", "one more", "-d"]).json();
    let ran = &ran["relics"][0];
    assert_eq!(ran["raider"], Value::Null);
    assert!(ran["note"].is_string(), "{ran}");
    assert_eq!(city.status_of(ran["relic"].as_str().unwrap()), "open");
}

/// `raider-lifecycle.md`, slots: beyond the pool there are numbered slots, as far as `max` allows.
#[test]
fn max_above_the_pool_overflows() {
    let city = Plan::new()
        .set("raiders", "names", r#"["Mars", "Venus"]"#)
        .set("raiders", "max", "4")
        .start();
    for n in 0..4 {
        city.work(&format!("stay {n}"), &["forever"]);
    }
    let raiders = city.raiders();
    let names: BTreeSet<_> = raiders
        .iter()
        .map(|raider| raider["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 4);
    assert!(
        names.contains("Mars") && names.contains("Venus"),
        "{names:?}"
    );
    let late = city.relic("late", &["forever"]);
    assert_eq!(
        city.hd(&["charge", &late, "horde"]).error(1)["kind"],
        "conflict"
    );
}
