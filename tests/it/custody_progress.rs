//! The marks that show activity in a sandbox.

use horde_supervisor::ports::repo::Repo;

use crate::support::city::City;
use crate::support::git::{commit_all, git, write};

#[test]
fn the_marks_change_with_the_work_and_with_nothing_else() {
    let city = City::new();
    let sandbox = city.sandbox();
    let progress = || city.repo.progress(&sandbox).unwrap();
    let changes = || city.repo.changes(&sandbox).unwrap();
    let (first, clean) = (progress(), changes());
    // Looking changes nothing.
    city.facts(&sandbox);
    city.repo.glance(&sandbox, "main").unwrap();
    assert_eq!((progress(), changes()), (first.clone(), clean.clone()));
    write(&sandbox, "new.txt", "1\n");
    let untracked = changes();
    assert_ne!(untracked, clean);
    write(&sandbox, "new.txt", "1\n2\n");
    assert_ne!(changes(), untracked, "a further edit of a changed file");
    assert_eq!(progress(), first, "nothing was committed or staged");
    git(&sandbox, &["add", "new.txt"]);
    let staged = progress();
    assert_ne!(staged, first);
    commit_all(&sandbox, "one");
    let committed = progress();
    assert_ne!(committed, staged);
    assert_eq!(changes(), clean, "nothing is in no commit");
    git(
        &sandbox,
        &["commit", "--quiet", "--allow-empty", "-m", "two"],
    );
    assert_ne!(progress(), committed);
}

#[test]
fn a_sandbox_that_cannot_be_seen_has_no_marks() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, ".git", "gitdir: /is-not-there\n");
    city.repo.progress(&sandbox).unwrap_err();
    city.repo.changes(&sandbox).unwrap_err();
}
