//! Stash entries that come to light while their sandbox is removed, and whose they are.

use std::path::Path;

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;

use crate::support::city::{City, permit, toast};
use crate::support::git::{git, rev, write};

/// Makes an entry whose message names a branch, as if the raider of that name made it. Returns the entry and its message.
fn store(sandbox: &Path, raider: &str, branch: &str, text: &str) -> (String, String) {
    write(sandbox, "README", text);
    let entry = git(sandbox, &["stash", "create"]);
    git(sandbox, &["checkout", "-q", "."]);
    let message = format!("On {branch}: x");
    let by = format!("GIT_COMMITTER_NAME=horde/raiders/{raider}");
    let alias = format!("alias.x=!{by} git stash store -m '{message}' {entry}");
    git(sandbox, &["-c", &alias, "x"]);
    (entry, message)
}

/// Clears the list as another raider does, and destroys what no ref names. Returns true if the entry is left.
fn outlives_a_clear(city: &City, other: &Path, entry: &str) -> bool {
    git(other, &["stash", "clear"]);
    git(other, &["gc", "-q", "--prune=now"]);
    git(city.repo.repo_dir(), &["gc", "-q", "--prune=now"]);
    let all = git(city.repo.repo_dir(), &["rev-list", "--all"]);
    all.contains(entry)
}

/// It was pinned for the sandbox, or not yet, and no ref named it when the sandbox was gone.
#[test]
fn entry_that_comes_to_light_after_the_last_measurement_stays_pinned() {
    for is_pinned in [true, false] {
        let city = City::new();
        let (spec, nux) = (city.spec(1), city.spec_of("Nux", 1));
        for spec in [&spec, &nux] {
            city.repo.make_sandbox(spec).unwrap();
        }
        // One that is saved needs no other pin.
        let (saved, _) = store(&spec.path, "Toast", &spec.branch, "saved\n");
        city.repo.progress(&nux.path).unwrap();
        let record = city.repo.salvage(&spec.path, &toast(), Incarnation(1));
        record.unwrap();
        let late = std::cell::OnceCell::new();
        let still = || {
            let (entry, _) = store(&nux.path, "Toast", &spec.branch, "late\n");
            match is_pinned {
                true => drop(city.repo.progress(&nux.path).unwrap()),
                // It is noted that it is the sandbox's.
                false => drop(city.facts(&nux.path)),
            }
            late.set(entry).unwrap();
            Ok(())
        };
        let facts = city.facts(&spec.path);
        city.repo
            .discard_sandbox(&permit(&spec, &facts), &city.trash(), &still)
            .unwrap();
        city.repo.progress(&nux.path).unwrap();
        let format = "--format=%(refname) %(parent)";
        let pins = git(
            city.repo.repo_dir(),
            &["for-each-ref", format, "refs/horde/stash"],
        );
        let late = late.get().unwrap();
        let is_unclaimed = |line: &str| line.contains("/unclaimed/") && line.contains(late);
        assert!(pins.lines().any(is_unclaimed), "{is_pinned}: {pins}");
        assert!(
            !pins.contains("/Toast/") && !pins.contains(&saved),
            "{pins}"
        );
        assert!(outlives_a_clear(&city, &nux.path, late), "{is_pinned}");
    }
}

/// Any raider was held up by one line in the list.
#[test]
fn entry_that_names_the_branch_of_another_raider_is_of_the_one_that_git_wrote() {
    let city = City::new();
    let (spec, nux) = (city.spec(1), city.spec_of("Nux", 1));
    for spec in [&spec, &nux] {
        city.repo.make_sandbox(spec).unwrap();
    }
    let (entry, message) = store(&nux.path, "Nux", &spec.branch, "of Nux\n");
    let (unknown, _) = store(&nux.path, "Nobody", &spec.branch, "of nobody\n");
    city.repo.progress(&nux.path).unwrap();
    assert_eq!(city.facts(&nux.path).stashes, [message.as_str()]);
    assert_eq!(
        city.facts(&spec.path).stashes,
        [message.as_str()],
        "by its message"
    );
    assert_ne!(entry, unknown);
    assert_eq!(rev(&nux.path, "stash@{0}"), unknown);
    git(&nux.path, &["stash", "drop", "-q"]);
    let facts = city.facts(&spec.path);
    assert_eq!(facts.stashes, Vec::<String>::new());
    city.repo
        .discard_sandbox(&permit(&spec, &facts), &city.trash(), &|| Ok(()))
        .unwrap();
    assert!(outlives_a_clear(&city, &nux.path, &entry));
    assert!(outlives_a_clear(&city, &nux.path, &unknown));
}
