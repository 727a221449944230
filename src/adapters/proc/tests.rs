//! Tests with processes that live, are gone, or cannot be read.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;
use crate::testing::{eventually, first_thread};

#[test]
fn a_program_name_may_contain_anything() {
    let text = "7 (a) b (c) S 3 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 2 21 99 0";
    let stat = Stat::parse(text).unwrap();
    assert_eq!((stat.state, stat.parent, stat.started), (b'S', 3, 99));
    assert_eq!(stat.threads, 2);
    assert_eq!((stat.used, stat.reaped), (14 + 15, 16 + 17));
}

#[test]
fn a_zombie_does_not_live_and_a_reused_pid_is_another_process() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let process = identify(child.id()).unwrap();
    if let Some(pidfd) = Pidfd::open(&process).unwrap() {
        assert!(pidfd.wait(Duration::from_secs(30)).unwrap());
    }
    assert!(stat(process.pid).unwrap().is_some(), "not reaped yet");
    assert!(!lives(&process).unwrap());
    assert!(Pidfd::open(&process).unwrap().is_none());
    child.wait().unwrap();

    let mut me = identify(std::process::id()).unwrap();
    assert!(lives(&me).unwrap());
    me.started += 1;
    assert!(!lives(&me).unwrap());
    assert!(Pidfd::open(&me).unwrap().is_none());
}

#[test]
fn a_process_lives_and_is_ended_while_any_of_its_threads_runs() {
    let dir = crate::testing::scratch();
    let mut command = first_thread::command(dir.path());
    let mut child = command.env("HD_TEST_MARK", "here").spawn().unwrap();
    eventually("its first thread has ended", || {
        dir.path().join("pid").exists().then_some(())
    });
    let process = identify(child.id()).unwrap();
    assert_eq!(stat(process.pid).unwrap().unwrap().state, b'Z');
    assert!(lives(&process).unwrap());
    let own = descendants(std::process::id()).unwrap();
    assert!(own.contains(&process));
    let mark = environment_text(process.pid, "HD_TEST_MARK");
    assert_eq!(mark.as_deref(), Some("here"));
    let pidfd = Pidfd::open(&process).unwrap().expect("it lives");
    pidfd.signal(Signal::KILL).unwrap();
    assert!(pidfd.wait(Duration::from_secs(30)).unwrap());
    assert!(!lives(&process).unwrap());
    child.wait().unwrap();
}

#[test]
fn descendants_and_environments_are_found() {
    let mut child = std::process::Command::new("sh")
        .args(["-c", "sleep 1000 & echo; wait"])
        .env("HD_TEST_MARK", "here")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
    let below = descendants(child.id()).unwrap();
    assert_eq!(below.len(), 1, "the sleep");
    assert_eq!(
        environment_text(below[0].pid, "HD_TEST_MARK").as_deref(),
        Some("here")
    );
    for process in &below {
        let pidfd = Pidfd::open(process).unwrap().unwrap();
        pidfd.signal(Signal::KILL).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_line_of_ancestors_leads_to_the_first_process_and_a_ghost_has_none() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    let line = ancestry(pid).unwrap();
    let own = identify(std::process::id()).unwrap();
    assert_eq!((line[0].pid, &line[1]), (pid, &own));
    assert!(line.len() > 2);
    child.wait().unwrap();
    assert!(ancestry(pid).is_err());
}

/// Makes a `/proc` with one process, whose files the test can change.
fn listing(pid: u32) -> (tempfile::TempDir, PathBuf) {
    let listing = crate::testing::scratch();
    let dir = listing.path().join(pid.to_string());
    fs::create_dir(&dir).unwrap();
    let line = format!("{pid} (\u{e9}) S 1 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 99 0");
    fs::write(dir.join("stat"), line).unwrap();
    fs::write(dir.join("comm"), "node\n").unwrap();
    fs::write(dir.join("cmdline"), "/usr/bin/node\0/opt/claude\0").unwrap();
    (listing, dir)
}

/// Makes reading a file fail with an error that says nothing about the process: reading a directory is one.
fn break_file(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
}

#[test]
fn a_process_that_cannot_be_looked_at_is_not_passed_over() {
    let (listing, dir) = listing(7);
    fs::create_dir(listing.path().join("8")).unwrap();
    let found = all_in(listing.path()).unwrap();
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [7], "8 has gone");
    break_file(&dir.join("stat"));
    assert!(all_in(listing.path()).is_err());
}

#[test]
fn a_name_is_one_of_the_bytes_of_a_process_and_need_be_no_text() {
    let (listing, dir) = listing(7);
    // Cut by the kernel in the middle of a letter.
    let name = "fourteen-bytes\u{e9}";
    fs::write(dir.join("comm"), [&name.as_bytes()[..15], b"\n"].concat()).unwrap();
    let stat = [b"7 (\xc3) S".as_slice(), &b" 1".repeat(20)].concat();
    fs::write(dir.join("stat"), stat).unwrap();
    assert_eq!(all_in(listing.path()).unwrap().len(), 1);
    assert!(goes_by(listing.path(), 7, &[name.to_owned()]).unwrap());
}

#[test]
fn a_program_whose_name_cannot_be_read_is_no_other_program() {
    for file in ["comm", "cmdline"] {
        let (listing, dir) = listing(7);
        let goes_by = |name: &str| goes_by(listing.path(), 7, &[name.to_owned()]);
        assert!(goes_by("claude").unwrap() && goes_by("node").unwrap());
        assert!(!goes_by("codex").unwrap());
        break_file(&dir.join(file));
        assert!(goes_by("codex").is_err(), "{file}");
    }
}

#[test]
fn open_descriptors_of_a_process_are_counted() {
    let script = "ulimit -n 40; echo; exec cat";
    let mut sh = Command::new("sh");
    let sh = sh.args(["-c", script]).stdin(Stdio::piped());
    let mut child = sh.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0];
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut ready).unwrap();
    let process = identify(child.id()).unwrap();
    let found = descriptors(&process).unwrap().unwrap();
    assert_eq!(found.limit, 40);
    assert!((3..=20).contains(&found.open), "{found:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(descriptors(&process).unwrap(), None);
}
