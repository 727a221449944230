//! The `origin` of a checkout: its rig is held where work would not go where `git push` goes there.

use std::path::Path;

use super::addresses::{self, Addresses};
use super::config_text::shown_files;
use super::include_files::LOOK_LIMIT;
use super::rig::GitRepo;
use super::settings::ORIGIN;
use super::settings_read::{Checkout, is_route};
use crate::adapters::link_walk::real;
use crate::domain::url_text::without_passwords;
use crate::in_time::in_time;
use crate::ports::repo::RepoError;

/// Returns true for two addresses of one place: the password or token of a URL may change each hour, and the path of a checkout whose
/// disk was slow at a start may go by links.
pub(super) fn is_same_place(one: &str, other: &str) -> bool {
    let are_paths = one.starts_with('/') && other.starts_with('/');
    without_passwords(one) == without_passwords(other)
        || are_paths && {
            let paths = [one.to_owned(), other.to_owned()];
            // The disk of the former place may hang.
            let is_same = in_time(LOOK_LIMIT, move || {
                let [one, other] = paths.map(|path| real(Path::new(&path)));
                one == other
            });
            is_same == Some(true)
        }
}

/// Returns the reason to hold a rig whose work would not go where `git push` goes in its checkout; none for others.
///
/// # Errors
/// git's, or those of the disk.
pub(super) fn why_elsewhere(
    repo: &GitRepo,
    checkout: &Checkout,
    addresses: &Addresses,
) -> Result<Option<String>, RepoError> {
    match unknown(checkout, addresses) {
        Some(why) => Ok(Some(why)),
        None => led_elsewhere(repo, checkout, addresses),
    }
}

/// Returns the reason why the checkout has an `origin` which is not known: work would land in the checkout and not there. git reads it
/// from a file of its own, as it had it before it had it in the configuration, or from a file that agents write, or cannot list it.
fn unknown(checkout: &Checkout, addresses: &Addresses) -> Option<String> {
    if addresses.contains_key("origin") {
        return None;
    }
    let is_in = |file: &Path, how: &str| {
        let (dir, file) = (checkout.top.dir.display(), file.display());
        Some(format!("the remote origin of {dir} is in {file}, {how}"))
    };
    let files = ["remotes", "branches"].map(|dir| checkout.top.git_dir.join(dir).join("origin"));
    if let Some(file) = files.iter().find(|file| file.is_file()) {
        return is_in(
            file,
            "which is not read: run `git remote rename origin origin` there, which moves it into the configuration",
        );
    }
    let is_url = |key: &str| key == ORIGIN || key == "remote.origin.pushurl";
    if let Some(it) = checkout.left_out.iter().find(|it| is_url(&it.setting.0)) {
        return is_in(
            &it.file,
            match real(&it.file).starts_with(real(&checkout.top.git_dir)) {
                true => {
                    "which agents write: this git directory is in the work tree or the directory of a rig; move it out"
                }
                false => {
                    "which agents write: set it with `git config` in the configuration of the repository"
                }
            },
        );
    }
    let is_set = checkout.routes.iter().any(|(key, _)| is_url(key));
    is_set.then(|| {
        format!(
            "the remote origin of {} has no URL that git lists: look at `git remote -v` there",
            checkout.top.dir.display()
        )
    })
}

/// Returns the reason why a setting that is left out decides the address of `origin`.
fn led_elsewhere(
    repo: &GitRepo,
    checkout: &Checkout,
    addresses: &Addresses,
) -> Result<Option<String>, RepoError> {
    let left_out = checkout.left_out.iter();
    let files = shown_files(left_out.filter(|it| is_route(&it.setting.0)));
    if files.is_empty() {
        return Ok(None);
    }
    let top = &checkout.top.dir;
    let by_git = match addresses::of(repo, &checkout.routes_of_git, top) {
        Ok(addresses) => addresses,
        // `git push` fails there, too.
        Err(why @ RepoError::Git { code: Some(_), .. }) if !why.is_no_room() => {
            tracing::warn!(rig = %repo.name(), files, %why, "git cannot list the remotes of the checkout with the settings that agents write; they are left out");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let of = |all: &Addresses| {
        let origin = all.get("origin");
        origin.map(|it| [&it.push, &it.fetch].map(|url| without_passwords(url)))
    };
    let ([push, fetch], ours) = match (of(&by_git), of(addresses)) {
        (Some(theirs), Some(ours)) if theirs != ours => (theirs, ours),
        _ => return Ok(None),
    };
    let (verb, theirs, ours) = match push == ours[0] {
        false => ("pushes to", push, &ours[0]),
        true => ("fetches from", fetch, &ours[1]),
    };
    Ok(Some(format!(
        "git in {} {verb} {theirs} because of settings that agents write ({}), and {verb} {ours} without them: set the address in \
         the configuration of the repository, or in a file of yours that no rig has",
        top.display(),
        files,
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
        assert!(is_same_place("/no/such/../place", "/no/place"));
        assert!(!is_same_place("/no/such", "/no/place"));
    }
}
