//! git as an agent uses it, with nothing of the machine's configuration.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::adapters::git::command::program;

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .arg("-C")
        .arg(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a PATH"))
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_EDITOR", "true")
        .env("LC_ALL", "C")
        .args(args);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ada");
        command.env(format!("GIT_{role}_EMAIL"), "ada@example.invalid");
    }
    command
}

/// Runs git and returns whatever it came to: an agent may be refused.
pub fn try_git(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("git runs")
}

/// Runs git, which must succeed.
pub fn git(dir: &Path, args: &[&str]) {
    let output = try_git(dir, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?} in {dir:?}: {said}");
}

/// Runs git with this input; it must succeed.
pub fn feed_git(dir: &Path, args: &[&str], input: &str) {
    let mut child = command(dir, args)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(input.as_bytes()).expect("fed");
    drop(pipe);
    assert!(
        child.wait().expect("ended").success(),
        "git {args:?} in {dir:?}"
    );
}
