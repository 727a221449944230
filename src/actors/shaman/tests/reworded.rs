//! Problems are known by their codes: no text of the supervisor decides which escalation is meant.

use crate::actors::records::escalations::{self, Ends};
use crate::domain::message::Escalation;
use crate::ports::relics::Txn;
use std::collections::BTreeSet;

use super::*;
use crate::domain::problem::ProblemKind;

const TOAST: &str = "horde/raiders/Toast";

/// All kinds that are known by their codes alone. Whether a session still lives that could not be ended, the shaman
/// sees for itself.
fn kinds() -> impl Iterator<Item = ProblemKind> {
    let all = ProblemKind::ALL.iter().copied();
    all.filter(|kind| !matches!(kind, ProblemKind::Said | ProblemKind::Unkillable))
}

/// Calls a person for a problem of this kind with the same raider.
async fn called(city: &TestCity, kind: ProblemKind) {
    let body = Escalation {
        problem: kind.into(),
        ..about(TOAST, "", Severity::High)
    };
    escalations::call(&city.world, "horde/witness", Ends::WithSandbox, body)
        .await
        .unwrap();
    city.settle().await;
}

async fn open(city: &TestCity) -> Vec<Relic> {
    let mut open = city.escalations().await;
    open.retain(|relic| relic.status == RelicStatus::Open);
    open
}

async fn standing_of(city: &TestCity, kind: ProblemKind) -> bool {
    let standing = city
        .store(move |txn| escalations::standing(txn, kind, TOAST))
        .await;
    standing.is_some()
}

#[tokio::test(start_paused = true)]
async fn problem_of_each_kind_is_repeated_and_closed_in_whatever_words_it_was_stored() {
    let city = Scenario::new().start().await;
    for (before, kind) in kinds().enumerate() {
        called(&city, kind).await;
        city.reword().await;
        called(&city, kind).await;
        let now = open(&city).await;
        assert_eq!(now.len(), 1, "{kind:?}: {now:?}");
        assert_eq!(now[0].title, "in other words");
        let raised = raised(&city).await;
        assert_eq!(raised.len(), before + 1, "{kind:?}");
        assert_eq!(raised[before].data["code"], kind.code());
        assert!(standing_of(&city, kind).await, "{kind:?}");
        let others: Vec<_> = kinds().filter(|other| *other != kind).collect();
        let settle =
            move |txn: &mut dyn Txn| escalations::close_matching(txn, &others, |_, _| true);
        city.store(settle).await;
        assert_eq!(open(&city).await.len(), 1, "{kind:?}");
        city.store(move |txn| escalations::close_matching(txn, &[kind], |who, _| who == TOAST))
            .await;
        assert!(open(&city).await.is_empty(), "{kind:?}");
        assert!(!standing_of(&city, kind).await, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn problem_that_a_raider_still_has_stays_open_in_whatever_words_it_was_stored() {
    let city = Scenario::new().start().await;
    for kind in kinds() {
        called(&city, kind).await;
        city.reword().await;
        for (still, open_then) in [(true, 1), (false, 0)] {
            let these: BTreeSet<_> = [raider("Toast")].into_iter().filter(|_| still).collect();
            city.store(move |txn| escalations::still_so(txn, &rig(), kind, &these))
                .await;
            assert_eq!(open(&city).await.len(), open_then, "{kind:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn words_of_an_agent_are_no_problem_of_the_supervisor() {
    let city = Scenario::new().start().await;
    let kind = ProblemKind::Unread;
    help(&city, about(TOAST, kind.text(), Severity::High)).await;
    called(&city, kind).await;
    assert_eq!(open(&city).await.len(), 2);
    city.store(move |txn| escalations::close_matching(txn, &[kind], |_, _| true))
        .await;
    let left = open(&city).await;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].labels, ["about:horde/raiders/Toast"]);
}

#[tokio::test(start_paused = true)]
async fn problems_of_one_kind_with_different_things_are_different_problems() {
    let city = Scenario::new().start().await;
    for of in ["gt-1", "gt-2", "gt-1"] {
        let body = Escalation {
            problem: ProblemKind::LandingHeld.of(of, "it was tried 5 times"),
            ..about(TOAST, "", Severity::High)
        };
        escalations::call(&city.world, "horde/forge", Ends::WithSandbox, body)
            .await
            .unwrap();
        city.settle().await;
        city.reword().await;
    }
    let labels = open(&city).await.into_iter().map(|it| it.labels[1].clone());
    let expected = ["gt-1", "gt-2"].map(|of| format!("problem:landing_parked:{of}"));
    assert_eq!(labels.collect::<BTreeSet<_>>(), BTreeSet::from(expected));
}
