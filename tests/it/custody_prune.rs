//! The removal of a salvage: all of its refs or none, and none that moved.

use std::path::Path;

use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::ports::repo::{Repo, RepoError, SalvageRecord};

use crate::support::city::{City, toast};
use crate::support::git::{git, rev, write};

fn refs(repo: &Path) -> Vec<String> {
    let list = ["for-each-ref", "--format=%(refname)", "refs/horde/salvage"];
    git(repo, &list).lines().map(str::to_owned).collect()
}

/// Makes two salvages of a sandbox.
fn salvaged(city: &City) -> [SalvageRecord; 2] {
    let sandbox = city.sandbox();
    ["first", "first, and second"].map(|text| {
        write(&sandbox, "new", text);
        let size = city.repo.salvage_size(&sandbox).expect("measured");
        let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        let record = record.expect("salvaged");
        assert_eq!((size, record.bytes), (text.len() as u64, text.len() as u64));
        record
    })
}

#[test]
fn the_refs_of_one_salvage_go_and_those_of_another_stay() {
    let city = City::new();
    let [first, second] = salvaged(&city);
    let tips = city.repo.tips(&first.refs).expect("they are there");
    assert_eq!(tips.len(), first.refs.len());
    city.repo.delete_refs(&tips).expect("deleted");
    assert_eq!(refs(city.repo.repo_dir()), second.refs);
    assert_eq!(city.repo.tips(&first.refs), Ok(vec![]));
    city.repo.delete_refs(&tips).expect("gone already is fine");
}

/// A prune that crashed is continued; a prune with a moved ref removes nothing.
#[test]
fn refs_are_compared_before_any_of_them_goes() {
    let city = City::new();
    let [first, second] = salvaged(&city);
    let repo = city.repo.repo_dir();
    let tips = city.repo.tips(&first.refs).expect("they are there");
    let (moved, was) = tips.last().expect("a ref");
    let elsewhere = Oid::new(rev(repo, &second.refs[0])).expect("an id");
    assert_ne!(elsewhere, *was);
    git(repo, &["update-ref", moved, elsewhere.as_str()]);
    let before = refs(repo);
    let refused = city.repo.delete_refs(&tips);
    assert!(
        matches!(refused, Err(RepoError::Moved { .. })),
        "{refused:?}"
    );
    assert_eq!(refs(repo), before);
    git(repo, &["update-ref", moved, was.as_str()]);
    git(repo, &["update-ref", "-d", &tips[0].0]);
    city.repo.delete_refs(&tips).expect("the rest is deleted");
    assert_eq!(refs(repo), second.refs);
}

#[test]
fn precious_ignored_files_are_listed_and_built_ones_are_not() {
    let city = City::with(|checkout| {
        write(
            checkout,
            ".gitignore",
            ".env\n.idea/\ntarget/\nnode_modules/\n",
        );
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    for name in [
        ".env",
        ".idea/run",
        "target/a",
        "src/node_modules/b",
        "src/.env",
    ] {
        write(&sandbox, name, "1\n");
    }
    let record = city.salvage(&sandbox);
    assert_eq!(record.ignored, [".env", ".idea/", "src/.env"]);
}

/// Line endings that git may convert are no reason to count stored contents again.
#[test]
fn only_objects_that_are_not_stored_yet_count_for_the_size() {
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", "* text=auto\n");
        write(checkout, "large.txt", "a line\n".repeat(100_000));
    });
    city.repo.prepare().expect("prepared");
    let sandbox = city.sandbox();
    write(&sandbox, "README", "hello, dirty\n");
    assert_eq!(city.repo.salvage_size(&sandbox), Ok(13));
    // Unchanged for git, but with other bytes than git has.
    write(&sandbox, "dos.txt", "x\r\n");
    git(&sandbox, &["add", "dos.txt"]);
    git(&sandbox, &["commit", "--quiet", "-m", "dos"]);
    assert_eq!(city.repo.salvage_size(&sandbox), Ok(13 + 3));
}

/// A repeated salvage of the same state needs no more room.
#[test]
fn repeated_salvage_of_the_same_state_needs_no_room() {
    let city = City::new();
    let [_, second] = salvaged(&city);
    let sandbox = city.spec(1).path;
    assert_eq!(city.repo.salvage_size(&sandbox), Ok(0));
    let again = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    assert_eq!(again.expect("salvaged"), second);
    write(&sandbox, "new", "third");
    assert_eq!(city.repo.salvage_size(&sandbox), Ok(5));
}
