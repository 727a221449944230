//! Floods, garbage, deep directories: the session survives.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use horde_supervisor::adapters::proc;
use horde_supervisor::adapters::sessions::LocalSessions;
use horde_supervisor::domain::facts::RunState;
use horde_supervisor::ports::sessions::{Input, Membership, SessionEvent, Sessions, Stopped};
use horde_supervisor::testing::conformance::sessions::{await_screen, hear, id};
use horde_supervisor::testing::poll::pass;
use horde_supervisor::testing::{PATIENCE, eventually};

use super::{LocalBench, Provider, await_file, script, state};

on_both!(
    the_daemon_dies_and_the_next_one_hears_of_the_end,
    a_flood_is_bounded_on_disk_and_does_not_stop,
    garbage_on_the_socket_has_no_effect,
    holder_of_an_unknown_version_is_left_alone,
    an_unknown_request_is_refused_and_the_connection_lives_on,
    a_deep_directory_is_no_problem,
    membership_is_ancestry_not_a_claim,
    files_are_for_their_owner_alone_and_hold_no_secrets,
    garbage_beside_the_sessions_is_passed_over,
    many_start_at_once,
    an_idle_holder_sleeps
);

fn the_daemon_dies_and_the_next_one_hears_of_the_end(bench: &LocalBench) {
    let first = bench.provider();
    let spec = script(bench, "read -r line; exit 6");
    let started = first.start(&spec).unwrap();
    drop(first);
    let second = bench.provider();
    let events = hear(&second);
    assert_eq!(second.adopt(&id("s")).unwrap(), started);
    let input = Input::Submit("go".to_owned());
    second.send(&started.handle, &input).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, SessionEvent::Exited(handle, exit)
        if handle == started.handle && exit.code == Some(6)));
}

fn a_flood_is_bounded_on_disk_and_does_not_stop(bench: &LocalBench) {
    let sessions = bench.provider();
    let events = hear(&sessions);
    let mut spec = script(bench, "seq 1 300000; printf '\\377\\200 no newline'");
    spec.output_limit = 64 * 1024;
    sessions.start(&spec).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, SessionEvent::Exited(_, exit) if exit.code == Some(0)));
    let dir = bench.state_dir().join("s");
    let size = |name| fs::metadata(dir.join(name)).unwrap().len();
    assert!(size("log.0") + size("log.1") <= 64 * 1024);
    let log = sessions.logs(&id("s"), u64::MAX).unwrap();
    assert!(log.len() > 30 * 1024);
    assert!(log.ends_with(b"300000\r\n\xff\x80 no newline"));
}

fn garbage_on_the_socket_has_no_effect(bench: &LocalBench) {
    let sessions = bench.provider();
    let spec = script(bench, "echo alive; sleep 1000");
    let started = sessions.start(&spec).unwrap();
    let path = bench.state_dir().join("s/sock");
    let mut held_open = Vec::new();
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"HDHOLD\0\0",
        b"HDHOLD\0\x03\xff\xff\xff\xff",
        b"HDHOLD\0\x03\0\0\0\0",
        b"HDHOLD\0\x03\0\0\0\x02\x02\x00",
        b"HDHOLD\x7f\xff\0\0\0\x01\xee",
        b"",
    ] {
        for _ in 0..30 {
            let mut stream = UnixStream::connect(&path).unwrap();
            // The connection may be dropped during the write.
            let _dropped = stream.write_all(garbage);
            held_open.push(stream);
        }
    }
    // The rest can only be held open by a peer that speaks the protocol.
    held_open.truncate(60);
    await_screen(&sessions, &started.handle, "alive");
    assert_eq!(state(&sessions, &id("s")), RunState::Running);
}

fn an_unknown_request_is_refused_and_the_connection_lives_on(bench: &LocalBench) {
    let sessions = bench.provider();
    sessions.start(&script(bench, "sleep 1000")).unwrap();
    let mut stream = UnixStream::connect(bench.state_dir().join("s/sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let from_the_future = b"HDHOLD\x00\x63\0\0\0\x01\x70\0\0\0\x05\x04\0\x1e\0\x5a";
    stream.write_all(from_the_future).unwrap();
    let mut answer = [0; 8 + 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[..8], b"HDHOLD\x00\x03", "it speaks version 3");
    assert_eq!(answer[12], 0x82, "refused");
    let length = u32::from_be_bytes(answer[8..12].try_into().unwrap()) as usize;
    let mut rest = vec![0; length - 1 + 5];
    stream.read_exact(&mut rest).unwrap();
    assert_eq!(rest[length - 1..], [0, 0, 0, 1, 0x81], "resized");
}

/// A holder of an unknown version lives, and so does its session; only a stop on request ends it, in the way that every
/// version understands.
fn holder_of_an_unknown_version_is_left_alone(bench: &LocalBench) {
    let first = bench.provider();
    let spec = script(
        bench,
        "trap 'exit 7' INT TERM HUP; echo ready; while :; do sleep 0.1; done",
    );
    let started = first.start(&spec).unwrap();
    await_screen(&first, &started.handle, "ready");
    drop(first);
    let path = bench.state_dir().join("s/sock");
    fs::remove_file(&path).unwrap();
    let socket = UnixListener::bind(&path).unwrap();
    // A connection closed before it was read would be reset, and its data lost.
    let foreign = std::thread::spawn(move || {
        let greet = |stream: std::io::Result<UnixStream>| {
            let mut stream = stream.unwrap();
            // Version 0 is older than every supported version.
            stream.write_all(b"HDHOLD\0\0").unwrap();
            stream
        };
        socket.incoming().take(2).map(greet).collect::<Vec<_>>()
    });
    let sessions = bench.provider();
    assert_eq!(sessions.adopt(&id("s")).unwrap(), started);
    assert_eq!(state(&sessions, &id("s")), RunState::Running);
    let peeked = sessions.peek(&started.handle).unwrap_err().to_string();
    assert!(peeked.contains("version 0 is not understood"), "{peeked}");
    assert!(proc::lives(&started.agent).unwrap());
    let stopped = sessions.stop(&started.handle, Duration::from_secs(20));
    assert_eq!(stopped.unwrap(), Stopped::Gracefully);
    assert!(matches!(state(&sessions, &id("s")), RunState::Exited(exit) if exit.code == Some(7)));
    drop(foreign.join().unwrap());
}

fn a_deep_directory_is_no_problem(bench: &LocalBench) {
    let deep: PathBuf = (0..12).map(|_| "a-rather-long-directory-name").collect();
    let exe = PathBuf::from(env!("CARGO_BIN_EXE_horde-session"));
    let root = bench.path().join(deep);
    assert!(root.as_os_str().len() > 300);
    let sessions = LocalSessions::new(root, exe, "").unwrap();
    let spec = script(bench, "echo deep; sleep 1000");
    let started = sessions.start(&spec).unwrap();
    await_screen(&sessions, &started.handle, "deep");
    sessions.stop(&started.handle, Duration::ZERO).unwrap();
}

fn membership_is_ancestry_not_a_claim(bench: &LocalBench) {
    let sessions = bench.provider();
    let orphan = "sh -c 'setsid sh -c \"echo \\$\\$ > pid; sleep 1000\" & exit'; sleep 1000";
    let started = sessions.start(&script(bench, orphan)).unwrap();
    let pid = await_file(&bench.path().join("pid"));
    let pid = pid.trim().parse().unwrap();
    assert_eq!(
        sessions.membership(pid).session(),
        Some(id("s")),
        "a detached orphan"
    );
    assert_eq!(
        sessions.membership(started.agent.pid).session(),
        Some(id("s"))
    );
    let mut liar = std::process::Command::new("sleep")
        .arg("1000")
        .env("HD_SESSION_TOKEN", &started.handle.token)
        .env("HD_SESSION", "s")
        .spawn()
        .unwrap();
    eventually("the liar's claim", || {
        proc::environment_text(liar.id(), "HD_SESSION")
    });
    let believed = sessions.membership(liar.id());
    liar.kill().unwrap();
    liar.wait().unwrap();
    assert_eq!(believed, Membership::Unknown, "a claim is no membership");
}

fn files_are_for_their_owner_alone_and_hold_no_secrets(bench: &LocalBench) {
    let sessions = bench.provider();
    let mut spec = script(bench, "sleep 1000");
    spec.env.insert("API_KEY".to_owned(), "s3cret".to_owned());
    sessions.start(&spec).unwrap();
    let dir = bench.state_dir().join("s");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
        let bytes = fs::read(&path).unwrap_or_default();
        let found = bytes.windows(6).any(|window| window == b"s3cret");
        assert!(!found, "{} holds a secret", path.display());
    }
}

fn garbage_beside_the_sessions_is_passed_over(bench: &LocalBench) {
    let sessions = bench.provider();
    let root = bench.state_dir();
    fs::write(root.join("file"), "x").unwrap();
    for name in ["not a name", "empty", "torn"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    fs::write(root.join("torn/state.json"), "{\"id\":").unwrap();
    let list = sessions.list().unwrap();
    let [torn] = list.as_slice() else {
        panic!("not one session: {list:?}");
    };
    assert!(matches!(&torn.state, RunState::Unknown { why } if why.contains("state.json")));
    // The holder does not keep the name from being used.
    let mut spec = script(bench, "sleep 1000");
    spec.id = id("torn");
    let started = sessions.start(&spec).unwrap();
    sessions.stop(&started.handle, Duration::ZERO).unwrap();
}

fn many_start_at_once(bench: &LocalBench) {
    let sessions = bench.provider();
    std::thread::scope(|scope| {
        for n in 0..40 {
            let (sessions, bench) = (&sessions, &bench);
            scope.spawn(move || {
                let mut spec = script(bench, "sleep 1000");
                spec.id = id(&format!("s{n}"));
                let started = sessions.start(&spec).unwrap();
                sessions.stop(&started.handle, Duration::ZERO).unwrap();
            });
        }
    });
    assert_eq!(sessions.list().unwrap().len(), 40);
}

fn an_idle_holder_sleeps(bench: &LocalBench) {
    let sessions = bench.provider();
    let spec = script(bench, "echo ready; exec sleep 1000");
    let started = sessions.start(&spec).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    let holder = started.holder.unwrap().pid;
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{holder}/status")).unwrap();
        let mut lines = status.lines();
        let line = lines.find(|line| line.starts_with("voluntary_ctxt"));
        line.unwrap().to_owned()
    };
    // A window without a single wake-up; a holder that polls never has one.
    eventually("a holder that sleeps", || {
        let before = switches();
        pass(Duration::from_millis(300));
        (switches() == before).then_some(())
    });
}
