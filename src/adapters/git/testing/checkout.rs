//! Tests that a person's checkout moves with its branch, or that the landing waits and names the reason.

use std::fs;
use std::path::PathBuf;

use super::Rigged;
use crate::adapters::git::checkout::included::note;
use crate::adapters::git::checkout::{free, look, turn};
use crate::adapters::git::command::{Git, Output};
use crate::adapters::git::commit_checks;
use crate::adapters::git::land::land;
use crate::adapters::git::remote::fetch_target;
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// Returns the reason why a commit cannot land, and checks that nothing moved.
pub(super) fn busy(rig: &Rigged, new: &Oid) -> (PathBuf, CheckoutBusy) {
    let at = rig.at("main");
    let error = land(&rig.repo, "main", &rig.base, new).unwrap_err();
    assert_eq!(rig.at("main"), at);
    match error {
        RepoError::CheckoutBusy { path, why } => (path, why),
        other => panic!("{other}"),
    }
}

pub(super) fn lands(rig: &Rigged, new: &Oid) {
    land(&rig.repo, "main", &rig.base, new).unwrap();
    assert_eq!(rig.at("main"), Some(new.clone()));
}

pub(super) fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

/// Two supervisors, or two rigs, had moved one checkout at once: it lost files that had landed.
#[test]
fn landing_waits_for_another_one_on_the_same_checkout() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("dir/a", "a\n")]);
    let dir = fs::File::open(rig.origin().join(".git")).unwrap();
    dir.lock().unwrap();
    let (path, why) = busy(&rig, &new);
    let of_another = CheckoutBusy::Landing("supervisor".to_owned());
    assert_eq!((path, why), (rig.origin(), of_another));
    drop(dir);
    lands(&rig, &new);
    let turn = turn(&rig.repo).unwrap().unwrap();
    std::thread::scope(|scope| {
        let next =
            scope.spawn(|| land(&rig.repo, "main", &new, &rig.commit(&new, &[("b", "b\n")])));
        let looked = look(&rig.repo, "main", None).unwrap_err();
        let of_another = CheckoutBusy::Landing("rig".to_owned());
        assert!(
            matches!(&looked, RepoError::CheckoutBusy { why, .. } if *why == of_another),
            "a look waits for nothing: {looked}"
        );
        drop(turn);
        next.join().unwrap().unwrap();
    });
}

#[test]
fn a_checkout_moves_with_its_branch_when_it_is_clean() {
    let rig = Rigged::local();
    let file = rig.origin().join("file");
    let new = rig.commit(&rig.base, &[("file", "1\n2\n3\n4\n"), ("dir/a", "a\n")]);
    fs::write(&file, "mine\n").unwrap();
    let (path, why) = busy(&rig, &new);
    assert_eq!(
        (path, why),
        (rig.origin(), CheckoutBusy::Changed("file".into()))
    );
    let early = free(&rig.repo, "main", None).unwrap_err();
    assert!(
        early.to_string().contains("commit or stash them"),
        "{early}"
    );
    assert_eq!(text(file.clone()), "mine\n");

    fs::write(&file, "1\n2\n3\n").unwrap();
    lands(&rig, &new);
    assert_eq!(text(file), "1\n2\n3\n4\n");
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    let setting = rig.in_origin(&["config", "--list", "--local"]);
    assert!(!setting.contains("denycurrentbranch"), "{setting}");
}

#[test]
fn a_branch_that_is_not_checked_out_just_moves() {
    let rig = Rigged::local();
    rig.in_origin(&["checkout", "-q", "-b", "mine"]);
    fs::write(rig.origin().join("file"), "mine\n").unwrap();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    lands(&rig, &new);
    assert_eq!(text(rig.origin().join("file")), "mine\n");
}

/// The files that a landing adds.
type Landing = &'static [(&'static str, &'static str)];

/// An ignored file belongs to the person like any other: it is never overwritten.
/// Case A81 of an adversary: an ignored `.env` of a person in the way of a landing.
#[test]
fn ignored_or_untracked_file_in_the_way_is_waited_for() {
    let rig = Rigged::local();
    fs::write(rig.origin().join(".git/info/exclude"), ".env\nbuild/\n").unwrap();
    let cases: [(Landing, &str, &str); 4] = [
        (&[(".env", "agents\n")], ".env", ".env"),
        (&[("dir/a", "a\n")], "dir/a", "dir/a"),
        (&[("build/out/x", "x\n")], "build", "build"),
        (&[("notes", "n\n")], "notes/mine", "notes/mine"),
    ];
    for (landing, there, named) in cases {
        let new = rig.commit(&rig.base, landing);
        let place = rig.origin().join(there);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, "mine\n").unwrap();
        let (_, why) = busy(&rig, &new);
        assert_eq!(why, CheckoutBusy::InTheWay(named.into()));
        assert_eq!(text(place.clone()), "mine\n");
        free(&rig.repo, "main", None).unwrap();
        fs::remove_file(&place).unwrap();
        // Without the file, nothing is in the way.
        free(&rig.repo, "main", Some((&rig.base, &new))).unwrap();
    }
    // A tracked file that gives way to a directory is not in the way.
    let removed = rig.commit(&rig.base, &[("file", "")]);
    let new = rig.commit(&removed, &[("file/b", "b\n")]);
    lands(&rig, &new);
    assert_eq!(text(rig.origin().join("file/b")), "b\n");
}

/// A tracked directory that becomes a file would take its ignored files along without this check.
#[test]
fn directory_that_becomes_a_file_keeps_its_untracked_files() {
    let rig = Rigged::local();
    let base = rig.commit(&rig.base, &[("d/a", "a\n")]);
    lands(&rig, &base);
    fs::write(rig.origin().join(".git/info/exclude"), ".env\n").unwrap();
    fs::write(rig.origin().join("d/.env"), "mine\n").unwrap();
    let new = rig.commit(&rig.commit(&base, &[("d/a", "")]), &[("d", "file\n")]);
    let error = land(&rig.repo, "main", &base, &new).unwrap_err();
    assert!(error.to_string().contains("d/.env"), "{error}");
    fs::remove_file(rig.origin().join("d/.env")).unwrap();
    land(&rig.repo, "main", &base, &new).unwrap();
    assert_eq!(text(rig.origin().join("d")), "file\n");
}

/// Flags of the index hide a change from `git status`.
#[test]
fn hidden_change_of_a_file_that_the_landing_changes_is_waited_for() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    rig.in_origin(&["update-index", "--assume-unchanged", "file"]);
    fs::write(rig.origin().join("file"), "mine\n").unwrap();
    let (_, why) = busy(&rig, &new);
    assert_eq!(why, CheckoutBusy::Hidden("file (assume-unchanged)".into()));
    let said = why.to_string();
    assert!(said.contains("`git update-index --no-FLAG FILE`"), "{said}");
    assert_eq!(text(rig.origin().join("file")), "mine\n");
    rig.in_origin(&["update-index", "--no-assume-unchanged", "file"]);
    rig.in_origin(&["update-index", "--skip-worktree", "file"]);
    let (_, why) = busy(&rig, &new);
    assert_eq!(why, CheckoutBusy::Hidden("file (skip-worktree)".into()));
}

/// The command that begins an operation, the operation's name, and the command that ends it.
type Begun = (
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

const BEGUN: &[Begun] = &[
    (
        &["rebase", "-q", "-i", "HEAD~2"],
        "a rebase",
        &["rebase", "--abort"],
    ),
    (
        &["rebase", "-q", "conflicts"],
        "a rebase",
        &["rebase", "--abort"],
    ),
    (
        &["bisect", "start", "HEAD", "HEAD~2"],
        "a bisect",
        &["bisect", "reset"],
    ),
    (&["bisect", "start"], "a bisect", &["bisect", "reset"]),
    (
        &["merge", "-q", "conflicts"],
        "a merge",
        &["merge", "--abort"],
    ),
    (
        &["merge", "-q", "--no-commit", "-s", "ours", "conflicts"],
        "a merge",
        &["merge", "--abort"],
    ),
    (
        &["cherry-pick", "conflicts"],
        "a cherry-pick",
        &["cherry-pick", "--abort"],
    ),
    (&["revert", "HEAD~1"], "a revert", &["revert", "--abort"]),
];

/// Runs the person's git, which edits at every commit of a rebase.
pub(super) fn persons(rig: &Rigged, args: &[&str]) -> Output {
    let settings = ["-c", "user.name=P", "-c", "user.email=p@x"];
    let git = Git::in_dir(&rig.origin()).args(settings).args(args);
    git.env("GIT_SEQUENCE_EDITOR", "sed -i s/^pick/edit/")
        .output()
        .unwrap()
}

/// Makes a checkout with three commits of the person, and a branch that conflicts with them. Returns main, and the
/// commit to land on it.
pub(super) fn at_work(rig: &Rigged) -> (Oid, Oid) {
    for at in 0..3 {
        fs::write(rig.origin().join("own"), format!("{at}\n")).unwrap();
        persons(rig, &["add", "own"]);
        assert!(persons(rig, &["commit", "-qm", "own"]).ok());
    }
    persons(rig, &["branch", "side", "HEAD~2"]);
    let old = rig.at("main").unwrap();
    rig.repo
        .git()
        .args(["fetch", "-q", "origin"])
        .run()
        .unwrap();
    let side = rig.commit(&rig.base, &[("own", "other\n")]);
    rig.foreign_push("conflicts", &side);
    let new = rig.commit(&old, &[("landed", "x\n")]);
    (old, new)
}

/// Any operation in progress is named, and nothing is touched.
/// Case A83 of an adversary: a person is in the middle of a rebase.
/// Case A84 of an adversary: a person is in the middle of a bisect.
#[test]
fn checkout_in_the_middle_of_something_is_waited_for() {
    let rig = Rigged::local();
    let (old, new) = at_work(&rig);
    let state = || {
        let status = rig.in_origin(&["status", "--porcelain"]);
        (
            rig.in_origin(&["rev-parse", "HEAD"]),
            rig.at("main"),
            status,
        )
    };
    for (begin, what, end) in BEGUN {
        persons(&rig, begin);
        let before = state();
        let error = land(&rig.repo, "main", &old, &new).unwrap_err();
        let named = format!("in the middle of {what}");
        assert!(error.to_string().contains(&named), "{begin:?}: {error}");
        let early = free(&rig.repo, "main", None).unwrap_err();
        assert_eq!(early, error, "it is known before anything is tested");
        assert_eq!(before, state());
        assert!(persons(&rig, end).ok(), "{end:?}");
    }
    land(&rig.repo, "main", &old, &new).unwrap();
    assert_eq!(rig.at("main"), Some(new));
}

#[test]
fn checkout_that_applies_a_patch_or_where_git_runs_is_waited_for() {
    let rig = Rigged::local();
    let (old, new) = at_work(&rig);
    let refused = |what: &str| {
        let error = land(&rig.repo, "main", &old, &new).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    let patch = rig.path("patch");
    let output = persons(&rig, &["format-patch", "-1", "--stdout", "conflicts"]);
    fs::write(&patch, output.stdout).unwrap();
    persons(&rig, &["am", "-q", patch.to_str().unwrap()]);
    refused("in the middle of an am");
    persons(&rig, &["am", "--abort"]);
    let lock = rig.origin().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    refused("index.lock");
    fs::remove_file(&lock).unwrap();
    // On another branch, only an operation that checks out main at its end matters.
    persons(&rig, &["checkout", "-q", "side"]);
    persons(&rig, &["cherry-pick", "conflicts"]);
    land(&rig.repo, "main", &old, &new).unwrap();
    assert_eq!(rig.at("main"), Some(new));
}

#[test]
fn linked_worktrees_that_have_the_branch_count_too() {
    let rig = Rigged::local();
    rig.in_origin(&["checkout", "-q", "-b", "mine"]);
    let linked = rig.path("linked");
    rig.in_origin(&["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    fs::write(linked.join("file"), "edited\n").unwrap();
    let (path, why) = busy(&rig, &new);
    assert_eq!(
        (path, why),
        (linked.clone(), CheckoutBusy::Changed("file".into()))
    );
    fs::write(linked.join("file"), "1\n2\n3\n").unwrap();
    // A second worktree with the same branch: only one of them could move.
    rig.in_origin(&["checkout", "-q", "--ignore-other-worktrees", "main"]);
    let (_, why) = busy(&rig, &new);
    assert!(
        matches!(&why, CheckoutBusy::Several(paths) if paths.contains("linked")),
        "{why}"
    );
    rig.in_origin(&["checkout", "-q", "mine"]);
    // A worktree that is gone while its entry is not: its content is unknown.
    fs::rename(&linked, rig.path("moved")).unwrap();
    assert_eq!(busy(&rig, &new).1, CheckoutBusy::Gone);
    fs::rename(rig.path("moved"), &linked).unwrap();
    lands(&rig, &new);
    assert_eq!(text(linked.join("file")), "landed\n");
    assert_eq!(text(rig.origin().join("file")), "1\n2\n3\n");
}

/// git in the checkout would run what an agent writes there, at the next landing.
#[test]
fn landing_changes_no_file_that_the_configuration_of_the_checkout_includes() {
    let rig = Rigged::local();
    let links = rig.links(&rig.base, &[("link", "through"), ("through", "settings")]);
    lands(&rig, &links);
    for included in ["../conf/git", "../link", "../absent"] {
        rig.in_origin(&["config", "--add", "include.path", included]);
    }
    let filter = "[filter \"x\"]\n\tsmudge = touch ran\n";
    for (path, named) in [
        ("conf/git", "conf/git"),
        ("conf", "conf/git"),
        ("settings", "settings"),
        ("through", "through"),
        ("link", "link"),
        // A directory in its place stops git.
        ("absent/x", "absent"),
    ] {
        let new = rig.commit(&links, &[(path, filter)]);
        let error = land(&rig.repo, "main", &links, &new).unwrap_err();
        let RepoError::Rejected(why) = error else {
            panic!("{path}: {error}");
        };
        let part = format!("{named} is part of git's configuration");
        assert!(why.contains(&part), "{path}: {why}");
        assert_eq!(rig.at("main"), Some(links.clone()));
    }
    fetch_target(&rig.repo, "main").unwrap();
    let new = rig.commit(&links, &[("settings", filter)]);
    let early = commit_checks::check(&rig.repo, &rig.path("sandbox"), &new, "main").unwrap_err();
    assert!(matches!(early, RepoError::Rejected(_)), "{early}");
    let other = rig.commit(&links, &[("conf/other", "x\n")]);
    land(&rig.repo, "main", &links, &other).unwrap();
}

/// git lists its own configuration there as `config`, which is no file of a work tree.
#[test]
fn landing_on_a_bare_repository_may_change_files_named_like_those_of_git() {
    let rig = Rigged::local();
    let (dir, aside) = (rig.origin(), rig.path("aside"));
    fs::rename(dir.join(".git"), &aside).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&aside, &dir).unwrap();
    rig.in_origin(&["config", "core.bare", "true"]);
    lands(
        &rig,
        &rig.commit(&rig.base, &[("config/app.yml", "x\n"), ("hooks/x", "x\n")]),
    );
}

/// git obeys the file once the branch is another.
#[test]
fn landing_changes_no_file_that_the_configuration_would_include_on_another_branch() {
    let rig = Rigged::local();
    let outside = rig.path("outside.inc");
    let included = rig.origin().join("team.inc").display().to_string();
    fs::write(&outside, format!("[include]\n\tpath = {included}\n")).unwrap();
    let outside = outside.display().to_string();
    rig.in_origin(&["config", "includeIf.onbranch:release/**.path", &outside]);
    let new = rig.commit(&rig.base, &[("team.inc", "[core]\n")]);
    let refused = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(refused, RepoError::Rejected(_)), "{refused}");
    lands(&rig, &rig.commit(&rig.base, &[("other.inc", "[core]\n")]));
}

/// A worktree that nothing uses must not stop its rig.
#[test]
fn configuration_of_other_worktrees_is_read_as_far_as_it_can_be() {
    let (rig, other) = (Rigged::local(), Rigged::local());
    let included = rig.origin().join("common").display().to_string();
    let linked = other.path("linked");
    other.in_origin(&["config", "extensions.worktreeConfig", "true"]);
    let shown = linked.display().to_string();
    other.in_origin(&["worktree", "add", "-q", "--detach", &shown]);
    let config = other.origin().join(".git/worktrees/linked/config.worktree");
    let new = rig.commit(&rig.base, &[("common", "[core]\n")]);
    for text in [
        format!("[include]\n\tpath = {included}\n"),
        "[broken\n".to_owned(),
    ] {
        fs::write(&config, text).unwrap();
        note(&other.origin(), &other.origin()).unwrap();
        // What was known before stays.
        let refused = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
        assert!(matches!(refused, RepoError::Rejected(_)), "{refused}");
    }
    // So it does while the worktree is away.
    let away = other.path("away");
    fs::rename(&linked, &away).unwrap();
    note(&other.origin(), &other.origin()).unwrap();
    land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    fs::rename(&away, &linked).unwrap();
    fs::write(&config, "").unwrap();
    note(&other.origin(), &other.origin()).unwrap();
    lands(&rig, &new);
}

#[test]
fn landing_changes_no_file_that_another_worktree_of_the_checkout_includes() {
    let rig = Rigged::local();
    rig.in_origin(&["config", "extensions.worktreeConfig", "true"]);
    let linked = rig.path("linked");
    let shown = linked.display().to_string();
    rig.in_origin(&["worktree", "add", "-q", "--detach", &shown]);
    let included = rig.origin().join("common").display().to_string();
    let git = Git::in_dir(&linked);
    let set = git.args(["config", "--worktree", "include.path", &included]);
    set.run().unwrap();
    note(&rig.origin(), &rig.origin()).unwrap();
    let new = rig.commit(&rig.base, &[("common", "[core]\n")]);
    let refused = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(refused, RepoError::Rejected(_)), "{refused}");
}

/// Work of one rig would decide what git runs for another.
#[test]
fn landing_changes_no_file_that_the_checkout_of_another_rig_includes() {
    let (rig, other) = (Rigged::local(), Rigged::local());
    let included = rig.origin().join("common").display().to_string();
    other.in_origin(&["config", "include.path", &included]);
    let new = rig.commit(&rig.base, &[("common", "[core]\n")]);
    let read = || {
        note(&other.origin(), &other.origin()).unwrap();
    };
    read();
    let refused = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(refused, RepoError::Rejected(_)), "{refused}");
    other.in_origin(&["config", "--unset", "include.path"]);
    read();
    lands(&rig, &new);
    // The other rig does not look here: it notes the path as it is written.
    let linked = rig.links(&new, &[("conf", "shared")]);
    land(&rig.repo, "main", &new, &linked).unwrap();
    let program = rig.origin().join("bin/ssh").display().to_string();
    for (key, value, file) in [
        ("include.path", rig.origin().join("conf/x"), "shared/x"),
        ("include.path", rig.origin().join("conf/../y"), "y"),
        ("core.sshCommand", format!("{program} -v").into(), "bin/ssh"),
        (
            "core.sshCommand",
            format!("ssh -F{program}").into(),
            "bin/ssh",
        ),
    ] {
        other.in_origin(&["config", key, &value.display().to_string()]);
        read();
        let new = rig.commit(&linked, &[(file, "[core]\n")]);
        let refused = land(&rig.repo, "main", &linked, &new).unwrap_err();
        assert!(
            matches!(refused, RepoError::Rejected(_)),
            "{file}: {refused}"
        );
        other.in_origin(&["config", "--unset", key]);
    }
}
