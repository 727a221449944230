//! The relics that the commands of automations make, in rows of runs that bring each other about.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PATROL, ask, ask_as};
use crate::actors::records::automation_chains;
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::automation::{Action, Automation};
use crate::domain::cause::Cause;
use crate::domain::city::Rights;
use crate::domain::event::Event;
use crate::domain::gates::Gate;
use crate::ports::relics::Txn;
use crate::testing::world::{Scenario, TestCity};

const PID: u32 = 4711;

/// The number of runs in a row that led to a relic.
async fn runs_before(city: &TestCity, relic: &Value) -> u32 {
    let closed = Event {
        seq: 1,
        ts: city.world.clock.now(),
        kind: "relic.closed".to_owned(),
        subject: relic.as_str().unwrap().to_owned(),
        cause: Cause::Operator.to_string(),
        data: json!({}),
    };
    let read = move |txn: &mut dyn Txn| automation_chains::of_event(txn, &closed);
    city.store(read).await.map_or(0, |chain| chain.number)
}

#[tokio::test(start_paused = true)]
async fn relics_that_a_command_makes_or_imports_belong_to_the_row_of_its_run() {
    let nightly = Automation {
        id: "nightly".parse().unwrap(),
        description: String::new(),
        action: Action::Exec("nightly".to_owned()),
        gate: Gate::Manual,
        timeout: Duration::from_secs(3600),
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    };
    let city = Scenario::new().with(move |city| city.automations = vec![nightly]);
    let city = city.start().await;
    city.parts.runner.let_go("nightly", PATROL, 0);
    city.parts.runner.name(PID, "automation/nightly");
    ask(&city, "auto.run", json!({ "name": "nightly" }))
        .await
        .unwrap();
    let item =
        json!({ "source": { "system": "beads", "id": "bd-1" }, "title": "b", "status": "open" });
    let calls = [
        ("relic.create", json!({ "title": "a" }), "/id"),
        ("relic.import", json!({ "relics": [item] }), "/0/relic"),
    ];
    let by_command = Caller::stand_in(PID, CallerRole::OwnCommand(Rights::All));
    for (op, args, id) in calls {
        let made = ask_as(&city, by_command.clone(), op, args).await.unwrap();
        let made = made.pointer(id).unwrap();
        assert_eq!(runs_before(&city, made).await, 1, "{op}");
    }
    let own = ask(&city, "relic.create", json!({ "title": "c" }))
        .await
        .unwrap();
    assert_eq!(runs_before(&city, &own["id"]).await, 0, "a person's");
}
