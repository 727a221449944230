//! A city with the real daemon, real git and a scripted agent (`agent.sh`).

pub mod asks;

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use horde_supervisor::control::client::Client;
use horde_supervisor::testing::{poll::poll, scratch, watchdog};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use self::asks::SocketFile;
use super::git::git;
use super::plan::Plan;
use super::{processes, tmux};

/// The limit of every wait: the machine may be slow and busy.
pub const LIMIT: Duration = Duration::from_secs(90);

/// The limit for processes to leave after the daemon has ended.
const LEAVE: Duration = Duration::from_secs(5);

/// Waits until there is a value, and returns it.
pub fn wait<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    poll(LIMIT, look).unwrap_or_else(|| panic!("not in time: {what}"))
}

/// Waits for a condition.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    wait(what, || condition().then_some(()));
}

/// The result of a run of `hd`.
#[derive(Debug)]
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Returns the result of a run that must have succeeded.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).expect("JSON on standard output")
    }

    /// Returns the error of a run that must have failed with this code.
    pub fn error(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        let told: Value = serde_json::from_str(&self.err).expect("JSON on standard error");
        told["error"].clone()
    }
}

/// The city.
pub struct City {
    dir: tempfile::TempDir,
    root: PathBuf,
    /// The directory of its programs; that of the build if none is given.
    programs: Option<PathBuf>,
    daemon: Option<Child>,
    /// The connection of the last look, for the next one, with the socket's file.
    looks: Mutex<Option<(Client, SocketFile)>>,
    /// Set when sessions may be running that only a graceful stop of a new daemon would end.
    abandoned: bool,
}

impl City {
    /// Starts a city with one rig `horde` and default settings.
    pub fn new() -> Self {
        Plan::new().start()
    }

    /// Makes the city of a plan; its daemon is not started yet.
    pub fn made(plan: &Plan) -> Self {
        Self::made_in(scratch::place(), plan)
    }

    /// Makes the city below this directory.
    pub fn made_in(place: &Path, plan: &Plan) -> Self {
        let dir = tempfile::Builder::new().prefix("e2e-").tempdir_in(place);
        let dir = dir.unwrap();
        watchdog::watch(dir.path());
        let root = fs::canonicalize(dir.path()).unwrap();
        for part in ["home", "signs", "seen"] {
            fs::create_dir(root.join(part)).unwrap();
        }
        plan.write_to(&root);
        Self {
            dir,
            root,
            programs: None,
            daemon: None,
            looks: Mutex::default(),
            abandoned: false,
        }
    }

    /// Returns the city's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the checkout of the rig `horde`.
    pub fn checkout(&self) -> PathBuf {
        self.root.join("horde-checkout")
    }

    /// Returns the supervisor's own repository of the rig `horde`.
    pub fn repo(&self) -> PathBuf {
        self.root.join(".horde/custody/horde.git")
    }

    /// Returns the repository of the sandboxes of the rig `horde`.
    pub fn theirs(&self) -> PathBuf {
        self.root.join("horde/repo.git")
    }

    /// Returns the bare origin of the rig `horde`.
    pub fn origin(&self) -> PathBuf {
        self.root.join("horde-origin.git")
    }

    /// Returns the sandbox of a raider of the rig `horde`.
    pub fn sandbox(&self, name: &str) -> PathBuf {
        self.root.join("horde/raiders").join(name)
    }

    /// Returns the files on main of the origin.
    pub fn landed(&self) -> Vec<String> {
        let files = git(&self.origin(), &["ls-tree", "-r", "--name-only", "main"]);
        files.lines().map(str::to_owned).collect()
    }

    /// Returns a command for one of our programs, without the machine's settings.
    pub fn program(&self, name: &str) -> Command {
        let built = || cargo_bin(name);
        let installed = self.programs.as_ref().map(|dir| dir.join(name));
        let mut program = Command::new(installed.unwrap_or_else(built));
        program
            .env_clear()
            .env("PATH", std::env::var_os("PATH").expect("a PATH"))
            .env("HOME", self.root.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(&self.root)
            .stdin(Stdio::null());
        program
    }

    /// Returns a command for `horde-supervisor` on this city, with its log in `supervisor.log`.
    pub fn supervisor(&self) -> Command {
        let mut log = File::options();
        log.create(true).append(true);
        let log = log.open(self.root.join("supervisor.log")).unwrap();
        let mut supervisor = self.program("horde-supervisor");
        supervisor.arg(&self.root).stdout(Stdio::null()).stderr(log);
        supervisor
    }

    /// Installs our programs in the city's `bin`, as an upgrade does: each is written beside its predecessor and
    /// renamed over it. The version changes its contents.
    pub fn install(&mut self, version: &str) -> PathBuf {
        let bin = self.root.join("bin");
        let script = r#"mkdir -p "$0" && cp "$1" "$0/.new" && echo "$2" >>"$0/.new" && mv "$0/.new" "$0/$3""#;
        for name in ["horde-supervisor", "hd"] {
            let mut words = Command::new("sh");
            words.args(["-c", script]).arg(&bin).arg(cargo_bin(name));
            assert!(words.args([version, name]).status().unwrap().success());
        }
        self.programs = Some(bin.clone());
        bin
    }

    /// Starts the daemon and waits until it answers.
    pub fn start(&mut self) {
        let supervisor = self.supervisor();
        self.start_as(supervisor);
    }

    /// Starts the daemon by this command.
    pub fn start_as(&mut self, supervisor: Command) {
        self.spawn(supervisor, |status| {
            panic!("the daemon ended with {status}")
        });
    }

    /// Starts the daemon, which aborts at a fault point (`<point>:<n>`). Waits until it answers or has ended.
    pub fn start_to_die(&mut self, fault: &str) {
        // It dies on purpose, without a core dump.
        let (_, most) = getrlimit(Resource::RLIMIT_CORE).unwrap();
        setrlimit(Resource::RLIMIT_CORE, 0, most).unwrap();
        let mut supervisor = self.supervisor();
        supervisor.env("HORDE_FAULT", fault);
        self.spawn(supervisor, drop);
    }

    fn spawn(&mut self, mut supervisor: Command, ended: impl Fn(ExitStatus)) {
        assert!(self.daemon.is_none(), "it runs");
        let mut daemon = supervisor.spawn().unwrap();
        let pid = daemon.id();
        wait("the daemon answers", || {
            if let Some(status) = daemon.try_wait().unwrap() {
                ended(status);
                return Some(());
            }
            let answer = self.ask("ping", json!({})).ok()?;
            (answer["pid"] == pid).then_some(())
        });
        self.daemon = Some(daemon);
        self.abandoned = false;
    }

    /// Returns the daemon's pid.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("a daemon").id()
    }

    /// Waits for the daemon's end.
    pub fn ended(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("a daemon");
        let status = wait("the daemon ends", || daemon.try_wait().unwrap());
        self.abandoned |= !status.success();
        status
    }

    /// Stops the daemon and every session.
    pub fn stop(&mut self) {
        self.hd(&["stop"]).json();
        assert!(self.ended().success());
    }

    /// Kills the daemon with `kill -9`.
    pub fn kill(&mut self) {
        processes::signal(self.pid(), Signal::SIGKILL);
        self.wait_killed_by(Signal::SIGKILL);
    }

    /// Waits until this signal has ended the daemon.
    pub fn wait_killed_by(&mut self, signal: Signal) {
        assert_eq!(self.ended().signal(), Some(signal as i32));
    }

    /// Stops the daemon and leaves the sessions running.
    pub fn detach(&mut self) {
        self.hd(&["stop", "--keep-sessions"]).json();
        assert!(self.ended().success());
        self.abandoned = true;
    }

    /// Runs `hd --json` with these words.
    pub fn hd(&self, words: &[&str]) -> Ran {
        self.hd_text(&[&["--json"], words].concat())
    }

    /// Runs `hd` with these words, with output for people.
    pub fn hd_text(&self, words: &[&str]) -> Ran {
        let mut hd = self.program("hd");
        hd.arg("--city").arg(&self.root).args(words);
        let output = hd.output().unwrap();
        Ran {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn log_tail(&self) -> String {
        let Ok(log) = fs::read_to_string(self.root.join("supervisor.log")) else {
            return "(no log)".to_owned();
        };
        let lines: Vec<_> = log.lines().map(shortened).collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Returns the end of the output of each session.
    fn session_tails(&self) -> String {
        let sessions = fs::read_dir(self.root.join(".horde/sessions"));
        let tails = sessions.into_iter().flatten().flatten().map(|session| {
            let output = fs::read(session.path().join("log.0")).unwrap_or_default();
            let output = String::from_utf8_lossy(&output);
            let lines: Vec<_> = output.lines().map(shortened).collect();
            let end = lines[lines.len().saturating_sub(12)..].join("\n");
            format!("--- {}\n{end}\n", session.file_name().display())
        });
        tails.collect()
    }

    /// Copies the log of a failed test to the directory in `HORDE_TEST_LOGS`.
    fn keep_log(&self) {
        let Some(dir) = std::env::var_os("HORDE_TEST_LOGS") else {
            return;
        };
        let name = self.root.file_name().unwrap_or_default();
        let kept = fs::create_dir_all(&dir)
            .and_then(|()| fs::copy(self.root.join("supervisor.log"), Path::new(&dir).join(name)));
        if let Err(error) = kept {
            eprintln!("the log was not kept: {error}");
        }
    }

    /// Ends the daemon in the ordinary way. Returns the processes that are left and should not be.
    fn close(&mut self) -> Vec<u32> {
        if let Some(mut daemon) = self.daemon.take() {
            processes::signal(daemon.id(), Signal::SIGTERM);
            let ended = || (!matches!(daemon.try_wait(), Ok(None))).then_some(());
            if poll(LIMIT, ended).is_none() {
                processes::signal(daemon.id(), Signal::SIGKILL);
                let _reaped = daemon.wait();
            }
        } else if self.abandoned {
            self.end_all();
        }
        // A tmux server ends by itself after its last session.
        let _left = poll(LEAVE, || processes::of(&self.root).is_empty().then_some(()));
        processes::of(&self.root)
    }

    fn end_all(&self) {
        let _given_up = poll(LIMIT, || {
            let left = processes::of(&self.root);
            left.iter()
                .for_each(|pid| processes::signal(*pid, Signal::SIGKILL));
            left.is_empty().then_some(())
        });
    }
}

impl Drop for City {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "--- the end of the log of {}\n{}\n--- the ends of the output of its sessions\n{}",
                self.root.display(),
                self.log_tail(),
                self.session_tails()
            );
            self.keep_log();
        }
        let left = self.close();
        let told = processes::describe(&left);
        self.end_all();
        tmux::remove_socket(&self.root);
        if !thread::panicking() {
            assert!(
                left.is_empty(),
                "left by the city in {}:\n{told}",
                self.dir.path().display()
            );
        }
    }
}

/// Shortens a line of the log to its readable part.
fn shortened(line: &str) -> String {
    let Ok(entry) = serde_json::from_str::<Value>(line) else {
        return line.to_owned();
    };
    match entry["type"].as_str() {
        Some(kind) => {
            let said = &entry["data"]["type"];
            format!(
                "{} {kind} {} ({}) {said}",
                entry["ts"], entry["subject"], entry["cause"]
            )
        }
        None => line.to_owned(),
    }
}
