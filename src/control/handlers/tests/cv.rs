//! `cv`, `cv.export`, `cv.import`, and the choice of a harness by the record of its identity.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{PATROL, ask, ask_as, story};
use crate::control::handlers::cv;
use crate::control::protocol::{ErrorKind, args};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::attempt::{Outcome, Work};
use crate::domain::city::{RestartType, Rights};
use crate::domain::event::EventType;
use crate::domain::federation;
use crate::domain::ids::{HarnessName, RaiderId, RelicId, SessionId};
use crate::domain::question::Pattern;
use crate::ports::relics::{ChainOf, ForeignCity, Txn};
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity};

/// Records results of an identity with a label, each of a work of its own.
async fn record(city: &TestCity, name: &'static str, label: &'static str, results: &[Outcome]) {
    for (n, outcome) in results.iter().copied().enumerate() {
        let work = Work {
            city: "here".into(),
            work: format!("{name}#{label}{n}"),
            relic: "gt-99".into(),
            labels: vec![label.into()],
            ..Work::default()
        };
        let append = move |txn: &mut dyn Txn| txn.append_entry(name, outcome, &work);
        assert!(city.store(append).await.is_some());
    }
}

async fn exported(city: &TestCity) -> Vec<Value> {
    let id = |txn: &mut dyn Txn| txn.set("store:id", Some("here"));
    city.store(id).await;
    let mut items = cv::export(&city.world, args::CvExport::default())
        .await
        .unwrap();
    let mut lines = Vec::new();
    while let Some(item) = items.recv().await {
        lines.push(serde_json::from_str(&item.unwrap()).unwrap());
    }
    lines
}

fn batch(lines: &[Value]) -> Value {
    let entries: Vec<&Value> = lines[1..]
        .iter()
        .filter(|line| line["heads"].is_null())
        .collect();
    json!({ "header": lines[0], "lines": entries })
}

#[tokio::test(start_paused = true)]
async fn chains_are_listed_with_their_records_and_shown_with_their_entries() {
    let city = Scenario::new().start().await;
    record(&city, "claude", "ui", &[Outcome::Merged, Outcome::Rejected]).await;
    let all = ask(&city, "cv", json!({})).await.unwrap();
    assert_eq!((&all["ok"], &all["name"]), (&json!(true), &Value::Null));
    let record = &all["chains"][0]["record"];
    assert_eq!(record["all"], json!({ "successes": 1, "results": 2 }));
    let one = ask(&city, "cv", json!({ "identity": "claude", "limit": 1 })).await;
    let one = one.unwrap();
    assert_eq!(one["name"], "claude");
    assert_eq!(one["entries"].as_array().unwrap().len(), 1);
    assert_eq!(one["entries"][0]["seq"], 2);
    for unknown in [
        "codex",
        "nowhere:claude",
        "a\u{1b}[31m",
        "horde/raiders/Toast",
    ] {
        let refused = ask(&city, "cv", json!({ "identity": unknown })).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::NotFound, "{unknown}");
    }
}

#[tokio::test(start_paused = true)]
async fn export_is_imported_by_another_city_apart_and_once() {
    let (north, south) = (Scenario::new().start().await, Scenario::new().start().await);
    record(
        &north,
        "script",
        "ui",
        &[Outcome::Merged, Outcome::Rejected],
    )
    .await;
    let mut lines = exported(&north).await;
    lines[0]["city"] = json!("north");
    let import = batch(&lines);
    let told = ask(&south, "cv.import", import.clone()).await.unwrap();
    assert_eq!(told, json!({ "city": "north", "added": 2, "known": 0 }));
    let again = ask(&south, "cv.import", import.clone()).await.unwrap();
    assert_eq!(again, json!({ "city": "north", "added": 0, "known": 2 }));
    assert_eq!(south.events(EventType::CvImported).await.len(), 1);
    let own = south.store(|txn| txn.chains(&ChainOf::Own, "", 9)).await;
    assert!(own.is_empty(), "{own:?}");
    let shown = ask(&south, "cv", json!({ "identity": "north:script" })).await;
    assert_eq!(shown.unwrap()["chains"][0]["city"], "north");
    let all = ask(&south, "cv", json!({ "verify": true })).await.unwrap();
    assert_eq!(
        (&all["ok"], &all["chains"][0]["verified"]),
        (&json!(true), &json!(true))
    );
    // A longer chain goes on; another one of the same place is refused whole.
    record(&north, "script", "db", &[Outcome::Merged]).await;
    let mut longer = exported(&north).await;
    longer[0]["city"] = json!("north");
    let told = ask(&south, "cv.import", batch(&longer)).await.unwrap();
    assert_eq!(told["added"], 1);
    let other = Scenario::new().start().await;
    record(&other, "script", "x", &[Outcome::Merged]).await;
    let mut forged = exported(&other).await;
    forged[0]["city"] = json!("north");
    let refused = ask(&south, "cv.import", batch(&forged)).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(
        refused.message.contains("entry 1 of north:script differs"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn import_of_what_does_not_verify_or_is_not_another_citys_is_refused() {
    let (north, south) = (Scenario::new().start().await, Scenario::new().start().await);
    record(&north, "script", "ui", &[Outcome::Merged]).await;
    let mut lines = exported(&north).await;
    let refused = ask(&north, "cv.import", batch(&lines)).await.unwrap_err();
    assert!(refused.message.contains("this city itself"), "{refused}");
    let refused = ask(&south, "cv.import", batch(&lines)).await.unwrap_err();
    assert!(refused.message.contains("--as NAME"), "{refused}");
    lines[0]["city"] = json!("north");
    let good = lines.clone();
    let change = |pointer: &str, value: Value| {
        let mut lines = json!(good);
        *lines.pointer_mut(pointer).unwrap() = value;
        lines.as_array().unwrap().clone()
    };
    let long = "x".repeat(20_000);
    for bad in [
        change("/1/kind", json!("rejected")),
        change("/1/data/relic", json!("gt-1")),
        change("/1/seq", json!(2)),
        change("/1/name", json!("scr\u{1b}ipt")),
        change("/0/id", json!("elsewhere")),
        change("/0/city", json!("n\u{1b}[31m")),
        change("/1/data/relic", json!(long)),
    ] {
        let refused = ask(&south, "cv.import", batch(&bad)).await.unwrap_err();
        let kinds = [ErrorKind::Conflict, ErrorKind::BadRequest];
        assert!(kinds.contains(&refused.kind), "{refused}");
    }
    assert!(south.store(|txn| txn.foreign_cities()).await.is_empty());
    ask(&south, "cv.import", batch(&good)).await.unwrap();
    let mut same_name = good.clone();
    same_name[0]["id"] = json!("another");
    same_name.truncate(1);
    let refused = ask(&south, "cv.import", batch(&same_name))
        .await
        .unwrap_err();
    assert!(
        refused.message.contains("another city called north"),
        "{refused}"
    );
    let mut same_id = good;
    same_id[0]["city"] = json!("nord");
    let refused = ask(&south, "cv.import", batch(&same_id)).await.unwrap_err();
    assert!(refused.message.contains("--as north"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn chains_of_a_city_are_bounded_in_bytes_and_forgotten_by_a_person() {
    let north = Scenario::new().start().await;
    record(&north, "claude", "ui", &[Outcome::Merged, Outcome::Merged]).await;
    let lines = exported(&north).await;
    let south = Scenario::new().with(|city| city.name = "south".into());
    let south = south.start().await;
    let name = lines[0]["city"].as_str().unwrap().to_owned();
    let full = ForeignCity {
        name: name.clone(),
        id: "here".to_owned(),
        imported_at: south.world.clock.now(),
        bytes: federation::BYTES_MAX,
    };
    south.store(move |txn| txn.put_foreign_city(&full)).await;
    let refused = ask(&south, "cv.import", batch(&lines)).await.unwrap_err();
    assert!(refused.message.contains("hd cv forget"), "{refused}");
    let forget = json!({ "city": name, "yes": true });
    for who in [
        CallerRole::OwnCommand(Rights::All),
        CallerRole::OwnCommand(Rights::Work),
    ] {
        let who = Caller::stand_in(4242, who);
        let refused = ask_as(&south, who, "cv.forget", forget.clone()).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
    }
    let told = ask(&south, "cv.forget", forget.clone()).await.unwrap();
    assert_eq!(told, json!({ "city": name, "entries": 0 }));
    assert_eq!(south.events(EventType::CvForgotten).await.len(), 1);
    let again = ask(&south, "cv.forget", forget).await.unwrap_err();
    assert_eq!(again.kind, ErrorKind::NotFound);
    let told = ask(&south, "cv.import", batch(&lines)).await.unwrap();
    assert_eq!(told["added"], 2);
}

#[tokio::test(start_paused = true)]
async fn only_a_person_imports() {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let scenario = scenario.with(|city| city.agents[0].rights = Rights::All);
    let city = scenario.start().await;
    let mayor = CallerRole::Agent(SessionId::new("city-mayor").unwrap());
    for who in [mayor, CallerRole::OwnCommand(Rights::All)] {
        let import = json!({ "header": { "format": "horde-cv", "version": 1, "city": "n", "id": "n" }, "lines": [] });
        let refused = ask_as(&city, Caller::stand_in(4242, who), "cv.import", import).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
    }
}

/// A city in which a label has several harnesses.
fn choosing(harnesses: &[&str]) -> Scenario {
    let named: Vec<_> = harnesses
        .iter()
        .map(|name| HarnessName::new(*name).unwrap())
        .collect();
    Scenario::new().with(|city| {
        let like = city.harnesses[&city.rigs[0].raiders.harness].clone();
        for name in &named {
            let mut own = like.clone();
            (own.name, own.account) = (name.clone(), name.to_string());
            own.patterns.limit = Pattern::new("at your limit").into_iter().collect();
            city.harnesses.insert(name.clone(), own);
        }
        city.rigs[0].raiders.routes = [("ui".to_owned(), named.clone())].into();
    })
}

/// Charges a relic with the label, and returns it with its harness.
async fn charge(city: &TestCity) -> (RelicId, String) {
    let made = ask(
        city,
        "relic.create",
        json!({ "title": "a", "label": ["ui"] }),
    )
    .await;
    let relic: RelicId = made.unwrap()["id"].as_str().unwrap().parse().unwrap();
    city.charge(&relic).await.unwrap();
    let of = relic.clone();
    let hook = city.store(move |txn| txn.hook_of_relic(&of)).await.unwrap();
    (relic, hook.harness.to_string())
}

#[tokio::test(start_paused = true)]
async fn harness_with_the_better_record_for_the_label_is_chosen_and_why_says_so() {
    use Outcome::{Merged, Rejected};
    let city = choosing(&["first", "second"]).start().await;
    record(&city, "first", "ui", &[Merged, Rejected, Rejected]).await;
    record(&city, "second", "ui", &[Merged, Merged, Rejected]).await;
    // Another label does not count.
    record(&city, "first", "db", &[Merged; 9]).await;
    let (relic, harness) = charge(&city).await;
    assert_eq!(harness, "second");
    let told = story(&city, relic.as_str()).await;
    let charged = told.iter().find(|(kind, _)| kind == "raider.charged");
    let data = &charged.unwrap().1;
    assert_eq!(
        data["why"],
        "second for label ui: best record (first 1 of 3, score 0.400; second 2 of 3, score 0.600)"
    );
    assert_eq!(
        (&data["identity"], &data["choice"]["turn"]),
        (&json!("second"), &json!(0))
    );
}

/// Skill routing never starves a newcomer, although it has no result as long as its attempts are in progress.
#[tokio::test(start_paused = true)]
async fn newcomer_gets_its_turn_and_the_count_outlives_the_supervisor() {
    let city = choosing(&["old", "new"]).start().await;
    record(&city, "old", "ui", &[Outcome::Merged; 30]).await;
    let mut chosen = Vec::new();
    for _ in 0..2 {
        chosen.push(charge(&city).await.1);
    }
    let clock = Arc::clone(&city.world.clock);
    let parts = city.crash().await;
    let city = choosing(&["old", "new"]).start_on(parts, clock).await;
    for _ in 0..2 {
        chosen.push(charge(&city).await.1);
    }
    assert_eq!(chosen, ["old", "old", "old", "new"]);
}

/// Charges that begin at the same time do not have the same number.
#[tokio::test(start_paused = true)]
async fn newcomer_gets_its_turn_among_charges_that_begin_together() {
    let city = choosing(&["old", "new"]).start().await;
    record(&city, "old", "ui", &[Outcome::Merged; 30]).await;
    let task = |n: usize| json!({ "title": format!("task {n}"), "labels": ["ui"] });
    let tasks: Vec<Value> = (0..4).map(task).collect();
    ask(&city, "run", json!({ "task": tasks })).await.unwrap();
    let hooks = city.store(|txn| txn.hooks(None)).await;
    let newcomers = hooks.iter().filter(|hook| hook.harness.as_str() == "new");
    assert_eq!((hooks.len(), newcomers.count()), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn harness_whose_account_is_parked_is_no_candidate() {
    let city = choosing(&["first", "second"]).start().await;
    record(&city, "first", "ui", &[Outcome::Merged; 5]).await;
    let (relic, harness) = charge(&city).await;
    assert_eq!(harness, "first");
    let hook = city
        .store(move |txn| txn.hook_of_relic(&relic))
        .await
        .unwrap();
    let (sessions, now) = (&city.parts.sessions, city.world.clock.now());
    let session = hook.raider.session_id();
    sessions.show(&session, Some("at your limit\n> "));
    sessions.set_last_activity(&session, Some(now));
    city.pass(PATROL * 3).await;
    assert_eq!(charge(&city).await.1, "second");
}

/// A program that is not installed has no result: it is neither preferred nor does it take the trials of others.
#[tokio::test(start_paused = true)]
async fn harness_that_cannot_start_is_tried_and_not_chosen_again() {
    let city = choosing(&["bad", "gone", "new"]).start().await;
    record(&city, "bad", "ui", &[Outcome::Rejected; 9]).await;
    let slot = city.world.city.rigs[0].raiders.names[0].clone();
    let raider = RaiderId::new(city.world.city.rigs[0].name.clone(), slot);
    let refused = StartError::NoProgram {
        program: "gone".into(),
        why: "not installed".into(),
    };
    (city.parts.sessions).refuse_start(&raider.session_id(), refused);
    let relic = city.relic("a").await;
    let mut row = city.relic_now(&relic).await;
    row.labels = vec!["ui".into()];
    city.store(move |txn| txn.put_relic(&row)).await;
    city.charge(&relic).await.unwrap_err();
    let of_gone = |txn: &mut dyn Txn| txn.chain_entries(&ChainOf::Own, "gone", 0, 9);
    let entries = city.store(of_gone).await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0].entry.kind, "charge_failed");
    let mut chosen = Vec::new();
    for _ in 0..3 {
        chosen.push(charge(&city).await.1);
    }
    assert_eq!(chosen, ["new", "new", "gone"]);
}

/// Results with other labels do not hide those with this one.
#[tokio::test(start_paused = true)]
async fn record_with_a_label_is_read_past_many_other_entries() {
    let city = choosing(&["old", "new"]).start().await;
    record(&city, "old", "ui", &[Outcome::Rejected]).await;
    record(&city, "old", "db", &[Outcome::Merged; 600]).await;
    assert_eq!(charge(&city).await.1, "new");
}

#[tokio::test(start_paused = true)]
async fn hashes_are_checked_only_on_request_and_imported_chains_have_no_sums_in_the_list() {
    let (north, south) = (Scenario::new().start().await, Scenario::new().start().await);
    record(&north, "script", "ui", &[Outcome::Merged]).await;
    let mut lines = exported(&north).await;
    lines[0]["city"] = json!("north");
    ask(&south, "cv.import", batch(&lines)).await.unwrap();
    record(&south, "script", "ui", &[Outcome::Merged]).await;
    for verify in [false, true] {
        let all = ask(&south, "cv", json!({ "verify": verify }))
            .await
            .unwrap();
        let [own, theirs] = [0, 1].map(|n| all["chains"][n].clone());
        assert_eq!(own["verified"], verify);
        assert_eq!(own["record"]["all"]["results"], 1);
        assert_eq!(
            (&theirs["city"], &theirs["record"]),
            (&json!("north"), &Value::Null)
        );
    }
    let one = ask(&south, "cv", json!({ "identity": "north:script" }))
        .await
        .unwrap();
    assert_eq!(one["chains"][0]["record"]["all"]["results"], 1);
}

#[tokio::test(start_paused = true)]
async fn export_ends_with_the_ends_of_its_chains() {
    let city = Scenario::new().start().await;
    record(&city, "script", "ui", &[Outcome::Merged; 2]).await;
    let lines = exported(&city).await;
    let last = lines[2].clone();
    let end = json!({ "heads": { "script": { "seq": 2, "hash": last["hash"] } } });
    assert_eq!((lines.len(), &lines[3]), (4, &end));
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    assert!(federation::read(&text.join("\n")).is_ok());
    let args = args::CvExport {
        identity: Some("codex".into()),
    };
    let unknown = cv::export(&city.world, args);
    assert_eq!(unknown.await.unwrap_err().kind, ErrorKind::NotFound);
}

/// Entries are never changed, so the sum over them is kept: a look reads the entries behind it.
#[tokio::test(start_paused = true)]
async fn long_chain_is_summed_once_and_read_from_the_kept_sum_on() {
    const KEY: &str = "cv-sum/1/claude";
    let city = Scenario::new().start().await;
    record(&city, "claude", "ui", &[Outcome::Merged; 450]).await;
    let entries = async |args: Value| {
        let told = ask(&city, "cv", args).await.unwrap();
        told["chains"][0]["record"]["entries"].as_u64().unwrap()
    };
    assert_eq!(entries(json!({})).await, 450);
    let kept = city.store(|txn| txn.get(KEY)).await.unwrap();
    let put = async |text: String| city.store(move |txn| txn.set(KEY, Some(&text))).await;
    // A mark in the kept sum shows that the entries under it are not read again.
    let mut marked: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(
        (&marked["seq"], &marked["record"]["entries"]),
        (&450.into(), &450.into())
    );
    marked["record"]["entries"] = json!(1_000_000);
    put(marked.to_string()).await;
    record(&city, "claude", "db", &[Outcome::Merged; 3]).await;
    assert_eq!(entries(json!({})).await, 1_000_003);
    let one = json!({ "identity": "claude", "limit": 500 });
    let shown = ask(&city, "cv", one.clone()).await.unwrap();
    assert_eq!(shown["entries"].as_array().unwrap().len(), 453);
    assert_eq!(entries(one).await, 1_000_003);
    // A verification reads every entry, and the sum of another chain is not taken.
    assert_eq!(entries(json!({ "verify": true })).await, 453);
    marked["hash"] = json!("another");
    put(marked.to_string()).await;
    assert_eq!(entries(json!({})).await, 453);
}

/// Entries have the beginning of a long label only.
#[tokio::test(start_paused = true)]
async fn route_of_a_label_over_64_characters_has_its_record() {
    use Outcome::{Merged, Rejected};
    let long: &'static str = "0123456789".repeat(7).leak();
    let city = choosing(&["first", "second"]).with(move |city| {
        let routes = &mut city.rigs[0].raiders.routes;
        let named = routes.remove("ui").unwrap();
        routes.insert(long.to_owned(), named);
    });
    let city = city.start().await;
    record(&city, "first", &long[..64], &[Rejected, Rejected]).await;
    record(&city, "second", &long[..64], &[Merged, Merged]).await;
    let made = ask(
        &city,
        "relic.create",
        json!({ "title": "a", "label": [long] }),
    )
    .await;
    let relic: RelicId = made.unwrap()["id"].as_str().unwrap().parse().unwrap();
    city.charge(&relic).await.unwrap();
    let told = story(&city, relic.as_str()).await;
    let charged = told.iter().find(|(kind, _)| kind == "raider.charged");
    let why = charged.unwrap().1["why"].as_str().unwrap();
    assert!(why.contains("second 2 of 2"), "{why}");
}
