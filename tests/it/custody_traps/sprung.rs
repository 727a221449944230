//! Proofs that traps work whose programs git runs only at a terminal, with an editor or with a password.

use std::fs;

use super::Wires;
use crate::support::git::{git, git_on_terminal, try_feed_git};

/// Removes the mark, runs the command and asserts that it ran the program.
fn springs<T: std::fmt::Debug>(wires: &Wires, key: &str, run: impl FnOnce() -> T) {
    fs::remove_file(&wires.mark).ok();
    let output = run();
    assert!(wires.mark.exists(), "{key}: no trap: {output:?}");
}

/// Each pager at a terminal, each editor in a worktree of its own, whose commits are gone afterwards.
pub(super) fn pagers_and_editors(wires: &Wires) {
    let elsewhere = wires.city.root().join("elsewhere");
    let place = elsewhere.to_str().unwrap();
    let sandbox = &wires.sandbox;
    git(sandbox, &["worktree", "add", "-q", "--detach", place]);
    for (key, dir, command) in [
        ("core.pager", sandbox, &["diff", "HEAD~1"][..]),
        ("pager.log", sandbox, &["log"]),
        ("core.editor", &elsewhere, &["commit", "--allow-empty"]),
        ("sequence.editor", &elsewhere, &["rebase", "-i", "HEAD~1"]),
        (
            "interactive.diffFilter",
            sandbox,
            &["-c", "color.ui=always", "add", "-p"],
        ),
    ] {
        springs(wires, key, || git_on_terminal(dir, command));
    }
    git(sandbox, &["worktree", "remove", "--force", place]);
}

/// The helper alone, and the program that asks for a password alone.
pub(super) fn credentials(wires: &Wires) {
    let asked = "protocol=https\nhost=example.invalid\n\n";
    for (key, other) in [
        ("credential.helper", "core.askPass=true"),
        ("core.askPass", "credential.helper="),
    ] {
        let fill = ["-c", other, "credential", "fill"];
        springs(wires, key, || try_feed_git(&wires.sandbox, &fill, asked));
    }
}
