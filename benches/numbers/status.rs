//! The cost of being looked at: `status` and `status --watch` of a city of a thousand raiders with a hundred thousand
//! closed relics, and of 24 raiders in sandboxes of 20,000 files.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use horde_supervisor::adapters::clock::SystemClock;
use horde_supervisor::adapters::relics_sqlite::SqliteRelics;
use horde_supervisor::control::client::{Client, Flow};
use horde_supervisor::control::protocol::args::{RelicCreate, Status};
use horde_supervisor::control::protocol::{ControlError, Op};
use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::domain::relic::{Hook, RelicKind, RelicStatus};
use horde_supervisor::ports::relics::{Durability, NewRelic, Relics, StoreError, Txn};
use horde_supervisor::ports::repo::{Repo, SandboxSpec};
use horde_supervisor::testing::poll::poll;

use crate::city;
use crate::cost::{Cost, private_kib};
use crate::task::{counting, git};
use crate::{measure, percentiles};

/// The number of requests of each kind.
const SAMPLES: usize = 100;
/// The number of events over which the cost of a follower is measured.
const EVENTS: u32 = 1000;
/// The interval of events while that is measured.
const EVENT: Duration = Duration::from_millis(20);
/// The limit of the start of all sessions.
const STARTS: Duration = Duration::from_secs(300);

/// Prints both cities.
pub fn status() {
    City::of(1000, (2, 10), 100_000).measure();
    City::of(24, (100, 200), 0).measure();
}

/// A city of raiders at work. Dropping it ends everything.
struct City {
    dir: tempfile::TempDir,
    daemon: Child,
    raiders: usize,
}

impl City {
    /// Makes a city of that many raiders, each in a sandbox of so many directories and files in each, and starts it.
    fn of(raiders: usize, files: (usize, usize), closed: usize) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(dir.path()).expect("a real path");
        println!(
            "status, {raiders} raiders in sandboxes of {} files, {closed} closed relics:",
            files.0 * files.1
        );
        city::checkout(&root, files);
        configure(&root, raiders);
        let hooks = sandboxes(&root, raiders);
        seed(&root, &hooks, closed);
        let daemon = daemon(&root);
        let city = Self {
            dir,
            daemon,
            raiders,
        };
        city.wait_until_all_work();
        city
    }

    fn connect(&self) -> Client {
        city::connect(self.dir.path())
    }

    fn wait_until_all_work(&self) {
        let mut client = self.connect();
        let works = || {
            let status = client.call(&Op::Status(Status::default())).ok()?;
            let raiders = status["rigs"][0]["raiders"].as_array()?;
            let works = raiders.iter().filter(|raider| raider["state"] == "working");
            (works.count() == self.raiders).then_some(())
        };
        poll(STARTS, works).expect("all raiders at work");
    }

    fn gits(&self) -> usize {
        let log = fs::read_to_string(self.dir.path().join("git.log")).unwrap_or_default();
        log.lines().count()
    }

    fn measure(&self) {
        let mut client = self.connect();
        let ask = |client: &mut Client| {
            let begun = Instant::now();
            client
                .call(&Op::Status(Status::default()))
                .expect("an answer");
            begun.elapsed()
        };
        let (before, gits) = (private_kib(self.daemon.id()), self.gits());
        let same = (0..SAMPLES).map(|_| ask(&mut client)).collect();
        percentiles("  nothing changed", same);
        let changed = (0..SAMPLES).map(|_| {
            client.call(&change()).expect("a relic");
            ask(&mut client)
        });
        let changed = changed.collect();
        percentiles("  after a change", changed);
        let hd = (0..SAMPLES).map(|_| self.hd()).collect();
        percentiles("  `hd status --json`, the program and all", hd);
        println!(
            "  {} git processes meanwhile, private memory {before} KiB before, {} KiB after",
            self.gits() - gits,
            private_kib(self.daemon.id())
        );
        let (alone, unwatched) = self.cost_of_events(false);
        let (with, watched) = self.cost_of_events(true);
        let share =
            |cost: Duration, time: Duration| 100.0 * cost.as_secs_f64() / time.as_secs_f64();
        println!(
            "  {EVENTS} events: {:.1} % of a core in {unwatched:.0?} alone, {:.1} % in {watched:.0?} with a watcher; \
             {:.1} % for watching",
            share(alone, unwatched),
            share(with, watched),
            share(with.saturating_sub(alone), watched)
        );
    }

    fn hd(&self) -> Duration {
        let begun = Instant::now();
        let ran = Command::new(env!("CARGO_BIN_EXE_hd"))
            .arg("--city")
            .arg(self.dir.path())
            .args(["status", "--json"])
            .stdout(Stdio::null())
            .status();
        assert!(ran.is_ok_and(|status| status.success()));
        begun.elapsed()
    }

    /// Returns the daemon's processor time for a number of events, and how long they took.
    fn cost_of_events(&self, watched: bool) -> (Duration, Duration) {
        let over = Arc::new(AtomicBool::new(false));
        let watcher = watched.then(|| {
            let (client, over) = (self.connect(), Arc::clone(&over));
            thread::spawn(move || {
                let watch = Op::Status(Status { watch: true });
                let mut drawn = 0;
                let seen = client.stream(&watch, |_| -> Result<Flow, ControlError> {
                    drawn += 1;
                    Ok(match over.load(Ordering::Relaxed) {
                        true => Flow::Stop,
                        false => Flow::Continue,
                    })
                });
                seen.expect("a stream");
                drawn
            })
        });
        let mut client = self.connect();
        let (begun, before) = (Instant::now(), Cost::of(self.daemon.id()));
        let mut next = begun;
        for _ in 0..EVENTS {
            client.call(&change()).expect("a relic");
            next += EVENT;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        let cost = (Cost::of(self.daemon.id()) - before).cpu;
        let took = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        client.call(&change()).expect("a relic");
        if let Some(watcher) = watcher {
            let drawn: u32 = watcher.join().expect("it watched");
            println!("  drawn {drawn} times");
        }
        (cost, took)
    }
}

impl Drop for City {
    fn drop(&mut self) {
        city::stop(self.dir.path(), &mut self.daemon);
    }
}

fn change() -> Op {
    Op::RelicCreate(RelicCreate {
        title: "one more".to_owned(),
        rig: Some("rig".to_owned()),
        body: String::new(),
        priority: 0,
        label: Vec::new(),
        parent: None,
        dep: Vec::new(),
    })
}

fn name(nth: usize) -> String {
    format!("R{nth}")
}

fn configure(root: &Path, raiders: usize) {
    let names: Vec<_> = (0..raiders).map(|nth| format!("{:?}", name(nth))).collect();
    let config = format!(
        "[workspace]\nname = \"status\"\n\n[daemon]\npatrol_interval = \"1h\"\nshutdown_timeout = \"0s\"\n\n\
         [harness.script]\ncommand = [\"sh\", \"-c\", \"exec sleep 100000\"]\n\n\
         [[rigs]]\nname = \"rig\"\nprefix = \"gt\"\npath = \"{}\"\n\
         [rigs.raiders]\nharness = \"script\"\nmax = {raiders}\nstall_after = \"24h\"\nnames = [{}]\n",
        root.join("checkout").display(),
        names.join(", ")
    );
    let state = root.join(".horde");
    fs::create_dir_all(&state).expect("a directory");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("a mode");
    fs::write(root.join("city.toml"), config).expect("a configuration");
}

/// Makes the sandboxes as charges do, and returns their hooks.
fn sandboxes(root: &Path, raiders: usize) -> Vec<Hook> {
    let repo = measure::repo(root, root.join("checkout"));
    repo.prepare().expect("prepared");
    let base = git(&root.join("checkout"), &["rev-parse", "origin/main"]);
    let hooks = (0..raiders).map(|nth| {
        let (name, relic) = (name(nth), format!("gt-{}", nth + 1));
        let hook = Hook {
            raider: format!("rig/raiders/{name}").parse().expect("an id"),
            incarnation: Incarnation(1),
            relic: relic.clone().try_into().expect("an id"),
            branch: format!("raider/{name}/{relic}-1"),
            base: base.clone().try_into().expect("an id"),
            from_target: true,
            target: "main".to_owned(),
            harness: "script".parse().expect("a name"),
            charged_at: jiff::Timestamp::now(),
            done: None,
        };
        let spec = SandboxSpec {
            raider: hook.raider.clone(),
            relic: hook.relic.clone(),
            incarnation: hook.incarnation,
            branch: hook.branch.clone(),
            base: hook.base.clone(),
            path: root.join("rig/raiders").join(&name),
            task_dir: task_dir(root, &relic, &name),
            copy: Vec::new(),
        };
        fs::create_dir_all(&spec.task_dir).expect("a directory");
        for name in ["TASK.md", "outcome"] {
            fs::write(spec.task_dir.join(name), "").expect("a file");
        }
        repo.make_sandbox(&spec).expect("a sandbox");
        hook
    });
    hooks.collect()
}

fn task_dir(root: &Path, relic: &str, name: &str) -> PathBuf {
    root.join(format!(".horde/tasks/rig/{relic}/{name}-1"))
}

/// Writes hooks and closed work into the store, before the daemon starts.
fn seed(root: &Path, hooks: &[Hook], closed: usize) {
    let file = root.join(".horde/relics.db");
    let mut store = SqliteRelics::open(&file, Arc::new(SystemClock::new())).expect("a store");
    let mut work = |txn: &mut dyn Txn| {
        for hook in hooks {
            put(txn, RelicStatus::Hooked, Some(hook))?;
            txn.next_incarnation(&hook.raider)?;
            txn.put_hook(hook)?;
        }
        (0..closed).try_for_each(|_| put(txn, RelicStatus::Closed, None))
    };
    let committed = store.commit(&mut [&mut work], Durability::Full);
    assert_eq!(committed.expect("a commit").results, [Ok(())]);
}

fn put(txn: &mut dyn Txn, status: RelicStatus, hook: Option<&Hook>) -> Result<(), StoreError> {
    let mut relic = txn.create_relic(&NewRelic {
        prefix: "gt".to_owned(),
        kind: RelicKind::Task,
        title: "some work".to_owned(),
        body: "What has to be done, in a sentence or two.".to_owned(),
        priority: 0,
        labels: Vec::new(),
        parent: None,
        deps: Vec::new(),
        by: Some("operator".to_owned()),
    })?;
    relic.status = status;
    relic.closed = (status == RelicStatus::Closed).then(|| txn.now());
    relic.raider = hook.map(|hook| hook.raider.clone());
    relic.assignee = hook.map(|hook| hook.raider.to_string());
    txn.put_relic(&relic)
}

fn daemon(root: &Path) -> Child {
    let log = File::create(root.join("log")).expect("a log");
    Command::new(env!("CARGO_BIN_EXE_horde-supervisor"))
        .arg(root)
        .env("PATH", counting(root))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the daemon starts")
}
