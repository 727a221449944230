//! The only way to remove a sandbox.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use horde_supervisor::domain::ids::{Incarnation, Oid, RelicId};
use horde_supervisor::ports::repo::{Repo, RepoError};

use crate::support::city::{City, permit, snapshot, toast};
use crate::support::git::{commit_all, git, rev, write};
use crate::support::live::until;

/// An act in a sandbox.
type Step = (&'static str, fn(&Path));

/// Returns the names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let list = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = list
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A directory that was not measured may be the last that names some work.
#[test]
fn only_the_measured_directory_of_a_worktree_is_thrown_away() {
    let city = City::new();
    let spec = city.spec(1);
    let sandbox = city.sandbox();
    let other = city.spec_of("Nux", 1);
    city.repo.make_sandbox(&other).unwrap();
    let worktrees = city.repo.theirs().join("worktrees");
    let bak = worktrees.join("bak");
    git(&worktrees, &["init", "-q", "--bare", bak.to_str().unwrap()]);
    let back = sandbox.join(".git");
    fs::write(bak.join("gitdir"), format!("{}\n", back.display())).unwrap();
    let of_other = worktrees.join("Nux");
    fs::write(of_other.join("gitdir"), format!("{}\n", back.display())).unwrap();
    let permit = permit(&spec, &city.facts(&sandbox));
    city.discard(&permit);
    assert!(!sandbox.exists() && !bak.exists());
    assert!(city.repo.theirs().join("horde/retired/bak").is_dir());
    assert!(of_other.is_dir(), "the sandbox of another leads there");
}

/// Weakness W26 of an earlier system: each look at the store started several processes, and the branches of removed
/// raiders were left behind.
#[test]
fn a_pushed_sandbox_goes_with_its_branch() {
    let city = City::new();
    let spec = city.spec(1);
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    commit_all(&sandbox, "one");
    city.push_work(&sandbox);
    let other = city.spec_of("Nux", 1);
    city.repo.make_sandbox(&other).unwrap();
    let before = snapshot(&sandbox);
    let permit = permit(&spec, &city.facts(&sandbox));
    city.discard(&permit);
    assert!(!sandbox.exists());
    let thrown = [
        "horde-Toast-1",
        "horde-Toast-1.git",
        "horde-Toast-1.git.used",
        "horde-Toast-1.used",
    ];
    assert_eq!(names(&city.trash()), thrown);
    assert_eq!(snapshot(&city.trash().join("horde-Toast-1")), before);
    assert_eq!(
        fs::metadata(city.trash()).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let bare = city.repo.theirs();
    assert_eq!(git(bare, &["branch", "--list", &spec.branch]), "");
    let left = git(bare, &["worktree", "list", "--porcelain"]);
    assert!(!left.contains("Toast") && left.contains("Nux"), "{left}");
    // A sandbox that is gone already is fine.
    city.discard(&permit);
    // The next incarnation is made at the same place, and the old permit cannot touch it.
    city.repo.make_sandbox(&city.spec(2)).unwrap();
    let stale = city
        .repo
        .discard_sandbox(&permit, &city.trash(), &|| Ok(()))
        .unwrap_err();
    assert!(matches!(stale, RepoError::PermitStale(_)), "{stale}");
    assert!(sandbox.exists());
    assert!(city.facts(&other.path).is_clean());
}

/// Killed at any point after the rename: the resumed removal removes the remains, and keeps objects that nothing else
/// reaches.
#[test]
fn a_removal_that_was_interrupted_is_finished() {
    for admin_gone in [false, true] {
        let city = City::new();
        let spec = city.spec(1);
        let sandbox = city.sandbox();
        let forget = || {
            city.repo
                .forget_sandbox(&sandbox, &toast(), spec.incarnation)
        };
        let there = forget().unwrap_err();
        assert!(matches!(there, RepoError::PermitStale(_)), "{there}");
        let bare = city.repo.theirs();
        git(bare, &["branch", "raider/Toast/gt-2-11", &spec.branch]);
        fs::rename(&sandbox, city.root().join("thrown")).unwrap();
        if admin_gone {
            let admin = bare.join("worktrees/Toast");
            fs::rename(admin, city.root().join("thrown.git")).unwrap();
        }
        forget().unwrap();
        let left = git(bare, &["worktree", "list", "--porcelain"]);
        assert!(!left.contains("Toast"), "{left}");
        let branches = git(bare, &["branch", "--list", "--format=%(refname:short)"]);
        assert_eq!(branches, "raider/Toast/gt-2-11");
        forget().unwrap();
    }
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let head = commit_all(&sandbox, "one");
    fs::rename(&sandbox, city.root().join("thrown")).unwrap();
    let gone = city.repo.forget_sandbox(&sandbox, &toast(), Incarnation(1));
    gone.unwrap();
    let branch = "refs/heads/raider/Toast/gt-1-1";
    assert_eq!(rev(city.repo.theirs(), branch), head);
}

#[test]
fn a_branch_that_nothing_else_reaches_stays() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let head = commit_all(&sandbox, "one");
    let permit = permit(&city.spec(1), &city.facts(&sandbox));
    city.discard(&permit);
    assert_eq!(
        rev(city.repo.theirs(), "refs/heads/raider/Toast/gt-1-1"),
        head
    );
}

#[test]
fn salvage_reaches_the_branch() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let head = commit_all(&sandbox, "one");
    write(&sandbox, "README", "2\n");
    let facts = city.facts(&sandbox);
    let record = city.salvage(&sandbox);
    assert_eq!(city.facts(&sandbox), facts);
    let permit = permit(&city.spec(1), &facts);
    city.discard(&permit);
    fs::remove_dir_all(city.trash()).unwrap();
    let bare = city.repo.theirs();
    assert_eq!(git(bare, &["branch", "--list", "raider/*"]), "");
    git(city.repo.repo_dir(), &["gc", "--quiet", "--prune=now"]);
    git(bare, &["gc", "--quiet", "--prune=now"]);
    let to = city.restored(&record);
    assert_eq!(rev(&to, "HEAD"), head);
    assert_eq!(fs::read_to_string(to.join("README")).unwrap(), "2\n");
}

/// Every change after the permit makes the permit stale, and nothing is touched.
#[test]
fn a_change_after_the_permit_is_noticed() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "dirty", "1\n");
    let changes: [Step; 8] = [
        ("edit", |dir| write(dir, "README", "1\n")),
        ("same path, other bytes", |dir| write(dir, "dirty", "2\n")),
        ("new file", |dir| write(dir, "new", "1\n")),
        ("index", |dir| drop(git(dir, &["add", "new"]))),
        ("commit", |dir| drop(commit_all(dir, "one"))),
        ("amend", |dir| {
            drop(git(dir, &["commit", "--amend", "-qm", "two"]))
        }),
        ("branch", |dir| drop(git(dir, &["checkout", "-qb", "else"]))),
        ("detached", |dir| {
            drop(git(dir, &["checkout", "-q", "--detach"]))
        }),
    ];
    for (what, change) in changes {
        let permit = permit(&city.spec(1), &city.facts(&sandbox));
        change(&sandbox);
        let before = snapshot(&sandbox);
        let stale = city
            .repo
            .discard_sandbox(&permit, &city.trash(), &|| Ok(()));
        assert!(
            matches!(stale, Err(RepoError::PermitStale(_))),
            "{what}: {stale:?}"
        );
        assert_eq!(snapshot(&sandbox), before, "{what}");
    }
    // The target may move meanwhile: that loses nothing of the sandbox.
    let permit = permit(&city.spec(1), &city.facts(&sandbox));
    let checkout = city.checkout();
    write(&checkout, "README", "moved\n");
    commit_all(&checkout, "moved");
    git(&checkout, &["push", "--quiet", "origin", "main"]);
    city.repo.fetch_branch("main").unwrap();
    city.discard(&permit);
}

/// The verification may have taken minutes.
#[test]
fn sandbox_stays_when_the_removal_is_called_off_at_the_last_moment() {
    let city = City::new();
    let spec = city.spec(1);
    let sandbox = city.sandbox();
    let permit = permit(&spec, &city.facts(&sandbox));
    let before = snapshot(&sandbox);
    let refused = city.repo.discard_sandbox(&permit, &city.trash(), &|| {
        assert!(sandbox.exists(), "asked behind the removal");
        Err(RepoError::PermitStale("somebody came".into()))
    });
    assert!(matches!(refused, Err(RepoError::PermitStale(_))));
    assert_eq!(snapshot(&sandbox), before);
    assert_eq!(city.facts(&sandbox), *permit.git());
    // A sandbox that changed since its judgement is refused without asking again.
    write(&sandbox, "late.txt", "1\n");
    let stale = city.repo.discard_sandbox(&permit, &city.trash(), &|| {
        panic!("asked before it was verified")
    });
    assert!(matches!(stale, Err(RepoError::PermitStale(_))));
}

/// Pushes its HEAD, so that it is safe.
fn push(city: &City, sandbox: &Path) {
    let url = city.repo.push_url().unwrap();
    git(sandbox, &["push", "-q", &url, "HEAD:refs/heads/work"]);
    city.repo.fetch_branch("work").unwrap();
}

/// The last measurement is over, and the sandbox is not in the trash yet.
#[test]
fn files_written_after_the_last_measurement_are_kept() {
    let steps: [Step; 6] = [
        ("a new file", |dir| write(dir, "late.txt", "late\n")),
        ("a new file in a new directory", |dir| {
            write(dir, "new/late.txt", "late\n");
        }),
        ("a tracked file, of the same size and time", |dir| {
            let mut options = fs::File::options();
            let file = options.write(true).open(dir.join("README")).unwrap();
            let at = file.metadata().unwrap().modified().unwrap();
            std::io::Write::write_all(&mut &file, b"2").unwrap();
            file.set_modified(at).unwrap();
        }),
        ("a mode", |dir| {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(dir.join("README"), mode).unwrap();
        }),
        ("a link", |dir| symlink("README", dir.join("link")).unwrap()),
        ("a commit", |dir| {
            git(dir, &["checkout", "-q", "--detach"]);
            git(dir, &["commit", "-q", "--allow-empty", "-m", "late"]);
        }),
    ];
    for (what, step) in steps {
        let city = City::new();
        let spec = city.spec(1);
        let sandbox = city.sandbox();
        write(&sandbox, "README", "1\n");
        commit_all(&sandbox, "one");
        push(&city, &sandbox);
        let permit = permit(&spec, &city.facts(&sandbox));
        let after = std::cell::RefCell::new(None);
        let refused = city.repo.discard_sandbox(&permit, &city.trash(), &|| {
            step(&sandbox);
            after.replace(Some(snapshot(&sandbox)));
            Ok(())
        });
        let stale = matches!(refused, Err(RepoError::PermitStale(_)));
        assert!(stale, "{what}: {refused:?}");
        assert_eq!(Some(snapshot(&sandbox)), after.take(), "{what}");
        assert!(names(&city.trash()).is_empty(), "{what}");
    }
}

/// Results are often written elsewhere and moved to their place at the end: their files are older than the measurement.
#[test]
fn directory_that_is_moved_there_after_the_last_measurement_is_kept() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    commit_all(&sandbox, "one");
    push(&city, &sandbox);
    let (results, probe) = (city.root().join("results"), city.root().join("probe"));
    write(&results, "deep/r0", "precious\n");
    let changed = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    until("a later write has a later stamp", || {
        fs::write(&probe, "").unwrap();
        changed(&probe) > changed(&results.join("deep/r0"))
    });
    let permit = permit(&city.spec(1), &city.facts(&sandbox));
    let refused = city.repo.discard_sandbox(&permit, &city.trash(), &|| {
        fs::rename(&results, sandbox.join("out")).unwrap();
        Ok(())
    });
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("out was written or moved there"), "{why}");
    assert!(sandbox.join("out/deep/r0").exists());
    assert!(names(&city.trash()).is_empty());
}

/// The supervisor is killed between its last measurement and the trash.
#[test]
fn sandbox_that_was_on_its_way_out_is_renamed_back_and_not_forgotten() {
    let city = City::new();
    let (spec, sandbox) = (city.spec(1), city.sandbox());
    write(&sandbox, "late.txt", "late\n");
    let before = snapshot(&sandbox);
    let beside = sandbox.with_file_name(".Toast.leaving");
    fs::rename(&sandbox, &beside).unwrap();
    let forgotten = city
        .repo
        .forget_sandbox(&sandbox, &spec.raider, spec.incarnation);
    let stale = matches!(forgotten, Err(RepoError::PermitStale(_)));
    assert!(stale, "{forgotten:?}");
    assert_eq!(snapshot(&sandbox), before);
    // Another directory takes its place meanwhile.
    fs::rename(&sandbox, &beside).unwrap();
    write(&sandbox, "other", "other\n");
    city.repo.prepare().unwrap();
    assert_eq!(snapshot(&sandbox.with_file_name("Toast-kept")), before);
    assert!(sandbox.join("other").exists());
}

/// A file that was rewritten with the same bytes, or removed, is no unmeasured work; nor is an ignored file.
#[test]
fn late_write_that_changes_nothing_holds_up_no_removal() {
    let city = City::new();
    let spec = city.spec(1);
    let sandbox = city.sandbox();
    for (name, text) in [(".gitignore", "out\n"), ("README", "1\n"), ("gone", "2\n")] {
        write(&sandbox, name, text);
    }
    commit_all(&sandbox, "one");
    push(&city, &sandbox);
    let permit = permit(&spec, &city.facts(&sandbox));
    let removed = city.repo.discard_sandbox(&permit, &city.trash(), &|| {
        write(&sandbox, "README", "1\n");
        write(&sandbox, "out", "made\n");
        fs::remove_file(sandbox.join("gone")).unwrap();
        Ok(())
    });
    removed.unwrap();
    assert!(!sandbox.exists());
}

#[test]
fn a_head_that_became_unreachable_is_noticed() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "1\n");
    let head = commit_all(&sandbox, "one");
    let bare = city.repo.repo_dir();
    let mr = RelicId::new("gt-2").unwrap();
    city.repo.pin(&mr, &Oid::new(head).unwrap()).unwrap();
    let permit = permit(&city.spec(1), &city.facts(&sandbox));
    git(bare, &["update-ref", "-d", "refs/horde/mq/gt-2"]);
    let stale = city
        .repo
        .discard_sandbox(&permit, &city.trash(), &|| Ok(()));
    assert!(matches!(stale, Err(RepoError::PermitStale(_))), "{stale:?}");
    assert!(sandbox.exists());
}

#[test]
fn a_discard_that_was_killed_is_finished() {
    let city = City::new();
    let spec = city.spec(1);
    let sandbox = city.sandbox();
    git(
        city.repo.theirs(),
        &["worktree", "lock", &sandbox.display().to_string()],
    );
    let permit = permit(&spec, &city.facts(&sandbox));
    fs::create_dir_all(city.trash()).unwrap();
    fs::rename(&sandbox, city.trash().join("horde-Toast-1")).unwrap();
    city.discard(&permit);
    let left = git(city.repo.theirs(), &["worktree", "list"]);
    assert!(!left.contains("Toast"), "{left}");
    assert_eq!(
        git(city.repo.theirs(), &["branch", "--list", "raider/*"]),
        ""
    );
}

#[test]
fn a_permit_names_a_sandbox_of_this_rig() {
    let city = City::new();
    let sandbox = city.sandbox();
    let facts = city.facts(&sandbox);
    let mut wrong = city.spec(1);
    for path in [
        city.checkout(),
        sandbox.parent().unwrap().to_owned(),
        sandbox.join("src"),
    ] {
        wrong.path = path.clone();
        city.repo
            .discard_sandbox(&permit(&wrong, &facts), &city.trash(), &|| Ok(()))
            .unwrap_err();
        assert!(path.exists());
    }
    let mut other = city.spec(1);
    other.raider = "horde/raiders/Nux".parse().unwrap();
    city.repo
        .discard_sandbox(&permit(&other, &facts), &city.trash(), &|| Ok(()))
        .unwrap_err();
    let link = sandbox.with_file_name("Nux");
    symlink(&sandbox, &link).unwrap();
    other.path = link;
    city.repo
        .discard_sandbox(&permit(&other, &facts), &city.trash(), &|| Ok(()))
        .unwrap_err();
    assert_eq!(city.facts(&sandbox), facts);
}

/// An agent puts a link to a person's directory in the place of the trash.
#[test]
fn sandbox_is_not_thrown_through_a_link() {
    let city = City::new();
    let (spec, sandbox) = (city.spec(1), city.sandbox());
    let home = city.root().join("home");
    fs::create_dir(&home).unwrap();
    let _was_there = fs::remove_dir(city.trash());
    fs::create_dir_all(city.trash().parent().unwrap()).unwrap();
    symlink(&home, city.trash()).unwrap();
    let permit = permit(&spec, &city.facts(&sandbox));
    city.discard(&permit);
    assert!(!sandbox.exists());
    assert_eq!(names(&home), Vec::<String>::new());
    assert!(city.trash().symlink_metadata().unwrap().is_dir());
}
