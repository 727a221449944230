//! A push that the remote refuses: a person is called once, and there is a way out.

use std::time::Duration;

use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::actors::refusal::LASTING;
use crate::actors::refusal::RefusalKind;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity};

const PATROL: Duration = Duration::from_secs(31);

fn refused() -> RepoError {
    RepoError::Rejected("branch names must begin with feature/".into())
}

/// Completes a raider's work whose branch the remote refuses.
async fn blocked(error: RepoError) -> (TestCity, Charged) {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.break_op("push_branch", error);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    (city, charged)
}

#[tokio::test(start_paused = true)]
async fn a_push_that_will_not_pass_by_itself_calls_a_person_once_and_goes_on() {
    let moved = RepoError::Moved {
        name: "raider/Toast/gt-1-1".into(),
        expected: "absent".into(),
        found: "another head".into(),
    };
    let gone = RepoError::NotFound("the head".into());
    for error in [refused(), moved, gone] {
        let (city, charged) = blocked(error).await;
        city.pass(PATROL * 20).await;
        let raised = city.escalations().await;
        assert_eq!(raised.len(), 1, "{raised:?}");
        assert!(raised[0].body.contains("--salvage"), "{}", raised[0].body);
        assert_eq!(city.events(EventType::RaiderPushBlocked).await.len(), 1);
        // A person lifts the rule: a retry within a patrol succeeds.
        city.parts.repo.mend("push_branch");
        city.pass(PATROL).await;
        assert_eq!(city.events(EventType::EscalationAcked).await.len(), 1);
        assert_eq!(city.escalations().await[0].status, RelicStatus::Closed);
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_remote_is_not_escalated() {
    let (city, _) = blocked(RepoError::Remote("no route".into())).await;
    city.pass(PATROL * 20).await;
    assert!(city.escalations().await.is_empty());
}

/// An expired token looks like a remote that is away.
#[tokio::test(start_paused = true)]
async fn a_remote_that_stays_away_calls_a_person_once_until_it_is_back() {
    let (city, charged) = blocked(RepoError::Remote("permission denied".into())).await;
    city.pass_hours(LASTING * 3).await;
    let raised = city.escalations().await;
    assert_eq!(raised.len(), 1, "{raised:?}");
    assert!(raised[0].body.contains("permission denied"));
    city.reword().await;
    city.parts.repo.mend("push_branch");
    city.pass(PATROL).await;
    assert_eq!(city.escalations().await[0].status, RelicStatus::Closed);
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_operator_gives_a_blocked_push_up_with_salvage_only() {
    let (city, charged) = blocked(refused()).await;
    let error = city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(error.kind, RefusalKind::Conflict);
    assert!(error.hint.unwrap().contains("--salvage"));
    assert!(city.runs(&charged.session), "refused is without any effect");
    let nuked = city.nuke(&charged.raider, true).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(city.sagas().await, 0);
    assert_eq!(city.events(EventType::RaiderDoneWithdrawn).await.len(), 1);
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!((relic.status, relic.assignee), (RelicStatus::Open, None));
    let tried = city.parts.repo.count("push_branch");
    city.pass(PATROL * 20).await;
    assert_eq!(city.parts.repo.count("push_branch"), tried, "it is over");
    city.charge(&charged.relic).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_blocked_push_that_could_not_be_given_up_is_open_work_again() {
    let (city, charged) = blocked(refused()).await;
    let broken = RepoError::Failed("disk".into());
    city.parts.repo.break_op("salvage", broken);
    city.nuke(&charged.raider, true).await.unwrap_err();
    city.settle().await;
    assert!(city.hook(&charged.raider).await.unwrap().done.is_none());
    let id = ChildId::Raider(charged.raider.clone());
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    city.parts.repo.mend("salvage");
    city.parts.repo.mend("push_branch");
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn closing_its_relic_ends_a_blocked_push() {
    let (city, charged) = blocked(refused()).await;
    let closed = charged.relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&closed)?;
        relic.status = RelicStatus::Closed;
        txn.put_relic(&relic)
    })
    .await;
    city.pass(PATROL).await;
    assert!(!city.runs(&charged.session), "its session is ended");
    assert_eq!(city.sagas().await, 0);
    let again = city.completed(&charged.raider).await.unwrap_err();
    assert_eq!(again.kind, RefusalKind::Conflict);
    // Its work is on no remote: a person is called, and can give it up.
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(city.escalations().await.len(), 2);
    city.nuke(&charged.raider, true).await.unwrap();
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert!(city.parts.repo.names().is_empty());
}
