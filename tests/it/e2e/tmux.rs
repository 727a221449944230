//! A city on tmux (`contract.md`, `[session] provider`): everything that holds for sessions holds there, too.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Stdio};

use horde_supervisor::domain::city::tmux_server;
use nix::sys::signal::Signal;

use crate::support::git::write;
use crate::support::live::asks::session_pid as pid;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;
use crate::support::{processes, tmux};

/// Work of two sessions, each of which waits to go on.
const MOVES: &[&str] = &[
    "sign up$n",
    "await go$n",
    "[ $n = 2 ] || exit 1",
    "commit moved.txt",
    "hd done",
];

fn tmux_sessions(city: &City) -> String {
    let mut tmux = Command::new("tmux");
    tmux.args(["-L", &tmux_server(city.root(), "")]);
    let output = tmux.args(["list-sessions", "-F", "#{session_name}"]);
    String::from_utf8(output.output().unwrap().stdout).unwrap()
}

fn on_tmux() -> Plan {
    Plan::new().set("session", "provider", "\"tmux\"")
}

/// Ends the city, and removes the socket that tmux leaves.
fn end(mut city: City) {
    city.stop();
    until("nothing is left", || processes::of(city.root()).is_empty());
    let uid = nix::unistd::geteuid();
    let socket = format!("/tmp/tmux-{uid}/{}", tmux_server(city.root(), ""));
    fs::remove_file(socket).unwrap();
}

/// Charged, killed, respawned, adopted by the next daemon, done and merged.
#[test]
fn work_on_tmux_survives_its_agent_and_its_daemon_and_lands() {
    if !tmux::is_there() {
        return;
    }
    let mut city = on_tmux().start();
    let steps = [
        "[ $n = 2 ] || { echo half >half.txt; echo last words; sign first; forever; }",
        "sign second",
        "await go",
        "git add half.txt",
        "git commit --quiet -m whole",
        "hd done",
    ];
    let relic = city.work("survive", &steps);
    city.wait_sign("first");
    assert_eq!(tmux_sessions(&city), "gt-horde-Toast\n");
    let first = pid(&city.wait_session(&relic, 1));
    until("it has spoken", || {
        let peeked = city.hd(&["peek", "Toast"]);
        peeked.code == 0 && peeked.out.contains("last words")
    });
    processes::signal(first, Signal::SIGKILL);
    let crashed = city.wait_event(1, "agent.crashed", "horde/raiders/Toast");
    let tail = crashed["data"]["tail"].as_str().unwrap();
    assert!(tail.contains("last words"), "{crashed}");
    city.wait_event(1, "raider.respawned", "horde/raiders/Toast");
    city.wait_sign("second");
    let second = pid(&city.wait_session(&relic, 2));
    city.kill();
    assert!(processes::runs(second));
    city.start();
    assert_eq!(pid(&city.wait_session(&relic, 2)), second);
    city.wait_event(1, "agent.adopted", "horde/raiders/Toast");
    city.sign("go");
    city.wait_status(&relic, "closed");
    assert_eq!(city.sessions_of(&relic), 2);
    assert!(city.landed().contains(&"half.txt".to_owned()));
    city.wait_no_raiders();
    end(city);
}

/// Runs `hd` with a terminal of its own, made by `script`.
fn on_a_terminal(city: &City, words: &str) -> Child {
    let hd = assert_cmd::cargo::cargo_bin("hd");
    let line = format!("{} --city {} {words}", hd.display(), city.root().display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &line, "/dev/null"]);
    script.env("TERM", "xterm").env_remove("TMUX");
    let shown = File::create(city.root().join("shown")).unwrap();
    script.stdin(Stdio::piped()).stdout(shown);
    script.spawn().unwrap()
}

/// `hd attach`, `peek`, `send`, `logs` and `logs -f` work the same under tmux.
#[test]
#[ignore = "long tier: tmux"]
fn a_terminal_in_tmux_is_watched_and_typed_into_like_any_other() {
    if !tmux::is_there() {
        return;
    }
    let mayor = "echo good morning; while read -r line; do echo heard $line; done";
    let city = on_tmux().agent("mayor", mayor, "").start();
    let peek = |text: &str| {
        until(&format!("{text:?} on the screen"), || {
            let peeked = city.hd(&["peek", "mayor"]);
            peeked.code == 0 && peeked.json()["text"].as_str().unwrap().contains(text)
        });
    };
    peek("good morning");
    city.hd(&["send", "mayor", "the; first"]).json();
    peek("heard the; first");

    let has = |file: &str, text: &str| {
        until(&format!("{text:?} in {file}"), || {
            let shown = fs::read(city.root().join(file)).unwrap();
            String::from_utf8_lossy(&shown).contains(text)
        });
    };
    let mut follow = city.program("hd");
    let followed = File::create(city.root().join("followed")).unwrap();
    follow.args(["logs", "-f", "mayor"]).stdout(followed);
    let mut follow = follow.spawn().unwrap();
    has("followed", "heard the; first");

    let mut attached = on_a_terminal(&city, "attach mayor");
    let mut keys = attached.stdin.take().unwrap();
    keys.write_all(b"the second\r").unwrap();
    has("followed", "heard the second");
    has("shown", "heard the second");
    // A busy tmux client sometimes takes both keys for a paste: they are pressed again, as a person would.
    wait("the detach", || {
        let ended = attached.try_wait().unwrap();
        // The terminal may be gone in between.
        let _gone = ended.is_none().then(|| keys.write_all(b"\x02d"));
        ended
    });

    let logs = city.hd(&["logs", "mayor"]).json();
    assert!(logs["text"].as_str().unwrap().contains("heard the second"));
    city.hd(&["agent", "stop", "mayor"]).json();
    wait("the end of the log", || follow.try_wait().unwrap());
    end(city);
}

/// A reload moves a city agent by agent: a standing agent gets a fresh session at once, a raider with its next session.
#[test]
fn a_reload_moves_a_city_to_tmux_agent_by_agent() {
    if !tmux::is_there() {
        return;
    }
    let city = Plan::new()
        .set("session", "provider", "\"holder\"")
        .agent("mayor", "exec sleep 1000", "")
        .agent("clerk", "exec sleep 1000", "suspended = true")
        .start();
    let relic = city.work("move", MOVES);
    city.wait_sign("up1");
    city.wait_event(1, "agent.started", "mayor");
    let first = pid(&city.wait_session(&relic, 1));
    let supervisor = city.pid();
    let config = city.root().join("city.toml");
    let said = fs::read_to_string(&config).unwrap();
    fs::write(&config, said.replace("\"holder\"", "\"tmux\"")).unwrap();
    let told = city.hd(&["reload"]).json();
    assert_eq!(told["pending"], serde_json::json!([]));
    city.wait_event(2, "agent.started", "mayor");
    until("the mayor is there", || {
        tmux_sessions(&city).contains("mayor")
    });
    assert_eq!(
        tmux_sessions(&city).lines().count(),
        1,
        "no other session is there"
    );
    assert_eq!(pid(&city.wait_session(&relic, 1)), first);
    assert!(processes::runs(first));
    city.sign("go1");
    city.wait_sign("up2");
    assert!(tmux_sessions(&city).contains("gt-horde-Toast\n"));
    assert!(!processes::runs(first));
    let said = fs::read_to_string(&config).unwrap();
    fs::write(&config, said.replace("suspended = true", "")).unwrap();
    city.wait_event(1, "agent.started", "clerk");
    until("the clerk starts there", || {
        tmux_sessions(&city).contains("clerk")
    });
    city.sign("go2");
    city.wait_status(&relic, "closed");
    assert_eq!(city.sessions_of(&relic), 2);
    assert_eq!(city.pid(), supervisor);
    end(city);
}

/// Another provider in `city.toml`: running sessions are adopted under the old one, new sessions start under the new
/// one.
#[test]
#[ignore = "long tier: tmux"]
fn a_city_moves_to_tmux_session_by_session() {
    if !tmux::is_there() {
        return;
    }
    let mut city = Plan::new().set("session", "provider", "\"holder\"").start();
    let relic = city.work("move", MOVES);
    city.wait_sign("up1");
    assert_eq!(tmux_sessions(&city), "");
    let first = pid(&city.wait_session(&relic, 1));
    city.kill();
    let config = city.root().join("city.toml");
    let said = fs::read_to_string(&config).unwrap();
    fs::write(&config, said.replace("\"holder\"", "\"tmux\"")).unwrap();
    city.start();
    assert_eq!(pid(&city.wait_session(&relic, 1)), first);
    assert_eq!(tmux_sessions(&city), "");
    city.sign("go1");
    city.wait_sign("up2");
    assert_eq!(tmux_sessions(&city), "gt-horde-Toast\n");
    assert!(!processes::runs(first));
    city.sign("go2");
    city.wait_status(&relic, "closed");
    assert_eq!(city.sessions_of(&relic), 2);
    end(city);
}

/// The server would run any command for an agent, but belongs to no session.
/// Case tmux-server of an adversary: the tmux server runs a command for an agent.
#[test]
fn program_that_the_tmux_server_runs_for_an_agent_has_read_rights() {
    if !tmux::is_there() {
        return;
    }
    let mut city = City::made(&on_tmux());
    let socket = format!(
        "/tmp/tmux-{}/{}",
        nix::unistd::geteuid(),
        tmux_server(city.root(), "")
    );
    let hd = assert_cmd::cargo::cargo_bin("hd");
    let order = format!(
        "{} --json --city {} agent suspend m",
        hd.display(),
        city.root().display()
    );
    let signs = city.root().join("signs");
    let script = format!(
        "#!/bin/sh\ncd {}\nuntil [ -e go ]; do sleep 0.05; done\n\
         for how in env 'env -u TMUX' 'env -i' 'env -i setsid -w'; do\n\
         name=$(echo \"$how\" | tr -d ' ')\n\
         tmux -S {socket} run-shell \"$how {order} >{signs}/$name.out 2>{signs}/$name.err; \\\n\
         printf %s \\$? >{signs}/$name.new; mv {signs}/$name.new {signs}/$name\"\n\
         done\nsleep 100000\n",
        signs.display(),
        signs = signs.display(),
    );
    write(city.root(), "spy.sh", &script);
    let plan = on_tmux().agent("m", "exec sleep 100000", "");
    let plan = plan.agent("spy", "exec sh spy.sh", "rights = \"read\"");
    write(city.root(), "city.toml", plan.toml());
    city.start();
    city.wait_event(1, "agent.started", "m");
    city.wait_event(1, "agent.started", "spy");
    city.sign("go");
    for name in ["env", "env-uTMUX", "env-i", "env-isetsid-w"] {
        let error = city.wait_tried(name).error(1);
        assert_eq!(error["kind"], "forbidden", "{name}: {error}");
    }
    city.wait_event(4, "control.forbidden", "invisible");
    assert!(city.happened("agent.suspended", "m").is_empty());
    end(city);
}
