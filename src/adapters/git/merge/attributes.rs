//! Attributes that choose how a file's contents are merged (`merge=union`, custom drivers,
//! `binary`): where one may apply, `git` merges.

use std::path::{Path, PathBuf};

/// Whether an attributes file could set the `merge` attribute of any path: by its name, by
/// `binary`, or by a macro.
pub(super) fn may_drive_merges(content: &[u8]) -> bool {
    [&b"merge"[..], b"binary", b"[attr]"]
        .iter()
        .any(|word| content.windows(word.len()).any(|window| window == *word))
}

/// Whether an attributes file outside of the trees could: the repository's, the user's, the
/// system's.
pub(super) fn outside_may_drive_merges(git_dir: &Path, config: &git2::Config) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let users = match config.get_path("core.attributesfile") {
        Ok(path) => Some(path),
        Err(_) => std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| home.map(|home| home.join(".config")))
            .map(|dir| dir.join("git/attributes")),
    };
    [
        Some(git_dir.join("info/attributes")),
        users,
        Some(PathBuf::from("/etc/gitattributes")),
    ]
    .into_iter()
    .flatten()
    .any(|path| match std::fs::read(path) {
        Ok(content) => may_drive_merges(&content),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    })
}

/// Whether settings change every merge: a default driver, or contents normalised before merging.
pub(super) fn settings_drive_merges(config: &git2::Config) -> bool {
    config.get_string("merge.default").is_ok()
        || config.get_bool("merge.renormalize").unwrap_or(false)
}
