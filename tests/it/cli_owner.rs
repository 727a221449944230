//! `hd` only speaks to a socket that no other user could have made.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use horde_supervisor::testing::{program, scratch};
use serde_json::json;

use crate::cli::run;
use crate::cli_terminal::hd_on;
use crate::fake_city::{FakeCity, LIMIT};
use crate::support::pty::terminal;

/// Another user's socket would receive the requests, and its answers would be believed.
#[test]
fn socket_in_a_directory_that_others_may_write_to_is_not_spoken_to() {
    let city = FakeCity::start();
    let dir = city.socket().parent().unwrap().to_owned();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = run(city.hd().args(["status"]));
    assert_eq!(ran.code, 3);
    assert!(
        ran.stderr.contains("other users may write to"),
        "{}",
        ran.stderr
    );
    assert!(city.fake.asked("status").is_empty());
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(run(city.hd().args(["--json", "status"])).code, 0);
}

/// Root has even more to lose.
/// Case foreign-socket of an adversary: a program of another user answers at the socket.
#[test]
fn socket_of_another_user_is_not_spoken_to() {
    let city = FakeCity::start();
    let dir = city.socket().parent().unwrap().to_owned();
    if chown(&dir, Some(4242), None).is_err() {
        eprintln!("not tested: only root can give a directory away");
        return;
    }
    for verb in [&["status"][..], &["send", "Toast", "secret"]] {
        let ran = run(city.hd().args(verb));
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let told = ran.stderr.contains("another user, uid 4242") && ran.stderr.contains("become");
        assert!(told, "{}", ran.stderr);
    }
    assert!(city.fake.0.asked.lock().unwrap().is_empty());
    chown(&dir, Some(0), None).unwrap();
}

/// A program at a socket that writes down what it is told, and answers nothing.
struct Ear {
    socket: PathBuf,
    heard: Receiver<Vec<u8>>,
}

impl Ear {
    fn at(socket: PathBuf) -> Self {
        let listener = UnixListener::bind(&socket).unwrap();
        let (tell, heard) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut bytes = vec![0; 4096];
                let read = stream.unwrap().read(&mut bytes).unwrap();
                bytes.truncate(read);
                if tell.send(bytes).is_err() {
                    return;
                }
            }
        });
        Self { socket, heard }
    }

    /// Returns what it was told until now: connections are accepted one after the other.
    fn told(&self) -> Vec<u8> {
        let last = b"the test's own";
        UnixStream::connect(&self.socket)
            .unwrap()
            .write_all(last)
            .unwrap();
        let mut all = Vec::new();
        loop {
            let bytes = self.heard.recv_timeout(LIMIT).unwrap();
            if bytes == last {
                return all;
            }
            all.extend(bytes);
        }
    }
}

/// Runs `hd attach` on a terminal, with a `tmux` of the test's. Returns its exit code, and its message.
fn attached(city: &FakeCity, programs: &Path) -> (Option<i32>, String) {
    let (_seat, end) = terminal();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut hd = hd_on(city, &end, &["attach", "Toast"]);
    let ran = hd
        .env("PATH", path)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    (ran.status.code(), said)
}

/// Ways in which another user could have made a socket. Only root can try the last two.
type Opened = (&'static str, fn(&Path) -> std::io::Result<()>);

const OPENED: [Opened; 3] = [
    ("other users may write to", |socket| {
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(socket.parent().unwrap(), open)
    }),
    ("another user, uid 4242", |socket| {
        chown(socket.parent().unwrap(), Some(4242), None)
    }),
    ("another user, uid 4242", |socket| {
        chown(socket, Some(4242), None)
    }),
];

/// A terminal would be handed over to the other user, and a pane that the answer names would be attached to. The
/// control of each half comes first: the same program at a socket of this user's own is spoken to and believed.
#[test]
fn attach_says_nothing_to_a_foreign_socket_and_executes_nothing() {
    let root = scratch();
    let (programs, mark) = (root.path().join("bin"), root.path().join("executed"));
    fs::create_dir(&programs).unwrap();
    let text = format!("touch '{}'", mark.display());
    program::script(&programs.join("tmux"), &text);
    let pane = Ear::at(root.path().join("pane.sock"));
    let tmux = json!({"socket": pane.socket, "id": "%1"});
    let answer = json!({"name": "Toast", "socket": pane.socket, "tmux": tmux});
    for (why, open) in OPENED {
        let believed = FakeCity::start();
        believed.fake.answer("attach", Ok(answer.clone()));
        assert_eq!(attached(&believed, &programs), (Some(0), String::new()));
        assert!(mark.exists(), "the control");
        fs::remove_file(&mark).unwrap();
        let heard = FakeCity::away();
        fs::create_dir(heard.root().join(".horde")).unwrap();
        let closed = fs::Permissions::from_mode(0o700);
        fs::set_permissions(heard.root().join(".horde"), closed).unwrap();
        let ear = Ear::at(heard.socket());
        attached(&heard, &programs);
        assert_ne!(ear.told(), b"", "the control");
        if open(&heard.socket()).and(open(&believed.socket())).is_err() {
            eprintln!("not tested: {why}: only root can give a socket away");
            continue;
        }
        let asked = believed.fake.asked("attach").len();
        for city in [&heard, &believed] {
            let (code, said) = attached(city, &programs);
            assert_eq!(code, Some(3), "{why}: {said}");
            assert!(said.contains(why), "{why}: {said}");
        }
        assert_eq!(ear.told(), b"", "{why}");
        assert_eq!(believed.fake.asked("attach").len(), asked, "{why}");
        assert!(!mark.exists(), "{why}");
        // The server removes its socket at its end.
        chown(
            believed.socket().parent().unwrap(),
            Some(nix::unistd::geteuid().as_raw()),
            None,
        )
        .unwrap();
    }
}

/// The supervisor's answer names the socket of the session.
#[test]
fn attach_says_nothing_to_a_session_socket_that_another_user_could_have_made() {
    for (why, open) in OPENED {
        let city = FakeCity::start();
        let sessions = city.root().join("sessions");
        fs::create_dir(&sessions).unwrap();
        fs::set_permissions(&sessions, fs::Permissions::from_mode(0o700)).unwrap();
        let ear = Ear::at(sessions.join("session.sock"));
        city.fake.told("attach", &json!({ "socket": ear.socket }));
        attached(&city, Path::new("/nowhere"));
        assert_ne!(ear.told(), b"", "the control");
        if open(&ear.socket).is_err() {
            eprintln!("not tested: {why}: only root can give a socket away");
            continue;
        }
        let (code, said) = attached(&city, Path::new("/nowhere"));
        assert!(code != Some(0) && said.contains(why), "{why}: {said}");
        assert_eq!(ear.told(), b"", "{why}");
    }
}

/// A supervisor outside the container has no pid that this process could see.
#[test]
fn supervisor_in_another_pid_namespace_is_spoken_to() {
    let city = FakeCity::start();
    let apart = ["--user", "--map-root-user", "--pid", "--fork"];
    let mut unshare = assert_cmd::Command::new("unshare");
    if run(unshare.args(apart).arg("true")).code != 0 {
        eprintln!("skipped: no namespaces can be made here");
        return;
    }
    let mut hd = assert_cmd::Command::new("unshare");
    hd.args(apart).arg(env!("CARGO_BIN_EXE_hd"));
    hd.arg("--city").arg(city.root()).args(["--json", "status"]);
    for name in crate::fake_city::VARIABLES {
        hd.env_remove(name);
    }
    let ran = run(&mut hd);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}
