//! A sandbox that changes before each removal: it is not removed, and a person is called.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::PATROL;
use crate::actors::refusal::RefusalKind;
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::repo::RepoError;
use crate::testing::world::Scenario;

const HOUR: Duration = Duration::from_secs(3600);

fn open(calls: Vec<Relic>) -> Vec<Relic> {
    let is_open = |relic: &Relic| relic.status != RelicStatus::Closed;
    calls.into_iter().filter(is_open).collect()
}

/// A process that the set-up command left behind still writes while the charge is unwound.
#[tokio::test(start_paused = true)]
async fn charge_whose_sandbox_changes_while_it_is_taken_back_is_tried_again_and_calls_no_person() {
    let (city, relic) = Scenario::whose_set_up_fails().await;
    let repo = Arc::clone(&city.parts.repo);
    city.parts.repo.interlude("discard_sandbox", move || {
        for name in repo.names() {
            repo.dirty(&name.parse().unwrap(), "log.txt");
        }
    });
    city.charge(&relic).await.unwrap_err();
    city.settle().await;
    assert_eq!(city.parts.repo.names(), ["Toast"], "it changed");
    assert!(open(city.escalations().await).is_empty());
    city.parts.repo.interlude("discard_sandbox", || {});
    city.pass(PATROL).await;
    assert_eq!(city.sagas().await, 0);
    assert!(city.parts.repo.names().is_empty());
    assert!(open(city.escalations().await).is_empty());
}

/// The salvage itself gives up after its rounds, each time.
#[tokio::test(start_paused = true)]
async fn person_is_called_once_for_a_sandbox_that_keeps_changing_while_it_is_saved_and_it_goes_when_it_rests()
 {
    for hooked in [true, false] {
        let city = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
        let city = city.start().await;
        let charged = city.worker("a").await;
        let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
        let why = "Toast keeps changing while it is saved";
        repo.break_op("salvage", RepoError::Failed(why.to_owned()));
        match hooked {
            true => {
                let (repo, name) = (Arc::clone(&repo), name.clone());
                let late = move || repo.dirty(&name, "log.txt");
                city.parts.repo.interlude("push_branch", late);
                city.completed(&charged.raider).await.unwrap();
            }
            false => {
                repo.dirty(&name, "log.txt");
                super::unhook(&city, &charged).await;
            }
        }
        city.pass_hours(HOUR * 4).await;
        let called = open(city.escalations().await);
        assert!(repo.count("salvage") >= 3, "it is tried again");
        assert_eq!(repo.names(), ["Toast"], "kept");
        assert!(repo.salvages().is_empty());
        let saying = |call: &&Relic| call.body.contains("keeps changing");
        assert_eq!(called.iter().filter(saying).count(), 1, "{called:?}");
        repo.mend("salvage");
        city.pass_hours(HOUR).await;
        assert!(repo.names().is_empty());
        assert_eq!(repo.salvages().len(), 1);
        assert!(open(city.escalations().await).is_empty());
    }
}

/// An operator reads the refusal: nothing tries the removal again.
#[tokio::test(start_paused = true)]
async fn no_person_is_called_for_removals_that_an_operator_asked_for() {
    let (city, charged) = Scenario::at_work().await;
    let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
    repo.interlude("discard_sandbox", {
        let (repo, name) = (Arc::clone(&repo), name.clone());
        move || repo.dirty(&name, "log.txt")
    });
    for _ in 0..5 {
        repo.change(&name, |facts| facts.dirty.clear());
        let refused = city.nuke(&charged.raider, true).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Changed, "{refused}");
        city.settle().await;
    }
    assert!(open(city.escalations().await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn person_is_called_for_a_sandbox_that_changes_at_each_removal_and_it_goes_when_it_rests() {
    let (city, charged) = Scenario::at_work().await;
    let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
    let changes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&changes);
    repo.interlude("discard_sandbox", {
        let (repo, name) = (Arc::clone(&repo), name.clone());
        move || {
            count.fetch_add(1, Ordering::SeqCst);
            repo.dirty(&name, "log.txt");
        }
    });
    // It is committed again before the next look.
    repo.interlude("measure", {
        let repo = Arc::clone(&repo);
        move || {
            if repo.names().contains(&name.to_string()) {
                repo.change(&name, |facts| facts.dirty.clear());
            }
        }
    });
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 6).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert!(changes.load(Ordering::SeqCst) >= 3, "it was tried");
    let calls = open(city.escalations().await);
    let kinds: Vec<_> = calls
        .iter()
        .map(|call| Problem::stored(&call.labels, &call.title).kind())
        .collect();
    assert_eq!(kinds, [ProblemKind::NukeStuck], "{calls:?}");
    assert!(calls[0].body.contains("is not as it was"), "{calls:?}");
    repo.interlude("discard_sandbox", || {});
    city.pass(PATROL * 3).await;
    assert!(city.parts.repo.names().is_empty());
    assert!(open(city.escalations().await).is_empty());
}
