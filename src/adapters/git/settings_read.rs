//! Reads the settings that apply in the rig's checkout: its own, and those of its user and of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::Git;
use super::config_text::{Settings, by_scope};
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
        let mut user = of_user()?;
        let listed = by_scope(&list(&top.dir).run()?.stdout);
        let of = |scopes: [&str; 2]| -> Settings {
            let of_scopes = listed.iter().filter(|it| scopes.contains(&&*it.0));
            of_scopes.map(|it| it.1.clone()).collect()
        };
        let (user_here, local) = (of(["system", "global"]), of(["local", "worktree"]));
        // A key has all its values here or there: one may reset those before it, and the last of several may count.
        let values = |settings: &Settings, key: &str| -> Vec<Option<String>> {
            let of_key = settings.iter().filter(|it| it.0 == key);
            of_key.map(|it| it.1.clone()).collect()
        };
        let is_for_checkout = |key: &str| {
            key.starts_with("remote.")
                || is_told(key) && values(&user, key) != values(&user_here, key)
        };
        let mut config = user_here.clone();
        config.retain(|(key, _)| is_for_checkout(key));
        user.retain(|(key, _)| !config.iter().any(|it| it.0 == *key));
        config.extend(local);
        Ok(Self { top, config, user })
    }

    /// The first value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.config.iter().find(|(name, _)| name == key)?;
        found.1.as_deref()
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

/// Returns true for a setting that the user may have for the checkout alone: where a URL leads, and in whose name commits are
/// made. Credentials and headers are not among them, because sandboxes get these settings, too. Nor is signing: it may ask for a
/// passphrase.
fn is_told(key: &str) -> bool {
    const SECTIONS: [&str; 4] = ["url", "user", "author", "committer"];
    let section = key.split('.').next().unwrap_or_default();
    SECTIONS.contains(&section) || key == "core.sshcommand"
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
