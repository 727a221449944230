//! Takes settings over from the rig's checkout: remotes, identity, credentials, signing, filters, hooks.
//!
//! The configuration of ours is written whole, and contains nothing else. Theirs has the same settings in a file of
//! its own, `horde.config`, which its configuration includes: agents may write beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::addresses::{self, Addresses};
use super::admin::{At, stamp, write_whole};
use super::bytes;
use super::command::Git;
use super::config_text::{Settings, render};
use super::filters::{self, Places};
use super::prepare::READY;
use super::rig::{GitRepo, PUSH_URL_KEY, locked};
use super::settings_read::{self, Checkout};
use super::{refusals, share, share_integrity};
use crate::adapters::beneath;
use crate::adapters::city_root;
use crate::domain::city::RigSource;
use crate::ports::repo::RepoError;

/// The key of the URL that is fetched from.
const ORIGIN: &str = "remote.origin.url";

/// The file that the configuration of theirs includes.
pub(super) const FILE: &str = "horde.config";

/// The largest configuration that is read.
const CONFIG_MAX: u64 = 1024 * 1024;

/// The settings of both repositories in addition to those of the checkout. git prunes nothing: salvage and its
/// retention decide what is removed, and salvage searches the reflogs of theirs for commits.
const FIXED: &[(&str, &str)] = &[
    ("core.bare", "true"),
    ("core.logAllRefUpdates", "true"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("gc.pruneExpire", "never"),
    ("gc.reflogExpire", "never"),
    ("gc.reflogExpireUnreachable", "never"),
    ("gc.worktreePruneExpire", "never"),
    ("push.default", "nothing"),
];

/// Keys of a checkout that concern only its own files, or commands that a person runs there.
const THEIRS_ONLY: &[&str] = &["core.symlinks", "core.filemode", "core.hookspath"];

/// Indexes of commits and packs that git does not read in the sandboxes: an agent can write one that stops git, or
/// that is false.
const THEIRS_UNREAD: &[&str] = &["core.commitgraph", "core.multipackindex"];

/// The push URL of every remote of theirs: sandboxes cannot push by accident.
pub(super) const NO_PUSH: &str =
    "/dev/null/sandboxes-do-not-push-the-supervisor-does-when-the-work-is-done";

/// Sections that are taken over whole.
const SECTIONS: &[&str] = &[
    "user",
    "author",
    "committer",
    "credential",
    "url",
    "gpg",
    "commit",
    "tag",
    "filter",
    "lfs",
    "http",
    "merge",
    "diff",
];

/// Single keys that are taken over.
const KEYS: &[&str] = &[
    "core.hookspath",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.attributesfile",
    "core.excludesfile",
    "core.sshcommand",
    "core.symlinks",
    "core.filemode",
];

/// Sections that are taken over from the configuration of the user and of the machine: those for writing and merging
/// files, and those that a filter needs to fetch files.
const USERS_SECTIONS: &[&str] = &["credential", "url", "filter", "lfs", "http", "merge"];

/// Single keys that are taken over from it.
const USERS_KEYS: &[&str] = &["core.autocrlf", "core.eol", "core.safecrlf"];

fn is_of_user(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    USERS_SECTIONS.contains(&section) || USERS_KEYS.contains(&key)
}

/// Keys of a remote that are taken over; its refspecs and addresses are ours.
const REMOTE_KEYS: &[&str] = &[
    "proxy",
    "proxyauthmethod",
    "tagopt",
    "uploadpack",
    "vcs",
    "lfsurl",
    "lfspushurl",
];

/// Returns the file with the settings that were taken over from the user and the machine: commands of ours read it
/// instead of the originals.
pub(super) fn of_user_file(ours: &Path) -> PathBuf {
    ours.join("horde/user.config")
}

/// Returns the file with the settings of commands that talk to a remote: it includes the user's, as they are now, and keeps the
/// addresses that were taken over.
pub(super) fn at_remote_file(ours: &Path) -> PathBuf {
    ours.join("horde/at-remote.config")
}

/// Tells people of files whose settings are left out.
fn tell_left_out(repo: &GitRepo, checkout: &Checkout) {
    for file in &checkout.left_out {
        repo.mended(format!(
            "the settings in {} are left out: git reads them in the checkout, and agents write this file or change it with their \
            work (docs/guide/custody.md)",
            file.display()
        ));
    }
}

/// Returns the addresses that git must use as they are.
fn finals(wanted: &Settings, checkout: &Checkout) -> Vec<String> {
    let is_address =
        |key: &str| key == PUSH_URL_KEY || key.starts_with("remote.") && key.ends_with(".url");
    let urls = wanted.iter().filter(|(key, _)| is_address(key));
    let urls = urls.filter_map(|(_, url)| url.clone());
    // The first fetch copies from there.
    let own = checkout.top.dir.display().to_string();
    let all: BTreeSet<String> = urls.chain([own]).collect();
    all.into_iter().collect()
}

/// Writes the settings of both repositories. Returns true if `origin` changed.
pub(super) fn take_over(repo: &GitRepo, checkout: Option<&Checkout>) -> Result<bool, RepoError> {
    let mut pinned = Settings::new();
    let wanted = match (repo.source(), checkout) {
        // git rewrites it by the settings of the user.
        (RigSource::Remote(url), _) => remote_only(url),
        (RigSource::Path(path), Some(checkout)) => {
            let addresses = addresses::of(repo, checkout)?;
            no_file_of_origin(checkout, &addresses)?;
            let wanted = of_checkout(path, checkout, &addresses);
            pinned = addresses::pins(&finals(&wanted, checkout));
            wanted
        }
        (RigSource::Path(path), None) => {
            let what = format!("the checkout {}", path.display());
            return Err(RepoError::NotFound(what));
        }
    };
    let before = known_origin(repo)?;
    let format = repo.object_format()?;
    let mut own = wanted.clone();
    let city = repo.theirs().ancestors().nth(2).unwrap_or(Path::new("/"));
    let theirs = [
        Some(city),
        checkout.map(|checkout| checkout.top.dir.as_path()),
    ];
    let places = Places::here(theirs.into_iter().flatten().collect());
    let mut user = match checkout {
        Some(checkout) => checkout.user.clone(),
        None => settings_read::of_user()?,
    };
    user.retain(|(key, _)| is_of_user(key));
    let unused = filters::disarm(&mut own, &mut user, &places);
    if !unused.is_empty() {
        tracing::warn!(rig = %repo.name(), filters = ?unused, "the supervisor does not use these filters and merge drivers: their commands may run files that agents can write (docs/guide/custody.md describes the accepted form)");
    }
    if let Some(checkout) = checkout {
        tell_left_out(repo, checkout);
    }
    let file = of_user_file(repo.repo_dir());
    let dir = file.parent().unwrap_or(repo.repo_dir());
    city_root::make_dirs(dir).at("cannot make", dir)?;
    let with_pins = |more| render(&[pinned.clone(), more].concat());
    refresh(&file, &with_pins(user))?;
    refresh(
        &at_remote_file(repo.repo_dir()),
        &with_pins(addresses::of_user_live()),
    )?;
    refresh(&repo.repo_dir().join("config"), &ours(format, &own))?;
    let more = checkout.map(|checkout| for_sandboxes(&checkout.left_out_settings));
    let given = [wanted.clone(), more.unwrap_or_default()].concat();
    let given = render(&closed(given));
    refresh(&given_file(repo), &given)?;
    share::write(repo, FILE, given.as_bytes())?;
    renew(repo)?;
    let origin = wanted.iter().find(|(key, _)| key == ORIGIN);
    let now = origin.and_then(|(_, value)| value.clone());
    Ok(before.is_some() && before != now)
}

/// Returns the URL that was fetched from; none before the first fetch.
fn known_origin(repo: &GitRepo) -> Result<Option<String>, RepoError> {
    if !repo.repo_dir().join(READY).exists() {
        return Ok(None);
    }
    if let Some(url) = repo.known().and_then(|known| known.setting(ORIGIN)) {
        return Ok(Some(url));
    }
    let git = repo.git().args(["config", "--get", ORIGIN]);
    Ok(Some(git.output()?.text()))
}

/// The file of ours with the settings that theirs was given.
fn given_file(repo: &GitRepo) -> PathBuf {
    repo.repo_dir().join("horde").join(FILE)
}

/// Gives theirs the settings again that it had.
pub(super) fn give_again(repo: &GitRepo) -> Result<(), RepoError> {
    let file = given_file(repo);
    let text = fs::read(&file).at("cannot read", &file)?;
    share::write(repo, FILE, &text)?;
    renew(repo)
}

/// Writes the configuration of theirs again if it is unusable.
fn renew(repo: &GitRepo) -> Result<(), RepoError> {
    let Some(why) = unusable(repo)? else {
        return Ok(());
    };
    if fs::symlink_metadata(repo.theirs().join("config")).is_ok() {
        // Agents share the configuration: if one breaks it, the others stop.
        tracing::warn!(
            rig = %repo.name(),
            why,
            "the shared configuration of the sandboxes is unusable; it is rewritten"
        );
    }
    share::write(repo, "config", given_base(repo)?.as_bytes())
}

/// Returns the text of the configuration of theirs as long as no agent has changed it.
fn given_base(repo: &GitRepo) -> Result<String, RepoError> {
    Ok(base(repo.object_format()?, &[("include.path", FILE)]))
}

/// Keeps git working in the sandboxes, although an agent can break the shared configuration for all. Reads the
/// configuration only if it changed since the last call. A failure is only logged: the next patrol tries again.
pub(super) fn keep(repo: &GitRepo) {
    share_integrity::heal(repo);
    let now = || stamp(&repo.theirs().join("config"));
    let mut seen = locked(&repo.state.config_seen);
    let is_known = |now: &Option<String>| now.is_some() && *now == *seen;
    let kept = match is_known(&now()) {
        true => Ok(()),
        false => renew(repo),
    };
    match kept.and_then(|()| share::lend_again(repo)) {
        Ok(()) => *seen = now(),
        Err(why) => {
            tracing::warn!(
                rig = %repo.name(),
                %why,
                "the shared configuration of the sandboxes could not be checked or repaired; the next \
                 patrol tries again"
            );
        }
    }
}

/// Returns the reason why the configuration of theirs is unusable: git cannot parse it or refuses it, or it does not
/// include our settings. Other includes are not followed, because an agent may name a pipe or an endless file there.
fn unusable(repo: &GitRepo) -> Result<Option<String>, RepoError> {
    let text = match beneath::read(repo.theirs(), Path::new("config"), CONFIG_MAX) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Some("it does not exist".to_owned())),
        Err(error) => return Ok(Some(error.to_string())),
    };
    if text == given_base(repo)?.as_bytes() {
        return Ok(None);
    }
    let list = Git::in_dir(Path::new("/"))
        .args(["config", "--file", "-", "--no-includes", "--list", "-z"])
        .stdin(text)
        .output()?;
    if !list.ok() {
        return Ok(Some(list.stderr.trim().to_owned()));
    }
    if let Some(why) = refusals::refused(&list.stdout, || {
        repo.object_format().ok().map(str::to_owned)
    }) {
        return Ok(Some(why));
    }
    let ours = format!("include.path\n{FILE}");
    let includes = bytes::split(&list.stdout).any(|record| record == ours.as_bytes());
    let why = "it does not include the settings of the rig";
    Ok((!includes).then(|| why.to_owned()))
}

fn refresh(file: &Path, text: &str) -> Result<(), RepoError> {
    if fs::read_to_string(file).ok().as_deref() == Some(text) {
        return Ok(());
    }
    write_whole(file, text.as_bytes())
}

/// Formats the whole configuration of ours.
fn ours(format: &str, wanted: &Settings) -> String {
    let mut settings = Settings::new();
    for (key, value) in wanted {
        match key.as_str() {
            key if THEIRS_ONLY.contains(&key) => {}
            key => settings.push((key.to_owned(), value.clone())),
        }
    }
    base(format, &[]) + &render(&settings)
}

fn base(format: &str, more: &[(&str, &str)]) -> String {
    let version = if format == "sha1" { "0" } else { "1" };
    let mut settings = vec![("core.repositoryformatversion", version)];
    if format != "sha1" {
        settings.push(("extensions.objectformat", format));
    }
    let all = settings.iter().chain(FIXED).chain(more);
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), Some((*value).to_owned()));
    render(&all.map(owned).collect())
}

/// Returns the settings of a repository that nothing is pushed from.
fn closed(mut wanted: Settings) -> Settings {
    let urls: Vec<String> = wanted
        .iter()
        .filter_map(|(key, _)| Some(key.strip_suffix(".url")?.to_owned()))
        .filter(|name| name.starts_with("remote."))
        .collect();
    for name in urls {
        wanted.push((format!("{name}.pushurl"), Some(NO_PUSH.to_owned())));
    }
    let unread = THEIRS_UNREAD.iter();
    wanted.extend(unread.map(|key| ((*key).to_owned(), Some("false".to_owned()))));
    wanted
}

fn remote(settings: &mut Settings, name: &str) {
    let refspec = format!("+refs/heads/*:refs/remotes/{name}/*");
    settings.push((format!("remote.{name}.fetch"), Some(refspec)));
}

fn remote_only(url: &str) -> Settings {
    let url = Some(url.to_owned());
    let mut settings = vec![
        (PUSH_URL_KEY.to_owned(), url.clone()),
        (ORIGIN.to_owned(), url),
    ];
    remote(&mut settings, "origin");
    settings
}

/// Refuses a checkout whose `origin` is in a file of its own, as git had it before it had it in the configuration, and still
/// reads it: work would land in the checkout and not there.
fn no_file_of_origin(checkout: &Checkout, addresses: &Addresses) -> Result<(), RepoError> {
    if addresses.contains_key("origin") {
        return Ok(());
    }
    let files = ["remotes", "branches"].map(|dir| checkout.top.git_dir.join(dir).join("origin"));
    match files.iter().find(|file| file.is_file()) {
        None => Ok(()),
        Some(file) => Err(RepoError::Failed(format!(
            "the remote origin of {} is in {}, which is not read: run `git remote rename origin origin` there, which moves it into \
             the configuration",
            checkout.top.dir.display(),
            file.display()
        ))),
    }
}

/// Returns those of the settings that agents write which sandboxes get: where a remote leads is not among them.
fn for_sandboxes(left_out: &Settings) -> Settings {
    let is_given = |key: &String| is_taken_over(key) && !key.starts_with("url.");
    let given = left_out.iter().filter(|(key, _)| is_given(key));
    given.cloned().collect()
}

fn is_taken_over(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    SECTIONS.contains(&section) || KEYS.contains(&key)
}

fn of_checkout(path: &Path, checkout: &Checkout, addresses: &Addresses) -> Settings {
    let mut settings = Settings::new();
    let url = |name: &str, url: &str| {
        let key = format!("remote.{name}.url");
        vec![(key, Some(url.to_owned()))]
    };
    let mut remotes: BTreeMap<&str, Settings> = BTreeMap::new();
    for (name, address) in addresses {
        remotes.insert(name, url(name, &address.fetch));
    }
    for (key, value) in &checkout.config {
        let (section, rest) = key.split_once('.').unwrap_or((key, ""));
        if section == "remote" {
            if let Some((name, key)) = rest.rsplit_once('.')
                && REMOTE_KEYS.contains(&key)
                && let Some(entry) = remotes.get_mut(name)
            {
                entry.push((format!("remote.{name}.{key}"), value.clone()));
            }
        } else if is_taken_over(key) {
            settings.push((key.clone(), value.clone()));
        }
    }
    if let Some(hooks) = hooks(checkout) {
        settings.push(("core.hookspath".to_owned(), Some(hooks)));
    }
    let own = path.display().to_string();
    let push = addresses.get("origin").map_or(&own, |origin| &origin.push);
    settings.push((PUSH_URL_KEY.to_owned(), Some(push.clone())));
    remotes
        .entry("origin")
        .or_insert_with(|| url("origin", &own));
    for (name, keys) in remotes {
        settings.extend(keys);
        remote(&mut settings, name);
    }
    settings
}

/// Returns the checkout's hooks directory, if it has hooks of its own and `core.hooksPath` does not say more.
fn hooks(checkout: &Checkout) -> Option<String> {
    if checkout.has("core.hookspath") {
        return None;
    }
    let dir = checkout.top.git_dir.join("hooks");
    let own = fs::read_dir(&dir)
        .ok()?
        .flatten()
        .any(|entry| !entry.file_name().to_string_lossy().ends_with(".sample"));
    own.then(|| dir.display().to_string())
}
