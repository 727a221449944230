//! Done: pushed and verified, once; POLECAT_DONE alone is never enough.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::actors::refusal::RefusalKind;
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, Incarnation, Oid};
use crate::domain::merge::MrState;
use crate::domain::message::{self, Body, RaiderDone};
use crate::domain::relic::{Completion, RelicStatus};
use crate::ports::repo::RepoError;
use crate::testing::world::{MOMENT, Scenario, TestCity, completion, rig};

const SECOND: Duration = Duration::from_secs(1);
const PATROL: Duration = Duration::from_secs(31);

async fn closed(city: &TestCity, relic: &crate::domain::ids::RelicId) -> bool {
    city.relic_now(relic).await.status == RelicStatus::Closed
}

#[tokio::test(start_paused = true)]
async fn done_work_lands_and_nothing_of_the_raider_is_left() {
    let (city, charged) = Scenario::at_work().await;
    let accepted = city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert!(closed(&city, &charged.relic).await);
    assert!(city.parts.repo.has_landed(&accepted.head));
    assert!(city.parts.repo.names().is_empty());
    assert!(city.parts.repo.remote_branches().is_empty());
    assert!(city.parts.repo.pins().is_empty());
    assert!(city.parts.sessions.running().is_empty());
    assert!(city.parts.repo.salvages().is_empty());
    let id = ChildId::Raider(charged.raider);
    assert!(city.view(&id).await.is_none());
    assert_eq!(city.sagas().await, 0);
    assert!(city.escalations().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_push_that_fails_is_tried_again_with_back_off_and_told_once() {
    let (city, charged) = Scenario::at_work().await;
    let error = RepoError::Remote("no route".into());
    city.parts.repo.break_op("push_branch", error);
    city.completed(&charged.raider).await.unwrap();
    for (tries, wait) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
        city.settle().await;
        assert_eq!(city.parts.repo.count("push_branch"), tries);
        city.pass(SECOND * wait - MOMENT * 2).await;
        assert_eq!(city.parts.repo.count("push_branch"), tries, "too early");
        city.pass(MOMENT).await;
    }
    let sagas = city.store(|txn| txn.sagas(None)).await;
    let blocked = sagas[0].push_error().unwrap();
    assert!(blocked.contains("no route"), "{blocked}");
    assert_eq!(city.events(EventType::RaiderPushBlocked).await.len(), 1);
    // A blocked push is no zombie: the session runs on.
    city.pass(PATROL * 5).await;
    assert!(city.runs(&charged.session));
    assert!(city.mr(&charged.relic).await.is_none());
    city.parts.repo.mend("push_branch");
    city.pass(SECOND * 600).await;
    assert!(closed(&city, &charged.relic).await);
    assert_eq!(city.events(EventType::RaiderPushBlocked).await.len(), 1);
}

/// Weakness W12 of an earlier system: merge requests were looked up with the highest priority only, and nothing kept
/// two from claiming the same work.
#[tokio::test(start_paused = true)]
async fn done_twice_is_done_once() {
    let (city, charged) = Scenario::at_work().await;
    let mut relic = city.relic_now(&charged.relic).await;
    relic.priority = 4;
    city.store(move |txn| txn.put_relic(&relic)).await;
    let (first, second) = tokio::join!(
        city.completed(&charged.raider),
        city.completed(&charged.raider)
    );
    let already = [first.unwrap().already, second.unwrap().already];
    assert_eq!(already.iter().filter(|again| **again).count(), 1);
    city.settle().await;
    assert_eq!(city.events(EventType::RaiderDone).await.len(), 1);
    assert_eq!(city.events(EventType::MrQueued).await.len(), 1);
    assert!(closed(&city, &charged.relic).await);
}

#[tokio::test(start_paused = true)]
async fn done_is_refused_on_a_dirty_tree_without_commits_and_of_another_incarnation() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    let none = city.completed(&charged.raider).await.unwrap_err();
    assert_eq!(none.kind, RefusalKind::NoCommits);
    city.parts.repo.commit(&charged.raider.name);
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    let dirty = city.completed(&charged.raider).await.unwrap_err();
    assert_eq!(dirty.kind, RefusalKind::WorkAtRisk);
    let named = dirty.losses.iter().any(|line| line.contains("wip.txt"));
    assert!(named, "{:?}", dirty.losses);
    let mut stale = completion(&charged.raider);
    stale.incarnation = Some(Incarnation(charged.incarnation.0 + 1));
    let stale = city.done(stale).await.unwrap_err();
    assert_eq!(stale.kind, RefusalKind::Conflict);
    assert_eq!(city.sagas().await, 0);
    assert!(city.hook(&charged.raider).await.unwrap().done.is_none());
}

/// A remote may refuse such commits, unnoticed by the agent.
#[tokio::test(start_paused = true)]
async fn done_is_refused_with_commits_that_git_would_not_make_until_they_are_made_anew() {
    let (city, charged) = Scenario::at_work().await;
    let why = "1234abcd: .git in a tree";
    let error = RepoError::Rejected(why.into());
    city.parts.repo.break_op("fit", error);
    let refused = city.completed(&charged.raider).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::BadRequest);
    assert!(refused.message.contains(why), "{refused}");
    assert!(
        refused
            .hint
            .is_some_and(|hint| hint.contains("git reset --soft"))
    );
    assert_eq!(city.sagas().await, 0);
    city.parts.repo.mend("fit");
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert!(closed(&city, &charged.relic).await);
}

fn raider_done(charged: &crate::actors::mail::Charged) -> RaiderDone {
    RaiderDone {
        raider: charged.raider.clone(),
        incarnation: charged.incarnation,
        rig: rig(),
        relic: charged.relic.clone(),
        branch: charged.branch.clone(),
        head: crate::domain::ids::Oid::new("a".repeat(40)).unwrap(),
        exit: Completion::Completed,
        cleanup_status: None,
        gate: None,
    }
}

async fn send(city: &TestCity, to: String, body: Body) {
    city.store(move |txn| txn.send("test", &to, body.clone()))
        .await;
    city.pass(PATROL).await;
}

#[tokio::test(start_paused = true)]
async fn polecat_done_of_another_incarnation_is_void() {
    let (city, charged) = Scenario::at_work().await;
    let mut old = raider_done(&charged);
    old.incarnation = Incarnation(charged.incarnation.0 + 7);
    send(&city, message::witness(&rig()), Body::RaiderDone(old)).await;
    assert!(city.runs(&charged.session));
    assert!(city.mr(&charged.relic).await.is_none());
    let inbox = |txn: &mut dyn crate::ports::relics::Txn| txn.inbox("horde/witness");
    assert!(city.store(inbox).await.is_empty(), "it is dealt with");
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_got_dirty_after_done_is_escalated_once_and_kept() {
    let (city, charged) = Scenario::at_work().await;
    let (repo, name) = (city.parts.repo.clone(), charged.raider.name.clone());
    city.parts.repo.interlude("push_branch", move || {
        repo.dirty(&name, "late.txt");
    });
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 10).await;
    assert_eq!(city.escalations().await.len(), 1);
    let sent = city.events(EventType::MessageSent).await;
    let types: Vec<_> = sent
        .iter()
        .map(|event| event.data["type"].clone())
        .collect();
    assert_eq!(types, ["POLECAT_DONE", "RECOVERY_NEEDED"], "said once");
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Reviewing);
    // It is cleaned up by hand.
    city.parts
        .repo
        .change(&charged.raider.name, |facts| facts.dirty.clear());
    city.pass(PATROL).await;
    let is_closed = closed(&city, &charged.relic).await;
    assert!(is_closed, "{}", city.journal().await);
    let settled = city.events(EventType::EscalationAcked).await;
    // By the end of the sandbox or by the merge, whichever the shaman sees first.
    assert_eq!(settled.len(), 1);
    assert_eq!(city.escalations().await[0].status, RelicStatus::Closed);
}

/// Only the raider's branch is pushed and measured again.
#[tokio::test(start_paused = true)]
async fn done_is_refused_on_another_branch_and_on_none() {
    let (city, charged) = Scenario::at_work().await;
    for branch in [Some("other".to_owned()), None] {
        let change = |facts: &mut crate::domain::facts::GitFacts| facts.branch = branch.clone();
        city.parts.repo.change(&charged.raider.name, change);
        let refused = city.completed(&charged.raider).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::BadRequest);
        assert!(refused.message.contains(&charged.branch), "{refused}");
        // Its agent has renamed or deleted the branch.
        let hint = refused.hint.unwrap();
        let way = match &branch {
            Some(other) => format!("git branch -m {other} {}", charged.branch),
            None => format!("git checkout -b {}", charged.branch),
        };
        assert!(hint.contains(&way), "{hint}");
    }
    city.parts.repo.leave_branch(&charged.branch, false);
    let refused = city.completed(&charged.raider).await.unwrap_err();
    let way = format!("git checkout {} && git merge", charged.branch);
    assert!(refused.hint.as_ref().unwrap().contains(&way), "{refused:?}");
    assert!(city.mr(&charged.relic).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_head_that_moved_after_done_is_pushed_again_and_lands() {
    let (city, charged) = Scenario::at_work().await;
    let (repo, name) = (city.parts.repo.clone(), charged.raider.name.clone());
    let moved = std::sync::Mutex::new(None);
    let moved = std::sync::Arc::new(moved);
    let seen = moved.clone();
    city.parts.repo.interlude("push_branch", move || {
        seen.lock()
            .unwrap()
            .get_or_insert_with(|| repo.commit(&name));
    });
    let accepted = city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let later = moved.lock().unwrap().clone().unwrap();
    assert_ne!(accepted.head, later);
    assert!(city.parts.repo.has_landed(&later));
    assert!(closed(&city, &charged.relic).await);
    assert_eq!(city.mr(&charged.relic).await.unwrap().head, later);
}

/// POLECAT_DONE alone is not enough: a head that the remote lacks is pushed again before MERGE_READY.
#[tokio::test(start_paused = true)]
async fn a_branch_that_vanished_from_the_remote_is_pushed_again() {
    let (city, charged) = Scenario::at_work().await;
    let (repo, branch) = (city.parts.repo.clone(), charged.branch.clone());
    let dropped = AtomicUsize::new(0);
    city.parts.repo.interlude("measure", move || {
        let pushed = repo.count("push_branch") == 1;
        if pushed && dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            repo.drop_remote(&branch);
        }
    });
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert_eq!(city.parts.repo.count("push_branch"), 2);
    assert!(closed(&city, &charged.relic).await);
}

/// Only the declared branch lands. If an agent moves on to another branch while its own cannot be pushed, the other
/// does not land, and a person is told.
#[tokio::test(start_paused = true)]
async fn another_branch_that_is_checked_out_after_done_is_not_landed() {
    let (city, charged) = Scenario::at_work().await;
    let (repo, name) = (city.parts.repo.clone(), charged.raider.name.clone());
    city.parts.repo.interlude("push_branch", move || {
        repo.change(&name, |facts| {
            facts.branch = Some("develop".into());
            facts.head = Oid::new("d".repeat(40)).unwrap();
            facts.ahead = 200;
            facts.head_reachable = true;
        });
    });
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 3).await;
    assert_eq!(city.parts.repo.landings(), 0);
    assert_eq!(city.parts.repo.count("push_branch"), 1, "its own");
    assert_eq!(city.escalations().await.len(), 1);
    assert!(!closed(&city, &charged.relic).await);
    let name = charged.raider.name.to_string();
    assert!(city.parts.repo.names().contains(&name), "it is kept");
}

/// The branch was reset to its base: landing nothing does not finish its relic.
#[tokio::test(start_paused = true)]
async fn a_branch_without_commits_after_done_is_escalated_not_closed() {
    let (city, charged) = Scenario::at_work().await;
    city.loses_commits_during_its_push(&charged).await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 3).await;
    assert!(!closed(&city, &charged.relic).await);
    assert_eq!(city.escalations().await.len(), 1);
    assert_eq!(city.parts.repo.landings(), 0);
}

/// Weakness W10 of an earlier system: a completion that was escalated or deferred closed its work.
#[tokio::test(start_paused = true)]
async fn stuck_and_deferred_work_is_pushed_and_waits() {
    for (exit, status) in [
        (Completion::Escalated, RelicStatus::Blocked),
        (Completion::Deferred, RelicStatus::Deferred),
    ] {
        let (city, charged) = Scenario::at_work().await;
        let mut request = completion(&charged.raider);
        request.exit = exit;
        request.reason = Some("no key".into());
        city.done(request).await.unwrap();
        city.settle().await;
        let relic = city.relic_now(&charged.relic).await;
        assert_eq!(relic.status, status);
        assert_eq!(relic.branch.as_ref(), Some(&charged.branch));
        assert!(city.parts.repo.remote(&charged.branch).is_some());
        assert!(city.parts.repo.names().is_empty(), "pushed and clean");
        let called = usize::from(exit == Completion::Escalated);
        assert_eq!(city.escalations().await.len(), called);
    }
}

#[tokio::test(start_paused = true)]
async fn merge_request_tells_on_which_tip_of_the_target_its_work_began_and_none_for_a_branch_taken_up_again()
 {
    let (city, charged) = Scenario::at_work().await;
    let first = city.hook(&charged.raider).await.unwrap();
    assert!(first.from_target);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let landed = city.mr(&charged.relic).await.unwrap();
    assert_eq!(landed.began, Some(first.base));
    let charged = city.worker("b").await;
    let mut request = completion(&charged.raider);
    (request.exit, request.reason) = (Completion::Escalated, Some("no key".into()));
    city.done(request).await.unwrap();
    city.settle().await;
    let mut relic = city.relic_now(&charged.relic).await;
    relic.status = RelicStatus::Open;
    city.store(move |txn| txn.put_relic(&relic)).await;
    let again = city.charge(&charged.relic).await.unwrap();
    assert!(!city.hook(&again.raider).await.unwrap().from_target);
    city.parts.repo.commit(&again.raider.name);
    city.completed(&again.raider).await.unwrap();
    city.settle().await;
    let landed = city.mr(&charged.relic).await.unwrap();
    assert_eq!(landed.began, None);
}

/// Commits after a no-change completion are neither lost nor ignored.
#[tokio::test(start_paused = true)]
async fn commits_after_a_no_change_completion_are_escalated_not_closed() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    let (repo, name) = (city.parts.repo.clone(), charged.raider.name.clone());
    let (looks, later) = (AtomicUsize::new(0), Arc::new(Mutex::new(None)));
    let made = Arc::clone(&later);
    city.parts.repo.interlude("measure", move || {
        if looks.fetch_add(1, Ordering::SeqCst) == 1 {
            *made.lock().unwrap() = Some(repo.commit(&name));
        }
    });
    let mut request = completion(&charged.raider);
    (request.no_change, request.reason) = (true, Some("it works".into()));
    city.done(request).await.unwrap();
    city.pass(PATROL * 3).await;
    assert!(later.lock().unwrap().is_some());
    assert!(!closed(&city, &charged.relic).await);
    assert_eq!(city.escalations().await.len(), 1);
    assert_eq!(city.parts.repo.names(), ["Toast"]);
}

#[tokio::test(start_paused = true)]
async fn while_a_person_must_look_nothing_is_measured() {
    let city = Scenario::new()
        .rig(|rig| rig.forge.review_human = true)
        .start()
        .await;
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Reviewing);
    let asked = |op| city.parts.repo.count(op);
    let before = (asked("measure"), asked("remote_head"));
    city.pass(PATROL * 10).await;
    assert_eq!((asked("measure"), asked("remote_head")), before);
}

/// The mismatch is recorded, and git's facts decide.
#[tokio::test(start_paused = true)]
async fn a_cleanup_report_that_is_wrong_is_recorded() {
    use crate::domain::nuke::CleanupStatus;
    for (reported, wrong) in [
        (CleanupStatus::Clean, true),
        (CleanupStatus::HasStash, false),
    ] {
        let (city, charged) = Scenario::at_work().await;
        let stash = |facts: &mut crate::domain::facts::GitFacts| facts.stashes.push("wip".into());
        city.parts.repo.change(&charged.raider.name, stash);
        let mut request = completion(&charged.raider);
        request.cleanup_status = Some(reported);
        city.done(request).await.unwrap();
        city.settle().await;
        let events = city.events(EventType::CleanupStatusMismatch).await;
        assert_eq!(events.len(), usize::from(wrong), "{reported:?}");
        if wrong {
            assert_eq!(events[0].data["reported"], "clean");
            assert_eq!(events[0].data["measured"], "has_stash");
        }
        assert_eq!(
            city.parts.repo.names(),
            ["Toast"],
            "what git says is acted on"
        );
    }
}

/// Weakness W11 of an earlier system: the state of the sandbox was taken before the push, so pushed work counted as
/// unpushed and was never cleaned up.
#[tokio::test(start_paused = true)]
async fn report_from_before_the_push_holds_up_no_cleanup() {
    use crate::domain::nuke::CleanupStatus;
    let (city, charged) = Scenario::at_work().await;
    let mut request = completion(&charged.raider);
    request.cleanup_status = Some(CleanupStatus::HasUnpushed);
    city.done(request).await.unwrap();
    city.settle().await;
    assert!(closed(&city, &charged.relic).await);
    assert!(
        city.parts.repo.names().is_empty(),
        "pushed since, and measured again"
    );
    assert!(city.parts.repo.salvages().is_empty());
    let mismatches = city.events(EventType::CleanupStatusMismatch).await;
    assert!(mismatches.is_empty(), "it was true when it was reported");
}

/// A refused completion has reported a status all the same, and a later change contradicts it, once.
#[tokio::test(start_paused = true)]
async fn a_cleanup_report_is_compared_before_it_is_refused_and_when_it_is_validated() {
    use crate::domain::nuke::CleanupStatus;
    let (city, charged) = Scenario::at_work().await;
    let name = charged.raider.name.clone();
    let mut request = completion(&charged.raider);
    request.cleanup_status = Some(CleanupStatus::Clean);
    city.parts.repo.dirty(&name, "wip.txt");
    city.done(request.clone()).await.unwrap_err();
    city.settle().await;
    let events = city.events(EventType::CleanupStatusMismatch).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data["measured"], "has_uncommitted");
    // Journalled asynchronously, at this moment at the latest. The same report at the same moment would be identical.
    city.settle().await;
    city.parts.repo.change(&name, |facts| facts.dirty.clear());
    let repo = Arc::clone(&city.parts.repo);
    let late = move || repo.dirty(&name, "late.txt");
    city.parts.repo.interlude("push_branch", late);
    city.done(request).await.unwrap();
    city.pass(PATROL * 5).await;
    let events = city.events(EventType::CleanupStatusMismatch).await;
    assert_eq!(events.len(), 2, "once more");
}
