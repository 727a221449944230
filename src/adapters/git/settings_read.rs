//! Reads the settings that apply in the rig's checkout: its own, and those of its user and of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::Git;
use super::config_text::{Setting, Settings, by_scope};
use crate::ports::repo::RepoError;

/// The limit for reading settings, in which a pipe in the place of a file is never read to its end.
const READ_LIMIT: Duration = Duration::from_secs(15);

/// The place of the rig's checkout, and what git says about its repository.
#[derive(Debug, Clone)]
pub(super) struct Top {
    /// Its top level, or the bare repository itself.
    pub(super) dir: PathBuf,
    /// The git directory that its worktrees share.
    pub(super) git_dir: PathBuf,
    /// The object format: `sha1` or `sha256`.
    pub(super) format: String,
    /// Set if its history is cut off.
    pub(super) is_shallow: bool,
}

/// The rig's checkout.
#[derive(Debug, Clone)]
pub(super) struct Checkout {
    pub(super) top: Top,
    /// Its own settings, and those that its user has for it alone, in the order in which git reads them.
    pub(super) config: Settings,
    /// The settings of the user and of the machine for all repositories.
    pub(super) user: Settings,
}

impl Checkout {
    /// Reads the settings. The user may have some for this checkout alone (`includeIf`), and a remote of any repository.
    ///
    /// # Errors
    /// git's, where a configuration cannot be read.
    pub(super) fn read(top: Top) -> Result<Self, RepoError> {
        let user = of_user()?;
        let listed = by_scope(&list(&top.dir).run()?.stdout);
        let (config, user) = told_apart(user, &listed);
        Ok(Self { top, config, user })
    }

    /// The first value of a key; of URLs, the first after an empty one, with which git forgets those before it.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let values = self.config.iter().filter(|(name, _)| name == key);
        let values: Vec<_> = values.map(|(_, value)| value.as_deref()).collect();
        let is_url = key.ends_with("url");
        let reset = values
            .iter()
            .rposition(|value| is_url && value.is_none_or(str::is_empty));
        *values.get(reset.map_or(0, |reset| reset + 1))?
    }

    /// Returns true if a `url.<base>.insteadOf` rewrites the URL.
    fn is_alias(&self, url: &str) -> bool {
        self.config.iter().any(|(key, value)| {
            let key = key.to_ascii_lowercase();
            let rewrites = key.ends_with(".insteadof") || key.ends_with(".pushinsteadof");
            let prefix = value.as_deref().unwrap_or_default();
            key.starts_with("url.") && rewrites && !prefix.is_empty() && url.starts_with(prefix)
        })
    }

    /// Returns the URL in a form that is valid outside of the checkout: a relative path is resolved.
    pub(super) fn resolve(&self, url: &str) -> String {
        let colon = url.find(':').unwrap_or(usize::MAX);
        let slash = url.find('/').unwrap_or(usize::MAX);
        let path = colon > slash || colon == usize::MAX;
        if !path || url.starts_with('/') || self.is_alias(url) {
            return url.to_owned();
        }
        let joined = self.top.dir.join(url);
        fs::canonicalize(&joined)
            .unwrap_or(joined)
            .display()
            .to_string()
    }
}

/// Returns the settings of the checkout, and those of its user without them: `user` are those that hold everywhere, `listed` all
/// that git reads in the checkout, by scope. A key has all its values here or there: one may reset those before it, and the last
/// of several may count.
fn told_apart(mut user: Settings, listed: &[(String, Setting)]) -> (Settings, Settings) {
    let of = |scopes: [&str; 2]| -> Settings {
        let of_scopes = listed.iter().filter(|it| scopes.contains(&&*it.0));
        of_scopes.map(|it| it.1.clone()).collect()
    };
    let (user_here, local) = (of(["system", "global"]), of(["local", "worktree"]));
    let differs = |key: &str| {
        let here = user_here.iter().filter(|it| it.0 == key);
        !here.eq(user.iter().filter(|it| it.0 == key))
    };
    let mut config = user_here.clone();
    config.retain(|(key, _)| key.starts_with("remote.") || is_told(key) && differs(key));
    user.retain(|(key, _)| config.iter().all(|it| it.0 != *key));
    config.extend(local);
    (config, user)
}

/// Returns true for a setting that the user may have for the checkout alone: where a URL leads, and in whose name commits are
/// made. Credentials and headers are not among them, because sandboxes get these settings, too. Nor is signing, which may ask for
/// a passphrase: a key of the checkout alone would meet the format of all repositories.
fn is_told(key: &str) -> bool {
    const SECTIONS: [&str; 3] = ["url", "author", "committer"];
    const KEYS: [&str; 4] = [
        "core.sshcommand",
        "user.name",
        "user.email",
        "user.useconfigonly",
    ];
    let section = key.split('.').next().unwrap_or_default();
    SECTIONS.contains(&section) || KEYS.contains(&key)
}

/// Reads the settings of the user and of the machine that hold in all repositories.
///
/// # Errors
/// git's, where a file cannot be read: its settings would count as those for the checkout alone.
pub(super) fn of_user() -> Result<Settings, RepoError> {
    let listed = list(Path::new("/")).run()?.stdout;
    let mut all = by_scope(&listed);
    all.retain(|(scope, _)| ["system", "global"].contains(&scope.as_str()));
    Ok(all.into_iter().map(|it| it.1).collect())
}

fn list(dir: &Path) -> Git {
    let git = Git::in_dir(dir).as_user().limit(READ_LIMIT);
    git.args(["config", "--includes", "--list", "--show-scope", "-z"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(all: &[(&str, &str)]) -> Settings {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), Some((*value).to_owned()));
        all.iter().map(owned).collect()
    }

    fn told(user: &[(&str, &str)], here: &[(&str, &str)], own: &[(&str, &str)]) -> [Settings; 2] {
        let of = |scope: &str, all| -> Vec<_> {
            let all = settings(all).into_iter();
            all.map(|it| (scope.to_owned(), it)).collect()
        };
        let listed = [of("global", here), of("local", own)].concat();
        let (config, user) = told_apart(settings(user), &listed);
        [config, user]
    }

    /// The address of the file that is included came before the one that git uses.
    #[test]
    fn settings_for_the_checkout_alone_have_the_order_that_git_reads_them_in() {
        let (home, work) = (("user.email", "a@home"), ("user.email", "a@work"));
        let own = [("user.name", "A")];
        let alone = |here: &[(&str, &str)]| told(&[home], here, &own);
        let both = settings(&[work, home, own[0]]);
        assert_eq!(alone(&[work, home]), [both, settings(&[])]);
        assert_eq!(alone(&[home]), [settings(&own), settings(&[home])]);
        // One that sets back what the machine has.
        let (machine, user) = (("user.name", "A"), ("user.name", "B"));
        let here = [machine, user, machine];
        let found = told(&[machine, user], &here, &[]);
        assert_eq!(found, [settings(&here), settings(&[])]);
    }

    /// git push goes to the first one after it.
    #[test]
    fn url_that_is_empty_resets_those_before_it() {
        let url = |url: &'static str| ("remote.origin.url", url);
        for (urls, first) in [
            (vec![url("a"), url("b")], Some("a")),
            (vec![url("a"), url(""), url("b"), url("c")], Some("b")),
            (vec![url("a"), url("")], None),
            (vec![], None),
        ] {
            let checkout = Checkout {
                top: Top {
                    dir: "/".into(),
                    git_dir: "/".into(),
                    format: String::new(),
                    is_shallow: false,
                },
                config: settings(&urls),
                user: Settings::new(),
            };
            assert_eq!(checkout.get("remote.origin.url"), first, "{urls:?}");
        }
    }

    /// Sandboxes get what the checkout has.
    #[test]
    fn credentials_headers_and_signing_for_the_checkout_alone_are_left_out_and_every_remote_counts()
    {
        let (helper, remote) = (("credential.helper", ""), ("remote.origin.url", "x"));
        let secret = [
            ("credential.helper", "work"),
            ("http.extraheader", "Authorization: x"),
            ("commit.gpgsign", "true"),
            // With the format of all repositories, no commit could be signed with it.
            ("user.signingkey", "work"),
        ];
        let here = [&[helper, remote], &secret[..]].concat();
        let found = told(&[helper, remote], &here, &[]);
        assert_eq!(found, [settings(&[remote]), settings(&[helper])]);
    }
}
