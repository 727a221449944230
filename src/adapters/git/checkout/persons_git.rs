//! git commands of a person in a checkout that is about to move. `git switch -c`, `git checkout` and `git reset` read the branch
//! before they take git's locks, and some change HEAD after they released the lock of the index: the locks alone do not keep them
//! out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::bytes;
use super::super::locks::works_in;
use crate::adapters::proc::{self, Pidfd, Stat};
use crate::domain::facts::ProcessId;

/// The longest wait for a command to end: with the locks held it fails soon.
const PATIENCE: Duration = Duration::from_secs(2);
/// A command counts while it is younger than this. Later it waits for a pager, an editor or a network, or has a file that tells.
const YOUNG: Duration = Duration::from_secs(60);
/// A command that is not known, such as an alias, counts while it is younger than this.
const YOUNG_UNKNOWN: Duration = Duration::from_secs(10);

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

/// Commands that take locks, and compare the branch when they move it. An editor keeps some for hours.
const COMPARING: &[&str] = &[
    "add",
    "commit",
    "config",
    "diff",
    "fetch",
    "gc",
    "maintenance",
    "push",
    "reflog",
    "status",
    "tag",
];

/// Commands that only look, and renew the index meanwhile. A pager keeps some for hours.
const RENEWING: &[&str] = &["diff", "status"];

/// Commands that only read. A pager keeps some for hours.
const READING: &[&str] = &[
    "blame",
    "cat-file",
    "credential-cache--daemon",
    "difftool",
    "fsmonitor--daemon",
    "grep",
    "gui",
    "log",
    "ls-files",
    "rev-list",
    "rev-parse",
    "show",
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
            Ok(None) => !left.is_zero(),
            Err(_) => false,
        };
        if !ended {
            return Err(format!("`git {name}` (process {})", process.pid));
        }
    }
    Ok(())
}

/// Returns the git command that works in these directories, and may have taken a lock of this age: of the index, which commands that
/// only look renew, too, or of a ref. In doubt it may be any.
pub(super) fn lock_holder(places: &[&Path], age: Duration, is_index: bool) -> Option<String> {
    let Ok(all) = proc::all() else {
        return Some("a git command".to_owned());
    };
    let takes = |name: &str| {
        let only_looks = READING.contains(&name) || (!is_index && RENEWING.contains(&name));
        !only_looks
    };
    let real: Vec<_> = places.iter().map(|it| it.canonicalize()).collect();
    all.iter().find_map(|(pid, stat)| {
        let is_older = stat.lives() && proc::age(stat) + Duration::from_secs(1) >= age;
        let is_there = |place: &io::Result<PathBuf>| match place {
            Ok(place) => works_in(*pid, place),
            Err(_) => true,
        };
        if !is_older || !real.iter().any(is_there) {
            return None;
        }
        match command(*pid) {
            None => Some(format!("git (process {pid})")),
            Some(name) if takes(&name) => Some(format!("`git {name}` (process {pid})")),
            Some(_) => None,
        }
    })
}

/// Returns true if a process is a git that writes files of a checkout.
pub(super) fn is_writer(pid: u32) -> bool {
    let writes = ["read-tree", "checkout-index", "checkout--worker"];
    command(pid).is_some_and(|name| writes.contains(&name.as_str()))
}

/// Returns a git command that may move HEAD, its branch or the index, and its name; none when processes cannot be listed: the locks
/// are held all the same. Those of this process do not count.
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
        let is_there = stat.lives() && real.iter().any(|place| is_git_in(*pid, place));
        let name = is_there.then(|| command(*pid)).flatten()?;
        let process = ProcessId {
            pid: *pid,
            started: stat.started,
        };
        (is_moving(&name, stat) && !is_own(*pid)).then_some((process, name))
    })
}

fn is_moving(name: &str, stat: &Stat) -> bool {
    let limit = match name {
        name if MOVING.contains(&name) => YOUNG,
        name if COMPARING.contains(&name) || READING.contains(&name) => Duration::ZERO,
        _ => YOUNG_UNKNOWN,
    };
    proc::age(stat) < limit
}

/// Returns true if a process is a git of this worktree, and not of a repository in it. Another user's is not visible.
fn is_git_in(pid: u32, place: &Path) -> bool {
    let of = |name: &str| format!("/proc/{pid}/{name}");
    let name = fs::read(of("comm")).unwrap_or_default();
    let Ok(here) = fs::read_link(of("cwd")).map(|dir| (name.starts_with(b"git")).then_some(dir))
    else {
        return false;
    };
    let mut above = here.iter().flat_map(|dir| dir.ancestors());
    above.find(|dir| dir.join(".git").exists()) == Some(place)
}

/// Returns the name of a process's git command; that of a list is `log`.
fn command(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = bytes::split(&line).skip(1);
    while let Some(word) = words.next() {
        match word {
            // Their values follow.
            b"-C" | b"-c" | b"--git-dir" | b"--work-tree" | b"--namespace" => drop(words.next()),
            _ if word.starts_with(b"-") => {}
            // A list of them, in a pager.
            b"stash" | b"branch" | b"worktree" => {
                let is_list = match words.next() {
                    Some(next) => matches!(next, b"list" | b"show"),
                    None => word == b"branch",
                };
                return Some(if is_list {
                    "log".to_owned()
                } else {
                    bytes::lossy(word)
                });
            }
            _ => return Some(bytes::lossy(word)),
        }
    }
    None
}
