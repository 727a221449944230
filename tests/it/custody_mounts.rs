//! A person's directory that is mounted inside a sandbox does not belong to the sandbox: it is never entered, and the
//! sandbox is kept until it is unmounted. The same holds for a mount in another place that the supervisor empties: a
//! gate's worktree, set-aside files, a half restore, the trash.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use horde_supervisor::adapters::task_files::DiskTaskFiles;
use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::ports::repo::{GateSpec, Repo};
use horde_supervisor::ports::tasks::TaskFiles;
use jiff::Timestamp;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::support::city::{City, permit, toast};
use crate::support::git::{git, rev, write};
use crate::support::namespace::apart;

/// Unmounts when dropped, also when a test fails.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a person's directory, which holds one file, at a new directory.
    pub fn at(place: &Path, persons: &Path) -> Self {
        write(persons, "precious", "not the supervisor's\n");
        fs::create_dir_all(place).unwrap();
        let none = None::<&str>;
        mount(Some(persons), place, none, MsFlags::MS_BIND, none).expect("mounted");
        Self(place.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).expect("unmounted");
    }
}

/// A bind mount, visible or among ignored files.
/// Case A59 of an adversary: a directory of a person is mounted inside.
#[test]
fn sandbox_with_a_mount_in_it_is_kept_until_that_is_unmounted() {
    if !apart(sandbox_with_a_mount_in_it_is_kept_until_that_is_unmounted) {
        return;
    }
    for place in ["data", "target/data"] {
        let city = City::with(|checkout| write(checkout, ".gitignore", "target/\n"));
        city.repo.prepare().unwrap();
        let sandbox = city.sandbox();
        let persons = city.root().join("persons");
        let mounted = Mounted::at(&sandbox.join(place), &persons);
        let facts = city.facts(&sandbox);
        let told = facts
            .other_work
            .iter()
            .any(|line| line.contains("mount point"));
        assert!(told && !facts.is_committed(), "{place}: {facts:?}");
        let saved = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        assert!(saved.unwrap_err().to_string().contains("umount"), "{place}");
        let permit_of = || permit(&city.spec(1), &city.facts(&sandbox));
        let kept = city
            .repo
            .discard_sandbox(&permit_of(), &city.trash(), &|| Ok(()));
        assert!(kept.unwrap_err().to_string().contains("umount"), "{place}");
        assert!(persons.join("precious").exists());
        drop(mounted);
        city.repo
            .discard_sandbox(&permit_of(), &city.trash(), &|| Ok(()))
            .unwrap();
        assert!(persons.join("precious").exists());
    }
}

/// A sandbox there could not be renamed into the trash, and the real ones below would count as gone.
#[test]
fn mount_over_the_rig_or_its_sandboxes_holds_the_rig() {
    if !apart(mount_over_the_rig_or_its_sandboxes_holds_the_rig) {
        return;
    }
    let city = City::new();
    let sandbox = city.sandbox();
    let facts = city.facts(&sandbox);
    let raiders = city.repo.raiders_dir();
    for place in [raiders, raiders.parent().unwrap(), city.repo.theirs()] {
        let mounted = Mounted::at(place, &city.root().join("persons"));
        let held = city.repo.ready().unwrap_err().to_string();
        assert!(held.contains("below another mount"), "{held}");
        city.repo.prepare().unwrap_err();
        drop(mounted);
        city.repo.prepare().unwrap();
        city.repo.ready().unwrap();
        assert_eq!(city.facts(&sandbox), facts);
    }
}

/// Its place is an empty directory then, as one by which a person says that the repository is lost.
#[test]
fn custody_that_was_mounted_is_not_made_anew_without_its_mount() {
    if !apart(custody_that_was_mounted_is_not_made_anew_without_its_mount) {
        return;
    }
    let city = City::bare();
    let (ours, disk) = (city.repo.repo_dir(), city.root().join("disk"));
    let none = None::<&str>;
    let bind = || {
        mount(Some(&disk), ours, none, MsFlags::MS_BIND, none).expect("mounted");
        Mounted(ours.to_owned())
    };
    fs::create_dir_all(ours).unwrap();
    fs::create_dir(&disk).unwrap();
    let mounted = bind();
    city.repo.prepare().unwrap();
    drop(mounted);
    city.repo.ready().unwrap_err();
    let why = city.repo.prepare().unwrap_err().to_string();
    assert!(why.contains("is not mounted"), "{why}");
    let mounted = bind();
    city.repo.prepare().unwrap();
    city.repo.ready().unwrap();
    drop(mounted);
}

/// Wherever the mount is: among removed files, in the place of a directory of the commit, in an earlier worktree.
#[test]
fn gate_waits_until_mounts_in_its_worktree_are_gone() {
    if !apart(gate_waits_until_mounts_in_its_worktree_are_gone) {
        return;
    }
    let city = City::new();
    let head = |name: &str| Oid::new(rev(&city.origin(), name)).unwrap();
    let (persons, forge) = (
        city.root().join("persons"),
        city.root().join("city/horde/forge"),
    );
    let spec = || GateSpec {
        name: "test".into(),
        run: "test -f README".into(),
        timeout: Duration::from_secs(120),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        log_dir: city.root().join("logs"),
    };
    let run = |commit: &Oid| city.repo.run_gate(commit, &spec());
    assert_eq!(run(&head("main")).unwrap().code, Some(0));
    git(&city.checkout(), &["rm", "-q", "-r", "src"]);
    git(&city.checkout(), &["commit", "-q", "-m", "without"]);
    git(&city.checkout(), &["push", "-q", "origin", "main"]);
    let target = city.repo.fetch_target("main").unwrap();
    for place in [
        "gate-0/data",
        "gate-0/src",
        "gate-0/.git/refs/data",
        "gate-0",
    ] {
        let mounted = Mounted::at(&forge.join(place), &persons);
        let refused = run(&target.tip);
        assert!(persons.join("precious").exists(), "{place}");
        let refused = refused.map(|run| run.code).unwrap_err().to_string();
        assert!(refused.contains("umount"), "{place}: {refused}");
        drop(mounted);
        assert_eq!(run(&head("main")).unwrap().code, Some(0), "{place}");
    }
    // Set-aside files of a broken worktree hold up nothing.
    let _mounted = Mounted::at(&forge.join("gate-0.discarded-0/data"), &persons);
    fs::remove_dir_all(forge.join("gate-0")).unwrap();
    assert_eq!(run(&head("main")).unwrap().code, Some(0));
    assert!(persons.join("precious").exists());
}

#[test]
fn removal_elsewhere_does_not_go_through_a_mount() {
    if !apart(removal_elsewhere_does_not_go_through_a_mount) {
        return;
    }
    let city = City::new();
    let persons = city.root().join("persons");
    let kept = || persons.join("precious").exists();

    let retired = city.repo.theirs().join("horde/retired/Toast");
    let mounted = Mounted::at(&retired.join("data"), &persons);
    assert_eq!(city.repo.expire_retired(Timestamp::MAX).unwrap(), 0);
    assert!(kept(), "in what was set aside");
    drop(mounted);
    assert_eq!(city.repo.expire_retired(Timestamp::MAX).unwrap(), 1);

    let sandbox = city.sandbox();
    write(&sandbox, "README", "edited\n");
    let saved = city.salvage(&sandbox);
    let to = city.root().join("restored/a");
    city.repo.restore(&saved, &to).unwrap();
    let part = city.root().join(format!("restored/{}.part", saved.id));
    fs::rename(&to, &part).unwrap();
    let mounted = Mounted::at(&part.join("data"), &persons);
    let refused = city.repo.restore(&saved, &to).map(drop);
    assert!(kept(), "in a half restore");
    assert!(refused.unwrap_err().to_string().contains("umount"));
    drop(mounted);
    city.repo.restore(&saved, &to).unwrap();

    let (outbox, trash) = (city.root().join("outbox"), city.root().join("trash"));
    let runs = city.root().join("runs");
    let files = DiskTaskFiles::new(outbox, trash.clone(), runs).unwrap();
    write(&trash.join("old"), "file", "");
    for place in ["Toast/deep/data", "Toast"] {
        let mounted = Mounted::at(&trash.join(place), &persons);
        let refused = files.empty_trash();
        assert!(kept(), "in the trash: {place}");
        assert!(
            refused.unwrap_err().to_string().contains("umount"),
            "{place}"
        );
        drop(mounted);
    }
    files.empty_trash().unwrap();
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 0);
}
