//! The facts that are measured of a sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use horde_supervisor::domain::facts::GitFacts;
use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::domain::nuke::CleanupStatus;
use horde_supervisor::ports::repo::{Repo, RepoError};
use horde_supervisor::testing::eventually;

use crate::support::city::{City, repo};
use crate::support::git::{commit_all, git, rev, write};

/// An act in a sandbox.
type Step = (&'static str, fn(&Path));

#[test]
fn commits_are_counted_from_the_target() {
    let city = City::new();
    let sandbox = city.sandbox();
    let base = rev(&sandbox, "HEAD");
    write(&sandbox, "README", "1\n");
    commit_all(&sandbox, "one");
    write(&sandbox, "README", "2\n");
    let head = commit_all(&sandbox, "two");
    let facts = city.facts(&sandbox);
    assert_eq!(facts.head.as_str(), head);
    assert_eq!(
        facts.merge_base.as_ref().map(|id| id.as_str()),
        Some(base.as_str())
    );
    assert_eq!(facts.ahead, 2);
    assert!(!facts.head_reachable, "its own branch does not count");
    assert_eq!(CleanupStatus::measured(&facts), CleanupStatus::HasUnpushed);
    assert_eq!(city.repo.glance(&sandbox, "main").unwrap(), (2, 0, 0));
    city.push_work(&sandbox);
    let pushed = city.facts(&sandbox);
    assert!(pushed.head_reachable);
    assert_eq!(CleanupStatus::measured(&pushed), CleanupStatus::Clean);
}

#[test]
fn a_queue_pin_makes_it_reachable() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let head = commit_all(&sandbox, "one");
    assert!(!city.facts(&sandbox).head_reachable);
    for (name, counts) in [("refs/heads/other", false), ("refs/horde/mq/gt-2", true)] {
        git(city.repo.repo_dir(), &["update-ref", name, &head]);
        assert_eq!(city.facts(&sandbox).head_reachable, counts, "{name}");
    }
}

#[test]
fn without_pushing_the_target_makes_it_reachable() {
    let mut city = City::bare();
    city.repo = repo(&city.root(), city.repo.source().clone(), false);
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let head = commit_all(&sandbox, "one");
    assert_eq!(city.facts(&sandbox).ahead, 1);
    assert!(!city.facts(&sandbox).head_reachable);
    git(
        city.repo.repo_dir(),
        &["update-ref", "refs/heads/main", &head],
    );
    let landed = city.facts(&sandbox);
    assert!(landed.head_reachable && landed.ahead == 0);
}

/// A commit that a push would leave on the remote is kept in our repository instead, and counts as pushed.
#[test]
fn without_pushing_a_push_makes_it_reachable() {
    let mut city = City::bare();
    city.repo = repo(&city.root(), city.repo.source().clone(), false);
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let head = Oid::new(commit_all(&sandbox, "one")).unwrap();
    let branch = "raider/Toast/gt-1-1";
    assert_eq!(city.repo.fetch_branch(branch).unwrap(), None);
    assert!(!city.facts(&sandbox).head_reachable);
    city.repo.push_branch(branch, &head, None).unwrap();
    assert_eq!(city.repo.fetch_branch(branch).unwrap(), Some(head));
    assert!(city.facts(&sandbox).head_reachable);
    write(&sandbox, "README", "2\n");
    commit_all(&sandbox, "two");
    assert!(!city.facts(&sandbox).head_reachable);
}

/// Each edit changes the facts, also an edit of a path that was dirty before.
#[test]
fn every_change_of_content_changes_the_facts() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "big/file", "1");
    let steps: [Step; 14] = [
        ("dirty", |dir| write(dir, "README", "1\n")),
        ("dirty again", |dir| write(dir, "README", "2\n")),
        ("untracked", |dir| write(dir, "new", "1\n")),
        ("untracked again", |dir| write(dir, "new", "2\n")),
        ("exec", |dir| {
            let exec = fs::Permissions::from_mode(0o755);
            fs::set_permissions(dir.join("new"), exec).unwrap();
        }),
        ("staged", |dir| drop(git(dir, &["add", "new"]))),
        ("staged otherwise", |dir| {
            write(dir, "new", "3\n");
            git(dir, &["add", "new"]);
            write(dir, "new", "2\n");
        }),
        ("deleted", |dir| {
            fs::remove_file(dir.join("src/a.txt")).unwrap()
        }),
        ("stash", |dir| drop(git(dir, &["stash"]))),
        ("stash again", |dir| {
            write(dir, "README", "4\n");
            git(dir, &["stash"]);
        }),
        ("nested", |dir| {
            git(dir, &["init", "--quiet", "-b", "main", "inner"]);
            write(dir, "inner/file", "1\n");
        }),
        ("in nested", |dir| write(dir, "inner/file", "2\n")),
        ("nested commit", |dir| {
            drop(commit_all(&dir.join("inner"), "x"))
        }),
        ("hidden", |dir| {
            git(dir, &["update-index", "--skip-worktree", "README"]);
            write(dir, "README", "5\n");
        }),
    ];
    let mut seen: Vec<GitFacts> = vec![city.facts(&sandbox)];
    for (what, step) in steps {
        step(&sandbox);
        let facts = city.facts(&sandbox);
        assert_eq!(facts, city.facts(&sandbox), "{what}: not stable");
        assert!(!seen.contains(&facts), "{what}: not seen");
        assert!(
            seen.iter().all(|old| old.fingerprint != facts.fingerprint),
            "{what}"
        );
        seen.push(facts);
    }
}

#[test]
fn measuring_writes_nothing() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let admin = city.repo.theirs().join("worktrees/Toast");
    let index = || fs::read(admin.join("index")).unwrap();
    // Stat data that git would refresh, if it were allowed to.
    let file = fs::File::options()
        .append(true)
        .open(sandbox.join("src/a.txt"))
        .unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    let before = index();
    city.facts(&sandbox);
    city.repo.glance(&sandbox, "main").unwrap();
    assert_eq!(index(), before);
    // A lock of the agent's git does not stop it.
    fs::write(admin.join("index.lock"), "").unwrap();
    assert_eq!(city.facts(&sandbox).dirty, ["README"]);
    let scratch = city.repo.repo_dir().join("horde/tmp");
    let left = fs::read_dir(scratch).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

#[test]
fn operations_in_progress_are_named() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    commit_all(&sandbox, "one");
    city.push_work(&sandbox);
    git(&sandbox, &["bisect", "start"]);
    assert_eq!(city.facts(&sandbox).other_work, ["a bisect in progress"]);
    git(&sandbox, &["bisect", "reset"]);
    assert!(city.facts(&sandbox).is_clean());
    git(&sandbox, &["revert", "--no-commit", "HEAD"]);
    let facts = city.facts(&sandbox);
    assert!(
        facts
            .other_work
            .iter()
            .any(|line| line == "a revert in progress"),
        "{facts:?}"
    );
    git(&sandbox, &["revert", "--abort"]);
    git(&sandbox, &["update-ref", "refs/worktree/mine", "HEAD"]);
    let facts = city.facts(&sandbox);
    assert!(
        facts.other_work[0].contains("refs/worktree/mine"),
        "{facts:?}"
    );
}

#[test]
fn a_task_that_is_no_link_any_more_is_work() {
    let city = City::new();
    let sandbox = city.sandbox();
    fs::remove_file(sandbox.join("TASK.md")).unwrap();
    assert!(city.facts(&sandbox).is_clean());
    write(&sandbox, "TASK.md", "my notes\n");
    assert_eq!(city.facts(&sandbox).untracked, ["TASK.md"]);
    // A harness that renames over the outcome has finished, not worked.
    fs::remove_file(sandbox.join("TASK.md")).unwrap();
    fs::remove_file(sandbox.join(".horde-outcome")).unwrap();
    write(&sandbox, ".horde-outcome", "{}");
    assert!(city.facts(&sandbox).is_clean());
}

#[test]
fn our_links_do_not_count_even_where_the_repository_wants_them() {
    let city = City::with(|checkout| write(checkout, ".gitignore", "*.ignored\n!TASK.md\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    assert!(git(&sandbox, &["status", "--porcelain"]).contains("TASK.md"));
    assert!(city.facts(&sandbox).is_clean());
    assert_eq!(city.repo.glance(&sandbox, "main").unwrap(), (0, 0, 0));
}

#[test]
fn directory_that_is_no_worktree_of_the_rig_cannot_be_judged() {
    let city = City::new();
    let sandbox = city.sandbox();
    let raiders = sandbox.parent().unwrap().to_owned();
    let missing = city.repo.facts(&raiders.join("Nux"), "main").unwrap_err();
    assert!(matches!(missing, RepoError::NotFound(_)), "{missing}");
    // Another repository around it must not answer for the sandbox.
    git(&city.root(), &["init", "--quiet", "-b", "main"]);
    fs::rename(sandbox.join(".git"), sandbox.join("dot-git")).unwrap();
    let told = |what: &str| {
        let special = city.facts(&sandbox).other_work;
        let broken = special
            .iter()
            .any(|line| line.contains("not its original link"));
        assert!(broken, "{what}: {special:?}");
    };
    told("without its link");
    // Nor may a repository in its place.
    git(&sandbox, &["init", "--quiet", "-b", "main"]);
    told("with another repository");
    fs::remove_dir_all(sandbox.join(".git")).unwrap();
    fs::rename(sandbox.join("dot-git"), sandbox.join(".git")).unwrap();
    assert!(city.facts(&sandbox).is_clean());
    // A copy has another sandbox's index.
    fs::create_dir(raiders.join("Copy")).unwrap();
    fs::copy(sandbox.join(".git"), raiders.join("Copy/.git")).unwrap();
    city.repo.facts(&raiders.join("Copy"), "main").unwrap_err();
}

#[test]
fn long_lists_are_cut_and_still_compared_whole() {
    let city = City::new();
    let sandbox = city.sandbox();
    for n in 0..400 {
        write(&sandbox, &format!("many/{n:03}"), "1");
    }
    let facts = city.facts(&sandbox);
    assert_eq!(facts.untracked.len(), 300);
    write(&sandbox, "many/399", "2");
    assert_ne!(city.facts(&sandbox), facts);
    assert_eq!(city.repo.glance(&sandbox, "main").unwrap(), (0, 0, 400));
}

#[test]
fn a_directory_that_may_not_be_read_cannot_be_judged() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "closed/work", "1");
    let closed = sandbox.join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    // A user that permissions do not stop sees the work instead.
    let open = fs::read_dir(&closed).is_ok();
    let facts = city.repo.facts(&sandbox, "main");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    match facts {
        Ok(facts) => assert!(open && facts.untracked == ["closed/work"], "{facts:?}"),
        Err(error) => assert!(!open && error.to_string().contains("closed"), "{error}"),
    }
}

/// Commits that HEAD has left are at risk like those it is on: a branch that only this sandbox has is listed nowhere
/// once the sandbox is gone.
#[test]
fn commits_that_head_has_left_are_not_clean() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let left = commit_all(&sandbox, "one");
    git(&sandbox, &["checkout", "-q", "-b", "look", "origin/main"]);
    let facts = city.facts(&sandbox);
    assert_eq!(CleanupStatus::measured(&facts), CleanupStatus::HasUnpushed);
    let says = |text: &str| facts.other_work.iter().any(|line| line.contains(text));
    assert!(says("left its own branch"), "{:?}", facts.other_work);
    assert!(says(&left[..7]), "{:?}", facts.other_work);
    // Work tried out on another branch is reported, and salvage has it; no operator has to decide about it.
    git(&sandbox, &["checkout", "-q", "-"]);
    git(&sandbox, &["checkout", "-q", "-b", "try"]);
    write(&sandbox, "README", "2\n");
    commit_all(&sandbox, "two");
    git(&sandbox, &["checkout", "-q", "-"]);
    let facts = city.facts(&sandbox);
    assert!(facts.is_committed(), "{:?}", facts.other_work);
    assert_eq!(facts.other_work.len(), 1, "{:?}", facts.other_work);
}

/// Ignore rules hide worktrees and clones that agents make: their work is saved, and holds up nothing. Files that tools
/// fetch are no work.
#[test]
fn repositories_in_ignored_directories_are_seen() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, ".gitignore", ".trees/\nvendor/\n");
    commit_all(&sandbox, "ignore");
    let origin = format!("file://{}", city.repo.push_url().unwrap());
    let tagged = city.root().join("tagged");
    git(&city.root(), &["clone", "-q", &origin, "tagged"]);
    git(&tagged, &["tag", "v1"]);
    git(&tagged, &["push", "-q", "origin", "v1"]);
    git(&sandbox, &["clone", "-q", &origin, "vendor/library"]);
    let shallow = [
        "clone",
        "-q",
        "--depth",
        "1",
        "-b",
        "v1",
        &origin,
        "vendor/tag",
    ];
    git(&sandbox, &shallow);
    let tree = sandbox.join(".trees/deep/one");
    git(
        &sandbox,
        &["worktree", "add", "-q", "-b", "feat", ".trees/deep/one"],
    );
    assert_eq!(city.facts(&sandbox).other_work, [""; 0]);
    // A merged branch is the sandbox's own.
    write(&tree, "README", "1\n");
    let feat = commit_all(&tree, "one");
    let special = city.facts(&sandbox).other_work;
    assert!(
        special
            .iter()
            .any(|line| line == "ignored repository .trees/deep/one: unpushed commits: 1"),
        "{special:?}"
    );
    git(&sandbox, &["merge", "-q", "--ff-only", &feat]);
    assert_eq!(city.facts(&sandbox).other_work, [""; 0]);
    write(&tree, "README", "2\n");
    write(&sandbox, "vendor/library/README", "1\n");
    let facts = city.facts(&sandbox);
    let seen = [
        "ignored repository .trees/deep/one: changes",
        "ignored repository vendor/library: changes",
    ];
    assert_eq!(facts.other_work, seen);
    assert!(facts.is_committed() && !facts.is_clean());
    commit_all(&sandbox.join("vendor/library"), "only here");
    let special = city.facts(&sandbox).other_work;
    assert_eq!(
        special[1],
        "ignored repository vendor/library: unpushed commits: 1"
    );
}

/// A branch that HEAD was never on keeps no work either.
#[test]
fn commits_only_on_another_branch_are_reported() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let backed_up = commit_all(&sandbox, "one");
    git(&sandbox, &["branch", "backup"]);
    git(&sandbox, &["reset", "-q", "--hard", "origin/main"]);
    let special = city.facts(&sandbox).other_work;
    assert_eq!(special.len(), 1, "{special:?}");
    assert!(special[0].contains(&backed_up[..7]), "{special:?}");
    // Another raider has it checked out, which is no promise to keep it.
    let other = city.spec_of("Nux", 1);
    city.repo.make_sandbox(&other).unwrap();
    git(&other.path, &["checkout", "-q", "backup"]);
    assert_eq!(city.facts(&sandbox).other_work, special);
    fs::remove_dir_all(&other.path).unwrap();
    assert_eq!(city.facts(&sandbox).other_work, special);
    // A worktree outside the city is not watched.
    let beside = city.root().join("beside").display().to_string();
    git(
        &sandbox,
        &["worktree", "add", "-q", "-f", &beside, "backup"],
    );
    assert_eq!(city.facts(&sandbox).other_work, special);
}

/// `git worktree list` fails while another worktree of the repository is being made or removed.
#[test]
fn half_made_worktree_of_another_sandbox_has_no_effect() {
    let city = City::new();
    let sandbox = city.sandbox();
    let before = city.facts(&sandbox);
    let half = city.repo.theirs().join("worktrees/half");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("commondir"), "").unwrap();
    assert_eq!(city.facts(&sandbox), before);
    fs::write(half.join("HEAD"), "ref: refs/heads/other\n").unwrap();
    assert_eq!(city.facts(&sandbox), before);
    city.repo.spare_branches().unwrap();
}

/// The cached bytes of a file must not change the facts of the sandbox: a salvage would be refused, for "it changed
/// while it was saved".
#[test]
fn measurement_is_the_same_once_the_bytes_of_a_file_are_known() {
    let city = City::new();
    let sandbox = city.sandbox();
    let blob = rev(&sandbox, "HEAD:src/a.txt");
    let other = format!("100644,{blob},README");
    git(&sandbox, &["update-index", "--cacheinfo", &other]);
    // A younger file is read each time.
    let file = fs::metadata(sandbox.join("README")).unwrap();
    eventually("a file that is two seconds old", || {
        let age = file.modified().ok()?.elapsed().ok()?;
        (age > Duration::from_secs(2)).then_some(())
    });
    let facts = city.facts(&sandbox);
    assert_eq!(facts.dirty, ["README"]);
    let raider = "horde/raiders/Toast".parse().unwrap();
    city.repo
        .salvage(&sandbox, &raider, Incarnation(1))
        .unwrap();
    assert_eq!(city.facts(&sandbox), facts);
}
