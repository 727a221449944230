//! A city with the real daemon, real git and a scripted agent (`agent.sh`).

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use horde_supervisor::control::client::{Client, Flow};
use horde_supervisor::control::protocol::{ControlError, Op};
use horde_supervisor::testing::{poll::poll, scratch};
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};

use super::git::{commit_all, git, write};
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
        let root = fs::canonicalize(dir.path()).unwrap();
        for part in ["home", "signs", "seen"] {
            fs::create_dir(root.join(part)).unwrap();
        }
        write(&root, "agent.sh", include_str!("agent.sh"));
        for (rig, _) in plan.rigs() {
            repository(&root, rig);
        }
        write(&root, "city.toml", plan.toml());
        Self {
            dir,
            root,
            programs: None,
            daemon: None,
            abandoned: false,
        }
    }

    /// Returns the city's directory.
    pub fn root(&self) -> &Path {
        &self.root
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
    pub fn start_as(&mut self, mut supervisor: Command) {
        assert!(self.daemon.is_none(), "it runs");
        let mut daemon = supervisor.spawn().unwrap();
        let pid = daemon.id();
        wait("the daemon answers", || {
            if let Some(status) = daemon.try_wait().unwrap() {
                panic!("the daemon ended with {status}:\n{}", self.log_tail());
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
        self.abandoned = true;
        self.ended();
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

    fn client(&self) -> Result<Client, ControlError> {
        Client::connect(&self.root.join(".horde/control.sock"))
    }

    /// Makes a request to the supervisor.
    pub fn op(name: &str, args: Value) -> Op {
        let args: Map<_, _> = serde_json::from_value(args).unwrap();
        Op::parse(name.parse().unwrap(), args).unwrap()
    }

    /// Sends a request without a process in between.
    pub fn ask(&self, op: &str, args: Value) -> Result<Value, ControlError> {
        self.client()?.call(&Self::op(op, args))
    }

    /// Returns the journal so far.
    pub fn events(&self) -> Vec<Value> {
        self.journal(json!({}))
    }

    fn journal(&self, args: Value) -> Vec<Value> {
        let mut events = Vec::new();
        let op = Self::op("events", args);
        let streamed = self.client().unwrap().stream(&op, |event| {
            events.push(event);
            Ok::<_, ControlError>(Flow::Continue)
        });
        streamed.unwrap();
        events
    }

    /// Returns every event of the journal, in order.
    pub fn all_events(&self) -> Vec<Value> {
        self.journal(json!({}))
    }

    /// Returns the events of a type, about any subject.
    pub fn all_of(&self, kind: &str) -> Vec<Value> {
        self.journal(json!({ "type": kind }))
    }

    /// Returns the events of a type about a subject.
    pub fn happened(&self, kind: &str, subject: &str) -> Vec<Value> {
        let mut events = self.all_of(kind);
        events.retain(|event| event["subject"] == subject);
        events
    }

    /// Waits for the n-th event of a type about a subject.
    pub fn wait_event(&self, n: usize, kind: &str, subject: &str) -> Value {
        wait(&format!("{kind} of {subject}, {n}"), || {
            self.happened(kind, subject).into_iter().nth(n - 1)
        })
    }

    /// Makes a relic whose agent does these lines.
    pub fn relic(&self, title: &str, steps: &[&str]) -> String {
        self.relic_in("horde", title, steps)
    }

    /// Makes such a relic in another rig.
    pub fn relic_in(&self, rig: &str, title: &str, steps: &[&str]) -> String {
        let args = json!({ "title": title, "body": body(steps), "rig": rig });
        let relic = self.ask("relic.create", args).unwrap();
        relic["id"].as_str().expect("an id").to_owned()
    }

    /// Charges a relic, which must succeed. Returns the raider's full id.
    pub fn charge(&self, relic: &str) -> String {
        let charged = self.hd(&["charge", relic, "horde"]).json();
        charged["raider"].as_str().expect("a raider").to_owned()
    }

    /// Makes a relic and charges it. Returns its id.
    pub fn work(&self, title: &str, steps: &[&str]) -> String {
        let relic = self.relic(title, steps);
        self.charge(&relic);
        relic
    }

    /// Returns a relic's status.
    pub fn status_of(&self, relic: &str) -> String {
        let shown = self.ask("relic.show", json!({ "relic": relic })).unwrap();
        shown["status"].as_str().expect("a status").to_owned()
    }

    /// Waits until a relic has a status.
    pub fn wait_status(&self, relic: &str, status: &str) {
        until(&format!("{relic} is {status}"), || {
            self.status_of(relic) == status
        });
    }

    /// Returns all raiders, as `raider list` shows them.
    pub fn raiders(&self) -> Vec<Value> {
        let raiders = self.ask("raider.list", json!({})).unwrap();
        raiders.as_array().expect("a list").clone()
    }

    /// Waits until the raider of a relic has a session of at least this generation, and returns the raider.
    pub fn wait_session(&self, relic: &str, generation: u64) -> Value {
        wait(&format!("session {generation} of {relic}"), || {
            let mut raiders = self.raiders().into_iter();
            let raider = raiders.find(|raider| raider["hook"] == relic)?;
            let up = raider["session"]["generation"].as_u64()? >= generation;
            up.then_some(raider)
        })
    }

    /// Waits until no raider is left.
    pub fn wait_no_raiders(&self) {
        until("no raider is left", || self.raiders().is_empty());
    }

    /// Gives a sign to agents.
    pub fn sign(&self, name: &str) {
        write(&self.root, &format!("signs/{name}"), "");
    }

    /// Waits for a sign of an agent.
    pub fn wait_sign(&self, name: &str) {
        until(&format!("the sign {name}"), || {
            self.root.join("signs").join(name).exists()
        });
    }

    /// Waits for the end of a command that an agent tried.
    pub fn wait_tried(&self, name: &str) -> Ran {
        self.wait_sign(name);
        let read = |file: String| fs::read_to_string(self.root.join("signs").join(file)).unwrap();
        Ran {
            code: read(name.to_owned()).parse().unwrap(),
            out: read(format!("{name}.out")),
            err: read(format!("{name}.err")),
        }
    }

    /// Waits for the n-th session of a relic, and returns its prompt.
    pub fn wait_prompt(&self, relic: &str, n: usize) -> String {
        let path = self.root.join(format!("seen/{relic}.{n}/prompt"));
        wait(&format!("prompt {n} of {relic}"), || {
            fs::read_to_string(&path).ok()
        })
    }

    /// Returns the number of sessions that a relic has had.
    pub fn sessions_of(&self, relic: &str) -> usize {
        let seen = fs::read_dir(self.root.join("seen")).unwrap();
        let names = seen.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.rsplit_once('.').is_some_and(|(of, _)| of == relic))
            .count()
    }

    fn log_tail(&self) -> String {
        let mut log = String::new();
        let file = File::open(self.root.join("supervisor.log"));
        if file
            .and_then(|mut file| file.read_to_string(&mut log))
            .is_err()
        {
            return "(no log)".to_owned();
        }
        let lines: Vec<_> = log.lines().map(shortened).collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Ends the daemon in the ordinary way. Returns the processes that are left and should not be.
    fn close(&mut self) -> Vec<u32> {
        let Some(mut daemon) = self.daemon.take() else {
            let left = processes::of(&self.root);
            return if self.abandoned {
                self.end_all();
                Vec::new()
            } else {
                left
            };
        };
        processes::signal(daemon.id(), Signal::SIGTERM);
        let ended = || (!matches!(daemon.try_wait(), Ok(None))).then_some(());
        if poll(LIMIT, ended).is_none() {
            processes::signal(daemon.id(), Signal::SIGKILL);
            let _reaped = daemon.wait();
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
                "--- the end of the log of {}\n{}",
                self.root.display(),
                self.log_tail()
            );
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

/// Returns the body of a relic whose agent does these lines.
pub fn body(steps: &[&str]) -> String {
    steps.iter().map(|step| format!("$ {step}\n")).collect()
}

/// Makes a checkout of a rig with some history on `main`, and its bare origin.
fn repository(root: &Path, rig: &str) {
    let checkout = root.join(format!("{rig}-checkout"));
    fs::create_dir(&checkout).unwrap();
    git(&checkout, &["init", "--quiet", "-b", "main"]);
    git(&checkout, &["config", "user.email", "ada@example.invalid"]);
    write(&checkout, "README", "hello\n");
    write(&checkout, ".gitignore", "*.ignored\n");
    commit_all(&checkout, "first");
    let origin = format!("{rig}-origin.git");
    git(root, &["init", "--quiet", "--bare", "-b", "main", &origin]);
    git(
        &checkout,
        &["remote", "add", "origin", &format!("../{origin}")],
    );
    git(&checkout, &["push", "--quiet", "origin", "main"]);
}
