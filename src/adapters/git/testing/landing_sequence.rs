//! A person's sequence of cherry-picks or reverts that is between two of them: no file of git names a commit in progress.

use std::fs;

use super::Rigged;
use super::checkout::{at_work, persons};
use crate::adapters::git::checkout::free;
use crate::adapters::git::land::land;

/// The first of two picks conflicted and was committed by `git commit`: only `sequencer` is left.
#[test]
fn landing_waits_for_a_sequence_that_is_between_its_picks() {
    for (begin, end) in [
        (
            ["cherry-pick", "conflicts", "side"],
            ["cherry-pick", "--quit"],
        ),
        (["revert", "HEAD~1", "HEAD"], ["revert", "--quit"]),
    ] {
        let rig = Rigged::local();
        at_work(&rig);
        assert!(!persons(&rig, &begin).ok(), "{begin:?} conflicts");
        fs::write(rig.origin().join("own"), "resolved\n").unwrap();
        persons(&rig, &["add", "own"]);
        assert!(persons(&rig, &["commit", "-qm", "resolved"]).ok());
        let has = |name: &str| rig.origin().join(".git").join(name).exists();
        assert!(has("sequencer"), "{begin:?}: the rest is still to be done");
        assert!(!has("CHERRY_PICK_HEAD") && !has("REVERT_HEAD"), "{begin:?}");
        assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
        let old = rig.at("main").unwrap();
        let fetch = rig.repo.git().args(["fetch", "-q", "origin"]);
        fetch.run().unwrap();
        let new = rig.commit(&old, &[("landed", "x\n")]);
        let early = free(&rig.repo, "main", None).unwrap_err();
        let error = land(&rig.repo, "main", &old, &new).unwrap_err();
        assert_eq!(early, error, "it is known before anything is tested");
        let named = "in the middle of a sequence of cherry-picks or reverts";
        assert!(error.to_string().contains(named), "{begin:?}: {error}");
        assert_eq!(rig.at("main").as_ref(), Some(&old), "{begin:?}");
        assert!(!rig.origin().join("landed").exists());
        assert!(persons(&rig, &end).ok(), "{end:?}");
        land(&rig.repo, "main", &old, &new).unwrap();
        assert_eq!(rig.at("main"), Some(new));
        assert!(rig.origin().join("landed").exists());
    }
}
