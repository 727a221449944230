//! Ends of pretended sessions.

use super::FakeSessions;
use crate::domain::facts::SessionExit;
use crate::domain::ids::SessionId;

impl FakeSessions {
    /// Returns the exit of a session that ends now.
    pub(super) fn exited(&self, code: Option<i32>, signal: Option<i32>) -> SessionExit {
        SessionExit {
            code,
            signal,
            at: self.inner().now(),
            by_person: false,
            stopped: false,
        }
    }

    /// Ends the agent by this signal, as the supervisor does.
    pub(super) fn end_stopped(&self, id: &SessionId, signal: i32) {
        let (stopped, exit) = (true, self.exited(None, Some(signal)));
        self.end(id, SessionExit { stopped, ..exit });
    }

    /// Ends the agent with this exit code.
    pub fn exit(&self, id: &SessionId, code: i32) {
        self.end(id, self.exited(Some(code), None));
    }

    /// Ends the agent by this signal, as a crash.
    pub fn crash(&self, id: &SessionId, signal: i32) {
        self.end(id, self.exited(None, Some(signal)));
    }

    /// Ends the agent by Ctrl-C of an attached person.
    pub fn interrupted_by_person(&self, id: &SessionId) {
        let (by_person, exit) = (true, self.exited(Some(130), None));
        self.end(id, SessionExit { by_person, ..exit });
    }
}
