//! The addresses of the remotes of the rig's checkout. git itself computes them, from the settings that it reads in the checkout:
//! `insteadOf`, `pushInsteadOf`, a push URL of its own, URLs that are reset.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::admin::{At, scratch, write_whole};
use super::command::Git;
use super::config_text::{Settings, render};
use super::prepare::init_bare;
use super::rig::GitRepo;
use super::settings_read::Checkout;
use crate::ports::repo::RepoError;

/// The final addresses of a remote: nothing rewrites them any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// The URL that `git fetch NAME` reads from.
    pub(super) fetch: String,
    /// The first URL that `git push NAME` writes to.
    pub(super) push: String,
}

/// The addresses of the remotes, by name.
pub(super) type Addresses = BTreeMap<String, Address>;

/// Returns the addresses of the remotes that have one. A repository with nothing but these settings is asked: in the checkout, git
/// would read those that are left out as well.
///
/// # Errors
/// git's, or those of the disk.
pub(super) fn of(repo: &GitRepo, checkout: &Checkout) -> Result<Addresses, RepoError> {
    let scratch = scratch(repo)?;
    let dir = scratch.path();
    init_bare(dir, "sha1")?;
    let file = dir.join("config");
    let own = std::fs::read_to_string(&file).at("cannot read", &file)?;
    write_whole(&file, (own + &render(&checkout.routes)).as_bytes())?;
    let listed = Git::in_dir(dir).args(["remote", "-v"]).run()?.text();
    let mut addresses = parsed(&listed);
    for address in addresses.values_mut() {
        for url in [&mut address.fetch, &mut address.push] {
            *url = checkout.resolve(url);
        }
    }
    Ok(addresses)
}

/// Reads the output of `git remote -v`: a line with the URL of the fetches, then one for each of the pushes. A name that no ref can
/// have is left out: git itself fetches nothing from there.
fn parsed(listed: &str) -> Addresses {
    let mut fetched: BTreeMap<&str, &str> = BTreeMap::new();
    let mut pushed: BTreeMap<&str, &str> = BTreeMap::new();
    for line in listed.lines() {
        let Some((name, url)) = line.split_once('\t') else {
            continue;
        };
        if let Some(url) = url.strip_suffix(" (fetch)") {
            fetched.entry(name).or_insert(url);
        } else if let Some(url) = url.strip_suffix(" (push)") {
            pushed.entry(name).or_insert(url);
        }
    }
    fetched.retain(|name, url| !url.is_empty() && is_ref_name(name));
    let address = |(name, url): (&str, &str)| {
        let push = pushed.get(name).filter(|url| !url.is_empty());
        let address = Address {
            fetch: url.to_owned(),
            push: (*push.unwrap_or(&url)).to_owned(),
        };
        (name.to_owned(), address)
    };
    fetched.into_iter().map(address).collect()
}

fn is_ref_name(remote: &str) -> bool {
    git2::Reference::is_valid_name(&format!("refs/remotes/{remote}/HEAD"))
}

/// Returns the settings with which git uses these addresses as they are. git rewrites by the longest prefix, and by the first of
/// equal ones, so they must come before those of the user.
pub(super) fn pins(addresses: &[String]) -> Settings {
    let mut settings = Settings::new();
    for url in addresses {
        for rewriting in ["insteadof", "pushinsteadof"] {
            settings.push((format!("url.{url}.{rewriting}"), Some(url.clone())));
        }
    }
    settings
}

/// Returns settings that include the present ones of the user, as git finds them.
pub(super) fn of_user_live() -> Settings {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let files = match var("GIT_CONFIG_GLOBAL") {
        Some(file) => vec![file],
        None => {
            let home = var("HOME");
            let xdg = var("XDG_CONFIG_HOME").filter(|dir| !dir.as_os_str().is_empty());
            let xdg = xdg.or_else(|| Some(home.as_ref()?.join(".config")));
            let own = home.map(|home| home.join(".gitconfig"));
            let xdg = xdg.map(|dir| dir.join("git/config"));
            xdg.into_iter().chain(own).collect()
        }
    };
    let include = |file: PathBuf| {
        let file = file.display().to_string();
        ("include.path".to_owned(), Some(file))
    };
    files.into_iter().map(include).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_url_of_each_kind_counts_and_remotes_without_one_or_with_no_name_of_a_ref_do_not() {
        let listed = "empty\nlost\t (fetch)\nlost\t (push)\norigin\ta b (fetch)\norigin\tc (push)\norigin\td (push)\n\
            up\te (fetch)\nup\te (push)\nx y\tf (fetch)\nx y\tf (push)\n";
        let address = |name: &str, fetch: &str, push: &str| {
            let (fetch, push) = (fetch.to_owned(), push.to_owned());
            (name.to_owned(), Address { fetch, push })
        };
        let expected = [address("origin", "a b", "c"), address("up", "e", "e")];
        assert_eq!(parsed(listed), expected.into());
    }
}
