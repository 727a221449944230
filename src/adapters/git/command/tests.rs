//! Tests of the limits of commands, and of what they leave behind.

use std::time::Instant;

use super::*;
use crate::testing::eventually;

/// They come into the log, the journal and the store.
#[test]
fn errors_show_no_password_of_a_url() {
    let git = Git::in_dir(Path::new("/")).args(["no-command", "https://me:secret@host/x"]);
    let error = git.run().unwrap_err().to_string();
    assert!(error.contains("no-command https://host/x"), "{error}");
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_its_children() {
    let dir = crate::testing::scratch();
    let started = Instant::now();
    let slow = Git::in_dir(dir.path())
        .args(["-c", "alias.slow=!sleep 300", "slow"])
        .limit(Duration::from_millis(200));
    assert!(matches!(slow.output(), Err(RepoError::Timeout { .. })));
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// A hook's watcher holds the output open, and has a session of its own.
#[test]
fn call_does_not_wait_for_processes_that_a_command_leaves_behind() {
    let dir = crate::testing::scratch();
    let left = dir.path().join("left");
    let alias = format!(
        "alias.bg=!setsid sleep 300 & echo $! >{} ; echo done",
        left.display()
    );
    let started = Instant::now();
    let output = Git::in_dir(dir.path()).args(["-c", &alias, "bg"]).run();
    let pid = std::fs::read_to_string(&left)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).unwrap();
    assert_eq!(output.unwrap().text(), "done");
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// A hook's background work prints more than a pipe holds, after git has ended.
#[test]
fn processes_that_a_command_leaves_behind_run_on() {
    let dir = crate::testing::scratch();
    let (ended, done) = (dir.path().join("ended"), dir.path().join("done"));
    let alias = format!(
        "alias.bg=!sh -c 'until test -e {}; do sleep 0.01; done; head -c 200000 /dev/zero && \
         head -c 200000 /dev/zero >&2 && touch {}' & echo done; echo told >/dev/stderr; echo all >&2",
        ended.display(),
        done.display()
    );
    let output = Git::in_dir(dir.path()).args(["-c", &alias, "bg"]).run();
    let output = output.unwrap();
    assert_eq!(
        (output.text(), &*output.stderr),
        ("done".into(), "told\nall\n")
    );
    std::fs::write(&ended, "").unwrap();
    eventually("its own end", || done.exists().then_some(()));
}

/// More than a pipe holds, in both directions at once.
#[test]
fn it_is_fed_while_it_prints() {
    let dir = crate::testing::scratch();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let copied = Git::in_dir(dir.path())
        .args(["-c", "alias.copy=!cat", "copy"])
        .stdin(bytes.clone());
    assert!(copied.run().unwrap().stdout == bytes);
    // A command that reads nothing decides itself whether that is an error.
    let deaf = Git::in_dir(dir.path()).args(["-c", "alias.deaf=!true", "deaf"]);
    assert!(deaf.stdin(bytes).run().is_ok());
}

#[test]
fn failure_carries_the_message_of_git() {
    let dir = crate::testing::scratch();
    let error = Git::in_dir(dir.path())
        .args(["rev-parse", "HEAD"])
        .run()
        .unwrap_err();
    assert!(
        error.to_string().contains("not a git repository"),
        "{error}"
    );
}
