//! The session of a raider whose work a person reviews: it stays until the review is over, and is neither a zombie nor
//! stalled (issue 17, human review).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::PATROL;
use crate::actors::mail::{Charged, DoneRequest};
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::rejection::{self, Rejected};
use crate::actors::session::endings;
use crate::actors::store::StoreHandle;
use crate::domain::asker::Asker;
use crate::domain::drum::Mailbox;
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, Oid};
use crate::domain::merge::{MrState, Review};
use crate::domain::message;
use crate::domain::outcome::{Outcome, OutcomeFile};
use crate::domain::relic::RelicStatus;
use crate::domain::review_paths::ReviewPaths;
use crate::domain::saga::{FaultPoint, SagaKind};
use crate::ports::relics::Txn;
use crate::ports::repo::{Repo as _, RepoError};
use crate::testing::world::{
    Interruption, Parts, Scenario, TestCity, completion, rig, start_clock,
};

const HOUR: Duration = Duration::from_secs(3600);

fn reviewed() -> Scenario {
    Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = 3 * HOUR;
        rig.raiders.stall_after = Some(Duration::from_secs(600));
    })
}

async fn waiting(city: &TestCity) -> Charged {
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    charged
}

async fn reject(city: &TestCity, charged: &Charged) -> Rejected {
    let id = city.mr(&charged.relic).await.unwrap().id;
    let note = "the flag must be --json".to_owned();
    let rejected = rejection::reject(&city.world, id, note, Asker::person());
    let rejected = rejected.await.unwrap();
    city.settle().await;
    rejected
}

/// Idle for longer than any limit for raiders at work, or for completions.
#[tokio::test(start_paused = true)]
async fn session_stays_untouched_while_a_person_reviews() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    city.pass_hours(3 * HOUR - 2 * PATROL).await;
    assert!(city.runs(&charged.session));
    assert_eq!(city.starts(&charged.session), 1);
    for kind in [
        EventType::RaiderZombie,
        EventType::RaiderStalled,
        EventType::RaiderNudged,
        EventType::AgentCrashed,
    ] {
        assert!(city.events(kind).await.is_empty(), "{kind:?}");
    }
    assert!(city.escalations().await.is_empty());
    // The review has lasted for `review_hold`, and the sandbox is written to.
    city.parts.repo.dirty(&charged.raider.name, "tried.txt");
    city.pass(4 * PATROL).await;
    assert!(!city.runs(&charged.session), "review_hold ends it");
}

/// Later commits are another review, for which a person has the whole time.
#[tokio::test(start_paused = true)]
async fn review_hold_begins_again_when_later_commits_are_submitted() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    city.pass_hours(2 * HOUR).await;
    city.parts.repo.commit(&charged.raider.name);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    city.pass_hours(3 * HOUR - 2 * PATROL).await;
    assert!(city.runs(&charged.session));
    city.pass(4 * PATROL).await;
    assert!(!city.runs(&charged.session), "review_hold ends it");
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
}

/// The review had no session any more, and nothing said so.
#[tokio::test(start_paused = true)]
async fn nuke_that_is_refused_at_the_last_moment_says_that_the_review_has_no_session() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    let id = city.mr(&charged.relic).await.unwrap().id;
    let is_live = || async {
        let live = rejection::live_hook(&city.world, &id).await;
        live.unwrap().is_some()
    };
    assert!(is_live().await);
    let (repo, name) = (city.parts.repo.clone(), charged.raider.name.clone());
    (city.parts.repo).interlude("discard_sandbox", move || repo.dirty(&name, "late.txt"));
    let refused = city.nuke(&charged.raider, true).await.unwrap_err();
    let hint = refused.hint.unwrap();
    assert!(hint.contains("its session has ended"), "{hint}");
    city.pass(2 * PATROL).await;
    assert!(!is_live().await);
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
}

/// Its work is pushed: nothing is lost, and a fresh session would cost tokens for a wait.
#[tokio::test(start_paused = true)]
async fn session_that_ends_during_its_review_is_not_started_again() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(10 * PATROL).await;
    assert_eq!(city.starts(&charged.session), 1);
    assert!(
        city.events(EventType::AgentCrashed).await.is_empty(),
        "no death"
    );
    assert_eq!(city.parts.repo.names(), ["Toast"], "its sandbox stays");
    // A rejection goes to a fresh raider then.
    let rejected = reject(&city, &charged).await;
    assert!(rejected.back_to.is_none() && rejected.told.is_none());
    city.pass(2 * PATROL).await;
    let hook = city.hook(&charged.raider).await;
    assert!(hook.is_none_or(|hook| hook.incarnation != charged.incarnation));
}

/// `kill -9` of the supervisor: sessions run on, and are adopted.
#[tokio::test(start_paused = true)]
async fn session_in_review_is_adopted_by_the_next_supervisor() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    let clock = city.world.clock.clone();
    let city = reviewed().start_on(city.crash().await, clock).await;
    city.pass(2 * PATROL).await;
    assert!(city.runs(&charged.session));
    assert_eq!(city.starts(&charged.session), 1);
    let child = city.view(&ChildId::Raider(charged.raider.clone())).await;
    assert!(child.unwrap().session.is_some(), "it can be attached to");
    let rejected = reject(&city, &charged).await;
    assert!(rejected.back_to.is_some());
}

/// `kill -9` while the work was being submitted: its session had no supervisor until the next patrol, and a rejection went
/// to a fresh raider.
#[tokio::test(start_paused = true)]
async fn session_that_ran_through_a_kill_during_its_submission_is_adopted_at_once() {
    let interruption = Interruption::at(FaultPoint::DoneSubmitBefore);
    let city = reviewed().fault(interruption.hook()).start().await;
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert_eq!(city.sagas().await, 1);
    let clock = city.world.clock.clone();
    let city = reviewed().start_on(city.crash().await, clock).await;
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    let child = city.view(&ChildId::Raider(charged.raider.clone())).await;
    assert!(child.is_some_and(|child| child.session.is_some()));
    let rejected = reject(&city, &charged).await;
    assert!(rejected.back_to.is_some());
    assert_eq!(city.starts(&charged.session), 1);
}

/// The session runs, and its supervisor could not see it yet: a fresh raider would have worked beside it.
#[tokio::test(start_paused = true)]
async fn rejection_goes_to_a_session_that_is_not_adopted_yet() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.hide(&charged.session, Some("busy"));
    let city = reviewed().start_on(parts, clock).await;
    city.settle().await;
    let child = city.view(&ChildId::Raider(charged.raider.clone())).await;
    assert!(child.is_none_or(|child| child.session.is_none()));
    let id = city.mr(&charged.relic).await.unwrap().id;
    let early = rejection::reject(&city.world, id, "not yet".to_owned(), Asker::person());
    assert_eq!(early.await.unwrap_err().kind, RefusalKind::Unavailable);
    city.parts.sessions.hide(&charged.session, None);
    let rejected = reject(&city, &charged).await;
    assert_eq!(
        rejected.back_to.map(|hook| hook.incarnation),
        Some(charged.incarnation)
    );
    city.pass(2 * PATROL).await;
    assert!(city.runs(&charged.session));
    assert_eq!(city.starts(&charged.session), 1);
}

/// The message about the completion is handled after its withdrawal: a person was called about the work of a session that
/// went on with it.
#[tokio::test(start_paused = true)]
async fn no_person_is_called_about_the_work_of_a_session_whose_completion_was_rejected() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    // It does not wait for the rejection.
    city.parts.repo.dirty(&charged.raider.name, "more.txt");
    let rejected = reject(&city, &charged).await;
    assert!(rejected.back_to.is_some());
    city.pass(4 * PATROL).await;
    assert!(city.escalations().await.is_empty());
    assert!(city.events(EventType::WispCreated).await.is_empty());
    assert!(city.runs(&charged.session));
}

/// A rejection goes to the live session, which works on and submits again.
#[tokio::test(start_paused = true)]
async fn rejected_work_goes_back_to_the_live_session() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    let mut first = city.mr(&charged.relic).await.unwrap();
    first.pr = Some("https://forge.example/pull/7".to_owned());
    let opened = first.clone();
    city.store(move |txn| txn.put_mr(&opened)).await;
    let rejected = reject(&city, &charged).await;
    assert_eq!(rejected.back_to.unwrap().raider, charged.raider);
    let drum = rejected.told.unwrap().unwrap();
    assert_eq!(drum.mailbox, Mailbox::Work(charged.relic.clone()));
    let id = drum.id;
    let drum = city.store(move |txn| txn.drum(id)).await;
    assert!(
        drum.body.contains("> the flag must be --json"),
        "{}",
        drum.body
    );
    city.pass(4 * PATROL).await;
    assert_eq!(
        city.mr(&charged.relic).await.unwrap().state,
        MrState::Rejected
    );
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!((relic.status, relic.reworks), (RelicStatus::Hooked, 0));
    assert!(relic.context.unwrap().contains("the flag must be --json"));
    assert!(city.runs(&charged.session));
    assert_eq!(city.starts(&charged.session), 1, "the same session");
    let head = city.parts.repo.commit(&charged.raider.name);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let second = city.mr(&charged.relic).await.unwrap();
    assert_ne!(second.id, first.id);
    assert_eq!((second.awaits_person(), second.head), (true, head));
    assert_eq!(second.pr, first.pr, "the branch is the same");
}

/// The outcome file still says `passed`: it counts again when it is written again.
#[tokio::test(start_paused = true)]
async fn outcome_file_of_rejected_work_counts_no_longer() {
    let city = reviewed().start().await;
    let charged = city.worker("a").await;
    let dir = (city.world.city).task_dir(&charged.raider, &charged.relic, charged.incarnation);
    let outcome = format!(r#"{{"id":"{}","outcome":"passed"}}"#, charged.relic);
    let at = city.world.clock.now();
    city.parts.tasks.stamp(&dir, at);
    city.parts.tasks.write_outcome(&dir, &outcome);
    city.settle().await;
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
    reject(&city, &charged).await;
    city.pass(4 * PATROL).await;
    assert_eq!(
        city.mr(&charged.relic).await.unwrap().state,
        MrState::Rejected
    );
    assert!(city.hook(&charged.raider).await.unwrap().done.is_none());
    assert!(city.runs(&charged.session));
    city.parts.repo.commit(&charged.raider.name);
    city.parts.tasks.stamp(&dir, at + HOUR);
    city.parts.tasks.write_outcome(&dir, &outcome);
    city.settle().await;
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
}

/// Nothing tells then whether a person rejected what the file declares.
#[tokio::test(start_paused = true)]
async fn outcome_is_unknown_while_the_store_cannot_be_read() {
    let clock = start_clock();
    let (mut parts, full) = (Parts::new(&clock), Arc::<AtomicBool>::default());
    parts.store = StoreHandle::full_while(&clock, &full);
    let city = reviewed().start_on(parts, clock).await;
    let charged = city.worker("a").await;
    let hook = city.hook(&charged.raider).await.unwrap();
    let dir = (city.world.city).task_dir(&charged.raider, &charged.relic, charged.incarnation);
    let outcome = format!(r#"{{"id":"{}","outcome":"passed"}}"#, charged.relic);
    full.store(true, Ordering::SeqCst);
    city.parts.tasks.write_outcome(&dir, &outcome);
    let unread = endings::outcome(&city.world, &hook).await.unwrap_err();
    assert_eq!(unread.kind, RefusalKind::Unavailable);
    full.store(false, Ordering::SeqCst);
    let (read, _) = endings::outcome(&city.world, &hook).await.unwrap();
    let passed = Outcome::Passed { reason: None };
    assert_eq!(read, OutcomeFile::Complete(passed));
}

/// A raider that died of the rejection is respawned with the note: its hook is open.
#[tokio::test(start_paused = true)]
async fn session_that_ends_after_a_rejection_is_respawned_with_the_note() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    reject(&city, &charged).await;
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(4 * PATROL).await;
    assert_eq!(city.starts(&charged.session), 2);
    let prompts = city.parts.tasks.prompts();
    assert!(prompts.last().unwrap().contains("the flag must be --json"));
}

/// Two merge requests of one relic would race.
#[tokio::test(start_paused = true)]
async fn rejection_while_later_commits_are_submitted_is_refused() {
    let city = reviewed().start().await;
    let charged = waiting(&city).await;
    let later = city.parts.repo.commit(&charged.raider.name);
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("push_branch", away);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let id = city.mr(&charged.relic).await.unwrap().id;
    let rejected = rejection::reject(&city.world, id, "no".to_owned(), Asker::person());
    let refused = rejected.await.unwrap_err();
    let why = "their push does not succeed: the remote cannot be reached: away";
    assert!(refused.message.contains(why), "{refused}");
    city.parts.repo.mend("push_branch");
    city.pass(2 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!((mr.awaits_person(), mr.head), (true, later));
}

/// Has a person remove a raider whose later commits are pushed to the remote, which does not answer. Returns the reviewed head
/// and the later one.
async fn nuked_during_a_later_push(city: &TestCity, is_older: bool) -> (Charged, Oid, Oid) {
    let charged = waiting(city).await;
    let shown = city.mr(&charged.relic).await.unwrap();
    let later = city.parts.repo.commit(&charged.raider.name);
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("push_branch", away);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    if is_older {
        let subject = charged.raider.to_string();
        let forget = move |txn: &mut dyn Txn| {
            let mut saga = txn.saga_of(SagaKind::Done, &subject)?.unwrap();
            let former = saga.data.as_object_mut().unwrap().remove("former");
            assert!(former.is_some_and(|former| former.is_object()));
            txn.step_saga(saga.id, "intent", &saga.data)
        };
        city.store(forget).await;
    }
    city.nuke(&charged.raider, true).await.unwrap();
    city.pass(4 * PATROL).await;
    (charged, shown.head, later)
}

/// The commits that were reviewed counted as open work, for a fresh raider, while a person could still approve them. The plan of
/// an older version has their head only.
#[tokio::test(start_paused = true)]
async fn nuke_during_the_push_of_later_commits_leaves_the_reviewed_ones_to_their_reviewer() {
    for is_older in [false, true] {
        let city = reviewed().start().await;
        let (charged, shown, _) = nuked_during_a_later_push(&city, is_older).await;
        assert_eq!(city.store(|txn| txn.salvages()).await.len(), 1);
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
        assert!(
            city.hook(&charged.raider).await.is_none(),
            "no fresh raider"
        );
        let mr = city.mr(&charged.relic).await.unwrap();
        assert_eq!((mr.awaits_person(), &mr.head), (true, &shown));
        city.parts.repo.mend("push_branch");
        // A rejection goes to a fresh raider, once.
        let rejected = reject(&city, &charged).await;
        assert!(rejected.back_to.is_none());
        city.pass(2 * PATROL).await;
        assert_eq!(city.events(EventType::RaiderCharged).await.len(), 2);
    }
}

/// The remote had the later commits, whose answer was lost: the approved ones never landed, and a person was called for ever.
#[tokio::test(start_paused = true)]
async fn approved_work_lands_although_a_later_push_that_was_withdrawn_reached_the_remote() {
    let city = reviewed().start().await;
    let (charged, shown, later) = nuked_during_a_later_push(&city, false).await;
    city.parts.repo.mend("push_branch");
    let reached = city.parts.repo.push_branch(&charged.branch, &later, None);
    reached.unwrap();
    let moved = RepoError::Moved {
        name: charged.branch.clone(),
        expected: format!("at or before {shown}"),
        found: later.to_string(),
    };
    city.parts.repo.break_op("push_branch", moved);
    let mut mr = city.mr(&charged.relic).await.unwrap();
    mr.review = Review::Approved;
    city.store(move |txn| txn.put_mr(&mr)).await;
    city.world.nudge(&message::witness(&rig()));
    city.pass(4 * PATROL).await;
    assert!(city.parts.repo.has_landed(&shown));
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert!(city.escalations().await.is_empty());
    let there = city.parts.repo.remote(&charged.branch);
    assert_eq!(there, Some(later), "nothing that was pushed is lost");
}

/// A rig that asks for no review: the agent asked for it, and a person rejected the work.
#[tokio::test(start_paused = true)]
async fn rejected_work_is_reviewed_again_and_its_rejected_head_is_refused() {
    let scenario = Scenario::new().rig(|rig| rig.witness.review_hold = 3 * HOUR);
    let city = scenario.start().await;
    let charged = city.worker("a").await;
    let asked = DoneRequest {
        wants_review: true,
        ..completion(&charged.raider)
    };
    city.done(asked).await.unwrap();
    city.settle().await;
    let first = city.mr(&charged.relic).await.unwrap();
    assert!(first.awaits_person(), "{first:?}");
    reject(&city, &charged).await;
    let refused = city.completed(&charged.raider).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::BadRequest);
    assert!(refused.message.contains("was rejected"), "{refused}");
    assert!(city.hook(&charged.raider).await.unwrap().done.is_none());
    let head = city.parts.repo.commit(&charged.raider.name);
    let accepted = city.completed(&charged.raider).await.unwrap();
    assert!(accepted.may_be_reviewed);
    city.pass(4 * PATROL).await;
    let second = city.mr(&charged.relic).await.unwrap();
    assert_eq!((second.awaits_person(), &second.head), (true, &head));
    assert!(!city.parts.repo.has_landed(&head));
    assert!(city.runs(&charged.session), "it stays for its review");
}

/// The relic was closed although its reviewer had asked for a change. A fresh raider may not do so either.
#[tokio::test(start_paused = true)]
async fn rejected_work_is_not_completed_without_a_change() {
    for is_live in [true, false] {
        let city = reviewed().start().await;
        let charged = waiting(&city).await;
        if !is_live {
            city.parts.sessions.crash(&charged.session, 9);
            city.pass(PATROL).await;
        }
        reject(&city, &charged).await;
        city.pass(2 * PATROL).await;
        let relic = charged.relic.clone();
        let hook = city.store(move |txn| txn.hook_of_relic(&relic)).await;
        let raider = hook.unwrap().raider;
        let unchanged = DoneRequest {
            no_change: true,
            reason: Some("it is right".into()),
            ..completion(&raider)
        };
        let refused = city.done(unchanged).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::BadRequest, "{refused}");
        assert!(refused.message.contains("asked for a change"), "{refused}");
        assert!(refused.hint.unwrap().contains("--status escalated"));
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
    }
}

/// Its paths cannot be compared for longer than `done_intent_timeout`.
#[tokio::test(start_paused = true)]
async fn session_whose_work_may_be_reviewed_is_not_stuck_in_done() {
    let scenario = Scenario::new().rig(|rig| {
        let patterns = vec!["migrations/".to_owned()];
        rig.forge.human_review_paths = ReviewPaths::new(patterns).unwrap();
        rig.witness.review_hold = 3 * HOUR;
    });
    let city = scenario.start().await;
    let charged = city.charged("a").await;
    (city.parts.repo).commit_path(&charged.raider.name, "db/migrations/1.sql");
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("changed_paths", away);
    city.completed(&charged.raider).await.unwrap();
    city.pass(10 * PATROL).await;
    assert!(city.events(EventType::RaiderZombie).await.is_empty());
    assert!(city.runs(&charged.session));
    city.parts.repo.mend("changed_paths");
    city.pass(4 * PATROL).await;
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
    assert!(city.runs(&charged.session));
}
