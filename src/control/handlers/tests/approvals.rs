//! `hd mq approve`: an approval is of the head that a person was shown.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::domain::question::Pattern;
use crate::ports::repo::RepoError;
use crate::testing::world::{Parts, start_clock};

/// A person may mean commits that the raider has not submitted.
#[tokio::test(start_paused = true)]
async fn approval_while_commits_are_not_submitted_names_the_head() {
    let human = |rig: &mut crate::domain::city::Rig| rig.forge.review_human = true;
    let city = Scenario::new().rig(human).start().await;
    let relic = submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap();
    let later = city.parts.repo.commit(&mr.raider.name);
    let approve = ask(&city, "mq.approve", json!({ "mr": mr.id }));
    let refused = approve.await.unwrap_err();
    assert!(refused.message.contains(later.as_str()), "{refused}");
    let named = json!({ "mr": mr.id, "head": mr.head });
    ask(&city, "mq.approve", named).await.unwrap();
    city.pass(PATROL).await;
    assert!(city.parts.repo.has_landed(&mr.head));
}

#[tokio::test(start_paused = true)]
async fn approve_answers_with_the_decision() {
    let human = |rig: &mut crate::domain::city::Rig| rig.forge.review_human = true;
    let city = Scenario::new().rig(human).start().await;
    let relic = submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap();
    let said = ask(&city, "mq.approve", json!({ "mr": mr.id })).await;
    let said = said.unwrap();
    assert_eq!(said["decision"], "approved");
    let note = said["note"].as_str().unwrap();
    assert!(!note.contains("needs a review"), "{note}");
    city.pass(PATROL).await;
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Closed);
    assert_eq!(city.mr(&relic).await.unwrap().note, None);
}

/// The work without a session waits for a charge then, and nothing had said so.
#[tokio::test(start_paused = true)]
async fn rejection_says_when_a_pause_of_charging_holds_the_work_up() {
    for pauses in [false, true] {
        let human = |rig: &mut crate::domain::city::Rig| {
            rig.forge.review_human = true;
            rig.witness.review_hold = Duration::ZERO;
        };
        let city = Scenario::new().rig(human).start().await;
        let relic = submitted(&city).await;
        if pauses {
            ask(&city, "charge.pause", json!({})).await.unwrap();
        }
        let mr = city.mr(&relic).await.unwrap();
        let reject = json!({ "mr": mr.id, "note": "no", "yes": true });
        let told = ask(&city, "mq.reject", reject).await.unwrap();
        assert_eq!(told["back_to"], serde_json::Value::Null, "{told}");
        assert_eq!(told["charge_paused"], pauses);
    }
}

/// A session that stays for its review submits later commits to the same merge request.
#[tokio::test(start_paused = true)]
async fn approval_of_a_replaced_head_must_name_it() {
    let human = |rig: &mut crate::domain::city::Rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = Duration::from_secs(3600);
    };
    let city = Scenario::new().rig(human).start().await;
    let relic = submitted(&city).await;
    let shown = city.mr(&relic).await.unwrap();
    city.parts.repo.commit(&shown.raider.name);
    city.completed(&shown.raider).await.unwrap();
    city.pass(PATROL * 4).await;
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.id, shown.id);
    assert_ne!(mr.head, shown.head);
    let way = format!("hd mq approve {} --head {}", mr.id, mr.head.short());
    let note = mr.note.unwrap();
    assert!(note.contains(&way), "{note}");
    let approve = ask(&city, "mq.approve", json!({ "mr": mr.id }));
    let refused = approve.await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    let hint = refused.hint.unwrap();
    assert!(hint.contains(&way), "{hint}");
    assert!(hint.contains(&format!("hd diff {}", mr.id)), "{hint}");
    let stale = json!({ "mr": mr.id, "head": shown.head });
    ask(&city, "mq.approve", stale).await.unwrap_err();
    assert!(city.mr(&relic).await.unwrap().awaits_person());
    let named = json!({ "mr": mr.id, "head": mr.head.short() });
    ask(&city, "mq.approve", named).await.unwrap();
    city.pass(PATROL).await;
    assert!(city.parts.repo.has_landed(&mr.head));
}

/// An approval of the old head would be one of a branch that has the later commits.
#[tokio::test(start_paused = true)]
async fn approval_while_later_commits_are_submitted_is_refused() {
    let human = |rig: &mut crate::domain::city::Rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = Duration::from_secs(3600);
    };
    let city = Scenario::new().rig(human).start().await;
    let relic = submitted(&city).await;
    let shown = city.mr(&relic).await.unwrap();
    let later = city.parts.repo.commit(&shown.raider.name);
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("push_branch", away);
    city.completed(&shown.raider).await.unwrap();
    city.settle().await;
    let named = json!({ "mr": shown.id, "head": shown.head });
    for approval in [json!({ "mr": shown.id }), named] {
        let refused = ask(&city, "mq.approve", approval).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict, "{refused}");
        let why = "their push does not succeed: the remote cannot be reached: away";
        assert!(refused.message.contains(why), "{refused}");
    }
    assert!(city.mr(&relic).await.unwrap().awaits_person());
    city.parts.repo.mend("push_branch");
    city.pass(PATROL * 2).await;
    let approve = ask(&city, "mq.approve", json!({ "mr": shown.id }));
    approve.await.unwrap_err();
    let named = json!({ "mr": shown.id, "head": later });
    ask(&city, "mq.approve", named).await.unwrap();
    city.pass(PATROL).await;
    assert!(city.parts.repo.has_landed(&later));
    assert!(!city.parts.repo.has_landed(&shown.head));
}

/// Its relic is a record of the forge: "closed" would be said, and the work would land.
#[tokio::test(start_paused = true)]
async fn merge_request_is_not_closed_or_reopened_by_its_relic() {
    let human = |rig: &mut crate::domain::city::Rig| rig.forge.review_human = true;
    let city = Scenario::new().rig(human).start().await;
    let relic = submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap();
    for op in ["relic.close", "relic.reopen"] {
        let args = match op {
            "relic.close" => json!({ "relic": mr.id, "yes": true }),
            _ => json!({ "relic": mr.id }),
        };
        let refused = ask(&city, op, args).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict, "{op}");
        let of = format!("is the merge request of {relic}");
        assert!(refused.message.contains(&of), "{refused}");
        let hint = refused.hint.unwrap();
        assert!(
            hint.contains(&format!("hd mq reject {} --note", mr.id)),
            "{hint}"
        );
    }
    ask(&city, "mq.approve", json!({ "mr": mr.id }))
        .await
        .unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.status(&relic).await, RelicStatus::Closed);
    let reopen = ask(&city, "relic.reopen", json!({ "relic": mr.id }));
    let refused = reopen.await.unwrap_err();
    assert_eq!((refused.kind, refused.hint), (ErrorKind::Conflict, None));
    let close = json!({ "relic": mr.id });
    ask(&city, "relic.close", close.clone()).await.unwrap();
    // An earlier version reopened it.
    let id = mr.id.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&id)?;
        (relic.status, relic.closed) = (RelicStatus::Open, None);
        txn.put_relic(&relic)
    })
    .await;
    ask(&city, "relic.close", close).await.unwrap();
    assert_eq!(city.status(&mr.id).await, RelicStatus::Closed);
}

/// The rejection was carried out, and the answer was an error: that its note was delivered could not be stored.
#[tokio::test(start_paused = true)]
async fn rejection_whose_delivery_cannot_be_recorded_says_both() {
    let clock = start_clock();
    let mut parts = Parts::new(&clock);
    let full = Arc::<AtomicBool>::default();
    parts.store = StoreHandle::full_while(&clock, &full);
    let scenario = Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = Duration::from_secs(3600);
    });
    let scenario = scenario.with(|city| {
        for harness in city.harnesses.values_mut() {
            harness.patterns.input = Pattern::new("^> ").into_iter().collect();
        }
    });
    let city = scenario.start_on(parts, clock).await;
    let relic = submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap();
    let session = city.hook(&mr.raider).await.unwrap().raider.session_id();
    city.parts.sessions.show(&session, Some("> "));
    let own = Arc::clone(&full);
    (city.parts.sessions).interlude("send", move || own.store(true, Ordering::SeqCst));
    let reject = json!({ "mr": mr.id, "note": "no", "yes": true });
    let told = ask(&city, "mq.reject", reject).await.unwrap();
    full.store(false, Ordering::SeqCst);
    assert_eq!(told["decision"], "rejected");
    let delivery = &told["delivery"];
    assert_eq!(delivery["state"], "delivered", "{told}");
    let why = delivery["why"].as_str().unwrap();
    assert!(why.starts_with("that could not be recorded: "), "{why}");
    assert_eq!(city.mr(&relic).await.unwrap().state, MrState::Rejected);
}
