//! Work that a person rejected and that went back to its live session: what the rejection leaves when that session ends, is
//! removed, or declares the same again.

use std::time::Duration;

use super::PATROL;
use crate::actors::mail::Charged;
use crate::actors::sagas::rejection;
use crate::domain::asker::Asker;
use crate::domain::event::EventType;
use crate::domain::ids::Oid;
use crate::domain::merge::MrState;
use crate::domain::relic::RelicStatus;
use crate::testing::world::{Scenario, TestCity};

const HOUR: Duration = Duration::from_secs(3600);

/// Has an agent write this line into its outcome file, at this distance from now.
fn write(city: &TestCity, charged: &Charged, outcome: &str, later: Duration) {
    let dir = (city.world.city).task_dir(&charged.raider, &charged.relic, charged.incarnation);
    city.parts.tasks.stamp(&dir, city.world.clock.now() + later);
    city.parts.tasks.write_outcome(&dir, outcome);
}

fn passed(charged: &Charged) -> String {
    format!(r#"{{"id":"{}","outcome":"passed"}}"#, charged.relic)
}

/// Has an agent pass its work by its outcome file, and a person reject it while the session lives. Returns the rejected head.
async fn returned() -> (TestCity, Charged, Oid) {
    let scenario = Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = 3 * HOUR;
    });
    let city = scenario.start().await;
    let charged = city.worker("a").await;
    write(&city, &charged, &passed(&charged), Duration::ZERO);
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    let rejected = rejection::reject(&city.world, mr.id, "use --json".into(), Asker::person());
    assert!(rejected.await.unwrap().back_to.is_some());
    city.settle().await;
    (city, charged, mr.head)
}

fn last_prompt(city: &TestCity) -> String {
    city.parts.tasks.prompts().pop().unwrap()
}

/// The relic stayed hooked to the removed raider for good: the rejected merge request was taken for queued work.
#[tokio::test(start_paused = true)]
async fn nuke_after_a_rejection_opens_the_relic_for_a_raider_that_is_shown_the_rejected_work() {
    let (city, charged, head) = returned().await;
    city.nuke(&charged.raider, false).await.unwrap();
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!((relic.status, relic.assignee), (RelicStatus::Open, None));
    let fresh = city.charge(&charged.relic).await.unwrap();
    city.settle().await;
    assert_ne!(fresh.branch, charged.branch);
    let prompt = last_prompt(&city);
    let (log, on) = (format!("{head} --not HEAD` shows"), &charged.branch);
    assert!(prompt.contains("use --json"), "{prompt}");
    assert!(prompt.contains(&log), "{prompt}");
    assert!(
        prompt.contains(&format!("branch {on}) and rejected it")),
        "{prompt}"
    );
    assert!(!prompt.contains("on the same branch"), "{prompt}");
}

/// The file still says `passed`: the fresh session was told that the work is finished, and stopped.
#[tokio::test(start_paused = true)]
async fn session_after_a_rejection_is_not_told_that_its_old_outcome_finishes_the_work() {
    let (city, charged, _) = returned().await;
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(4 * PATROL).await;
    assert_eq!(city.starts(&charged.session), 2);
    let prompt = last_prompt(&city);
    assert!(prompt.contains("use --json"), "{prompt}");
    assert!(prompt.contains("Now continue the work"), "{prompt}");
    assert!(!prompt.contains("The work is finished"), "{prompt}");
}

/// It was dropped with a line in the log, as if it passed by itself.
#[tokio::test(start_paused = true)]
async fn outcome_file_that_declares_the_rejected_head_again_is_reported_to_its_session() {
    let no_change = r#"{"outcome":"passed","no_change":true,"reason":"it is right"}"#;
    for (is_same, says) in [
        (true, "rejected with the same head"),
        (false, "asked for a change"),
    ] {
        let (city, charged, _) = returned().await;
        if !is_same {
            (city.parts.repo).change(&charged.raider.name, |facts| facts.ahead = 0);
        }
        let again = if is_same {
            passed(&charged)
        } else {
            no_change.to_owned()
        };
        write(&city, &charged, &again, HOUR);
        city.settle().await;
        let told = city.events(EventType::RaiderNudged).await;
        assert_eq!(told.len(), 1, "{told:?}");
        let why = told[0].data["why"].as_str().unwrap();
        assert!(why.contains(says), "{why}");
        let typed = city.parts.sessions.sent(&charged.session);
        assert!(
            typed.iter().any(|text| format!("{text:?}").contains(says)),
            "{typed:?}"
        );
    }
}

/// It was stalled for good: nothing started it, no person was called, and `hd raider resume` did nothing.
#[tokio::test(start_paused = true)]
async fn session_that_ends_after_declaring_the_rejected_head_again_is_started_with_the_reason() {
    let (city, charged, _) = returned().await;
    write(&city, &charged, &passed(&charged), HOUR);
    city.parts.sessions.exit(&charged.session, 0);
    city.pass(2 * PATROL).await;
    assert!(city.runs(&charged.session));
    let prompt = last_prompt(&city);
    assert!(
        prompt.contains("was rejected with the same head"),
        "{prompt}"
    );
    assert!(!prompt.contains("The work is finished"), "{prompt}");
    // It insists: a person is called.
    for times in 2..8 {
        write(&city, &charged, &passed(&charged), HOUR * times);
        city.parts.sessions.exit(&charged.session, 0);
        city.pass(2 * PATROL).await;
    }
    let called = city.escalations().await;
    let refused = |relic: &crate::domain::relic::Relic| relic.body.contains("with the same head");
    assert!(called.iter().any(refused), "{called:?}");
    // A changed head is taken.
    city.parts.repo.commit(&charged.raider.name);
    write(&city, &charged, &passed(&charged), HOUR * 9);
    city.pass(2 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!((mr.state, mr.awaits_person()), (MrState::Reviewing, true));
}

/// It had no assignee after the nuke, and was charged automatically.
#[tokio::test(start_paused = true)]
async fn nuke_gives_a_relic_back_to_the_assignee_that_it_had_before_the_charge() {
    let city = Scenario::new().start().await;
    let id = city.relic("a").await;
    let mut relic = city.relic_now(&id).await;
    relic.assignee = Some("alice".to_owned());
    city.store(move |txn| txn.put_relic(&relic)).await;
    let charged = city.charge(&id).await.unwrap();
    city.nuke(&charged.raider, true).await.unwrap();
    let relic = city.relic_now(&id).await;
    let back = (relic.status, relic.assignee.as_deref());
    assert_eq!(back, (RelicStatus::Open, Some("alice")));
}
