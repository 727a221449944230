//! Kill storms: of children, of all children, of the daemon with its holders.

use std::fs;
use std::path::Path;
use std::time::Duration;

use horde_supervisor::testing::poll::{pass, poll};
use horde_supervisor::testing::tier::by_tier;
use serde_json::{Value, json};

use super::{agent, count, crowd, kill, name, named, no_zombies, pid, runs_as};
use crate::support::chance::Chance;
use crate::support::git::write;
use crate::support::live::{City, LIMIT, until};
use crate::support::plan::Plan;
use crate::support::{processes, tmux};

on_tmux_too!(
    daily: ;
    long: every_kill_is_answered_by_one_restart
);

/// The number of descriptors or threads of the daemon that may come and go with its work: a restart that keeps one of
/// them for itself is noticed after as many restarts.
const SLACK: usize = 8;

/// Numbers that restarts must not make larger.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// Open descriptors of the daemon.
    descriptors: usize,
    /// Its threads.
    threads: usize,
    /// The directories of sessions.
    sessions: usize,
    /// The files in them. Some are made only when they are needed: one more for each session is no leak.
    session_files: usize,
    /// Panes of the city's tmux server; 0 without one.
    panes: usize,
}

impl Held {
    fn of(city: &City) -> Self {
        let entries = |dir: &Path| fs::read_dir(dir).map_or(0, Iterator::count);
        let proc = Path::new("/proc").join(city.pid().to_string());
        let sessions = city.root().join(".horde/sessions");
        let files = fs::read_dir(&sessions).unwrap();
        let files = files.map(|entry| entries(&entry.unwrap().path()));
        Self {
            descriptors: entries(&proc.join("fd")),
            threads: entries(&proc.join("task")),
            sessions: entries(&sessions),
            session_files: files.sum(),
            panes: tmux::panes(city.root()),
        }
    }

    /// Waits until no more is held than before.
    fn is_held_again(&self, city: &City) {
        let mut last = None;
        let fits = || {
            let now = Self::of(city);
            let fits = now.descriptors <= self.descriptors + SLACK
                && now.threads <= self.threads + SLACK
                && now.sessions == self.sessions
                && now.session_files <= self.session_files + self.sessions
                && now.panes == self.panes;
            last = Some(now);
            fits.then_some(())
        };
        let found = poll(LIMIT, fits);
        assert!(found.is_some(), "before {self:?}, now {last:?}");
    }
}

/// Case many-restarts of an adversary: descriptors, threads, files and panes after many restarts.
#[test]
fn every_kill_is_answered_by_one_restart() {
    let (agents, kills) = (10, by_tier(20, 1000));
    let mut chance = Chance::seeded();
    let city = crowd(agents).start();
    let mut generations = vec![1; agents];
    for number in 0..agents {
        runs_as(&city, &name(number), 1);
    }
    let before = Held::of(&city);
    let on_tmux = if tmux::is_asked_for() { agents } else { 0 };
    assert_eq!(before.panes, on_tmux, "a pane for each agent");
    for _ in 0..kills {
        let number = chance.below(agents);
        // The others may still be restarting.
        kill(runs_as(&city, &name(number), generations[number]));
        generations[number] += 1;
    }
    for (number, generation) in generations.iter().enumerate() {
        runs_as(&city, &name(number), *generation);
    }
    assert_eq!(count(&city, "agent.crashed"), kills);
    assert_eq!(named(&city, "sleep").len(), agents);
    no_zombies(&city);
    before.is_held_again(&city);
}

#[test]
fn agents_killed_all_at_once_come_back_without_quarantine() {
    let agents = by_tier(12, 100);
    let city = crowd(agents).set("daemon", "max_restarts", "1").start();
    let pids = |generation| -> Vec<u32> {
        let numbers = 0..agents;
        let pids = numbers.map(|number| runs_as(&city, &name(number), generation));
        pids.collect()
    };
    pids(1).into_iter().for_each(kill);
    let mut back = pids(2);
    let mut seen = named(&city, "sleep");
    back.sort_unstable();
    seen.sort_unstable();
    assert_eq!(back, seen, "each of them once");
    assert_eq!(count(&city, "agent.crashed"), agents);
    assert_eq!(count(&city, "agent.quarantined"), 0);
    no_zombies(&city);
}

/// The stop ends some agents and gives the others, which ignore TERM, their grace; during that the supervisor is
/// killed. The next one adopts the agents that are left, and starts those that are not.
#[test]
#[ignore = "long tier: chaos"]
fn daemon_killed_during_its_stop_neither_doubles_nor_loses_an_agent() {
    let rounds = by_tier(3, 60);
    let mut chance = Chance::seeded();
    let polite = (0..3).map(|number| agent(&name(number), "exec sleep 100000"));
    let deaf = (3..6).map(|number| agent(&name(number), "trap '' TERM INT; exec sleep 100000"));
    let agents: String = polite.chain(deaf).collect();
    let plan = Plan::new().set("daemon", "shutdown_timeout", r#""1s""#);
    let mut city = plan.add(&agents).start();
    for _ in 0..rounds {
        until("all of them run, each once", || {
            let agents = city.ask("agent.list", json!({})).unwrap();
            let up = |agent: &&Value| agent["state"] == "running";
            let up = agents.as_array().unwrap().iter().filter(up).count();
            up == 6 && named(&city, "sleep").len() == 6
        });
        let mut stop = city.program("hd").arg("stop").spawn().unwrap();
        let moment = Duration::from_millis(chance.below(1500) as u64);
        pass(moment);
        kill(city.pid());
        city.ended();
        stop.wait().unwrap();
        city.start();
    }
    assert_eq!(count(&city, "agent.quarantined"), 0);
    no_zombies(&city);
}

/// The agents ignore hang-ups, so they outlive their terminals and have no holder any more.
#[test]
fn agent_that_outlives_daemon_and_holder_is_replaced_and_never_doubled() {
    let names = ["a0", "a1", "a2"];
    let deaf = |name: &&str| agent(name, "trap '' HUP; exec sleep 100000");
    let agents: String = names.iter().map(deaf).collect();
    let mut city = Plan::new().add(&agents).start();
    let first = names.map(|name| runs_as(&city, name, 1));
    let started = names.map(|name| city.happened("agent.started", name).remove(0));
    city.kill();
    for event in &started {
        kill(pid(&event["data"]["holder_pid"]));
    }
    assert!(first.iter().all(|pid| processes::runs(*pid)), "they go on");
    city.start();
    let mut second = names.map(|name| runs_as(&city, name, 2)).to_vec();
    assert!(
        !first.iter().any(|pid| processes::runs(*pid)),
        "the old ones"
    );
    let mut copies = named(&city, "sleep");
    copies.sort_unstable();
    second.sort_unstable();
    assert_eq!(copies, second);
}

#[test]
#[ignore = "long tier: chaos"]
fn reloads_in_a_storm_touch_no_other_agent() {
    let rounds = by_tier(12, 1000);
    let mut chance = Chance::seeded();
    let plan = |round: usize| {
        let still = agent("still", "exec sleep 100000");
        let moving = agent("moving", "exec sleep 100000");
        crowd(4).add(&format!("{still}{moving}env = {{ ROUND = \"{round}\" }}\n"))
    };
    let city = plan(0).start();
    let still = runs_as(&city, "still", 1);
    let (mut generations, mut moved) = ([1; 4], 1);
    for round in 1..=rounds {
        let number = chance.below(4);
        kill(runs_as(&city, &name(number), generations[number]));
        generations[number] += 1;
        let valid = round % 2 == 1;
        let broken = if valid { "" } else { "[daemon\n" };
        write(city.root(), "city.toml", &(plan(round).toml() + broken));
        let reloaded = city.hd(&["reload"]);
        let code = if valid { 0 } else { 2 };
        assert_eq!(reloaded.code, code, "{reloaded:?}");
        moved += u64::from(valid);
        runs_as(&city, "moving", moved);
    }
    for (number, generation) in generations.iter().enumerate() {
        runs_as(&city, &name(number), *generation);
    }
    assert_eq!(runs_as(&city, "still", 1), still);
    assert_eq!(named(&city, "sleep").len(), 6);
}

/// At the stop every killed agent is either running again or on its way.
#[test]
fn stop_in_a_storm_leaves_no_process() {
    let agents = 10;
    let mut city = crowd(agents).start();
    for number in 0..agents {
        kill(runs_as(&city, &name(number), 1));
    }
    city.ask("ping", json!({})).unwrap();
    city.stop();
    until("no agent is left", || named(&city, "sleep").is_empty());
}
