//! `relic.import` and its idempotence.

use serde_json::{Value, json};

use super::ask;
use crate::control::protocol::{BATCH_MAX, ErrorKind};
use crate::domain::event::EventType;
use crate::domain::ids::RelicId;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::RelicFilter;
use crate::testing::world::{Scenario, TestCity};

fn source(id: &str) -> Value {
    json!({ "system": "beads", "id": id })
}

fn item(id: &str, status: &str) -> Value {
    json!({ "source": source(id), "title": id, "status": status, "deps": [] })
}

async fn import(city: &TestCity, relics: &[Value]) -> Vec<Value> {
    let told = ask(city, "relic.import", json!({ "relics": relics })).await;
    told.unwrap().as_array().unwrap().clone()
}

fn relic(told: &Value) -> RelicId {
    RelicId::new(told["relic"].as_str().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_second_import_updates_and_makes_nothing_twice() {
    let city = Scenario::new().start().await;
    let mut batch = [
        item("bd-1", "open"),
        item("bd-2", "blocked"),
        item("bd-3", "closed"),
    ];
    batch[1]["deps"] = json!([source("bd-1"), source("bd-99")]);
    batch[2]["closed"] = json!("2026-01-02T00:00:00Z");
    let told = import(&city, &batch).await;
    assert!(
        told.iter().all(|one| one["change"] == "created"),
        "{told:?}"
    );
    assert_eq!(told[1]["unresolved"], json!(["bd-99"]));
    let second = city.relic_now(&relic(&told[1])).await;
    assert_eq!(
        (second.status, second.deps),
        (RelicStatus::Blocked, vec![relic(&told[0])])
    );
    let third = city.relic_now(&relic(&told[2])).await;
    assert_eq!(third.closed.unwrap().to_string(), "2026-01-02T00:00:00Z");
    let again = import(&city, &batch).await;
    assert!(
        again.iter().all(|one| one["change"] == "unchanged"),
        "{again:?}"
    );
    assert!(city.events(EventType::RelicUpdated).await.is_empty());
    batch[0]["title"] = json!("another");
    batch[0]["priority"] = json!(4);
    batch[1]["deps"] = json!([]);
    let changed = import(&city, &batch).await;
    let changes: Vec<_> = changed.iter().map(|one| one["change"].clone()).collect();
    assert_eq!(changes, ["updated", "updated", "unchanged"]);
    let first = city.relic_now(&relic(&told[0])).await;
    assert_eq!((first.title.as_str(), first.priority), ("another", 4));
    assert!(city.relic_now(&second.id).await.deps.is_empty());
    let all = city.store(|txn| txn.relics(&RelicFilter::default())).await;
    assert_eq!(all.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_hooked_queued_and_closed_relics_stays() {
    let city = Scenario::new().start().await;
    let told = import(&city, &[item("bd-1", "open"), item("bd-2", "open")]).await;
    let (hooked, closed) = (relic(&told[0]), relic(&told[1]));
    city.charge(&hooked).await.unwrap();
    ask(&city, "relic.close", json!({ "relic": closed }))
        .await
        .unwrap();
    let mut over = item("bd-1", "closed");
    over["assignee"] = json!("bob");
    import(&city, &[over, item("bd-2", "open")]).await;
    let now = city.relic_now(&hooked).await;
    assert_eq!(now.status, RelicStatus::Hooked);
    assert!(now.assignee.unwrap().contains("raiders"));
    assert_eq!(city.status(&closed).await, RelicStatus::Closed);
}

/// The record's assignee counts where it has one.
#[tokio::test(start_paused = true)]
async fn an_assignee_that_was_set_here_stays_where_the_record_has_none() {
    let city = Scenario::new().start().await;
    let id = relic(&import(&city, &[item("bd-1", "open")]).await[0]);
    let edit = json!({ "relic": id, "assignee": "alice" });
    ask(&city, "relic.edit", edit).await.unwrap();
    let told = import(&city, &[item("bd-1", "open")]).await;
    assert_eq!(told[0]["change"], "unchanged");
    assert_eq!(city.relic_now(&id).await.assignee.as_deref(), Some("alice"));
    let mut theirs = item("bd-1", "open");
    theirs["assignee"] = json!("bob");
    import(&city, &[theirs]).await;
    assert_eq!(city.relic_now(&id).await.assignee.as_deref(), Some("bob"));
}

/// Dependencies that were added here stay; those of the source follow it.
#[tokio::test(start_paused = true)]
async fn own_dependencies_of_an_imported_relic_stay() {
    let city = Scenario::new().start().await;
    let told = import(&city, &[item("bd-1", "open")]).await;
    let (imported, own) = (relic(&told[0]), city.relic("own").await);
    ask(
        &city,
        "relic.dep.add",
        json!({ "relic": imported, "on": own }),
    )
    .await
    .unwrap();
    import(&city, &[item("bd-1", "open")]).await;
    assert_eq!(city.relic_now(&imported).await.deps, [own]);
}

#[tokio::test(start_paused = true)]
async fn an_issue_that_is_closed_at_its_source_is_closed_here() {
    let city = Scenario::new().start().await;
    let told = import(&city, &[item("bd-1", "open")]).await;
    let id = relic(&told[0]);
    import(&city, &[item("bd-1", "closed")]).await;
    assert_eq!(city.status(&id).await, RelicStatus::Closed);
    assert_eq!(city.events(EventType::RelicClosed).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_id_is_kept_where_it_is_free() {
    let city = Scenario::new().start().await;
    let first = city.relic("taken").await;
    let of = |id: &str| {
        json!({
            "source": { "system": "city:OTHER", "id": id }, "id": id, "title": id, "status": "open",
        })
    };
    let mut step = of("gt-1.1");
    step["parent"] = json!({ "system": "city:OTHER", "id": "gt-1" });
    let told = import(&city, &[of("gt-1"), of("gt-9"), step]).await;
    assert_eq!(first.as_str(), "gt-1");
    let ids: Vec<_> = told.iter().map(|one| one["relic"].clone()).collect();
    // The step belongs to the other relic of that name.
    assert_eq!(ids, ["gt-2", "gt-9", "gt-2.1"]);
    assert_eq!(city.relic("next").await.as_str(), "gt-10");
}

/// The relic is found again by its source, and more relics can be made.
#[tokio::test(start_paused = true)]
async fn an_id_that_is_far_ahead_gets_the_next_number() {
    let city = Scenario::new().start().await;
    let id = "gt-9223372036854775807";
    let far = json!({
        "source": { "system": "city:OTHER", "id": id }, "id": id, "title": id, "status": "open",
    });
    let told = import(&city, std::slice::from_ref(&far)).await;
    assert_eq!(relic(&told[0]).as_str(), "gt-1");
    let again = import(&city, &[far]).await;
    assert_eq!(
        (&again[0]["relic"], &again[0]["change"]),
        (&json!("gt-1"), &json!("unchanged"))
    );
    assert_eq!(city.relic("next").await.as_str(), "gt-2");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_bounded_and_stored_whole_or_not_at_all() {
    let city = Scenario::new().start().await;
    let many: Vec<_> = (0..=BATCH_MAX)
        .map(|n| item(&format!("bd-{n}"), "open"))
        .collect();
    let refused = ask(&city, "relic.import", json!({ "relics": many })).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::BadRequest);
    let mut bad = item("bd-2", "open");
    bad["title"] = json!("two\nlines");
    let refused = ask(
        &city,
        "relic.import",
        json!({ "relics": [item("bd-1", "open"), bad] }),
    )
    .await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::BadRequest);
    let check = json!({ "check": true, "relics": [item("bd-1", "open")] });
    ask(&city, "relic.import", check).await.unwrap();
    let all = city.store(|txn| txn.relics(&RelicFilter::default())).await;
    assert!(all.is_empty());
}
