//! The `origin` of a checkout: refused where work would not go where `git push` goes there.

use std::path::Path;

use super::addresses::{self, Addresses};
use super::rig::GitRepo;
use super::settings::ORIGIN;
use super::settings_read::{Checkout, is_route};
use crate::domain::url_text::without_passwords;
use crate::ports::repo::RepoError;

/// Returns true for two addresses of one place: the password or token of a URL may change each hour.
pub(super) fn is_same_place(one: &str, other: &str) -> bool {
    without_passwords(one) == without_passwords(other)
}

/// Refuses a checkout that has an `origin` which is not known: work would land in the checkout and not there. git reads it from a
/// file of its own, as it had it before it had it in the configuration, or from a file that agents write, or cannot list it.
pub(super) fn no_unknown(checkout: &Checkout, addresses: &Addresses) -> Result<(), RepoError> {
    if addresses.contains_key("origin") {
        return Ok(());
    }
    let refused = |file: &Path, how: &str| {
        let (dir, file) = (checkout.top.dir.display(), file.display());
        let why = format!("the remote origin of {dir} is in {file}, {how}");
        Err(RepoError::Failed(why))
    };
    let files = ["remotes", "branches"].map(|dir| checkout.top.git_dir.join(dir).join("origin"));
    if let Some(file) = files.iter().find(|file| file.is_file()) {
        return refused(
            file,
            "which is not read: run `git remote rename origin origin` there, which moves it into the configuration",
        );
    }
    let is_url = |key: &str| key == ORIGIN || key == "remote.origin.pushurl";
    if let Some(it) = checkout.left_out.iter().find(|it| is_url(&it.setting.0)) {
        return refused(
            &it.file,
            match it.scope.as_str() {
                "local" => {
                    "which agents write: the git directory is in the work tree of a rig, as a file of the project"
                }
                _ => {
                    "which agents write: set it with `git config` in the configuration of the repository"
                }
            },
        );
    }
    match checkout.routes.iter().any(|(key, _)| is_url(key)) {
        false => Ok(()),
        true => Err(RepoError::Failed(format!(
            "the remote origin of {} has no URL that git lists: look at `git remote -v` there",
            checkout.top.dir.display()
        ))),
    }
}

/// Refuses a checkout in which a setting that is left out decides the address of `origin`: work would not go where `git push` goes.
pub(super) fn no_other(
    repo: &GitRepo,
    checkout: &Checkout,
    addresses: &Addresses,
) -> Result<(), RepoError> {
    let mut left_out = checkout.left_out.iter();
    let Some(it) = left_out.find(|it| is_route(&it.setting.0)) else {
        return Ok(());
    };
    let by_git = addresses::of(repo, &checkout.routes_of_git, &checkout.top.dir)?;
    let push = |of: &Addresses| of.get("origin").map(|it| without_passwords(&it.push));
    let fetch = |of: &Addresses| of.get("origin").map(|it| without_passwords(&it.fetch));
    if push(&by_git) == push(addresses) && fetch(&by_git) == fetch(addresses) {
        return Ok(());
    }
    let to = |address: Option<String>| address.unwrap_or_else(|| "nowhere".to_owned());
    Err(RepoError::Failed(format!(
        "git in {} pushes to {} because of settings that agents write ({}), and to {} without them: set the address in the \
         configuration of the repository, or in a file of yours that no rig has",
        checkout.top.dir.display(),
        to(push(&by_git)),
        it.file.display(),
        to(push(addresses)),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rig is held until its new origin has been fetched.
    #[test]
    fn new_token_in_an_address_makes_no_new_origin_of_it() {
        for (other, is_same) in [
            ("https://new@host/x", true),
            ("https://host/x", true),
            ("https://old@host/y", false),
            ("https://old@other/x", false),
            ("/host/x", false),
        ] {
            assert_eq!(is_same_place("https://old@host/x", other), is_same);
        }
    }
}
