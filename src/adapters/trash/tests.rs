//! Tests of the trash with entries that were written to at each moment of their removal.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::*;
use crate::adapters::beneath;
use crate::adapters::task_files::DiskTaskFiles;
use crate::ports::tasks::TaskFiles as _;
use crate::testing::{eventually, scratch};

struct City {
    dir: tempfile::TempDir,
    files: DiskTaskFiles,
}

impl City {
    /// Makes a city with a sandbox of some files, and waits until later writes have later stamps.
    fn new() -> Self {
        let dir = scratch();
        let at = |name: &str| dir.path().join(name);
        let files = DiskTaskFiles::new(at("outbox"), at("trash"), at("set-up")).unwrap();
        for (name, text) in [
            ("sandbox/sub/deep/file", "1"),
            ("sandbox/file", "2"),
            ("out/r0", "3"),
        ] {
            let file = at(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::hard_link(at("sandbox/file"), at("sandbox/sub/linked")).unwrap();
        let city = Self { dir, files };
        city.tick();
        city
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Waits until the clock of the kernel's stamps is later than all changes so far. It may lag behind them by more than a
    /// tick: a kernel with fine times stamps a change with the time itself.
    fn tick(&self) {
        fs::write(self.at("probe"), "").unwrap();
        let found = fs::metadata(self.at("probe")).unwrap();
        let last = (found.ctime(), found.ctime_nsec());
        eventually("another stamp", || (stamp_now() > last).then_some(()));
    }

    fn note(&self) -> Note {
        Note::of(&self.at("sandbox"), stamp_now(), &HashSet::new()).unwrap()
    }

    fn throw(&self, note: &Note) -> io::Result<()> {
        let room = beneath::open_room(&self.at("trash")).unwrap();
        throw(&self.at("sandbox"), &room, &self.at("trash/x"), note)
    }

    /// Empties the trash twice, and asserts that the only entry stays because of this path.
    fn keeps(&self, written: &str) {
        for _ in 0..2 {
            self.files.empty_trash().unwrap();
            let kept = BTreeMap::from([(self.at("trash/x"), self.at("trash/x").join(written))]);
            assert_eq!(self.files.written_in_trash(), kept);
            assert!(
                self.files.leftovers().unwrap().trash.is_empty(),
                "{written}"
            );
        }
    }

    /// Empties the trash until nothing is left.
    fn deletes(&self) {
        eventually("an empty trash", || {
            self.files.empty_trash().unwrap();
            assert_eq!(self.files.written_in_trash(), BTreeMap::new());
            let mut left = fs::read_dir(self.at("trash")).unwrap();
            left.next().is_none().then_some(())
        });
    }
}

/// A rename leaves the times of the files in the directory as they were.
#[test]
fn directory_that_was_moved_into_the_trash_is_not_deleted() {
    for to in ["results", "sub/deep/results"] {
        let city = City::new();
        city.throw(&city.note()).unwrap();
        fs::rename(city.at("out"), city.at("trash/x").join(to)).unwrap();
        city.keeps(to);
        assert_eq!(
            fs::read(city.at("trash/x").join(to).join("r0")).unwrap(),
            b"3"
        );
        fs::remove_dir_all(city.at("trash/x")).unwrap();
        city.deletes();
    }
}

/// Its process has exited before anything looks for it.
#[test]
fn what_was_written_while_its_directory_came_into_the_trash_is_not_deleted() {
    let city = City::new();
    let note = city.note();
    fs::write(city.at("sandbox/sub/late"), "late").unwrap();
    city.throw(&note).unwrap();
    city.keeps("sub/late");
    let city = City::new();
    let note = city.note();
    fs::create_dir(city.at("sandbox/made")).unwrap();
    city.throw(&note).unwrap();
    city.keeps("made");
}

/// The deletion itself changes the times of directories and of hard links.
#[test]
fn deletion_that_was_interrupted_goes_on() {
    let city = City::new();
    city.throw(&city.note()).unwrap();
    fs::remove_file(city.at("trash/x/sub/deep/file")).unwrap();
    fs::remove_file(city.at("trash/x/sub/linked")).unwrap();
    city.deletes();
    // The same without a note, as an earlier version left it.
    let city = City::new();
    fs::rename(city.at("sandbox"), city.at("trash/x")).unwrap();
    city.deletes();
}

/// A directory in a closed one is not listed by the note, and the look opens it.
#[test]
fn closed_directory_in_a_closed_one_is_deleted_when_it_is_no_longer_used() {
    let city = City::new();
    let deep = fs::metadata(city.at("sandbox/sub/deep")).unwrap().ino();
    for closed in ["sandbox/sub/deep", "sandbox/sub"] {
        fs::set_permissions(city.at(closed), fs::Permissions::from_mode(0o000)).unwrap();
    }
    city.tick();
    city.throw(&city.note()).unwrap();
    // Root reads closed directories, and another user's note does not list this one.
    let text = fs::read_to_string(city.at("trash/x.used")).unwrap();
    assert!(text.contains(&format!("d {deep}\n")));
    let text = text.replace(&format!("d {deep}\n"), "");
    fs::write(city.at("trash/x.used"), text).unwrap();
    let room = beneath::open_room(&city.at("trash")).unwrap();
    for _ in 0..2 {
        // A process that another test starts has the descriptors of this one for a moment.
        eventually("no use", || {
            let found = stays(&room, &city.at("trash/x"), &Uses::default()).unwrap();
            assert!(!matches!(found, Some(Stays::Written(_))), "{found:?}");
            found.is_none().then_some(())
        });
    }
    city.deletes();
}

/// The supervisor may be killed after each step.
#[test]
fn nothing_comes_into_the_trash_before_its_note() {
    let city = City::new();
    let in_its_place = city.at("trash/x.used");
    fs::create_dir(&in_its_place).unwrap();
    assert!(city.throw(&city.note()).is_err());
    assert!(city.at("sandbox/file").exists() && !city.at("trash/x").exists());
    city.deletes();
    fs::rename(city.at("sandbox"), city.at("elsewhere")).unwrap();
    let note = Note::of(&city.at("elsewhere"), stamp_now(), &HashSet::new()).unwrap();
    assert!(city.throw(&note).is_err(), "the sandbox is gone");
    assert!(city.at("trash/x.used").exists());
    city.deletes();
}

/// The clock was set back after the checkout.
#[test]
fn file_from_the_future_is_deleted_unless_it_was_written() {
    for is_written in [false, true] {
        let city = City::new();
        let note = Note::of(&city.at("sandbox"), (1, 0), &HashSet::new()).unwrap();
        if is_written {
            fs::write(city.at("sandbox/file"), "late").unwrap();
        }
        city.throw(&note).unwrap();
        match is_written {
            true => assert!(city.files.empty_trash().is_ok() && city.at("trash/x/file").exists()),
            false => city.deletes(),
        }
    }
}

/// The times of the note say that nothing was written, as those of a mapped file do.
#[test]
fn mapped_file_is_compared_by_its_bytes() {
    for is_written in [false, true] {
        let city = City::new();
        let found = fs::metadata(city.at("sandbox/sub/deep/file")).unwrap();
        let mapped = HashSet::from([(found.dev(), found.ino())]);
        let note = Note::of(&city.at("sandbox"), (i64::MAX - 9, 0), &mapped).unwrap();
        city.throw(&note).unwrap();
        if is_written {
            fs::write(city.at("trash/x/sub/deep/file"), "4").unwrap();
            city.keeps("sub/deep/file");
        } else {
            city.deletes();
        }
    }
}

#[test]
fn entry_with_a_garbled_note_is_kept() {
    let city = City::new();
    city.throw(&city.note()).unwrap();
    for text in ["", "x", "1 2\nq 1\n", "1 2\nd\n"] {
        fs::write(city.at("trash/x.used"), text).unwrap();
        city.files.empty_trash().unwrap();
        assert_eq!(city.files.written_in_trash().len(), 1, "{text:?}");
    }
    assert!(city.at("trash/x/file").exists());
}

/// The city, and the trash with it, may be moved while the trash is emptied: what its path leads to then has no notes.
#[test]
fn notes_of_a_trash_that_was_moved_are_read_where_it_is() {
    let city = City::new();
    let note = city.note();
    city.tick();
    fs::write(city.at("sandbox/late"), "later than its note").unwrap();
    city.throw(&note).unwrap();
    let room = beneath::open_room(&city.at("trash")).unwrap();
    fs::rename(city.at("trash"), city.at("away")).unwrap();
    let place = city.at("trash/x");
    for _ in 0..2 {
        let stays = stays(&room, &place, &Uses::default()).unwrap();
        assert_eq!(stays, Some(Stays::Written(place.join("late"))));
        // Another directory in its place, as of another city.
        fs::create_dir_all(city.at("trash")).unwrap();
    }
    tidy(&room, &note_of(OsStr::new("x"))).unwrap();
    assert!(city.at("away/x.used").exists(), "the note of an entry");
    fs::rename(city.at("away/x"), city.at("out/x")).unwrap();
    tidy(&room, &note_of(OsStr::new("x"))).unwrap();
    assert!(!city.at("away/x.used").exists(), "the note of none");
}
