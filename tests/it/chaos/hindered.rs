//! A supervisor in conditions that would stop it: inherited signals, a log that takes nothing, odd files, limits of the
//! kernel, silent connections.

use std::fs::{self, File};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;
use serde_json::json;

use super::{agent, count, crowd, kill, named, plan, runs_as};
use crate::support::git::write;
use crate::support::live::{City, until};
use crate::support::namespace::apart;
use crate::support::plan::Plan;
use crate::support::processes;

on_tmux_too!(
    daily: ;
    long: signals_that_were_ignored_or_blocked_at_the_start_are_heard,
    log_that_takes_nothing_holds_up_nothing,
    supervisor_whose_log_takes_nothing_is_stopped_by_a_signal_and_by_a_command,
    idle_connections_do_not_block_other_clients,
    values_of_a_hundred_kilobytes_reach_the_agent,
    with_few_descriptors_a_stop_ends_everybody_or_names_those_that_are_left,
    limit_of_the_size_of_files_ends_nothing,
    without_inotify_changes_are_found_by_patrols_and_it_is_said
);

/// Makes the command begin as if its parent had done this.
fn begins(command: &mut Command, act: impl Fn() -> nix::Result<()> + Send + Sync + 'static) {
    // SAFETY: the function makes system calls only.
    unsafe { command.pre_exec(move || Ok(act()?)) };
}

/// Case inherited-signals of an adversary: SIGCHLD was ignored by the parent.
#[test]
fn signals_that_were_ignored_or_blocked_at_the_start_are_heard() {
    let script = "grep -e SigBlk -e SigIgn /proc/self/status >signals.part; mv signals.part signals; exec sleep 100000";
    let mut city = City::made(&plan().add(&agent("a0", script)));
    let mut supervisor = city.supervisor();
    begins(&mut supervisor, || {
        for ignored in [
            Signal::SIGCHLD,
            Signal::SIGXFSZ,
            Signal::SIGPIPE,
            Signal::SIGHUP,
            Signal::SIGTERM,
            Signal::SIGINT,
        ] {
            // SAFETY: ignoring installs no handler.
            unsafe { signal(ignored, SigHandler::SigIgn)? };
        }
        let mut blocked = SigSet::all();
        blocked.remove(Signal::SIGKILL);
        blocked.thread_block()
    });
    city.start_as(supervisor);
    let first = runs_as(&city, "a0", 1);
    let signals = city.root().join("signals");
    until("its signals are told", || signals.exists());
    let told = fs::read_to_string(&signals).unwrap();
    assert!(!told.is_empty());
    for line in told.lines() {
        assert!(line.ends_with("0000000000000000"), "{told}");
    }
    kill(first);
    runs_as(&city, "a0", 2);
    processes::signal(city.pid(), Signal::SIGTERM);
    assert_eq!(city.ended().code(), Some(0));
}

/// Makes a pipe that takes nothing more.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let full = (0_u32..)
        .find_map(|_| (&writer).write(&[b'x'; 4096]).err())
        .unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

/// The log is not read, and then cannot be read: everything goes on. That dropped lines are counted is
/// tested beside the sink (`src/telemetry/sink.rs`).
/// Case stderr-blocked of an adversary: a standard error without a reader.
#[test]
fn log_that_takes_nothing_holds_up_nothing() {
    let mut city = City::made(&crowd(2));
    let (mut reader, writer) = full_pipe();
    let mut supervisor = city.supervisor();
    supervisor.stderr(writer);
    city.start_as(supervisor);
    for generation in 1..=3 {
        kill(runs_as(&city, "a0", generation));
        city.ask("status", json!({})).unwrap();
    }
    let mut room = vec![0; 64 * 1024];
    reader.read_exact(&mut room).unwrap();
    let mut read = String::new();
    until("it is written when there is room", || {
        let mut part = [0; 4096];
        let length = reader.read(&mut part).unwrap();
        read.push_str(&String::from_utf8_lossy(&part[..length]));
        read.contains("controller.ready")
    });
    drop(reader);
    kill(runs_as(&city, "a0", 4));
    runs_as(&city, "a0", 5);
    city.stop();
}

/// Nothing reads the log until the end, or there is none.
/// Case stderr-blocked of an adversary: two signals had no effect until standard error was read.
#[test]
#[ignore = "long tier: chaos"]
fn supervisor_whose_log_takes_nothing_is_stopped_by_a_signal_and_by_a_command() {
    for by_signal in [true, false] {
        let mut city = City::made(&crowd(2));
        let (_reader, writer) = full_pipe();
        let mut supervisor = city.supervisor();
        supervisor.stderr(writer);
        city.start_as(supervisor);
        let agents = ["a0", "a1"].map(|agent| runs_as(&city, agent, 1));
        match by_signal {
            true => processes::signal(city.pid(), Signal::SIGTERM),
            false => assert_eq!(city.hd(&["stop"]).code, 0),
        }
        assert_eq!(city.ended().code(), Some(0));
        for agent in agents {
            assert!(!processes::runs(agent));
        }
    }
}

#[test]
fn supervisor_without_a_standard_error_works_and_ends() {
    let mut city = City::made(&crowd(1));
    let mut supervisor = city.supervisor();
    begins(&mut supervisor, || nix::unistd::close(2));
    city.start_as(supervisor);
    kill(runs_as(&city, "a0", 1));
    runs_as(&city, "a0", 2);
    city.stop();
}

#[test]
fn log_is_opened_again_after_it_was_rotated() {
    let city = crowd(1).start();
    let (log, rotated) = (
        city.root().join("supervisor.log"),
        city.root().join("log.1"),
    );
    fs::rename(&log, &rotated).unwrap();
    processes::signal(city.pid(), Signal::SIGUSR1);
    let says =
        |path: &Path, words: &str| fs::read_to_string(path).unwrap_or_default().contains(words);
    until("it is opened again", || {
        says(&log, "log file reopened after SIGUSR1")
    });
    kill(runs_as(&city, "a0", 1));
    runs_as(&city, "a0", 2);
    until("what follows is there", || says(&log, "agent.crashed"));
    assert!(!says(&rotated, "agent.crashed"));
}

/// Objects in the place of a file that is read; none can be read to its end.
const ODD: [&str; 4] = ["FIFO", "device", "directory", "longer"];

fn make_odd(what: &str, path: &Path) {
    match what {
        "FIFO" => mkfifo(path, Mode::S_IRWXU).unwrap(),
        "device" => symlink("/dev/zero", path).unwrap(),
        "directory" => fs::create_dir(path).unwrap(),
        _ => File::create(path).unwrap().set_len(100 << 20).unwrap(),
    }
}

fn remove_odd(path: &Path) {
    fs::remove_file(path)
        .or_else(|_| fs::remove_dir(path))
        .unwrap();
}

/// The configuration itself: the supervisor goes on as before, and no other one starts.
/// Case odd-include of an adversary: a pipe, device or directory as configuration.
#[test]
fn odd_thing_as_city_toml_is_said_and_changes_nothing() {
    let mut city = crowd(1).start();
    let agent = runs_as(&city, "a0", 1);
    let path = city.root().join("city.toml");
    let toml = fs::read_to_string(&path).unwrap();
    for what in ODD {
        fs::remove_file(&path).unwrap();
        make_odd(what, &path);
        let reload = city.hd_text(&["reload"]);
        assert_eq!(reload.code, 2, "{what}: {reload:?}");
        let told = format!("{}{}", reload.out, reload.err);
        assert!(told.contains(what), "{reload:?}");
        assert_eq!(city.hd(&["status"]).code, 0, "{what}");
        let mut check = city.program("horde-supervisor");
        let check = check.arg("--check").arg(&path).output().unwrap();
        assert_eq!(check.status.code(), Some(2), "{check:?}");
        remove_odd(&path);
        write(city.root(), "city.toml", &toml);
    }
    assert_eq!(city.hd_text(&["reload"]).code, 0);
    assert_eq!(runs_as(&city, "a0", 1), agent);
    city.stop();
    for what in ODD {
        fs::remove_file(&path).unwrap();
        make_odd(what, &path);
        let start = city.program("horde-supervisor").arg(city.root()).output();
        let start = start.unwrap();
        let told = String::from_utf8_lossy(&start.stderr).into_owned();
        assert_eq!(start.status.code(), Some(2), "{what}: {told}");
        assert!(told.contains(what), "{told}");
        remove_odd(&path);
        write(city.root(), "city.toml", &toml);
    }
}

/// A FIFO, a device without end, a directory, 100 MB: each in the place of a file that is read.
/// Case odd-prompt of an adversary: a pipe as `prompt_file`.
#[test]
fn odd_files_are_said_and_hold_up_nothing() {
    let city = crowd(1).start();
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let odd = city.root().join("odd");
    let reader = "[[agents]]\nname = \"reader\"\nharness = \"script\"\nprompt_file = \"odd\"\n";
    let included = format!("include = [\"odd\"]\n{toml}");
    for what in ODD {
        make_odd(what, &odd);
        for edit in [&included, &format!("{toml}{reader}")] {
            write(city.root(), "city.toml", edit);
            let reload = city.hd_text(&["reload"]);
            assert_eq!(reload.code, 2, "{what}: {reload:?}");
            assert!(
                reload.err.contains(what) || reload.out.contains(what),
                "{reload:?}"
            );
            assert_eq!(city.hd(&["status"]).code, 0);
        }
        remove_odd(&odd);
    }
    write(city.root(), "odd", "# nothing\n");
    write(city.root(), "city.toml", &included);
    assert_eq!(city.hd_text(&["reload"]).code, 0);
    let mut check = city.program("horde-supervisor");
    mkfifo(&city.root().join("other.toml"), Mode::S_IRWXU).unwrap();
    let check = check
        .arg("--check")
        .arg(city.root().join("other.toml"))
        .output()
        .unwrap();
    assert_eq!(check.status.code(), Some(2), "{check:?}");
}

/// A FIFO or a device makes the charge fail. A directory is copied file by file, without the FIFO in it.
#[test]
fn irregular_file_to_copy_refuses_its_charge_and_delays_no_other() {
    let city = Plan::new().set("raiders", "copy", r#"["odd"]"#).start();
    let odd = city.root().join("horde-checkout/odd");
    let relic = city.relic("copy", &["sign ready", "forever"]);
    let refused = |what: &str| {
        let refused = city.hd(&["charge", &relic, "horde"]);
        assert_ne!(refused.code, 0, "{what}");
        assert!(refused.err.contains(what), "{refused:?}");
    };
    mkfifo(&odd, Mode::S_IRWXU).unwrap();
    refused("FIFO");
    fs::remove_file(&odd).unwrap();
    match mknod(&odd, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)) {
        Ok(()) => {
            refused("device");
            fs::remove_file(&odd).unwrap();
        }
        Err(error) => eprintln!("skipped: no device can be made here: {error}"),
    }
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("file"), "text").unwrap();
    mkfifo(&odd.join("pipe"), Mode::S_IRWXU).unwrap();
    city.charge(&relic);
    city.wait_sign("ready");
    let copied = city.sandbox("Toast").join("odd");
    assert_eq!(fs::read(copied.join("file")).unwrap(), b"text");
    assert!(!copied.join("pipe").exists());
}

/// A link is copied as a link, and a large file whole.
#[test]
fn link_to_an_endless_device_and_a_large_file_to_copy_hold_up_nothing() {
    let copy = r#"["endless", "large"]"#;
    let city = Plan::new().set("raiders", "copy", copy).start();
    let checkout = city.root().join("horde-checkout");
    make_odd("device", &checkout.join("endless"));
    make_odd("longer", &checkout.join("large"));
    let relic = city.relic("copy", &["sign ready", "forever"]);
    city.charge(&relic);
    city.wait_sign("ready");
    let sandbox = city.sandbox("Toast");
    let link = fs::read_link(sandbox.join("endless")).unwrap();
    assert_eq!(link, Path::new("/dev/zero"));
    let copied = fs::metadata(sandbox.join("large")).unwrap();
    assert_eq!(copied.len(), 100 << 20);
    assert_eq!(city.hd(&["status"]).code, 0);
}

/// Silent connections never shut out a person.
/// Case idle-connections of an adversary: 64 idle connections shut a person out.
#[test]
fn idle_connections_do_not_block_other_clients() {
    let city = crowd(1).start();
    let socket = city.root().join(".horde/control.sock");
    let idle: Vec<_> = (0..200)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    assert_eq!(city.hd(&["ping"]).code, 0);
    assert_eq!(city.hd(&["status"]).code, 0);
    drop(idle);
}

#[test]
fn values_of_a_hundred_kilobytes_reach_the_agent() {
    let script = "[ ${#LARGE} = 100000 ] && exec sleep 100000";
    let large = "x".repeat(100_000);
    let more = format!("env = {{ LARGE = \"{large}\" }}\n");
    let mut city = City::made(&plan().add(&format!("{}{more}", agent("a0", script))));
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let passes = "[harness.script]\nenv_pass = [\"PASSED\"]\n";
    let toml = toml.replace("[harness.script]\n", passes);
    write(city.root(), "city.toml", &toml);
    let mut supervisor = city.supervisor();
    supervisor.env("PASSED", &large);
    city.start_as(supervisor);
    until("it got them whole", || named(&city, "sleep").len() == 1);
    let steps = ["[ ${#PASSED} = 100000 ] && sign passed", "forever"];
    city.work("large", &steps);
    city.wait_sign("passed");
}

/// A limit of 64 descriptors, and 60 agents: the daemon answers, and the stop reports the truth.
/// Case few-descriptors of an adversary: a limit of 64 descriptors.
#[test]
#[ignore = "long tier: chaos"]
fn with_few_descriptors_a_stop_ends_everybody_or_names_those_that_are_left() {
    let plan = crowd(60).set("daemon", "patrol_interval", r#""1s""#);
    let mut city = City::made(&plan);
    let mut supervisor = city.supervisor();
    begins(&mut supervisor, || {
        setrlimit(Resource::RLIMIT_NOFILE, 64, 64)
    });
    city.start_as(supervisor);
    until("some of them run, and no more can", || {
        let log = fs::read_to_string(city.root().join("supervisor.log")).unwrap_or_default();
        named(&city, "sleep").len() >= 5 && log.contains("few file descriptors are left")
    });
    assert_eq!(city.hd(&["ping"]).code, 0);
    let stopped = city.hd_text(&["stop"]);
    let left = named(&city, "sleep");
    assert!(left.is_empty(), "{} are left: {stopped:?}", left.len());
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert_eq!(city.ended().code(), Some(0));
}

/// `ulimit -f`: a write above the limit is refused, and ends nothing.
#[test]
fn limit_of_the_size_of_files_ends_nothing() {
    let mut city = City::made(&crowd(1).set("daemon", "patrol_interval", r#""1s""#));
    let mut supervisor = city.supervisor();
    begins(&mut supervisor, || {
        setrlimit(Resource::RLIMIT_FSIZE, 2 << 20, 2 << 20)
    });
    city.start_as(supervisor);
    let first = runs_as(&city, "a0", 1);
    let large = json!({ "title": "large", "body": "x".repeat(900 * 1024) });
    let refused = (0..8).find_map(|_| city.ask("relic.create", large.clone()).err());
    assert_eq!(refused.unwrap().kind.exit().code(), 3);
    kill(first);
    until(
        "it is replaced",
        || matches!(named(&city, "sleep")[..], [pid] if pid != first),
    );
    city.ask("ping", json!({})).unwrap();
    city.hd(&["stop"]);
    assert!(city.ended().success());
    assert!(named(&city, "sleep").is_empty());
}

/// No inotify watch is left: that is reported, and patrols look instead.
#[test]
fn without_inotify_changes_are_found_by_patrols_and_it_is_said() {
    if !apart(without_inotify_changes_are_found_by_patrols_and_it_is_said) {
        return;
    }
    fs::write("/proc/sys/user/max_inotify_instances", "0").unwrap();
    let city = crowd(1).set("daemon", "patrol_interval", r#""1s""#).start();
    runs_as(&city, "a0", 1);
    until("doctor says it", || {
        city.hd(&["doctor"]).out.contains("inotify")
    });
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    write(
        city.root(),
        "city.toml",
        &(toml + &agent("a1", "exec sleep 100000")),
    );
    runs_as(&city, "a1", 1);
    assert_eq!(count(&city, "ground.lost"), 1);
}
