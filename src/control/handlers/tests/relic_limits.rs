//! Requests about relics that are refused for what they would cost or say.

use serde_json::json;

use super::{PATROL, ask};
use crate::control::protocol::ErrorKind;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::world::Scenario;

/// 50,000 labels in one request held up every transaction of the store for half a minute.
#[tokio::test(start_paused = true)]
async fn relic_has_at_most_a_hundred_labels_however_they_are_given() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let labels = |count: usize| (0..count).map(|n| format!("l{n}")).collect::<Vec<_>>();
    let source = json!({ "system": "city:OTHER", "id": "x-1" });
    let item = json!({
        "source": source, "title": "a", "status": "open", "deps": [], "labels": labels(101),
    });
    for (op, args) in [
        (
            "relic.create",
            json!({ "title": "a", "label": labels(101) }),
        ),
        (
            "relic.edit",
            json!({ "relic": relic, "label": labels(101) }),
        ),
        (
            "run",
            json!({ "task": [{ "title": "a", "labels": labels(101) }] }),
        ),
        ("relic.import", json!({ "relics": [item] })),
    ] {
        let refused = ask(&city, op, args).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest, "{op}: {refused}");
    }
    let edit = |label: Vec<String>| {
        ask(
            &city,
            "relic.edit",
            json!({ "relic": relic, "label": label }),
        )
    };
    edit(labels(100)).await.unwrap();
    let refused = edit(vec!["one more".to_owned()]).await.unwrap_err();
    assert!(refused.message.contains("at most 100"), "{refused}");
    let unlabel = json!({ "relic": relic, "unlabel": labels(50_000) });
    let told = ask(&city, "relic.edit", unlabel).await.unwrap();
    assert_eq!(told["labels"], json!([]));
}

/// A request had room for 50,000 dependencies, and each later change of one stored and journalled them all.
#[tokio::test(start_paused = true)]
async fn relic_has_at_most_a_thousand_dependencies_however_they_are_given() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let others: Vec<_> = (0..1001).map(|n| format!("gt-{}", n + 2)).collect();
    let sources: Vec<_> = (0..1001)
        .map(|n| json!({ "system": "city:OTHER", "id": format!("y-{n}") }))
        .collect();
    let source = json!({ "system": "city:OTHER", "id": "x-1" });
    let item = json!({
        "source": source, "title": "a", "status": "open", "deps": sources, "labels": [],
    });
    for (op, args) in [
        ("relic.create", json!({ "title": "a", "dep": others })),
        ("run", json!({ "task": [{ "title": "a", "deps": others }] })),
        ("relic.import", json!({ "relics": [item] })),
    ] {
        let refused = ask(&city, op, args).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest, "{op}: {refused}");
        assert!(refused.message.contains("at most 1000"), "{op}: {refused}");
    }
    for _ in &others {
        city.relic("b").await;
    }
    let full = json!({ "title": "c", "dep": others[..1000] });
    let full = ask(&city, "relic.create", full).await.unwrap()["id"].clone();
    let add = json!({ "relic": full, "on": others[1000] });
    let refused = ask(&city, "relic.dep.add", add.clone()).await.unwrap_err();
    assert!(refused.message.contains("at most 1000"), "{refused}");
    let remove = json!({ "relic": full, "on": others[0] });
    ask(&city, "relic.dep.remove", remove).await.unwrap();
    ask(&city, "relic.dep.add", add).await.unwrap();
    let own = json!({ "relic": relic, "on": others[0] });
    ask(&city, "relic.dep.add", own).await.unwrap();
}

/// The answers had all relics of the city, whatever their number.
#[tokio::test(start_paused = true)]
async fn lists_of_relics_have_a_limit_and_tell_what_they_leave_out() {
    let city = Scenario::new().start().await;
    let first = city.relic("first").await;
    for priority in [1, 4, 2] {
        let create = json!({ "title": "a", "priority": priority, "dep": [first] });
        ask(&city, "relic.create", create).await.unwrap();
    }
    let ids = |list: &serde_json::Value| {
        let rows = list.as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let listed = ask(&city, "relic.list", json!({ "limit": 2 }))
        .await
        .unwrap();
    assert_eq!(ids(&listed), ["gt-3", "gt-4"]);
    let deps = json!({ "relic": first, "limit": 2 });
    let deps = ask(&city, "relic.dep.list", deps).await.unwrap();
    assert_eq!(ids(&deps["dependents"]).len(), 2);
    assert_eq!(deps["more_dependents"], 1);
    assert!(deps["more_deps"].is_null() && deps["ready"] == true);
    let all = ask(&city, "relic.dep.list", json!({ "relic": first })).await;
    let all = all.unwrap();
    assert_eq!(ids(&all["dependents"]).len(), 3);
    assert!(all["more_dependents"].is_null());
    ask(&city, "relic.close", json!({ "relic": first }))
        .await
        .unwrap();
    let ready = ask(&city, "relic.ready", json!({ "limit": 2 }))
        .await
        .unwrap();
    assert_eq!(ids(&ready), ["gt-3", "gt-4"]);
    let ready = ask(&city, "relic.ready", json!({})).await.unwrap();
    assert_eq!(ids(&ready), ["gt-3", "gt-4", "gt-2"]);
}

/// It was called closed, and landed seconds later.
#[tokio::test(start_paused = true)]
async fn relic_whose_work_is_being_pushed_is_not_closed() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let away = RepoError::Remote("the remote is away".into());
    city.parts.repo.break_op("land", away);
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    let close = json!({ "relic": charged.relic, "yes": true });
    let refused = ask(&city, "relic.close", close.clone()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains("may have landed"), "{refused}");
    city.parts.repo.mend("land");
    city.pass_hours(std::time::Duration::from_secs(3600)).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn priority_outside_of_0_to_4_is_kept_and_the_answer_says_so() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    for (priority, is_noted) in [(-1, true), (0, false), (4, false), (5, true)] {
        for (op, args) in [
            (
                "relic.create",
                json!({ "title": "b", "priority": priority }),
            ),
            (
                "relic.edit",
                json!({ "relic": relic, "priority": priority }),
            ),
        ] {
            let told = ask(&city, op, args).await.unwrap();
            assert_eq!(told["priority"], priority, "{op}");
            assert_eq!(told["note"].is_string(), is_noted, "{op}: {told}");
        }
    }
    let both = json!({ "title": "c", "priority": 9, "assignee": "nemo" });
    let told = ask(&city, "relic.create", both).await.unwrap();
    let note = told["note"].as_str().unwrap();
    assert!(
        note.contains("nemo") && note.contains("priority 9"),
        "{note}"
    );
}
