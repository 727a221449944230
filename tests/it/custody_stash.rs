//! The list of stash entries is shared by all sandboxes of a rig: one agent can take another's entries out of it.

use std::fs;
use std::path::Path;

use horde_supervisor::domain::facts::LEFT_BEHIND;
use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;

use crate::support::city::{City, permit, toast};
use crate::support::git::{git, rev, try_git, write};

/// Puts a change of the sandbox aside. Returns the entry's commit.
fn stash(sandbox: &Path, text: &str) -> String {
    write(sandbox, "README", text);
    git(sandbox, &["stash", "push", "-q"]);
    rev(sandbox, "stash@{0}")
}

/// Names of the refs that keep stash entries.
fn pins(city: &City) -> String {
    let list = ["for-each-ref", "--format=%(refname)", "refs/horde/stash"];
    git(city.repo.repo_dir(), &list)
}

#[test]
fn stash_entry_that_another_raider_drops_is_saved_with_its_own_sandbox() {
    for detached in [false, true] {
        let city = City::new();
        let (toast_spec, nux) = (city.spec(1), city.spec_of("Nux", 1));
        for spec in [&toast_spec, &nux] {
            city.repo.make_sandbox(spec).unwrap();
        }
        let sandbox = &toast_spec.path;
        if detached {
            git(sandbox, &["checkout", "-q", "--detach"]);
        }
        let entry = stash(sandbox, "of Toast\n");
        let other = stash(&nux.path, "of Nux\n");
        for spec in [&toast_spec, &nux] {
            city.repo.progress(&spec.path).unwrap();
        }
        if detached {
            git(sandbox, &["checkout", "-q", &toast_spec.branch]);
        }
        git(&nux.path, &["stash", "clear"]);
        git(&nux.path, &["gc", "-q", "--prune=now"]);
        let facts = city.facts(sandbox);
        assert_eq!(facts.stashes, Vec::<String>::new());
        assert!(facts.is_committed(), "it holds nothing up: {facts:?}");
        let told = format!("{LEFT_BEHIND}{}", &entry[..8]);
        let is_told = facts.special.iter().any(|line| line.starts_with(&told));
        assert!(is_told, "{facts:?}");
        let record = city.repo.salvage(sandbox, &toast(), Incarnation(1));
        let record = record.unwrap();
        let saved = |name: &String| name.contains("/stash-");
        let kept: Vec<_> = record.refs.iter().filter(|name| saved(name)).collect();
        assert_eq!(kept.len(), 1, "{record:?}");
        assert_eq!(rev(city.repo.repo_dir(), kept[0]), entry);
        assert_eq!(city.facts(sandbox), facts, "saving changes nothing");
        city.repo
            .discard_sandbox(&permit(&toast_spec, &facts), &city.trash(), &|| Ok(()))
            .unwrap();
        let left = pins(&city);
        assert!(
            left.contains("/Nux/") && !left.contains("/Toast/"),
            "{left}"
        );
        assert_ne!(entry, other);
        git(city.repo.repo_dir(), &["gc", "-q", "--prune=now"]);
        let to = city.root().join("restored");
        city.repo.restore(&record, &to).unwrap();
        git(&to, &["stash", "apply", "-q", &entry]);
        assert_eq!(fs::read_to_string(to.join("README")).unwrap(), "of Toast\n");
    }
}

/// The owner takes it back, and is finished.
#[test]
fn stash_entry_that_its_owner_drops_holds_nothing_up() {
    let city = City::new();
    let sandbox = city.sandbox();
    let entry = stash(&sandbox, "changed\n");
    city.repo.progress(&sandbox).unwrap();
    assert!(pins(&city).ends_with(&entry));
    assert_eq!(city.facts(&sandbox).special, Vec::<String>::new());
    git(&sandbox, &["stash", "pop", "-q"]);
    git(&sandbox, &["commit", "-qam", "work"]);
    city.repo.progress(&sandbox).unwrap();
    let facts = city.facts(&sandbox);
    assert!(
        facts.is_committed() && facts.stashes.is_empty(),
        "{facts:?}"
    );
}

/// No permit says that they were saved.
#[test]
fn pins_of_a_sandbox_that_is_forgotten_stay_for_as_long_as_salvage() {
    let city = City::new();
    let sandbox = city.sandbox();
    let entry = stash(&sandbox, "changed\n");
    city.repo.progress(&sandbox).unwrap();
    git(&sandbox, &["stash", "clear"]);
    let expire = |before| {
        city.repo.expire_stash(before).unwrap();
    };
    expire(jiff::Timestamp::MAX);
    assert!(pins(&city).ends_with(&entry), "its sandbox is there");
    fs::remove_dir_all(&sandbox).unwrap();
    city.repo
        .forget_sandbox(&sandbox, &toast(), Incarnation(1))
        .unwrap();
    expire(jiff::Timestamp::UNIX_EPOCH);
    assert!(pins(&city).ends_with(&entry));
    expire(jiff::Timestamp::MAX);
    assert_eq!(pins(&city), "");
}

/// What cannot be read there is the matter of nobody else.
#[test]
fn list_that_cannot_be_read_stops_no_patrol() {
    let city = City::new();
    let sandbox = city.sandbox();
    stash(&sandbox, "changed\n");
    let log = city.repo.theirs().join("logs/refs/stash");
    fs::write(&log, "no list\n\u{0}").unwrap();
    city.repo.progress(&sandbox).unwrap();
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    city.repo.progress(&sandbox).unwrap();
    assert!(!try_git(&sandbox, &["stash", "pop"]).status.success());
}
