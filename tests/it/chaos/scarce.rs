//! A kernel without free file descriptors or memory.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use horde_supervisor::control::client::Client;
use horde_supervisor::control::protocol::Op;
use nix::sys::resource;
use nix::sys::signal::Signal;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::{crowd, kill, named, pid, runs_as};
use crate::support::live::{City, until};
use crate::support::processes;

/// Limits the daemon, as it might limit itself.
fn limit(city: &City, what: Resource, most: u64) {
    let of = match what {
        Resource::Nofile => resource::Resource::RLIMIT_NOFILE,
        _ => resource::Resource::RLIMIT_AS,
    };
    let (_, hard) = resource::getrlimit(of).unwrap();
    let limit = Rlimit {
        current: Some(most.min(hard)),
        maximum: Some(hard),
    };
    let pid = Pid::from_raw(city.pid().try_into().unwrap());
    prlimit(pid, what, limit).unwrap();
}

/// Returns the number of files that the daemon has open.
fn open(city: &City) -> u64 {
    let files = fs::read_dir(format!("/proc/{}/fd", city.pid())).unwrap();
    files.count() as u64
}

/// Connected clients get answers, running sessions go on, and nothing is concluded from facts that cannot be read. A
/// start that fails is retried until there are file descriptors.
#[test]
#[ignore = "long tier: chaos"]
fn shortage_of_file_descriptors_loses_no_agent_and_is_recovered_from() {
    let city = crowd(3).set("daemon", "patrol_interval", r#""1s""#).start();
    let [killed, _, other] = ["a0", "a1", "a2"].map(|name| runs_as(&city, name, 1));
    let mut client = Client::connect(&city.root().join(".horde/control.sock")).unwrap();
    let mut ask = |op: &str, args: Value| {
        let args = args.as_object().unwrap().clone();
        client.call(&Op::parse(op.parse().unwrap(), args).unwrap())
    };
    ask("ping", json!({})).unwrap();
    let before = open(&city);
    limit(&city, Resource::Nofile, 3);
    kill(killed);
    let _either = ask("agent.restart", json!({ "name": "a1" }));
    for _ in 0..100 {
        ask("ping", json!({})).unwrap();
        ask("status", json!({})).unwrap();
    }
    assert!(processes::runs(other));
    limit(&city, Resource::Nofile, u64::MAX);
    until("all are back", || {
        let now = named(&city, "sleep");
        now.len() == 3 && !now.contains(&killed)
    });
    assert_eq!(runs_as(&city, "a2", 1), other);
    assert_eq!(city.happened("agent.crashed", "a2"), [Value::Null; 0]);
    let files = || open(&city) <= before;
    until("no descriptor is left behind", files);
}

/// The daemon cannot send an answer without memory, and may die of that; its sessions never do.
#[test]
#[ignore = "long tier: chaos"]
fn without_memory_no_session_is_lost_or_doubled() {
    let mut city = City::made(&crowd(4));
    // A single heap that grows by asking the kernel: spare heaps would last for a while.
    let mut supervisor = city.supervisor();
    supervisor.env("MALLOC_ARENA_MAX", "1");
    city.start_as(supervisor);
    for _ in 0..16 {
        let large = json!({ "title": "large", "body": "x".repeat(900 * 1024) });
        city.ask("relic.create", large).unwrap();
    }
    let pids: Vec<_> = ["a0", "a1", "a2", "a3"]
        .map(|name| runs_as(&city, name, 1))
        .into();
    let status = fs::read_to_string(format!("/proc/{}/status", city.pid())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size: u64 = size
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    limit(&city, Resource::As, size * 1024);
    kill(pids[0]);
    for _ in 0..10 {
        let listed = city.ask("relic.list", json!({}));
        assert!(listed.is_err(), "there was no room for that");
    }
    for survivor in &pids[1..] {
        assert!(processes::runs(*survivor));
    }
    // It may have died of the missing memory already.
    processes::signal(city.pid(), Signal::SIGKILL);
    let ended_by = city.ended().signal();
    let may = [Signal::SIGKILL, Signal::SIGABRT].map(|signal| signal as i32);
    assert!(ended_by.is_some_and(|it| may.contains(&it)), "{ended_by:?}");
    city.start();
    for (name, before) in ["a1", "a2", "a3"].into_iter().zip(&pids[1..]) {
        assert_eq!(runs_as(&city, name, 1), *before);
    }
    until("the one that died is back", || {
        named(&city, "sleep").len() == 4
    });
    let listed = city.ask("relic.list", json!({})).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 16, "there is room now");
    let agents = city.ask("agent.list", json!({})).unwrap();
    let mut agents = agents.as_array().unwrap().iter();
    assert!(agents.all(|agent| processes::runs(pid(&agent["pid"]))));
}
