//! Work after a rejection by a person, of the same raider or another: it is changed, and reviewed again.

use super::PATROL;
use crate::actors::mail::{Charged, DoneRequest};
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::{closing, rejection};
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::ids::RelicId;
use crate::domain::merge::{MrState, Review};
use crate::domain::relic::{Hook, RelicStatus};
use crate::testing::world::{Scenario, TestCity, completion};

/// Has an agent submit work that began on an existing branch, and ask for its review, in a rig that asks for none. The
/// agent adds no commit to that branch.
async fn waiting(city: &TestCity) -> Charged {
    city.parts.repo.push_of_person("topic");
    let relic = city.relic("a").await;
    let mut stored = city.relic_now(&relic).await;
    stored.starts_on = Some("topic".into());
    city.store(move |txn| txn.put_relic(&stored)).await;
    let charged = city.charge(&relic).await.unwrap();
    (city.parts.repo).change(&charged.raider.name, |facts| facts.ahead = 1);
    let asked = DoneRequest {
        wants_review: true,
        ..completion(&charged.raider)
    };
    city.done(asked).await.unwrap();
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    charged
}

async fn hook_of(city: &TestCity, relic: &RelicId) -> Hook {
    let relic = relic.clone();
    let hook = city.store(move |txn| txn.hook_of_relic(&relic)).await;
    hook.unwrap()
}

/// Has the session end, and a person reject its work. Returns the hook of the fresh raider.
async fn rejected(city: &TestCity, charged: &Charged) -> Hook {
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(PATROL).await;
    let id = city.mr(&charged.relic).await.unwrap().id;
    let rejected = rejection::reject(&city.world, id, "no".into(), Asker::person());
    assert!(rejected.await.unwrap().back_to.is_none());
    city.pass(2 * PATROL).await;
    hook_of(city, &charged.relic).await
}

/// It landed without a look: the rig asks for no review, and the fresh raider had no rejected merge request of its own.
#[tokio::test(start_paused = true)]
async fn rework_of_a_fresh_raider_is_reviewed_and_the_rejected_commit_is_refused_from_it() {
    let city = Scenario::new().start().await;
    let charged = waiting(&city).await;
    let first = city.mr(&charged.relic).await.unwrap();
    let fresh = rejected(&city, &charged).await;
    assert_eq!(
        city.mr(&charged.relic).await.unwrap().review,
        Review::Rejected
    );
    (city.parts.repo).change(&fresh.raider.name, |facts| facts.ahead = 1);
    assert_eq!(fresh.base, first.head, "it begins on the same branch");
    let refused = city.completed(&fresh.raider).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::BadRequest);
    assert!(refused.message.contains("was rejected"), "{refused}");
    let head = city.parts.repo.commit(&fresh.raider.name);
    let accepted = city.completed(&fresh.raider).await.unwrap();
    assert!(accepted.may_be_reviewed);
    city.pass(4 * PATROL).await;
    let second = city.mr(&charged.relic).await.unwrap();
    assert_ne!(second.id, first.id);
    assert_eq!((second.awaits_person(), &second.head), (true, &head));
    assert!(!city.parts.repo.has_landed(&head));
}

/// The attempt after the rejection was withdrawn with its relic: the rejection still holds.
#[tokio::test(start_paused = true)]
async fn rejection_holds_for_the_attempt_after_one_that_was_withdrawn() {
    let city = Scenario::new().start().await;
    let charged = waiting(&city).await;
    let fresh = rejected(&city, &charged).await;
    city.parts.repo.commit(&fresh.raider.name);
    city.completed(&fresh.raider).await.unwrap();
    city.settle().await;
    let third = reopened(&city, &charged.relic).await;
    let head = city.parts.repo.commit(&third.raider.name);
    city.completed(&third.raider).await.unwrap();
    city.pass(4 * PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!((mr.awaits_person(), mr.head), (true, head));
}

/// Has a person close the relic, which waits for its review, open it again, and charge it.
async fn reopened(city: &TestCity, relic: &RelicId) -> Hook {
    let stored = city.relic_now(relic).await;
    let closed = city
        .store(move |txn| closing::close(txn, stored.clone(), None, Cause::Operator))
        .await;
    assert_eq!(closed.withdrawn.len(), 1);
    city.pass(4 * PATROL).await;
    let mut stored = city.relic_now(relic).await;
    (stored.status, stored.closed, stored.assignee) = (RelicStatus::Open, None, None);
    city.store(move |txn| txn.put_relic(&stored)).await;
    city.charge(relic).await.unwrap();
    hook_of(city, relic).await
}

/// It was refused: the end of its review was taken for a rejection.
#[tokio::test(start_paused = true)]
async fn work_that_was_withdrawn_with_its_relic_may_be_completed_without_a_change() {
    let city = Scenario::new().start().await;
    let charged = waiting(&city).await;
    let fresh = reopened(&city, &charged.relic).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!((mr.state, mr.review), (MrState::Rejected, Review::Wanted));
    assert!(mr.decided_at.is_some(), "its review has ended");
    (city.parts.repo).change(&fresh.raider.name, |facts| facts.ahead = 0);
    let unchanged = DoneRequest {
        no_change: true,
        reason: Some("it is there".into()),
        ..completion(&fresh.raider)
    };
    city.done(unchanged).await.unwrap();
    city.pass(2 * PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}
