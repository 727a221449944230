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
use crate::testing::world::{Scenario, Town};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns its only wisp.
fn wisp(state: &str) -> Vec<(String, RelicStatus, String)> {
    let title = format!("cleanup of horde/raiders/Toast: {state}");
    vec![(title, RelicStatus::Open, String::new())]
}

/// Declares completion, with `act` in the middle of the push.
async fn finished(act: impl Fn(&Town, &Charged) -> Act) -> (Town, Charged) {
    let town = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
    let town = town.start().await;
    let charged = town.worker("a").await;
    town.parts
        .repo
        .interlude("push_branch", act(&town, &charged));
    town.completed(&charged.raider).await.unwrap();
    town.pass(PATROL * 4).await;
    (town, charged)
}

type Act = Box<dyn Fn() + Send + Sync>;

/// Checks that the finished work is on its remote branch, from which the next raider starts.
async fn goes_in_the_end(town: &Town, charged: &Charged) {
    assert_eq!(shown(town).await, wisp("pending"));
    assert_eq!(town.escalations().await.len(), 1);
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    town.pass_hours(HOUR).await;
    assert!(town.parts.repo.names().is_empty(), "`keep_dirty` is over");
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Open);
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_lost_its_commits_after_done() {
    let (town, charged) = finished(|town, charged| {
        let (repo, name) = (Arc::clone(&town.parts.repo), charged.raider.name.clone());
        let base = town.parts.repo.tip();
        Box::new(move || {
            let base = base.clone();
            repo.change(&name, |facts| (facts.head, facts.ahead) = (base, 0));
        })
    })
    .await;
    let told = town.escalations().await.remove(0);
    assert!(told.body.contains("hd mq reject"), "{}", told.body);
    goes_in_the_end(&town, &charged).await;
}

#[tokio::test(start_paused = true)]
async fn a_head_after_done_that_cannot_be_pushed() {
    let (town, charged) = finished(|town, charged| {
        let (repo, name) = (Arc::clone(&town.parts.repo), charged.raider.name.clone());
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
    let told = town.escalations().await.remove(0);
    assert!(told.body.contains("protected branch"), "{}", told.body);
    goes_in_the_end(&town, &charged).await;
    assert!(!town.parts.repo.salvages().is_empty(), "what came late");
}

/// Nothing is destroyed on Unknown, however long it lasts.
#[tokio::test(start_paused = true)]
async fn a_finished_sandbox_that_cannot_be_measured() {
    let (town, charged) = finished(|town, _| {
        let repo = Arc::clone(&town.parts.repo);
        Box::new(move || repo.break_op("measure", RepoError::Failed("torn".into())))
    })
    .await;
    town.pass_hours(HOUR * 2).await;
    assert_eq!(shown(&town).await, wisp("zombie-detected"));
    let told = town.escalations().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].body.contains("torn"), "{}", told[0].body);
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    town.parts.repo.mend("measure");
    town.pass(PATROL * 2).await;
    assert!(town.parts.repo.names().is_empty());
    assert_eq!(
        town.status(&charged.relic).await,
        RelicStatus::Closed,
        "it has landed"
    );
}

/// Starts with a sandbox without hook, changed by `act`.
async fn unowned(act: impl Fn(&Town, &Charged)) -> (Town, Charged) {
    let town = Scenario::new().start().await;
    let charged = town.charged("a").await;
    unhook(&town, &charged).await;
    act(&town, &charged);
    town.pass(GROWN + PATROL * 10).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    assert_eq!(shown(&town).await, wisp("zombie-detected"));
    (town, charged)
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_nothing_tells_the_owner_of() {
    let (town, charged) =
        unowned(|town, of| town.parts.repo.forget_provenance(&of.raider.name)).await;
    town.parts.repo.lose(&charged.raider.name);
    town.pass(PATROL * 2).await;
    assert_eq!(shown(&town).await[0].2, "removed");
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_owner_cannot_be_read() {
    let broken = RepoError::Failed("input/output error".into());
    let (town, charged) =
        unowned(|town, _| town.parts.repo.break_op("provenance", broken.clone())).await;
    // Its owner is known again, and it holds work.
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    town.parts.repo.mend("provenance");
    town.pass(PATROL * 3).await;
    let told = shown(&town).await;
    let mut states = told.iter().map(|wisp| (wisp.0.as_str(), wisp.1));
    assert!(states.any(|it| it == (wisp("pending")[0].0.as_str(), RelicStatus::Open)));
    assert_eq!(told[0].2, "its owner is known again");
}

/// A person makes room, or does not: at least it is known.
#[tokio::test(start_paused = true)]
async fn a_sandbox_that_salvage_has_no_room_for() {
    let town = Scenario::new().with(|city| city.retention.salvage_max = Some(0));
    let town = town.rig(|rig| rig.witness.keep_dirty = HOUR).start().await;
    let charged = town.charged("a").await;
    let amended = |facts: &mut GitFacts| facts.special.push(OtherWork::left_behind("abc"));
    town.parts.repo.change(&charged.raider.name, amended);
    unhook(&town, &charged).await;
    town.pass(GROWN + PATROL * 4).await;
    assert_eq!(shown(&town).await, wisp("pending"));
    assert_eq!(town.escalations().await.len(), 1);
    town.pass_hours(HOUR).await;
    assert_eq!(shown(&town).await, wisp("pending"), "one");
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    town.reload(|city| city.retention.salvage_max = None).await;
    town.pass(PATROL * 2).await;
    assert!(town.parts.repo.names().is_empty());
}
