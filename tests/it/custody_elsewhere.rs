//! Work that a host merged, squashed or reverted, as real git shows it.

use horde_supervisor::domain::ids::Oid;
use horde_supervisor::domain::merge::{LandStyle, MergeOutcome};
use horde_supervisor::ports::repo::Repo as _;

use crate::landing::request;
use crate::support::city::City;
use crate::support::git::{commit_all, git, rev, write};

fn oid(text: String) -> Oid {
    Oid::new(text).unwrap()
}

/// A file that is moved out of a path that needs a review changes that path.
#[test]
fn changed_paths_have_both_names_of_a_renamed_file_and_no_change_of_the_target() {
    let city = City::new();
    let sandbox = city.sandbox();
    git(&sandbox, &["mv", "src/a.txt", "moved.txt"]);
    write(&sandbox, "name with\nnewline", "x\n");
    let head = oid(commit_all(&sandbox, "move it"));
    city.push_work(&sandbox);
    let checkout = city.checkout();
    write(&checkout, "theirs.txt", "t\n");
    commit_all(&checkout, "theirs");
    git(&checkout, &["push", "--quiet", "origin", "main"]);
    city.repo.fetch_target("main").unwrap();
    let changed = city.repo.changed_paths(&head, "main").unwrap();
    assert_eq!(changed, ["moved.txt", "name with\nnewline", "src/a.txt"]);
}

/// Trees decide, whatever the messages of the commits are.
#[test]
fn merged_and_squashed_work_is_recognised_until_it_is_reverted() {
    let city = City::new();
    let sandbox = city.sandbox();
    let began = oid(rev(&sandbox, "HEAD"));
    write(&sandbox, "src/a.txt", "a1\nchanged\na3\n");
    write(&sandbox, "new.txt", "n\n");
    let head = oid(commit_all(&sandbox, "work"));
    city.push_work(&sandbox);
    let checkout = city.checkout();
    let push = || {
        git(
            &checkout,
            &["push", "--quiet", "--force", "origin", "HEAD:main"],
        );
        city.repo.fetch_target("main").unwrap().tip
    };
    git(&checkout, &["fetch", "--quiet", "origin"]);
    git(
        &checkout,
        &["merge", "--quiet", "--no-ff", "-m", "merged", head.as_str()],
    );
    let tip = push();
    assert!(city.repo.landed("main", &head).unwrap());
    assert!(!city.repo.is_reverted(&began, &head, &tip).unwrap());
    write(&checkout, "later.txt", "l\n");
    commit_all(&checkout, "later");
    assert!(!city.repo.is_reverted(&began, &head, &push()).unwrap());
    git(&checkout, &["revert", "--no-edit", "-m", "1", "HEAD~1"]);
    assert!(city.repo.is_reverted(&began, &head, &push()).unwrap());
    // Squashed, on the target as it was.
    git(&checkout, &["reset", "--quiet", "--hard", began.as_str()]);
    let nothing = |tip: &Oid| {
        let merged = city.repo.merge(&request(&head, tip, LandStyle::Rebase));
        merged.unwrap() == MergeOutcome::Nothing
    };
    assert!(!nothing(&push()));
    git(&checkout, &["merge", "--quiet", "--squash", head.as_str()]);
    git(&checkout, &["commit", "--quiet", "-m", "squashed"]);
    let tip = push();
    assert!(!city.repo.landed("main", &head).unwrap());
    assert!(nothing(&tip));
    git(&checkout, &["revert", "--no-edit", "HEAD"]);
    assert!(!nothing(&push()));
}
