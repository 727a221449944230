//! Reads the settings that apply in the rig's checkout: its own, and those of its user and of the machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::Git;
use super::config_text::{self, Listed, Settings};
use crate::domain::plain_path::plain;
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
    /// All settings that decide where a remote leads, in the order in which git reads them.
    pub(super) routes: Settings,
    /// The files that agents write, whose settings are left out.
    pub(super) left_out: BTreeSet<PathBuf>,
    /// The settings in them: only the sandboxes get these.
    pub(super) left_out_settings: Settings,
}

impl Checkout {
    /// Reads the settings; `named` is the path of the rig. The user may have some for this checkout alone (`includeIf`), and a remote of any repository. Files that
    /// agents write are left out: those in the work tree, which their landed work changes, and those below the rig's directory.
    ///
    /// # Errors
    /// git's, where a configuration cannot be read.
    pub(super) fn read(top: Top, named: &Path, rig_dir: &Path) -> Result<Self, RepoError> {
        let written = Written::of(&top.dir, &top.git_dir, rig_dir);
        let mut user = everywhere()?;
        let mut here = listed_as(&top.dir, named)?;
        let mut left_out = Vec::new();
        user.retain(|it| !written.has(&it.file));
        here.retain(|it| {
            let is_kept = !written.has(&it.file);
            left_out.extend((!is_kept).then(|| it.clone()));
            is_kept
        });
        let user = user.into_iter().map(|it| it.setting).collect();
        let (config, user) = told_apart(user, &here);
        let routes = here.into_iter().map(|it| it.setting);
        let routes = routes.filter(|(key, _)| is_route(key)).collect();
        Ok(Self {
            top,
            config,
            user,
            routes,
            left_out: left_out.iter().map(|it| it.file.clone()).collect(),
            left_out_settings: left_out.into_iter().map(|it| it.setting).collect(),
        })
    }

    /// Returns true if a key has a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.config.iter().any(|(name, _)| name == key)
    }

    /// Returns a final URL in a form that is valid outside of the checkout: a relative path is resolved.
    pub(super) fn resolve(&self, url: &str) -> String {
        let colon = url.find(':').unwrap_or(usize::MAX);
        let slash = url.find('/').unwrap_or(usize::MAX);
        let path = colon > slash || colon == usize::MAX;
        if !path || url.starts_with('/') {
            return url.to_owned();
        }
        let joined = self.top.dir.join(url);
        fs::canonicalize(&joined)
            .unwrap_or(joined)
            .display()
            .to_string()
    }
}

/// The places of files that agents write: what they change in the work trees of the checkout lands, or is pulled by a person.
pub(super) struct Written {
    trees: Vec<PathBuf>,
    git_dirs: Vec<PathBuf>,
}

impl Written {
    /// `top` is the real path of the checkout.
    pub(super) fn of(top: &Path, git_dir: &Path, rig_dir: &Path) -> Self {
        let git_dir = real(git_dir);
        let mut written = Self::in_rig(rig_dir);
        written.trees.push(top.to_owned());
        // The checkout may be a linked worktree.
        if git_dir.ends_with(".git") {
            written.trees.extend(git_dir.parent().map(Path::to_owned));
        }
        written.git_dirs = vec![git_dir, top.join(".git")];
        written
    }

    /// Without a checkout.
    pub(super) fn in_rig(rig_dir: &Path) -> Self {
        Self {
            trees: vec![rig_dir.to_owned(), real(rig_dir)],
            git_dirs: Vec::new(),
        }
    }

    /// Returns true for a file that agents write, for one that a link there leads to, and for one that would be there.
    pub(super) fn has(&self, file: &Path) -> bool {
        let is_below = |dirs: &[PathBuf], file: &Path| dirs.iter().any(|dir| file.starts_with(dir));
        let mut names = [plain(file), real(file)].into_iter();
        names.any(|file| is_below(&self.trees, &file) && !is_below(&self.git_dirs, &file))
    }
}

/// Follows the links of a path, of its parent where it does not exist itself.
pub(super) fn real(path: &Path) -> PathBuf {
    let through_parent = || {
        let parent = path.parent()?.canonicalize().ok()?;
        Some(parent.join(path.file_name()?))
    };
    let real = path.canonicalize().ok().or_else(through_parent);
    real.unwrap_or_else(|| plain(path))
}

fn is_route(key: &str) -> bool {
    let of_remote =
        key.starts_with("remote.") && (key.ends_with(".url") || key.ends_with(".pushurl"));
    of_remote || key.starts_with("url.")
}

/// Returns the settings of the checkout, and those of its user without them: `user` are those that hold everywhere, `listed` all
/// that git reads in the checkout, by scope. A key has all its values here or there: one may reset those before it, and the last
/// of several may count.
fn told_apart(mut user: Settings, listed: &[Listed]) -> (Settings, Settings) {
    let of = |scopes: [&str; 2]| -> Settings {
        let of_scopes = listed.iter().filter(|it| scopes.contains(&&*it.scope));
        of_scopes.map(|it| it.setting.clone()).collect()
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
    Ok(everywhere()?.into_iter().map(|it| it.setting).collect())
}

fn everywhere() -> Result<Vec<Listed>, RepoError> {
    let mut all = listed(Path::new("/"))?;
    all.retain(|it| ["system", "global"].contains(&it.scope.as_str()));
    Ok(all)
}

/// Reads all settings that git reads in a directory.
///
/// # Errors
/// git's, where a file cannot be read.
pub(super) fn listed(dir: &Path) -> Result<Vec<Listed>, RepoError> {
    listed_as(dir, dir)
}

/// As [`listed`], for a directory with another name: `includeIf` compares it, too, as in a shell of a person there.
fn listed_as(dir: &Path, named: &Path) -> Result<Vec<Listed>, RepoError> {
    let git = Git::in_dir(dir).as_user().limit(READ_LIMIT);
    let git = git.env("PWD", named);
    let git = git.args(["config", "--includes", "--list", "--show-scope"]);
    let text = git.args(["--show-origin", "-z"]).run()?.stdout;
    Ok(config_text::with_files(&text, dir))
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
            let listed = |setting| Listed {
                scope: scope.to_owned(),
                file: PathBuf::new(),
                setting,
            };
            all.map(listed).collect()
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
