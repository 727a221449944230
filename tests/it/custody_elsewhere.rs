//! Work that a host merged, squashed or reverted, as real git shows it.

use horde_supervisor::domain::ids::Oid;
use horde_supervisor::domain::merge::{LandStyle, MergeOutcome};
use horde_supervisor::ports::repo::{Repo as _, RepoError};

use crate::sandbox_life::request;
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
    // A garbage collection may have taken a commit that was tested.
    let gone = oid("1".repeat(40));
    let missing = city.repo.changed_paths(&gone, "main").unwrap_err();
    assert!(matches!(missing, RepoError::NotFound(_)), "{missing}");
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
    let reverted = |tip: &Oid| city.repo.is_reverted(&began, &head, tip).unwrap();
    assert_eq!(reverted(&tip), Some(false));
    write(&checkout, "later.txt", "l\n");
    commit_all(&checkout, "later");
    assert_eq!(reverted(&push()), Some(false));
    git(&checkout, &["revert", "--no-edit", "-m", "1", "HEAD~1"]);
    assert_eq!(reverted(&push()), Some(true));
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

/// The work merged the target before it was merged itself: the revert takes back the work alone.
#[test]
fn reverted_work_that_had_merged_the_target_is_recognised() {
    let city = City::new();
    let sandbox = city.sandbox();
    let began = oid(rev(&sandbox, "HEAD"));
    let checkout = city.checkout();
    let push = || {
        git(&checkout, &["push", "--quiet", "origin", "HEAD:main"]);
        city.repo.fetch_target("main").unwrap().tip
    };
    write(&checkout, "theirs.txt", "t\n");
    commit_all(&checkout, "theirs");
    push();
    write(&sandbox, "new.txt", "n\n");
    commit_all(&sandbox, "work");
    let main = city.origin().display().to_string();
    git(&sandbox, &["fetch", "--quiet", &main, "main"]);
    git(&sandbox, &["merge", "--quiet", "--no-edit", "FETCH_HEAD"]);
    let head = oid(rev(&sandbox, "HEAD"));
    // More work follows on the branch: the host merges a later commit.
    write(&sandbox, "more.txt", "m\n");
    let last = oid(commit_all(&sandbox, "more"));
    city.push_work(&sandbox);
    git(&checkout, &["fetch", "--quiet", "origin"]);
    let merge = ["merge", "--quiet", "--no-ff", "-m", "merged", last.as_str()];
    git(&checkout, &merge);
    let reverted = |head: &Oid, tip: &Oid| city.repo.is_reverted(&began, head, tip).unwrap();
    let tip = push();
    assert_eq!(reverted(&last, &tip), Some(false));
    assert_eq!(reverted(&head, &tip), Some(false));
    git(&checkout, &["revert", "--no-edit", "-m", "1", "HEAD"]);
    let tip = push();
    assert_eq!(reverted(&last, &tip), Some(true));
    assert_eq!(reverted(&head, &tip), Some(true));
}

/// A part of the work was changed since, and the rest was reverted: no merge shows that.
#[test]
fn work_that_was_changed_after_its_merge_cannot_be_told_from_reverted_work() {
    let city = City::new();
    let sandbox = city.sandbox();
    let began = oid(rev(&sandbox, "HEAD"));
    write(&sandbox, "src/a.txt", "a1\nchanged\na3\n");
    write(&sandbox, "new.txt", "n\n");
    let head = oid(commit_all(&sandbox, "work"));
    city.push_work(&sandbox);
    let checkout = city.checkout();
    git(&checkout, &["fetch", "--quiet", "origin"]);
    let merge = ["merge", "--quiet", "--no-ff", "-m", "merged", head.as_str()];
    git(&checkout, &merge);
    write(&checkout, "src/a.txt", "a1\nchanged again\na3\n");
    std::fs::remove_file(checkout.join("new.txt")).unwrap();
    commit_all(&checkout, "taken back in parts");
    git(&checkout, &["push", "--quiet", "origin", "HEAD:main"]);
    let tip = city.repo.fetch_target("main").unwrap().tip;
    assert_eq!(city.repo.is_reverted(&began, &head, &tip).unwrap(), None);
}
