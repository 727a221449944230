//! A living city: a bare origin, a checkout of it as the rig, an agent that follows its task, and the real daemon as a
//! process of its own.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use horde_supervisor::testing::poll::poll;
use horde_supervisor::testing::scratch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::super::support::git::{commit_all, git, write};

/// The limit of waiting for a condition. Generous, because CI machines are slow and a passing test never waits that
/// long.
const LIMIT: Duration = Duration::from_secs(90);

/// A script that runs the lines of its task with `run: `, as a shell would.
const AGENT: &str = r#"set -eu
task=TASK.md
[ -f "$task" ] || task=.horde-task.md
eval "$(sed -n 's/^[[:space:]]*run: //p' "$task")"
"#;

/// The configuration of a city.
#[derive(Debug, Clone)]
pub struct CityPlan {
    /// Lines for `[rigs.forge]`.
    pub forge: String,
    /// Lines for `[rigs.raiders]`.
    pub raiders: String,
    /// The agent's command, as a TOML array; the script when empty.
    pub command: String,
    /// Set when the checkout has an origin.
    pub remote: bool,
}

impl Default for CityPlan {
    fn default() -> Self {
        Self {
            forge: String::new(),
            raiders: "max = 4".to_owned(),
            command: String::new(),
            remote: true,
        }
    }
}

impl CityPlan {
    /// A plan with these lines for the forge.
    pub fn forge(lines: impl Into<String>) -> Self {
        Self {
            forge: lines.into(),
            ..Self::default()
        }
    }
}

/// The city. Ends everything that runs in it when dropped.
pub struct City {
    root: PathBuf,
    daemon: Mutex<Option<Child>>,
    _dir: tempfile::TempDir,
}

impl City {
    /// Makes the city; the daemon does not run yet.
    pub fn new(plan: &CityPlan) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("hd-")
            .tempdir_in(scratch::place());
        let dir = dir.expect("a directory");
        let root = fs::canonicalize(dir.path()).expect("a real path");
        git(&root, &["init", "-q", "--bare", "-b", "main", "origin.git"]);
        let checkout = root.join("checkout");
        fs::create_dir(&checkout).expect("a directory");
        git(&checkout, &["init", "-q", "-b", "main"]);
        git(&checkout, &["config", "user.name", "Ada"]);
        git(&checkout, &["config", "user.email", "ada@example.invalid"]);
        write(&checkout, "README", "hello\n");
        write(&checkout, "shared.txt", "one\ntwo\nthree\n");
        commit_all(&checkout, "first");
        if plan.remote {
            git(&checkout, &["remote", "add", "origin", "../origin.git"]);
            git(&checkout, &["push", "-q", "-u", "origin", "main"]);
        }
        write(&root, "agent.sh", AGENT);
        write(&root, "city/city.toml", config(&root, plan));
        Self {
            root,
            daemon: Mutex::new(None),
            _dir: dir,
        }
    }

    /// Gives the city another plan, for plans that name its directory.
    pub fn configured(self, plan: &CityPlan) -> Self {
        write(&self.root, "city/city.toml", config(&self.root, plan));
        self
    }

    /// Makes a city whose daemon runs.
    pub fn running(plan: &CityPlan) -> Self {
        let city = Self::new(plan);
        city.start(&[]);
        city
    }

    /// Returns the temporary directory with origin, checkout, city and the test's own files.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the city's directory.
    pub fn dir(&self) -> PathBuf {
        self.root.join("city")
    }

    /// Returns the bare origin.
    pub fn origin(&self) -> PathBuf {
        self.root.join("origin.git")
    }

    /// Returns the user's checkout.
    pub fn checkout(&self) -> PathBuf {
        self.root.join("checkout")
    }

    /// Returns the supervisor's own repository of the rig.
    pub fn repo(&self) -> PathBuf {
        self.dir().join(".horde/custody/rig.git")
    }

    /// Returns the repository of the sandboxes.
    pub fn theirs(&self) -> PathBuf {
        self.dir().join("rig/repo.git")
    }

    /// Starts the daemon and waits until it answers, or, with a fault, until it answers or has died.
    pub fn start(&self, env: &[(&str, &str)]) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.root.join("daemon.log"))
            .expect("a log");
        let path = std::env::var("PATH").expect("a PATH");
        // No core dumps, because some points abort on purpose.
        let child = Command::new("sh")
            .args(["-c", "ulimit -c 0; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_horde-supervisor"))
            .arg(self.dir())
            .env_clear()
            .env("PATH", path)
            .env("HOME", &self.root)
            .env("LANG", "C.UTF-8")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = child.expect("the daemon starts");
        *self.daemon.lock().expect("unpoisoned") = Some(child);
        self.wait("the daemon answers", || {
            let died = self.exited().is_some();
            assert!(
                !died || !env.is_empty(),
                "the daemon ended: {}",
                self.story()
            );
            (died || self.try_ask("ping", &json!({})).is_ok()).then_some(())
        });
    }

    /// Returns the daemon's exit status, when it has ended.
    pub fn exited(&self) -> Option<ExitStatus> {
        let mut daemon = self.daemon.lock().expect("unpoisoned");
        let child = daemon.as_mut()?;
        child.try_wait().expect("a child can be waited for")
    }

    /// Waits until this signal has ended the daemon, and forgets the process.
    pub fn wait_killed_by(&self, signal: Signal) {
        let status = self.wait("the daemon dies", || self.exited());
        assert_eq!(
            status.signal(),
            Some(signal as i32),
            "{status}: {}",
            self.story()
        );
        *self.daemon.lock().expect("unpoisoned") = None;
    }

    /// Kills the daemon without warning.
    pub fn kill(&self) {
        let pid = self
            .daemon
            .lock()
            .expect("unpoisoned")
            .as_ref()
            .map(Child::id);
        signal(pid.expect("a daemon runs"), Signal::SIGKILL);
        self.wait_killed_by(Signal::SIGKILL);
    }

    /// Stops the daemon as its user would, and asserts that no process of the city is left.
    pub fn stop(&self) {
        self.ask("stop", &json!({}));
        let status = self.wait("the daemon stops", || self.exited());
        assert!(status.success(), "{status}: {}", self.story());
        *self.daemon.lock().expect("unpoisoned") = None;
        self.wait("every process ends", || {
            self.processes().is_empty().then_some(())
        });
    }

    /// Sends a request. Returns the error's kind and message, or `unreachable` when there was no answer.
    pub fn try_ask(&self, op: &str, args: &Value) -> Result<Value, String> {
        let gone = |error: std::io::Error| format!("unreachable: {error}");
        let socket = self.dir().join(".horde/control.sock");
        let mut stream = UnixStream::connect(socket).map_err(gone)?;
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let request = json!({ "v": 1, "id": "1", "op": op, "args": args });
        writeln!(stream, "{request}").map_err(gone)?;
        let mut items = Vec::new();
        for line in BufReader::new(stream).lines() {
            let answer: Value = serde_json::from_str(&line.map_err(gone)?).expect("JSON");
            if let Some(item) = answer.get("item") {
                items.push(item.clone());
            } else if answer["ok"] == json!(true) {
                // A stream's last line has no result.
                return Ok(match &answer["result"] {
                    Value::Null => Value::Array(items),
                    result => result.clone(),
                });
            } else {
                let error = &answer["error"];
                return Err(format!("{}: {}", error["kind"], error["message"]).replace('"', ""));
            }
        }
        Err("unreachable: the connection ended".to_owned())
    }

    /// Sends a request that must succeed.
    pub fn ask(&self, op: &str, args: &Value) -> Value {
        match self.try_ask(op, args) {
            Ok(result) => result,
            Err(error) => panic!("{op} {args}: {error}\n{}", self.story()),
        }
    }

    /// Makes a relic whose raider runs this script.
    pub fn relic(&self, title: &str, priority: i64, script: &str) -> String {
        let lines: Vec<_> = script
            .lines()
            .map(|line| format!("run: {line}\n"))
            .collect();
        let args = json!({
            "title": title, "body": lines.concat(), "rig": "rig", "priority": priority,
        });
        let relic = self.ask("relic.create", &args);
        relic["id"].as_str().expect("an id").to_owned()
    }

    /// Charges a relic, and returns the answer.
    pub fn charge(&self, relic: &str) -> Value {
        self.ask("charge", &json!({ "relic": relic, "rig": "rig" }))
    }

    /// Makes and charges a relic that writes `work/<name>` in one commit.
    pub fn work(&self, name: &str) -> String {
        let relic = self.relic(name, 0, &does(name));
        self.charge(&relic);
        relic
    }

    /// Returns a relic's status.
    pub fn status_of(&self, relic: &str) -> String {
        let relic = self.ask("relic.show", &json!({ "relic": relic }));
        relic["status"].as_str().expect("a status").to_owned()
    }

    /// Waits until a relic has this status.
    pub fn wait_status(&self, relic: &str, status: &str) {
        self.wait(&format!("{relic} is {status}"), || {
            (self.status_of(relic) == status).then_some(())
        });
    }

    /// Returns all events of a type, the oldest first.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.ask("events", &json!({ "since": 0, "type": kind }));
        events.as_array().expect("a list").clone()
    }

    /// Waits for the first event of a type.
    pub fn wait_event(&self, kind: &str) -> Value {
        self.wait(kind, || self.events(kind).into_iter().next())
    }

    /// Returns the merge requests of a relic, the oldest first, in full.
    pub fn mrs(&self, relic: &str) -> Vec<Value> {
        let all = self.ask("mq.list", &json!({ "rig": "rig" }));
        let all = all.as_array().expect("a list").clone();
        let of = all.into_iter().filter(|mr| mr["relic"] == relic);
        let mut of: Vec<_> = of
            .map(|mr| self.ask("mq.show", &json!({ "mr": mr["id"] })))
            .collect();
        of.sort_by_key(|mr| mr["queued_at"].to_string() + &mr["id"].to_string());
        of
    }

    /// Waits until a condition gives a value. On a timeout the test fails with the daemon's log.
    pub fn wait<T>(&self, what: &str, condition: impl FnMut() -> Option<T>) -> T {
        let found = poll(LIMIT, condition);
        found.unwrap_or_else(|| panic!("not within {LIMIT:?}: {what}\n{}", self.story()))
    }

    /// Returns the end of the daemon's log, for failures.
    pub fn story(&self) -> String {
        let log = fs::read_to_string(self.root.join("daemon.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines.len().saturating_sub(60);
        format!("in {}:\n{}", self.root.display(), lines[last..].join("\n"))
    }

    /// Returns every process that belongs to this city: its daemon, holders, agents, git.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let needle = self.root.as_os_str().as_encoded_bytes().to_vec();
        let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|part| part == needle);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("a process list").flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            let command = read("cmdline");
            // A zombie has no command line; its parent will reap it.
            if pid != std::process::id()
                && !command.is_empty()
                && (has(&command) || has(&read("environ")))
            {
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                found.push((pid, command));
            }
        }
        found
    }
}

impl Drop for City {
    fn drop(&mut self) {
        let daemon = self
            .daemon
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(child) = daemon {
            signal(child.id(), Signal::SIGKILL);
            let _reaped = child.wait();
        }
        // Holders first: they would see their agents die and continue.
        let _given_up = poll(Duration::from_secs(1), || {
            let left = self.processes();
            left.iter()
                .for_each(|(pid, _)| signal(*pid, Signal::SIGKILL));
            left.is_empty().then_some(())
        });
        if std::thread::panicking() {
            keep(&self.root);
        }
    }
}

/// Returns the commands that write `work/<name>`, commit once, and say done; safe to repeat.
pub fn does(name: &str) -> String {
    format!(
        "mkdir -p work; echo '{name}' > work/{name}; git add work/{name}\n\
         git diff --cached --quiet || git commit -q -m 'Work on {name}'\n\
         exec hd done"
    )
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid"));
    // The process may have ended by itself meanwhile.
    let _gone = kill(pid, signal);
}

/// Copies the log of a failed test to the directory in `HORDE_TEST_LOGS`.
fn keep(root: &Path) {
    let Some(dir) = std::env::var_os("HORDE_TEST_LOGS") else {
        return;
    };
    let name = root.file_name().unwrap_or_default().to_owned();
    let copied = fs::create_dir_all(&dir)
        .and_then(|()| fs::copy(root.join("daemon.log"), Path::new(&dir).join(name)));
    if let Err(error) = copied
        && error.kind() != ErrorKind::NotFound
    {
        eprintln!("the log was not kept: {error}");
    }
}

fn config(root: &Path, plan: &CityPlan) -> String {
    let root = root.display();
    let command = match plan.command.as_str() {
        "" => format!("[\"sh\", \"{root}/agent.sh\"]"),
        given => given.to_owned(),
    };
    let (raiders, forge) = (&plan.raiders, &plan.forge);
    format!(
        "[workspace]\nname = \"test\"\n\n\
         [daemon]\npatrol_interval = \"2s\"\nshutdown_timeout = \"2s\"\n\n\
         [harness.script]\ncommand = {command}\n\n\
         [[rigs]]\nname = \"rig\"\npath = \"{root}/checkout\"\nprefix = \"gt\"\n\n\
         [rigs.raiders]\nharness = \"script\"\n{raiders}\n\n\
         [rigs.forge]\n{forge}\n"
    )
}

/// Makes an empty file.
pub fn touch(path: &Path) {
    File::create(path).expect("a file");
}
