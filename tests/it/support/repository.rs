//! The repository of a rig: a checkout with some history on `main`, and its bare origin.

use std::fs;
use std::path::Path;

use horde_supervisor::testing::empty_repository::{self, copy_files};

use super::git::{commit_all, write};

const USER: &str = "[user]\n\temail = ada@example.invalid\n";

/// Makes a checkout whose first commit has what `fill` writes into it. With an origin, a bare repository of that name
/// beside the checkout gets the commit, as if it had been pushed.
pub fn repository(checkout: &Path, origin: Option<&str>, fill: impl FnOnce(&Path)) {
    fs::create_dir(checkout).expect("a directory");
    let git_dir = checkout.join(".git");
    let remote = origin.map(|origin| {
        format!(
            "[remote \"origin\"]\n\turl = ../{origin}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
        )
    });
    let config = format!("{USER}{}", remote.unwrap_or_default());
    empty_repository::of_a_checkout(&git_dir, &config);
    fill(checkout);
    let first = commit_all(checkout, "first");
    let Some(origin) = origin else { return };
    let origin = checkout.parent().expect("a parent").join(origin);
    empty_repository::bare(&origin, "");
    copy_files(&git_dir.join("objects"), &origin.join("objects"));
    write(&origin, "refs/heads/main", format!("{first}\n"));
    write(&git_dir, "refs/remotes/origin/main", format!("{first}\n"));
}
