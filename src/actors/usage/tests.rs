//! Transcripts are read incrementally and counted once, and budgets hold.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::actors::mail::Charged;
use crate::actors::refusal::RefusalKind;
use crate::domain::budget::{Budget, OnExceed};
use crate::domain::event::EventType;
use crate::domain::harness::hooks::Hooks;
use crate::domain::relic::RelicStatus;
use crate::domain::usage::Tokens;
use crate::domain::usage::price::{Price, Prices};
use crate::ports::tasks::TaskFiles;
use crate::testing::world::{Scenario, TestCity};

const PATROL: Duration = Duration::from_secs(31);
const DIR: &str = "/home/u/.claude/projects/p";

/// Returns a message of a million tokens, which cost a dollar.
fn message(number: u32) -> String {
    format!(
        "{{\"message\":{{\"id\":\"m{number}\",\"model\":\"m\",\"usage\":{{\"input_tokens\":1000000}}}}}}\n"
    )
}

fn messages(numbers: std::ops::Range<u32>) -> String {
    numbers.map(message).collect()
}

/// Starts a city whose harness writes transcripts, with a budget of the rig.
async fn city(budget: Option<Budget>) -> TestCity {
    let scenario = Scenario::new().with(|city| {
        for harness in city.harnesses.values_mut() {
            harness.hooks = Hooks::Claude;
            harness.env.insert("HOME".into(), "/home/u".into());
            let price = Price {
                input: 1.0,
                output: 1.0,
                cache_read: 1.0,
                cache_write: 1.0,
            };
            harness.prices = Prices([("m".to_owned(), price)].into());
        }
        city.rigs[0].raiders.budget = budget;
    });
    scenario.start().await
}

fn write(test_city: &TestCity, name: &str, text: &str) {
    let written = test_city
        .parts
        .tasks
        .write_beside(Path::new(DIR), name, text);
    written.unwrap();
}

async fn begins(test_city: &TestCity, charged: &Charged, name: &str) {
    let hook = test_city.hook(&charged.raider).await.unwrap();
    let path = format!("{DIR}/{name}");
    let began = began(&test_city.world, of_raider(&hook), "c", Some(&path)).await;
    began.unwrap();
}

async fn rows(test_city: &TestCity) -> Vec<Row> {
    test_city.store(|txn| txn.usage_since("2000-01-01")).await
}

async fn dollars(test_city: &TestCity) -> f64 {
    Sum::of(&rows(test_city).await).usd
}

fn park(usd_per_day: f64) -> Option<Budget> {
    Some(Budget {
        usd_per_day,
        on_exceed: OnExceed::Park,
    })
}

#[tokio::test(start_paused = true)]
async fn transcript_is_read_on_by_patrols_and_counted_once_for_its_raider() {
    let test_city = city(None).await;
    let charged = test_city.worker("a").await;
    write(&test_city, "c", &messages(0..2));
    begins(&test_city, &charged, "c").await;
    test_city.pass(PATROL).await;
    assert_eq!(dollars(&test_city).await, 2.0);
    test_city.pass(PATROL).await;
    assert_eq!(dollars(&test_city).await, 2.0, "it has not grown");
    write(&test_city, "c", &messages(0..5));
    begins(&test_city, &charged, "c").await;
    test_city.pass(PATROL).await;
    let rows = rows(&test_city).await;
    assert_eq!(rows.len(), 1, "one day, one session, one model");
    assert_eq!(rows[0].tokens.input, 5_000_000);
    assert_eq!(rows[0].owner.relic, charged.relic.to_string());
    assert_eq!(rows[0].owner.child, charged.raider.to_string());
    assert_eq!(rows[0].owner.rig, "horde");
}

#[tokio::test(start_paused = true)]
async fn transcript_elsewhere_is_not_read() {
    let test_city = city(None).await;
    let charged = test_city.worker("a").await;
    let elsewhere = Path::new("/home/u/secrets");
    let written = test_city
        .parts
        .tasks
        .write_beside(elsewhere, "c", &message(0));
    written.unwrap();
    begins(&test_city, &charged, "../../../secrets/c").await;
    let hook = test_city.hook(&charged.raider).await.unwrap();
    let path = Some("/home/u/secrets/c");
    began(&test_city.world, of_raider(&hook), "c", path)
        .await
        .unwrap();
    test_city.pass(PATROL).await;
    assert_eq!(rows(&test_city).await, []);
}

/// opencode's plugin writes next to itself: among the files that this supervisor keeps of the session.
#[tokio::test(start_paused = true)]
async fn usage_of_a_plugin_is_read_from_the_files_of_its_own_session_only() {
    let scenario = Scenario::new().with(|city| {
        let harnesses = city.harnesses.values_mut();
        harnesses.for_each(|harness| harness.hooks = Hooks::Opencode);
    });
    let test_city = scenario.start().await;
    let charged = test_city.worker("a").await;
    let hook = test_city.hook(&charged.raider).await.unwrap();
    let own = &test_city.world.city;
    let own = own.task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let line = r#"{"id":"m","model":"m","tokens":{"input":7,"output":2,"reasoning":1}}"#;
    for dir in [own.as_path(), Path::new("/home/u")] {
        let written = test_city
            .parts
            .tasks
            .write_beside(dir, "u", &format!("{line}\n"));
        let path = written.unwrap();
        let path = path.to_str();
        began(&test_city.world, of_raider(&hook), "c", path)
            .await
            .unwrap();
    }
    test_city.pass(PATROL).await;
    let rows = rows(&test_city).await;
    assert_eq!(rows.len(), 1, "nothing from elsewhere");
    assert_eq!((rows[0].tokens.input, rows[0].tokens.output), (7, 3));
}

#[tokio::test(start_paused = true)]
async fn end_of_a_session_is_read_and_a_conversation_that_goes_on_counts_from_there() {
    let test_city = city(None).await;
    let charged = test_city.worker("a").await;
    write(&test_city, "c", &message(0));
    begins(&test_city, &charged, "c").await;
    test_city.pass(PATROL).await;
    write(&test_city, "c", &messages(0..2));
    test_city.completed(&charged.raider).await.unwrap();
    test_city.pass(PATROL * 2).await;
    assert_eq!(dollars(&test_city).await, 2.0);
    let left = test_city.store(|txn| txn.active_sources()).await;
    assert_eq!(left, [], "nothing more is looked at");
    let next = test_city.worker("b").await;
    begins(&test_city, &next, "c").await;
    write(&test_city, "c", &messages(0..3));
    test_city.pass(PATROL).await;
    let rows = rows(&test_city).await;
    let of = |relic: String| {
        let of = rows.iter().filter(|row| row.owner.relic == relic);
        of.map(|row| row.usd).sum::<f64>()
    };
    assert_eq!(of(charged.relic.to_string()), 2.0);
    assert_eq!(of(next.relic.to_string()), 1.0);
}

/// A patrol reads a limited amount; later patrols read the rest.
#[tokio::test(start_paused = true)]
async fn long_transcript_of_a_session_that_has_ended_is_read_to_its_end() {
    let test_city = city(None).await;
    let charged = test_city.worker("a").await;
    let filler = format!("{{\"x\":\"{}\"}}\n", "x".repeat(PART / 2));
    write(
        &test_city,
        "c",
        &(filler.repeat(PARTS * 2 + 2) + &message(0)),
    );
    begins(&test_city, &charged, "c").await;
    test_city.completed(&charged.raider).await.unwrap();
    test_city.pass(PATROL * 4).await;
    assert_eq!(dollars(&test_city).await, 1.0);
    let left = test_city.store(|txn| txn.active_sources()).await;
    assert_eq!(left, [], "nothing more is looked at");
}

#[tokio::test(start_paused = true)]
async fn spent_budget_parks_new_work_until_it_is_raised_and_calls_a_person_once() {
    let test_city = city(park(3.0)).await;
    let charged = test_city.worker("a").await;
    let relic = test_city.relic("b").await;
    write(&test_city, "c", &messages(0..3));
    begins(&test_city, &charged, "c").await;
    for _ in 0..3 {
        let refused = test_city.charge(&relic).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Parked, "{refused}");
        assert!(
            refused
                .message
                .contains("rig horde is spent: 3.00 of 3.00 USD")
        );
        assert!(refused.hint.unwrap().contains("the budget is raised"));
        test_city.pass(PATROL).await;
    }
    assert_eq!(
        test_city.escalations().await.len(),
        1,
        "a person is called once"
    );
    assert!(test_city.runs(&charged.session), "what runs goes on");
    assert_eq!(spent(&test_city.world).await.unwrap().len(), 1);
    test_city.reword().await;
    test_city
        .reconfigure(|city| city.rigs[0].raiders.budget = park(10.0))
        .await;
    test_city.charge(&relic).await.unwrap();
    test_city.pass(PATROL * 2).await;
    let called = test_city.escalations().await;
    let closed = called.iter().all(|call| call.status == RelicStatus::Closed);
    assert!(closed && called.len() == 1, "the call is over: {called:?}");
    assert_eq!(spent(&test_city.world.newest()).await.unwrap(), []);
    // Spent again, it calls again.
    test_city
        .reconfigure(|city| city.rigs[0].raiders.budget = park(3.0))
        .await;
    test_city.pass(PATROL * 2).await;
    let called = test_city.escalations().await;
    let open = called
        .iter()
        .filter(|call| call.status != RelicStatus::Closed);
    assert_eq!(open.count(), 1, "{called:?}");
}

#[tokio::test(start_paused = true)]
async fn next_day_has_its_own_budget_and_ready_work_is_charged_then() {
    let test_city = city(park(1.0)).await;
    let charged = test_city.worker("a").await;
    write(&test_city, "c", &message(0));
    begins(&test_city, &charged, "c").await;
    test_city.pass(PATROL).await;
    test_city
        .reconfigure(|city| city.rigs[0].raiders.auto_charge = true)
        .await;
    let relic = test_city.relic("b").await;
    test_city.pass(PATROL * 2).await;
    let now = test_city.relic_now(&relic).await;
    assert_eq!(now.assignee, None, "it waits");
    assert_eq!(now.charge_failures, 0, "and that is no failure of its");
    // A day of patrols takes long; a few show the same.
    let rare = PATROL * 40;
    test_city
        .reconfigure(|city| city.daemon.patrol_interval = rare)
        .await;
    test_city.pass(Duration::from_secs(24 * 3600)).await;
    test_city.pass(rare).await;
    assert!(test_city.relic_now(&relic).await.assignee.is_some());
}

#[tokio::test(start_paused = true)]
async fn budget_that_only_warns_parks_nothing() {
    let warn = park(1.0).map(|budget| Budget {
        on_exceed: OnExceed::Warn,
        ..budget
    });
    let test_city = city(warn).await;
    let charged = test_city.worker("a").await;
    write(&test_city, "c", &message(0));
    begins(&test_city, &charged, "c").await;
    test_city.pass(PATROL).await;
    assert_eq!(test_city.escalations().await.len(), 1);
    let relic = test_city.relic("b").await;
    test_city.charge(&relic).await.unwrap();
}

/// A budget that does not count all usage would never be spent, unnoticed.
#[tokio::test(start_paused = true)]
async fn tokens_without_a_price_under_a_budget_call_a_person_once() {
    let test_city = city(park(10.0)).await;
    let charged = test_city.worker("a").await;
    begins(&test_city, &charged, "one.jsonl").await;
    write(&test_city, "one.jsonl", &message(1));
    test_city.pass(PATROL).await;
    assert!(test_city.escalations().await.is_empty(), "it has a price");
    for number in 2..5 {
        let more = message(number).replace("\"m\"", "\"new-model\"");
        write(&test_city, &format!("{number}.jsonl"), &more);
        begins(&test_city, &charged, &format!("{number}.jsonl")).await;
        test_city.pass(PATROL).await;
        let called = test_city.escalations().await;
        assert_eq!(called.len(), 1, "{called:?}");
        assert!(
            called[0].title.contains("the budget of rig horde"),
            "{called:?}"
        );
        assert!(called[0].body.contains("new-model"), "{called:?}");
    }
    let told = test_city.events(EventType::BudgetUnpriced).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].data["tokens"], 1_000_000);
    // Without a budget prices do not matter.
    let test_city = city(None).await;
    let charged = test_city.worker("a").await;
    begins(&test_city, &charged, "one.jsonl").await;
    write(
        &test_city,
        "one.jsonl",
        &message(1).replace("\"m\"", "\"new-model\""),
    );
    test_city.pass(PATROL).await;
    assert!(test_city.escalations().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn tokens_without_a_price_are_counted_and_told() {
    let test_city = city(park(1.0)).await;
    let charged = test_city.worker("a").await;
    write(&test_city, "c", &message(0).replace("\"m\"", "\"other\""));
    begins(&test_city, &charged, "c").await;
    test_city.pass(PATROL).await;
    let rows = rows(&test_city).await;
    assert_eq!((rows[0].usd, rows[0].unpriced), (0.0, 1_000_000));
    let tokens = Tokens {
        input: 1_000_000,
        ..Tokens::default()
    };
    assert_eq!(rows[0].tokens, tokens);
    let relic = test_city.relic("b").await;
    test_city.charge(&relic).await.unwrap();
}

/// A session may begin many conversations: the newest is always counted.
#[tokio::test(start_paused = true)]
async fn conversation_after_many_others_of_its_session_is_counted() {
    let test_city = city(None).await;
    let charged = test_city.worker("a").await;
    for n in 0..20 {
        let name = format!("c{n}");
        write(&test_city, &name, "");
        begins(&test_city, &charged, &name).await;
    }
    write(&test_city, "c19", &message(0));
    test_city.pass(PATROL).await;
    assert_eq!(dollars(&test_city).await, 1.0);
    let active = test_city.store(|txn| txn.active_sources()).await;
    assert_eq!(active.len(), SOURCES);
}

/// A session may name any path: that displaces no transcript that is read, and leaves no record.
#[tokio::test(start_paused = true)]
async fn paths_that_are_no_transcripts_keep_none_from_being_read() {
    let test_city = city(None).await;
    let charged = test_city.worker("a").await;
    write(&test_city, "real", &message(0));
    begins(&test_city, &charged, "real").await;
    test_city.pass(PATROL).await;
    for n in 0..40 {
        begins(&test_city, &charged, &format!("none{n}")).await;
    }
    begins(&test_city, &charged, &"long".repeat(2000)).await;
    write(&test_city, "real", &messages(0..3));
    test_city.pass(PATROL).await;
    assert_eq!(dollars(&test_city).await, 3.0);
    let active = test_city.store(|txn| txn.active_sources()).await;
    assert_eq!(active.len(), SOURCES);
    let longest = active.iter().map(|source| source.path.as_os_str().len());
    assert!(longest.max() < Some(LONGEST_PATH));
    let forgotten = active.iter().all(|source| !source.path.ends_with("none0"));
    assert!(forgotten, "{active:?}");
}

/// The look that a patrol began with may be older than the session.
#[tokio::test(start_paused = true)]
async fn transcript_of_a_session_that_began_during_a_look_stays_open() {
    let test_city = city(None).await;
    let charged = test_city.worker("a").await;
    write(&test_city, "c", &message(0));
    begins(&test_city, &charged, "c").await;
    collect(&test_city.world, Some(&BTreeSet::new())).await;
    write(&test_city, "c", &messages(0..3));
    test_city.pass(PATROL).await;
    assert_eq!(dollars(&test_city).await, 3.0);
}
