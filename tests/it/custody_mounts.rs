//! A person's directory that is mounted inside a sandbox is not the sandbox's: it is never entered, and the
//! sandbox is kept until it is unmounted.

use std::fs;

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::support::city::{City, permit, toast};
use crate::support::git::write;
use crate::support::namespace::apart;

/// Unmounts at its end, also when a test fails.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).expect("unmounted");
    }
}

/// A59, A59b: a bind mount, visible or among ignored files.
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
        write(&persons, "precious", "not the sandbox's\n");
        let at = sandbox.join(place);
        fs::create_dir_all(&at).unwrap();
        mount(
            Some(&persons),
            &at,
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        )
        .expect("mounted");
        let mounted = Mounted(at.clone());
        let facts = city.facts(&sandbox);
        let told = facts
            .special
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
