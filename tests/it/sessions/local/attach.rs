//! The attach conversation, as `hd attach` holds it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use horde_supervisor::domain::facts::RunState;
use horde_supervisor::domain::holder_wire::{
    Answer, Frames, HELLO_LEN, Request, VERSION, agree, hello,
};
use horde_supervisor::domain::ids::Generation;
use horde_supervisor::ports::sessions::{AttachPoint, Input, SessionHandle, SessionSpec, Sessions};
use horde_supervisor::testing::conformance::sessions::{await_screen, id};
use horde_supervisor::testing::{PATIENCE, eventually};

use super::{LocalBench, Provider, await_file, script, state};

struct Attached {
    stream: UnixStream,
    frames: Frames,
}

impl Attached {
    fn connect(sessions: &dyn Sessions, handle: &SessionHandle, token: &str) -> Self {
        let (AttachPoint::Holder(path) | AttachPoint::Tmux { watch: path, .. }) =
            sessions.attach(handle).unwrap();
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&hello(VERSION)).unwrap();
        let mut bytes = [0; HELLO_LEN];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(agree(&bytes), Ok(VERSION));
        let frames = Frames::default();
        let mut attached = Self { stream, frames };
        attached.send(&Request::Expect(token.to_owned()));
        attached
    }

    fn send(&mut self, request: &Request) {
        self.stream.write_all(&request.encode()).unwrap();
    }

    /// Reads the next answer; none at the end of the stream.
    fn hear(&mut self) -> Option<Answer> {
        loop {
            if let Some((kind, payload)) = self.frames.next_frame().unwrap() {
                return Some(Answer::decode(kind, payload).unwrap());
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.frames.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn hear_until(&mut self, text: &str) {
        let mut all = String::new();
        let deadline = Instant::now() + PATIENCE;
        while !all.contains(text) {
            assert!(Instant::now() < deadline, "no {text:?} in {all:?}");
            match self.hear() {
                Some(Answer::Output(bytes) | Answer::Snapshot(bytes)) => {
                    all.push_str(&String::from_utf8_lossy(&bytes));
                }
                Some(Answer::Done) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

#[test]
fn an_attach_shows_the_screen_follows_it_types_and_detaches() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let shell = "echo before; while read -r line; do echo got $line; stty size; done; exit 3";
    let started = sessions.start(&script(&bench, shell)).unwrap();
    let handle = &started.handle;
    await_screen(&sessions, handle, "before");
    let mut attached = Attached::connect(&sessions, handle, &handle.token);
    attached.send(&Request::Attach { rows: 30, cols: 90 });
    let Some(Answer::Snapshot(screen)) = attached.hear() else {
        panic!("no snapshot first");
    };
    assert!(String::from_utf8_lossy(&screen).contains("before"));
    attached.send(&Request::Keys(b"hello\r".to_vec()));
    attached.hear_until("30 90");
    let attached_now = || sessions.facts(&id("s")).unwrap().unwrap().attached;
    assert!(attached_now());
    attached.send(&Request::Resize { rows: 31, cols: 91 });
    attached.send(&Request::Keys(b"again\r".to_vec()));
    attached.hear_until("31 91");

    drop(attached);
    eventually("the detach", || (!attached_now()).then_some(()));
    let more = Input::Submit("more".to_owned());
    sessions.send(handle, &more).unwrap();
    await_screen(&sessions, handle, "50 200");
    assert_eq!(state(&sessions, &id("s")), RunState::Running);

    let mut attached = Attached::connect(&sessions, handle, &handle.token);
    attached.send(&Request::Attach { rows: 0, cols: 0 });
    attached.send(&Request::Keys(b"\x04".to_vec()));
    let last = std::iter::from_fn(|| attached.hear()).last();
    assert!(matches!(last, Some(Answer::Ended(ended)) if ended.exit.code == Some(3)));
}

#[test]
fn program_in_a_pane_is_told_of_a_new_size() {
    let Some(bench) = LocalBench::on_tmux() else {
        return;
    };
    let sessions = bench.provider();
    let forever = "while :; do sleep 1000 & wait $!; done";
    let shell = format!("trap 'stty size' WINCH; stty size; {forever}");
    let started = sessions.start(&script(&bench, &shell)).unwrap();
    await_screen(&sessions, &started.handle, "50 200");
    let mut asking = Attached::connect(&sessions, &started.handle, "");
    asking.send(&Request::Resize { rows: 30, cols: 90 });
    assert_eq!(asking.hear(), Some(Answer::Done));
    await_screen(&sessions, &started.handle, "30 90");
}

/// `hd logs -f` counts as no person: the holder answers the program's questions to its terminal, and nothing is put off
/// because of it.
#[test]
fn follower_of_the_output_is_not_attached() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let program = "stty raw -echo; echo ready; read -r line; printf '\\033[6n'
        dd bs=1 count=6 2>/dev/null | od -An -c > seen; sleep 1000";
    let started = sessions.start(&script(&bench, program)).unwrap();
    let handle = &started.handle;
    await_screen(&sessions, handle, "ready");
    let mut follower = Attached::connect(&sessions, handle, &handle.token);
    follower.send(&Request::Attach { rows: 0, cols: 0 });
    follower.hear_until("ready");
    assert!(!sessions.facts(&id("s")).unwrap().unwrap().attached);
    sessions.send(handle, &Input::Raw(b"\n".to_vec())).unwrap();
    follower.hear_until("\x1b[6n");
    let seen = await_file(&bench.path().join("seen"));
    let words: String = seen.split_whitespace().collect();
    assert!(words.ends_with('R'), "{words}");
}

/// A session that seems attached for ever would never be looked after.
#[test]
fn marker_without_a_client_does_not_count_as_attached_for_long() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let program = "echo ready; read -r line; echo more; sleep 1000";
    let started = sessions.start(&script(&bench, program)).unwrap();
    await_screen(&sessions, &started.handle, "ready");
    let attached = || sessions.facts(&id("s")).unwrap().unwrap().attached;
    std::fs::write(bench.state_dir().join("s/attached"), "").unwrap();
    let line = Input::Raw(b"\n".to_vec());
    sessions.send(&started.handle, &line).unwrap();
    eventually("the marker goes", || (!attached()).then_some(()));
}

/// `idle_timeout` counts from the start if nothing was printed since; output of an earlier session of the name does not
/// count.
#[test]
fn a_silent_session_has_been_silent_since_its_start() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    sessions.start(&script(&bench, "echo loud")).unwrap();
    eventually("the end", || match state(&sessions, &id("s")) {
        RunState::Exited(_) => Some(()),
        _ => None,
    });
    let silent = SessionSpec {
        generation: Generation(2),
        ..script(&bench, "exec sleep 1000")
    };
    sessions.start(&silent).unwrap();
    let facts = sessions.facts(&id("s")).unwrap().unwrap();
    assert_eq!(facts.last_activity, Some(facts.started_at));
}

#[test]
fn another_session_of_the_name_is_not_attached_to() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let started = sessions.start(&script(&bench, "sleep 1000")).unwrap();
    // The token alone decides: a further request could meet a closed socket.
    let mut attached = Attached::connect(&sessions, &started.handle, "another token");
    assert_eq!(attached.hear(), Some(Answer::Gone));
    assert_eq!(attached.hear(), None);
}

#[test]
fn a_slow_attacher_is_dropped_and_never_the_agent() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let flood = "read -r line; seq 1 400000; echo > done; sleep 1000";
    let started = sessions.start(&script(&bench, flood)).unwrap();
    let mut slow = Attached::connect(&sessions, &started.handle, "");
    slow.send(&Request::Attach { rows: 0, cols: 0 });
    assert!(matches!(slow.hear(), Some(Answer::Snapshot(_))));
    slow.send(&Request::Keys(b"go\r".to_vec()));
    // It reads nothing until the agent has finished: the agent did not wait for it.
    await_file(&bench.path().join("done"));
    let heard: usize = std::iter::from_fn(|| slow.hear())
        .map(|answer| match answer {
            Answer::Output(bytes) => bytes.len(),
            other => panic!("unexpected {other:?}"),
        })
        .sum();
    assert!(heard > 0 && heard < 2_000_000, "{heard} bytes of 3 million");
    let screen = await_screen(&sessions, &started.handle, "400000");
    assert!(screen.contains("399999"));
}

#[test]
fn line_that_an_attached_person_has_begun_is_seen_until_they_submit_it() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let started = sessions
        .start(&script(&bench, "echo ready; exec sleep 1000"))
        .unwrap();
    await_screen(&sessions, &started.handle, "ready");
    let mut attached = Attached::connect(&sessions, &started.handle, &started.handle.token);
    attached.send(&Request::Attach { rows: 24, cols: 80 });
    attached.hear_until("ready");
    for (typed, is_begun) in [("fix", true), ("\r", false)] {
        attached.send(&Request::Keys(typed.as_bytes().to_vec()));
        eventually("the keys are noted", || {
            let view = sessions.view(&started.handle).unwrap();
            (view.begun.is_some() == is_begun).then_some(())
        });
    }
}

/// Ends by `/exit`, by an entry of a menu, by the terminal itself, and by a crash.
#[test]
fn end_by_an_attached_persons_input_is_reported_as_that() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    let reads = "stty raw -echo; echo ready; dd bs=1 count=1 >/dev/null 2>&1";
    let ends = format!("{reads}; exit 3");
    let crashes = format!("{reads}; kill -SEGV $$");
    for (program, typed, size, by_person) in [
        (&ends, "/exit\r", (24, 80), true),
        (&ends, "2", (24, 80), true),
        (&ends, "/exit\r", (0, 0), false),
        (&ends, "\x1b[I", (24, 80), false),
        (&crashes, "/exit\r", (24, 80), false),
    ] {
        let started = sessions.start(&script(&bench, program)).unwrap();
        await_screen(&sessions, &started.handle, "ready");
        let mut attached = Attached::connect(&sessions, &started.handle, &started.handle.token);
        let (rows, cols) = size;
        attached.send(&Request::Attach { rows, cols });
        attached.hear_until("ready");
        attached.send(&Request::Keys(typed.as_bytes().to_vec()));
        let ended = loop {
            match attached.hear() {
                Some(Answer::Ended(ended)) => break ended,
                Some(_) => {}
                None => panic!("no end is told"),
            }
        };
        assert_eq!(ended.exit.by_person, by_person, "{typed:?}: {ended:?}");
        assert!(!by_person || !ended.exit.is_success());
    }
}

/// Ctrl-C of an attached person, of a person who only watches, and of a program that types.
#[test]
fn the_end_of_a_program_by_a_key_of_an_attached_person_is_told_as_that() {
    let bench = LocalBench::new(Provider::Holder);
    let sessions = bench.provider();
    for (rows, cols, by_person) in [(24, 80, true), (0, 0, false)] {
        let started = sessions
            .start(&script(&bench, "echo ready; exec sleep 1000"))
            .unwrap();
        await_screen(&sessions, &started.handle, "ready");
        let mut attached = Attached::connect(&sessions, &started.handle, &started.handle.token);
        attached.send(&Request::Attach { rows, cols });
        attached.hear_until("ready");
        // A shell may swallow the key while it starts the next program.
        eventually("the shell is gone", || {
            let name = std::fs::read_to_string(format!("/proc/{}/comm", started.agent.pid));
            name.is_ok_and(|name| name.trim() == "sleep").then_some(())
        });
        attached.send(&Request::Keys(b"\x03".to_vec()));
        let ended = loop {
            match attached.hear() {
                Some(Answer::Ended(ended)) => break ended,
                Some(_) => {}
                None => panic!("no end is told"),
            }
        };
        assert_eq!(ended.exit.by_person, by_person, "{ended:?}");
        let RunState::Exited(exit) = state(&sessions, &id("s")) else {
            panic!("it has not ended");
        };
        assert_eq!(exit.by_person, by_person, "as it stands on the disk");
    }
}
