//! Discovery over tracking: a sandbox without hook is found by observation, and is no less precious.

use super::{GROWN, PATROL, session_dead, unhook, zombies};
use crate::actors::ask;
use crate::actors::mail::WitnessMsg;
use crate::actors::mail::{NukeTarget, Nuked};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sagas::repair;
use crate::actors::sandboxes;
use crate::domain::cause::Cause;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Hook, RelicStatus};
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity, raider, rig};

/// Returns the hook that the only sandbox without hook was made for.
async fn was(city: &TestCity) -> Option<Hook> {
    let world = city.world.newest();
    let rig = world.city.rig(&rig()).unwrap();
    let mut lone = sandboxes::hookless(&world, rig).await.unwrap();
    assert_eq!(lone.len(), 1, "{lone:?}");
    lone.pop().unwrap().hook().cloned()
}

async fn nuke(city: &TestCity, salvage: bool) -> Result<Nuked, Refusal> {
    let hook = was(city).await.unwrap();
    let target = Box::new(NukeTarget::of(&hook, Cause::Operator));
    let message = |reply| WitnessMsg::Nuke {
        target,
        salvage,
        reply,
    };
    ask::ask(city.world.directory.witness(&rig()), message, GROWN).await?
}

/// `raider-lifecycle.md`, sandboxes without work: nuke, clean slate, charge again.
#[tokio::test(start_paused = true)]
async fn a_clean_sandbox_without_hook_goes_after_its_grace_and_its_work_is_open_again() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    unhook(&city, &charged).await;
    city.pass(PATROL * 3).await;
    assert!(!city.runs(&charged.session), "no hook needs it");
    assert_eq!(city.parts.repo.names(), ["Toast"], "it is young");
    assert!(zombies(&city).await.is_empty());
    city.pass(GROWN).await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(zombies(&city).await, session_dead(1));
    assert_eq!(
        city.relic_now(&charged.relic).await.status,
        RelicStatus::Open
    );
    assert!(city.escalations().await.is_empty());
    let again = city.charge(&charged.relic).await.unwrap();
    assert_eq!(
        (again.raider, again.incarnation.0),
        (charged.raider, 2),
        "the slot is free"
    );
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_without_hook_that_holds_work_is_told_once_and_kept() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    unhook(&city, &charged).await;
    city.pass(GROWN + PATROL * 10).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    // `witness-patrol.md`, has_unpushed: unreachable commits do not depend on the sandbox.
    assert_eq!(city.parts.repo.salvages().len(), 1, "once");
    assert_eq!(zombies(&city).await, session_dead(1));
    let called = city.escalations().await;
    assert_eq!(called.len(), 1, "{called:?}");
    assert!(called[0].body.contains("wip.txt"), "{}", called[0].body);
    let refused = nuke(&city, false).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::WorkAtRisk);
    let nuked = nuke(&city, true).await.unwrap();
    assert!(nuked.salvage.is_some());
    assert!(city.parts.repo.names().is_empty());
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Open);
    let escalations = city.escalations().await;
    assert_eq!(
        escalations[0].status,
        RelicStatus::Closed,
        "it has vanished"
    );
}

/// The relic has another raider by now, or is in the queue: that is not changed.
#[tokio::test(start_paused = true)]
async fn relic_of_another_raider_is_not_reopened() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let charged = city.charge(&relic).await.unwrap();
    unhook(&city, &charged).await;
    let id = relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&id)?;
        (relic.status, relic.assignee) = (RelicStatus::Open, None);
        txn.put_relic(&relic)
    })
    .await;
    let other = city.charge(&relic).await.unwrap();
    assert_eq!(other.raider, raider("Shadow"));
    city.pass(GROWN).await;
    assert_eq!(city.parts.repo.names(), ["Shadow"]);
    let relic = city.relic_now(&relic).await;
    assert_eq!(relic.status, RelicStatus::Hooked);
    assert_eq!(relic.assignee.unwrap(), other.raider.to_string());
    assert!(city.runs(&other.session));
}

/// Nothing is destroyed on Unknown, whichever probe fails.
#[tokio::test(start_paused = true)]
async fn unobservable_raider_is_kept() {
    for probe in ["sandboxes", "provenance", "measure", "sessions"] {
        let city = Scenario::new().start().await;
        let charged = city.charged("a").await;
        unhook(&city, &charged).await;
        city.pass(PATROL).await;
        let broken = RepoError::Failed("no answer".into());
        match probe {
            "sessions" => city.parts.sessions.blind(Some("no answer")),
            probe => city.parts.repo.break_op(probe, broken),
        }
        city.pass(GROWN * 2).await;
        assert_eq!(city.parts.repo.names(), ["Toast"], "{probe}");
        match probe {
            "sessions" => city.parts.sessions.blind(None),
            probe => city.parts.repo.mend(probe),
        }
        city.pass(PATROL * 2).await;
        assert!(city.parts.repo.names().is_empty(), "{probe} is back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_is_no_sandbox_is_told_once_and_left_alone() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    unhook(&city, &charged).await;
    city.parts.repo.forget_provenance(&charged.raider.name);
    city.pass(GROWN + PATROL * 10).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert!(was(&city).await.is_none());
    assert_eq!(city.escalations().await.len(), 1);
    assert!(zombies(&city).await.is_empty(), "of which incarnation?");
    city.parts.repo.lose(&charged.raider.name);
    city.pass(PATROL * 2).await;
    let escalations = city.escalations().await;
    assert_eq!(escalations[0].status, RelicStatus::Closed, "it has ended");
}

/// A transient read error is ignored; a lasting one is escalated until it is over.
#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_owner_stays_unreadable_is_told_once_until_it_can_be_read() {
    let city = Scenario::new().rig(|rig| rig.witness.keep_dirty = GROWN * 100);
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    unhook(&city, &charged).await;
    let broken = || RepoError::Failed("input/output error".into());
    city.parts.repo.break_op("provenance", broken());
    city.pass(PATROL * 4).await;
    city.parts.repo.mend("provenance");
    city.pass(PATROL).await;
    city.parts.repo.break_op("provenance", broken());
    city.pass(PATROL * 8).await;
    let unread = async || {
        let mut told = city.escalations().await;
        told.retain(|it| it.title == ProblemKind::Unread.text());
        told
    };
    assert!(unread().await.is_empty(), "not for long yet");
    city.pass(PATROL * 10).await;
    let told = unread().await;
    assert_eq!(told.len(), 1, "{told:?}");
    for part in ["input/output error", "raiders/Toast"] {
        assert!(told[0].body.contains(part), "{}", told[0].body);
    }
    assert_eq!(told[0].status, RelicStatus::Open);
    city.parts.repo.mend("provenance");
    city.pass(PATROL).await;
    assert_eq!(unread().await[0].status, RelicStatus::Closed, "it is over");
    assert_eq!(city.parts.repo.names(), ["Toast"]);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_without_hook_can_be_repaired_and_gets_no_session_for_it() {
    let (city, charged) = Scenario::at_work().await;
    unhook(&city, &charged).await;
    city.pass(PATROL).await;
    let repaired = repair::run(&city.world, charged.raider.clone()).await;
    assert!(repaired.unwrap().salvage.is_some(), "it held a commit");
    assert_eq!(city.parts.repo.count("repair_sandbox"), 1);
    city.pass(PATROL).await;
    assert!(!city.runs(&charged.session));
}

#[tokio::test(start_paused = true)]
async fn another_grace_counts_at_once() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    unhook(&city, &charged).await;
    city.pass(PATROL).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    city.reload(|city| city.rigs[0].witness.spawn_grace = PATROL)
        .await;
    city.pass(PATROL).await;
    assert!(city.parts.repo.names().is_empty());
}

/// A suspended rig keeps its sandboxes.
#[tokio::test(start_paused = true)]
async fn a_suspended_rig_loses_none() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    unhook(&city, &charged).await;
    city.reload(|city| city.rigs[0].suspended = true).await;
    city.pass(GROWN * 2).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
}

/// Weakness W8 of an earlier system: a workspace whose branch had been renamed counted as an orphan and was reset,
/// and two programs could clean up at once.
#[tokio::test(start_paused = true)]
async fn sandbox_at_work_is_left_alone_whatever_its_branch_is_called() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let name = &charged.raider.name;
    for branch in [Some("renamed".to_owned()), None] {
        city.parts.repo.change(name, |facts| facts.branch = branch);
        city.pass(GROWN + PATROL * 3).await;
        assert_eq!(city.parts.repo.count("discard_sandbox"), 0);
        assert!(city.runs(&charged.session));
        assert_eq!(city.starts(&charged.session), 1);
        assert!(city.hook(&charged.raider).await.is_some());
    }
}
