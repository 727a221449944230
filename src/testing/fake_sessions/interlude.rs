//! Actions of a test in the middle of a call, and the clock of the fake.

use std::sync::Arc;

use jiff::Timestamp;

use super::{FakeSessions, Inner};
use crate::domain::ids::{Incarnation, SessionId};
use crate::ports::clock::Clock;
use crate::ports::sessions::SessionHandle;

pub(super) type Act = Arc<dyn Fn() + Send + Sync>;

impl FakeSessions {
    /// Runs this at the beginning of every call of the operation, named as the method of the port: `start`, `send`,
    /// `agents_live`, `list`, `facts`, `logs`, `cpu`, `interrupt`, `stop`, `forget`, `check`
    /// or `membership`.
    pub fn interlude(&self, op: &'static str, act: impl Fn() + Send + Sync + 'static) {
        self.inner().interludes.insert(op, Arc::new(act));
    }

    /// Runs the test's interlude, outside the lock.
    pub(super) fn enter(&self, op: &'static str) {
        let act = self.inner().interludes.get(op).cloned();
        if let Some(act) = act {
            act();
        }
    }

    /// Ends the session, and starts another of its name at once, of this incarnation. The listener is not told.
    ///
    /// # Panics
    /// There is no session of that name.
    pub fn recreate(&self, id: &SessionId, incarnation: Incarnation) -> SessionHandle {
        let mut inner = self.inner();
        let old = inner.sessions.remove(id).expect("a session");
        if old.runs() {
            inner.history.push((old.handle(), false));
        }
        let mut spec = old.spec;
        (spec.incarnation, spec.generation.0) = (incarnation, spec.generation.0 + 1);
        let fresh = self.make(&mut inner, &spec);
        let handle = fresh.handle();
        inner.history.push((handle.clone(), true));
        inner.sessions.insert(id.clone(), fresh);
        handle
    }

    /// Takes the start times of sessions from this clock from now on.
    pub fn follow(&self, clock: Arc<dyn Clock>) {
        self.inner().clock = Some(clock);
    }

    /// Ends the agent but not its session: a shell is left.
    pub fn hollow(&self, id: &SessionId) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.hollow = true;
        }
    }

    /// Starts the agent again from that shell.
    pub fn fill(&self, id: &SessionId) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.hollow = false;
        }
    }
}

impl Inner {
    pub(super) fn now(&self) -> Timestamp {
        self.clock
            .as_ref()
            .map_or_else(Timestamp::now, |clock| clock.now())
    }
}
