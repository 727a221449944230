//! Finished work that waits for a review: how long its raider is kept, and that a person is told.

use std::time::Duration;

use super::PATROL;
use crate::actors::mail::Charged;
use crate::actors::sagas::rejection;
use crate::domain::asker::Asker;
use crate::domain::city::Rig;
use crate::domain::event::EventType;
use crate::domain::ids::Oid;
use crate::domain::merge::{MrState, Review};
use crate::domain::message;
use crate::domain::relic::RelicStatus;
use crate::domain::review_paths::ReviewPaths;
use crate::ports::repo::RepoError;
use crate::testing::fake_repo::gate_run;
use crate::testing::jumpy_clock::JumpyClock;
use crate::testing::world::{Scenario, TestCity, rig};

const HOUR: Duration = Duration::from_secs(3600);

fn reviewed() -> Scenario {
    Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = 3 * HOUR;
        rig.witness.keep_dirty = HOUR;
    })
}

async fn finished(city: &TestCity) -> Charged {
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
    charged
}

async fn approve(city: &TestCity, charged: &Charged) {
    let mut mr = city.mr(&charged.relic).await.unwrap();
    mr.review = Review::Approved;
    city.store(move |txn| txn.put_mr(&mr)).await;
    city.world.nudge(&message::witness(&rig()));
    city.pass(PATROL).await;
}

#[tokio::test(start_paused = true)]
async fn raider_with_unreviewed_work_goes_after_review_hold_and_its_merge_request_waits_on() {
    let city = reviewed().start().await;
    let charged = finished(&city).await;
    city.pass_hours(3 * HOUR - PATROL).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    // The present configuration applies.
    city.reload(|city| city.rigs[0].witness.review_hold = 4 * HOUR)
        .await;
    city.pass_hours(HOUR - PATROL).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    city.pass(3 * PATROL).await;
    assert!(city.parts.repo.names().is_empty());
    assert!(city.hook(&charged.raider).await.is_none(), "a free slot");
    // It is clean and pushed, but its branch may be deleted: its head is kept as well.
    assert_eq!(city.parts.repo.salvages().len(), 1);
    let nuked = city.events(EventType::RaiderNuked).await;
    assert_eq!(nuked[0].cause, "review_hold");
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Reviewing);
    approve(&city, &charged).await;
    assert!(city.parts.repo.has_landed(&mr.head));
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert!(city.escalations().await.is_empty());
}

/// A nuke leaves the work to its open merge request.
/// Weakness W12 of an earlier system: merge requests were looked up with the highest priority only, and nothing kept
/// two from claiming the same work.
#[tokio::test(start_paused = true)]
async fn nuke_sees_an_open_merge_request_of_any_priority() {
    for priority in [0, 2, 4] {
        let city = reviewed().start().await;
        let charged = city.worker("a").await;
        let mut relic = city.relic_now(&charged.relic).await;
        relic.priority = priority;
        city.store(move |txn| txn.put_relic(&relic)).await;
        city.completed(&charged.raider).await.unwrap();
        city.settle().await;
        city.nuke(&charged.raider, false).await.unwrap();
        assert!(city.hook(&charged.raider).await.is_none(), "{priority}");
        let mr = city.mr(&charged.relic).await.unwrap();
        assert_eq!(mr.priority, priority);
        assert!(mr.awaits_person(), "{mr:?}");
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
        city.charge(&charged.relic).await.unwrap_err();
        approve(&city, &charged).await;
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
        assert_eq!(city.parts.repo.landings(), 1);
    }
}

/// A person tried something out in it.
#[tokio::test(start_paused = true)]
async fn sandbox_with_work_at_risk_is_kept_and_finally_salvaged() {
    let city = reviewed().start().await;
    let charged = finished(&city).await;
    city.parts.repo.dirty(&charged.raider.name, "tried.txt");
    city.pass_hours(4 * HOUR - PATROL).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(city.escalations().await.len(), 1);
    city.pass(3 * PATROL).await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(city.parts.repo.salvages().len(), 1);
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!(
        (relic.status, relic.charge_failures),
        (RelicStatus::Hooked, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_ends_no_review_before_its_time_or_after() {
    for jump in [48 * 3600, -48 * 3600] {
        let city = Scenario::new().start().await;
        let clock = JumpyClock::on(city.world.clock.clone());
        let city = reviewed().start_on(city.crash().await, clock.clone()).await;
        finished(&city).await;
        city.pass(PATROL).await;
        clock.jump(jump);
        city.pass_hours(3 * HOUR - 3 * PATROL).await;
        assert_eq!(city.parts.repo.names(), ["Toast"], "{jump}");
        city.pass(4 * PATROL).await;
        assert!(city.parts.repo.names().is_empty(), "{jump}");
    }
}

/// `[notify]` reports it like a question: it waits for a person's answer.
#[tokio::test(start_paused = true)]
async fn a_person_is_told_once_that_work_waits_for_them() {
    let city = reviewed().start().await;
    let charged = finished(&city).await;
    city.pass(10 * PATROL).await;
    let events = city.events(EventType::RaiderNeedsInput).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].subject, charged.raider.to_string());
    let mr = city.mr(&charged.relic).await.unwrap();
    let way = format!("hd mq approve {}", mr.id);
    let question = events[0].data["question"].as_str().unwrap();
    assert!(question.contains(&way), "{question}");
}

/// `contract.md`, `human_review_paths`: a diff that touches one waits for a person whatever `review` says.
#[tokio::test(start_paused = true)]
async fn change_of_a_review_path_waits_for_a_person_and_any_other_lands() {
    let city = Scenario::new().rig(migrations).start().await;
    let charged = city.charged("a").await;
    (city.parts.repo).commit_path(&charged.raider.name, "db/migrations/1.sql");
    let plain = city.charged("b").await;
    city.parts.repo.commit_path(&plain.raider.name, "src/a.rs");
    for work in [&charged, &plain] {
        city.completed(&work.raider).await.unwrap();
    }
    city.settle().await;
    assert_eq!(city.status(&plain.relic).await, RelicStatus::Closed);
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    let note = mr.note.clone().unwrap();
    assert!(
        note.contains("it changes db/migrations/1.sql (human_review_paths)"),
        "{note}"
    );
    approve(&city, &charged).await;
    assert!(city.parts.repo.has_landed(&mr.head));
}

/// A change must not land unseen because git fails.
#[tokio::test(start_paused = true)]
async fn change_whose_paths_cannot_be_read_waits_for_a_person() {
    let city = Scenario::new().rig(migrations).start().await;
    let broken = RepoError::Rejected("a damaged tree".into());
    city.parts.repo.break_op("changed_paths", broken);
    let charged = finished(&city).await;
    let note = city.mr(&charged.relic).await.unwrap().note.unwrap();
    assert!(note.contains("a damaged tree"), "{note}");
}

fn migrations(rig: &mut Rig) {
    let patterns = vec!["migrations/".to_owned()];
    rig.forge.human_review_paths = ReviewPaths::new(patterns).unwrap();
}

/// A merge may change other paths than the branch did when it was submitted.
#[tokio::test(start_paused = true)]
async fn merge_that_changes_a_review_path_waits_for_a_person_before_its_gates_run() {
    let city = Scenario::new().gate("test").rig(migrations).start().await;
    city.parts.repo.merges_bring("db/migrations/2.sql");
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(4 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    assert_eq!(mr.attempts, 0, "no attempt of its own");
    let note = mr.note.clone().unwrap();
    let why = "it changes db/migrations/2.sql (human_review_paths)";
    assert!(note.contains(why), "{note}");
    assert_eq!(city.parts.repo.count("run_gate"), 0);
    assert!(!city.parts.repo.has_landed(&mr.head));
    assert_eq!(city.events(EventType::RaiderNeedsInput).await.len(), 1);
    approve(&city, &charged).await;
    assert!(city.parts.repo.has_landed(&mr.head));
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert!(city.escalations().await.is_empty());
}

/// The paths are those of the present configuration; the sandbox of the raider is gone by then.
#[tokio::test(start_paused = true)]
async fn queued_work_is_compared_with_review_paths_of_a_reload_and_its_rejection_is_reworked() {
    let city = Scenario::new().gate("test").start().await;
    for _ in 0..4 {
        city.parts.repo.script_gate("test", gate_run(Some(127)));
    }
    let charged = city.charged("a").await;
    (city.parts.repo).commit_path(&charged.raider.name, "db/migrations/1.sql");
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued, "parked");
    city.reload(|city| migrations(&mut city.rigs[0])).await;
    city.pass(4 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    let rejected = rejection::reject(&city.world, mr.id, "no".to_owned(), Asker::person());
    rejected.await.unwrap();
    city.pass(2 * PATROL).await;
    let hook = city
        .store(move |txn| txn.hook_of_relic(&charged.relic))
        .await;
    assert!(
        hook.is_some_and(|hook| !hook.is_declared()),
        "a fresh raider"
    );
}

fn every_one(rig: &mut Rig) {
    rig.forge.review_human = true;
}

/// It landed by the configuration that held when it was submitted, although the paths of one that a reload adds were compared.
#[tokio::test(start_paused = true)]
async fn queued_work_waits_for_a_person_when_a_reload_has_all_work_reviewed() {
    let city = Scenario::new().gate("test").start().await;
    for _ in 0..4 {
        city.parts.repo.script_gate("test", gate_run(Some(127)));
    }
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued, "parked");
    city.reload(|city| every_one(&mut city.rigs[0])).await;
    city.pass(4 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    let note = mr.note.clone().unwrap();
    assert!(note.contains("is \"human\" now"), "{note}");
    approve(&city, &charged).await;
    assert!(city.parts.repo.has_landed(&mr.head));
}

/// Has the push of work that changes a migration go without an answer, and a reload ask for a review after that.
async fn push_without_an_answer(wants: fn(&mut Rig)) -> (TestCity, Charged) {
    let city = Scenario::new().start().await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("land", away);
    let charged = city.charged("a").await;
    (city.parts.repo).commit_path(&charged.raider.name, "db/migrations/1.sql");
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert_eq!(city.sagas().await, 1, "the push waits");
    city.reload(|city| wants(&mut city.rigs[0])).await;
    city.parts.repo.mend("land");
    city.pass(4 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(!mr.awaits_person(), "it may still arrive: {mr:?}");
    let note = mr.note.unwrap();
    assert!(note.contains("may still arrive"), "{note}");
    assert_eq!((city.parts.repo.landings(), city.sagas().await), (0, 1));
    (city, charged)
}

/// A push that waits to be retried landed with the review that was asked for when it was tested.
#[tokio::test(start_paused = true)]
async fn waiting_push_is_compared_with_the_review_of_a_reload() {
    let path = "it changes db/migrations/1.sql (human_review_paths)";
    let all = "`review` of its rig is \"human\" now";
    for (wants, why) in [(migrations as fn(&mut Rig), path), (every_one, all)] {
        let (city, charged) = push_without_an_answer(wants).await;
        city.pass(20 * PATROL).await;
        let mr = city.mr(&charged.relic).await.unwrap();
        assert!(mr.awaits_person(), "{mr:?}");
        let note = mr.note.clone().unwrap();
        assert!(note.contains(why), "{note}");
        assert_eq!((city.parts.repo.landings(), city.sagas().await), (0, 0));
        approve(&city, &charged).await;
        assert!(city.parts.repo.has_landed(&mr.head));
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    }
}

/// A person was asked, and could reject what the remote landed a moment later.
#[tokio::test(start_paused = true)]
async fn push_that_arrives_after_its_client_gave_up_was_never_a_persons_to_reject() {
    let (city, charged) = push_without_an_answer(migrations).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    let rejected = rejection::reject(&city.world, mr.id, "no".to_owned(), Asker::person());
    let refused = rejected.await.unwrap_err();
    assert!(refused.message.contains("does not wait"), "{refused}");
    let sagas = city.store(|txn| txn.sagas(None)).await;
    let pushed = sagas[0].data["new"].as_str().unwrap();
    let pushed = Oid::new(pushed).unwrap();
    city.parts.repo.merge_on_host(&pushed, false);
    city.pass(20 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Merged);
    assert!(city.events(EventType::RaiderNeedsInput).await.is_empty());
}

/// A person was called: the paths of a commit that is gone cannot be listed.
#[tokio::test(start_paused = true)]
async fn tested_commit_that_a_garbage_collection_took_is_made_and_tested_again() {
    let city = Scenario::new().rig(migrations).start().await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("land", away);
    let charged = city.charged("a").await;
    city.parts
        .repo
        .commit_path(&charged.raider.name, "src/a.rs");
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert_eq!(city.sagas().await, 1, "the push waits");
    city.parts.repo.mend("land");
    for op in ["changed_paths", "land"] {
        let gone = RepoError::NotFound("commit".into());
        city.parts.repo.fail(op, gone);
    }
    city.pass(4 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Merged, "{mr:?}");
    assert!(city.events(EventType::RaiderNeedsInput).await.is_empty());
    assert!(city.escalations().await.is_empty());
}

/// Landed work is not reviewed any more.
#[tokio::test(start_paused = true)]
async fn push_whose_answer_was_lost_is_no_review_after_a_reload() {
    let city = Scenario::new().start().await;
    city.parts.repo.lose_answer_of_landing();
    let charged = city.charged("a").await;
    (city.parts.repo).commit_path(&charged.raider.name, "db/migrations/1.sql");
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert_eq!(city.sagas().await, 1, "it is not known that it landed");
    city.reload(|city| migrations(&mut city.rigs[0])).await;
    city.pass(4 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!((mr.state, city.parts.repo.landings()), (MrState::Merged, 1));
}

/// Work that was rebased would else have the changes of the target as its own.
#[tokio::test(start_paused = true)]
async fn target_is_fetched_before_paths_are_compared_and_a_remote_that_is_away_is_tolerated() {
    for is_away in [false, true] {
        let city = Scenario::new().rig(migrations).start().await;
        let charged = city.charged("a").await;
        (city.parts.repo).commit_path(&charged.raider.name, "db/migrations/1.sql");
        if is_away {
            let away = RepoError::Remote("away".into());
            city.parts.repo.break_op("fetch_target", away);
        }
        let before = city.parts.repo.count("fetch_target");
        city.completed(&charged.raider).await.unwrap();
        city.settle().await;
        let mr = city.mr(&charged.relic).await.unwrap();
        assert!(mr.awaits_person(), "{mr:?}");
        assert!(mr.note.unwrap().contains("it changes db/migrations/1.sql"));
        assert!(city.parts.repo.count("fetch_target") > before);
    }
}

/// Weakness W5 of an earlier system: a command set any status, past every check.
#[tokio::test(start_paused = true)]
async fn approved_work_does_not_land_past_a_red_gate() {
    let city = reviewed().gate("test").start().await;
    city.parts.repo.script_gate("test", gate_run(Some(1)));
    let charged = finished(&city).await;
    assert_eq!(city.parts.repo.count("run_gate"), 0, "a person looks first");
    approve(&city, &charged).await;
    assert_eq!(city.parts.repo.landings(), 0);
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!((relic.status, relic.reworks), (RelicStatus::Hooked, 1));
}
