//! Session records with false contents: nothing is ended because of a file's contents.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use horde_supervisor::adapters::proc;
use horde_supervisor::domain::facts::RunState;
use horde_supervisor::domain::ids::SessionId;
use horde_supervisor::ports::sessions::{SessionHandle, SessionSpec, Sessions};
use horde_supervisor::testing::conformance::sessions::id;
use horde_supervisor::testing::eventually;
use serde_json::Value;

use super::{LocalBench, Provider, await_lost, kill, script};

on_both!(
    record_that_names_the_token_and_cgroup_of_another_session_ends_nothing_of_it,
    record_that_names_a_stranger_as_its_agent_is_not_believed,
    agent_that_says_it_is_another_sessions_does_not_outlive_its_own,
    directories_of_two_sessions_that_were_exchanged_are_moved_back
);

/// Returns the spec of a session of this id that only waits, marked as the supervisor does.
fn waiting(bench: &LocalBench, name: &str) -> SessionSpec {
    let mut spec = script(bench, "env -i sleep 1000 & sleep 1000; :");
    spec.id = id(name);
    let session = ("HD_SESSION".to_owned(), name.to_owned());
    spec.env.extend([session]);
    spec
}

fn record(bench: &LocalBench, name: &str) -> PathBuf {
    bench.state_dir().join(name).join("state.json")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn end(sessions: &dyn Sessions, name: &SessionId) {
    let facts = sessions.facts(name).unwrap().unwrap();
    let (id, token) = (facts.id, facts.token);
    // The remains of a session whose holder was killed are ended by a stop, too.
    sessions
        .stop(&SessionHandle { id, token }, Duration::ZERO)
        .unwrap();
}

fn record_that_names_the_token_and_cgroup_of_another_session_ends_nothing_of_it(
    bench: &LocalBench,
) {
    let first = bench.provider();
    let (ours, other) = (waiting(bench, "s"), waiting(bench, "t"));
    let started = first.start(&ours).unwrap();
    let another = first.start(&other).unwrap();
    let theirs = eventually("the other session has all its processes", || {
        let below = proc::descendants(another.holder.as_ref().unwrap().pid).unwrap();
        (below.len() == 3).then_some(below)
    });
    drop(first);
    kill(started.holder.as_ref().unwrap());
    let (state, named) = (record(bench, "s"), read(&record(bench, "t")));
    let mut forged = read(&state);
    for field in ["token", "cgroup"] {
        forged[field] = named[field].clone();
    }
    fs::write(&state, forged.to_string()).unwrap();
    let next = bench.provider();
    end(&next, &ours.id);
    let live = theirs
        .iter()
        .filter(|process| proc::lives(process).unwrap());
    assert_eq!(live.count(), 3, "the other session lives, all of it");
    let seen = next.facts(&other.id).unwrap().unwrap();
    assert_eq!(seen.state, RunState::Running);
    assert!(!named["cgroup"].is_string() || Path::new(named["cgroup"].as_str().unwrap()).exists());
    // A directory of that name is no cgroup, whatever its files contain.
    let mut stranger = stranger();
    let fake = bench.path().join("horde-feed");
    fs::create_dir(&fake).unwrap();
    fs::write(fake.join("cgroup.procs"), format!("{}\n", stranger.id())).unwrap();
    fs::write(fake.join("cgroup.kill"), "0").unwrap();
    forged["token"] = "feed".into();
    forged["cgroup"] = fake.to_str().unwrap().into();
    fs::write(&state, forged.to_string()).unwrap();
    end(&next, &ours.id);
    let ended = stranger.try_wait().unwrap();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(ended, None, "the stranger lives");
    assert_eq!(fs::read_to_string(fake.join("cgroup.kill")).unwrap(), "0");
    assert!(
        !proc::lives(&started.agent).unwrap(),
        "its own agent was ended"
    );
}

/// The end of one session had ended the agent of the other.
fn directories_of_two_sessions_that_were_exchanged_are_moved_back(bench: &LocalBench) {
    let first = bench.provider();
    let [ours, other] = ["s", "t"].map(|name| first.start(&waiting(bench, name)).unwrap());
    drop(first);
    let [s, t, away] = ["s", "t", "away"].map(|name| bench.state_dir().join(name));
    fs::rename(&s, &away).unwrap();
    fs::rename(&t, &s).unwrap();
    fs::rename(&away, &t).unwrap();
    let next = bench.provider();
    for (name, started) in [("s", &ours), ("t", &other)] {
        assert_eq!(next.adopt(&id(name)).unwrap().agent, started.agent);
        let spec = bench.state_dir().join(name).join("spec.json");
        assert_eq!(read(&spec)["id"], name);
    }
    end(&next, &id("s"));
    assert!(proc::lives(&other.agent).unwrap());
    assert!(!proc::lives(&ours.agent).unwrap());
}

fn stranger() -> Child {
    Command::new("sleep")
        .arg("1000")
        .process_group(0)
        .spawn()
        .unwrap()
}

/// The named holder is right. The record is forged while no supervisor runs that would know better.
fn record_that_names_a_stranger_as_its_agent_is_not_believed(bench: &LocalBench) {
    let first = bench.provider();
    let started = first.start(&waiting(bench, "s")).unwrap();
    drop(first);
    let mut stranger = stranger();
    let named = proc::identify(stranger.id()).unwrap();
    let state = record(bench, "s");
    let mut forged = read(&state);
    forged["agent"]["pid"] = named.pid.into();
    forged["agent"]["started"] = named.started.into();
    fs::write(&state, forged.to_string()).unwrap();
    let next = bench.provider();
    let adopted = next.adopt(&id("s")).unwrap();
    assert_eq!(adopted.agent, started.agent);
    assert!(next.membership(stranger.id()).session().is_none());
    kill(started.holder.as_ref().unwrap());
    await_lost(&next);
    end(&next, &id("s"));
    let ended = stranger.try_wait().unwrap();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(ended, None, "the stranger lives");
    assert!(!proc::lives(&started.agent).unwrap());
}

/// A process's own claims are no proof: the kernel knows that its session started it. One process has closed everything
/// but the token, and one runs below a command line that looks like a holder's.
fn agent_that_says_it_is_another_sessions_does_not_outlive_its_own(bench: &LocalBench) {
    let other = bench.provider().start(&waiting(bench, "t")).unwrap();
    let (city, made) = (bench.state_dir(), bench.path().join("made"));
    let hold = bench.path().join("hold");
    let body = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; sleep 1000; :";
    fs::write(&hold, body).unwrap();
    // Each name is that of a living session, or of none.
    let text = format!(
        "cd {dir} && for name in t none; do \
         HD_SESSION=$name setsid sh -c '{body}' & setsid sh hold {city}/$name & \
         done; echo > {made}; sleep 1000; :",
        dir = bench.path().display(),
        city = city.display(),
        made = made.display(),
    );
    let sessions = bench.provider();
    let started = sessions.start(&script(bench, &text)).unwrap();
    super::await_file(&made);
    let all = eventually("all of its processes", || {
        let below = proc::descendants(started.holder.as_ref().unwrap().pid).unwrap();
        (below.len() == 10).then_some(below)
    });
    kill(started.holder.as_ref().unwrap());
    await_lost(&sessions);
    end(&sessions, &id("s"));
    let live = all.iter().filter(|process| proc::lives(process).unwrap());
    assert_eq!(live.count(), 0, "nothing of it lives");
    assert!(
        proc::lives(&other.agent).unwrap(),
        "the other one is left alone"
    );
}
