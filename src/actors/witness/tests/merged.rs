//! MERGED and MERGE_FAILED: their verification, their consequences, and their repetition.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::actors::mail::Charged;
use crate::domain::event::EventType;
use crate::domain::facts::GitFacts;
use crate::domain::ids::Oid;
use crate::domain::merge::{FailureType, MergeOutcome, MrState};
use crate::domain::message::{self, Body, Escalation, MergeFailed, MergeReady, Merged};
use crate::domain::problem::Problem;
use crate::domain::relic::{Hook, Relic, RelicStatus};
use crate::ports::repo::RepoError;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity, raider, rig};

const PATROL: Duration = Duration::from_secs(31);

fn merged(charged: &Charged, mr: &str, commit: Oid) -> Merged {
    Merged {
        mr: mr.parse().unwrap(),
        raider: charged.raider.clone(),
        incarnation: charged.incarnation,
        rig: rig(),
        relic: charged.relic.clone(),
        branch: charged.branch.clone(),
        head: Oid::new("b".repeat(40)).unwrap(),
        target: "main".into(),
        merge_commit: commit,
        merged_at: jiff::Timestamp::UNIX_EPOCH,
        noop: false,
        elsewhere: false,
    }
}

fn failed(charged: &Charged, mr: &str) -> MergeFailed {
    MergeFailed {
        mr: mr.parse().unwrap(),
        raider: charged.raider.clone(),
        incarnation: charged.incarnation,
        rig: rig(),
        relic: charged.relic.clone(),
        branch: charged.branch.clone(),
        head: Oid::new("b".repeat(40)).unwrap(),
        target: "main".into(),
        failure_type: FailureType::Tests,
        error: "red".into(),
        conflict_files: Vec::new(),
    }
}

async fn send(city: &TestCity, to: String, body: Body) {
    city.store(move |txn| txn.send("test", &to, body.clone()))
        .await;
    city.pass(PATROL).await;
}

#[tokio::test(start_paused = true)]
async fn merged_is_not_believed_of_a_commit_that_is_not_on_the_target() {
    let (city, charged) = Scenario::at_work().await;
    let lie = merged(&charged, "gt-99", Oid::new("c".repeat(40)).unwrap());
    send(&city, message::witness(&rig()), Body::Merged(lie)).await;
    let asked = city.parts.repo.count("landed");
    city.pass(PATROL * 10).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
    assert!(city.runs(&charged.session));
    assert_eq!(city.escalations().await.len(), 1, "a person is told, once");
    let again = city.parts.repo.count("landed") - asked;
    assert!(again <= 11, "once per patrol, not {again} times");
}

#[tokio::test(start_paused = true)]
async fn a_remote_that_is_away_when_merged_comes_delays_and_loses_nothing() {
    let (city, charged) = Scenario::at_work().await;
    city.parts
        .repo
        .break_op("landed", RepoError::Remote("away".into()));
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
    city.parts.repo.mend("landed");
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_goes_to_fresh_raiders_and_then_to_a_person() {
    let city = Scenario::new().rig(|rig| rig.forge.rework_attempts = 2);
    let city = city.start().await;
    let relic = city.relic("a").await;
    city.charge(&relic).await.unwrap();
    for attempt in 0..3 {
        let hook = city.store(|txn| txn.hooks(None)).await.pop().unwrap();
        assert_eq!(hook.incarnation.0, attempt + 1, "a fresh one");
        city.parts.repo.commit(&hook.raider.name);
        let files = vec!["src/a.rs".to_owned()];
        city.parts.repo.script_merge(MergeOutcome::Conflict(files));
        city.completed(&hook.raider).await.unwrap();
        city.pass(PATROL).await;
        let now = city.relic_now(&relic).await;
        let context = now.context.unwrap();
        assert!(context.contains("src/a.rs"), "{context}");
        let mr = city.mr(&relic).await.unwrap();
        assert_eq!(mr.state, MrState::Conflict);
    }
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Blocked);
    assert!(city.store(|txn| txn.hooks(None)).await.is_empty());
    assert_eq!(city.escalations().await.len(), 1);
    assert_eq!(city.events(EventType::RaiderMergeFailed).await.len(), 3);
    let prompts = city.parts.tasks.prompts();
    assert!(prompts[1].contains("src/a.rs"), "the next one is told why");
}

/// The work of an attempt that did not land is not lost: salvage names it before its branch is deleted.
#[tokio::test(start_paused = true)]
async fn attempts_that_did_not_land_become_salvage_when_another_one_does() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    city.charge(&relic).await.unwrap();
    let mut heads = Vec::new();
    for conflicts in [true, false] {
        let hook = city.store(|txn| txn.hooks(None)).await.pop().unwrap();
        heads.push(city.parts.repo.commit(&hook.raider.name));
        if conflicts {
            let files = vec!["src/a.rs".to_owned()];
            city.parts.repo.script_merge(MergeOutcome::Conflict(files));
        }
        city.completed(&hook.raider).await.unwrap();
        city.pass(PATROL).await;
    }
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Closed);
    assert!(city.parts.repo.has_landed(&heads[1]));
    assert!(city.parts.repo.pins().is_empty());
    assert!(city.parts.repo.remote_branches().is_empty());
    let salvages = city.store(|txn| txn.salvages()).await;
    assert_eq!(salvages.len(), 1, "what landed needs none");
    assert_eq!(salvages[0].relic, Some(relic));
    assert_eq!(salvages[0].reason, "superseded");
    assert!(salvages[0].refs[0].ends_with(heads[0].as_str()));
    assert_eq!(city.events(EventType::RaiderSalvaged).await.len(), 1);
    // Salvage named it before the other refs were deleted.
    let calls = city.parts.repo.calls();
    let at = |op, what: &str| calls.iter().position(|call| *call == (op, what.to_owned()));
    let saved = at("salvage_head", heads[0].as_str()).unwrap();
    let gone = calls.iter().position(|(op, _)| *op == "delete_branch");
    assert!(saved < gone.unwrap());
}

/// A charge's settings hold for its reworks: work for a release branch never lands on main.
#[tokio::test(start_paused = true)]
async fn a_rework_lands_where_its_charge_said() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let mut asked = city.relic_now(&relic).await;
    asked.target = Some("release".into());
    city.store(move |txn| txn.put_relic(&asked)).await;
    city.charge(&relic).await.unwrap();
    let first = city.store(|txn| txn.hooks(None)).await.pop().unwrap();
    assert_eq!(first.target, "release");
    city.parts.repo.commit(&first.raider.name);
    let files = vec!["src/a.rs".to_owned()];
    city.parts.repo.script_merge(MergeOutcome::Conflict(files));
    city.completed(&first.raider).await.unwrap();
    city.pass(PATROL).await;
    let second = city.store(|txn| txn.hooks(None)).await.pop().unwrap();
    assert_eq!(second.incarnation.0, first.incarnation.0 + 1);
    assert_eq!(second.target, "release");
    assert_eq!(
        city.relic_now(&relic).await.target.as_deref(),
        Some("release")
    );
}

/// Another raider took the relic meanwhile: an old failure does not concern it.
#[tokio::test(start_paused = true)]
async fn a_failure_of_an_earlier_raider_does_not_touch_the_present_one() {
    let (city, charged) = Scenario::at_work().await;
    let mut old = failed(&charged, "gt-99");
    old.raider = raider("Shadow");
    send(&city, message::witness(&rig()), Body::MergeFailed(old)).await;
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Hooked);
    assert_eq!(relic.assignee, Some(charged.raider.to_string()));
    assert_eq!(relic.reworks, 0);
    assert_eq!(city.store(|txn| txn.hooks(None)).await.len(), 1);
}

/// Delivery is at least once: repeated messages change nothing.
/// Weakness W23 of an earlier system: a control message was deleted before it was carried out, and a crash lost it.
#[tokio::test(start_paused = true)]
async fn messages_delivered_twice_come_to_the_same_end() {
    let (city, charged) = Scenario::at_work().await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    let before = super::identities::chain(&city, "script").await;
    let again = city.worker("b").await;
    let commit = mr.merge_commit.clone().unwrap();
    let ready = MergeReady {
        raider: charged.raider.clone(),
        incarnation: charged.incarnation,
        rig: rig(),
        relic: charged.relic.clone(),
        mr: mr.id.clone(),
        branch: charged.branch.clone(),
        head: mr.head.clone(),
        verified: String::new(),
    };
    let said = merged(&charged, mr.id.as_str(), commit);
    let late = failed(&charged, mr.id.as_str());
    for _ in 0..2 {
        let ready = Body::MergeReady(ready.clone());
        send(&city, message::forge(&rig()), ready).await;
        let said = Body::Merged(said.clone());
        send(&city, message::witness(&rig()), said).await;
        let late = Body::MergeFailed(late.clone());
        send(&city, message::witness(&rig()), late).await;
    }
    assert_eq!(
        city.mr(&charged.relic).await.unwrap().state,
        MrState::Merged
    );
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!((relic.status, relic.reworks), (RelicStatus::Closed, 0));
    assert_eq!(city.parts.repo.landings(), 1);
    assert_eq!(city.events(EventType::RaiderMerged).await.len(), 1);
    assert!(city.parts.repo.pins().is_empty(), "no pin comes back");
    // The slot's next incarnation works on, untouched.
    assert_eq!(again.raider, charged.raider);
    assert!(city.runs(&again.session));
    let hook = city.hook(&again.raider).await.unwrap();
    assert_eq!(hook.incarnation, again.incarnation);
    let after = super::identities::chain(&city, "script").await;
    let merges = |chain: &[crate::domain::cv::CvEntry]| {
        chain.iter().filter(|entry| entry.kind == "merged").count()
    };
    assert_eq!(merges(&after), merges(&before));
}

/// Returns the hook of a raider that reworks a relic whose first attempt conflicted.
async fn reworked(city: &TestCity) -> Hook {
    let relic = city.relic("a").await;
    city.charge(&relic).await.unwrap();
    let first = city.store(|txn| txn.hooks(None)).await.pop().unwrap();
    city.parts.repo.commit(&first.raider.name);
    let files = vec!["src/a.rs".to_owned()];
    city.parts.repo.script_merge(MergeOutcome::Conflict(files));
    city.completed(&first.raider).await.unwrap();
    city.pass(PATROL).await;
    let second = city.store(|txn| txn.hooks(None)).await.pop().unwrap();
    assert_ne!(second.incarnation, first.incarnation);
    second
}

/// A failure causes one charge: after that raider is removed, no other is charged.
#[tokio::test(start_paused = true)]
async fn a_rework_that_a_person_nuked_waits_for_a_person() {
    let city = Scenario::new().start().await;
    let rework = reworked(&city).await;
    city.nuke(&rework.raider, true).await.unwrap();
    city.pass(PATROL * 2).await;
    assert_eq!(city.status(&rework.relic).await, RelicStatus::Open);
    assert!(city.store(|txn| txn.hooks(None)).await.is_empty());
}

/// A failed charge changes nothing: the relic is still to be reworked.
/// Weakness W2 of an earlier system: work whose session died as it handed over stayed in its state for ever, because
/// the failure of the next step was swallowed.
#[tokio::test(start_paused = true)]
async fn a_rework_whose_charge_failed_is_charged_again() {
    let city = Scenario::new().start().await;
    let session = raider("Toast").session_id();
    let refuse = StartError::Provider("no memory".into());
    let (sessions, fetched) = (Arc::clone(&city.parts.sessions), AtomicUsize::new(0));
    city.parts.repo.interlude("make_sandbox", move || {
        if fetched.fetch_add(1, Ordering::SeqCst) == 1 {
            sessions.refuse_start(&session, refuse.clone());
        }
    });
    let rework = reworked(&city).await;
    assert_eq!(city.parts.repo.count("make_sandbox"), 3);
    assert_eq!(rework.incarnation.0, 3);
}

/// Retries after a landing journal the salvage once.
#[tokio::test(start_paused = true)]
async fn salvage_is_journalled_once_however_often_merged_is_retried() {
    let city = Scenario::new().start().await;
    let rework = reworked(&city).await;
    city.parts.repo.commit(&rework.raider.name);
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("delete_branch", away);
    city.completed(&rework.raider).await.unwrap();
    city.pass(PATROL).await;
    assert!(city.parts.repo.count("salvage_head") > 1, "it was retried");
    city.parts.repo.mend("delete_branch");
    city.pass(PATROL).await;
    assert!(city.parts.repo.remote_branches().is_empty());
    assert_eq!(city.events(EventType::RaiderSalvaged).await.len(), 1);
}

/// A push under way cannot be stopped: the work lands, and the journal says so.
#[tokio::test(start_paused = true)]
async fn work_whose_relic_was_closed_during_the_push_has_landed_all_the_same() {
    let (city, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("land", away);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    super::close(&city, &charged).await;
    city.parts.repo.mend("land");
    city.pass(PATROL * 4).await;
    assert_eq!(city.parts.repo.landings(), 1);
    assert_eq!(city.events(EventType::RaiderMerged).await.len(), 1);
    let closed = city.events(EventType::RelicClosed).await;
    let twice = closed
        .iter()
        .any(|event| event.subject == charged.relic.as_str());
    assert!(!twice, "a person had closed it");
    assert!(city.parts.repo.names().is_empty());
}

/// A kept sandbox delays only its own removal.
#[tokio::test(start_paused = true)]
async fn landing_is_journalled_although_its_relic_was_closed_and_its_sandbox_is_kept() {
    let (city, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("land", away);
    city.completed(&charged.raider).await.unwrap();
    let stash = |facts: &mut GitFacts| facts.stashes.push("wip".into());
    city.parts.repo.change(&charged.raider.name, stash);
    city.settle().await;
    super::close(&city, &charged).await;
    city.pass(PATROL).await;
    city.parts.repo.mend("land");
    city.pass(PATROL * 2).await;
    assert_eq!(city.parts.repo.landings(), 1);
    assert_eq!(city.parts.repo.names(), ["Toast"], "it is kept");
    assert_eq!(city.events(EventType::RaiderMerged).await.len(), 1);
}

/// A report in an agent's own words had been closed when its work landed, although it was about something else.
#[tokio::test(start_paused = true)]
async fn landing_does_not_answer_what_an_agent_reported_in_its_own_words() {
    let (city, charged) = Scenario::at_work().await;
    let body = Escalation::high(
        &charged.raider,
        Problem::in_own_words("found a leaked password"),
        "",
    );
    let report = body.on(charged.relic.clone());
    send(&city, message::SHAMAN.to_owned(), Body::Help(report)).await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 2).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert!(city.parts.repo.names().is_empty(), "nothing is left of it");
    city.world.nudge(message::SHAMAN);
    city.pass(PATROL).await;
    let reports = city.escalations().await;
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].status, RelicStatus::Open, "a person closes it");
}

/// The call about unsaved work had been closed by the landing, and raised again by the next patrol.
#[tokio::test(start_paused = true)]
async fn landing_closes_no_call_about_a_sandbox_that_is_kept() {
    let (city, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("land", away);
    city.completed(&charged.raider).await.unwrap();
    let stash = |facts: &mut GitFacts| facts.stashes.push("wip".into());
    city.parts.repo.change(&charged.raider.name, stash);
    city.pass(PATROL).await;
    let is_open = |call: &Relic| call.status != RelicStatus::Closed;
    let before = city.escalations().await;
    assert_eq!(before.iter().filter(|call| is_open(call)).count(), 1);
    city.parts.repo.mend("land");
    city.pass(PATROL * 2).await;
    assert_eq!(city.parts.repo.landings(), 1);
    let after = city.escalations().await;
    assert_eq!(after.len(), before.len(), "no further call: {after:?}");
    assert!(is_open(&after[0]));
    city.parts
        .repo
        .change(&charged.raider.name, |facts| facts.stashes.clear());
    city.pass(PATROL * 2).await;
    assert!(city.parts.repo.names().is_empty());
    assert!(!city.escalations().await.iter().any(is_open), "it is over");
}
