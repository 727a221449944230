//! The cost of being looked at: `status` and `status --watch` of a city of a thousand raiders with a hundred thousand
//! closed relics, and of 24 raiders in sandboxes of 20,000 files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use horde_supervisor::adapters::clock::SystemClock;
use horde_supervisor::adapters::git::GitRepo;
use horde_supervisor::adapters::relics_sqlite::SqliteRelics;
use horde_supervisor::control::client::{Client, Flow};
use horde_supervisor::control::protocol::args::{RelicCreate, Status};
use horde_supervisor::control::protocol::{ControlError, Op};
use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::relic::{Hook, RelicStatus};
use horde_supervisor::ports::relics::{Durability, NewRelic, Relics, StoreError, Txn};
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::poll::poll;
use horde_supervisor::testing::{records, scratch_on_disk};

use crate::city::{fill, gits, made, start_counting};
use crate::cost::{Cost, private_kib};
use crate::percentiles;
use crate::support::city::{rig_of, spec};
use crate::support::git::rev;
use crate::support::live;
use crate::support::plan::Plan;
use crate::support::repository::repository;

/// The number of requests of each kind.
const SAMPLES: usize = 100;
/// The number of events over which the cost of a follower is measured.
const EVENTS: u32 = 1000;
/// The interval of events while that is measured.
const EVENT: Duration = Duration::from_millis(20);
/// The limit of the start of all sessions.
const STARTS: Duration = Duration::from_secs(300);
/// The limit of the first counts in all sandboxes, which take a fifth of a core.
const COUNTS: Duration = Duration::from_secs(1200);

/// Prints both cities.
pub fn status() {
    City::of(1000, (2, 10), 100_000).measure();
    City::of(24, (100, 200), 0).measure();
}

/// A city of raiders at work. Dropping it ends everything.
struct City {
    city: live::City,
    raiders: usize,
}

impl City {
    /// Makes a city of that many raiders, each in a sandbox of so many directories and files in each, and starts it.
    fn of(raiders: usize, files: (usize, usize), closed: usize) -> Self {
        println!(
            "status, {raiders} raiders in sandboxes of {} files, {closed} closed relics:",
            files.0 * files.1
        );
        let ground = scratch_on_disk();
        let checkout = ground.path().join("checkout");
        repository(&checkout, Some("origin.git"), |checkout| {
            fill(checkout, files);
        });
        let mut city = made(&plan(&checkout, raiders));
        let hooks = sandboxes(city.root(), &checkout, raiders);
        seed(city.root(), &hooks, closed);
        start_counting(&mut city);
        let city = Self { city, raiders };
        city.wait_until_all_work();
        city.wait_until_all_counted();
        city
    }

    fn connect(&self) -> Client {
        self.city.client().expect("a supervisor")
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

    /// Waits until git has counted in each sandbox: the first counts may cost a fifth of a core, and are made once.
    fn wait_until_all_counted(&self) {
        let mut client = self.connect();
        let counted = || {
            let status = client.call(&Op::Status(Status::default())).ok()?;
            let raiders = status["rigs"][0]["raiders"].as_array()?;
            let all = raiders.iter().all(|raider| !raider["git"].is_null());
            all.then_some(())
        };
        poll(COUNTS, counted).expect("counts of all sandboxes");
    }

    fn measure(&self) {
        let mut client = self.connect();
        let ask = |client: &mut Client| {
            let begun = Instant::now();
            // As `hd status --json` does: the answer is passed on as it came.
            client
                .call_text(&Op::Status(Status::default()))
                .expect("an answer");
            begun.elapsed()
        };
        let (before, git_before) = (private_kib(self.city.pid()), gits(&self.city));
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
            gits(&self.city) - git_before,
            private_kib(self.city.pid())
        );
        // The relics of the events stay open, and make what comes later dearer: the order takes that out of the difference.
        let costs =
            [false, true, true, false].map(|watched| (watched, self.cost_of_events(watched)));
        let share = |watched: bool| {
            let of = costs.iter().filter(|it| it.0 == watched).map(|it| it.1);
            let (cost, time) = of.fold((0.0, 0.0), |sum, (cost, time)| {
                (sum.0 + cost.as_secs_f64(), sum.1 + time.as_secs_f64())
            });
            100.0 * cost / time
        };
        let (alone, with) = (share(false), share(true));
        let shown = costs.map(|(_, (cost, time))| {
            let share = 100.0 * cost.as_secs_f64() / time.as_secs_f64();
            format!("{share:.1}")
        });
        println!(
            "  {EVENTS} events four times: {alone:.1} % of a core alone, {with:.1} % with a watcher, {:.1} % for watching \
             (alone, with, with, alone: {})",
            with - alone,
            shown.join(", ")
        );
    }

    fn hd(&self) -> Duration {
        let begun = Instant::now();
        let ran = Command::new(env!("CARGO_BIN_EXE_hd"))
            .arg("--city")
            .arg(self.city.root())
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
            let (mut client, over) = (self.connect(), Arc::clone(&over));
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
        let (begun, before) = (Instant::now(), Cost::of(self.city.pid()));
        let mut next = begun;
        for _ in 0..EVENTS {
            client.call(&change()).expect("a relic");
            next += EVENT;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        let cost = (Cost::of(self.city.pid()) - before).cpu;
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

fn change() -> Op {
    Op::RelicCreate(RelicCreate {
        title: "one more".to_owned(),
        rig: Some("horde".to_owned()),
        body: String::new(),
        priority: 0,
        label: Vec::new(),
        parent: None,
        dep: Vec::new(),
        branch: None,
        assignee: None,
        harness: None,
    })
}

fn name(nth: usize) -> String {
    format!("R{nth}")
}

fn plan(checkout: &Path, raiders: usize) -> Plan {
    let names: Vec<_> = (0..raiders).map(name).collect();
    Plan::without_rigs()
        .rig_around(Some(checkout.to_owned()), "horde", "gt")
        .set("daemon", "shutdown_timeout", r#""0s""#)
        .set("raiders", "max", &raiders.to_string())
        .set("raiders", "stall_after", r#""24h""#)
        .set("raiders", "names", &format!("{names:?}"))
        .harness(r#"["sh", "-c", "exec sleep 100000"]"#)
}

/// Makes the sandboxes as charges do, and returns their hooks.
fn sandboxes(root: &Path, checkout: &Path, raiders: usize) -> Vec<Hook> {
    let repo = GitRepo::new(rig_of(root, RigSource::Path(checkout.to_owned()), true));
    repo.prepare().expect("prepared");
    let base = rev(checkout, "origin/main");
    let hooks = (0..raiders).map(|nth| {
        let (name, relic) = (name(nth), format!("gt-{}", nth + 1));
        let spec = spec(root, &base, (&name, &relic, 1));
        repo.make_sandbox(&spec).expect("a sandbox");
        Hook {
            branch: spec.branch,
            base: spec.base,
            charged_at: jiff::Timestamp::now(),
            ..records::hook(&spec.raider, &spec.relic)
        }
    });
    hooks.collect()
}

/// Writes hooks and closed work into the store, before the daemon starts.
fn seed(root: &Path, hooks: &[Hook], closed: usize) {
    let state = root.join(".horde");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("a mode");
    let file = state.join("relics.db");
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
        body: "What has to be done, in a sentence or two.".to_owned(),
        by: Some("operator".to_owned()),
        ..records::task("some work")
    })?;
    relic.status = status;
    relic.closed = (status == RelicStatus::Closed).then(|| txn.now());
    relic.raider = hook.map(|hook| hook.raider.clone());
    relic.assignee = hook.map(|hook| hook.raider.to_string());
    txn.put_relic(&relic)
}
