//! Tests that need tmux: its server, its clients, and moving in and out of it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use horde_supervisor::adapters::proc::{self, Pidfd};
use horde_supervisor::domain::facts::{ProcessId, RunState};
use horde_supervisor::ports::sessions::{AttachPoint, Input, SessionEvent, Sessions, Stopped};
use horde_supervisor::testing::conformance::sessions::{await_screen, hear, id};
use horde_supervisor::testing::{PATIENCE, eventually};
use rustix::process::Signal;

use super::{LocalBench, Provider, await_lost, kill, marked, script, state};

fn server(bench: &LocalBench) -> ProcessId {
    let said = bench.tmux(&["display-message", "-p", "#{pid}"]).stdout;
    let pid = String::from_utf8(said).unwrap().trim().parse().unwrap();
    proc::identify(pid).unwrap()
}

/// Returns whether tmux knows a session of exactly this name.
fn in_tmux(bench: &LocalBench, name: &str) -> bool {
    let target = format!("={name}");
    let known = bench.tmux(&["has-session", "-t", &target]);
    known.status.success()
}

#[test]
fn a_killed_server_loses_its_sessions_and_leaves_nothing_alive() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let events = hear(&sessions);
    let deaf = "trap '' HUP TERM; setsid sleep 1000 & echo ready; while :; do sleep 1000; done";
    let first = sessions.start(&script(&bench, deaf)).unwrap();
    await_screen(&sessions, &first.handle, "ready");
    kill(&server(&bench));
    // The processes live as long as the session is not lost: no second copy is possible.
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert_eq!(marked(&first), [], "lost, but not gone");
    let SessionEvent::Lost(handle, why) = event else {
        panic!("not lost: {event:?}");
    };
    assert_eq!(handle, first.handle);
    assert!(why.contains("terminal is gone"), "{why}");
    await_lost(&sessions);
    let second = sessions.start(&script(&bench, "echo again; sleep 1000"));
    await_screen(&sessions, &second.unwrap().handle, "again");
}

#[test]
fn a_pane_that_is_killed_by_a_person_is_lost_and_the_other_sessions_live_on() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let first = sessions.start(&script(&bench, "sleep 1000")).unwrap();
    let mut other = script(&bench, "sleep 1000");
    // A name with the other one as a prefix.
    other.id = id("s-2");
    let other = sessions.start(&other).unwrap();
    bench.tmux(&["kill-session", "-t", "=s"]);
    await_lost(&sessions);
    assert_eq!(marked(&first), []);
    assert_eq!(state(&sessions, &id("s-2")), RunState::Running);
    // A session whose name has that prefix is not meant.
    assert_eq!(sessions.forget(&id("s")), Ok(()));
    assert!(sessions.peek(&other.handle).is_ok(), "it runs");
}

#[test]
fn the_pane_of_a_killed_holder_shows_its_last_screen_until_the_session_is_forgotten() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let started = sessions
        .start(&script(&bench, "echo last words; sleep 1000"))
        .unwrap();
    await_screen(&sessions, &started.handle, "last words");
    kill(started.holder.as_ref().unwrap());
    await_lost(&sessions);
    // With history, because tmux scrolls the screen by a line that tells how the pane ended.
    let seen = bench.tmux(&["capture-pane", "-p", "-S", "-", "-t", "=s:"]);
    let seen = String::from_utf8(seen.stdout).unwrap();
    assert!(seen.contains("last words"), "{seen}");
    sessions.stop(&started.handle, PATIENCE).unwrap();
    assert_eq!(sessions.forget(&id("s")), Ok(()));
    assert!(!in_tmux(&bench, "s"));
}

/// A person may rename a session, and use it under its new name.
#[test]
fn a_renamed_session_is_attached_to_and_its_pane_is_removed_all_the_same() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let started = sessions.start(&script(&bench, "sleep 1000")).unwrap();
    let renamed = bench.tmux(&["rename-session", "-t", "=s", "mine"]);
    assert!(renamed.status.success());
    let AttachPoint::Tmux { server, pane, .. } = sessions.attach(&started.handle).unwrap() else {
        panic!("no pane");
    };
    let mut person = person(&server, &pane);
    let attached = || sessions.facts(&id("s")).unwrap().unwrap().attached;
    eventually("a person is attached", || attached().then_some(()));
    kill(started.holder.as_ref().unwrap());
    await_lost(&sessions);
    sessions.stop(&started.handle, PATIENCE).unwrap();
    assert!(!in_tmux(&bench, "mine"));
    drop(person.stdin.take());
    person.wait().unwrap();
}

/// Attaches a person's terminal, made by `script`.
fn person(server: &Path, pane: &str) -> Child {
    let server = server.to_str().unwrap();
    let line = shell_words::join(["tmux", "-S", server, "attach-session", "-t", pane]);
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &line, "/dev/null"]);
    script.env("TERM", "xterm").env_remove("TMUX");
    script.stdin(Stdio::piped()).stdout(Stdio::null());
    script.spawn().unwrap()
}

#[test]
fn person_that_attaches_to_the_pane_counts_as_attached() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let shell = "stty size; while read -r line; do echo got $line; stty size; done";
    let started = sessions.start(&script(&bench, shell)).unwrap();
    await_screen(&sessions, &started.handle, "50 200");
    let attached = || sessions.facts(&id("s")).unwrap().unwrap().attached;
    assert!(!attached());
    let AttachPoint::Tmux {
        server,
        pane,
        watch,
    } = sessions.attach(&started.handle).unwrap()
    else {
        panic!("no pane");
    };
    assert!(watch.exists());
    let mut person = person(&server, &pane);
    eventually("a person is attached", || attached().then_some(()));
    let mut keys = person.stdin.take().unwrap();
    keys.write_all(b"hello\r").unwrap();
    await_screen(&sessions, &started.handle, "got hello");
    // tmux's own way to detach.
    keys.write_all(b"\x02d").unwrap();
    eventually("no client is attached", || (!attached()).then_some(()));
    drop(keys);
    person.wait().unwrap();
    assert_eq!(state(&sessions, &id("s")), RunState::Running);
}

/// The keys are pressed in tmux: an attached client is the sign that a person pressed them. Keys sent by `hd` count as
/// a person's, too.
#[test]
fn an_interrupt_is_a_persons_while_one_is_attached() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let waits = "echo ready; sleep 1000";
    for (attached, sent) in [(false, false), (false, true), (true, false)] {
        let started = sessions.start(&script(&bench, waits)).unwrap();
        await_screen(&sessions, &started.handle, "ready");
        let AttachPoint::Tmux { server, pane, .. } = sessions.attach(&started.handle).unwrap()
        else {
            panic!("no pane");
        };
        let mut person = attached.then(|| person(&server, &pane));
        if let Some(person) = &mut person {
            let seen = || sessions.facts(&id("s")).unwrap().unwrap().attached;
            eventually("a person is attached", || seen().then_some(()));
            let keys = person.stdin.as_mut().unwrap();
            keys.write_all(b"\x03").unwrap();
        } else if sent {
            let interrupt = Input::Raw(b"\x03".to_vec());
            sessions.send(&started.handle, &interrupt).unwrap();
        } else {
            // As the terminal does: to its whole group.
            let group = i32::try_from(started.agent.pid).unwrap();
            let group = rustix::process::Pid::from_raw(group).unwrap();
            rustix::process::kill_process_group(group, Signal::INT).unwrap();
        }
        let exit = eventually("it ends", || match state(&sessions, &id("s")) {
            RunState::Exited(exit) => Some(exit),
            _ => None,
        });
        assert_eq!(exit.by_person, attached || sent, "{exit:?}");
        if let Some(mut person) = person {
            person.wait().unwrap();
        }
    }
}

/// Programs that exit in order when they are interrupted look like any that ends.
#[test]
#[ignore = "long tier: tmux"]
fn orderly_end_after_a_persons_input_is_by_that_person() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let takes = "trap 'exit 0' INT; echo ready; while read -r line; do [ \"$line\" = /exit ] && exit 0; done";
    for typed in ["\x03", "/exit\r"] {
        let started = sessions.start(&script(&bench, takes)).unwrap();
        await_screen(&sessions, &started.handle, "ready");
        let attach = sessions.attach(&started.handle).unwrap();
        let AttachPoint::Tmux { server, pane, .. } = attach else {
            panic!("no pane");
        };
        let mut person = person(&server, &pane);
        let keys = person.stdin.as_mut().unwrap();
        // tmux's times have seconds only: the time of a client's arrival is no pressed key.
        let times = ["list-clients", "-F", "#{client_created} #{client_activity}"];
        eventually("a key counts as one that was pressed", || {
            keys.write_all(b"x").unwrap();
            let said = String::from_utf8(bench.tmux(&times).stdout).unwrap();
            let mut times = said.split_whitespace();
            let (created, active) = (times.next()?, times.next()?);
            (created != active).then_some(())
        });
        let view = sessions.view(&started.handle).unwrap();
        assert!(view.touched.is_some(), "a person may have begun a line");
        assert_eq!(view.begun, None, "which key it was is not seen");
        keys.write_all(b"\r").unwrap();
        // A shell misses a signal just before it reads, so the person presses the keys again.
        let exit = eventually("it ends", || {
            let _terminal_is_gone = keys.write_all(typed.as_bytes());
            match state(&sessions, &id("s")) {
                RunState::Exited(exit) => Some(exit),
                _ => None,
            }
        });
        assert_eq!(
            (exit.code, exit.by_person),
            (Some(0), true),
            "{typed:?}: {exit:?}"
        );
        person.wait().unwrap();
    }
    let started = sessions
        .start(&script(&bench, "echo ready; exit 0"))
        .unwrap();
    let exit = eventually("it ends", || match state(&sessions, &started.handle.id) {
        RunState::Exited(exit) => Some(exit),
        _ => None,
    });
    assert!(!exit.by_person, "no client is attached");
}

#[test]
fn a_new_session_has_its_size_though_a_person_sits_at_a_small_terminal() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let first = sessions.start(&script(&bench, "sleep 1000")).unwrap();
    let AttachPoint::Tmux { server, pane, .. } = sessions.attach(&first.handle).unwrap() else {
        panic!("no pane");
    };
    let mut person = person(&server, &pane);
    let attached = || sessions.facts(&id("s")).unwrap().unwrap().attached;
    eventually("a person is attached", || attached().then_some(()));
    let mut second = script(&bench, "stty size; sleep 1000");
    second.id = id("second");
    let second = sessions.start(&second).unwrap();
    await_screen(&sessions, &second.handle, "50 200");
    sessions.stop(&first.handle, PATIENCE).unwrap();
    person.wait().unwrap();
}

#[test]
fn the_stop_key_does_not_stop_an_agent_for_ever() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let shell = "trap '' INT; while read -r line; do echo got $line; done";
    let started = sessions.start(&script(&bench, shell)).unwrap();
    sessions
        .send(&started.handle, &Input::Raw(b"\x1a".to_vec()))
        .unwrap();
    let text = Input::Submit("on".to_owned());
    sessions.send(&started.handle, &text).unwrap();
    await_screen(&sessions, &started.handle, "got on");
}

#[test]
fn awkward_texts_arrive_byte_for_byte() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let program = "stty raw -echo; echo ready; head -c $(cat want) > seen; echo done; sleep 1000";
    for text in [
        "echo hi;".to_owned(),
        "Enter C-c ; \\; #{pane_id} %H $HOME 'q' \"d\" -t".to_owned(),
        "-".to_owned(),
        format!("line\n\ttab\n{}", "ü€😀 ".repeat(3000)),
    ] {
        fs::write(bench.path().join("want"), (text.len() + 1).to_string()).unwrap();
        let started = sessions.start(&script(&bench, program)).unwrap();
        await_screen(&sessions, &started.handle, "ready");
        let input = Input::Submit(text.clone());
        sessions.send(&started.handle, &input).unwrap();
        await_screen(&sessions, &started.handle, "done");
        let seen = fs::read(bench.path().join("seen")).unwrap();
        assert_eq!(String::from_utf8(seen).unwrap(), format!("{text}\r"));
        sessions.stop(&started.handle, PATIENCE).unwrap();
    }
}

#[test]
fn a_session_moves_with_its_next_start_and_there_is_one_copy_at_all_times() {
    if !crate::support::tmux::is_there() {
        return;
    }
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let events = hear(&sessions);
    let spec = script(&bench, "echo here; exec sleep 1000");
    let mut last = sessions.start(&spec).unwrap();
    for (provider, there) in [(Provider::Tmux, true), (Provider::Holder, false)] {
        sessions.make_ready(provider).unwrap();
        sessions.prefer(provider);
        // The session stays where it is, is seen there, and keeps its name from a second copy.
        assert_eq!(in_tmux(&bench, "s"), !there);
        assert_eq!(state(&sessions, &id("s")), RunState::Running);
        assert!(sessions.start(&spec).is_err());
        assert_eq!(sessions.adopt(&id("s")).as_ref(), Ok(&last));
        let stopped = sessions.stop(&last.handle, PATIENCE);
        assert_eq!(stopped, Ok(Stopped::Gracefully));
        let heard = events.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(heard, SessionEvent::Exited(handle, _) if handle == last.handle));
        assert_eq!(marked(&last), []);
        last = sessions.start(&spec).unwrap();
        await_screen(&sessions, &last.handle, "here");
        assert_eq!(in_tmux(&bench, "s"), there);
        assert_eq!(sessions.list().unwrap().len(), 1);
    }
    let log = String::from_utf8(sessions.logs(&id("s"), 10_000).unwrap()).unwrap();
    assert_eq!(log.matches("here").count(), 3, "one log for all: {log:?}");
}

#[test]
fn sessions_of_both_kinds_are_listed_adopted_and_ended_side_by_side() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let one = sessions.start(&script(&bench, "sleep 1000")).unwrap();
    sessions.prefer(Provider::Holder);
    let mut spec = script(&bench, "sleep 1000");
    spec.id = id("t");
    let two = sessions.start(&spec).unwrap();
    drop(sessions);
    let sessions = bench.provider();
    for started in [&one, &two] {
        let id = &started.handle.id;
        assert_eq!(
            sessions.membership(started.agent.pid).session().as_ref(),
            Some(id)
        );
        assert_eq!(sessions.adopt(id).as_ref(), Ok(started));
    }
    for started in [one, two] {
        sessions.stop(&started.handle, PATIENCE).unwrap();
        let state = state(&sessions, &started.handle.id);
        assert!(matches!(state, RunState::Exited(_)));
    }
}

#[test]
fn starts_and_ends_in_quick_succession_find_a_server_every_time() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    for _ in 0..15 {
        let started = sessions.start(&script(&bench, "sleep 1000")).unwrap();
        // The last session of its server, which ends with it.
        sessions.stop(&started.handle, PATIENCE).unwrap();
    }
    eventually("the server's end", || {
        let known = bench.tmux(&["list-sessions"]);
        (!known.status.success()).then_some(())
    });
}

#[test]
fn a_tmux_that_is_missing_or_too_old_is_refused_and_the_choice_stays() {
    let bench = LocalBench::new(Provider::Holder);
    let dir = bench.path().join("bin");
    fs::create_dir(&dir).unwrap();
    for (script, expected) in [
        (None, "there is none in PATH"),
        (Some("#!/bin/sh\necho tmux 3.2a\n"), "not tmux 3.2a"),
    ] {
        if let Some(text) = script {
            fs::write(dir.join("tmux"), text).unwrap();
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(dir.join("tmux"), mode).unwrap();
        }
        let error = start_city(&bench, &dir);
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("tmux 3.3 or newer"), "{error}");
    }
}

/// Returns the error of a supervisor with this PATH that is to use tmux.
fn start_city(bench: &LocalBench, path: &Path) -> String {
    let city = "[workspace]\nname = \"c\"\n[session]\nprovider = \"tmux\"\n";
    fs::write(bench.path().join("city.toml"), city).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_horde-supervisor"))
        .arg(bench.path())
        .env_clear()
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// A server that hangs must not take the daemon with it: facts that need no server stay known.
#[test]
#[ignore = "long tier: tmux"]
fn a_server_that_hangs_leaves_the_state_known_and_the_activity_unknown() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let started = sessions
        .start(&script(&bench, "echo ready; sleep 1000"))
        .unwrap();
    await_screen(&sessions, &started.handle, "ready");
    let server = Pidfd::open(&server(&bench)).unwrap().unwrap();
    server.signal(Signal::STOP).unwrap();
    let facts = sessions.facts(&id("s"));
    let sent = sessions.send(&started.handle, &Input::Submit("x".to_owned()));
    server.signal(Signal::CONT).unwrap();
    let facts = facts.unwrap().unwrap();
    assert_eq!(
        (facts.state, facts.last_activity),
        (RunState::Running, None)
    );
    let error = sent.unwrap_err().to_string();
    assert!(error.contains("not typed"), "{error}");
    await_screen(&sessions, &started.handle, "ready");
}

/// The key detaches `hd attach` under every provider: the agent never sees the key.
#[test]
fn the_key_that_leaves_a_session_detaches_from_tmux() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    sessions.start(&script(&bench, "sleep 1000")).unwrap();
    let bound = bench.tmux(&["list-keys", "-T", "root", "C-\\"]).stdout;
    let bound = String::from_utf8(bound).unwrap();
    assert!(bound.contains("detach-client"), "{bound}");
}
