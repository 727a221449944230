//! A raider that cannot be removed, for whatever reason, is tracked by a wisp, and a person is told once; without an
//! answer it does not hold its slot for ever (`witness-patrol.md`, cleanup wisp).

use std::sync::Arc;
use std::time::Duration;

use super::wisps::shown;
use super::{GROWN, PATROL, unhook};
use crate::actors::mail::Charged;
use crate::domain::facts::GitFacts;
use crate::domain::other_work::OtherWork;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns its only wisp.
fn wisp(state: &str) -> Vec<(String, RelicStatus, String)> {
    let title = format!("cleanup of horde/raiders/Toast: {state}");
    vec![(title, RelicStatus::Open, String::new())]
}

/// Declares completion, with `act` in the middle of the push.
async fn finished(act: impl Fn(&TestCity, &Charged) -> Act) -> (TestCity, Charged) {
    let city = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.parts
        .repo
        .interlude("push_branch", act(&city, &charged));
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 4).await;
    (city, charged)
}

type Act = Box<dyn Fn() + Send + Sync>;

/// Checks that the finished work is on its remote branch, from which the next raider starts.
async fn goes_in_the_end(city: &TestCity, charged: &Charged) {
    assert_eq!(shown(city).await, wisp("pending"));
    assert_eq!(city.escalations().await.len(), 1);
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    city.pass_hours(HOUR).await;
    assert!(city.parts.repo.names().is_empty(), "`keep_dirty` is over");
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Open);
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_lost_its_commits_after_done() {
    let (city, charged) = finished(|city, charged| {
        let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
        let base = city.parts.repo.tip();
        Box::new(move || {
            let base = base.clone();
            repo.change(&name, |facts| (facts.head, facts.ahead) = (base, 0));
        })
    })
    .await;
    let escalations = city.escalations().await.remove(0);
    assert!(
        escalations.body.contains("hd mq reject"),
        "{}",
        escalations.body
    );
    goes_in_the_end(&city, &charged).await;
}

#[tokio::test(start_paused = true)]
async fn a_head_after_done_that_cannot_be_pushed() {
    let (city, charged) = finished(|city, charged| {
        let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
        let rejected = || RepoError::Rejected("protected branch".into());
        Box::new(move || {
            if repo.count("push_branch") == 1 {
                repo.commit(&name);
            } else {
                repo.fail("push_branch", rejected());
            }
        })
    })
    .await;
    let escalations = city.escalations().await.remove(0);
    assert!(
        escalations.body.contains("protected branch"),
        "{}",
        escalations.body
    );
    goes_in_the_end(&city, &charged).await;
    assert!(!city.parts.repo.salvages().is_empty(), "what came late");
}

/// Nothing is destroyed on Unknown, however long it lasts.
#[tokio::test(start_paused = true)]
async fn a_finished_sandbox_that_cannot_be_measured() {
    let (city, charged) = finished(|city, _| {
        let repo = Arc::clone(&city.parts.repo);
        Box::new(move || repo.break_op("measure", RepoError::Failed("torn".into())))
    })
    .await;
    city.pass_hours(HOUR * 2).await;
    assert_eq!(shown(&city).await, wisp("zombie-detected"));
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(
        escalations[0].body.contains("torn"),
        "{}",
        escalations[0].body
    );
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    city.parts.repo.mend("measure");
    city.pass(PATROL * 2).await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(
        city.status(&charged.relic).await,
        RelicStatus::Closed,
        "it has landed"
    );
}

/// Starts with a sandbox without hook, changed by `act`.
async fn unowned(act: impl Fn(&TestCity, &Charged)) -> (TestCity, Charged) {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    unhook(&city, &charged).await;
    act(&city, &charged);
    city.pass(GROWN + PATROL * 10).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(shown(&city).await, wisp("zombie-detected"));
    (city, charged)
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_nothing_tells_the_owner_of() {
    let (city, charged) =
        unowned(|city, of| city.parts.repo.forget_provenance(&of.raider.name)).await;
    city.parts.repo.lose(&charged.raider.name);
    city.pass(PATROL * 2).await;
    assert_eq!(shown(&city).await[0].2, "removed");
}

#[tokio::test(start_paused = true)]
async fn sandbox_whose_owner_cannot_be_read_is_judged_once_it_can() {
    let broken = RepoError::Failed("input/output error".into());
    let (city, charged) =
        unowned(|city, _| city.parts.repo.break_op("provenance", broken.clone())).await;
    // Its owner is known again, and it holds work.
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    city.parts.repo.mend("provenance");
    city.pass(PATROL * 3).await;
    let told = shown(&city).await;
    let mut states = told.iter().map(|wisp| (wisp.0.as_str(), wisp.1));
    assert!(states.any(|it| it == (wisp("pending")[0].0.as_str(), RelicStatus::Open)));
    assert_eq!(told[0].2, "its owner is known again");
}

/// A person makes room, or does not: at least it is known.
#[tokio::test(start_paused = true)]
async fn a_sandbox_that_salvage_has_no_room_for() {
    let city = Scenario::new().with(|city| city.retention.salvage_max = Some(0));
    let city = city.rig(|rig| rig.witness.keep_dirty = HOUR).start().await;
    let charged = city.charged("a").await;
    let amended = |facts: &mut GitFacts| facts.other_work.push(OtherWork::left_behind("abc"));
    city.parts.repo.change(&charged.raider.name, amended);
    unhook(&city, &charged).await;
    city.pass(GROWN + PATROL * 4).await;
    assert_eq!(shown(&city).await, wisp("pending"));
    assert_eq!(city.escalations().await.len(), 1);
    city.pass_hours(HOUR).await;
    assert_eq!(shown(&city).await, wisp("pending"), "one");
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    city.reload(|city| city.retention.salvage_max = None).await;
    city.pass(PATROL * 2).await;
    assert!(city.parts.repo.names().is_empty());
}
