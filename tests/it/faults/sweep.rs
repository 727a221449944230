//! The crash sweep: the daemon is aborted at every fault point, and the end is the same.
//!
//! `cargo test` kills once in each story, at a random point; the seed is printed, and `HORDE_SEED` repeats it. The long
//! tier kills at each point, once with one raider, and at its first, second and third time with three raiders at work;
//! `HORDE_SWEEP=<point>` has it sweep a single point.

mod decided;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use horde_supervisor::control::protocol::{ControlError, ErrorKind};
use horde_supervisor::domain::saga::FaultPoint;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{does, plan};
use crate::support::chance::Chance;
use crate::support::git::{commit_all, git, rev, write};
use crate::support::live::{City, wait};

/// The number of cities at once: most of their time is spent waiting for processes.
const AT_ONCE: usize = 4;

/// A piece of work that passes a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Story {
    /// Charged, done, landed.
    Work,
    /// Charged, nuked with salvage while it holds work, charged again, landed.
    Nuke,
    /// Charged, done, in conflict, done again by a fresh raider, landed.
    Rework,
    /// Charged, nuked with salvage, the salvage pruned.
    Prune,
    /// Charged, cancelled while it holds work.
    Cancel,
    /// Charged, done, rejected into its live session, done again, approved, landed.
    Review,
    /// Charged with a totem of two steps, with a handoff between them, done, landed.
    Totem,
}

impl Story {
    const ALL: &[Self] = &[
        Self::Work,
        Self::Nuke,
        Self::Rework,
        Self::Prune,
        Self::Cancel,
        Self::Review,
        Self::Totem,
    ];
}

/// Returns the stories that pass a point. No wildcard, so that a new point is not forgotten.
fn stories(point: FaultPoint) -> &'static [Story] {
    use FaultPoint as P;
    match point {
        P::ChargeSlotBefore
        | P::ChargeSlotAfter
        | P::ChargeSandboxBefore
        | P::ChargeSandboxAfter
        | P::ChargeHookBefore
        | P::ChargeHookAfter
        | P::DoneSessionBefore
        | P::DoneSessionAfter
        | P::WitnessReadyBefore
        | P::WitnessReadyAfter
        | P::LandPinBefore
        | P::LandPinAfter => &[Story::Work],
        P::ChargeSessionBefore | P::ChargeSessionAfter => {
            &[Story::Work, Story::Review, Story::Totem]
        }
        P::DoneIntentBefore
        | P::DoneIntentAfter
        | P::DonePushBefore
        | P::DonePushAfter
        | P::DoneSubmitBefore
        | P::DoneSubmitAfter => &[Story::Work, Story::Review, Story::Totem],
        P::LandIntentBefore
        | P::LandIntentAfter
        | P::LandPushBefore
        | P::LandPushAfter
        | P::MergedCloseBefore
        | P::MergedCloseAfter => &[Story::Work, Story::Review],
        P::NukeIntentBefore | P::NukeIntentAfter | P::NukeReleaseBefore | P::NukeReleaseAfter => {
            &[Story::Work, Story::Nuke, Story::Cancel]
        }
        P::NukeSalvageBefore | P::NukeSalvageAfter => &[Story::Nuke, Story::Cancel],
        P::ReworkBefore | P::ReworkAfter => &[Story::Rework],
        P::PruneIntentBefore | P::PruneIntentAfter | P::PruneDropBefore | P::PruneDropAfter => {
            &[Story::Prune]
        }
    }
}

/// A run of the sweep.
#[derive(Debug, Clone, Copy)]
struct Case {
    story: Story,
    point: FaultPoint,
    /// The n-th time that the point is reached.
    nth: usize,
    raiders: usize,
}

/// Returns the points that `HORDE_SWEEP` names, or all.
fn points() -> Vec<FaultPoint> {
    let wanted = std::env::var("HORDE_SWEEP").unwrap_or_default();
    let words = wanted
        .split(',')
        .filter(|word| !["", "long"].contains(word));
    let words: Vec<_> = words.collect();
    let all = FaultPoint::ALL.iter().copied();
    all.filter(|point| words.is_empty() || words.contains(&point.as_str()))
        .collect()
}

#[test]
fn a_daemon_that_dies_once_in_a_story_comes_to_the_same_end() {
    let mut chance = Chance::seeded();
    let chosen = |story: &Story| {
        let mut on_its_way = points();
        on_its_way.retain(|point| stories(*point).contains(story));
        if on_its_way.is_empty() {
            return None;
        }
        let point = on_its_way[chance.below(on_its_way.len())];
        let is_passed_twice = *story == Story::Review && decided::is_passed_twice(point);
        Some(Case {
            story: *story,
            point,
            nth: if is_passed_twice {
                1 + chance.below(2)
            } else {
                1
            },
            raiders: 1,
        })
    };
    sweep(Story::ALL.iter().filter_map(chosen).collect());
}

/// Weakness W9 of an earlier system: the steps of done had no journal: a crash between push and merge request left a
/// branch that was never merged.
#[test]
#[ignore = "long tier: every point of the sweep"]
fn a_daemon_that_dies_at_any_fault_point_comes_to_the_same_end() {
    let mut cases = Vec::new();
    for point in points() {
        for &story in stories(point) {
            let mut times = vec![(1, 1), (1, 3), (2, 3), (3, 3)];
            if story == Story::Review && decided::is_passed_twice(point) {
                times.push((2, 1));
            }
            cases.extend(times.into_iter().map(|(nth, raiders)| Case {
                story,
                point,
                nth,
                raiders,
            }));
        }
    }
    sweep(cases);
}

fn sweep(mut cases: Vec<Case>) {
    cases.reverse();
    let queue = Mutex::new(cases);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().expect("unpoisoned").pop() else {
                        return;
                    };
                    if catch_unwind(AssertUnwindSafe(|| run(case))).is_err() {
                        failed.lock().expect("unpoisoned").push(case);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("unpoisoned");
    assert!(failed.is_empty(), "{failed:#?}");
}

fn run(case: Case) {
    match case.story {
        Story::Work => work(case),
        Story::Nuke => nuke(case),
        Story::Rework => rework(case),
        Story::Prune => prune(case),
        Story::Cancel => decided::cancel(case),
        Story::Review => decided::review(case),
        Story::Totem => totem(case),
    }
}

impl Case {
    fn fault(&self) -> String {
        format!("{}:{}", self.point.as_str(), self.nth)
    }

    /// Waits until the daemon has died at the point, and starts it again.
    fn crash(&self, city: &mut City) {
        eprintln!("sweep: {:?} at {}", self.story, self.fault());
        city.wait_killed_by(Signal::SIGABRT);
        city.start();
    }

    /// Starts the daemon, makes a relic for each raider, and charges them all at once; the daemon may die of it. Returns
    /// the names of the work and the relics.
    fn begin(&self, city: &mut City, script: impl Fn(&str) -> String) -> Vec<(String, String)> {
        city.start_to_die(&self.fault());
        let names = (1..=self.raiders).map(|number| format!("w{number}"));
        let relics = names.map(|name| (name.clone(), city.script(&name, &script(&name))));
        let relics: Vec<_> = relics.collect();
        let city = &*city;
        for (_, relic) in relics.iter().filter(|_| self.story == Story::Totem) {
            city.answer("totem.start", json!({ "ritual": "two", "relic": relic }));
        }
        thread::scope(|scope| {
            for (_, relic) in &relics {
                scope.spawn(move || {
                    accept(city.ask("charge", charge(relic)), ErrorKind::Unavailable);
                });
            }
        });
        relics
    }
}

/// Charges the relics that were not accepted; the others are charged or being charged.
fn charge_again(city: &City, relics: &[(String, String)]) {
    for (_, relic) in relics {
        accept(city.ask("charge", charge(relic)), ErrorKind::Conflict);
    }
}

fn charge(relic: &str) -> Value {
    json!({ "relic": relic, "rig": "horde" })
}

/// Checks that the result is a success or the expected failure.
fn accept(result: Result<Value, ControlError>, expected: ErrorKind) {
    if let Err(error) = result {
        assert_eq!(error.kind, expected, "{error:?}");
    }
}

/// Repeats a request until what it is about is gone.
fn until_gone(what: &str, mut request: impl FnMut() -> Result<Value, ControlError>) {
    wait(what, || match request() {
        Ok(_) => Some(()),
        Err(error) if error.kind == ErrorKind::NotFound => Some(()),
        Err(error) => {
            accept(Err(error), ErrorKind::Conflict);
            None
        }
    });
}

fn work(case: Case) {
    // The gate's own baseline: a target that is red without any work must not be blamed on the raider.
    let gates = r#"[{ name = "test", run = "test -d work" }]"#;
    let mut city = City::made(&plan().set("forge", "gates", gates));
    let relics = case.begin(&mut city, does);
    case.crash(&mut city);
    charge_again(&city, &relics);
    city.assert_landed(&relics);
    city.assert_no_salvage();
    city.stop();
}

/// The second step begins in a fresh session.
const TWO_STEPS: &str = r#"
[[steps]]
id = "one"
title = "One"
[[steps]]
id = "two"
title = "Two"
needs = ["one"]
fresh_session = true
"#;

fn totem(case: Case) {
    let mut city = City::made(&plan());
    write(city.root(), "rituals/two.toml", TWO_STEPS);
    let script = |name: &str| {
        format!(
            "until hd totem show $HD_RELIC >/dev/null; do sleep 0.05; done\n\
             at() {{ hd totem show $HD_RELIC | grep -q \"now  *$HD_RELIC.$1 \"; }}\n\
             ! at 1 || {{ hd step done $HD_RELIC.1; forever; }}\n\
             ! at 2 || hd step done $HD_RELIC.2\n{}",
            does(name)
        )
    };
    let relics = case.begin(&mut city, script);
    case.crash(&mut city);
    charge_again(&city, &relics);
    city.assert_landed(&relics);
    for (_, relic) in &relics {
        let done = city.happened("totem.step_done", relic);
        let steps: Vec<_> = done.iter().map(|event| &event["data"]["step"]).collect();
        assert_eq!(steps, [&format!("{relic}.1"), &format!("{relic}.2")]);
        let totem = city.answer("totem.show", json!({ "relic": relic }));
        assert_eq!(totem["present"], Value::Null, "{totem}");
    }
    city.assert_no_salvage();
    city.stop();
}

fn nuke(case: Case) {
    let mut city = City::made(&plan());
    let script = |name: &str| {
        let does = does(name).replace('\n', "; ");
        format!(
            "[ ! -e $signs/go ] || {{ {does}; }}\n\
             [ -e $signs/{name} ] || {{ echo precious > new; echo changed >> README; }}\n\
             sign {name}; forever"
        )
    };
    let relics = case.begin(&mut city, script);
    relics.iter().for_each(|(name, _)| city.wait_sign(name));
    let raiders = city.answer("raider.list", json!({}));
    let raiders: Vec<_> = raiders.as_array().expect("a list").clone();
    let nuke = |city: &City, raider: &Value| {
        let args = json!({ "name": raider["id"], "salvage": true, "yes": true });
        city.ask("raider.nuke", args)
    };
    for raider in &raiders {
        accept(nuke(&city, raider), ErrorKind::Unavailable);
    }
    case.crash(&mut city);
    for raider in &raiders {
        // If it was not accepted before the death, the raider is still there; if it was, the raider is gone or about to
        // go.
        until_gone("the raider is gone", || nuke(&city, raider));
    }
    for (_, relic) in &relics {
        city.wait_status(relic, "open");
    }
    city.assert_quiet();
    assert_salvaged(&city, &raiders);
    city.sign("go");
    for (_, relic) in &relics {
        city.charge(relic);
    }
    city.assert_landed(&relics);
    city.stop();
}

fn prune(case: Case) {
    let mut city = City::made(&plan());
    let script = |name: &str| format!("echo precious > new; sign {name}; forever");
    let relics = case.begin(&mut city, script);
    relics.iter().for_each(|(name, _)| city.wait_sign(name));
    let raiders = city.answer("raider.list", json!({}));
    for raider in raiders.as_array().expect("a list") {
        let args = json!({ "name": raider["id"], "salvage": true, "yes": true });
        city.answer("raider.nuke", args);
    }
    let salvages = city.answer("salvage.list", json!({}));
    let salvages = salvages.as_array().expect("a list").clone();
    assert_eq!(salvages.len(), case.raiders);
    let prune = |city: &City, salvage: &Value| {
        let args = json!({ "id": salvage["id"], "yes": true });
        city.ask("salvage.prune", args)
    };
    for salvage in &salvages {
        accept(prune(&city, salvage), ErrorKind::Unavailable);
    }
    case.crash(&mut city);
    for salvage in &salvages {
        until_gone("the salvage is gone", || prune(&city, salvage));
    }
    city.assert_no_salvage();
    city.assert_quiet();
    let said = city.all_of("salvage.pruned");
    assert_eq!(said.len(), salvages.len(), "{said:?}");
    city.stop();
}

/// Asserts a salvage of each raider, which restores everything, and no salvage ref without a salvage.
fn assert_salvaged(city: &City, raiders: &[Value]) {
    let salvages = city.answer("salvage.list", json!({}));
    let salvages = salvages.as_array().expect("a list");
    assert_eq!(salvages.len(), raiders.len(), "{salvages:?}");
    let mut known: Vec<&str> = salvages
        .iter()
        .flat_map(|salvage| salvage["refs"].as_array().expect("refs"))
        .map(|name| name.as_str().expect("a name"))
        .collect();
    known.sort_unstable();
    let refs = ["for-each-ref", "--format=%(refname)", "refs/horde/salvage"];
    let refs = git(&city.repo(), &refs);
    assert_eq!(refs.lines().collect::<Vec<_>>(), known);
    for (number, salvage) in salvages.iter().enumerate() {
        let to = city.root().join(format!("restored-{number}"));
        let to = to.to_str().expect("a text");
        city.answer("salvage.restore", json!({ "id": salvage["id"], "to": to }));
        let read = |name: &str| std::fs::read_to_string(format!("{to}/{name}"));
        assert_eq!(read("new").expect("it was there"), "precious\n");
        assert_eq!(read("README").expect("it was there"), "hello\nchanged\n");
        git(&city.theirs(), &["worktree", "remove", "--force", to]);
    }
}

fn rework(case: Case) {
    let mut city = City::made(&plan());
    let script = |name: &str| {
        format!(
            "sign {name}; await go\n\
             sed \"s/^two.*/two by $HD_RELIC/\" shared.txt > .new; mv .new shared.txt\n\
             git add shared.txt\n{}",
            does(name)
        )
    };
    let relics = case.begin(&mut city, script);
    relics.iter().for_each(|(name, _)| city.wait_sign(name));
    let checkout = city.checkout();
    write(
        &checkout,
        "shared.txt",
        "one\ntwo of somebody else\nthree\n",
    );
    commit_all(&checkout, "somebody else's");
    git(&checkout, &["push", "-q", "origin", "main"]);
    let theirs = rev(&checkout, "HEAD");
    city.sign("go");
    case.crash(&mut city);
    city.assert_landed(&relics);
    git(
        &city.origin(),
        &["merge-base", "--is-ancestor", &theirs, "main"],
    );
    for (_, relic) in &relics {
        for mr in city
            .mrs(relic)
            .iter()
            .filter(|mr| mr["state"] == "conflict")
        {
            let sent = city.all_of("message.sent");
            let failed = sent.iter().filter(|event| {
                event["data"]["type"] == "MERGE_FAILED" && event["data"]["mr"] == mr["id"]
            });
            assert_eq!(failed.count(), 1, "{mr}");
            let head = mr["head"].as_str().expect("a commit");
            let saved = ["for-each-ref", "--contains", head, "refs/horde/salvage"];
            let saved = git(&city.repo(), &saved);
            assert_eq!(saved.lines().count(), 1, "{mr}: {saved}");
        }
        assert!(city.mrs(relic).len() > 1, "nothing was reworked");
    }
    city.stop();
}
