//! A city with standing agents only, its real daemon, and a pipe on which each new session announces itself.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use horde_supervisor::control::client::Client;
use horde_supervisor::control::protocol::Op;
use horde_supervisor::control::protocol::args::Status;
use horde_supervisor::testing::{PATIENCE, eventually};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::support::git::write;
use crate::support::live;
use crate::support::plan::Plan;
use crate::support::processes::signal;
use crate::support::program;

/// The city. Dropping it ends everything.
pub struct City {
    city: live::City,
    /// Process of each agent, as they announced themselves.
    pub agents: BTreeMap<String, u32>,
    announced: Receiver<(String, u32)>,
}

impl City {
    /// Makes a city of this number of agents, all of them running; its patrols are too rare to matter.
    pub fn with(count: usize) -> Self {
        Self::with_patrols(count, "1h")
    }

    /// Makes a city of this number of agents, all of them running, with a patrol at this interval.
    pub fn with_patrols(count: usize, interval: &str) -> Self {
        let mut plan = Plan::without_rigs()
            .set("daemon", "max_restarts", "0")
            .set("daemon", "shutdown_timeout", r#""0s""#)
            .set("daemon", "patrol_interval", &format!("{interval:?}"))
            .set(
                "daemon",
                "restart_backoff",
                r#"{ first = "0s", initial = "0s", max = "0s" }"#,
            );
        for number in 0..count {
            let script = "echo $HD_ACTOR $$ > {root}/up; exec sleep 100000";
            plan = plan.agent(&format!("agent-{number}"), script, "");
        }
        let mut city = made(&plan);
        let pipe = city.root().join("up");
        mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
        let announced = listen(&pipe);
        city.start();
        let mut city = Self {
            city,
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
    pub fn next_up(&self) -> (String, u32) {
        let up = self.announced.recv_timeout(PATIENCE);
        up.expect("a session says that it runs")
    }

    /// Returns whether no further session was announced.
    pub fn no_other_session_started(&self) -> bool {
        self.announced.try_recv().is_err()
    }

    /// Opens a connection.
    pub fn connect(&self) -> Client {
        self.city.client().expect("a supervisor")
    }

    /// Waits until the daemon reports that every agent runs, and returns their processes.
    pub fn all_run(&self) -> BTreeMap<String, u32> {
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
        self.city.pid()
    }

    /// Returns the configuration file.
    pub fn config(&self) -> PathBuf {
        self.city.root().join("city.toml")
    }

    /// Kills the daemon with `kill -9`, and starts a new one.
    pub fn restart_daemon(&mut self) {
        self.city.kill();
        self.city.start();
    }
}

/// Makes the city of a plan on the disk, where cities are.
pub fn made(plan: &Plan) -> live::City {
    live::City::made_in(&env::temp_dir(), plan)
}

/// Kills the process with `kill -9`.
pub fn kill_agent(pid: u32) {
    signal(pid, Signal::SIGKILL);
}

fn name_and_pid(agent: &Value) -> Option<(String, u32)> {
    let pid = u32::try_from(agent["pid"].as_u64()?).ok()?;
    Some((agent["name"].as_str()?.to_owned(), pid))
}

/// Reads the announcements of sessions, for as long as the process lives.
fn listen(pipe: &Path) -> Receiver<(String, u32)> {
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

/// Fills a checkout: a number of directories, with a number of files in each.
pub fn fill(checkout: &Path, files: (usize, usize)) {
    for nth in 0..files.0 {
        for file in 0..files.1 {
            let text = format!("{nth} {file}\n").repeat(20);
            write(checkout, &format!("part-{nth}/file-{file}.txt"), text);
        }
    }
}

/// Starts the daemon of a city with a `git` in front of its `PATH` that counts its calls.
pub fn start_counting(city: &mut live::City) {
    let path = env::var("PATH").expect("a PATH");
    let mut dirs = path.split(':').map(|dir| Path::new(dir).join("git"));
    let real = dirs.find(|git| git.exists()).expect("git");
    let (bin, log) = (city.root().join("counting"), city.root().join("git.log"));
    fs::create_dir(&bin).expect("a directory");
    let (real, log) = (real.display(), log.display());
    let text = format!("echo x >>{log}\nexec {real} \"$@\"");
    program::script(&bin.join("git"), &text);
    let mut supervisor = city.supervisor();
    supervisor.env("PATH", format!("{}:{path}", bin.display()));
    city.start_as(supervisor);
}

/// Returns the number of git processes that such a daemon has started.
pub fn gits(city: &live::City) -> usize {
    let log = fs::read_to_string(city.root().join("git.log")).unwrap_or_default();
    log.lines().count()
}
