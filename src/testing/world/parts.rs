//! The fakes that a city is made of.

use std::sync::Arc;

use crate::actors::store::StoreHandle;
use crate::ports::clock::Clock;
use crate::testing::fake_repo::FakeRepo;
use crate::testing::fake_runner::FakeRunner;
use crate::testing::fake_sessions::FakeSessions;
use crate::testing::fake_tasks::FakeTasks;

/// The fakes that outlive a daemon.
#[derive(Clone)]
pub struct Parts {
    /// Sessions.
    pub sessions: Arc<FakeSessions>,
    /// git.
    pub repo: Arc<FakeRepo>,
    /// Task files.
    pub tasks: Arc<FakeTasks>,
    /// Commands of automations.
    pub runner: Arc<FakeRunner>,
    /// The store.
    pub store: StoreHandle,
}

impl Parts {
    /// Returns the fakes of a city that never ran, with an empty store.
    #[must_use]
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        Self {
            sessions: Arc::new(FakeSessions::new()),
            repo: Arc::new(FakeRepo::new()),
            tasks: Arc::new(FakeTasks::new()),
            runner: Arc::default(),
            store: StoreHandle::in_memory(Arc::clone(clock)),
        }
    }

    /// Returns the same fakes as a new daemon finds them, without listeners.
    #[must_use]
    pub fn rewired(&self) -> Self {
        Self {
            sessions: Arc::new(self.sessions.successor()),
            tasks: Arc::new(self.tasks.successor()),
            ..self.clone()
        }
    }
}
