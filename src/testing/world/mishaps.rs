//! Mishaps at a certain moment: a set-up that fails, a relic that a person closes, commits that are lost, a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Charged, FaultHook, RelicId, RelicStatus, Scenario, TestCity};
use crate::domain::saga::FaultPoint;

impl Scenario {
    /// Returns a scenario whose harness has a form with reduced permissions.
    #[must_use]
    pub fn careful() -> Self {
        Self::new().with(|city| {
            for harness in city.harnesses.values_mut() {
                harness.reduced = vec!["--careful".into()];
            }
        })
    }

    /// Starts a scenario whose set-up command fails, with a relic to charge.
    pub async fn whose_set_up_fails() -> (TestCity, RelicId) {
        let set_up = Self::new().rig(|rig| rig.raiders.setup = vec!["make deps".into()]);
        let city = set_up.start().await;
        city.parts.tasks.break_set_up(Some("make: no rule"));
        let relic = city.relic("a").await;
        (city, relic)
    }
}

/// Work that panics at one fault point, whenever it is tried, until the test ends that. A test that looks at work half
/// done needs this: after a single panic the next look of the witness goes on with the work, and that look may come
/// before the test's.
#[derive(Clone)]
pub struct Interruption {
    at: FaultPoint,
    is_over: Arc<AtomicBool>,
}

impl Interruption {
    /// Returns an interruption at this point, which lasts until [`Self::end`].
    #[must_use]
    pub fn at(at: FaultPoint) -> Self {
        let is_over = Arc::default();
        Self { at, is_over }
    }

    /// Returns the hook for [`Scenario::fault`].
    #[must_use]
    pub fn hook(&self) -> FaultHook {
        let own = self.clone();
        Arc::new(move |point| {
            let is_over = || own.is_over.load(Ordering::SeqCst);
            assert!(point != own.at || is_over(), "at {point:?}");
        })
    }

    /// Lets the next try pass.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

impl TestCity {
    /// Returns true when the last session began with the reduced permissions of [`Scenario::careful`].
    #[must_use]
    pub fn is_careful(&self) -> bool {
        let starts = self.parts.sessions.starts();
        let last = starts.last().expect("a session");
        last.argv.iter().any(|word| word == "--careful")
    }

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
