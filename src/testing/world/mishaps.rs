//! Mishaps at a certain moment: a set-up that fails, a relic that a person closes, commits that are lost, a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Charged, FaultHook, RelicId, RelicStatus, Scenario, TestCity};
use crate::domain::saga::FaultPoint;

impl Scenario {
    /// Starts a scenario whose set-up command fails, with a relic to charge.
    pub async fn whose_set_up_fails() -> (TestCity, RelicId) {
        let set_up = Self::new().rig(|rig| rig.raiders.setup = vec!["make deps".into()]);
        let city = set_up.start().await;
        city.parts.tasks.break_set_up(Some("make: no rule"));
        let relic = city.relic("a").await;
        (city, relic)
    }
}

/// Returns the hook that panics once, at this point.
#[must_use]
pub fn panics_once(at: FaultPoint) -> FaultHook {
    let once = AtomicBool::new(true);
    Arc::new(move |point| {
        let is_first = || once.swap(false, Ordering::SeqCst);
        assert!(point != at || !is_first(), "at {point:?}");
    })
}

impl TestCity {
    /// Has a person close the relic during an operation on the repository.
    pub fn closes_during(&self, op: &'static str, relic: &RelicId) {
        let (store, id) = (self.world.store.clone(), relic.clone());
        let runtime = tokio::runtime::Handle::current();
        self.parts.repo.interlude(op, move || {
            let id = id.clone();
            let close = store.run(move |txn| {
                let mut relic = txn.relic(&id)?;
                relic.status = RelicStatus::Closed;
                txn.put_relic(&relic)
            });
            runtime.block_on(close).unwrap();
        });
    }

    /// Resets the branch of a raider to its base during its push.
    pub async fn loses_commits_during_its_push(&self, charged: &Charged) {
        let base = self.hook(&charged.raider).await.unwrap().base;
        let (repo, name) = (self.parts.repo.clone(), charged.raider.name.clone());
        self.parts.repo.interlude("push_branch", move || {
            let base = base.clone();
            repo.change(&name, |facts| {
                facts.head = base;
                facts.ahead = 0;
            });
        });
    }
}
