//! git commands of a person in a checkout that is about to move. `git switch -c`, `git checkout` and `git reset` read the branch
//! before they take git's locks, and some change HEAD after they released the lock of the index: the locks alone do not keep them
//! out.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::bytes;
use super::super::locks::works_in;
use crate::adapters::proc::{self, Pidfd, Stat};
use crate::domain::facts::ProcessId;

/// The longest wait for a command to end: with the locks held it fails soon.
const PATIENCE: Duration = Duration::from_secs(2);
/// A command that is not known, such as an alias, counts while it is younger than this.
const YOUNG: Duration = Duration::from_secs(10);

/// Commands that change HEAD, its branch or the index.
const MOVING: &[&str] = &[
    "am",
    "bisect",
    "branch",
    "checkout",
    "cherry-pick",
    "merge",
    "pull",
    "rebase",
    "reset",
    "restore",
    "revert",
    "stash",
    "switch",
    "symbolic-ref",
    "update-ref",
    "worktree",
];

/// Commands that change none of them, or compare the branch when they do. A pager or an editor keeps some for hours.
const HARMLESS: &[&str] = &[
    "add",
    "blame",
    "cat-file",
    "commit",
    "config",
    "credential-cache--daemon",
    "diff",
    "difftool",
    "fetch",
    "fsmonitor--daemon",
    "gc",
    "grep",
    "gui",
    "log",
    "ls-files",
    "maintenance",
    "push",
    "reflog",
    "rev-list",
    "rev-parse",
    "show",
    "status",
    "tag",
    "upload-pack",
];

/// Waits until no git command that may move HEAD, its branch or the index works in these directories.
///
/// # Errors
/// The command that did not end in time.
#[expect(clippy::disallowed_methods, reason = "processes end in real time")]
pub(super) fn settle(places: &[&Path]) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while let Some((process, name)) = find(places) {
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = match Pidfd::open(&process) {
            Ok(Some(process)) => process.wait(left).unwrap_or(false),
            _ => !left.is_zero(),
        };
        if !ended {
            return Err(format!("`git {name}` (process {})", process.pid));
        }
    }
    Ok(())
}

/// Returns such a command, and its name. Those of this process do not count.
fn find(places: &[&Path]) -> Option<(ProcessId, String)> {
    let all = proc::all().ok()?;
    let is_own = |pid: u32| {
        let parent = |pid: &u32| all.get(pid).map(|stat| stat.parent);
        let mut above = std::iter::successors(Some(pid), parent).take(all.len());
        above.any(|pid| pid == std::process::id())
    };
    let real: Vec<_> = places
        .iter()
        .filter_map(|it| it.canonicalize().ok())
        .collect();
    all.iter().find_map(|(pid, stat)| {
        let is_there = stat.lives() && real.iter().any(|place| works_in(*pid, place));
        let name = is_there.then(|| command(*pid)).flatten()?;
        let process = ProcessId {
            pid: *pid,
            started: stat.started,
        };
        (is_moving(&name, stat) && !is_own(*pid)).then_some((process, name))
    })
}

fn is_moving(name: &str, stat: &Stat) -> bool {
    MOVING.contains(&name) || (!HARMLESS.contains(&name) && proc::age(stat) < YOUNG)
}

/// Returns the name of a process's git command.
fn command(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = bytes::split(&line).skip(1);
    while let Some(word) = words.next() {
        match word {
            // Their values follow.
            b"-C" | b"-c" | b"--git-dir" | b"--work-tree" | b"--namespace" => drop(words.next()),
            _ if word.starts_with(b"-") => {}
            _ => return Some(bytes::lossy(word)),
        }
    }
    None
}
