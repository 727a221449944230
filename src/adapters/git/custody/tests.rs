//! Ours that is moved, halved, garbled or replaced, before and during a preparation.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::adapters::git::testing::Rigged;
use crate::ports::repo::{Repo, RepoError};

#[test]
fn repository_that_vanishes_holds_its_rig_until_it_is_back() {
    let rig = Rigged::new();
    rig.repo.prepare().unwrap();
    let ours = rig.repo.repo_dir();
    let custody = ours.parent().unwrap();
    let away = custody.with_file_name("away");
    rig.repo.ready().unwrap();
    fs::rename(custody, &away).unwrap();
    let held = rig.repo.ready().unwrap_err();
    assert!(matches!(&held, RepoError::Held(why) if why.contains("Move it back")));
    assert!(rig.repo.held().is_some());
    for _ in 0..2 {
        assert!(rig.repo.prepare().is_err());
        assert!(!custody.exists(), "nothing is in the way of the original");
    }
    fs::rename(&away, custody).unwrap();
    rig.repo.prepare().unwrap();
    rig.repo.ready().unwrap();
}

type Damage<'a> = &'a dyn Fn(&Path);

/// Returns a rig whose repositories were never made.
fn new_rig() -> Rigged {
    let rig = Rigged::new();
    fs::remove_dir_all(rig.repo.repo_dir().parent().unwrap()).unwrap();
    fs::remove_dir_all(rig.repo.theirs()).unwrap();
    rig
}

/// A first fetch takes long, and may be interrupted.
#[test]
fn first_fetch_that_failed_is_repeated() {
    let rig = new_rig();
    let blob = rig.in_origin(&["rev-parse", "main:file"]);
    let object = rig.origin().join("objects").join(&blob[..2]);
    let object = object.join(&blob[2..]);
    let away = rig.path("away");
    fs::rename(&object, &away).unwrap();
    for _ in 0..2 {
        rig.repo.prepare().unwrap_err();
        assert!(rig.repo.repo_dir().join("HEAD").exists());
    }
    fs::rename(&away, &object).unwrap();
    rig.repo.prepare().unwrap();
    rig.repo.ready().unwrap();
}

/// `git init` was killed, and left a lock and a part.
#[test]
fn first_preparation_that_was_killed_is_repeated() {
    let rig = new_rig();
    let begun = rig.repo.repo_dir().with_extension("new");
    fs::create_dir_all(begun.join("refs")).unwrap();
    fs::write(begun.join("HEAD"), super::HEAD).unwrap();
    fs::write(begun.join("config.lock"), "").unwrap();
    rig.repo.prepare().unwrap();
    rig.repo.ready().unwrap();
    assert!(!begun.exists());
}

/// The mark of the first fetch is outside of ours, too.
#[test]
fn repository_that_lost_two_parts_at_once_holds_its_rig() {
    let rig = Rigged::new();
    rig.repo.prepare().unwrap();
    let ours = rig.repo.repo_dir();
    fs::remove_file(ours.join(super::READY)).unwrap();
    fs::rename(ours.join("refs"), rig.path("away")).unwrap();
    let held = rig.repo.ready().unwrap_err();
    assert!(matches!(&held, RepoError::Held(why) if why.contains("its refs")));
    rig.repo.prepare().unwrap_err();
    fs::rename(rig.path("away"), ours.join("refs")).unwrap();
    rig.repo.prepare().unwrap();
    rig.repo.ready().unwrap();
    assert!(ours.join(super::READY).exists());
}

#[test]
fn repository_that_lost_a_part_or_is_another_one_holds_its_rig_until_it_is_whole() {
    let rig = Rigged::new();
    rig.repo.prepare().unwrap();
    let ours = rig.repo.repo_dir().to_owned();
    let away = ours.with_extension("away");
    let emptied = |dir: &Path| {
        fs::rename(dir, &away).unwrap();
        fs::create_dir_all(dir.join("pack")).unwrap();
        fs::create_dir_all(dir.join("0a")).unwrap();
    };
    let other = |dir: &Path| {
        fs::rename(dir, &away).unwrap();
        rig.in_origin(&["clone", "-q", "--bare", ".", dir.to_str().unwrap()]);
    };
    let moved = |part: &Path| fs::rename(part, &away).unwrap();
    let garbled = |part: &Path| {
        moved(part);
        fs::write(part, "garbage").unwrap();
    };
    let linked = |dir: &Path| {
        other(dir);
        let target = dir.with_extension("other");
        fs::rename(dir, &target).unwrap();
        std::os::unix::fs::symlink(target, dir).unwrap();
    };
    let ways: [(&str, Damage<'_>); 7] = [
        ("objects", &moved),
        ("refs", &moved),
        ("config", &garbled),
        ("config", &moved),
        ("objects", &emptied),
        ("", &other),
        ("", &linked),
    ];
    for (part, damage) in ways {
        let part = ours.join(part);
        let part = part.components().as_path();
        rig.repo.ready().unwrap();
        damage(part);
        let held = rig.repo.ready().unwrap_err();
        assert!(
            matches!(&held, RepoError::Held(why) if why.contains("is damaged")),
            "{held}"
        );
        rig.repo.prepare().unwrap_err();
        assert!(rig.repo.held().is_some());
        let is_dir = fs::symlink_metadata(part).is_ok_and(|found| found.is_dir());
        match is_dir {
            true => fs::remove_dir_all(part).unwrap(),
            false => drop(fs::remove_file(part)),
        }
        fs::rename(&away, part).unwrap();
        rig.repo.prepare().unwrap();
    }
    for text in [None, Some("garbage")] {
        fs::remove_file(ours.join("HEAD")).unwrap();
        if let Some(text) = text {
            fs::write(ours.join("HEAD"), text).unwrap();
        }
        rig.repo.ready().unwrap_err();
        rig.repo.prepare().unwrap();
        rig.repo.ready().unwrap();
    }
}

/// The empty directory by which a person says that it is lost stays until there is a new one.
#[test]
fn attempt_that_fails_to_make_a_lost_repository_anew_is_repeated() {
    let rig = Rigged::new();
    rig.repo.prepare().unwrap();
    let ours = rig.repo.repo_dir();
    fs::remove_dir_all(ours).unwrap();
    rig.repo.prepare().unwrap_err();
    fs::create_dir(ours).unwrap();
    // A file in its place keeps the new one from being made.
    let fresh = ours.with_extension("new");
    fs::write(&fresh, "").unwrap();
    rig.repo.prepare().unwrap_err();
    fs::remove_file(&fresh).unwrap();
    rig.repo.prepare().unwrap();
    rig.repo.ready().unwrap();
}

/// A person keeps it on another disk, through a link or a mount, and git cannot make it in one step there.
#[test]
fn repository_that_was_begun_in_place_is_completed() {
    let rig = Rigged::new();
    rig.repo.prepare().unwrap();
    let ours = rig.repo.repo_dir();
    let elsewhere = rig.path("elsewhere");
    let begin = |parts: &[&str]| {
        fs::remove_dir_all(&elsewhere).unwrap_or_default();
        fs::create_dir(&elsewhere).unwrap();
        for part in parts {
            match part.contains('.') || *part == "HEAD" {
                true => fs::write(elsewhere.join(part), super::HEAD).unwrap(),
                false => fs::create_dir_all(elsewhere.join(part)).unwrap(),
            }
        }
    };
    let left: [&[&str]; 4] = [
        &[],
        &["refs"],
        &["refs", "config.lock"],
        &["refs", "HEAD", "objects/pack"],
    ];
    for parts in left {
        fs::remove_dir_all(ours)
            .or_else(|_| fs::remove_file(ours))
            .unwrap();
        begin(&[]);
        symlink(&elsewhere, ours).unwrap();
        super::expect(&rig.repo).unwrap();
        begin(parts);
        rig.repo
            .prepare()
            .unwrap_or_else(|why| panic!("{parts:?}: {why}"));
        rig.repo.ready().unwrap();
        assert!(fs::symlink_metadata(ours).unwrap().is_symlink());
    }
}

/// An agent can take the list of lenders away, and a person all that the agents had.
#[test]
fn repository_that_was_made_once_is_made_anew_only_for_a_person() {
    let rig = Rigged::new();
    rig.repo.prepare().unwrap();
    let ours = rig.repo.repo_dir();
    fs::remove_dir_all(ours.parent().unwrap()).unwrap();
    fs::remove_dir_all(rig.repo.theirs()).unwrap();
    assert!(rig.repo.prepare().is_err());
    assert!(!ours.exists() && !rig.repo.theirs().exists());
    fs::create_dir_all(ours).unwrap();
    rig.repo.prepare().unwrap();
    rig.repo.ready().unwrap();
    assert!(ours.join("HEAD").exists());
}
