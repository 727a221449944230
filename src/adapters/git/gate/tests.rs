//! Gates, on real worktrees and processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::run_gate;
use crate::adapters::git::testing::{Rigged, executable};
use crate::adapters::runs::TOKEN;
use crate::domain::ids::Oid;
use crate::ports::repo::{GateRun, GateSpec};

const LONG: Duration = Duration::from_secs(300);

fn spec(rig: &Rigged, run: &str, timeout: Duration) -> GateSpec {
    GateSpec {
        name: "unit tests".into(),
        run: run.into(),
        timeout,
        env: [
            ("PATH", "/usr/bin:/bin"),
            ("OUT", rig.path("out").to_str().unwrap()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        log_dir: rig.path("logs"),
    }
}

fn gate(rig: &Rigged, commit: &Oid, run: &str) -> GateRun {
    run_gate(&rig.repo, commit, &spec(rig, run, LONG)).unwrap()
}

fn passes(rig: &Rigged, commit: &Oid, run: &str) {
    let run = gate(rig, commit, run);
    assert_eq!(run.code, Some(0), "{}", run.tail);
    assert!(run.changed.is_empty(), "{:?}", run.changed);
}

fn worktree(rig: &Rigged) -> PathBuf {
    rig.repo.forge_dir().join("gate-0")
}

/// Whether a process is there and not only waits to be reaped.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

#[test]
fn a_gate_says_how_it_ended() {
    let rig = Rigged::new();
    let run = gate(&rig, &rig.base, "echo out; echo err >&2; exit 3");
    assert_eq!(
        (run.code, run.signal, run.timed_out),
        (Some(3), None, false)
    );
    assert_eq!(run.tail, "out\nerr\n");
    assert_eq!(fs::read_to_string(&run.log).unwrap(), "out\nerr\n");
    assert_eq!(gate(&rig, &rig.base, "exit 0").code, Some(0));
    assert_eq!(gate(&rig, &rig.base, "no-such-command").code, Some(127));
    assert_eq!(gate(&rig, &rig.base, "kill -9 $$").signal, Some(9));
    assert_eq!(gate(&rig, &rig.base, "").code, Some(0));
}

#[test]
fn its_environment_is_what_was_given() {
    let rig = Rigged::new();
    let run = gate(&rig, &rig.base, "env");
    let mut names: Vec<&str> = run
        .tail
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    // The shell sets these itself.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, [TOKEN, "OUT", "PATH"]);
    let run = gate(&rig, &rig.base, "cat; ! test -t 0");
    assert_eq!((run.code, run.tail.as_str()), (Some(0), ""));
}

#[test]
fn its_time_is_limited_and_nothing_of_it_survives() {
    let rig = Rigged::new();
    let run = "setsid sh -c 'trap \"\" TERM; echo $$ > \"$OUT\"; sleep 300' & \
               while ! test -s \"$OUT\"; do :; done; echo ready; sleep 300";
    let started = Instant::now();
    let run = run_gate(
        &rig.repo,
        &rig.base,
        &spec(&rig, run, Duration::from_secs(2)),
    )
    .unwrap();
    assert!(run.timed_out);
    assert_eq!(run.code, None);
    assert_eq!(run.tail, "ready\n");
    assert!(started.elapsed() < Duration::from_secs(60));
    assert!(!lives(&fs::read_to_string(rig.path("out")).unwrap()));
}

#[test]
fn what_a_passing_gate_leaves_running_is_ended_too() {
    let rig = Rigged::new();
    let run = "setsid sleep 300 & echo $! > \"$OUT\"; sleep 300 & echo $! >> \"$OUT\"";
    passes(&rig, &rig.base, run);
    let pids = fs::read_to_string(rig.path("out")).unwrap();
    assert_eq!(pids.lines().count(), 2);
    assert!(!pids.lines().any(lives));
}

#[test]
fn the_tree_is_exact_and_caches_stay() {
    let rig = Rigged::new();
    let one = rig.commit(
        &rig.base,
        &[(".gitignore", "cache\n"), ("dir/a", "a\n"), ("b", "b\n")],
    );
    let two = rig.commit(&one, &[("dir/a", ""), ("b", ""), ("e/c", "c\n")]);
    let before = "test -f dir/a && test -f b && echo x > cache && echo y > junk && mkdir new";
    passes(&rig, &one, before);
    passes(
        &rig,
        &two,
        "! test -e dir && test -f e/c && ! test -e b && test -f cache && ! test -e junk && ! test -e new",
    );
    passes(&rig, &one, "test -f dir/a && test -f b");
    passes(&rig, &rig.base, "test \"$(ls)\" = file");
}

#[test]
fn a_gate_that_edits_the_tree_is_found_out() {
    let rig = Rigged::new();
    let commit = rig.commit(&rig.base, &[("a", "a\n"), ("b", "b\n")]);
    for run in [
        "echo x > a; rm b; echo new > untracked",
        "echo x > a; git rm -q b; git -c user.name=x -c user.email=x commit -qam x",
        "git checkout -q -b other; git rm -q b; echo x > a",
    ] {
        assert_eq!(gate(&rig, &commit, run).changed, ["a", "b"], "{run}");
        passes(&rig, &commit, "test \"$(cat a b)\" = \"$(printf 'a\\nb')\"");
    }
}

#[test]
fn files_that_no_checkout_makes_clean_are_nobodys_change() {
    let rig = Rigged::new();
    let commit = rig.commit(
        &rig.base,
        &[("crlf", "a\r\nb\r\n"), (".gitattributes", "* text=auto\n")],
    );
    passes(&rig, &commit, "true");
    let run = gate(&rig, &commit, "touch crlf; echo more >> file");
    assert_eq!(run.changed, ["file"]);
}

#[test]
fn a_broken_worktree_is_mended() {
    let rig = Rigged::new();
    let commit = rig.commit(&rig.base, &[("a", "a\n"), ("dir/b", "b\n")]);
    passes(&rig, &commit, "true");
    let tree = worktree(&rig);
    let admin = rig.repo.repo_dir().join("worktrees/gate-0");
    let good = "test -f a && test -f dir/b && git status --porcelain | cmp - /dev/null";
    fs::write(admin.join("index.lock"), "").unwrap();
    fs::write(admin.join("HEAD.lock"), "").unwrap();
    fs::remove_file(tree.join("a")).unwrap();
    passes(&rig, &commit, good);
    fs::write(admin.join("index"), "no index").unwrap();
    passes(&rig, &commit, good);
    fs::remove_dir_all(rig.repo.repo_dir().join("worktrees")).unwrap();
    passes(&rig, &commit, good);
    fs::remove_dir_all(&tree).unwrap();
    passes(&rig, &commit, good);
    fs::create_dir_all(tree.join("locked/inner")).unwrap();
    fs::set_permissions(tree.join("locked"), fs::Permissions::from_mode(0o500)).unwrap();
    passes(&rig, &commit, good);
    fs::remove_file(tree.join(".git")).unwrap();
    passes(&rig, &commit, good);
}

#[test]
fn another_repository_is_never_touched() {
    let rig = Rigged::local();
    passes(&rig, &rig.base, "true");
    let precious = rig.origin().join("precious");
    fs::write(&precious, "mine\n").unwrap();
    let link = format!("gitdir: {}", rig.origin().join(".git").display());
    fs::write(worktree(&rig).join(".git"), &link).unwrap();
    passes(&rig, &rig.base, "test -f file");
    let run = gate(&rig, &rig.base, &format!("echo '{link}' > .git"));
    assert_eq!(run.changed, [".git"]);
    passes(&rig, &rig.base, "test -f file");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine\n");
}

#[test]
fn hooks_do_not_run() {
    let rig = Rigged::new();
    let hooks = rig.repo.repo_dir().join("hooks");
    fs::create_dir_all(&hooks).unwrap();
    let marker = rig.path("hooked");
    let script = format!("touch '{}'", marker.display());
    for name in [
        "post-checkout",
        "reference-transaction",
        "post-index-change",
    ] {
        executable(&hooks.join(name), &script);
    }
    passes(&rig, &rig.base, "true");
    assert!(!marker.exists());
}

#[test]
fn a_gate_of_a_killed_daemon_does_not_disturb_the_next() {
    let rig = Rigged::new();
    passes(&rig, &rig.base, "true");
    let mut old = Command::new("sleep")
        .arg("300")
        .env(TOKEN, "1-2-3")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut bystander = Command::new("sleep")
        .arg("300")
        .env(TOKEN, "1-2-33")
        .spawn()
        .unwrap();
    let record = rig.repo.forge_dir().join("runs/1-2-3");
    fs::write(&record, format!("{} 1", bystander.id())).unwrap();
    passes(&rig, &rig.base, "true");
    assert_eq!(old.wait().unwrap().signal(), Some(9));
    assert!(
        bystander.try_wait().unwrap().is_none(),
        "it was no process of that gate"
    );
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(!record.exists());
}

#[test]
fn two_gates_never_share_the_worktree() {
    let rig = Rigged::new();
    passes(&rig, &rig.base, "true");
    let file = fs::File::create(rig.repo.forge_dir().join("gate-0.lock")).unwrap();
    file.try_lock().unwrap();
    let error = run_gate(&rig.repo, &rig.base, &spec(&rig, "true", LONG)).unwrap_err();
    assert!(error.to_string().contains("another gate runs"), "{error}");
}
