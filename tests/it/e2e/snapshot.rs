//! The published snapshot: clients see the effect of what was answered before they asked, a watched
//! status follows, and answers have the types that `hd schema` prints.

use std::collections::BTreeMap;

use horde_supervisor::control::client::{Client, Flow};
use horde_supervisor::control::protocol::answers::{MrDetails, Raider, Shown, Status};
use horde_supervisor::control::protocol::{ControlError, Op, args};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::live::{City, until};
use crate::support::plan::Plan;

fn open(status: &Value) -> u64 {
    status["rigs"][0]["relics"]["open"].as_u64().unwrap()
}

#[test]
fn status_shows_the_effect_of_every_request_that_was_answered() {
    let city = Plan::new().start();
    for made in 1..=20 {
        let asked = json!({ "title": "work", "rig": "horde" });
        let relic = city.ask("relic.create", asked).unwrap();
        assert_eq!(open(&city.ask("status", json!({})).unwrap()), made);
        if made % 5 == 0 {
            let close = json!({ "relic": relic["id"] });
            city.ask("relic.close", close).unwrap();
            assert_eq!(open(&city.ask("status", json!({})).unwrap()), made - 1);
            let reopen = json!({ "relic": relic["id"] });
            city.ask("relic.reopen", reopen).unwrap();
        }
    }
}

#[test]
fn watched_status_is_sent_when_something_changes() {
    let city = Plan::new().start();
    let watch = Op::Status(args::Status { watch: true });
    let mut made = false;
    let socket = city.root().join(".horde/control.sock");
    let seen = Client::connect(&socket).unwrap().stream(&watch, |status| {
        if open(&status) == 1 {
            return Ok::<_, ControlError>(Flow::Stop);
        }
        if !std::mem::replace(&mut made, true) {
            let asked = json!({ "title": "work", "rig": "horde" });
            city.ask("relic.create", asked).unwrap();
        }
        Ok(Flow::Continue)
    });
    seen.unwrap();
    assert!(made);
}

/// Nothing is lost in the typed form.
fn same<T: DeserializeOwned + Serialize>(answer: &Value) {
    let typed: T = serde_json::from_value(answer.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), *answer);
}

#[test]
fn answers_have_their_types() {
    let city = City::new();
    city.work("done", &["commit a.txt", "hd done", "forever"]);
    let found = || city.ask("mq.list", json!({})).unwrap();
    until("it is in the queue", || {
        found().as_array().is_some_and(|all| !all.is_empty())
    });
    let mr = found()[0]["id"].clone();
    same::<MrDetails>(&city.ask("mq.show", json!({ "mr": mr })).unwrap());
    city.work("work", &["commit b.txt", "sign b", "forever"]);
    city.wait_sign("b");
    same::<Status>(&city.ask("status", json!({})).unwrap());
    same::<Vec<Raider>>(&city.ask("raider.list", json!({})).unwrap());
    same::<Shown>(&city.ask("relic.show", json!({ "relic": "gt-1" })).unwrap());
    let schemas = city.hd(&["schema"]).json();
    let schemas: BTreeMap<String, Value> = serde_json::from_value(schemas).unwrap();
    let required = schemas["status"]["required"].as_array().unwrap();
    assert!(required.contains(&json!("rigs")), "{required:?}");
    assert_eq!(city.hd(&["schema", "mq.show"]).json(), schemas["mq.show"]);
    assert_eq!(city.hd(&["schema", "nothing"]).code, 2);
}
