//! The conformance suite of session providers, run by the fake and by the real holder.

mod holder;

use std::path::PathBuf;
use std::sync::Arc;

use horde_supervisor::adapters::sessions::holder::HolderSessions;
use horde_supervisor::ports::sessions::Sessions;
use horde_supervisor::testing::conformance::sessions::{Bench, Program};
use horde_supervisor::testing::fake_sessions::{self, FakeSessions};

/// The fake under test.
struct FakeBench(FakeSessions);

impl Bench for FakeBench {
    fn sessions(&self) -> Arc<dyn Sessions> {
        Arc::new(self.0.successor())
    }

    fn successor(&self) -> Arc<dyn Sessions> {
        Arc::new(self.0.successor())
    }

    fn argv(&self, program: &Program) -> Vec<String> {
        fake_sessions::argv(program)
    }

    fn cwd(&self) -> PathBuf {
        PathBuf::from("/")
    }
}

/// Real holders in a directory of their own; none outlives the test.
pub struct HolderBench(tempfile::TempDir);

impl HolderBench {
    /// A bench without sessions.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where the sessions are kept.
    pub fn state_dir(&self) -> PathBuf {
        self.0.path().join("sessions")
    }

    /// A provider.
    pub fn provider(&self) -> HolderSessions {
        let exe = PathBuf::from(env!("CARGO_BIN_EXE_horde-supervisor"));
        HolderSessions::new(self.state_dir(), exe).unwrap()
    }
}

impl Drop for HolderBench {
    fn drop(&mut self) {
        use horde_supervisor::ports::sessions::SessionHandle;
        // A test that failed half-way has sessions left.
        let sessions = self.provider();
        for facts in sessions.list().unwrap_or_default() {
            let (id, token) = (facts.id, facts.token);
            let handle = SessionHandle { id, token };
            if let Err(error) = sessions.stop(&handle, std::time::Duration::ZERO) {
                eprintln!("left behind: {error}");
            }
        }
    }
}

impl Bench for HolderBench {
    fn sessions(&self) -> Arc<dyn Sessions> {
        Arc::new(self.provider())
    }

    fn successor(&self) -> Arc<dyn Sessions> {
        Arc::new(self.provider())
    }

    fn argv(&self, program: &Program) -> Vec<String> {
        let forever = "while :; do sleep 1000 & wait $!; done";
        let script = match program {
            Program::Prints(text) => format!("printf '%s\\n' '{text}'; exec sleep 1000"),
            Program::Exits(code) => format!("exit {code}"),
            Program::DiesOf(signal) => format!("kill -{signal} $$"),
            Program::PrintsEnvironment => return vec!["env".to_owned()],
            Program::Echoes => {
                "while read -r line; do printf 'got %s\\n' \"$line\"; done".to_owned()
            }
            Program::IgnoresTerm => format!("trap '' TERM; echo ready; {forever}"),
            Program::NotesInterrupts => {
                format!("trap 'echo interrupted' INT; echo ready; {forever}")
            }
            Program::NotesSize => format!("trap 'stty size' WINCH; stty size; {forever}"),
        };
        vec!["sh".to_owned(), "-c".to_owned(), script]
    }

    fn cwd(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

mod fake_conforms {
    horde_supervisor::sessions_conformance!(super::FakeBench(super::FakeSessions::new()));
}

mod holder_conforms {
    horde_supervisor::sessions_conformance!(super::HolderBench::new());
}
