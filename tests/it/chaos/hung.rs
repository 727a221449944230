//! Faults that could hold up everything: a rig whose git does not answer, a session that opens every connection.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use horde_supervisor::testing::tier::by_tier;
use serde_json::{Value, json};

use super::{agent, crowd, kill, runs_as};
use crate::support::git::{git as run_git, rev};
use crate::support::live::{City, until};
use crate::support::plan::Plan;
use crate::support::program::script;

/// A `git` whose commands in the rig `stuck` hang for as long as a file exists.
struct Git {
    bin: PathBuf,
    hang: PathBuf,
}

impl Git {
    fn of(city: &City) -> Self {
        let (bin, hang) = (city.root().join("bin"), city.root().join("hang"));
        fs::create_dir(&bin).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let mut places = std::env::split_paths(&path).map(|dir| dir.join("git"));
        let git = places.find(|git| git.is_file()).expect("git");
        let (root, git, file) = (city.root().display(), git.display(), hang.display());
        let text = format!(
            "#!/bin/sh\ncase \" $* \" in *\" {root}/stuck\"*|*\" {root}/.horde/custody/stuck\"*)\n\
            while [ -e '{file}' ]; do sleep 1; done ;;\nesac\nexec '{git}' \"$@\"\n"
        );
        script(&bin.join("git"), &text);
        Self { bin, hang }
    }

    /// Makes the supervisor use it.
    fn used_by(&self, mut supervisor: Command) -> Command {
        let path = std::env::var("PATH").unwrap();
        supervisor.env("PATH", format!("{}:{path}", self.bin.display()));
        supervisor
    }

    fn hangs(&self) {
        fs::write(&self.hang, "").unwrap();
    }

    fn goes_on(&self) {
        fs::remove_file(&self.hang).unwrap();
    }
}

/// Sends a request on a connection of its own, and does not wait for its answer.
fn send(socket: &Path, op: &str, args: &Value) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    let line = json!({ "v": 1, "id": "1", "op": op, "args": args });
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    stream
}

/// Returns the faults that `hd status` shows of the rig `stuck`.
fn faults(city: &City) -> Vec<String> {
    let status = city.hd(&["status"]).json();
    let all = status["ground"].as_array().unwrap().iter();
    let says = all.map(|fault| fault["says"].as_str().unwrap().to_owned());
    says.filter(|says| says.contains("rig stuck")).collect()
}

/// The rig's git is asked by many requests at once, and hangs. Requests about it are refused, it counts as
/// unseen, and the other rig, the agents, `hd status` and `hd stop` notice nothing.
#[test]
#[ignore = "long tier: chaos"]
fn rig_whose_git_hangs_is_unseen_and_holds_up_nothing() {
    let plan = crowd(1).rig("stuck", "st");
    let mut city = City::made(&plan.set("daemon", "patrol_interval", r#""1s""#));
    let git = Git::of(&city);
    city.start_as(git.used_by(city.supervisor()));
    let first = runs_as(&city, "a0", 1);
    // A branch that `hd doctor` asks git about.
    let theirs = city.root().join("stuck/repo.git");
    let main = rev(&theirs, "refs/remotes/origin/main");
    let branch = "refs/heads/raider/Ghost/st-9-1";
    run_git(&theirs, &["update-ref", branch, &main]);
    git.hangs();
    let socket = city.root().join(".horde/control.sock");
    // At length, more than the runtime has threads for blocking work by default.
    let asked: Vec<_> = (0..by_tier(40, 560))
        .map(|_| send(&socket, "doctor", &json!({})))
        .collect();
    until("the rig counts as unseen", || {
        faults(&city).iter().any(|says| says.contains("unseen"))
    });
    let text = city.hd_text(&["status"]);
    assert!(text.out.contains("rig stuck is unseen"), "{text:?}");
    kill(first);
    assert_ne!(runs_as(&city, "a0", 2), first, "its agent is replaced");
    let relic = city.work("other", &["commit other", "hd done"]);
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"other".to_owned()));
    drop(asked);
    git.goes_on();
    until("the rig is seen again", || faults(&city).is_empty());
    let relic = city.relic_in("stuck", "again", &["commit again", "hd done"]);
    assert_eq!(city.hd(&["charge", &relic, "stuck"]).code, 0);
    city.wait_status(&relic, "closed");
    git.hangs();
    let relic = city.relic_in("stuck", "late", &["forever"]);
    let charge = json!({ "relic": relic, "rig": "stuck" });
    let _unanswered = send(&socket, "charge", &charge);
    city.stop();
}

/// A rig that hangs at the start is held until it is prepared; the supervisor starts without it.
#[test]
#[ignore = "long tier: chaos"]
fn rig_that_hangs_at_the_start_is_held_and_the_others_start() {
    let plan = crowd(1).rig("stuck", "st");
    let mut city = City::made(&plan.set("daemon", "patrol_interval", r#""1s""#));
    let git = Git::of(&city);
    git.hangs();
    city.start_as(git.used_by(city.supervisor()));
    runs_as(&city, "a0", 1);
    let relic = city.work("other", &["commit other", "hd done"]);
    city.wait_status(&relic, "closed");
    until("the rig is reported", || {
        faults(&city).iter().any(|says| says.contains("held"))
    });
    let relic = city.relic_in("stuck", "later", &["commit later", "hd done"]);
    assert_ne!(city.hd(&["charge", &relic, "stuck"]).code, 0);
    git.goes_on();
    until("the rig is prepared", || faults(&city).is_empty());
    assert_eq!(city.hd(&["charge", &relic, "stuck"]).code, 0);
    city.wait_status(&relic, "closed");
    city.stop();
}

/// The agent opens as many streams as it can, and is refused from the ninth on; a person is not.
#[test]
fn session_that_opens_every_connection_shuts_out_no_person() {
    // Until its session is known, it is one of the callers that cannot be seen.
    let greedy = "until hd --json relic create known >/dev/null 2>&1; do sleep 0.05; done\n\
        i=0; while [ $i -lt 40 ]; do i=$((i + 1))\n\
        hd --json events -f >/dev/null 2>\"err.$i\" || : >\"refused.$i\" &\ndone\nexec sleep 100000";
    let mut city = Plan::new().add(&agent("greedy", greedy)).start();
    let refused = || {
        let entries = fs::read_dir(city.root()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("refused.")).count()
    };
    until("it has eight, and is refused the others", || {
        refused() == 32
    });
    let told = fs::read_dir(city.root()).unwrap().any(|entry| {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        text.contains("8 connections from one session")
    });
    assert!(told, "it is told why");
    assert_eq!(city.hd(&["status"]).code, 0);
    assert_eq!(refused(), 32, "no stream of it was closed for the person");
    city.stop();
}
