//! A raider can look at the earlier attempt that its task tells of: the printed commands run in its sandbox, whatever
//! git has removed from the agents' repository meanwhile.

use std::fs;
use std::process::Command;

use crate::support::git::{commit_all, git, rev, write};
use crate::support::live::{City, until};
use crate::support::plan::Plan;

/// Has a relic worked on by these steps, gives the attempt up and salvages it, and charges the relic again. Returns the
/// text about it in the next raider's task, and the output of each of its commands.
fn told_after(steps: &[&str]) -> (String, Vec<String>) {
    let city = City::new();
    let again = ["[ $n = 1 ] || { sign again; forever; }"];
    let relic = city.work(
        "an attempt",
        &[&again, steps, &["sign ready", "forever"]].concat(),
    );
    city.wait_sign("ready");
    let nuke = ["raider", "nuke", "Toast", "--salvage", "--yes"];
    assert_eq!(city.hd(&nuke).code, 0);
    city.charge(&relic);
    city.wait_sign("again");
    let told = task(&city, &relic);
    (told.clone(), printed(&city, &told))
}

/// Returns the sandbox of a relic's raider, and the part of its task file about earlier attempts.
fn task(city: &City, relic: &str) -> String {
    let raiders = city.raiders();
    let raider = raiders.iter().find(|raider| raider["hook"] == relic);
    let sandbox = raider.expect("a raider")["sandbox"].as_str().unwrap();
    let task = fs::read_to_string(format!("{sandbox}/TASK.md")).unwrap();
    let (_, told) = task.split_once("## What happened before").expect("a part");
    let told = told.split("## How to finish").next().unwrap();
    format!("{sandbox}\n{told}")
}

/// Runs every command of git in the text. Returns the output of each.
fn printed(city: &City, told: &str) -> Vec<String> {
    // Unreachable objects of theirs are gone.
    let theirs = city.root().join("horde/repo.git");
    git(&theirs, &["reflog", "expire", "--expire=now", "--all"]);
    git(&theirs, &["gc", "--quiet", "--prune=now"]);
    let (sandbox, told) = told.split_once('\n').unwrap();
    let quoted = told.split('`').skip(1).step_by(2);
    let commands = quoted.filter(|quoted| quoted.starts_with("git "));
    let run = |command: &str| {
        let mut shell = Command::new("sh");
        let shell = shell.arg("-c").arg(command).current_dir(sandbox);
        let ran = shell.env("GIT_PAGER", "cat").output().unwrap();
        assert!(ran.status.success(), "{command}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    commands.map(run).collect()
}

#[test]
fn commits_and_files_of_a_salvaged_attempt_are_shown_by_the_commands_of_the_task() {
    let (told, shown) = told_after(&[
        "commit committed.txt 'a line of a commit'",
        "printf 'changed\\n' >README",
        "mkdir -p deep",
        "printf 'in no commit\\n' >deep/untracked.txt",
    ]);
    let [log, diff] = &shown[..] else {
        panic!("{told}: {shown:?}");
    };
    assert!(log.contains("+a line of a commit"), "{log}");
    assert!(!log.contains("in no commit"), "{log}");
    for part in ["+in no commit", "deep/untracked.txt", "+changed"] {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    assert!(!diff.contains("committed.txt"), "{diff}");
}

#[test]
fn attempt_that_only_left_files_is_said_to_have_no_commit() {
    let (told, shown) = told_after(&["printf 'in no commit\\n' >untracked.txt", "rm README"]);
    assert!(told.contains("no new commit"), "{told}");
    let [diff] = &shown[..] else {
        panic!("{told}: {shown:?}");
    };
    for part in ["+in no commit", "deleted file", "README"] {
        assert!(diff.contains(part), "{part}: {diff}");
    }
}

#[test]
fn attempt_that_committed_all_of_its_files_is_said_to_have() {
    let (told, shown) = told_after(&["commit committed.txt 'a line of a commit'"]);
    assert!(told.contains("no commit of other files"), "{told}");
    assert_eq!(shown.len(), 1, "{told}");
    assert!(shown[0].contains("+a line of a commit"), "{shown:?}");
}

/// `git reset --hard` leaves the commits to the reflog: they are saved, and the next raider is told of them.
#[test]
fn commits_that_an_attempt_reset_away_are_shown_by_the_commands_of_the_task() {
    let (told, shown) = told_after(&[
        "commit reset.txt 'a line that was reset away'",
        "git reset --hard HEAD~1",
    ]);
    assert!(told.contains("its branch had left"), "{told}");
    let line = "+a line that was reset away";
    assert!(shown.iter().any(|text| text.contains(line)), "{shown:?}");
}

/// A commit that the target had when the attempt began, and that was taken off it since, is no work of the attempt.
#[test]
fn rejected_attempt_is_shown_without_commits_removed_from_its_target() {
    let plan = Plan::new().set("forge", "review", r#""human""#);
    let mut city = City::made(&plan);
    let other = city.root().join("other");
    let origin = city.origin().display().to_string();
    git(city.root(), &["clone", "--quiet", &origin, "other"]);
    let before = rev(&other, "HEAD");
    write(&other, "secret.txt", "taken back\n");
    commit_all(&other, "It is taken back later");
    git(&other, &["push", "--quiet", "origin", "HEAD:main"]);
    city.start();
    let relic = city.work(
        "an attempt",
        &[
            "[ $n = 1 ] || { sign again; forever; }",
            "commit committed.txt 'a line of a commit'",
            "hd done",
        ],
    );
    let mut id = String::new();
    until("it waits for a person", || {
        let all = city.hd(&["mq", "list"]).json();
        let mr = all[0].clone();
        id = mr["id"].as_str().unwrap_or_default().to_owned();
        mr["note"].as_str().unwrap_or("").contains("approve")
    });
    let back = format!("{before}:main");
    git(&other, &["push", "--quiet", "--force", "origin", &back]);
    let rejected = city.hd(&["--yes", "mq", "reject", &id, "--note", "not so"]);
    assert_eq!(rejected.code, 0, "{rejected:?}");
    city.wait_sign("again");
    let told = task(&city, &relic);
    let shown = printed(&city, &told);
    assert_eq!(shown.len(), 1, "{told}");
    assert!(shown[0].contains("+a line of a commit"), "{shown:?}");
    assert!(!shown[0].contains("being undone"), "{shown:?}");
}
