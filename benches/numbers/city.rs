//! A city with standing agents only, its real daemon, and a pipe on which each new session announces itself.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use horde_supervisor::control::client::Client;
use horde_supervisor::control::protocol::Op;
use horde_supervisor::control::protocol::args::{Nothing, Status, Stop};
use horde_supervisor::testing::{PATIENCE, eventually};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

use crate::task::git;

/// The city. Dropping it ends everything.
pub struct City {
    dir: tempfile::TempDir,
    daemon: Child,
    /// Process of each agent, as they announced themselves.
    pub agents: BTreeMap<String, i32>,
    announced: Receiver<(String, i32)>,
}

impl City {
    /// Makes a city of this number of agents, all of them running; its patrols are too rare to matter.
    pub fn with(count: usize) -> Self {
        Self::with_patrols(count, "1h")
    }

    /// Makes a city of this number of agents, all of them running, with a patrol at this interval.
    pub fn with_patrols(count: usize, interval: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("up");
        mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
        let mut config = format!(
            "[workspace]\nname = \"numbers\"\n\n[daemon]\nmax_restarts = 0\n\
             restart_backoff = {{ first = \"0s\", initial = \"0s\", max = \"0s\" }}\n\
             shutdown_timeout = \"0s\"\npatrol_interval = \"{interval}\"\n"
        );
        for number in 0..count {
            let script = format!("echo $HD_ACTOR $$ > {}; exec sleep 100000", pipe.display());
            let agent = format!(
                "\n[[agents]]\nname = \"agent-{number}\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n"
            );
            config.push_str(&agent);
        }
        fs::write(dir.path().join("city.toml"), config).expect("a configuration");
        let announced = listen(&pipe);
        let daemon = daemon(dir.path());
        let mut city = Self {
            dir,
            daemon,
            agents: BTreeMap::new(),
            announced,
        };
        while city.agents.len() < count {
            let (name, pid) = city.next_up();
            city.agents.insert(name, pid);
        }
        city.all_run();
        city
    }

    /// Returns the next session that announces itself.
    pub fn next_up(&self) -> (String, i32) {
        let up = self.announced.recv_timeout(PATIENCE);
        up.expect("a session says that it runs")
    }

    /// Returns whether no further session was announced.
    pub fn no_other_session_started(&self) -> bool {
        self.announced.try_recv().is_err()
    }

    /// Opens a connection.
    pub fn connect(&self) -> Client {
        connect(self.dir.path())
    }

    /// Waits until the daemon reports that every agent runs, and returns their processes.
    pub fn all_run(&self) -> BTreeMap<String, i32> {
        let mut client = self.connect();
        eventually("all agents running", || {
            let status = client.call(&Op::Status(Status::default())).ok()?;
            let agents = status["agents"].as_array()?;
            let running = agents.iter().filter(|agent| agent["state"] == "running");
            let running: BTreeMap<_, _> = running.filter_map(name_and_pid).collect();
            (running.len() == self.agents.len()).then_some(running)
        })
    }

    /// Returns the daemon's process.
    pub fn daemon(&self) -> u32 {
        self.daemon.id()
    }

    /// Returns the configuration file.
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("city.toml")
    }

    /// Kills the daemon with `kill -9`, and starts a new one.
    pub fn restart_daemon(&mut self) {
        let killed = self.daemon.kill().and_then(|()| self.daemon.wait());
        killed.expect("the daemon can be killed");
        self.daemon = daemon(self.dir.path());
    }
}

impl Drop for City {
    fn drop(&mut self) {
        stop(self.dir.path(), &mut self.daemon);
    }
}

/// Connects to the supervisor of a city, once it answers.
pub fn connect(city: &Path) -> Client {
    let socket = city.join(".horde/control.sock");
    eventually("an answer", || {
        let mut client = Client::connect(&socket).ok()?;
        client.call(&Op::Ping(Nothing {})).ok()?;
        Some(client)
    })
}

/// Ends a city with its sessions, and waits for its supervisor.
pub fn stop(city: &Path, daemon: &mut Child) {
    let stop = Op::Stop(Stop {
        keep_sessions: false,
    });
    let stopped = connect(city).call(&stop);
    let ended = daemon.wait();
    if stopped.is_err() || ended.is_err() {
        eprintln!("the city did not stop: {stopped:?} {ended:?}");
    }
}

/// Kills the process with `kill -9`.
pub fn kill_agent(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the agent runs");
}

fn name_and_pid(agent: &Value) -> Option<(String, i32)> {
    let pid = i32::try_from(agent["pid"].as_i64()?).ok()?;
    Some((agent["name"].as_str()?.to_owned(), pid))
}

fn daemon(city: &Path) -> Child {
    let log = File::create(city.join("log")).expect("a log");
    Command::new(env!("CARGO_BIN_EXE_horde-supervisor"))
        .arg(city)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the daemon starts")
}

/// Reads the announcements of sessions, for as long as the process lives.
fn listen(pipe: &Path) -> Receiver<(String, i32)> {
    // Open for writing too: the pipe never ends, and the open does not wait.
    let file = OpenOptions::new().read(true).write(true).open(pipe);
    let lines = BufReader::new(file.expect("the pipe opens")).lines();
    let (said, heard) = mpsc::channel();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let Some((name, pid)) = line.split_once(' ') else {
                continue;
            };
            let up = (name.to_owned(), pid.parse().expect("a pid"));
            if said.send(up).is_err() {
                break;
            }
        }
    });
    heard
}

/// Makes a checkout with an origin below the root: a number of directories, with a number of files in each.
pub fn checkout(root: &Path, files: (usize, usize)) {
    let checkout = root.join("checkout");
    for nth in 0..files.0 {
        let dir = checkout.join(format!("part-{nth}"));
        fs::create_dir_all(&dir).expect("a directory");
        for file in 0..files.1 {
            let text = format!("{nth} {file}\n").repeat(20);
            fs::write(dir.join(format!("file-{file}.txt")), text).expect("a file");
        }
    }
    git(&checkout, &["init", "--quiet", "-b", "main"]);
    git(&checkout, &["config", "user.name", "Ada"]);
    git(&checkout, &["config", "user.email", "ada@example.invalid"]);
    git(&checkout, &["add", "--all"]);
    git(&checkout, &["commit", "--quiet", "-m", "first"]);
    git(
        root,
        &["clone", "--quiet", "--bare", "checkout", "origin.git"],
    );
    git(&checkout, &["remote", "add", "origin", "../origin.git"]);
    git(&checkout, &["fetch", "--quiet", "origin"]);
}
