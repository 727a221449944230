//! Tests of gates, on real worktrees and processes.

mod links;
mod stop;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::run_gate;
use crate::adapters::git::testing::Rigged;
use crate::adapters::runs::{ERRAND, TOKEN};
use crate::domain::ids::Oid;
use crate::ports::repo::{GateRun, GateSpec};
use crate::testing::program;
use crate::testing::tier;

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

/// Returns true if a process lives and is not a zombie.
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
fn gate_has_the_given_environment_only() {
    let rig = Rigged::new();
    let run = gate(&rig, &rig.base, "env");
    let mut names: Vec<&str> = run
        .tail
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    // The shell sets these itself.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    // It is there once a daemon, or another test, has named its city.
    names.retain(|name| *name != ERRAND);
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
fn processes_of_a_passing_gate_are_ended_too() {
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

/// A git that trusts an index saw no change: in this run, and in each that followed.
#[test]
fn gate_that_has_git_overlook_files_is_found_out() {
    let rig = Rigged::new();
    let commit = rig.commit(&rig.base, &[("a", "a\n"), ("b", "b\n"), ("c", "c\n")]);
    let hostile = "for index in \"$BESIDE\" \"$OURS/horde/gate/gate-0.index\"; do\n\
                   test -f $index || continue; export GIT_DIR=$OURS GIT_INDEX_FILE=$index\n\
                   git --work-tree=. update-index --assume-unchanged a\n\
                   git --work-tree=. update-index --skip-worktree b; done\n\
                   echo x > a; echo x > b; touch c";
    let mut hostile = spec(&rig, hostile, LONG);
    let tree = worktree(&rig);
    let text = |path: PathBuf| path.display().to_string();
    let beside = text(tree.with_extension("index"));
    hostile.env.insert("BESIDE".into(), beside);
    let ours = text(rig.repo.repo_dir().to_owned());
    hostile.env.insert("OURS".into(), ours);
    for _ in 0..2 {
        let run = run_gate(&rig.repo, &commit, &hostile).unwrap();
        assert_eq!(
            (run.code, run.changed),
            (Some(0), vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(run.tree.unwrap().as_str(), rig.tree(&commit));
        passes(&rig, &commit, "test \"$(cat a b)\" = \"$(printf 'a\\nb')\"");
    }
    assert!(!tree.with_extension("index").exists());
}

/// A converted file is written once, and not for each run: builds depend on the times of files.
#[test]
fn converted_files_match_the_output_of_git() {
    let rig = Rigged::new();
    let commit = rig.commit(
        &rig.base,
        &[("crlf", "a\nb\n"), (".gitattributes", "crlf eol=crlf\n")],
    );
    passes(&rig, &commit, "grep -q '\r' crlf");
    let made = || {
        fs::metadata(worktree(&rig).join("crlf"))
            .unwrap()
            .modified()
            .unwrap()
    };
    let before = made();
    passes(&rig, &commit, "touch -c file");
    assert_eq!(made(), before);
    let changes = |run: &str| gate(&rig, &commit, run).changed;
    assert_eq!(changes("printf 'a\\nb\\n' > crlf"), ["crlf"]);
    assert_eq!(changes("chmod +x crlf"), ["crlf"]);
    passes(
        &rig,
        &commit,
        "test \"$(tr -d '\\r' < crlf)\" = \"$(printf 'a\\nb')\" && grep -q '\r' crlf",
    );
}

#[test]
fn files_that_no_checkout_makes_clean_are_no_change() {
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
    let index = rig.repo.repo_dir().join("horde/gate/gate-0.index");
    let good = "test -f a && test -f dir/b && git status --porcelain | cmp - /dev/null";
    fs::write(index.with_extension("index.lock"), "").unwrap();
    fs::write(tree.join(".git/HEAD.lock"), "").unwrap();
    fs::remove_file(tree.join("a")).unwrap();
    passes(&rig, &commit, good);
    fs::write(&index, "no index").unwrap();
    passes(&rig, &commit, good);
    fs::remove_file(&index).unwrap();
    passes(&rig, &commit, good);
    fs::remove_dir_all(&tree).unwrap();
    passes(&rig, &commit, good);
    fs::create_dir_all(tree.join("locked/inner")).unwrap();
    fs::set_permissions(tree.join("locked"), fs::Permissions::from_mode(0o500)).unwrap();
    passes(&rig, &commit, good);
    fs::remove_dir_all(tree.join(".git")).unwrap();
    passes(&rig, &commit, good);
}

#[test]
fn another_repository_is_never_touched() {
    let rig = Rigged::local();
    passes(&rig, &rig.base, "true");
    let precious = rig.origin().join("precious");
    fs::write(&precious, "mine\n").unwrap();
    let theirs = rig.origin().join(".git");
    let become_theirs = format!("rm -rf .git; echo 'gitdir: {}' > .git", theirs.display());
    passes(&rig, &rig.base, &become_theirs);
    passes(&rig, &rig.base, "test -f file");
    let become_theirs = format!("rm -rf .git; ln -s '{}' .git", theirs.display());
    passes(&rig, &rig.base, &become_theirs);
    passes(
        &rig,
        &rig.base,
        "test -f file && test \"$(git rev-parse HEAD)\" != '' && test ! -L .git",
    );
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine\n");
    assert!(theirs.join("HEAD").exists());
}

/// A gate puts a link in place of a directory of the next commit, or of the work tree. The files behind the link
/// stay.
#[test]
fn nothing_is_removed_behind_a_link() {
    let rig = Rigged::new();
    let home = rig.path("home");
    fs::create_dir_all(home.join("lib/.git")).unwrap();
    fs::write(home.join("lib/.git/HEAD"), "mine\n").unwrap();
    fs::write(home.join("lib/work"), "mine\n").unwrap();
    let kept = || {
        assert_eq!(fs::read(home.join("lib/.git/HEAD")).unwrap(), b"mine\n");
        assert_eq!(fs::read(home.join("lib/work")).unwrap(), b"mine\n");
    };
    let commit = rig.commit(&rig.base, &[("vendor/lib/a", "a\n")]);
    let check = "test -f vendor/lib/a && test ! -L vendor/lib && test ! -e vendor/lib/.git";
    let linked = format!("rm -rf vendor; ln -s '{}' vendor", home.display());
    let deeper = format!(
        "rm -rf vendor/lib; ln -s '{}/lib' vendor/lib",
        home.display()
    );
    let moved = format!(
        "cd ..; mv gate-0 \"$OUT-$$\"; ln -s '{}/lib' gate-0",
        home.display()
    );
    for left in [linked, deeper, moved] {
        let run = gate(&rig, &commit, &left);
        assert!(!run.changed.is_empty(), "{left}");
        kept();
        passes(&rig, &commit, check);
        kept();
    }
    // git makes the directory again when it searches for changes.
    passes(&rig, &rig.base, "ln -s \"$OUT\" vendor");
    std::os::unix::fs::symlink(home.join("lib"), rig.path("out")).unwrap();
    passes(&rig, &commit, check);
    passes(&rig, &commit, "mkdir vendor/lib/.git");
    passes(&rig, &commit, check);
    kept();
}

/// Scripts of gates, each with a flag that it changes tracked files.
const LEFT: &[(&str, bool)] = &[
    ("echo x > a; echo y > new", true),
    ("echo x > a; git add -A", true),
    ("echo x > new; git add new; git commit -qm new", false),
    (
        "echo x > a; git commit -qam x; git checkout -q --detach HEAD~1",
        false,
    ),
    ("git rm -q a; git commit -qm gone", true),
    (
        "git checkout -q -b other; echo x > a; git commit -qam x",
        true,
    ),
    ("git update-index --assume-unchanged a; echo x > a", true),
    (
        "git config core.trustctime false; git config core.checkStat minimal; cp -p a b; echo x > a; touch -r b a",
        true,
    ),
    ("git config core.fileMode false; chmod +x a", true),
    (
        "printf '* filter=evil\\n' > .git/info/attributes; git config filter.evil.smudge 'echo evil'; rm a; git checkout a",
        true,
    ),
    ("mkdir -p dir; git init -q dir; git -C dir add b", false),
    ("git init -q new/nested; touch new/nested/x", false),
    (
        "rm -rf .git; git init -q .; git add -A; git commit -qm mine",
        false,
    ),
    (
        "mkdir -p .git/hooks; printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        false,
    ),
    (
        "printf a > cache; touch .git/index.lock .git/HEAD.lock",
        false,
    ),
    (
        "git replace HEAD \"$(git commit-tree HEAD^{tree} -m x)\"",
        false,
    ),
    ("rm -rf a dir .git", true),
];

/// Remains of a gate must not reach the next one: otherwise main itself would seem red. `cargo test` runs a part of
/// the cases.
/// Case B3 of an adversary: gates that edit, commit, delete and make repositories.
#[test]
fn whatever_a_gate_leaves_is_gone_before_the_next_run() {
    let rig = Rigged::new();
    let commit = rig.commit(
        &rig.base,
        &[(".gitignore", "cache\n"), ("a", "a\n"), ("dir/b", "b\n")],
    );
    let untouched = "set -e; test \"$(cat a dir/b)\" = \"$(printf 'a\\nb')\"; test -z \"$(git status --porcelain)\"\n\
                     test ! -e new; test ! -e dir/.git; test ! -e .git/hooks/pre-commit; git fsck --no-dangling\n\
                     test \"$(git rev-parse HEAD)\" = \"$(git rev-parse \"$WANTED\")\"; test -z \"$(git for-each-ref refs/heads)\"";
    let clean = || {
        let mut spec = spec(&rig, untouched, LONG);
        spec.env.insert("WANTED".into(), commit.to_string());
        let run = run_gate(&rig.repo, &commit, &spec).unwrap();
        assert_eq!(run.code, Some(0), "{}", run.tail);
        assert_eq!(run.tree.unwrap().as_str(), rig.tree(&commit));
    };
    clean();
    // In the environment, because some of these make a new repository.
    let who =
        "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x;";
    let all = LEFT.iter().enumerate();
    for (_, (left, changes)) in all.filter(|(place, _)| tier::takes(*place, 4)) {
        let run = gate(&rig, &commit, &format!("{who} {left}"));
        assert_eq!(run.code, Some(0), "{left}: {}", run.tail);
        assert_eq!(
            !run.changed.is_empty(),
            *changes,
            "{left}: {:?}",
            run.changed
        );
        clean();
    }
    // Nothing came into the supervisor's repository.
    let refs = rig.repo.git().arg("for-each-ref").run().unwrap().text();
    assert!(
        !refs.contains("other") && !refs.contains("replace"),
        "{refs}"
    );
    passes(&rig, &rig.base, "test \"$(ls)\" = file");
}

/// No gate sees an agent's replacement of a file or of a whole tree.
/// Case B2-blob of an adversary: a replaced blob shows the gate other bytes than land.
/// Case B2-tree of an adversary: another raider replaces a tree.
#[test]
fn gate_sees_the_bytes_that_land_whatever_is_replaced() {
    let rig = Rigged::new();
    let git = |args: &[&str]| rig.repo.git().args(args).run().unwrap().text();
    let bad = rig.commit(&rig.base, &[("a", "BAD\n")]);
    let good = rig.commit(&rig.base, &[("a", "good\n")]);
    let object = |commit: &Oid, what: &str| git(&["rev-parse", &format!("{commit}{what}")]);
    for what in [":a", "^{tree}", "^0"] {
        git(&["replace", "-f", &object(&bad, what), &object(&good, what)]);
        let run = gate(&rig, &bad, "cat a");
        assert_eq!(run.tail, "BAD\n", "{what}");
        assert_eq!(run.tree.unwrap().as_str(), object(&bad, "^{tree}"));
        git(&["replace", "-d", &object(&bad, what)]);
    }
}

/// A gate may ask for the remote's branches and for tags; it cannot push.
#[test]
fn gate_has_the_history_and_cannot_push_by_accident() {
    let rig = Rigged::new();
    let commit = rig.commit(&rig.base, &[("a", "a\n")]);
    rig.repo
        .git()
        .args(["fetch", "-q", "origin"])
        .run()
        .unwrap();
    rig.repo
        .git()
        .args(["tag", "v1", rig.base.as_str()])
        .run()
        .unwrap();
    let ask = "set -e; git describe --tags; git diff --name-only origin/main...HEAD; git log --format=%an";
    let run = gate(&rig, &commit, ask);
    assert_eq!(run.code, Some(0), "{}", run.tail);
    assert!(run.tail.starts_with("v1-1-g"), "{}", run.tail);
    assert!(run.tail.ends_with("\na\nAnn\nAnn\n"), "{}", run.tail);
    let run = gate(&rig, &commit, "git push -q origin HEAD:refs/heads/stolen");
    assert_ne!(run.code, Some(0));
    assert_eq!(rig.at("stolen"), None);
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
        program::script(&hooks.join(name), &script);
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
    let record = rig.repo.repo_dir().join("horde/gate/runs/1-2-3");
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
    let file = fs::File::create(rig.repo.repo_dir().join("horde/gate/gate-0.lock")).unwrap();
    file.try_lock().unwrap();
    let error = run_gate(&rig.repo, &rig.base, &spec(&rig, "true", LONG)).unwrap_err();
    assert!(error.to_string().contains("another gate runs"), "{error}");
}
