//! Notes of handoffs: each belongs to one incarnation of a raider, and an unread one makes no crash a handoff.

use serde_json::{Value, json};

use super::agent_hooks::SECOND;
use super::rally::{hand_off, last_prompt, rally};
use crate::actors::ask;
use crate::actors::mail::{Charged, ChildRef};
use crate::domain::event::EventType;
use crate::domain::ids::RaiderId;
use crate::domain::message::{Body, Handoff};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::Txn;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity};

/// Leaves a note as a session does whose handoff did not begin, because the supervisor died in between.
async fn leave_note(city: &TestCity, charged: &Charged, text: &str) {
    let note = json!({
        "note": text, "relic": charged.relic, "incarnation": charged.incarnation, "totem_step": null,
    });
    let note: Handoff = serde_json::from_value(note).unwrap();
    let address = charged.raider.to_string();
    city.store(move |txn| txn.send(&address, &address, Body::Handoff(note.clone())))
        .await;
}

async fn unread(city: &TestCity, raider: &RaiderId) -> usize {
    let address = raider.to_string();
    let inbox = city.store(move |txn| txn.inbox(&address)).await;
    let notes = inbox.iter();
    notes
        .filter(|message| matches!(message.body, Body::Handoff(_)))
        .count()
}

/// Removes the raider and charges its relic again, which gets the same slot.
async fn recharged(city: &TestCity, charged: &Charged) -> Charged {
    city.nuke(&charged.raider, true).await.unwrap();
    city.pass(SECOND).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Open);
    let next = city.charge(&charged.relic).await.unwrap();
    city.pass(SECOND).await;
    assert_eq!(
        (&next.raider, &next.relic),
        (&charged.raider, &charged.relic)
    );
    assert_ne!(next.incarnation, charged.incarnation);
    next
}

/// Issue 17, 3: a fresh raider of the same slot was told the note of its predecessor as its own.
#[tokio::test(start_paused = true)]
async fn note_of_a_handoff_is_not_told_to_the_next_incarnation_on_the_same_relic() {
    let (city, charged) = Scenario::at_work().await;
    hand_off(&city, &charged, json!({ "message": "mind the gap" })).await;
    let told = rally(&city, &charged).await;
    assert_eq!(told["note"], "mind the gap");
    assert!(told["note_at"].is_string(), "{told}");
    let next = recharged(&city, &charged).await;
    let told = rally(&city, &next).await;
    assert_eq!(
        (&told["note"], &told["note_at"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(told["last_end"], Value::Null, "{told}");
}

/// A nuke before the next session starts left the note unread.
#[tokio::test(start_paused = true)]
async fn unread_note_goes_with_the_hook() {
    let (city, charged) = Scenario::at_work().await;
    leave_note(&city, &charged, "mind the gap").await;
    assert_eq!(unread(&city, &charged.raider).await, 1);
    recharged(&city, &charged).await;
    assert_eq!(unread(&city, &charged.raider).await, 0);
    let prompt = last_prompt(&city);
    assert!(!prompt.contains("mind the gap"), "{prompt}");
    assert!(!prompt.contains("handed off to you"), "{prompt}");
}

/// The version before stored no incarnation with notes.
#[tokio::test(start_paused = true)]
async fn unread_note_without_incarnation_is_for_the_raider_in_whose_time_it_was_sent() {
    let (city, charged) = Scenario::at_work().await;
    let note = json!({ "note": "of now", "relic": charged.relic, "totem_step": null });
    let note: Handoff = serde_json::from_value(note).unwrap();
    let address = charged.raider.to_string();
    // Sent before the charge, and left by a hook whose end did not take it along.
    let early = Handoff {
        note: Some("of before".into()),
        ..note.clone()
    };
    let to = address.clone();
    let send = move |txn: &mut dyn Txn| txn.send(&to, &to, Body::Handoff(early.clone()));
    city.store(send).await;
    let raider = charged.raider.clone();
    let later = city.world.clock.now() + SECOND;
    city.store(move |txn| {
        let mut hook = txn.hook(&raider)?.unwrap();
        hook.charged_at = later;
        txn.put_hook(&hook)
    })
    .await;
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(SECOND * 30).await;
    let prompt = last_prompt(&city);
    assert!(!prompt.contains("of before"), "{prompt}");
    city.store(move |txn| txn.send(&address, &address, Body::Handoff(note.clone())))
        .await;
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(SECOND * 30).await;
    let prompt = last_prompt(&city);
    assert!(prompt.contains("of now"), "{prompt}");
}

/// Only the first raider of a slot has no predecessor that may have written it.
#[tokio::test(start_paused = true)]
async fn stored_note_without_incarnation_is_told_to_the_first_incarnation_of_a_slot_only() {
    let (city, charged) = Scenario::at_work().await;
    let left = |charged: &Charged| {
        let key = format!("handoff/{}", charged.raider);
        let old = json!({ "relic": charged.relic, "note": "old" }).to_string();
        city.store(move |txn| txn.set(&key, Some(&old)))
    };
    left(&charged).await;
    let told = rally(&city, &charged).await;
    assert_eq!(
        (&told["note"], &told["note_at"]),
        (&json!("old"), &Value::Null)
    );
    let next = recharged(&city, &charged).await;
    left(&next).await;
    assert_eq!(rally(&city, &next).await["note"], Value::Null);
}

/// The same as the prompt says.
#[tokio::test(start_paused = true)]
async fn end_by_a_person_is_told_with_the_note_that_waited() {
    let (city, charged) = Scenario::at_work().await;
    leave_note(&city, &charged, "mind the gap").await;
    city.parts.sessions.interrupted_by_person(&charged.session);
    city.pass(SECOND * 30).await;
    let prompt = last_prompt(&city);
    assert!(
        prompt.contains("A person ended your last session"),
        "{prompt}"
    );
    assert!(prompt.contains("mind the gap"), "{prompt}");
    assert_eq!(rally(&city, &charged).await["last_end"], "ended_by_person");
    assert_eq!(unread(&city, &charged.raider).await, 0);
}

/// A session that left a note and crashed has crashed: what follows has fewer permissions, and the note.
#[tokio::test(start_paused = true)]
async fn session_after_a_crash_with_an_unread_note_has_the_note_and_fewer_permissions() {
    let city = Scenario::careful().start().await;
    let charged = city.worker("a").await;
    leave_note(&city, &charged, "mind the gap").await;
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(SECOND * 30).await;
    assert_eq!(city.starts(&charged.session), 2);
    assert!(city.is_careful());
    let prompt = last_prompt(&city);
    assert!(prompt.contains("mind the gap"), "{prompt}");
    assert!(prompt.contains("fewer permissions"), "{prompt}");
    assert!(!prompt.contains("handed off to you"), "{prompt}");
    assert_eq!(rally(&city, &charged).await["last_end"], "crash");
    assert_eq!(city.events(EventType::RaiderRespawned).await.len(), 1);
    assert_eq!(unread(&city, &charged.raider).await, 0);
}

/// A start that fails after a handoff is no crash.
#[tokio::test(start_paused = true)]
async fn failed_start_after_a_handoff_takes_no_permissions() {
    let city = Scenario::careful().start().await;
    let charged = city.worker("a").await;
    leave_note(&city, &charged, "mind the gap").await;
    let refused = StartError::Provider("no memory".into());
    city.parts.sessions.refuse_start(&charged.session, refused);
    let meant = ChildRef::raider(&charged.raider, charged.incarnation);
    ask::hand_off(&city.world, meant, None).await.unwrap();
    city.settle().await;
    city.parts.sessions.accept_starts();
    city.pass(SECOND * 61).await;
    assert!(city.runs(&charged.session) && !city.is_careful());
    assert!(last_prompt(&city).contains("handed off to you"));
    assert_eq!(rally(&city, &charged).await["last_end"], "handoff");
}
