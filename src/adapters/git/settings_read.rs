//! Reads the settings that apply in the rig's checkout: its own, and those of its user and of the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::command::{Git, READ_LIMIT};
use super::config_text::{self, Listed, Settings};
use super::include_files::{Included, LIMIT, followed};
use super::written::Written;
use crate::ports::repo::RepoError;

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
    /// All settings that decide the addresses of remotes, in the order in which git reads them.
    pub(super) routes: Settings,
    /// The settings that are left out, because agents write their files: only the sandboxes get these.
    pub(super) left_out: Vec<Listed>,
    /// As `routes`, with those that are left out: git in the checkout has these.
    pub(super) routes_of_git: Settings,
}

impl Checkout {
    /// Reads the settings. The user may have some for this checkout alone (`includeIf`), and a remote of any repository. Settings in
    /// files that agents write are left out, but for those that the user has for all repositories.
    ///
    /// # Errors
    /// git's, where a configuration cannot be read.
    pub(super) fn read(top: Top, rig_dir: &Path) -> Result<Self, RepoError> {
        let user = everywhere()?;
        let here = listed(&top.dir)?;
        let routes_of_git = routes(&here);
        let (left_out, here) = told_by_file(here, &user, &Written::of(rig_dir));
        let user = user.into_iter().map(|it| it.setting).collect();
        let (config, user) = told_apart(user, &here);
        Ok(Self {
            top,
            config,
            user,
            routes: routes(&here),
            left_out,
            routes_of_git,
        })
    }

    /// Returns true if a key has a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.config.iter().any(|(name, _)| name == key)
    }
}

/// Returns the settings in files that agents write, but for those that hold everywhere; and the others.
fn told_by_file(
    listed: Vec<Listed>,
    everywhere: &[Listed],
    written: &Written,
) -> (Vec<Listed>, Vec<Listed>) {
    let is_left_out = |it: &Listed| written.has(&it.file) && !everywhere.contains(it);
    listed.into_iter().partition(is_left_out)
}

fn routes(listed: &[Listed]) -> Settings {
    let settings = listed.iter().map(|it| it.setting.clone());
    settings.filter(|(key, _)| is_route(key)).collect()
}

/// Returns true for a setting that decides the address of a remote.
pub(super) fn is_route(key: &str) -> bool {
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

/// Returns the files of the user's settings, whether they are there or not.
pub(super) fn of_user_files() -> Vec<PathBuf> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(file) = var("GIT_CONFIG_GLOBAL") {
        return vec![file];
    }
    let home = var("HOME");
    let xdg = var("XDG_CONFIG_HOME").filter(|dir| !dir.as_os_str().is_empty());
    let xdg = xdg.or_else(|| Some(home.as_ref()?.join(".config")));
    let of_home = home.map(|home| home.join(".gitconfig"));
    let of_xdg = xdg.map(|dir| dir.join("git/config"));
    of_xdg.into_iter().chain(of_home).collect()
}

/// The settings of the machine and of the user for commands in our repository that talk to a remote. The conditions of both are
/// judged there.
pub(super) struct AtRemote {
    pub(super) machine: Settings,
    /// Set if the user's settings must not be read as they are at that time: they include a file that agents write, or would
    /// under another condition.
    pub(super) user: Option<Settings>,
}

impl AtRemote {
    /// Reads them in our repository, whose own configuration is written already, for the rig with this checkout.
    ///
    /// # Errors
    /// git's, where a file cannot be read.
    pub(super) fn read(
        ours: &Path,
        rig_dir: &Path,
        checkout: Option<&Path>,
    ) -> Result<Self, RepoError> {
        let (written, user) = (Written::of(rig_dir), everywhere()?);
        let (left_out, kept) = told_by_file(listed(ours)?, &user, &written);
        let of_user = |it: &&Listed| it.scope == "global";
        let read = user.iter().chain(&kept).filter(of_user);
        let files = read.map(|it| it.file.clone()).chain(of_user_files());
        let files: BTreeSet<PathBuf> = files.collect();
        let holds_everywhere = |file: &Path| user.iter().any(|it| it.file == file);
        let is_agents = |it: &Included| {
            !holds_everywhere(&it.file) && (it.is_unknown || written.has_any(&it.places))
        };
        let followed = followed(files, checkout, Instant::now() + LIMIT)?;
        let is_used = left_out.iter().any(|it| it.scope == "global")
            || followed.silent.is_some()
            || followed.files.iter().any(is_agents);
        // The settings of the files that they include are among them.
        let of = |scope: &str| {
            let kept = kept.iter().filter(|it| it.scope == scope);
            let kept = kept.map(|it| it.setting.clone());
            kept.filter(|it| !is_include(&it.0)).collect()
        };
        Ok(Self {
            machine: of("system"),
            user: is_used.then(|| of("global")),
        })
    }
}

fn is_include(key: &str) -> bool {
    key.starts_with("include.") || key.starts_with("includeif.")
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
    let git = Git::in_dir(dir).as_user().limit(READ_LIMIT);
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
