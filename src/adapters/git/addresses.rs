//! The addresses of the remotes of a rig. git itself computes them, from the settings that it reads in the checkout: `insteadOf`,
//! `pushInsteadOf`, a push URL of its own, URLs that are reset.
//!
//! Ours has the final addresses, and pins that keep git from rewriting them once more: commands at a remote run there with the
//! user's settings, which may name others for that place. Theirs has the URLs as they are written, so that no part that only
//! rewriting adds, as a password, gets into the sandboxes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::admin::{At, scratch, write_whole};
use super::command::Git;
use super::config_text::{Settings, render};
use super::prepare::init_bare;
use super::rig::GitRepo;
use crate::ports::repo::RepoError;

/// The addresses of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// The URL as the settings have it; a relative path is made absolute.
    pub(super) written: String,
    /// The final URL that `git fetch NAME` reads from.
    pub(super) fetch: String,
    /// The first final URL that `git push NAME` writes to.
    pub(super) push: String,
}

/// The addresses of the remotes, by name.
pub(super) type Addresses = BTreeMap<String, Address>;

/// Returns the addresses of the remotes that have one, by these settings. Relative paths begin at `top`.
///
/// # Errors
/// git's, or those of the disk.
pub(super) fn of(repo: &GitRepo, routes: &Settings, top: &Path) -> Result<Addresses, RepoError> {
    let is_rewriting = |key: &str| key.starts_with("url.");
    let plain = routes.iter().filter(|(key, _)| !is_rewriting(key));
    let plain = remotes(repo, &plain.cloned().collect())?;
    let rewritten = match routes.iter().any(|(key, _)| is_rewriting(key)) {
        true => remotes(repo, routes)?,
        false => plain.clone(),
    };
    let address = |(name, remote): (String, Remote)| {
        let written = plain.get(&name)?;
        // An alias may look like a relative path.
        let is_alias = written.fetch != remote.fetch;
        let address = Address {
            written: match is_alias {
                true => written.fetch.clone(),
                false => resolve(top, &written.fetch),
            },
            fetch: resolve(top, &remote.fetch),
            push: resolve(top, &remote.push),
        };
        Some((name, address))
    };
    Ok(rewritten.into_iter().filter_map(address).collect())
}

/// A remote as git lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remote {
    fetch: String,
    push: String,
}

/// Asks git in a repository with nothing but these settings: in the checkout, it would read those that are left out as well.
fn remotes(repo: &GitRepo, routes: &Settings) -> Result<BTreeMap<String, Remote>, RepoError> {
    let scratch = scratch(repo)?;
    let dir = scratch.path();
    init_bare(dir, "sha1")?;
    let file = dir.join("config");
    let own = fs::read_to_string(&file).at("cannot read", &file)?;
    write_whole(&file, (own + &render(routes)).as_bytes())?;
    let listed = Git::in_dir(dir).args(["remote", "-v"]).run()?.text();
    Ok(parsed(&listed))
}

/// Reads the output of `git remote -v`: a line with the URL of the fetches, then one for each of the pushes. A remote with a push URL
/// alone is fetched from there. A name that no ref can have is left out: git itself fetches nothing from there.
fn parsed(listed: &str) -> BTreeMap<String, Remote> {
    let mut fetched: BTreeMap<&str, &str> = BTreeMap::new();
    let mut pushed: BTreeMap<&str, &str> = BTreeMap::new();
    for line in listed.lines() {
        let Some((name, url)) = line.split_once('\t') else {
            continue;
        };
        for (kind, urls) in [(" (fetch)", &mut fetched), (" (push)", &mut pushed)] {
            if let Some(url) = url.strip_suffix(kind).filter(|url| !url.is_empty()) {
                urls.entry(name).or_insert(url);
            }
        }
    }
    let names = fetched.keys().chain(pushed.keys());
    let names = names.filter(|name| is_ref_name(name));
    let remote = |name: &&str| {
        let (fetch, push) = (fetched.get(name), pushed.get(name));
        let remote = Remote {
            fetch: (*fetch.or(push)?).to_owned(),
            push: (*push.or(fetch)?).to_owned(),
        };
        Some(((*name).to_owned(), remote))
    };
    names.filter_map(remote).collect()
}

fn is_ref_name(remote: &str) -> bool {
    git2::Reference::is_valid_name(&format!("refs/remotes/{remote}/HEAD"))
}

/// Makes a relative path absolute, and one that begins in the home of the user.
fn resolve(top: &Path, url: &str) -> String {
    if url.starts_with('~') {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let own = url.strip_prefix("~/").zip(home);
        // git finds the home of another user.
        return own.map_or_else(
            || url.to_owned(),
            |(rest, home)| home.join(rest).display().to_string(),
        );
    }
    let colon = url.find(':').unwrap_or(usize::MAX);
    let slash = url.find('/').unwrap_or(usize::MAX);
    let is_path = colon > slash || colon == usize::MAX;
    if !is_path || url.starts_with('/') {
        return url.to_owned();
    }
    let joined = top.join(url);
    let real = fs::canonicalize(&joined).unwrap_or(joined);
    real.display().to_string()
}

/// Returns the settings with which git uses these addresses as they are. git rewrites by the longest prefix, and by the first of
/// equal ones: they must come before all others.
pub(super) fn pins<'a>(addresses: impl IntoIterator<Item = &'a String>) -> Settings {
    let pin = |url: &String| {
        ["insteadof", "pushinsteadof"]
            .map(|rewriting| (format!("url.{url}.{rewriting}"), Some(url.clone())))
    };
    addresses.into_iter().flat_map(pin).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rigged;
    use super::*;

    #[test]
    fn first_url_of_each_kind_counts_and_remotes_without_one_or_with_no_name_of_a_ref_do_not() {
        let listed = "empty\nlost\t (fetch)\nlost\t (push)\norigin\ta b (fetch)\norigin\tc (push)\norigin\td (push)\n\
            only\t\nonly\te (push)\nx y\tf (fetch)\nx y\tf (push)\n";
        let remote = |name: &str, fetch: &str, push: &str| {
            let (fetch, push) = (fetch.to_owned(), push.to_owned());
            (name.to_owned(), Remote { fetch, push })
        };
        let expected = [remote("origin", "a b", "c"), remote("only", "e", "e")];
        assert_eq!(parsed(listed), expected.into());
    }

    /// A reset URL, a push URL of its own, an alias that looks like a path.
    #[test]
    fn addresses_are_those_that_git_uses() {
        let rig = Rigged::new();
        let set = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        let routes = [
            set("remote.origin.url", "forgotten"),
            set("remote.origin.url", ""),
            set("remote.origin.url", "work/x"),
            set("remote.up.url", "../up.git"),
            set("remote.only.pushurl", "https://h/only"),
            set("remote.home.url", "~/x.git"),
            set("remote.another.url", "~another/x.git"),
            set("url.https://token@h/.insteadof", "work/"),
            set("url.ssh://h/.pushinsteadof", "work/"),
        ];
        let found = of(&rig.repo, &routes.into(), Path::new("/nowhere/checkout")).unwrap();
        let address = |name: &str, [written, fetch, push]: [&str; 3]| {
            let (written, fetch, push) = (written.to_owned(), fetch.to_owned(), push.to_owned());
            let address = Address {
                written,
                fetch,
                push,
            };
            (name.to_owned(), address)
        };
        let up = "/nowhere/checkout/../up.git";
        let home = format!("{}/x.git", std::env::var("HOME").unwrap());
        let expected = [
            address("origin", ["work/x", "https://token@h/x", "ssh://h/x"]),
            address("up", [up; 3]),
            address("only", ["https://h/only"; 3]),
            address("home", [&home; 3]),
            address("another", ["~another/x.git"; 3]),
        ];
        assert_eq!(found, expected.into());
    }
}
