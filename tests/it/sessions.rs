//! The conformance suite for providers of sessions, run by the fake, by real holders and by real tmux.

mod local;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use horde_supervisor::adapters::sessions::LocalSessions;
use horde_supervisor::domain::city::{Provider, tmux_server};
use horde_supervisor::ports::sessions::Sessions;
use horde_supervisor::testing::conformance::sessions::{Bench, Program};
use horde_supervisor::testing::fake_sessions::{self, FakeSessions};

use crate::support::tmux;

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

/// Real sessions in a directory of their own; none outlives the test, nor does its tmux server.
pub struct LocalBench {
    dir: tempfile::TempDir,
    provider: Provider,
}

impl LocalBench {
    /// Makes a bench of tmux; none on a machine without it.
    pub fn on_tmux() -> Option<Self> {
        tmux::is_there().then(|| Self::new(Provider::Tmux))
    }

    /// Makes a bench without sessions.
    pub fn new(provider: Provider) -> Self {
        let dir = horde_supervisor::testing::scratch();
        Self { dir, provider }
    }

    /// Returns the test's own directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the name of its tmux server.
    pub fn server(&self) -> String {
        tmux_server(self.path(), "")
    }

    /// Runs a command of its tmux server.
    pub fn tmux(&self, words: &[&str]) -> Output {
        let mut tmux = std::process::Command::new("tmux");
        tmux.env_remove("TMUX");
        tmux.args(["-u", "-L", &self.server()]).args(words);
        tmux.output().unwrap()
    }

    /// Returns the directory of the sessions.
    pub fn state_dir(&self) -> PathBuf {
        self.path().join("sessions")
    }

    /// Returns a provider.
    pub fn provider(&self) -> LocalSessions {
        let exe = PathBuf::from(env!("CARGO_BIN_EXE_horde-session"));
        let sessions = LocalSessions::new(self.state_dir(), exe, &self.server()).unwrap();
        sessions.make_ready(self.provider).unwrap();
        sessions.prefer(self.provider);
        sessions
    }
}

impl Drop for LocalBench {
    fn drop(&mut self) {
        use horde_supervisor::ports::sessions::SessionHandle;
        // A test that failed half-way leaves sessions.
        let sessions = self.provider();
        for facts in sessions.list().unwrap_or_default() {
            let (id, token) = (facts.id, facts.token);
            let handle = SessionHandle { id, token };
            if let Err(error) = sessions.stop(&handle, std::time::Duration::ZERO) {
                eprintln!("left behind: {error}");
            }
        }
        // Panes of sessions that ended by themselves. Without panes there is no server either.
        self.tmux(&["kill-server"]);
        let uid = nix::unistd::geteuid();
        let dir = std::env::var("TMUX_TMPDIR").unwrap_or_else(|_| "/tmp".to_owned());
        // tmux leaves its socket behind.
        let _none = std::fs::remove_file(format!("{dir}/tmux-{uid}/{}", self.server()));
    }
}

impl Bench for LocalBench {
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
            Program::Wraps => {
                let script = format!("echo '{forever}' > the-agent; sh ./the-agent & agent=$!");
                let ended = "read -r line; kill $agent; wait $agent; echo hollow";
                format!("{script}; {ended}; {forever}")
            }
        };
        vec!["sh".to_owned(), "-c".to_owned(), script]
    }

    fn cwd(&self) -> PathBuf {
        self.path().to_owned()
    }
}

mod fake_conforms {
    horde_supervisor::sessions_conformance!(super::FakeBench(super::FakeSessions::new()));
}

mod holder_conforms {
    horde_supervisor::sessions_conformance!(super::LocalBench::new(super::Provider::Holder));
}

mod tmux_conforms {
    horde_supervisor::sessions_conformance!(match super::LocalBench::on_tmux() {
        Some(bench) => bench,
        None => return,
    });
}
