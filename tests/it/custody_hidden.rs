//! Repositories that ignore rules hide: clones, worktrees and results of `git init`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;

use crate::support::city::{City, permit, toast};
use crate::support::git::{commit_all, git, rev, try_git, write};
use crate::support::namespace::unprivileged;

/// Makes a sandbox that ignores two directories, all of it pushed. Returns the URL to clone it from, too.
fn ignoring() -> (City, PathBuf, String) {
    let city = City::with(|checkout| write(checkout, ".gitignore", ".trees/\nvendor/\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let origin = format!("file://{}", city.repo.push_url().unwrap());
    (city, sandbox, origin)
}

/// Salvages Toast's sandbox and restores it. Returns the restored directory.
fn restored(city: &City, sandbox: &Path) -> PathBuf {
    city.restored(&city.salvage(sandbox))
}

/// A tag is as local as a branch, unless it was pushed.
#[test]
fn commit_that_only_a_tag_names_is_at_risk() {
    let (city, sandbox, origin) = ignoring();
    git(&sandbox, &["clone", "-q", &origin, "vendor/library"]);
    git(&sandbox, &["init", "-q", "-b", "main", "vendor/own"]);
    let mut tagged = Vec::new();
    for name in ["vendor/library", "vendor/own"] {
        let dir = sandbox.join(name);
        write(&dir, "work", "mine\n");
        tagged.push((name, commit_all(&dir, "only here")));
        git(&dir, &["tag", "backup"]);
    }
    let holds = "unpushed commits: 1";
    assert_eq!(
        city.facts(&sandbox).other_work,
        [
            format!("ignored repository vendor/library: {holds}"),
            format!("ignored repository vendor/own: {holds}"),
        ]
    );
    let to = restored(&city, &sandbox);
    for (name, commit) in tagged {
        git(&to.join(name), &["cat-file", "-e", &commit]);
    }
}

/// Commits that only the administrative directory of such a worktree names (left by its HEAD, or put aside by a rebase)
/// are neither listed nor kept once that directory is gone.
#[test]
fn commits_only_in_an_inner_worktree_are_saved() {
    let (city, sandbox, _) = ignoring();
    write(&sandbox, "README", "1\n");
    commit_all(&sandbox, "one");
    let (left, rebased) = (sandbox.join(".trees/left"), sandbox.join(".trees/rebased"));
    for dir in [&left, &rebased] {
        let dir = dir.display().to_string();
        git(&sandbox, &["worktree", "add", "-q", "--detach", &dir]);
    }
    write(&left, "README", "2\n");
    let commit = commit_all(&left, "two");
    git(&left, &["checkout", "-q", "--detach", "HEAD~1"]);
    write(&rebased, "README", "aside\n");
    let stops = ["rebase", "-q", "--autostash", "-x", "false", "HEAD~1"];
    try_git(&rebased, &stops);
    let admin = city.repo.theirs().join("worktrees/rebased");
    let aside = fs::read_to_string(admin.join("rebase-merge/autostash")).unwrap();
    let facts = city.facts(&sandbox);
    let rebase = "ignored repository .trees/rebased: a rebase in progress";
    let named = format!("only this sandbox references {}", &commit[..10]);
    assert_eq!(facts.other_work, [rebase, &named]);
    assert!(facts.is_committed(), "it holds up nothing");
    city.salvage(&sandbox);
    let permit = permit(&city.spec(1), &city.facts(&sandbox));
    city.discard(&permit);
    fs::remove_dir_all(city.trash()).unwrap();
    let bare = city.repo.repo_dir();
    assert!(!git(city.repo.theirs(), &["worktree", "list"]).contains(".trees"));
    git(bare, &["gc", "-q", "--prune=now"]);
    for id in [commit.as_str(), aside.trim()] {
        let contains = ["for-each-ref", "--contains", id, "refs/horde/salvage"];
        assert_ne!(git(bare, &contains), "", "{id}");
    }
}

/// Tools write into a clone that they fetched: these files are saved, but not the rest, which can be fetched again.
#[test]
fn only_changes_of_an_inner_clone_are_saved() {
    let (city, sandbox, origin) = ignoring();
    let checkout = city.checkout();
    write(&checkout, "large", "x".repeat(1 << 20));
    commit_all(&checkout, "large");
    git(&checkout, &["push", "-q", "origin", "main"]);
    git(&sandbox, &["clone", "-q", &origin, "vendor/library"]);
    let library = sandbox.join("vendor/library");
    write(&library, "generated", "0123456789");
    assert_eq!(city.repo.salvage_size(&sandbox).unwrap(), 10);
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let record = record.unwrap();
    assert_eq!(record.bytes, 10);
    let manifest = [
        "cat-file",
        "blob",
        &format!("{}:manifest.json", meta(&record.refs)),
    ];
    let manifest = git(city.repo.repo_dir(), &manifest);
    for told in [&rev(&library, "HEAD"), &origin] {
        assert!(manifest.contains(told.as_str()), "{manifest}");
    }
    let to = city.restored(&record);
    let generated = fs::read_to_string(to.join("vendor/library/generated"));
    assert_eq!(generated.unwrap(), "0123456789");
    // Work that only its index or its reflog names needs the whole clone.
    git(&library, &["add", "generated"]);
    assert!(city.repo.salvage_size(&sandbox).unwrap() > 1 << 20);
    git(&library, &["commit", "-qm", "only here"]);
    git(&library, &["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(
        city.facts(&sandbox).other_work,
        ["ignored repository vendor/library: unpushed commits: 1"]
    );
    assert!(city.repo.salvage_size(&sandbox).unwrap() > 1 << 20);
}

fn meta(refs: &[String]) -> &str {
    let mut refs = refs.iter().filter(|name| name.ends_with("/meta"));
    refs.next().unwrap()
}

/// An agent can write reflogs and remote refs of its own clone by hand.
#[test]
fn clone_whose_reflogs_were_written_by_hand_is_saved_whole() {
    let (city, sandbox, origin) = ignoring();
    git(&sandbox, &["clone", "-q", &origin, "vendor/library"]);
    assert_eq!(city.facts(&sandbox).other_work, Vec::<String>::new());
    let library = sandbox.join("vendor/library");
    let logs = library.join(".git/logs");
    let head = logs.join("HEAD");
    let told = fs::read_to_string(&head).unwrap();
    write(&library, "work", "mine\n");
    let made = commit_all(&library, "only here");
    fs::remove_dir_all(&logs).unwrap();
    fs::create_dir(&logs).unwrap();
    fs::write(&head, told).unwrap();
    let tip = library.join(".git/refs/remotes/origin/main");
    fs::create_dir_all(tip.parent().unwrap()).unwrap();
    fs::write(tip, format!("{made}\n")).unwrap();
    let facts = city.facts(&sandbox);
    let claimed =
        "ignored repository vendor/library: commits that only its own refs list as pushed: 1";
    assert_eq!(facts.other_work, [claimed]);
    assert!(facts.is_committed(), "it holds nothing up");
    let to = restored(&city, &sandbox);
    assert_eq!(rev(&to.join("vendor/library"), "HEAD"), made);
}

/// A directory without read permission may hold work: it does not hold up a completion, and is not removed.
#[test]
fn unreadable_directory_holds_up_only_the_removal() {
    if !unprivileged(unreadable_directory_holds_up_only_the_removal) {
        return;
    }
    let (city, sandbox, origin) = ignoring();
    git(&sandbox, &["clone", "-q", &origin, "vendor/library"]);
    let library = sandbox.join("vendor/library");
    write(&library, "sub/work", "mine");
    for (closed, mode) in [("", 0o755), ("sub", 0o755), (".git", 0o755)] {
        let closed = library.join(closed);
        let close = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode));
        close(0o000).unwrap();
        let facts = city.repo.facts(&sandbox, "main");
        let saved = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        close(mode).unwrap();
        let facts = facts.unwrap();
        assert!(facts.is_committed() && !facts.is_clean(), "{facts:?}");
        let line = &facts.other_work[0];
        assert!(
            line.starts_with("ignored repository vendor/library: "),
            "{line}"
        );
        let why = saved.unwrap_err().to_string();
        assert!(why.contains("vendor/library"), "{closed:?}: {why}");
    }
    // Of a file nothing is said before it can be read: its sandbox counts as unseen.
    let file = library.join("sub/work");
    let close = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode));
    close(0o000).unwrap();
    let facts = city.repo.facts(&sandbox, "main").map(drop);
    let saved = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    close(0o644).unwrap();
    for failed in [facts, saved.map(drop)] {
        let why = failed.unwrap_err().to_string();
        assert!(why.contains("vendor/library/sub/work"), "{why}");
    }
    let record = city.salvage(&sandbox);
    let work = city.restored(&record).join("vendor/library/sub/work");
    assert_eq!(fs::read_to_string(work).unwrap(), "mine");
}

#[test]
fn sandbox_with_an_unreadable_file_is_salvaged_once_it_can_be_read() {
    if !unprivileged(sandbox_with_an_unreadable_file_is_salvaged_once_it_can_be_read) {
        return;
    }
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "secret", "1\n");
    let mode = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(sandbox.join("secret"), mode).unwrap();
    };
    mode(0o000);
    let error = city
        .repo
        .salvage(&sandbox, &toast(), Incarnation(1))
        .unwrap_err();
    assert!(error.to_string().contains("secret"), "{error}");
    let refs = ["for-each-ref", "refs/horde/salvage"];
    assert_eq!(git(city.repo.repo_dir(), &refs), "");
    mode(0o600);
    let restored = city.restored(&city.salvage(&sandbox));
    let secret = fs::read_to_string(restored.join("secret")).unwrap();
    assert_eq!(secret, "1\n");
}

/// The index that a repair set aside is the only place of work that was staged before.
#[test]
fn files_set_aside_by_a_repair_are_saved_unasked() {
    let (city, sandbox, _) = ignoring();
    let admin = city.repo.theirs().join("worktrees/Toast");
    fs::write(admin.join("index"), "torn").unwrap();
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    let facts = city.facts(&sandbox);
    let aside = "only this sandbox references the work that a repair set aside as index.aside";
    assert_eq!(facts.other_work, [aside]);
    assert!(facts.is_committed() && !facts.is_clean());
    let to = restored(&city, &sandbox);
    let admin = git(&to, &["rev-parse", "--absolute-git-dir"]);
    let kept = fs::read_to_string(Path::new(&admin).join("index.aside"));
    assert_eq!(kept.unwrap(), "torn");
}
