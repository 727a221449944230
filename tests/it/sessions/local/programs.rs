//! The agent's side of a terminal: input as the agent reads it, answers of the terminal, a clean start.

use std::fs;

use horde_supervisor::domain::facts::RunState;
use horde_supervisor::domain::screen::{Fate, Inputs};
use horde_supervisor::ports::sessions::{Input, SessionError, Sessions};
use horde_supervisor::testing::conformance::sessions::{await_screen, id};
use horde_supervisor::testing::eventually;

use super::{LocalBench, Provider, await_file, script, state};

on_both!(
    a_line_that_the_terminal_would_cut_is_refused,
    a_program_that_asked_for_it_gets_a_bracketed_paste_then_the_key,
    a_program_that_asks_where_the_cursor_is_gets_an_answer,
    hidden_input_of_a_program_is_detected,
    an_agent_starts_clean
);

/// Under tmux input does not wait, because tmux itself takes all of it.
#[test]
fn input_waits_for_a_program_that_does_not_read() {
    let bench = &LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let slow = "stty raw -echo; mkfifo go; echo ready; read -r line < go; head -c 1000000 | cksum > sum; sleep 1000";
    let started = sessions.start(&script(bench, slow)).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    let before = sessions.view(&started.handle).unwrap().inputs;
    let bytes = vec![b'x'; 1_000_000];
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| sessions.send(&started.handle, &Input::Raw(bytes)));
        // While the input waits, the session still answers.
        sessions.peek(&started.handle).unwrap();
        assert!(!sending.is_finished(), "no process reads yet");
        // The terminal gets the first bytes some time after the session has all it can take.
        eventually("bytes that wait, of which some were written", || {
            let view = sessions.view(&started.handle).ok()?;
            (view.is_full() && Inputs::fate(before, view.inputs) == Fate::Unknown).then_some(())
        });
        fs::write(bench.path().join("go"), "go\n").unwrap();
        assert_eq!(sending.join().unwrap(), Ok(()));
        let view = sessions.view(&started.handle).unwrap();
        assert_eq!(view.queued, Some(0));
        assert_eq!(Inputs::fate(before, view.inputs), Fate::Taken);
    });
    let sum = await_file(&bench.path().join("sum"));
    let expected = std::process::Command::new("sh")
        .args(["-c", "printf '%1000000s' | tr ' ' x | cksum"])
        .output()
        .unwrap();
    assert_eq!(sum.as_bytes(), expected.stdout);
}

fn a_line_that_the_terminal_would_cut_is_refused(bench: &LocalBench) {
    let sessions = bench.provider();
    let started = sessions.start(&script(bench, "cat")).unwrap();
    let inputs = || sessions.view(&started.handle).unwrap().inputs;
    let before = inputs();
    let long = Input::Submit("x".repeat(5000));
    let error = sessions.send(&started.handle, &long).unwrap_err();
    assert!(matches!(&error, SessionError::Failed { why, .. } if why.contains("too long")));
    assert_eq!(Inputs::fate(before, inputs()), Fate::Untouched);
    let short = Input::Submit("x".to_owned());
    sessions.send(&started.handle, &short).unwrap();
    assert_eq!(Inputs::fate(before, inputs()), Fate::Taken);
}

fn a_program_that_asked_for_it_gets_a_bracketed_paste_then_the_key(bench: &LocalBench) {
    let sessions = bench.provider();
    let program = "stty raw -echo; printf '\\033[?2004hready'
        dd bs=1 count=20 2>/dev/null | od -An -v -tx1 > seen; sleep 1000";
    let started = sessions.start(&script(bench, program)).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    let text = Input::Submit("one\ntwo".to_owned());
    sessions.send(&started.handle, &text).unwrap();
    let seen = await_file(&bench.path().join("seen"));
    let bytes: Vec<u8> = seen
        .split_whitespace()
        .map(|word| u8::from_str_radix(word, 16).unwrap())
        .collect();
    assert_eq!(bytes, b"\x1b[200~one\ntwo\x1b[201~\r");
}

fn hidden_input_of_a_program_is_detected(bench: &LocalBench) {
    let sessions = bench.provider();
    let program = "echo open; read -r line; stty -echo; echo hidden; read -r line; sleep 1000";
    let started = sessions.start(&script(bench, program)).unwrap();
    await_screen(&sessions, &started.handle, "open");
    let hides = || sessions.view(&started.handle).unwrap().hides_input;
    assert_eq!(hides(), Some(false));
    let line = Input::Submit("go".to_owned());
    sessions.send(&started.handle, &line).unwrap();
    await_screen(&sessions, &started.handle, "hidden");
    assert_eq!(hides(), Some(true));
}

fn a_program_that_asks_where_the_cursor_is_gets_an_answer(bench: &LocalBench) {
    let sessions = bench.provider();
    let program = "stty raw -echo; printf 'ab\\033[6n'
        dd bs=1 count=6 2>/dev/null | od -An -c > seen; sleep 1000";
    sessions.start(&script(bench, program)).unwrap();
    let seen = await_file(&bench.path().join("seen"));
    let words: String = seen.split_whitespace().collect();
    assert_eq!(words, "033[1;3R");
}

fn an_agent_starts_clean(bench: &LocalBench) {
    let sessions = bench.provider();
    // The last program takes the shell's place: a shell blocks signals while it waits.
    let report = "umask > seen; ls -l /proc/$$/fd >> seen; tty -s && echo terminal >> seen
        exec grep -E 'Sig(Blk|Ign)' /proc/self/status >> seen";
    sessions.start(&script(bench, report)).unwrap();
    eventually("the end", || match state(&sessions, &id("s")) {
        RunState::Exited(_) => Some(()),
        _ => None,
    });
    let seen = fs::read_to_string(bench.path().join("seen")).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], "0022");
    let open = lines.iter().filter_map(|line| line.split_once(" -> "));
    for (_, target) in open {
        // The shell itself keeps its terminal elsewhere while it redirects.
        let expected = ["/dev/pts/", "alive.lock", "/seen"];
        assert!(
            expected.iter().any(|part| target.contains(part)),
            "{target}"
        );
    }
    assert!(seen.contains("alive.lock"), "{seen}");
    assert!(seen.contains("SigBlk:\t0000000000000000"), "{seen}");
    assert!(seen.contains("SigIgn:\t0000000000000000"), "{seen}");
    assert!(lines.contains(&"terminal"), "{seen}");
}
