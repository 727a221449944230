//! Repairs the links of a sandbox to its task directory: an editor that saves by renaming puts a file in the place of a
//! link, and `git clean -fdx` removes it (`agent-lifecycle.md`, section 1; `contract.md`, 2.7).

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::RenameFlags;

use super::text::{at, from_above};
use crate::adapters::beneath;
use crate::domain::task_names::{OUTCOME, OUTCOMES, TASK, TASK_ELSE};
use crate::ports::tasks::TaskError;

/// The number of replaced files of a kind that are kept. The next `TASK.md` stays in the sandbox, and the next outcome
/// replaces the oldest one.
const KEPT_MAX: usize = 100;

/// Returns true for a name that leads to the outcome file.
pub(super) fn is_outcome(name: &OsStr) -> bool {
    OUTCOMES.iter().any(|known| name == *known)
}

/// Puts the links back, and returns the files that took their places, where they are now. `committed` tells whether HEAD
/// has a name; such a file is the repository's, and stays, as it does when that is unknown. So does a file on another
/// file system than the task directory: its outcome is read where it is. Several repairs may run at once.
///
/// # Errors
/// The first one, when a file cannot be moved or a link cannot be made. The other links are put back all the same.
pub(super) fn repair(
    dir: &Path,
    sandbox: &Path,
    committed: &dyn Fn(&str) -> Option<bool>,
) -> Result<Vec<PathBuf>, TaskError> {
    let (mut kept, mut failed) = (Vec::new(), None);
    // A directory without it is no sandbox, or only half of one.
    if sandbox.join(".git").symlink_metadata().is_err() {
        return Ok(kept);
    }
    let (task, outcome) = (dir.join(TASK), dir.join(OUTCOME));
    let names = OUTCOMES.map(|name| (name, &outcome));
    let names = [(task_name(sandbox, &task, committed), &task)]
        .into_iter()
        .chain(names);
    let is_own = |name: &str| committed(name) == Some(false);
    let missing = names.filter_map(|(name, target)| {
        let came = came(&sandbox.join(name), target == &outcome)?;
        is_own(name).then(|| (came, sandbox.join(name), target))
    });
    let mut missing: Vec<_> = missing.collect();
    // The outcome that came last counts.
    missing.sort_by_key(|(came, ..)| *came);
    for (came, link, target) in missing {
        match put_back(&link, target, came) {
            Ok(file) => kept.extend(file),
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
            Err(error) => {
                failed.get_or_insert(at(&link)(error));
            }
        }
    }
    failed.map_or(Ok(kept), Err)
}

/// Seconds and nanoseconds.
type Time = (i64, i64);

/// Returns when the file in the place of a link came there, by a write or a rename: none in it if there is no file. None
/// at all for a link, and for what is left alone.
fn came(link: &Path, is_outcome: bool) -> Option<Option<Time>> {
    match link.symlink_metadata() {
        // A program may just be writing it.
        Ok(found) if found.is_file() && found.len() == 0 && is_outcome => None,
        Ok(found) if found.is_file() => Some(Some((found.ctime(), found.ctime_nsec()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(None),
        Ok(_) | Err(_) => None,
    }
}

/// Returns the name under which the sandbox has its task.
fn task_name(
    sandbox: &Path,
    task: &Path,
    committed: &dyn Fn(&str) -> Option<bool>,
) -> &'static str {
    let leads_there = |name| fs::read_link(sandbox.join(name)).is_ok_and(|target| target == task);
    let else_there = sandbox.join(TASK_ELSE).symlink_metadata().is_ok();
    if !leads_there(TASK) && (else_there || committed(TASK) == Some(true)) {
        return TASK_ELSE;
    }
    TASK
}

/// Makes the link, after the file in its place was moved into the task directory. Returns where that is now.
fn put_back(link: &Path, target: &Path, came: Option<Time>) -> io::Result<Option<PathBuf>> {
    let (root, name) = from_above(link, 2);
    let file = match came {
        Some(came) => move_away(link, target, came)?,
        None => None,
    };
    match beneath::symlink(root, name, target) {
        // The session, or another repair, has made something there meanwhile. The next repair looks at it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(file),
        made => made.map(|()| file),
    }
}

/// Moves the file itself, and not its content: a writer that still has it open writes on into the moved file. It is
/// looked at where no other repair moves it: what was a file may be the link that another repair has made since.
fn move_away(link: &Path, target: &Path, came: Time) -> io::Result<Option<PathBuf>> {
    let moved = match to_free_name(link, target) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        moved => moved?,
    };
    let found = moved.symlink_metadata()?;
    let (root, name) = from_above(&moved, 4);
    if found.is_symlink() && fs::read_link(&moved)? == target {
        beneath::remove(root, name)?;
        return Ok(None);
    }
    if !found.is_file() || !target.ends_with(OUTCOME) {
        return Ok(Some(moved));
    }
    let before = target.symlink_metadata();
    if let Some(before) = before.ok().filter(|it| it.is_file() && it.len() > 0) {
        // The session wrote through its other link, or into the file itself, since.
        if (before.mtime(), before.mtime_nsec()) > came {
            return Ok(Some(moved));
        }
        // What was declared before is kept, too.
        match to_free_name(target, target) {
            // Another repair has kept it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            kept => drop(kept?),
        }
    }
    beneath::rename_between((root, name), from_above(target, 4), RenameFlags::empty())?;
    Ok(Some(target.to_owned()))
}

/// Renames a file to a free name beside the file that its link leads to. Returns the new path.
fn to_free_name(file: &Path, target: &Path) -> io::Result<PathBuf> {
    let levels = if file == target { 4 } else { 2 };
    let is_outcome = target.ends_with(OUTCOME);
    let names = (1..=KEPT_MAX).map(|number| match is_outcome {
        true => target.with_file_name(format!("{OUTCOME}.replaced-{number}")),
        false => target.with_file_name(format!("TASK.replaced-{number}.md")),
    });
    let names: Vec<_> = names.collect();
    // Another repair may take a name that this one has freed.
    for _ in 0..3 {
        for free in &names {
            let to = from_above(free, 4);
            match beneath::rename_between(from_above(file, levels), to, RenameFlags::NOREPLACE) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                moved => return moved.map(|()| free.clone()),
            }
        }
        let by_age = |path: &&PathBuf| path.symlink_metadata().ok().map(age);
        match names.iter().filter(|_| is_outcome).min_by_key(by_age) {
            Some(oldest) => {
                let (root, name) = from_above(oldest, 4);
                beneath::remove(root, name)?;
            }
            None => break,
        }
    }
    Err(io::Error::other(format!(
        "{KEPT_MAX} replaced files are kept already"
    )))
}

/// A file that another repair is just moving came last, whatever it says of its content.
fn age(found: Metadata) -> Time {
    (found.ctime(), found.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A sandbox with its links, and its task directory.
    fn places(top: &Path) -> (PathBuf, PathBuf) {
        let dir = top.join("tasks/rig/gt-1/Toast-1");
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

    fn nothing(_: &str) -> Option<bool> {
        Some(false)
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
        assert_eq!(
            repair(&dir, &sandbox, &nothing).unwrap(),
            [""; 0].map(PathBuf::from)
        );
        for round in 1..=2 {
            save(&sandbox.join(TASK), &format!("my plan {round}"));
            save(&sandbox.join(OUTCOMES[1]), &format!("passed {round}"));
            let moved = dir.join(format!("TASK.replaced-{round}.md"));
            let kept = repair(&dir, &sandbox, &nothing).unwrap();
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
        repair(&dir, &sandbox, &nothing).unwrap();
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
        repair(&dir, &sandbox, &nothing).unwrap();
        assert_eq!(text(dir.join(OUTCOME)), before);
        // A slow program writes on.
        fs::write(sandbox.join(OUTCOMES[0]), "written at last").unwrap();
        repair(&dir, &sandbox, &nothing).unwrap();
        assert_eq!(text(dir.join(OUTCOME)), "written at last");
        assert_eq!(text(sandbox.join(OUTCOMES[0])), "written at last");
    }

    /// The end of a session and the watcher of its outcome come together.
    #[test]
    fn repairs_at_once_lose_no_text_and_leave_a_link_to_the_file() {
        let top = crate::testing::scratch();
        let (dir, sandbox) = places(top.path());
        for round in 0..200 {
            let said = format!("passed {round}");
            save(&sandbox.join(OUTCOMES[0]), &said);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| repair(&dir, &sandbox, &nothing).unwrap());
                }
            });
            repair(&dir, &sandbox, &nothing).unwrap();
            assert!(fs::symlink_metadata(dir.join(OUTCOME)).unwrap().is_file());
            assert_eq!(text(dir.join(OUTCOME)), said);
            assert_eq!(text(sandbox.join(OUTCOMES[0])), said);
            for entry in fs::read_dir(&dir).unwrap() {
                let name = entry.unwrap().file_name();
                if name.to_string_lossy().contains(".replaced-") {
                    fs::remove_file(dir.join(name)).unwrap();
                }
            }
        }
    }

    /// As after a time without a supervisor.
    #[test]
    fn outcome_that_came_last_counts_and_the_others_are_kept() {
        for last in 0..2 {
            let top = crate::testing::scratch();
            let (dir, sandbox) = places(top.path());
            let [first, second] = [1 - last, last].map(|at| sandbox.join(OUTCOMES[at]));
            // Its text is older than that of the other one.
            fs::write(sandbox.join("prepared"), "stuck").unwrap();
            tick(&dir);
            save(&first, "passed");
            tick(&dir);
            fs::rename(sandbox.join("prepared"), &second).unwrap();
            repair(&dir, &sandbox, &nothing).unwrap();
            assert_eq!(text(dir.join(OUTCOME)), "stuck");
            // The other link leads to the file that was written since.
            save(&first, "passed");
            tick(&dir);
            fs::write(&second, "stuck again").unwrap();
            let kept = repair(&dir, &sandbox, &nothing).unwrap();
            assert_eq!(text(dir.join(OUTCOME)), "stuck again");
            assert_eq!(kept.iter().map(text).collect::<Vec<_>>(), ["passed"]);
            assert_eq!(text(&first), "stuck again");
        }
    }

    /// Waits until a new file has a later time than the ones before.
    fn tick(dir: &Path) {
        let written = || {
            fs::write(dir.join("clock"), "").unwrap();
            age(dir.join("clock").symlink_metadata().unwrap())
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
            repair(&dir, &sandbox, &nothing).unwrap();
            assert_eq!(text(dir.join(OUTCOME)), format!("passed {round}"));
            assert_eq!(
                text(sandbox.join(OUTCOMES[0])),
                format!("passed {round}"),
                "it is a link again"
            );
        }
        let kept = fs::read_dir(&dir).unwrap().map(|it| it.unwrap().path());
        let kept: Vec<_> = kept.filter(|it| !it.ends_with(TASK)).map(text).collect();
        assert!(kept.len() <= KEPT_MAX + 1, "{}", kept.len());
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
        assert!(repair(&dir, &sandbox, &nothing).unwrap().is_empty());
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
        repair(&dir, &sandbox, &nothing).unwrap();
        file.write_all(b"passed").unwrap();
        assert_eq!(text(dir.join(OUTCOME)), "outcome: passed");
    }

    #[test]
    fn files_of_the_repository_and_things_that_are_no_files_stay() {
        let top = crate::testing::scratch();
        let (dir, sandbox) = places(top.path());
        save(&sandbox.join(TASK), "a task list of the project");
        save(&sandbox.join(OUTCOMES[0]), "anything");
        for committed in [Some(true), None] {
            assert!(repair(&dir, &sandbox, &|_| committed).unwrap().is_empty());
            assert_eq!(text(sandbox.join(TASK)), "a task list of the project");
            assert_eq!(text(sandbox.join(OUTCOMES[0])), "anything");
        }
        // The task of a repository with a TASK.md has another name.
        let has_task = |name: &str| Some(name == TASK);
        repair(&dir, &sandbox, &has_task).unwrap();
        assert_eq!(text(sandbox.join(TASK_ELSE)), "do it");
        for name in [TASK_ELSE, OUTCOMES[0]] {
            fs::remove_file(sandbox.join(name)).unwrap();
        }
        fs::create_dir(sandbox.join(TASK_ELSE)).unwrap();
        symlink("elsewhere", sandbox.join(OUTCOMES[0])).unwrap();
        assert!(repair(&dir, &sandbox, &has_task).unwrap().is_empty());
        assert!(sandbox.join(TASK_ELSE).is_dir());
        assert_eq!(
            fs::read_link(sandbox.join(OUTCOMES[0])).unwrap(),
            Path::new("elsewhere")
        );
    }

    #[test]
    fn nothing_is_made_in_a_directory_that_is_no_sandbox_and_nothing_goes_through_a_link() {
        let top = crate::testing::scratch();
        let (dir, sandbox) = places(top.path());
        fs::remove_dir(sandbox.join(".git")).unwrap();
        fs::remove_file(sandbox.join(TASK)).unwrap();
        assert!(repair(&dir, &sandbox, &nothing).unwrap().is_empty());
        assert!(!sandbox.join(TASK).exists());
        let real = top.path().join("real");
        fs::rename(&sandbox, &real).unwrap();
        fs::create_dir(real.join(".git")).unwrap();
        symlink(&real, &sandbox).unwrap();
        repair(&dir, &sandbox, &nothing).unwrap_err();
        assert!(!real.join(TASK).exists());
    }

    #[test]
    fn kept_files_are_bounded_and_the_next_one_stays() {
        let top = crate::testing::scratch();
        let (dir, sandbox) = places(top.path());
        for _ in 0..KEPT_MAX {
            save(&sandbox.join(TASK), "again");
            repair(&dir, &sandbox, &nothing).unwrap();
        }
        save(&sandbox.join(TASK), "the last");
        save(&sandbox.join(OUTCOMES[0]), "passed");
        let error = repair(&dir, &sandbox, &nothing).unwrap_err();
        assert!(error.why.contains("100 replaced files"), "{error}");
        assert_eq!(text(sandbox.join(TASK)), "the last");
        assert_eq!(text(dir.join(OUTCOME)), "passed", "the others are put back");
    }
}
