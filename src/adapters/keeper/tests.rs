//! Tests of keepers, on real processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::event::{EventfdFlags, eventfd};

use crate::adapters::commands::process::{self, Cut, End, Script};
use crate::adapters::proc;
use crate::adapters::runs::Run;
use crate::domain::city::Rights;
use crate::testing::{eventually, first_thread};

const LONG: Duration = Duration::from_secs(300);

/// A line that leaves a process without its parent, session, group and environment, which ignores polite signals, and
/// waits until that has written its pid.
const STRAY: &str = "(setsid env -i /bin/sh -c 'sh -c \"trap \\\"\\\" TERM HUP; echo \\$\\$ >new; mv new pid; \
    while :; do sleep 1; done\" &' &); until [ -e pid ]; do sleep 0.01; done";

/// Runs the line, and returns its end and its output before the run itself is ended.
fn run_in(dir: &Path, line: &str, limit: Duration, stop: Option<&OwnedFd>) -> (End, String) {
    let runs = crate::testing::scratch();
    let own = Run::begin(runs.path(), Rights::Read).unwrap();
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let script = Script {
        line,
        dir,
        env: &env,
        stdin: Stdio::null(),
        limit,
        stop,
    };
    let mut told = Vec::new();
    let end = process::run(script, &own, &mut |bytes| told.extend_from_slice(bytes));
    // The run is not ended by its token: what the keeper leaves is seen.
    (end.unwrap(), String::from_utf8(told).unwrap())
}

fn stray(dir: &Path) -> Option<u32> {
    fs::read_to_string(dir.join("pid"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

fn assert_ended(dir: &Path) {
    let pid = stray(dir).unwrap();
    let stat = proc::stat(pid).unwrap();
    assert!(stat.is_none_or(|stat| !stat.lives()), "{pid} is left");
}

#[test]
fn keeper_reports_how_the_command_ended() {
    let dir = crate::testing::scratch();
    let run = |line: &str| run_in(dir.path(), line, LONG, None);
    for (line, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 255", Some(255), None),
        ("no-such-command 2>/dev/null", Some(127), None),
        ("kill -9 $$", None, Some(9)),
        ("kill -SEGV $$", None, Some(11)),
        // The signal that tells the keeper itself to end.
        ("kill -TERM $$", None, Some(15)),
    ] {
        let (end, _) = run(line);
        let End::Ended {
            code: c,
            signal: s,
            cut: None,
        } = end
        else {
            panic!("{line}: {end:?}");
        };
        assert_eq!((c, s), (code, signal), "{line}");
    }
    let (end, _) = run_in(&dir.path().join("none"), "true", LONG, None);
    let End::NotStarted(why) = end else {
        panic!("{end:?}");
    };
    assert!(why.contains("No such file"), "{why}");
}

#[test]
fn both_outputs_of_the_command_are_kept_in_order_and_apart_from_the_report() {
    let dir = crate::testing::scratch();
    let line = "echo one; echo '{\"code\":0}' >&2; exit 4";
    let (end, told) = run_in(dir.path(), line, LONG, None);
    assert!(matches!(end, End::Ended { code: Some(4), .. }), "{end:?}");
    assert_eq!(told, "one\n{\"code\":0}\n");
}

/// The keeper blocks signals, and the command must not begin with that.
#[test]
fn command_begins_with_plain_signals_in_a_session_of_its_own() {
    let dir = crate::testing::scratch();
    // The shell itself blocks signals for moments.
    let line = "grep -E '^Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f6 /proc/$$/stat; echo $$";
    let (_, told) = run_in(dir.path(), line, LONG, None);
    let words: Vec<&str> = told.split_ascii_whitespace().collect();
    let none = "0000000000000000";
    assert_eq!(words[..4], ["SigBlk:", none, "SigIgn:", none]);
    assert_eq!(words[4], words[5], "it leads its session");
}

#[test]
fn nothing_is_left_after_the_end_of_the_command() {
    let dir = crate::testing::scratch();
    let (end, _) = run_in(dir.path(), &format!("{STRAY}; exit 3"), LONG, None);
    assert!(matches!(end, End::Ended { code: Some(3), .. }), "{end:?}");
    assert_ended(dir.path());
}

/// The kernel shows such a process as a zombie.
#[test]
fn process_whose_first_thread_has_ended_is_not_left() {
    let dir = crate::testing::scratch();
    let line = first_thread::line();
    let line = format!("(setsid {line} &); until [ -e pid ]; do sleep 0.01; done; exit 3");
    let (end, _) = run_in(dir.path(), &line, LONG, None);
    assert!(matches!(end, End::Ended { code: Some(3), .. }), "{end:?}");
    assert_ended(dir.path());
}

#[test]
fn nothing_is_left_after_a_stop() {
    let dir = crate::testing::scratch();
    let stop = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let line = format!("trap '' TERM; {STRAY}; sleep 300; :");
    let (end, _) = std::thread::scope(|scope| {
        let run = scope.spawn(|| run_in(dir.path(), &line, LONG, Some(&stop)));
        eventually("the stray", || stray(dir.path()));
        rustix::io::write(&stop, &1_u64.to_ne_bytes()).unwrap();
        run.join().unwrap()
    });
    let stopped = matches!(
        end,
        End::Ended {
            signal: Some(9),
            cut: Some(Cut::Stopped),
            ..
        }
    );
    assert!(stopped, "{end:?}");
    assert_ended(dir.path());
}

#[test]
fn nothing_is_left_after_the_time_limit() {
    let dir = crate::testing::scratch();
    let line = format!("{STRAY}; sleep 300");
    // On a loaded machine a short time is not enough for the stray.
    for limit in [1, 8, 60] {
        let (end, _) = run_in(dir.path(), &line, Duration::from_secs(limit), None);
        let late = matches!(
            end,
            End::Ended {
                signal: Some(15),
                cut: Some(Cut::TimedOut),
                ..
            }
        );
        assert!(late, "{end:?}");
        if stray(dir.path()).is_some() {
            break;
        }
    }
    assert_ended(dir.path());
}

/// Runs a shell with this line below an anchor.
fn anchored(dir: &Path, line: &str) -> std::process::Output {
    let mut anchor = super::anchored(Path::new("/bin/sh"));
    anchor.args(["-c", line]).current_dir(dir).process_group(0);
    anchor.output().unwrap()
}

#[test]
fn anchored_program_ends_for_its_starter_as_it_ended() {
    let dir = crate::testing::scratch();
    let run = |line: &str| anchored(dir.path(), line);
    for (line, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 128", Some(128), None),
        ("kill -9 $$", None, Some(9)),
        ("kill -PIPE $$", None, Some(13)),
        ("kill -TERM $$", None, Some(15)),
        ("kill -40 $$", None, Some(40)),
        // Its anchor: the program must not go on without one.
        ("kill -9 $PPID; sleep 300", None, Some(9)),
    ] {
        let status = run(line).status;
        assert_eq!((status.code(), status.signal()), (code, signal), "{line}");
    }
    let output = run("echo out; echo err >&2; pwd; grep -E '^Sig(Blk|Ign)' /proc/self/status");
    assert_eq!(output.stderr, b"err\n");
    let told = String::from_utf8(output.stdout).unwrap();
    let none = "0000000000000000";
    let plain = format!("SigBlk:\t{none}\nSigIgn:\t{none}\n");
    assert_eq!(told, format!("out\n{}\n{plain}", dir.path().display()));
    let mut none = super::anchored(&dir.path().join("none"));
    let output = none.process_group(0).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("No such file"), "{why}");
}

/// A supervisor that stops sends TERM to everything below it, and takes back what a landing has begun when git has ended.
#[test]
fn front_ends_after_its_program_and_takes_it_along() {
    let dir = crate::testing::scratch();
    let begin = || {
        let mut front = super::anchored(Path::new("/bin/sh"));
        front.args(["-c", "echo $$ >new; mv new pid; exec sleep 300"]);
        let front = front.current_dir(dir.path()).process_group(0).spawn();
        let program = eventually("the program", || stray(dir.path()));
        fs::remove_file(dir.path().join("pid")).unwrap();
        (
            front.unwrap(),
            program,
            anchor_of(program).expect("an anchor"),
        )
    };
    let send = |pid: u32, signal| {
        nix::sys::signal::kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
    };
    let lives = |pid| proc::stat(pid).unwrap().is_some_and(|stat| stat.lives());
    let (mut front, program, anchor) = begin();
    send(front.id(), Signal::SIGTERM);
    // SAFETY: it sends a signal to a child that is not reaped.
    unsafe { libc::kill(front.id().cast_signed(), libc::SIGRTMIN()) };
    send(program, Signal::SIGINT);
    let status = front.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGINT as i32));
    assert!(!lives(anchor), "nothing is left behind");
    let (mut front, program, anchor) = begin();
    send(front.id(), Signal::SIGKILL);
    front.wait().unwrap();
    for pid in [program, anchor] {
        eventually("its end", || (!lives(pid)).then_some(()));
    }
}

/// The timeout of a command kills the group that it leads.
#[test]
fn anchored_program_ends_with_the_group_of_its_starter_and_leaves_its_anchor() {
    let dir = crate::testing::scratch();
    let mut front = super::anchored(Path::new("/bin/sh"));
    let line = format!("echo $$ >program; {STRAY}; exec sleep 300");
    front.args(["-c", &line]).current_dir(dir.path());
    let mut front = front.process_group(0).spawn().unwrap();
    let left = eventually("the stray", || stray(dir.path()));
    killpg(Pid::from_raw(front.id().cast_signed()), Signal::SIGKILL).unwrap();
    front.wait().unwrap();
    let program = fs::read_to_string(dir.path().join("program")).unwrap();
    let program: u32 = program.trim().parse().unwrap();
    let lives = |pid| proc::stat(pid).unwrap().is_some_and(|stat| stat.lives());
    let ended = |pid| eventually("its end", || (!lives(pid)).then_some(()));
    ended(program);
    let anchor = eventually("its adoption", || anchor_of(left));
    nix::sys::signal::kill(Pid::from_raw(left.cast_signed()), Signal::SIGKILL).unwrap();
    ended(anchor);
}

/// Returns the parent of the process if it is an anchor.
fn anchor_of(pid: u32) -> Option<u32> {
    let parent = proc::stat(pid).unwrap()?.parent;
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
    (name.trim() == "horde-anchor").then_some(parent)
}
