//! The cost of a task in a repository of 20,000 files, from its charge until its sandbox is gone: processor time of the
//! supervisor and of the git processes that it waits for, and their number. For comparison, the cost of the git
//! commands alone that such a task needs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use horde_supervisor::control::client::Flow;
use horde_supervisor::control::protocol::args::{Events, Run, Task};
use horde_supervisor::control::protocol::{ControlError, Op};
use horde_supervisor::testing::eventually;
use nix::sys::resource::{UsageWho, getrusage};

use crate::city::{fill, gits, made, start_counting};
use crate::cost::Cost;
use crate::support::git::{git, write};
use crate::support::live::City;
use crate::support::plan::Plan;
use crate::support::repository::repository;

/// The number of directories, and of files in each.
pub const FILES: (usize, usize) = (100, 200);
/// The events that end a part of the task, and the names of the parts.
const PARTS: [(&str, &str); 4] = [
    ("raider.working", "charge"),
    ("raider.done", "done"),
    ("raider.merged", "landing"),
    ("raider.nuked", "release"),
];
/// The number of measurements.
const SAMPLES: usize = 5;

/// Prints both.
pub fn task() {
    let ground = Ground::new();
    println!("one task, {} files:", FILES.0 * FILES.1);
    let plain: Vec<_> = (0..SAMPLES).map(|_| ground.plain()).collect();
    for (nth, (name, _)) in plain[0].iter().enumerate() {
        let samples = plain.iter().map(|run| run[nth].1).collect();
        println!("  git alone, {name}: {:?}", median(samples));
    }
    let sum = |run: &Vec<(&str, Duration)>| run.iter().map(|part| part.1).sum();
    let alone = median(plain.iter().map(sum).collect());
    println!("  git alone, all: {alone:?}");
    let timed: Vec<_> = (0..SAMPLES).map(|_| ground.supervised(false)).collect();
    let counted = ground.supervised(true);
    for (nth, (_, name)) in PARTS.iter().enumerate() {
        let samples = timed.iter().map(|run| run[nth].cpu).collect();
        let processes = counted[nth].processes;
        println!(
            "  supervised, {name}: {:?}, {processes} git processes",
            median(samples)
        );
    }
    let sum = |run: &Vec<Part>| run.iter().map(|part| part.cpu).sum();
    let all = median(timed.iter().map(sum).collect());
    let ratio = all.as_secs_f64() / alone.as_secs_f64();
    let processes: usize = counted.iter().map(|part| part.processes).sum();
    println!("  supervised, all: {all:?}, {processes} git processes: {ratio:.1} times git alone");
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// The measured part of a task.
struct Part {
    cpu: Duration,
    processes: usize,
}

/// A checkout with its origin, and directories for the measurements.
pub struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    /// Makes the checkout and its origin.
    pub fn new() -> Self {
        let ground = Self {
            dir: tempfile::tempdir().expect("a directory"),
        };
        repository(&ground.at("checkout"), Some("origin.git"), |checkout| {
            fill(checkout, FILES);
        });
        ground
    }

    /// Returns the path of a directory among them.
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Measures the git commands alone: a worktree, a push of its branch, a merge, a push of that, and its removal.
    fn plain(&self) -> Vec<(&'static str, Duration)> {
        let (checkout, tree) = (self.at("checkout"), self.at("plain"));
        let mut costs = Vec::new();
        let mut step = |name, run: &mut dyn FnMut()| {
            let before = childrens();
            run();
            costs.push((name, childrens() - before));
        };
        let path = tree.to_str().expect("UTF-8");
        git(&checkout, &["fetch", "--quiet", "origin"]);
        step("worktree add", &mut || {
            git(
                &checkout,
                &[
                    "worktree",
                    "add",
                    "--quiet",
                    "-b",
                    "plain",
                    path,
                    "origin/main",
                ],
            );
        });
        write(&tree, "plain.txt", format!("{:?}\n", childrens()));
        git(&tree, &["add", "--all"]);
        git(&tree, &["commit", "--quiet", "-m", "plain"]);
        step("push of the branch", &mut || {
            git(&tree, &["push", "--quiet", "origin", "plain"]);
        });
        step("merge-tree and push", &mut || {
            let merge = ["merge-tree", "--write-tree", "origin/main", "plain"];
            let merged = git(&tree, &merge);
            let parents = ["-p", "origin/main", "-p", "plain", "-m", "merged"];
            let commit = git(&tree, &[&["commit-tree", &merged][..], &parents].concat());
            let landed = format!("{commit}:refs/heads/main");
            git(&tree, &["push", "--quiet", "origin", &landed]);
        });
        step("removal", &mut || {
            let removed = Command::new("rm").arg("-rf").arg(&tree).status();
            assert!(removed.is_ok_and(|status| status.success()));
            git(&checkout, &["worktree", "prune"]);
            git(
                &checkout,
                &["push", "--quiet", "--delete", "origin", "plain"],
            );
            git(&checkout, &["branch", "--quiet", "-D", "plain"]);
        });
        costs
    }

    /// Measures the same by a supervisor, in a city of its own.
    fn supervised(&self, counts: bool) -> Vec<Part> {
        // The city before this one was stopped before its branch was removed.
        let left = "refs/heads/raider/Toast/gt-1-1";
        git(&self.at("origin.git"), &["update-ref", "-d", left]);
        let city = self.city(counts);
        let mut client = city.client().expect("a supervisor");
        let mut watched = city.client().expect("a supervisor");
        let events = Op::Events(Events {
            follow: true,
            since: Some(0),
            kind: Some("raider.*".to_owned()),
        });
        let run = Op::Run(Run {
            task: vec![Task::Text("one task".to_owned())],
            rig: None,
            after: None,
            harness: None,
            branch: None,
        });
        let mut before = spent_by(&city);
        client.call(&run).expect("it is charged");
        let mut parts = Vec::new();
        let seen = watched.stream(&events, |event| -> Result<Flow, ControlError> {
            if event["type"] != PARTS[parts.len()].0 {
                return Ok(Flow::Continue);
            }
            let now = spent_by(&city);
            parts.push(Part {
                cpu: now.0 - before.0,
                processes: now.1 - before.1,
            });
            if parts.len() == 1 {
                // Lets the agent begin.
                write(city.root(), "go", "");
            }
            before = now;
            Ok(if parts.len() == PARTS.len() {
                Flow::Stop
            } else {
                Flow::Continue
            })
        });
        seen.expect("its events");
        parts
    }

    /// Starts a city around the checkout, whose agent waits until it may begin.
    fn city(&self, counts: bool) -> City {
        let hd = env!("CARGO_BIN_EXE_hd");
        let script = format!(
            "until [ -e {{root}}/go ]; do sleep 0.05; done; git status >>/dev/null; \
             echo more >>more.txt; git add more.txt; git commit -qm more; {hd} done; sleep 1000"
        );
        let plan = Plan::without_rigs().rig_around(Some(self.at("checkout")), "horde", "gt");
        let mut city = made(&plan.harness(&format!("[\"sh\", \"-c\", {script:?}]")));
        match counts {
            true => start_counting(&mut city),
            false => city.start(),
        }
        // The refs that agents see are the last part of a rig's preparation.
        let shown = city.theirs().join("refs/remotes/origin/HEAD");
        eventually("a rig that is ready", || shown.exists().then_some(()));
        city
    }
}

/// Returns processor time and number of git processes of a city until now.
fn spent_by(city: &City) -> (Duration, usize) {
    let cost = Cost::of(city.pid());
    (cost.cpu + cost.childrens_cpu, gits(city))
}

/// Returns the processor time of all children that were waited for.
fn childrens() -> Duration {
    spent(UsageWho::RUSAGE_CHILDREN)
}

/// Returns the processor time of this process, or of its children.
pub fn spent(who: UsageWho) -> Duration {
    let usage = getrusage(who).expect("the kernel counts");
    let time = |value: nix::sys::time::TimeVal| {
        let micros = value.tv_sec() * 1_000_000 + value.tv_usec();
        Duration::from_micros(u64::try_from(micros).expect("time passes"))
    };
    time(usage.user_time()) + time(usage.system_time())
}
