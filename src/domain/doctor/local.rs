//! What can be told without the supervisor: files, programs and repositories as `hd` sees them.

use std::path::{Path, PathBuf};

use super::{Finding, Kind};

/// The oldest git whose commands we rely on: `patch-id --verbatim` came with it.
pub const GIT_MIN: (u32, u32) = (2, 39);

/// Whether `git version` tells of one that is new enough, with or without a vendor's suffix.
///
/// # Errors
/// What is needed, and what it is.
pub fn git_version(text: &str) -> Result<(), String> {
    let number = text.strip_prefix("git version ").unwrap_or(text);
    let mut parts = number.split(['.', ' ', '-']).map(str::parse::<u32>);
    if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next())
        && (major, minor) >= GIT_MIN
    {
        return Ok(());
    }
    let (major, minor) = GIT_MIN;
    Err(format!(
        "git {major}.{minor} or newer is needed, and this is {number:?}"
    ))
}

/// The supervisor's git, where it is another than the one that `hd` finds. Both work; what one of them
/// writes the other may not understand, and what is tried by hand says little about the supervisor.
#[must_use]
pub fn other_git(own: &str, supervisors: &str) -> Option<Finding> {
    let number = |text: &str| text.trim().trim_start_matches("git version ").to_owned();
    let (own, theirs) = (number(own), number(supervisors));
    (own != theirs).then(|| {
        let says = format!("the supervisor uses git {theirs}, and `git` here is {own}");
        let hint = "start the supervisor with a PATH that has the git you use; `hd config systemd` makes a \
                    unit of yours";
        Finding::new(Kind::GitVersion, "the supervisor's git", says, hint)
    })
}

/// A file that is ours alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Private {
    /// Which.
    pub path: PathBuf,
    /// Its mode, without the type.
    pub mode: u32,
    /// What it must be.
    pub must: u32,
    /// Whether it belongs to whoever asks.
    pub own: bool,
}

/// A file that others may use, or that is not ours.
#[must_use]
pub fn permissions(file: &Private) -> Option<Finding> {
    let (path, mode, must) = (file.path.display(), file.mode, file.must);
    if !file.own {
        let hint = "a city belongs to one user: run its supervisor and `hd` as that one";
        let says = "it belongs to another user";
        return Some(Finding::new(Kind::Permissions, path, says, hint));
    }
    (mode != must).then(|| {
        let says = format!("its mode is {mode:04o} and must be {must:04o}");
        let hint = format!("`hd doctor --fix`, or chmod {must:04o} {path}");
        let finding = Finding::new(Kind::Permissions, path, says, hint);
        Finding {
            fixable: true,
            ..finding
        }
    })
}

/// What `hd` in the PATH is, when that is another program. Whoever says `horde` knows.
#[must_use]
pub fn shadowed(own: &Path, found: Option<&Path>) -> Option<Finding> {
    let found =
        found.filter(|found| Some(*found) != own.parent().map(|dir| dir.join("hd")).as_deref())?;
    let by_other_name = own.file_name().is_some_and(|name| name == "horde");
    if by_other_name || found == own {
        return None;
    }
    let says = format!(
        "`hd` is {} here, and not {}",
        found.display(),
        own.display()
    );
    let dir = own.parent().unwrap_or(Path::new("/"));
    let hint = format!("say `horde`, or put {} first in your PATH", dir.display());
    Some(Finding::new(Kind::ShadowedHd, "hd", says, hint))
}

/// What git says of a rig's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// It has only some of its history.
    pub shallow: bool,
    /// It has only some of its objects.
    pub partial: bool,
    /// There is an origin that has the rest.
    pub origin: bool,
}

/// A repository that cannot be copied. What an origin has is brought from there instead; reftable and
/// sha256 are fine, because git reads them and what we make ourselves keeps its refs in files.
#[must_use]
pub fn repository(rig: &str, path: &Path, seen: &Result<Repository, String>) -> Option<Finding> {
    let (says, hint) = match seen {
        Err(why) => (
            why.clone(),
            format!(
                "`path` of the rig must be the top of a git repository: {}",
                path.display()
            ),
        ),
        Ok(
            Repository { origin: true, .. }
            | Repository {
                shallow: false,
                partial: false,
                ..
            },
        ) => {
            return None;
        }
        Ok(repository) => {
            let (what, how) = match repository.shallow {
                true => ("shallow", "git fetch --unshallow"),
                false => ("partial", "git fetch --refetch --no-filter"),
            };
            let says = format!(
                "{} is a {what} clone without an origin to get the rest from",
                path.display()
            );
            (
                says,
                format!("name its remote `origin`, or complete it first: `{how} REMOTE`"),
            )
        }
    };
    Some(Finding::new(Kind::Repository, rig, says, hint))
}
