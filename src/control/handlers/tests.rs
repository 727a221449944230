//! Tests of an operator's requests, in a city of fakes under the paused clock.

mod agent_hooks;
mod agent_steps;
mod agent_work;
mod approvals;
mod auto_charge;
mod automations;
mod branches;
mod callers;
mod cancel;
mod chains;
mod cv;
mod doctor;
mod doctor_work;
mod drums;
mod events;
mod every_operation;
mod fuzz;
mod handoff_notes;
mod imports;
mod parked_account;
mod pull_request;
mod rally;
mod rejections;
mod relic_limits;
mod relics;
mod resume;
mod run;
mod standing;
mod stuck_children;
mod totems;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::dispatch;
use crate::actors::mail::ChildState;
use crate::actors::store::StoreHandle;
use crate::control::protocol::{ControlError, ErrorKind, Op};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::control::snapshot::Published;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, RelicId};
use crate::domain::merge::MrState;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::RelicFilter;
use crate::ports::repo::RepoError;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity, raider};

const PATROL: Duration = Duration::from_secs(31);

/// Sends an operator's request, as it comes over the socket.
async fn ask(city: &TestCity, op: &str, args: Value) -> Result<Value, ControlError> {
    ask_as(city, Caller::stand_in(None, CallerRole::Operator), op, args).await
}

/// Sends a request of this caller, as it comes over the socket.
async fn ask_as(
    city: &TestCity,
    caller: Caller,
    op: &str,
    args: Value,
) -> Result<Value, ControlError> {
    let args = args.as_object().unwrap().clone();
    let op = Op::parse(op.parse().unwrap(), args).unwrap();
    dispatch(&Published::default(), &city.world.newest(), caller, op).await
}

/// Completes a relic with one raider; its merge request is under way.
async fn submitted(city: &TestCity) -> RelicId {
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    charged.relic
}

/// The remote's refusal blocked the relic; once the remote lets the target move, a retry lands the work.
#[tokio::test(start_paused = true)]
async fn a_failed_merge_request_that_blocked_its_relic_can_be_retried() {
    let city = Scenario::new().start().await;
    let refused = RepoError::Rejected("protected branch".into());
    city.parts.repo.fail("land", refused);
    let relic = submitted(&city).await;
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Blocked);
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Failed);
    ask(&city, "mq.retry", json!({ "mr": mr.id }))
        .await
        .unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.mr(&relic).await.unwrap().state, MrState::Merged);
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Closed);
    assert_eq!(city.parts.repo.landings(), 1);
    assert_eq!(city.events(EventType::RaiderCharged).await.len(), 1);
    let again = ask(&city, "mq.retry", json!({ "mr": mr.id })).await;
    assert!(again.is_err(), "it has landed");
}

/// `relic close` ends the work, also if it is in the queue already.
#[tokio::test(start_paused = true)]
async fn closing_a_relic_takes_it_out_of_the_queue() {
    let city = Scenario::new().gate("test").start().await;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    city.parts.repo.interlude("run_gate", move || {
        // Returns also when the test ends.
        let _told = wait.lock().unwrap().recv();
    });
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    let runs = || city.parts.repo.count("run_gate") == 1;
    city.until("the gate runs", runs).await;
    let close = json!({ "relic": charged.relic, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    go.send(()).unwrap();
    city.pass(PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Rejected);
    assert_eq!(city.parts.repo.landings(), 0);
    assert_eq!(city.events(EventType::MrRejected).await.len(), 1);
    // The work is kept: a reopened relic continues from it.
    assert_eq!(city.parts.repo.pins(), [mr.id]);
    assert_eq!(city.parts.repo.remote(&mr.branch), Some(mr.head));
    assert!(city.parts.repo.names().is_empty(), "the slot is free");
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Closed);
    assert_eq!(relic.branch, Some(mr.branch));
}

/// A gate that tests withdrawn work ends at once: it would hold the queue for up to its timeout.
#[tokio::test(start_paused = true)]
async fn closing_a_relic_ends_its_gate() {
    let city = Scenario::new().gate("test").start().await;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    city.parts.repo.interlude("run_gate", move || {
        let _stopped = wait.lock().unwrap().recv_timeout(crate::testing::PATIENCE);
    });
    city.parts.repo.interlude("stop_gate", move || {
        let _ended = go.send(());
    });
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    let runs = || city.parts.repo.count("run_gate");
    city.until("the gate runs", || runs() == 1).await;
    let close = json!({ "relic": charged.relic, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    city.until("the gate is stopped", || {
        city.parts.repo.count("stop_gate") == 1
    })
    .await;
    city.pass(PATROL).await;
    assert_eq!(runs(), 1, "neither repeated nor compared with the target");
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Rejected);
    assert_eq!(city.parts.repo.landings(), 0);
    assert!(city.events(EventType::ForgeRed).await.is_empty());
}

/// `run` reports every relic that was made, so that a second `run` does not duplicate the work.
#[tokio::test(start_paused = true)]
async fn run_checks_first_and_tells_of_every_relic_afterwards() {
    let city = Scenario::new().start().await;
    let unknown = json!({ "task": ["one", "two"], "harness": "nope" });
    let refused = ask(&city, "run", unknown).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotFound);
    let relics = || city.store(|txn| txn.relics(&RelicFilter::default()));
    assert!(relics().await.is_empty(), "nothing was made");

    let broken = RepoError::Failed("no space for a sandbox".into());
    city.parts.repo.fail("make_sandbox", broken);
    let run = json!({ "task": ["one", "two"] });
    let told = ask(&city, "run", run).await.unwrap();
    let told = told["relics"].as_array().unwrap();
    let (failed, charged): (Vec<_>, Vec<_>) =
        told.iter().partition(|relic| relic["error"].is_object());
    assert_eq!((failed.len(), charged.len()), (1, 1));
    assert!(charged[0]["raider"].is_string());
    assert_eq!(failed[0]["error"]["kind"], "internal");
    let note = failed[0]["note"].as_str().unwrap();
    assert!(note.contains("no space"), "{note}");
    let mut ids: Vec<_> = told.iter().map(|relic| relic["relic"].clone()).collect();
    ids.sort_by_key(ToString::to_string);
    let made: Vec<_> = relics().await.iter().map(|relic| json!(relic.id)).collect();
    assert_eq!(ids, made);
}

/// A missing free slot is no failure; a failed charge is.
#[tokio::test(start_paused = true)]
async fn run_tells_a_session_that_does_not_start_from_a_rig_that_is_full() {
    let city = Scenario::new().rig(|rig| rig.raiders.max = 1).start().await;
    let refused = StartError::Provider("no memory".into());
    let session = raider("Toast").session_id();
    city.parts.sessions.refuse_start(&session, refused);
    let told = ask(&city, "run", json!({ "task": ["one"] })).await.unwrap();
    assert_eq!(told["relics"][0]["error"]["kind"], "conflict", "{told}");
    let told = ask(&city, "run", json!({ "task": ["two", "three"] })).await;
    let told = told.unwrap();
    let relics = told["relics"].as_array().unwrap();
    let waits = relics.iter().filter(|relic| relic["raider"].is_null());
    assert_eq!(waits.count(), 1, "{told}");
    assert!(
        relics.iter().all(|relic| relic["error"].is_null()),
        "{told}"
    );
}

/// A charge that cannot be undone holds its slot without a hook, and is found by its name.
#[tokio::test(start_paused = true)]
async fn a_charge_that_cannot_be_taken_back_is_repaired_by_its_name() {
    let (city, relic) = Scenario::whose_set_up_fails().await;
    let broken = RepoError::Failed("index is damaged".into());
    city.parts.repo.break_op("measure", broken);
    city.charge(&relic).await.unwrap_err();
    city.settle().await;
    assert!(city.hook(&raider("Toast")).await.is_none());
    let nobody = ask(&city, "raider.repair", json!({ "name": "Ash" })).await;
    assert_eq!(nobody.unwrap_err().kind, ErrorKind::NotFound);
    let repaired = ask(&city, "raider.repair", json!({ "name": "Toast" })).await;
    assert_eq!(repaired.unwrap()["was"], "index is damaged");
    city.parts.repo.mend("measure");
    city.pass(PATROL).await;
    assert_eq!(city.sagas().await, 0);
}

/// An empty task makes no relic.
#[tokio::test(start_paused = true)]
async fn empty_tasks_are_bad_requests() {
    let city = Scenario::new().start().await;
    for blank in ["", " \n "] {
        let run = json!({ "task": ["one", blank] });
        let create = json!({ "title": blank });
        for (op, args) in [("run", run), ("relic.create", create)] {
            let refused = ask(&city, op, args).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::BadRequest, "{op}");
        }
    }
    let relics = city.store(|txn| txn.relics(&RelicFilter::default())).await;
    assert!(relics.is_empty());
}

/// Waiting work is counted, and marked as waiting for a person if `auto_charge` is off.
#[tokio::test(start_paused = true)]
async fn relics_that_no_charge_starts_are_reported_and_counted() {
    let city = Scenario::new().rig(|rig| rig.raiders.max = 1).start().await;
    let told = ask(&city, "run", json!({ "task": ["one", "two", "three"] })).await;
    let told = told.unwrap();
    let waits = told["relics"].as_array().unwrap().iter();
    let waits = waits.filter(|relic| relic["auto_charge"] == false);
    assert_eq!(waits.count(), 2, "{told}");
    let published = Published::default();
    let status = super::status::status(&published, &city.world, Duration::ZERO);
    let status: Value = serde_json::from_str(&status.await.unwrap()).unwrap();
    let counted = json!({ "open": 2, "hooked": 1, "blocked": 0, "deferred": 0 });
    assert_eq!(status["rigs"][0]["relics"], counted);
}

/// A completion whose branch lost its commits cannot be approved, but can be rejected.
#[tokio::test(start_paused = true)]
async fn merge_request_that_waits_for_no_review_cannot_be_approved_but_rejected() {
    let (city, charged) = Scenario::at_work().await;
    city.loses_commits_during_its_push(&charged).await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    let raised = city.escalations().await;
    let way = format!("hd mq reject {}", mr.id);
    assert!(raised[0].body.contains(&way), "{}", raised[0].body);
    let which = json!({ "mr": mr.id });
    let refused = ask(&city, "mq.approve", which.clone()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains("lost its commits"), "{refused}");
    let reject = json!({ "mr": mr.id, "note": "again", "yes": true });
    let said = ask(&city, "mq.reject", reject).await.unwrap();
    assert_eq!(said["decision"], "rejected");
    let gone = ask(&city, "mq.approve", which).await.unwrap_err();
    assert!(gone.message.contains("it is rejected"), "{gone}");
    city.pass(PATROL).await;
    let hook = city.hook(&charged.raider).await;
    let again = hook.is_none_or(|hook| hook.incarnation != charged.incarnation);
    assert!(again, "its slot was held for ever");
}

/// Its branch may be gone from the remote, and the next raider is told of the commit.
#[tokio::test(start_paused = true)]
async fn head_of_an_attempt_that_a_person_rejects_is_pinned() {
    let human = |rig: &mut crate::domain::city::Rig| rig.forge.review_human = true;
    let city = Scenario::new().rig(human).start().await;
    let relic = submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap();
    assert!(city.parts.repo.pins().is_empty());
    let reject = json!({ "mr": mr.id, "note": "again", "yes": true });
    ask(&city, "mq.reject", reject.clone()).await.unwrap();
    assert_eq!(city.parts.repo.pins(), std::slice::from_ref(&mr.id));
    ask(&city, "mq.reject", reject).await.unwrap_err();
}

/// A note is all that the raider learns.
#[tokio::test(start_paused = true)]
async fn rejection_without_a_note_is_refused_with_a_hint() {
    let human = |rig: &mut crate::domain::city::Rig| rig.forge.review_human = true;
    let city = Scenario::new().rig(human).start().await;
    let relic = submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap();
    for note in [json!(null), json!(" \n")] {
        let reject = json!({ "mr": mr.id, "note": note, "yes": true });
        let refused = ask(&city, "mq.reject", reject).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest);
        assert!(refused.hint.unwrap().contains("--note"));
    }
    assert!(city.mr(&relic).await.unwrap().awaits_person());
    let shown = ask(&city, "mq.show", json!({ "mr": relic })).await.unwrap();
    assert_eq!(shown["id"], mr.id.as_str(), "found by its relic");
}

/// The log of a removed raider is read by its slot's name, as long as the log exists.
#[tokio::test(start_paused = true)]
async fn the_log_of_a_raider_that_is_gone_can_be_read() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.sessions.print(&charged.session, "what I did");
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    assert!(city.hook(&charged.raider).await.is_none());
    for name in ["Toast", "horde/Toast"] {
        let log = ask(&city, "logs", json!({ "name": name })).await.unwrap();
        assert!(log["text"].as_str().unwrap().contains("what I did"));
        assert_eq!(log["name"], "horde/raiders/Toast");
    }
    for nobody in ["Nux", "other/Toast"] {
        let unknown = ask(&city, "logs", json!({ "name": nobody })).await;
        assert_eq!(unknown.unwrap_err().kind, ErrorKind::NotFound);
    }
}

async fn story(city: &TestCity, name: &str) -> Vec<(String, Value)> {
    let told = ask(city, "why", json!({ "name": name })).await.unwrap();
    let events = told["events"].as_array().unwrap().iter();
    let brief = |event: &Value| {
        let kind = event["type"].as_str().unwrap().to_owned();
        (kind, event["data"].clone())
    };
    events.map(brief).collect()
}

/// A relic's story includes its raider's events, and a rig's story all events in the rig.
#[tokio::test(start_paused = true)]
async fn why_tells_of_deaths_and_failed_charges() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let session = raider("Toast").session_id();
    let refused = StartError::Provider("no memory".into());
    city.parts.sessions.refuse_start(&session, refused);
    city.charge(&relic).await.unwrap_err();
    let shown = ask(&city, "relic.show", json!({ "relic": relic })).await;
    assert_eq!(shown.unwrap()["raider"], Value::Null);
    let charged = city.charge(&relic).await.unwrap();
    city.parts.sessions.exit(&charged.session, 0);
    city.pass(PATROL).await;
    let told = story(&city, relic.as_str()).await;
    let failed = told.iter().find(|(_, data)| data["error"].is_string());
    let failed = failed.expect("the charge that failed").1["error"].to_string();
    assert!(failed.contains("no memory"), "{failed}");
    let crashed = told.iter().find(|(kind, _)| kind == "agent.crashed");
    let why = &crashed.expect("the death").1["why"];
    assert_eq!(why, "ended without an accepted hd done or outcome");
    let rig = story(&city, "horde").await;
    assert!(rig.iter().any(|(kind, _)| kind == "raider.charged"));
}

/// A class 4 zombie: a raider that keeps ending without a declaration.
#[tokio::test(start_paused = true)]
async fn closing_the_relic_of_a_quarantined_raider_frees_its_slot() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let charged = city.charge(&relic).await.unwrap();
    let id = ChildId::Raider(charged.raider.clone());
    while city.state(&id).await != Some(ChildState::Quarantined) {
        city.parts.sessions.exit(&charged.session, 0);
        city.pass(Duration::from_secs(10)).await;
    }
    let close = json!({ "relic": relic, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    city.settle().await;
    assert!(city.hook(&charged.raider).await.is_none());
    assert!(city.parts.repo.names().is_empty());
    assert!(city.view(&id).await.is_none());
}

/// A slot that the safety protocol holds is free once a person decides, and the refusal tells the choices.
#[tokio::test(start_paused = true)]
async fn work_of_a_closed_relic_is_kept_and_the_escalation_names_the_way_out() {
    let (city, charged) = Scenario::at_work().await;
    let close = json!({ "relic": charged.relic, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    city.pass(PATROL).await;
    let raised = city.escalations().await;
    let way = "hd raider nuke horde/raiders/Toast --salvage";
    assert!(raised[0].body.contains(way), "{}", raised[0].body);
    let name = json!({ "name": "Toast" });
    let shown = ask(&city, "raider.show", name.clone()).await.unwrap();
    let call = json!({ "id": raised[0].id, "problem": raised[0].title });
    assert_eq!(shown["escalation"], call, "its row names the escalation");
    let close = json!({ "relic": raised[0].id, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    let shown = ask(&city, "raider.show", name).await.unwrap();
    assert_eq!(shown["escalation"], Value::Null);
    city.nuke(&charged.raider, true).await.unwrap();
    assert!(city.hook(&charged.raider).await.is_none());
}
