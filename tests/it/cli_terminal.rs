//! `hd attach` and `hd logs -f` with a fake session at the other end, `attach` on a real terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use assert_cmd::cargo::cargo_bin;
use horde_supervisor::control::protocol::ControlError;
use horde_supervisor::domain::facts::SessionExit;
use horde_supervisor::domain::holder_wire::{self as wire, Answer, Ended, Frames, Request};
use rustix::termios::{self, Winsize};
use serde_json::{Value, json};

use crate::fake_city::{FakeCity, LIMIT, VARIABLES, event, until, whole};
use crate::support::pty::{shown, terminal};

/// A holder that passes requests to the test and sends the test's answers.
struct FakeHolder {
    requests: Receiver<Request>,
    answers: Sender<Answer>,
    socket: PathBuf,
}

impl FakeHolder {
    fn start(city: &FakeCity) -> Self {
        let socket = city.root().join("session.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (heard, requests) = mpsc::channel();
        let (answers, to_say) = mpsc::channel::<Answer>();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&wire::hello(wire::VERSION)).unwrap();
            let reading = stream.try_clone().unwrap();
            thread::spawn(move || hear(reading, &heard));
            for answer in to_say {
                stream.write_all(&answer.encode()).unwrap();
            }
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        });
        city.fake.told("attach", &json!({ "socket": socket }));
        Self {
            requests,
            answers,
            socket,
        }
    }

    fn expect(&self, wanted: &Request) {
        assert_eq!(&self.requests.recv_timeout(LIMIT).unwrap(), wanted);
    }

    fn answer(&self, answer: Answer) {
        self.answers.send(answer).unwrap();
    }
}

fn hear(mut stream: UnixStream, heard: &Sender<Request>) {
    let mut frames = Frames::default();
    let mut greeted = false;
    let mut bytes = [0; 4096];
    loop {
        let read = stream.read(&mut bytes).unwrap_or(0);
        if read == 0 {
            return;
        }
        frames.push(&bytes[..read]);
        greeted = greeted || frames.hello().is_some();
        while let Some((kind, payload)) = frames.next_frame().unwrap() {
            let request = Request::decode(kind, payload).unwrap();
            if heard.send(request).is_err() {
                return;
            }
        }
    }
}

fn ended() -> Answer {
    Answer::Ended(Ended {
        token: "t-1".into(),
        exit: SessionExit {
            code: Some(3),
            signal: None,
            at: "2026-01-31T12:00:00Z".parse().unwrap(),
            by_person: false,
            stopped: false,
        },
        killed: false,
        stragglers: 0,
        undead: 0,
    })
}

#[test]
fn followed_logs_show_the_screen_and_then_new_output() {
    let city = FakeCity::start();
    let holder = FakeHolder::start(&city);
    assert!(holder.socket.exists());
    holder.answer(Answer::Snapshot(b"screen ".to_vec()));
    holder.answer(Answer::Output(b"and more\n".to_vec()));
    holder.answer(ended());
    let output = city.hd().args(["logs", "-f", "Toast"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "screen and more\n");
    assert!(said.contains("exit code 3"), "{said}");
    holder.expect(&Request::Expect(String::new()));
    holder.expect(&Request::Attach { rows: 0, cols: 0 });
}

/// Of a drawing program only the text is left.
#[test]
fn followed_logs_steer_no_terminal() {
    let city = FakeCity::start();
    let holder = FakeHolder::start(&city);
    holder.answer(Answer::Snapshot(b"\x1b[2J\x1b[3;1Hone\x1b[6n".to_vec()));
    holder.answer(Answer::Output(b"\x1b[5;1Htwo\x1b]52;c;".to_vec()));
    holder.answer(Answer::Output("eA==\x07\u{9b}31m\u{202e}\n".into()));
    holder.answer(ended());
    let output = city.hd().args(["logs", "-f", "Toast"]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(out, "one\ntwo\\u{9b}31m\\u{202e}\n");
}

/// An answer may name a pane of tmux, but neither a program nor an argument.
#[test]
fn attach_executes_nothing_that_the_answer_names() {
    let city = FakeCity::start();
    let marker = city.root().join("executed");
    let socket = city.socket();
    let pane = |pane: Value| json!({ "name": "Toast", "socket": socket, "tmux": pane });
    for point in [
        json!({ "command": ["touch", marker] }),
        pane(json!({ "socket": socket, "id": "%1;run-shell" })),
        pane(json!({ "socket": socket, "id": "%" })),
        pane(json!({ "socket": "tmux.sock", "id": "%1" })),
        pane(json!(["touch", marker])),
        pane(json!({ "socket": city.root().join("absent"), "id": "%1" })),
    ] {
        city.fake.answer("attach", Ok(point.clone()));
        let (_seat, end) = terminal();
        let status = hd_on(&city, &end, &["attach", "Toast"]).status().unwrap();
        assert_eq!(status.code(), Some(1), "{point}");
    }
    assert!(!marker.exists());
}

#[test]
fn attach_needs_a_terminal() {
    let city = FakeCity::start();
    let output = city.hd().args(["attach", "Toast"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(city.fake.asked("attach").is_empty());
}

/// Runs `hd` on a terminal.
pub fn hd_on(city: &FakeCity, end: &File, words: &[&str]) -> Command {
    let mut hd = Command::new(cargo_bin("hd"));
    for name in VARIABLES {
        hd.env_remove(name);
    }
    hd.arg("--city")
        .arg(city.root())
        .args(words)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::from(end.try_clone().unwrap()))
        .stdout(Stdio::from(end.try_clone().unwrap()))
        .stderr(Stdio::null());
    hd
}

fn followed(city: &FakeCity) -> tokio::sync::mpsc::Sender<Result<String, ControlError>> {
    until("it follows", || {
        city.fake.0.stream.lock().unwrap().is_some()
    });
    city.fake.0.stream.lock().unwrap().clone().unwrap()
}

#[test]
fn run_follows_on_a_terminal_until_the_work_has_ended() {
    for (status, code) in [("closed", 0), ("blocked", 7), ("deferred", 0)] {
        let city = FakeCity::start();
        let relics = json!({"relics": [{"relic": "gt-1", "raider": "horde/raiders/Toast"}]});
        city.fake.told("status", &json!({"seq": 4}));
        city.fake.told("run", &relics);
        let hooked = json!({"status": "hooked", "children": []});
        city.fake.told("relic.show", &hooked);
        let (mut seat, end) = terminal();
        let mut hd = hd_on(&city, &end, &["run", "a task"]).spawn().unwrap();
        let events = followed(&city);
        events.blocking_send(Ok(event(5).to_string())).unwrap();
        shown(&mut seat, "raider.charged");
        until("it looks", || !city.fake.asked("relic.show").is_empty());
        let ended = json!({"status": status, "children": []});
        city.fake.told("relic.show", &ended);
        events.blocking_send(Ok(event(6).to_string())).unwrap();
        assert_eq!(hd.wait().unwrap().code(), Some(code), "{status}");
        let asked = json!({"follow": true, "since": 4});
        assert_eq!(city.fake.asked("events"), [asked]);
    }
}

#[test]
fn run_ends_with_the_commit_that_the_work_landed_as() {
    let city = FakeCity::start();
    let relics = json!({"relics": [{"relic": "gt-1", "raider": "horde/raiders/Toast"}]});
    city.fake.told("status", &json!({"seq": 4}));
    city.fake.told("run", &relics);
    let closed = json!({"status": "closed", "children": []});
    city.fake.told("relic.show", &closed);
    let (mut seat, end) = terminal();
    let mut hd = hd_on(&city, &end, &["run", "a task"]);
    let mut hd = hd.stderr(Stdio::from(end)).spawn().unwrap();
    let merged = json!({"seq": 5, "type": "raider.merged", "subject": "horde/raiders/Toast", "cause": "merged",
        "data": {"relic": "gt-1", "merge_commit": "c0ffee", "target": "main", "noop": false}});
    followed(&city)
        .blocking_send(Ok(whole("events", &merged).to_string()))
        .unwrap();
    shown(&mut seat, "gt-1 landed as c0ffee on main");
    assert_eq!(hd.wait().unwrap().code(), Some(0));
}

/// A relic is blocked while its raider is in quarantine, and stays hooked while a person has to look or its account is
/// parked (contract 2.3, exit 9).
#[test]
fn run_ends_when_nothing_moves_without_a_person() {
    let died = json!({"type": "agent.quarantined", "subject": "horde/raiders/Toast", "data": {}});
    let note = "needs a review: hd mq approve gt-2 or hd mq reject gt-2";
    let held = json!({"type": "mr.held", "subject": "gt-2",
        "data": {"relic": "gt-1", "note": note}});
    let parked = |kind: &str| {
        json!({"type": kind, "subject": "horde/raiders/Toast",
        "data": {"kind": kind.strip_prefix("raider."), "text": "at your limit",
            "until": "2026-01-31T12:00:00Z"}})
    };
    let limit = "is parked by a limit until 2026-01-31T12:00:00Z: at your limit";
    for (happened, status, code, said) in [
        (parked("raider.rate_limited"), "hooked", 9, limit),
        (parked("raider.auth"), "hooked", 9, "is parked by a login"),
        (died, "blocked", 1, "hd raider unquarantine"),
        (held, "hooked", 7, note),
    ] {
        let city = FakeCity::start();
        let relics = json!({"relics": [{"relic": "gt-1", "raider": "horde/raiders/Toast"}]});
        city.fake.told("status", &json!({"seq": 4}));
        city.fake.told("run", &relics);
        let hooked = json!({"status": "hooked", "children": []});
        city.fake.told("relic.show", &hooked);
        let (mut seat, end) = terminal();
        let mut hd = hd_on(&city, &end, &["run", "a task"]);
        let mut hd = hd.stderr(Stdio::from(end)).spawn().unwrap();
        let events = followed(&city);
        let crashed = json!({"type": "agent.crashed", "subject": "horde/raiders/Toast",
            "cause": "exited", "data": {"code": 3}});
        let send = |item: &Value| {
            let item = whole("events", item).to_string();
            events.blocking_send(Ok(item)).unwrap();
        };
        send(&crashed);
        shown(&mut seat, "code=3");
        until("it looks", || !city.fake.asked("relic.show").is_empty());
        let stands = json!({"status": status, "children": []});
        city.fake.told("relic.show", &stands);
        send(&happened);
        assert_eq!(hd.wait().unwrap().code(), Some(code), "{said}");
        shown(&mut seat, said);
    }
}

/// Without `auto_charge` no raider takes the relic up: there is nothing to wait for.
#[test]
fn run_does_not_follow_a_relic_that_is_not_charged() {
    let city = FakeCity::start();
    let relics = json!({"relics": [{"relic": "gt-1", "raider": null, "note": "full",
        "rig": "horde", "auto_charge": false}]});
    city.fake.told("status", &json!({"seq": 4}));
    city.fake.told("run", &relics);
    let (mut seat, end) = terminal();
    let mut hd = hd_on(&city, &end, &["run", "a task"]).spawn().unwrap();
    shown(&mut seat, "hd charge gt-1 horde");
    assert_eq!(hd.wait().unwrap().code(), Some(0));
}

#[test]
fn a_watched_status_is_drawn_again_when_something_happens() {
    let mut city = FakeCity::start();
    let state = |state: &str| {
        let mayor = json!({"name": "mayor", "state": state});
        json!({"city": "fake", "pid": 1, "uptime_s": 1, "agents": [mayor]})
    };
    let (mut seat, end) = terminal();
    let mut hd = hd_on(&city, &end, &["status", "--watch"]).spawn().unwrap();
    let items = followed(&city);
    let send = |item: Value| {
        let item = whole("status", &item).to_string();
        items.blocking_send(Ok(item)).unwrap();
    };
    send(state("starting"));
    let first = shown(&mut seat, "starting");
    assert!(first.contains("\x1b[2J"), "the screen is cleared: {first}");
    send(state("running"));
    let second = shown(&mut seat, "running");
    assert!(
        second.contains("\x1b[32m"),
        "a terminal has colours: {second}"
    );
    drop(items);
    city.stop();
    assert_eq!(hd.wait().unwrap().code(), Some(3));
}

#[test]
fn consent_is_asked_for_on_a_terminal() {
    // The dry run tells what it costs before the question.
    for (answer, code, asked) in [("y\n", 0, 2), ("\n", 1, 1)] {
        let city = FakeCity::start();
        let looked = json!({"safe": true, "incarnation": 7, "would": "nuke"});
        city.fake.told("raider.nuke", &looked);
        let (mut seat, end) = terminal();
        let mut hd = hd_on(&city, &end, &["raider", "nuke", "Toast"]);
        let hd = hd.stdout(Stdio::null()).stderr(Stdio::from(end));
        let mut hd = hd.spawn().unwrap();
        shown(&mut seat, "[y/N]");
        seat.write_all(answer.as_bytes()).unwrap();
        assert_eq!(hd.wait().unwrap().code(), Some(code));
        let requests = city.fake.asked("raider.nuke");
        assert_eq!(requests.len(), asked);
        // The consent is for the incarnation that was shown.
        let mut consented = requests.iter().skip(1);
        assert!(consented.all(|it| it["incarnation"] == 7), "{requests:?}");
    }
}

#[test]
fn loss_is_shown_before_consent_is_asked() {
    let city = FakeCity::start();
    let looked = json!({
        "safe": false, "losses": ["2 commits"], "message": "work would be lost",
        "hint": "`--salvage` saves all of it", "would": "salvage",
    });
    city.fake.told("raider.nuke", &looked);
    let (mut seat, end) = terminal();
    let nuke = |words: &[&str]| {
        let mut hd = hd_on(&city, &end, words);
        let stderr = Stdio::from(end.try_clone().unwrap());
        hd.stdout(Stdio::null()).stderr(stderr).spawn().unwrap()
    };
    let mut hd = nuke(&["raider", "nuke", "Toast"]);
    assert!(shown(&mut seat, "--salvage").contains("2 commits"));
    assert_eq!(hd.wait().unwrap().code(), Some(5));
    let mut hd = nuke(&["raider", "nuke", "Toast", "--salvage"]);
    assert!(shown(&mut seat, "[y/N]").contains("2 commits"));
    seat.write_all(b"n\n").unwrap();
    assert_eq!(hd.wait().unwrap().code(), Some(1));
    let asked = city.fake.asked("raider.nuke");
    assert!(
        asked.iter().all(|asked| asked["dry_run"] == true),
        "{asked:?}"
    );
}

#[test]
fn attach_passes_keys_and_sizes_on_and_gives_the_terminal_back() {
    let city = FakeCity::start();
    let holder = FakeHolder::start(&city);
    let (mut seat, end) = terminal();
    let before = termios::tcgetattr(&end).unwrap();
    let mut hd = hd_on(&city, &end, &["attach", "Toast"]);
    let mut hd = hd
        .stderr(Stdio::from(end.try_clone().unwrap()))
        .spawn()
        .unwrap();
    holder.expect(&Request::Expect(String::new()));
    holder.expect(&Request::Attach {
        rows: 30,
        cols: 100,
    });
    holder.answer(Answer::Snapshot(b"hello".to_vec()));
    shown(&mut seat, "hello");
    // Interrupt is a key like any other; it does not end `hd`.
    seat.write_all(b"\x03").unwrap();
    holder.expect(&Request::Keys(b"\x03".to_vec()));
    let wider = Winsize {
        ws_row: 40,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    termios::tcsetwinsize(&end, wider).unwrap();
    // This terminal controls no session here, so the kernel sends no signal by itself.
    let pid = rustix::process::Pid::from_child(&hd);
    rustix::process::kill_process(pid, rustix::process::Signal::WINCH).unwrap();
    holder.expect(&Request::Resize {
        rows: 40,
        cols: 120,
    });
    seat.write_all(b"\x1c").unwrap();
    let left = shown(&mut seat, "detached");
    let below = "\x1b[0m\x1b[999;1H\r\n";
    let (modes, line) = left.split_once(below).expect("below the program's screen");
    for mode in [
        "\x1b[?1049l",
        "\x1b[?1000l",
        "\x1b[?2004l",
        "\x1b[r",
        "\x1b[?25h",
    ] {
        assert!(modes.contains(mode), "{mode:?} in {modes:?}");
    }
    assert!(
        line.starts_with("hd: detached; Toast continues"),
        "{line:?}"
    );
    assert!(hd.wait().unwrap().success());
    let after = termios::tcgetattr(&end).unwrap();
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(after.input_modes, before.input_modes);
    assert_eq!(after.output_modes, before.output_modes);
}
