//! Reused pids: another process has the pid of one of ours.

use std::fs;
use std::process::{Child, Command, Stdio};

use nix::libc;
use nix::sys::signal::Signal;

use super::{crowd, kill, pid, runs_as};
use crate::support::live::until;
use crate::support::namespace::apart;
use crate::support::processes;

on_tmux_too!(
    daily: ;
    long: foreign_process_with_a_reused_pid_is_neither_adopted_nor_ended
);

/// A process that has this pid.
fn stranger(pid: u32) -> Child {
    let mut child = None;
    until("another process has the pid", || {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let mut born = Command::new("sleep").arg("100000").spawn().unwrap();
        if born.id() == pid {
            child = Some(born);
            return true;
        }
        born.kill().unwrap();
        born.wait().unwrap();
        false
    });
    child.unwrap()
}

/// Sends the parent of a process SIGCHLD once more. A busy tmux server loses one at times and then keeps the zombie of
/// a pane, and with it the pid, until its next child ends.
fn remind_parent(child: u32) {
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let parent = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    if let Some(parent) = parent {
        processes::signal(parent, Signal::SIGCHLD);
    }
}

/// In a pid namespace of its own a test can choose the next pid.
#[test]
#[ignore = "long tier: chaos"]
fn foreign_process_with_a_reused_pid_is_neither_adopted_nor_ended() {
    if !apart(foreign_process_with_a_reused_pid_is_neither_adopted_nor_ended) {
        return;
    }
    let mut city = crowd(1).start();
    let agent = runs_as(&city, "a0", 1);
    let started = city.happened("agent.started", "a0").remove(0);
    let ours = [pid(&started["data"]["holder_pid"]), agent, city.pid()];
    city.kill();
    ours.into_iter().for_each(kill);
    until("they are gone", || {
        let there = |pid: &u32| fs::exists(format!("/proc/{pid}")).unwrap();
        ours.into_iter().filter(there).for_each(remind_parent);
        !ours.iter().any(there)
    });
    let strangers = ours.map(stranger);
    city.start();
    assert!(!ours.contains(&runs_as(&city, "a0", 2)));
    city.stop();
    for mut stranger in strangers {
        assert!(processes::runs(stranger.id()), "{stranger:?}");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}

/// Returns whether the process waits for an answer: it sleeps in a read from a socket, after its request.
fn waits_on_a_socket(pid: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let mut words = call.split(' ');
    let reads = [libc::SYS_read, libc::SYS_recvfrom, libc::SYS_recvmsg].map(|it| it.to_string());
    let is_read = words
        .next()
        .is_some_and(|number| reads.iter().any(|it| it == number));
    let fd = words
        .next()
        .and_then(|fd| u32::from_str_radix(fd.strip_prefix("0x")?, 16).ok());
    let link = fd.and_then(|fd| fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok());
    is_read && link.is_some_and(|link| link.to_string_lossy().starts_with("socket:"))
}

/// The caller sent its request while the daemon was stopped, and has gone: it must not get the rights of the process
/// that has its pid by then.
/// Case reused-pid of an adversary: a caller whose pid another process has by then.
#[test]
fn caller_whose_pid_is_given_to_another_process_only_looks() {
    if !apart(caller_whose_pid_is_given_to_another_process_only_looks) {
        return;
    }
    let mut city = crowd(1).start();
    let agent = runs_as(&city, "a0", 1);
    processes::signal(city.pid(), Signal::SIGSTOP);
    let mut hd = city.program("hd");
    hd.arg("--city")
        .arg(city.root())
        .args(["agent", "stop", "a0"]);
    let mut caller = hd
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("it has asked", || waits_on_a_socket(caller.id()));
    caller.kill().unwrap();
    caller.wait().unwrap();
    let mut another = stranger(caller.id());
    processes::signal(city.pid(), Signal::SIGCONT);
    let refused = city.wait_event(1, "control.forbidden", "invisible");
    assert_eq!(refused["data"]["op"], "agent.stop", "{refused}");
    assert!(processes::runs(agent));
    another.kill().unwrap();
    another.wait().unwrap();
    city.stop();
}
