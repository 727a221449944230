//! Takes settings over from the rig's checkout: remotes, identity, credentials, signing, filters, hooks.
//!
//! The configuration of ours is written whole, and contains nothing else. Theirs has the same settings in a file of
//! its own, `horde.config`, which its configuration includes: agents may write beside it.

use std::fs;
use std::path::{Path, PathBuf};

use super::addresses;
use super::admin::{At, read_if_there, remove_if_there, stamp, write_whole};
use super::bytes;
use super::command::Git;
use super::config_text::{Listed, Settings, render, shown_files};
use super::filters::{self, Places};
use super::origin::{is_same_place, why_elsewhere};
use super::prepare::{MOVING, READY};
use super::remotes::Remotes;
use super::rig::{GitRepo, locked};
use super::settings_read::{self, AtRemote, Checkout};
use super::written::Written;
use super::{checkouts, refusals, share, share_integrity};
use crate::adapters::beneath;
use crate::adapters::city_root;
use crate::domain::city::RigSource;
use crate::ports::repo::RepoError;

/// The key of the URL of `origin`.
pub(super) const ORIGIN: &str = "remote.origin.url";

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

/// Returns the file with the settings that were taken over from the user and the machine: commands of ours read it
/// instead of the originals.
pub(super) fn of_user_file(ours: &Path) -> PathBuf {
    ours.join("horde/user.config")
}

/// Returns the file that commands at a remote read instead of the machine's settings: it has the addresses that were taken over, and
/// those settings.
fn machine_file(ours: &Path) -> PathBuf {
    ours.join("horde/machine.config")
}

/// Returns the file that is read instead of the user's settings where it exists: they would include a file that agents write.
fn user_file(ours: &Path) -> PathBuf {
    ours.join("horde/user-at-remote.config")
}

/// Lets a command in ours read the user's present settings, with the addresses that were taken over, and without those that agents
/// write.
pub(super) fn as_user(git: Git, ours: &Path) -> Git {
    let git = git.as_user_with(machine_file(ours));
    let user = user_file(ours);
    match user.exists() {
        true => git.env("GIT_CONFIG_GLOBAL", user),
        false => git,
    }
}

/// Writes the settings of both repositories, and first the mark [`MOVING`] if `origin` changed.
pub(super) fn take_over(repo: &GitRepo, checkout: Option<&Checkout>) -> Result<(), RepoError> {
    let user = match checkout {
        Some(checkout) => checkout.user.clone(),
        None => settings_read::of_user()?,
    };
    let taken = match (repo.source(), checkout) {
        (RigSource::Remote(url), _) => remote_only(repo, url, &user)?,
        (RigSource::Path(path), Some(checkout)) => of_checkout(repo, path, checkout)?,
        (RigSource::Path(path), None) => {
            let what = format!("the checkout {}", path.display());
            return Err(RepoError::NotFound(what));
        }
    };
    let mut own = [taken.settings.clone(), taken.remotes.ours()].concat();
    let mut user: Settings = user.into_iter().filter(|it| is_of_user(&it.0)).collect();
    disarm(repo, &mut own, &mut user);
    let left_out = checkout.map_or(&[][..], |checkout| &checkout.left_out);
    tell_left_out(repo, left_out);
    let file = of_user_file(repo.repo_dir());
    let dir = file.parent().unwrap_or(repo.repo_dir());
    city_root::make_dirs(dir).at("cannot make", dir)?;
    let before = known_origin(repo)?;
    if before.is_some_and(|before| !is_same_place(&before, &taken.remotes.origin().push)) {
        write_whole(&repo.repo_dir().join(MOVING), b"")?;
        // Its refs are those of the former one.
        repo.set_unprepared("its new origin is being fetched".to_owned());
    }
    let pins = taken.remotes.pins();
    // Before the addresses that they hold for.
    let machine = machine_file(repo.repo_dir());
    let known = read_if_there(&machine)?.unwrap_or_default();
    let (first, known) = (render(&pins), bytes::lossy(&known));
    if !known.starts_with(&first) {
        refresh(&machine, &(first + &known))?;
    }
    refresh(&file, &render(&[pins.clone(), user].concat()))?;
    let text = ours(repo.object_format()?, &own);
    refresh(&repo.repo_dir().join("config"), &text)?;
    for_remotes(repo, pins)?;
    let given = [
        taken.settings,
        taken.remotes.theirs(),
        for_sandboxes(left_out),
    ];
    let given = render(&closed(given.concat()));
    refresh(&given_file(repo), &given)?;
    share::write(repo, FILE, given.as_bytes())?;
    checkouts::keep(repo)?;
    renew(repo)
}

/// Writes the settings of the machine and of the user for commands at a remote.
fn for_remotes(repo: &GitRepo, pins: Settings) -> Result<(), RepoError> {
    let ours = repo.repo_dir();
    let read = AtRemote::read(ours, repo.rig_dir(), repo.source().path())?;
    refresh(&machine_file(ours), &render(&[pins, read.machine].concat()))?;
    match read.user {
        Some(settings) => refresh(&user_file(ours), &render(&settings)),
        None => remove_if_there(&user_file(ours)),
    }
}

/// Removes the filters and merge drivers that may run an agent's file, and tells people of them.
fn disarm(repo: &GitRepo, own: &mut Settings, user: &mut Settings) {
    let written = Written::of(repo.rig_dir());
    let unused = filters::disarm(own, user, &Places::here(written.dirs().collect()));
    if !unused.is_empty() {
        tracing::warn!(rig = %repo.name(), filters = ?unused, "the supervisor does not use these filters and merge drivers: their commands may run files that agents can write (docs/guide/custody.md describes the accepted form)");
    }
}

fn tell_left_out(repo: &GitRepo, left_out: &[Listed]) {
    let files = shown_files(left_out);
    if !files.is_empty() {
        tracing::warn!(rig = %repo.name(), files, "the settings in these files are left out: git reads them in the checkout, and agents write them or change them with their work (docs/guide/custody.md)");
    }
}

/// The settings that are taken over from a checkout.
struct Taken {
    /// All but the remotes.
    settings: Settings,
    remotes: Remotes,
}

/// Returns the URL of `origin` before this; none before the first fetch.
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

/// Returns the only remote of a rig with a URL. The `url.*` settings of the user rewrite its address.
fn remote_only(repo: &GitRepo, url: &str, user: &Settings) -> Result<Taken, RepoError> {
    let routes = user.iter().filter(|(key, _)| key.starts_with("url."));
    let own = (ORIGIN.to_owned(), Some(url.to_owned()));
    let routes = routes.cloned().chain([own]).collect();
    let addresses = addresses::of(repo, &routes, Path::new("/"))?;
    Ok(Taken {
        settings: Settings::new(),
        remotes: Remotes::of(addresses, url, Vec::new()),
    })
}

/// Returns those of the settings that agents write which sandboxes get: what decides an address is not among them.
fn for_sandboxes(left_out: &[Listed]) -> Settings {
    let settings = left_out.iter().map(|it| it.setting.clone());
    let is_given = |key: &str| is_taken_over(key) && !settings_read::is_route(key);
    settings.filter(|it| is_given(&it.0)).collect()
}

fn is_taken_over(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    SECTIONS.contains(&section) || KEYS.contains(&key)
}

fn of_checkout(repo: &GitRepo, path: &Path, checkout: &Checkout) -> Result<Taken, RepoError> {
    let addresses = addresses::of(repo, &checkout.routes, &checkout.top.dir)?;
    if let Some(why) = why_elsewhere(repo, checkout, &addresses)? {
        if repo.is_prepared() {
            tracing::error!(rig = %repo.name(), why, "the rig is held: its work would go elsewhere than `git push` in its checkout");
        }
        // Also one that was prepared: its work would go where it went before.
        repo.set_unprepared(why.clone());
        return Err(RepoError::Failed(why));
    }
    let (mut settings, mut of_remotes) = (Settings::new(), Settings::new());
    for it in &checkout.config {
        if it.0.starts_with("remote.") {
            of_remotes.push(it.clone());
        } else if is_taken_over(&it.0) {
            settings.push(it.clone());
        }
    }
    if let Some(hooks) = hooks(checkout) {
        settings.push(("core.hookspath".to_owned(), Some(hooks)));
    }
    let remotes = Remotes::of(addresses, &path.display().to_string(), of_remotes);
    // The first fetch copies from the checkout, by either name.
    let copied_from = [checkout.top.dir.as_path(), path];
    let copied_from = copied_from.map(|dir| dir.display().to_string());
    Ok(Taken {
        settings,
        remotes: remotes.with_pins(copied_from),
    })
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
