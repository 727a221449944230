//! `events`: the journal from its store, and as it grows.

use super::*;
use crate::control::handlers::events::events;
use crate::control::protocol::args::Events;
use crate::ports::relics::Txn;

/// A journal that cannot be read is not taken for a journal that ends there.
#[tokio::test(start_paused = true)]
async fn events_say_that_the_journal_could_not_be_read() {
    let (city, full) = (Scenario::new().start().await, Arc::default());
    let clock = Arc::clone(&city.world.clock);
    let mut parts = city.crash().await;
    parts.store = StoreHandle::full_while(&clock, &full);
    let city = Scenario::new().start_on(parts, clock).await;
    full.store(true, Ordering::SeqCst);
    let args = Events {
        since: Some(0),
        follow: true,
        kind: None,
    };
    let mut items = events(&city.world, args).await.unwrap();
    let error = items.recv().await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(items.recv().await.is_none());
}

/// Events that are only followed do not include earlier ones.
#[tokio::test(start_paused = true)]
async fn events_that_are_followed_begin_now_or_after_a_number() {
    let city = Scenario::new().start().await;
    let follow = |since| Events {
        since,
        follow: true,
        kind: Some("relic.*".into()),
    };
    let happens = async |subject: &'static str| {
        let event = move || NewEvent::new(EventType::RelicCreated, subject, Cause::Operator);
        let noted = city.world.store.run(move |txn| txn.record(&event())).await;
        noted.unwrap();
    };
    let unknown = Events {
        kind: Some("relic.create".into()),
        ..follow(None)
    };
    let unknown = events(&city.world, unknown).await;
    let unknown = unknown.expect_err("there is no such type");
    assert_eq!(unknown.hint.as_deref(), Some("did you mean relic.created?"));
    happens("before").await;
    let mut from_now = events(&city.world, follow(None)).await.unwrap();
    let mut from_then = events(&city.world, follow(Some(0))).await.unwrap();
    happens("after").await;
    for (items, first) in [(&mut from_now, "after"), (&mut from_then, "before")] {
        let item: Value = serde_json::from_str(&items.recv().await.unwrap().unwrap()).unwrap();
        assert_eq!(item["subject"], first);
    }
}

/// Events that an automation has still to run for are kept among deleted ones.
#[tokio::test(start_paused = true)]
async fn deleted_events_are_told_behind_the_kept_ones_before_them() {
    let city = Scenario::new().start().await;
    let record = |txn: &mut dyn Txn| {
        txn.record(&NewEvent::new(
            EventType::RelicCreated,
            "a",
            Cause::Operator,
        ))
    };
    let kept = city.store(record).await;
    let last = city.store(record).await;
    let next = city.store(record).await;
    let before = city.world.clock.now() + Duration::from_secs(1);
    city.store(move |txn| txn.prune_events(before, next, &[kept], 100_000))
        .await;
    for (since, expected) in [
        (
            0,
            vec![
                (kept, "relic.created"),
                (last, "events.pruned"),
                (next, "relic.created"),
            ],
        ),
        (kept, vec![(last, "events.pruned"), (next, "relic.created")]),
        (last, vec![(next, "relic.created")]),
    ] {
        let args = Events {
            since: Some(since),
            follow: false,
            kind: Some("relic.*".into()),
        };
        let mut items = events(&city.world, args).await.unwrap();
        let mut told = Vec::new();
        while let Some(item) = items.recv().await {
            let item: Value = serde_json::from_str(&item.unwrap()).unwrap();
            told.push((item["seq"].as_u64().unwrap(), item["type"].to_string()));
        }
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(seq, kind)| (seq, format!("{kind:?}")))
            .collect();
        assert_eq!(told, expected, "{since}");
    }
}
