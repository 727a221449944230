//! Repair: the administrative files are whole again, and the work tree is untouched.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::domain::sandbox_fault::SandboxFault;
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::tier::sampled;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::city::{City, repo, snapshot, toast};
use crate::support::git::{commit_all, git, rev, try_git, write};
use crate::support::live::LIMIT;

/// Makes a sandbox with a commit, a staged and a dirty file, an untracked and a deleted one.
fn busy(city: &City) -> std::path::PathBuf {
    let sandbox = city.sandbox();
    write(&sandbox, "README", "committed\n");
    commit_all(&sandbox, "work");
    write(&sandbox, "src/a.txt", "dirty\n");
    write(&sandbox, "new", "untracked\n");
    fs::remove_file(sandbox.join("src/b.txt")).unwrap();
    sandbox
}

/// An act on a sandbox and its administrative directory.
type Break = (&'static str, fn(&Path, &Path));

/// The things that can break. None of them touches the files of the work tree.
const BREAKS: [Break; 14] = [
    ("nothing", |_, _| {}),
    ("no link", |dir, _| {
        fs::remove_file(dir.join(".git")).unwrap()
    }),
    ("a torn link", |dir, _| {
        fs::write(dir.join(".git"), "gitdi").unwrap()
    }),
    ("a link elsewhere", |dir, _| {
        fs::write(dir.join(".git"), "gitdir: /none\n").unwrap()
    }),
    ("no link back", |_, admin| {
        fs::remove_file(admin.join("gitdir")).unwrap()
    }),
    ("no index", |_, admin| {
        fs::remove_file(admin.join("index")).unwrap()
    }),
    ("a torn index", |_, admin| {
        fs::write(admin.join("index"), "DIRC").unwrap()
    }),
    ("a directory for an index", |_, admin| {
        fs::remove_file(admin.join("index")).unwrap();
        fs::create_dir(admin.join("index")).unwrap();
    }),
    ("a pipe for an index", |_, admin| {
        fs::remove_file(admin.join("index")).unwrap();
        mkfifo(&admin.join("index"), Mode::S_IRWXU).unwrap();
    }),
    ("a pipe for a head", |_, admin| {
        fs::remove_file(admin.join("HEAD")).unwrap();
        mkfifo(&admin.join("HEAD"), Mode::S_IRWXU).unwrap();
    }),
    ("no entry", |_, admin| fs::remove_dir_all(admin).unwrap()),
    ("locked", |_, admin| {
        fs::write(admin.join("locked"), "by me").unwrap()
    }),
    ("no head", |_, admin| {
        fs::write(admin.join("HEAD"), "").unwrap()
    }),
    ("a lock without a holder", |_, admin| {
        let lock = fs::File::create(admin.join("index.lock")).unwrap();
        lock.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }),
];

#[test]
fn whatever_broke_is_whole_again_with_its_files() {
    for (what, break_it) in sampled(BREAKS, 3) {
        let city = City::new();
        let sandbox = busy(&city);
        let spec = city.spec(1);
        let head = rev(&sandbox, "HEAD");
        let files = snapshot(&sandbox);
        assert_eq!(city.repo.sandbox_fault(&sandbox), Ok(None), "{what}");
        break_it(&sandbox, &city.repo.theirs().join("worktrees/Toast"));
        // A lock is git's or the agent's to wait for.
        let hurts = !["nothing", "locked", "a lock without a holder"].contains(&what);
        let seen = city.repo.sandbox_fault(&sandbox).unwrap();
        assert_eq!(
            matches!(seen, Some(SandboxFault::Broken(_))),
            hurts,
            "{what}: {seen:?}"
        );
        city.repo
            .repair_sandbox(&spec)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(snapshot(&sandbox), files, "{what}");
        assert_eq!(city.repo.sandbox_fault(&sandbox), Ok(None), "{what}");
        let facts = city.facts(&sandbox);
        assert_eq!(facts.head.as_str(), head, "{what}");
        assert_eq!(
            facts.branch.as_deref(),
            Some(spec.branch.as_str()),
            "{what}"
        );
        assert_eq!(facts.dirty, ["src/a.txt", "src/b.txt"], "{what}");
        assert_eq!(facts.untracked, ["new"], "{what}");
        assert!(sandbox.join("TASK.md").is_symlink(), "{what}");
        assert!(
            !city.repo.theirs().join("worktrees/Toast/locked").exists(),
            "{what}"
        );
        git(&sandbox, &["commit", "--quiet", "-am", "goes on"]);
        git(city.repo.theirs(), &["worktree", "prune", "--expire=now"]);
        assert!(city.facts(&sandbox).dirty.is_empty(), "{what}: pruned");
    }
}

/// An agent put a pipe, or a link to one, in the place of its sandbox: a look at the rig never ended.
#[test]
fn pipe_in_the_place_of_a_sandbox_is_seen_without_opening_it() {
    for is_link in [false, true] {
        let city = City::new();
        let sandbox = busy(&city);
        fs::rename(&sandbox, city.root().join("aside")).unwrap();
        let pipe = match is_link {
            false => sandbox.clone(),
            true => city.root().join("pipe"),
        };
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        if is_link {
            std::os::unix::fs::symlink(&pipe, &sandbox).unwrap();
        }
        let (done, seen) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(city.repo.sandbox_fault(&sandbox)));
        let seen = seen
            .recv_timeout(LIMIT)
            .expect("it does not wait for a writer");
        assert!(matches!(seen, Ok(Some(_))), "{seen:?}");
    }
}

#[test]
fn deleted_directory_is_recreated_with_its_staged_files() {
    let city = City::new();
    let sandbox = busy(&city);
    git(&sandbox, &["add", "src/a.txt"]);
    let head = rev(&sandbox, "HEAD");
    fs::remove_dir_all(&sandbox).unwrap();
    assert_eq!(
        city.repo.sandbox_fault(&sandbox),
        Ok(Some(SandboxFault::Gone))
    );
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(rev(&sandbox, "HEAD"), head);
    assert_eq!(
        fs::read_to_string(sandbox.join("src/a.txt")).unwrap(),
        "dirty\n"
    );
    assert_eq!(
        fs::read_to_string(sandbox.join("README")).unwrap(),
        "committed\n"
    );
    assert_eq!(city.facts(&sandbox).dirty, ["src/a.txt"]);
}

/// A conflict is back with its marks, and nothing passes for its solution.
#[test]
fn a_deleted_directory_is_recreated_with_its_conflicts() {
    let city = City::new();
    let sandbox = city.sandbox();
    for file in ["both", "edited", "taken"] {
        write(&sandbox, file, "base\n");
    }
    commit_all(&sandbox, "base");
    git(&sandbox, &["switch", "--quiet", "-c", "other"]);
    write(&sandbox, "both", "theirs\n");
    write(&sandbox, "taken", "theirs\n");
    write(&sandbox, "added", "theirs\n");
    fs::remove_file(sandbox.join("edited")).unwrap();
    commit_all(&sandbox, "theirs");
    git(&sandbox, &["switch", "--quiet", "-"]);
    write(&sandbox, "both", "ours\n");
    write(&sandbox, "edited", "ours\n");
    write(&sandbox, "added", "ours\n");
    fs::remove_file(sandbox.join("taken")).unwrap();
    commit_all(&sandbox, "ours");
    try_git(&sandbox, &["merge", "other"]);
    let stages = git(&sandbox, &["ls-files", "-u"]);
    assert_eq!(stages.lines().count(), 9, "{stages}");
    fs::remove_dir_all(&sandbox).unwrap();
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(city.repo.sandbox_fault(&sandbox), Ok(None));
    assert_eq!(git(&sandbox, &["ls-files", "-u"]), stages);
    let read = |file| fs::read_to_string(sandbox.join(file)).unwrap();
    for file in ["both", "added"] {
        let text = read(file);
        let parts = ["<<<<<<<", "ours\n", "=======", "theirs\n", ">>>>>>>"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    assert_eq!(
        (read("edited"), read("taken")),
        ("ours\n".into(), "theirs\n".into())
    );
    assert_eq!(
        read("src/b.txt"),
        git(&sandbox, &["show", "HEAD:src/b.txt"]) + "\n"
    );
    assert!(sandbox.join("TASK.md").is_symlink());
}

#[test]
fn a_sandbox_of_which_only_the_branch_is_left_is_recreated() {
    let city = City::new();
    let sandbox = busy(&city);
    let head = rev(&sandbox, "HEAD");
    fs::remove_dir_all(&sandbox).unwrap();
    fs::remove_dir_all(city.repo.theirs().join("worktrees")).unwrap();
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(rev(&sandbox, "HEAD"), head);
    let facts = city.facts(&sandbox);
    assert!(facts.is_clean(), "{facts:?}");
    assert!(sandbox.join("src/b.txt").exists() && sandbox.join("TASK.md").is_symlink());
}

#[test]
fn a_city_that_was_moved_is_found_again() {
    let city = City::new();
    let sandbox = busy(&city);
    let files = snapshot(&sandbox);
    let root = city.root();
    fs::rename(root.join("city"), root.join("moved")).unwrap();
    fs::create_dir_all(root.join("city")).unwrap();
    for part in ["horde", ".horde"] {
        fs::rename(root.join("moved").join(part), root.join("city").join(part)).unwrap();
    }
    // The same place again, but with links that name another.
    let link = fs::read_to_string(sandbox.join(".git")).unwrap();
    fs::write(sandbox.join(".git"), link.replace("/city/", "/old/")).unwrap();
    let back = city.repo.theirs().join("worktrees/Toast/gitdir");
    let text = fs::read_to_string(&back).unwrap();
    fs::write(&back, text.replace("/city/", "/old/")).unwrap();
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(snapshot(&sandbox), files);
    assert_eq!(city.facts(&sandbox).dirty, ["src/a.txt", "src/b.txt"]);
    assert_eq!(
        git(city.repo.theirs(), &["worktree", "list"])
            .lines()
            .count(),
        2
    );
}

#[test]
fn a_repository_in_the_links_place_is_kept() {
    let city = City::new();
    let sandbox = busy(&city);
    fs::remove_file(sandbox.join(".git")).unwrap();
    git(&sandbox, &["init", "--quiet", "-b", "main"]);
    let odd = commit_all(&sandbox, "in the wrong repository");
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(rev(&sandbox.join("found.git"), "HEAD"), odd);
    let facts = city.facts(&sandbox);
    assert_eq!(facts.dirty, ["src/a.txt", "src/b.txt"]);
    assert!(
        facts
            .untracked
            .iter()
            .any(|path| path.starts_with("found.git/"))
    );
}

#[test]
fn another_incarnations_sandbox_is_not_repaired() {
    let city = City::new();
    let sandbox = busy(&city);
    let before = snapshot(&sandbox);
    city.repo.repair_sandbox(&city.spec(2)).unwrap_err();
    assert_eq!(snapshot(&sandbox), before);
    assert_eq!(
        city.facts(&sandbox).branch.as_deref(),
        Some("raider/Toast/gt-1-1")
    );
}

/// The index may be the only place of staged work.
#[test]
fn an_index_that_was_set_aside_is_salvaged() {
    let city = City::new();
    let sandbox = busy(&city);
    let admin = city.repo.theirs().join("worktrees/Toast");
    fs::write(admin.join("index"), "DIRC and what was staged").unwrap();
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let to = city.root().join("restored");
    city.repo.restore(&record.unwrap(), &to).unwrap();
    let admin = git(&to, &["rev-parse", "--absolute-git-dir"]);
    let kept = fs::read_to_string(Path::new(&admin).join("index.aside"));
    assert_eq!(kept.unwrap(), "DIRC and what was staged");
}

/// A branch without a commit has no tree to read an index from; a sandbox without an index stays broken.
#[test]
fn index_of_a_branch_without_a_commit_is_made_anew() {
    let city = City::new();
    let sandbox = city.sandbox();
    git(&sandbox, &["checkout", "-q", "--orphan", "fresh"]);
    let admin = city.repo.theirs().join("worktrees/Toast");
    fs::remove_file(admin.join("index")).unwrap();
    assert!(city.repo.sandbox_fault(&sandbox).unwrap().is_some());
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(city.repo.sandbox_fault(&sandbox).unwrap(), None);
    assert_eq!(git(&sandbox, &["ls-files"]), "");
}

/// In half a work tree the next `git add -A` would commit deletions.
#[test]
fn a_work_tree_that_cannot_be_filled_is_not_repaired() {
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", "*.bin filter=needed\n");
        write(checkout, "big.bin", "content\n");
        for (key, value) in [
            ("filter.needed.clean", "cat"),
            ("filter.needed.smudge", "cat"),
            ("filter.needed.required", "true"),
        ] {
            git(checkout, &["config", key, value]);
        }
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    fs::remove_dir_all(&sandbox).unwrap();
    let smudge = |with| {
        git(&city.checkout(), &["config", "filter.needed.smudge", with]);
        city.repo.prepare().unwrap();
    };
    smudge("false");
    city.repo.repair_sandbox(&city.spec(1)).unwrap_err();
    let half = "some of its files do not exist yet".to_owned();
    assert_eq!(
        city.repo.sandbox_fault(&sandbox),
        Ok(Some(SandboxFault::Broken(half)))
    );
    smudge("cat");
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(city.repo.sandbox_fault(&sandbox), Ok(None));
    assert!(sandbox.join("big.bin").exists());
    let facts = city.facts(&sandbox);
    assert!(facts.is_clean(), "{facts:?}");
}

/// The repair waited for it, with the rig's lock held.
#[test]
fn pipe_in_the_place_of_a_copied_file_is_the_agents() {
    let city = City::new();
    write(&city.checkout(), ".env", "secret\n");
    let mut spec = city.spec(1);
    spec.copy = vec![".env".to_owned()];
    city.repo.make_sandbox(&spec).unwrap();
    fs::remove_file(spec.path.join(".env")).unwrap();
    mkfifo(&spec.path.join(".env"), Mode::S_IRWXU).unwrap();
    city.repo.repair_sandbox(&spec).unwrap();
    assert!(!spec.path.join(".env").is_file());
}

/// git finds the other part of an index only beside the index.
#[test]
fn staged_files_of_a_split_index_stay_staged() {
    let city = City::new();
    let sandbox = city.sandbox();
    git(&sandbox, &["config", "core.splitIndex", "true"]);
    git(&sandbox, &["update-index", "--split-index"]);
    write(&sandbox, "new", "staged\n");
    git(&sandbox, &["add", "new"]);
    git(&sandbox, &["rm", "-q", "--cached", "run.sh"]);
    git(&sandbox, &["update-index", "--skip-worktree", "README"]);
    write(&sandbox, "new", "edited after\n");
    let listed = git(&sandbox, &["ls-files", "-s", "-v"]);
    for deleted in [false, true] {
        match deleted {
            true => fs::remove_dir_all(&sandbox).unwrap(),
            false => fs::remove_file(sandbox.join(".git")).unwrap(),
        }
        city.repo.repair_sandbox(&city.spec(1)).unwrap();
        assert_eq!(git(&sandbox, &["ls-files", "-s", "-v"]), listed);
        assert_eq!(git(&sandbox, &["show", ":new"]), "staged");
    }
    assert_eq!(fs::read(sandbox.join("new")).unwrap(), b"staged\n");
}

/// The agent's git takes the file for unchanged, and continues to.
#[test]
fn filtered_file_is_as_clean_as_before() {
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", "*.nb filter=strip\n");
        write(checkout, "book.nb", "b\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    git(&sandbox, &["config", "filter.strip.clean", "head -c 2"]);
    write(&sandbox, "book.nb", "b\nand more\n");
    git(&sandbox, &["add", "book.nb"]);
    let before = city.facts(&sandbox);
    assert!(before.is_committed(), "{before:?}");
    fs::remove_file(sandbox.join(".git")).unwrap();
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(city.facts(&sandbox), before);
}

/// Its `.git` names the administrative directory of the first incarnation.
#[test]
fn directory_that_was_moved_elsewhere_does_not_work_on_the_next_incarnation() {
    let city = City::new();
    let sandbox = city.sandbox();
    let away = city.root().join("away");
    fs::rename(&sandbox, &away).unwrap();
    city.repo
        .forget_sandbox(&sandbox, &toast(), Incarnation(1))
        .unwrap();
    let fresh = city.spec(2);
    city.repo.make_sandbox(&fresh).unwrap();
    let moved = try_git(&away, &["checkout", "-q", "--detach"]);
    assert!(!moved.status.success(), "{moved:?}");
    assert_eq!(
        git(&fresh.path, &["branch", "--show-current"]),
        fresh.branch
    );
    // The entry is found again, even if the links tell nothing.
    fs::remove_file(fresh.path.join(".git")).unwrap();
    city.repo.repair_sandbox(&fresh).unwrap();
    assert_eq!(
        git(&fresh.path, &["branch", "--show-current"]),
        fresh.branch
    );
    let entries = fs::read_dir(city.repo.theirs().join("worktrees")).unwrap();
    assert_eq!(entries.count(), 1);
}

#[test]
fn city_that_was_moved_twice_borrows_from_its_own_custody_alone() {
    let city = City::new();
    let at = city.repo.theirs().join("objects/info/alternates");
    let own = fs::read_to_string(&at).unwrap();
    // As an agent has it.
    fs::write(&at, format!("{own}/of/an/agent\n")).unwrap();
    let mut from = city.root();
    for to in ["once", "twice"] {
        let to = city.root().join(to);
        fs::create_dir(&to).unwrap();
        fs::rename(from.join("city"), to.join("city")).unwrap();
        from = to;
        let moved = repo(&from, RigSource::Path(city.checkout()), true);
        moved.prepare().unwrap();
    }
    let at = from.join("city/horde/repo.git/objects/info/alternates");
    let objects = from.join("city/.horde/custody/horde.git/objects");
    let lenders = format!("{}\n/of/an/agent\n", objects.display());
    assert_eq!(fs::read_to_string(at).unwrap(), lenders);
}
