//! Files that took the place of a link in a sandbox.

use super::*;

/// It may be work of the agent, and the rename that kept it has left its time of writing.
#[test]
fn file_that_took_the_place_of_a_link_is_kept_as_long_as_salvage() {
    let city = crate::testing::scratch();
    let (tasks, dir) = (files(city.path()), city.path().join("tasks"));
    let file = dir.join("TASK.replaced-1.md");
    fs::create_dir_all(&dir).unwrap();
    fs::write(&file, "my plan").unwrap();
    let past = std::time::SystemTime::now() - Duration::from_secs(7200);
    fs::File::open(&file).unwrap().set_modified(past).unwrap();
    let hour = Duration::from_secs(3600);
    for replaced_before in [None, Some(Timestamp::now() - hour)] {
        let expired = Expired {
            before: Some(Timestamp::MAX),
            replaced_before,
        };
        assert_eq!(tasks.prune(&dir, expired, &[]), Ok(0));
    }
    let all = Expired {
        before: None,
        replaced_before: Some(Timestamp::now() + hour),
    };
    assert_eq!(tasks.prune(&dir, all, &[]), Ok(1));
}

/// The end of a session, the watcher of its outcome and a patrol come together.
#[test]
fn outcome_is_read_as_it_was_declared_while_its_link_is_repaired() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    tasks.ask_of_commits(Box::new(|_, _, _| Some(Committed::No)));
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(sandbox.join(".git")).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    for round in 0..100 {
        let said = format!("passed {round}");
        fs::write(sandbox.join("new"), &said).unwrap();
        fs::rename(sandbox.join("new"), sandbox.join(".horde-outcome")).unwrap();
        std::thread::scope(|scope| {
            for nth in 0..3 {
                let (tasks, dir, sandbox, said) = (&tasks, &dir, &sandbox, &said);
                scope.spawn(move || {
                    for _ in 0..3 {
                        if nth > 0 {
                            assert!(tasks.repair_links(dir, sandbox).failed.is_none());
                        }
                        assert_eq!(tasks.outcome(dir, sandbox).unwrap().text, *said);
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(dir.join("outcome")).unwrap(), said);
    }
}

/// Work that waited for its turn comes for an incarnation that is over.
#[test]
fn sandbox_that_is_watched_for_another_task_directory_is_left_alone() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    tasks.ask_of_commits(Box::new(|_, _, _| Some(Committed::No)));
    let dir = |number| {
        city.path()
            .join(format!("tasks/rig/gt-{number}/Toast-{number}"))
    };
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(sandbox.join(".git")).unwrap();
    tasks.write_task(&dir(1), "do it").unwrap();
    tasks.write_task(&dir(2), "do the next").unwrap();
    tasks.watch(&dir(2), &sandbox);
    fs::write(sandbox.join(".horde-outcome"), "passed").unwrap();
    assert!(tasks.repair_links(&dir(1), &sandbox).moved.is_empty());
    assert_eq!(tasks.outcome(&dir(2), &sandbox).unwrap().text, "passed");
    let moved = tasks.repair_links(&dir(2), &sandbox).moved;
    assert_eq!(moved, [dir(2).join("outcome")]);
}

/// A program that was killed before it wrote its outcome, or a clean-up that made the file anew.
#[test]
fn empty_file_in_place_of_the_link_hides_no_outcome() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(sandbox.join(".git")).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    fs::write(sandbox.join(".horde-outcome"), "").unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "");
    tasks.write_outcome(&dir, "passed").unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "passed");
    fs::write(sandbox.join(".orange-outcome"), "stuck").unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "stuck");
}

/// It would be silence otherwise: the session has declared its outcome, and nothing happens.
#[test]
fn outcome_that_the_session_has_committed_is_told_as_such() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    tasks.ask_of_commits(Box::new(|_, name, _| match name {
        ".horde-outcome" => Some(Committed::OnBranch),
        _ => Some(Committed::No),
    }));
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(&sandbox).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    fs::write(sandbox.join(".horde-outcome"), "passed").unwrap();
    let why = tasks.outcome(&dir, &sandbox).unwrap().odd.unwrap();
    assert!(why.contains("git rm --cached .horde-outcome"), "{why}");
    // The other name, and the file itself, hold an outcome all the same.
    fs::write(sandbox.join(".orange-outcome"), "stuck").unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "stuck");
}

/// A file that the branch has staged stays in the sandbox.
#[test]
fn outcome_that_stays_in_the_sandbox_is_older_than_one_that_was_declared_later() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(&sandbox).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    fs::write(sandbox.join(".horde-outcome"), "passed").unwrap();
    let first = tasks.outcome(&dir, &sandbox).unwrap();
    assert_eq!(first.text, "passed");
    crate::testing::eventually("the clock of the file system goes on", || {
        tasks.write_outcome(&dir, "stuck").unwrap();
        (tasks.outcome(&dir, &sandbox).unwrap().text == "stuck").then_some(())
    });
}

/// A copy of the city has new times: the file must not count again then.
#[test]
fn outcome_that_counts_no_longer_is_moved_aside() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(&sandbox).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    tasks.write_outcome(&dir, "passed").unwrap();
    let written = tasks.outcome(&dir, &sandbox).unwrap().written;
    // Another one was written since.
    let earlier = written.map(|at| at - Duration::from_secs(1));
    tasks.set_outcome_aside(&dir, &sandbox, earlier).unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "passed");
    tasks.set_outcome_aside(&dir, &sandbox, written).unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "");
    let kept = fs::read_to_string(dir.join("outcome.replaced-1")).unwrap();
    assert_eq!(kept, "passed");
    tasks.set_outcome_aside(&dir, &sandbox, written).unwrap();
    fs::write(dir.join("outcome"), "stuck").unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "stuck");
}

/// The rejected outcome may be in the sandbox still, where git or the file system kept it from being moved.
#[test]
fn outcome_that_counts_no_longer_is_moved_aside_from_the_sandbox_as_well() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(&sandbox).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    let own = sandbox.join(".horde-outcome");
    fs::write(&own, "passed").unwrap();
    let written = tasks.outcome(&dir, &sandbox).unwrap().written;
    tasks.set_outcome_aside(&dir, &sandbox, written).unwrap();
    assert!(!own.exists());
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "");
    let kept = fs::read_to_string(dir.join("outcome.replaced-1")).unwrap();
    assert_eq!(kept, "passed");
    assert!(dir.join("outcome").exists());
}

/// The last word of the session cannot be read; the one before must not count in its place.
#[test]
fn last_outcome_that_cannot_be_read_is_told_and_none_before_it_counts() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    tasks.ask_of_commits(Box::new(|_, name, _| match name {
        ".horde-outcome" => Some(Committed::OnBranch),
        _ => Some(Committed::No),
    }));
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(&sandbox).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    let too_large = " ".repeat(100_000);
    for (name, text, says) in [
        (".horde-outcome", "stuck", "is committed"),
        (".orange-outcome", &too_large, "larger than"),
    ] {
        tasks.write_outcome(&dir, "passed").unwrap();
        crate::testing::eventually("the clock of the file system goes on", || {
            fs::write(sandbox.join(name), text).unwrap();
            let found = tasks.outcome(&dir, &sandbox).unwrap();
            found
                .odd
                .is_some_and(|why| why.contains(says))
                .then_some(())
        });
        fs::remove_file(sandbox.join(name)).unwrap();
        assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "passed");
    }
}

/// The rig was held when the supervisor adopted the session of its raider.
#[test]
fn sandbox_that_was_not_watched_is_watched_from_its_first_repair_on() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    tasks.ask_of_commits(Box::new(|_, _, _| Some(Committed::No)));
    let (told, events) = std::sync::mpsc::channel();
    tasks.listen(Box::new(move |event| drop(told.send(event))));
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(sandbox.join(".git")).unwrap();
    fs::create_dir_all(&dir).unwrap();
    assert!(tasks.repair_links(&dir, &sandbox).failed.is_none());
    fs::write(dir.join("outcome"), "passed").unwrap();
    let limit = Duration::from_secs(30);
    let heard = events.recv_timeout(limit).unwrap();
    assert_eq!(heard, TaskEvent::Outcome(dir));
}

/// The session wrote several outcomes before the work was rejected; git has one of the files.
#[test]
fn all_outcomes_until_a_rejection_are_moved_aside_but_none_that_git_has() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    tasks.ask_of_commits(Box::new(|_, name, _| match name {
        ".horde-outcome" => Some(Committed::OnBranch),
        _ => Some(Committed::No),
    }));
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(&sandbox).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    tasks.write_outcome(&dir, "passed").unwrap();
    let own = sandbox.join(".horde-outcome");
    let until = crate::testing::eventually("the clock of the file system goes on", || {
        fs::write(&own, "passed").unwrap();
        let found = tasks.outcome(&dir, &sandbox).unwrap();
        found.odd.is_some().then_some(found.written)
    });
    tasks.set_outcome_aside(&dir, &sandbox, until).unwrap();
    assert_eq!(fs::read_to_string(dir.join("outcome")).unwrap(), "");
    assert_eq!(fs::read_to_string(&own).unwrap(), "passed", "it is git's");
}

#[test]
fn file_that_git_may_have_written_is_told_and_one_that_cannot_be_judged_waits() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let found = Arc::new(Mutex::new(Some(Committed::Known)));
    let asked = Arc::clone(&found);
    tasks.ask_of_commits(Box::new(move |_, _, _| *asked.lock().unwrap()));
    let dir = city.path().join("tasks/rig/gt-1/Toast-1");
    let sandbox = city.path().join("rig/raiders/Toast");
    fs::create_dir_all(sandbox.join(".git")).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    fs::write(sandbox.join(".horde-outcome"), "passed").unwrap();
    let read = || {
        assert!(tasks.repair_links(&dir, &sandbox).moved.is_empty());
        tasks.outcome(&dir, &sandbox).unwrap()
    };
    let told = read();
    assert!(told.odd.is_some_and(|why| why.contains(".orange-outcome")));
    for unsettled in [Some(Committed::Unsettled), None] {
        *found.lock().unwrap() = unsettled;
        let waits = read();
        assert_eq!((waits.odd, &*waits.text, waits.unsettled), (None, "", true));
    }
    // An agent that keeps git's lock for ever is told at last.
    let told = (0..UNSETTLED_MAX)
        .map(|_| read())
        .find(|found| !found.unsettled);
    assert!(told.unwrap().odd.is_some_and(|why| why.contains("hd done")));
}
