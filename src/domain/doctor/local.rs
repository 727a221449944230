//! Checks that need no supervisor: files, programs and repositories as `hd` sees them.

use std::path::{Path, PathBuf};

use super::{Finding, Kind};

/// The oldest supported git: `patch-id --verbatim` came with it.
pub const GIT_MIN: (u32, u32) = (2, 39);

/// Checks that the output of `git version` names a supported version, with or without a vendor's suffix.
///
/// # Errors
/// The required version, and the present one.
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

/// Finds a supervisor's git that differs from the one that `hd` finds. Both work; but either may fail to read what the
/// other wrote, and a test by hand says little about the supervisor.
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

/// A file that must be private to the city's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Private {
    /// Its path.
    pub path: PathBuf,
    /// Its mode, without the type.
    pub mode: u32,
    /// Its required mode.
    pub must: u32,
    /// Set when it belongs to the calling user.
    pub own: bool,
}

/// Finds a file that others may use, or that belongs to another user.
#[must_use]
pub fn permissions(file: &Private) -> Option<Finding> {
    let (path, mode, must) = (file.path.display(), file.mode, file.must);
    if !file.own {
        let hint = "a city belongs to one user: run its supervisor and `hd` as that user";
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

/// Finds another program named `hd` in the PATH. A caller that used the name `horde` knows of it.
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
    let hint = format!("use `horde`, or put {} first in your PATH", dir.display());
    Some(Finding::new(Kind::ShadowedHd, "hd", says, hint))
}

/// The git state of a rig's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Set when it has only a part of its history.
    pub shallow: bool,
    /// Set when it has only a part of its objects.
    pub partial: bool,
    /// Set when it has an origin with the rest.
    pub origin: bool,
}

/// Finds a repository that cannot be copied. With an origin, missing objects are fetched from there; reftable and
/// sha256 are fine, because git reads them and the supervisor's own repository keeps its refs in files.
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
                "{} is a {what} clone without an origin to fetch the rest from",
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
