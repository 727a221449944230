//! Links that are replaced and removed, in every order.

use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;

mod of_other_tasks;

/// A sandbox with its links, and its task directory.
fn places(top: &Path) -> (PathBuf, PathBuf) {
    let dir = top.join(".horde/tasks/rig/gt-1/Toast-1");
    let sandbox = top.join("rigs/raiders/Toast");
    fs::create_dir_all(&dir).unwrap();
    fs::create_dir_all(sandbox.join(".git")).unwrap();
    fs::write(dir.join(TASK), "do it").unwrap();
    fs::write(dir.join(OUTCOME), "").unwrap();
    symlink(dir.join(TASK), sandbox.join(TASK)).unwrap();
    for name in OUTCOMES {
        symlink(dir.join(OUTCOME), sandbox.join(name)).unwrap();
    }
    (dir, sandbox)
}

/// Repairs the links without a failure. Returns the moved files.
fn repaired(dir: &Path, sandbox: &Path, is_own: IsOwn<'_>) -> Vec<PathBuf> {
    let Repaired { moved, failed } = repair(dir, sandbox, is_own);
    assert!(failed.is_none(), "{failed:?}");
    moved
}

fn all(_: &str, _: Option<&[u8]>) -> bool {
    true
}

/// Saves as an editor does that writes a new file and renames it.
fn save(path: &Path, text: &str) {
    let beside = path.with_file_name("saved.tmp");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// Weakness W6 of an earlier system: after an editor replaced the link, later tasks did not reach the sandbox.
#[test]
fn replaced_links_are_put_back_and_what_was_written_is_kept() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    assert!(repaired(&dir, &sandbox, &all).is_empty());
    for round in 1..=2 {
        save(&sandbox.join(TASK), &format!("my plan {round}"));
        save(&sandbox.join(OUTCOMES[1]), &format!("passed {round}"));
        let moved = dir.join(format!("TASK.replaced-{round}.md"));
        let kept = repaired(&dir, &sandbox, &all);
        assert_eq!(kept, [moved.clone(), dir.join(OUTCOME)]);
        assert_eq!(text(&moved), format!("my plan {round}"));
        assert_eq!(text(dir.join(OUTCOME)), format!("passed {round}"));
        assert_eq!(text(sandbox.join(TASK)), "do it");
    }
    fs::write(dir.join(TASK), "the next step").unwrap();
    assert_eq!(text(sandbox.join(TASK)), "the next step");
    fs::write(sandbox.join(OUTCOMES[0]), "stuck").unwrap();
    assert_eq!(text(dir.join(OUTCOME)), "stuck");
}

#[test]
fn outcome_that_was_written_before_is_kept_and_an_empty_one_replaces_none() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    for name in OUTCOMES {
        save(&sandbox.join(name), name);
    }
    repaired(&dir, &sandbox, &all);
    let texts = || {
        let names = ["outcome", "outcome.replaced-1", "outcome.replaced-2"];
        names.map(|name| fs::read_to_string(dir.join(name)).ok())
    };
    let both = OUTCOMES.map(|name| Some(name.to_owned()));
    assert!(texts().iter().filter(|text| text.is_some()).count() == 2);
    assert!(
        both.iter().all(|text| texts().contains(text)),
        "{:?}",
        texts()
    );
    let before = text(dir.join(OUTCOME));
    save(&sandbox.join(OUTCOMES[0]), "");
    repaired(&dir, &sandbox, &all);
    assert_eq!(text(dir.join(OUTCOME)), before);
    // A slow program writes on.
    fs::write(sandbox.join(OUTCOMES[0]), "written at last").unwrap();
    repaired(&dir, &sandbox, &all);
    assert_eq!(text(dir.join(OUTCOME)), "written at last");
    assert_eq!(text(sandbox.join(OUTCOMES[0])), "written at last");
}

/// The session gives any time to its files.
#[test]
fn outcome_that_came_last_counts_and_the_others_are_kept() {
    let times = [UNIX_EPOCH, SystemTime::now() + Duration::from_secs(1 << 30)];
    for (last, time) in [(0, times[0]), (1, times[0]), (0, times[1]), (1, times[1])] {
        let top = crate::testing::scratch();
        let (dir, sandbox) = places(top.path());
        let [first, second] = [1 - last, last].map(|at| sandbox.join(OUTCOMES[at]));
        let prepare = |text: &str, time| {
            let file = fs::File::create(sandbox.join("prepared")).unwrap();
            fs::write(sandbox.join("prepared"), text).unwrap();
            file.set_modified(time).unwrap();
        };
        let come = |to: &Path| {
            fs::rename(sandbox.join("prepared"), to).unwrap();
            tick(&dir);
        };
        // As after a time without a supervisor.
        prepare("passed", times[1]);
        come(&first);
        prepare("stuck", time);
        come(&second);
        let repair = || {
            let repaired = repair(&dir, &sandbox, &all);
            assert!(repaired.failed.is_none());
            repaired.moved
        };
        repair();
        assert_eq!(text(dir.join(OUTCOME)), "stuck");
        // The other link leads to the file that was written since.
        prepare("passed", times[1]);
        come(&first);
        fs::write(&second, "stuck again").unwrap();
        tick(&dir);
        let kept = repair();
        assert_eq!(text(dir.join(OUTCOME)), "stuck again");
        assert_eq!(kept.iter().map(text).collect::<Vec<_>>(), ["passed"]);
        assert_eq!(text(&first), "stuck again");
        prepare("passed", time);
        come(&first);
        repair();
        assert_eq!(text(dir.join(OUTCOME)), "passed");
    }
}

/// A supervisor that is killed knows nothing of its moves, which have changed the times.
#[test]
fn outcome_that_was_moved_is_as_old_as_its_declaration() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    save(&sandbox.join(OUTCOMES[1]), "passed");
    tick(&dir);
    let first = found(&sandbox.join(OUTCOMES[1]), &dir.join(OUTCOME));
    save(&sandbox.join(OUTCOMES[0]), "stuck");
    tick(&dir);
    // The later one came when the first was judged, and is moved by the next supervisor.
    let moved = move_away(
        &sandbox.join(OUTCOMES[1]),
        &dir.join(OUTCOME),
        first.unwrap(),
    );
    assert_eq!(moved.unwrap(), dir.join(OUTCOME));
    repaired(&dir, &sandbox, &all);
    assert_eq!(text(dir.join(OUTCOME)), "stuck");
    assert_eq!(text(dir.join("outcome.replaced-1")), "passed");
    // Writing into the moved file is a declaration.
    save(&sandbox.join(OUTCOMES[0]), "passed again");
    tick(&dir);
    fs::write(dir.join(OUTCOME), "stuck again").unwrap();
    repaired(&dir, &sandbox, &all);
    assert_eq!(text(dir.join(OUTCOME)), "stuck again");
}

/// git is asked between the look and the move.
#[test]
fn file_that_came_since_the_look_is_not_moved_with_the_time_of_the_one_before() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    let link = sandbox.join(OUTCOMES[0]);
    save(&link, "passed");
    let asks = std::cell::Cell::new(0);
    let replaces = |_: &str, bytes: Option<&[u8]>| {
        if bytes == Some(b"passed") && asks.replace(1) == 0 {
            tick(&dir);
            save(&link, "stuck");
        }
        true
    };
    assert!(repaired(&dir, &sandbox, &replaces).is_empty());
    assert_eq!(text(&link), "stuck");
    assert_eq!(text(dir.join(OUTCOME)), "");
    assert_eq!(repaired(&dir, &sandbox, &all), [dir.join(OUTCOME)]);
    assert_eq!(text(dir.join(OUTCOME)), "stuck");
}

/// Between the look and the move, git may put another branch's file there, with the inode of the one that it removed.
#[test]
fn file_that_took_the_place_of_the_judged_one_is_moved_back() {
    for keeps in [true, false] {
        let top = crate::testing::scratch_on_disk();
        let (dir, sandbox) = places(top.path());
        let link = sandbox.join(OUTCOMES[0]);
        fs::remove_file(&link).unwrap();
        fs::write(&link, "passed").unwrap();
        let judged = link.symlink_metadata().unwrap();
        let held = keeps.then(|| fs::File::open(&link).unwrap());
        fs::remove_file(&link).unwrap();
        fs::write(&link, "of another branch").unwrap();
        fs::remove_file(dir.join(OUTCOME)).unwrap();
        let moved = move_judged(&link, &dir.join(OUTCOME), &judged);
        assert_eq!(moved.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(text(&link), "of another branch");
        assert!(!dir.join(OUTCOME).exists());
        drop(held);
    }
}

/// A rename that fails changes the times of the outcome before, which was out of the way for a moment.
#[test]
fn failed_move_makes_the_outcome_before_no_later() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    let (link, outcome) = (sandbox.join(OUTCOMES[0]), dir.join(OUTCOME));
    fs::write(&outcome, "passed").unwrap();
    let declared = || moves::declared(&outcome, &outcome.symlink_metadata().unwrap());
    let first = declared();
    tick(&dir);
    save(&link, "stuck");
    let judged = found(&link, &outcome).unwrap();
    tick(&dir);
    // Nothing is moved out of a sandbox that is behind a link.
    let elsewhere = top.path().join("elsewhere");
    fs::rename(&sandbox, &elsewhere).unwrap();
    symlink(&elsewhere, &sandbox).unwrap();
    assert!(move_away(&link, &outcome, judged).is_err());
    assert_eq!(text(&outcome), "passed");
    assert_eq!(declared(), first, "it came back");
    fs::remove_file(&sandbox).unwrap();
    fs::rename(&elsewhere, &sandbox).unwrap();
    repaired(&dir, &sandbox, &all);
    assert_eq!(text(&outcome), "stuck");
    assert_eq!(text(dir.join("outcome.replaced-1")), "passed");
}

#[test]
fn empty_outcome_file_that_a_writer_has_open_is_kept_for_its_text() {
    let top = crate::testing::scratch_on_disk();
    let (dir, sandbox) = places(top.path());
    let mut writer = fs::File::options();
    let mut writer = writer.append(true).open(sandbox.join(OUTCOMES[0])).unwrap();
    save(&sandbox.join(OUTCOMES[1]), "stuck");
    repaired(&dir, &sandbox, &all);
    io::Write::write_all(&mut writer, b"passed").unwrap();
    assert_eq!(text(dir.join(OUTCOME)), "stuck");
    assert_eq!(text(dir.join("outcome.replaced-1")), "passed");
}

#[test]
fn nothing_is_moved_through_a_link_in_the_place_of_all_tasks() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    let (tasks, outside) = (top.path().join(".horde/tasks"), top.path().join("outside"));
    fs::rename(&tasks, &outside).unwrap();
    symlink(&outside, &tasks).unwrap();
    save(&sandbox.join(OUTCOMES[0]), "passed");
    let failed = repair(&dir, &sandbox, &all).failed.unwrap();
    assert!(failed.to_string().contains("it is a link"), "{failed}");
    assert!(set_aside(&dir, &sandbox, None, &all).is_err());
    assert_eq!(text(sandbox.join(OUTCOMES[0])), "passed");
    assert_eq!(
        fs::read_dir(outside.join("rig/gt-1/Toast-1"))
            .unwrap()
            .count(),
        2
    );
}

/// Waits until a new file has a later time than the ones before.
fn tick(dir: &Path) {
    let written = || {
        fs::write(dir.join("clock"), "").unwrap();
        changed(&dir.join("clock").symlink_metadata().unwrap())
    };
    let before = written();
    crate::testing::eventually("the clock of the file system goes on", || {
        (written() > before).then_some(())
    });
}

#[test]
fn outcome_that_is_replaced_more_often_than_is_kept_counts() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    for round in 1..KEPT_MAX + 5 {
        save(&sandbox.join(OUTCOMES[0]), &format!("passed {round}"));
        repaired(&dir, &sandbox, &all);
        assert_eq!(text(dir.join(OUTCOME)), format!("passed {round}"));
        assert_eq!(
            text(sandbox.join(OUTCOMES[0])),
            format!("passed {round}"),
            "it is a link again"
        );
    }
    let kept = fs::read_dir(&dir).unwrap().map(|it| it.unwrap().path());
    let kept: Vec<_> = kept.filter(|it| !it.ends_with(TASK)).map(text).collect();
    // With the outcome file, and the notes of the moves.
    assert!(kept.len() <= KEPT_MAX + 2, "{}", kept.len());
    assert!(kept.contains(&format!("passed {}", KEPT_MAX + 3)));
    assert!(!kept.contains(&"passed 1".to_owned()));
}

/// As after `git clean -fdx`.
#[test]
fn removed_links_are_made_again() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    for name in [TASK, OUTCOMES[0], OUTCOMES[1]] {
        fs::remove_file(sandbox.join(name)).unwrap();
    }
    assert!(repaired(&dir, &sandbox, &all).is_empty());
    for (name, target) in [(TASK, TASK), (OUTCOMES[0], OUTCOME), (OUTCOMES[1], OUTCOME)] {
        assert_eq!(fs::read_link(sandbox.join(name)).unwrap(), dir.join(target));
    }
}

#[test]
fn writer_that_has_the_file_open_writes_on_into_the_kept_one() {
    use std::io::Write as _;
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    let own = sandbox.join(OUTCOMES[0]);
    fs::remove_file(&own).unwrap();
    let mut file = fs::File::create(&own).unwrap();
    file.write_all(b"outcome: ").unwrap();
    repaired(&dir, &sandbox, &all);
    file.write_all(b"passed").unwrap();
    assert_eq!(text(dir.join(OUTCOME)), "outcome: passed");
}

#[test]
fn files_of_the_repository_and_things_that_are_no_files_stay() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    save(&sandbox.join(TASK), "a task list of the project");
    save(&sandbox.join(OUTCOMES[0]), "anything");
    assert!(repaired(&dir, &sandbox, &|_, _| false).is_empty());
    assert_eq!(text(sandbox.join(TASK)), "a task list of the project");
    assert_eq!(text(sandbox.join(OUTCOMES[0])), "anything");
    // The task of a repository with a TASK.md has another name.
    let has_task = |name: &str, _: Option<&[u8]>| name != TASK;
    repaired(&dir, &sandbox, &has_task);
    assert_eq!(text(sandbox.join(TASK_ELSE)), "do it");
    for name in [TASK_ELSE, OUTCOMES[0]] {
        fs::remove_file(sandbox.join(name)).unwrap();
    }
    fs::create_dir(sandbox.join(TASK_ELSE)).unwrap();
    symlink("elsewhere", sandbox.join(OUTCOMES[0])).unwrap();
    assert!(repaired(&dir, &sandbox, &has_task).is_empty());
    assert!(sandbox.join(TASK_ELSE).is_dir());
    assert_eq!(
        fs::read_link(sandbox.join(OUTCOMES[0])).unwrap(),
        Path::new("elsewhere")
    );
}

/// `git rm --cached` leaves the file of the repository in the sandbox.
#[test]
fn blank_file_and_one_with_content_of_the_repository_declare_nothing() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    fs::write(dir.join(OUTCOME), "stuck").unwrap();
    let of_repository = |_: &str, bytes: Option<&[u8]>| bytes != Some(b"passed");
    for said in ["passed", "", " \n"] {
        save(&sandbox.join(OUTCOMES[0]), said);
        assert!(repaired(&dir, &sandbox, &of_repository).is_empty());
        assert_eq!(text(sandbox.join(OUTCOMES[0])), said);
        assert_eq!(text(dir.join(OUTCOME)), "stuck");
    }
    save(&sandbox.join(OUTCOMES[0]), "passed anew");
    let moved = repaired(&dir, &sandbox, &of_repository);
    assert_eq!(moved, [dir.join(OUTCOME)]);
    assert_eq!(text(dir.join("outcome.replaced-1")), "stuck");
}

/// Both links are gone, and a program has made a blank file after the other's outcome.
#[test]
fn blank_file_pushes_no_outcome_aside() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    save(&sandbox.join(OUTCOMES[1]), "passed");
    tick(&dir);
    save(&sandbox.join(OUTCOMES[0]), "\n");
    assert_eq!(repaired(&dir, &sandbox, &all), [dir.join(OUTCOME)]);
    assert_eq!(text(dir.join(OUTCOME)), "passed");
    // Blanks in the outcome file are no outcome either, whatever their time is.
    save(&sandbox.join(OUTCOMES[1]), "passed again");
    tick(&dir);
    fs::write(dir.join(OUTCOME), " \n").unwrap();
    repaired(&dir, &sandbox, &all);
    assert_eq!(text(dir.join(OUTCOME)), "passed again");
}

/// Each state between the moves shows the last outcome as the last one: the supervisor may be killed there.
#[test]
fn outcome_that_came_last_is_moved_first() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    save(&sandbox.join(OUTCOMES[0]), "passed");
    tick(&dir);
    save(&sandbox.join(OUTCOMES[1]), "stuck");
    let moved = repaired(&dir, &sandbox, &all);
    let aside = dir.join("outcome.replaced-1");
    assert_eq!(moved, [dir.join(OUTCOME), aside.clone()]);
    assert_eq!(text(dir.join(OUTCOME)), "stuck");
    assert_eq!(text(aside), "passed");
}

#[test]
fn nothing_is_made_in_a_directory_that_is_no_sandbox_and_nothing_goes_through_a_link() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    fs::remove_dir(sandbox.join(".git")).unwrap();
    fs::remove_file(sandbox.join(TASK)).unwrap();
    assert!(repaired(&dir, &sandbox, &all).is_empty());
    assert!(!sandbox.join(TASK).exists());
    let real = top.path().join("real");
    fs::rename(&sandbox, &real).unwrap();
    fs::create_dir(real.join(".git")).unwrap();
    symlink(&real, &sandbox).unwrap();
    assert!(repair(&dir, &sandbox, &all).failed.is_some());
    assert!(!real.join(TASK).exists());
}

#[test]
fn kept_files_are_bounded_and_the_next_one_stays() {
    let top = crate::testing::scratch();
    let (dir, sandbox) = places(top.path());
    for _ in 0..KEPT_MAX {
        save(&sandbox.join(TASK), "again");
        repaired(&dir, &sandbox, &all);
    }
    save(&sandbox.join(TASK), "the last");
    save(&sandbox.join(OUTCOMES[0]), "passed");
    let Repaired { moved, failed } = repair(&dir, &sandbox, &all);
    assert_eq!(moved, [dir.join(OUTCOME)], "the others are put back");
    let error = failed.unwrap();
    assert!(error.why.contains("100 replaced files"), "{error}");
    assert_eq!(text(sandbox.join(TASK)), "the last");
    assert_eq!(text(dir.join(OUTCOME)), "passed");
}
