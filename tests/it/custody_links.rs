//! Links in the places of a rig's directories: what they lead to belongs to a person, and is neither removed nor written
//! to.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use horde_supervisor::ports::repo::{Committed, Repo, RepoError};

use crate::support::city::{City, permit, snapshot};
use crate::support::git::{git, write};

/// Moves a directory away and puts a link in its place, which leads to another one.
fn replace(dir: &Path, by: &Path) {
    fs::rename(dir, dir.with_extension("away")).unwrap();
    symlink(by, dir).unwrap();
}

fn held(city: &City) -> String {
    match city.repo.ready() {
        Err(RepoError::Held(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn directories_behind_a_link_in_place_of_the_retired_entries_are_not_removed() {
    let city = City::new();
    city.sandbox();
    let persons = city.root().join("persons");
    write(&persons, "project/notes", "mine\n");
    let horde = city.repo.theirs().join("horde");
    fs::create_dir_all(&horde).unwrap();
    let _none_yet = fs::remove_dir_all(horde.join("retired"));
    symlink(&persons, horde.join("retired")).unwrap();
    city.repo.expire_retired(jiff::Timestamp::MAX).unwrap_err();
    assert!(persons.join("project/notes").exists());
    // It is set aside by the next look at the agents' repository.
    let sandbox = city.spec(1).path;
    city.facts(&sandbox);
    fs::remove_dir_all(&sandbox).unwrap();
    city.repo.make_sandbox(&city.spec(2)).unwrap();
    assert!(horde.join("retired/Toast").is_dir());
    assert_eq!(city.repo.expire_retired(jiff::Timestamp::MAX).unwrap(), 1);
    assert!(persons.join("project/notes").exists());
}

#[test]
fn clone_of_a_person_behind_a_link_in_place_of_the_sandboxes_is_no_sandbox() {
    let city = City::new();
    let (sandbox, spec) = (city.sandbox(), city.spec(1));
    let facts = city.facts(&sandbox);
    let persons = city.root().join("persons");
    fs::create_dir(&persons).unwrap();
    git(&persons, &["clone", "--quiet", "../origin.git", "Toast"]);
    write(&persons, "Toast/note.ignored", "mine\n");
    let before = snapshot(&persons);
    replace(city.repo.raiders_dir(), &persons);
    let why = held(&city);
    assert!(why.contains("persons now"), "{why}");
    let refused = city.repo.prepare().unwrap_err();
    assert!(refused.to_string().contains("was a directory"), "{refused}");
    city.repo
        .discard_sandbox(&permit(&spec, &facts), &city.trash(), &|| Ok(()))
        .unwrap_err();
    assert_eq!(snapshot(&persons), before);
    // Put back, the work goes on.
    let raiders = city.repo.raiders_dir();
    fs::remove_file(raiders).unwrap();
    fs::rename(raiders.with_extension("away"), raiders).unwrap();
    city.repo.prepare().unwrap();
    assert!(city.repo.ready().is_ok());
    assert_eq!(city.facts(&sandbox), facts);
}

#[test]
fn repository_of_a_person_behind_a_link_in_place_of_the_rig_is_not_written_to() {
    let city = City::new();
    city.sandbox();
    let persons = city.root().join("persons");
    fs::create_dir(&persons).unwrap();
    git(&persons, &["init", "--quiet", "--bare", "repo.git"]);
    let before = snapshot(&persons);
    let rig = city.repo.theirs().parent().unwrap().to_owned();
    replace(&rig, &persons);
    held(&city);
    city.repo.prepare().unwrap_err();
    assert_eq!(snapshot(&persons), before);
}

/// An operator may keep the sandboxes elsewhere on the same file system.
#[test]
fn link_that_was_there_before_the_rig_was_prepared_is_followed() {
    let city = City::bare();
    let disk = city.root().join("disk");
    fs::create_dir_all(&disk).unwrap();
    let raiders = city.repo.raiders_dir();
    fs::create_dir_all(raiders.parent().unwrap()).unwrap();
    symlink(&disk, raiders).unwrap();
    city.repo.prepare().unwrap();
    assert!(city.repo.ready().is_ok());
    let sandbox = city.sandbox();
    assert!(disk.join("Toast/README").exists() && sandbox.exists());
    city.repo.prepare().unwrap();
    // What it leads to is a link to another place now.
    fs::rename(&disk, city.root().join("away")).unwrap();
    symlink("origin.git", &disk).unwrap();
    let why = held(&city);
    assert!(
        why.contains("led to") && why.contains("origin.git) now"),
        "{why}"
    );
    // Its disk is away.
    fs::remove_file(&disk).unwrap();
    let why = city.repo.prepare().unwrap_err().to_string();
    assert!(why.contains("mount its disk"), "{why}");
    fs::rename(city.root().join("away"), &disk).unwrap();
    city.repo.prepare().unwrap();
    fs::rename(&disk, city.root().join("away")).unwrap();
    assert!(held(&city).contains("mount its disk"));
    fs::rename(city.root().join("away"), &disk).unwrap();
    city.repo.prepare().unwrap();
    fs::remove_file(raiders).unwrap();
    assert!(held(&city).contains("is missing now"));
    symlink(city.root(), raiders).unwrap();
    city.repo.prepare().unwrap_err();
}

/// Makes a city whose directory `at` is on another file system than the city. None where the machine has only one.
fn on_two_disks(at: fn(&City) -> &Path) -> Option<(City, tempfile::TempDir)> {
    let disk = |dir: &Path| fs::metadata(dir).unwrap().dev();
    let city = City::bare();
    let others = ["/dev/shm", "/tmp", "/var/tmp", env!("CARGO_TARGET_TMPDIR")];
    let mut others = others.iter().map(Path::new);
    let other = others.find(|dir| dir.is_dir() && disk(dir) != disk(&city.root()));
    let Some(other) = other else {
        eprintln!("NOT TESTED HERE, for there is one file system");
        return None;
    };
    let other = tempfile::tempdir_in(other).unwrap();
    fs::create_dir_all(city.repo.repo_dir().parent().unwrap()).unwrap();
    let place = at(&city);
    fs::create_dir_all(place).unwrap();
    fs::remove_dir(place).unwrap();
    symlink(other.path(), place).unwrap();
    Some((city, other))
}

/// Sandboxes are renamed into the trash, which is the supervisor's own.
#[test]
fn rig_on_another_file_system_is_refused_with_the_reason() {
    let places: [fn(&City) -> &Path; 2] = [
        |city| city.repo.theirs().parent().unwrap(),
        |city| city.repo.raiders_dir(),
    ];
    for at in places {
        let Some((city, other)) = on_two_disks(at) else {
            return;
        };
        let refused = city.repo.prepare().unwrap_err().to_string();
        assert!(refused.contains("another file system than"), "{refused}");
        let left = fs::read_dir(other.path()).unwrap().count();
        assert_eq!(left, 0, "nothing is begun there");
    }
}

/// An operator keeps the supervisor's own repositories on a disk that is backed up.
#[test]
fn custody_on_another_file_system_serves_as_any() {
    let custody: fn(&City) -> &Path = |city| city.repo.repo_dir().parent().unwrap();
    let Some((city, other)) = on_two_disks(custody) else {
        return;
    };
    city.repo.prepare().unwrap();
    city.repo.prepare().unwrap();
    assert!(other.path().join("horde.git/HEAD").exists());
    let (sandbox, spec) = (city.sandbox(), city.spec(1));
    write(&sandbox, "new", "not committed\n");
    let saved = city.salvage(&sandbox);
    let facts = city.facts(&sandbox);
    city.discard(&permit(&spec, &facts));
    assert!(!sandbox.exists());
    let restored = city.restored(&saved);
    assert_eq!(
        fs::read_to_string(restored.join("new")).unwrap(),
        "not committed\n"
    );
}

/// Its place is an empty directory then, as one by which a person says that the repository is lost.
#[test]
fn custody_whose_disk_is_not_mounted_is_not_made_anew() {
    let Some((city, _other)) = on_two_disks(|city| city.repo.repo_dir()) else {
        return;
    };
    city.repo.prepare().unwrap();
    let ours = city.repo.repo_dir();
    let disk = fs::read_link(ours).unwrap();
    fs::remove_file(ours).unwrap();
    fs::create_dir(ours).unwrap();
    let why = city.repo.prepare().unwrap_err().to_string();
    assert!(why.contains("is not mounted"), "{why}");
    fs::remove_dir(ours).unwrap();
    symlink(&disk, ours).unwrap();
    city.repo.prepare().unwrap();
    // It is lost.
    fs::remove_file(ours).unwrap();
    fs::create_dir(ours).unwrap();
    let mark = why.split(' ').find(|word| word.ends_with(".mounted,"));
    fs::remove_file(mark.unwrap().trim_end_matches(',')).unwrap();
    city.repo.prepare().unwrap();
}

/// A city of an earlier version has no such file, and a person removes it after a move.
#[test]
fn places_that_are_not_noted_are_noted_by_the_next_preparation() {
    let city = City::new();
    city.sandbox();
    fs::remove_file(city.repo.repo_dir().join("horde/places")).unwrap();
    assert!(city.repo.ready().is_ok());
    city.repo.prepare().unwrap();
    replace(city.repo.raiders_dir(), &city.root());
    assert!(held(&city).contains("was a directory"));
}

#[test]
fn garbled_note_of_the_places_holds_the_rig_and_is_named() {
    let make: [fn(&Path); 5] = [
        |file| fs::write(file, "").unwrap(),
        |file| fs::write(file, "garbled\n").unwrap(),
        |file| fs::write(file, "\0horde\0").unwrap(),
        |file| symlink("/etc/hostname", file).unwrap(),
        |file| fs::create_dir(file).unwrap(),
    ];
    let city = City::new();
    let file = city.repo.repo_dir().join("horde/places");
    for make in make {
        fs::remove_file(&file).unwrap();
        make(&file);
        assert!(held(&city).contains("is garbled: remove it and reload"));
        city.repo.prepare().unwrap_err();
        fs::remove_file(&file)
            .or_else(|_| fs::remove_dir(&file))
            .unwrap();
        city.repo.prepare().unwrap();
    }
}

/// An agent makes it between two starts.
#[test]
fn nothing_behind_a_link_in_place_of_the_directory_of_new_repositories_is_touched() {
    let city = City::bare();
    let persons = city.root().join("persons");
    write(&persons, "horde/notes", "mine\n");
    let new = city.repo.repo_dir().ancestors().nth(2).unwrap().join("new");
    fs::create_dir_all(new.parent().unwrap()).unwrap();
    symlink(&persons, &new).unwrap();
    city.repo.prepare().unwrap();
    city.repo.prepare().unwrap();
    assert_eq!(
        fs::read_to_string(persons.join("horde/notes")).unwrap(),
        "mine\n"
    );
    assert!(city.repo.theirs().join("HEAD").exists());
}

/// An agent writes the place of another sandbox into the entry of its own.
#[test]
fn entry_of_a_working_raider_that_names_the_removed_sandbox_stays() {
    let city = City::new();
    let (sandbox, spec) = (city.sandbox(), city.spec(1));
    let other = city.spec_of("Shadow", 1);
    city.repo.make_sandbox(&other).unwrap();
    let entry = city.repo.theirs().join("worktrees/Shadow");
    let inside = format!("{}\n", sandbox.join("deep/.git").display());
    fs::create_dir(sandbox.join("deep")).unwrap();
    fs::write(entry.join("gitdir"), inside).unwrap();
    let facts = city.facts(&sandbox);
    city.discard(&permit(&spec, &facts));
    assert!(!sandbox.exists());
    assert!(entry.join("HEAD").exists(), "it works on");
}

/// A merge that the agent is to finish, or a file that it has just added: it is no longer the supervisor's name.
#[test]
fn name_that_is_staged_is_the_repositorys() {
    let city = City::new();
    let sandbox = city.sandbox();
    let has = |name: &str| {
        let committed = city.repo.committed(&sandbox, name, None).unwrap();
        assert_ne!(committed, Committed::Before);
        committed == Committed::OnBranch
    };
    assert!(!has("TASK.md") && !has(".horde-outcome"));
    fs::remove_file(sandbox.join("TASK.md")).unwrap();
    write(&sandbox, "TASK.md", "a list of the project\n");
    git(&sandbox, &["add", "-f", "TASK.md"]);
    assert!(has("TASK.md") && !has(".horde-outcome"));
    git(&sandbox, &["commit", "--quiet", "-m", "a list"]);
    assert!(has("TASK.md"));
}
