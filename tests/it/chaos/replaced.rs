//! `.horde`, the directory of the sessions, or that of one session is replaced while the supervisor runs.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use horde_supervisor::control::client::Client;
use horde_supervisor::testing::tier::sampled;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use super::{crowd, kill, named, runs_as};
use crate::support::live::{City, until};

on_tmux_too!(
    daily: death_is_answered_whatever_replaced_the_directory_of_the_session;
    long: state_directory_that_is_replaced_is_put_back_and_nothing_goes_through_a_link,
    directory_of_the_sessions_that_is_replaced_is_put_back,
    directory_of_a_session_that_is_replaced_is_put_back
);

/// The objects that are put in the place of a directory.
const THINGS: [&str; 3] = ["file", "FIFO", "link"];

fn city() -> City {
    crowd(1).set("daemon", "patrol_interval", r#""1s""#).start()
}

/// A directory that looks like the replaced one, outside the city's own.
fn decoy(city: &City, like: &Path) -> PathBuf {
    let decoy = city.root().join("decoy");
    if !decoy.exists() {
        for room in ["outbox", "sessions", "tasks", "custody"] {
            fs::create_dir_all(decoy.join(room)).unwrap();
        }
        if let Ok(state) = fs::read(like.join("state.json")) {
            fs::write(decoy.join("state.json"), state).unwrap();
        }
    }
    decoy
}

/// Returns every name below a directory with its bytes.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(&here).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path.clone()),
                false => found.push((path.clone(), fs::read(&path).unwrap())),
            }
            found.push((path, Vec::new()));
        }
    }
    found.sort();
    found
}

fn id(dir: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(dir).ok()?;
    found.is_dir().then(|| (found.dev(), found.ino()))
}

/// Moves a directory away, puts another object in its place, and waits until it is back. The object is kept aside, and
/// nothing was written through the link. An agent that is killed meanwhile is replaced, with a new session directory if
/// the old one can no longer be found.
fn replaced(dir: impl Fn(&City) -> PathBuf, kills: bool) {
    let mut city = city();
    let dir = dir(&city);
    let decoy = decoy(&city, &dir);
    let before = contents(&decoy);
    let mut generation = 1;
    for what in sampled(THINGS, 3) {
        let agent = runs_as(&city, "a0", generation);
        let away = dir.with_extension(format!("away-{what}"));
        let ours = id(&dir);
        // A connection from before. Its requests may fail; only where they write matters.
        let mut client = Client::connect(&city.root().join(".horde/control.sock")).unwrap();
        let relic = city.relic(what, &["forever"]);
        let charge = json!({ "relic": relic, "rig": "horde" });
        fs::rename(&dir, &away).unwrap();
        match what {
            "file" => fs::write(&dir, "precious").unwrap(),
            "FIFO" => mkfifo(&dir, Mode::S_IRWXU).unwrap(),
            _ => symlink(&decoy, &dir).unwrap(),
        }
        if kills {
            kill(agent);
            generation += 1;
        }
        if dir.ends_with(".horde") {
            let _charged = client.call(&City::op("charge", charge));
        }
        let anew = kills && dir.ends_with("e2e-a0");
        until(&format!("it is back where {what} was"), || {
            id(&dir) == ours || anew && id(&dir).is_some()
        });
        let next = runs_as(&city, "a0", generation);
        // The new process may still be the shell that becomes the program.
        until(&format!("one agent where {what} was"), || {
            named(&city, "sleep") == [next]
        });
        let parent = fs::read_dir(dir.parent().unwrap()).unwrap();
        let aside = parent.map(|entry| entry.unwrap().path());
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let aside: Vec<_> = aside
            .filter(|path| {
                let found = path.file_name().unwrap().to_string_lossy().into_owned();
                found.starts_with(&name) && !path.is_dir() || path.is_symlink()
            })
            .collect();
        assert_eq!(aside.len(), 1, "{what} is kept: {aside:?}");
        fs::remove_file(&aside[0]).unwrap();
        assert_eq!(contents(&decoy), before, "{what}");
    }
    let words = ["is moved back", "it is set aside"];
    let log = fs::read_to_string(city.root().join("supervisor.log")).unwrap();
    assert!(words.iter().any(|words| log.contains(words)), "it is said");
    city.stop();
}

#[test]
#[ignore = "long tier: chaos"]
fn state_directory_that_is_replaced_is_put_back_and_nothing_goes_through_a_link() {
    replaced(|city| city.root().join(".horde"), true);
}

#[test]
#[ignore = "long tier: chaos"]
fn directory_of_the_sessions_that_is_replaced_is_put_back() {
    replaced(|city| city.root().join(".horde/sessions"), true);
}

#[test]
fn directory_of_a_session_that_is_replaced_is_put_back() {
    replaced(|city| city.root().join(".horde/sessions/e2e-a0"), false);
}

/// Case session-directory of an adversary: the directory of a session is removed or replaced.
#[test]
fn death_is_answered_whatever_replaced_the_directory_of_the_session() {
    replaced(|city| city.root().join(".horde/sessions/e2e-a0"), true);
}
