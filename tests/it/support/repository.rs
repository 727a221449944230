//! The repository of a rig: a checkout with some history on `main`, and its bare origin.

use std::fs;
use std::path::Path;

use super::git::{commit_all, git};

/// Makes a checkout whose first commit has what `fill` writes into it. With an origin, a bare repository of that name
/// beside the checkout gets the commit, too.
pub fn repository(checkout: &Path, origin: Option<&str>, fill: impl FnOnce(&Path)) {
    fs::create_dir(checkout).expect("a directory");
    git(checkout, &["init", "--quiet", "-b", "main"]);
    git(checkout, &["config", "user.email", "ada@example.invalid"]);
    fill(checkout);
    commit_all(checkout, "first");
    let Some(origin) = origin else { return };
    let beside = checkout.parent().expect("a parent");
    git(beside, &["init", "--quiet", "--bare", "-b", "main", origin]);
    let url = format!("../{origin}");
    git(checkout, &["remote", "add", "origin", &url]);
    git(checkout, &["push", "--quiet", "origin", "main"]);
}
