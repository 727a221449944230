//! Work that begins on an existing branch, and what a caller is told about doubtful values.

use serde_json::{Value, json};

use super::{PATROL, ask};
use crate::control::protocol::ErrorKind;
use crate::domain::city::RestartType;
use crate::domain::event::EventType;
use crate::domain::ids::RelicId;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::RelicFilter;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity};

async fn made_on(city: &TestCity, branch: &str) -> RelicId {
    let create = json!({ "title": "go on", "branch": branch });
    let made = ask(city, "relic.create", create).await.unwrap();
    assert_eq!(made["starts_on"], branch);
    made["id"].as_str().unwrap().parse().unwrap()
}

async fn charge(city: &TestCity, relic: &RelicId) -> Result<Value, (ErrorKind, String)> {
    let charge = json!({ "relic": relic, "rig": "horde" });
    let charged = ask(city, "charge", charge).await;
    charged.map_err(|error| (error.kind, format!("{error} {:?}", error.hint)))
}

/// `agent-lifecycle.md`, section 1: checkout of an existing branch.
#[tokio::test(start_paused = true)]
async fn raider_begins_at_the_tip_of_the_existing_branch_and_lands_as_usual() {
    let city = Scenario::new().start().await;
    let tip = city.parts.repo.push_of_person("topic");
    let relic = made_on(&city, "topic").await;
    let told = charge(&city, &relic).await.unwrap();
    assert_eq!(told["start"]["branch"], "topic");
    let own = told["branch"].as_str().unwrap();
    assert!(
        own.starts_with("raider/Toast/"),
        "a branch of its own: {own}"
    );
    let id = relic.clone();
    let hook = city.store(move |txn| txn.hook_of_relic(&id)).await.unwrap();
    // Custody: the base is recorded, and it is not the target's.
    assert_eq!((&hook.base, hook.from_target), (&tip, false));
    let charged = &city.events(EventType::RaiderCharged).await[0];
    assert_eq!(charged.data["start"]["head"], tip.as_str());
    city.parts.repo.commit(&hook.raider.name);
    city.completed(&hook.raider).await.unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.status(&relic).await, RelicStatus::Closed);
    assert_eq!(city.parts.repo.landings(), 1);
    // What is taken off the target later does not come back with the branch.
    let mr = city.mr(&relic).await.unwrap();
    assert!(mr.began.is_some_and(|began| began != tip));
    // Only the raider's own branch is deleted.
    assert_eq!(city.parts.repo.remote("topic"), Some(tip));
    assert_eq!(city.parts.repo.remote(own), None);
}

#[tokio::test(start_paused = true)]
async fn branch_that_cannot_be_used_is_refused_with_the_reason() {
    let city = Scenario::new().start().await;
    city.parts.repo.push_of_person("topic");
    let other = city.worker("other").await;
    let rows = [
        ("topci", ErrorKind::NotFound, "did you mean topic?"),
        ("main", ErrorKind::BadRequest, "lands on"),
        (
            other.branch.as_str(),
            ErrorKind::Conflict,
            "horde/raiders/Toast",
        ),
    ];
    for (branch, kind, why) in rows {
        let relic = made_on(&city, branch).await;
        let (refused, said) = charge(&city, &relic).await.unwrap_err();
        assert_eq!(refused, kind, "{said}");
        assert!(said.contains(why), "{said}");
        assert_eq!(city.status(&relic).await, RelicStatus::Open);
        // `run` says so before it makes a relic.
        let count = || city.store(|txn| txn.relics(&RelicFilter::default()));
        let before = count().await.len();
        let run = json!({ "task": ["x"], "branch": branch });
        assert_eq!(ask(&city, "run", run).await.unwrap_err().kind, kind);
        assert_eq!(count().await.len(), before);
    }
    let bad = json!({ "title": "x", "branch": "a..b" });
    let refused = ask(&city, "relic.create", bad).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::BadRequest);
}

#[tokio::test(start_paused = true)]
async fn run_with_a_branch_and_a_remote_that_is_away_makes_its_relics() {
    let city = Scenario::new().start().await;
    let away = RepoError::Remote("no route".into());
    city.parts.repo.break_op("find_branch", away);
    let tasks = json!([{ "title": "one", "branch": "own" }, "two"]);
    let told = ask(&city, "run", json!({ "task": tasks, "branch": "topic" })).await;
    let told = told.unwrap();
    let mut branches = Vec::new();
    for row in told["relics"].as_array().unwrap() {
        assert_eq!(row["error"]["kind"], "unavailable", "{row}");
        let relic = row["relic"].as_str().unwrap().parse().unwrap();
        branches.extend(city.relic_now(&relic).await.starts_on);
    }
    assert_eq!(branches, ["own", "topic"]);
}

/// A branch that a person names counts more than what an earlier raider pushed.
#[tokio::test(start_paused = true)]
async fn edit_has_the_next_raider_begin_on_the_branch() {
    let city = Scenario::new().start().await;
    let tip = city.parts.repo.push_of_person("topic");
    let relic = city.relic("a").await;
    let mut row = city.relic_now(&relic).await;
    row.branch = Some("raider/Ash/gt-1-1".into());
    city.store(move |txn| txn.put_relic(&row)).await;
    let edit = json!({ "relic": relic, "branch": "topic" });
    let told = ask(&city, "relic.edit", edit).await.unwrap();
    assert_eq!(
        (&told["starts_on"], &told["branch"]),
        (&json!("topic"), &Value::Null)
    );
    charge(&city, &relic).await.unwrap();
    let id = relic.clone();
    let hook = city.store(move |txn| txn.hook_of_relic(&id)).await.unwrap();
    assert_eq!(hook.base, tip);
    let none = json!({ "relic": relic, "branch": "" });
    let told = ask(&city, "relic.edit", none).await.unwrap();
    assert_eq!(told["starts_on"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn title_with_line_ends_is_stored_on_one_line() {
    let city = Scenario::new().start().await;
    let made = ask(
        &city,
        "relic.create",
        json!({ "title": " one\n  line\r\n" }),
    )
    .await;
    let made = made.unwrap();
    assert_eq!(made["title"], "one line");
    let edit = json!({ "relic": made["id"], "title": "two\n\nlines" });
    let edited = ask(&city, "relic.edit", edit).await.unwrap();
    assert_eq!(edited["title"], "two lines");
    let run = json!({ "task": [{ "title": "a\nb" }] });
    let ran = ask(&city, "run", run).await.unwrap();
    let relic = ran["relics"][0]["relic"].as_str().unwrap().parse().unwrap();
    assert_eq!(city.relic_now(&relic).await.title, "a b");
    let blank = ask(&city, "relic.create", json!({ "title": "\n \n" })).await;
    assert_eq!(blank.unwrap_err().kind, ErrorKind::BadRequest);
}

#[tokio::test(start_paused = true)]
async fn assignee_that_no_agent_is_named_like_is_noted() {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.start().await;
    let charged = city.charged("at work").await;
    let relic = city.relic("a").await;
    for (name, note) in [
        ("mayor", None),
        ("operator", None),
        (charged.raider.name.as_str(), None),
        ("mayro", Some("did you mean mayor?")),
        ("alice", Some("the name of a person")),
        ("", None),
    ] {
        let edit = json!({ "relic": relic, "assignee": name });
        let told = ask(&city, "relic.edit", edit).await.unwrap();
        let said = told["note"].as_str();
        assert_eq!(said.is_some(), note.is_some(), "{name}: {said:?}");
        assert!(
            said.unwrap_or_default().contains(note.unwrap_or_default()),
            "{said:?}"
        );
    }
}
