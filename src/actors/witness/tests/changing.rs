//! A sandbox that changes before each removal: it is not removed, and a person is called.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PATROL;
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::relic::{Relic, RelicStatus};
use crate::testing::world::Scenario;

fn open(calls: Vec<Relic>) -> Vec<Relic> {
    let is_open = |relic: &Relic| relic.status != RelicStatus::Closed;
    calls.into_iter().filter(is_open).collect()
}

#[tokio::test(start_paused = true)]
async fn person_is_called_for_a_sandbox_that_changes_at_each_removal_and_it_goes_when_it_rests() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let (repo, name) = (Arc::clone(&town.parts.repo), charged.raider.name.clone());
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
    town.completed(&charged.raider).await.unwrap();
    town.pass(PATROL * 6).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    assert!(changes.load(Ordering::SeqCst) >= 3, "it was tried");
    let calls = open(town.escalations().await);
    let kinds: Vec<_> = calls
        .iter()
        .map(|call| Problem::stored(&call.labels, &call.title).kind())
        .collect();
    assert_eq!(kinds, [ProblemKind::NukeStuck], "{calls:?}");
    assert!(calls[0].body.contains("is not as it was"), "{calls:?}");
    repo.interlude("discard_sandbox", || {});
    town.pass(PATROL * 3).await;
    assert!(town.parts.repo.names().is_empty());
    assert!(open(town.escalations().await).is_empty());
}
