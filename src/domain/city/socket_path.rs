//! Names that the supervisor and `hd` both derive from a city's directory, to reach each other.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The longest path that a Unix socket can be bound to, in bytes.
pub const SOCKET_PATH_MAX: usize = 107;

/// Returns the control socket of the city at `root` (a canonical path): as configured, or else `.horde/control.sock`.
/// When that is too long for a socket, it is `horde/<hash>.sock` in the user's runtime directory, or `<hash>.sock` in
/// `/tmp/horde-<uid>`, with a hash of the city's path. The daemon and `hd` agree because both call this function.
#[must_use]
pub fn socket_path(
    root: &Path,
    configured: &Path,
    runtime_dir: Option<&Path>,
    uid: u32,
) -> PathBuf {
    let wanted = if configured.as_os_str().is_empty() {
        root.join(".horde/control.sock")
    } else {
        root.join(configured)
    };
    let fits = |path: &Path| path.as_os_str().len() <= SOCKET_PATH_MAX;
    if fits(&wanted) {
        return wanted;
    }
    let name = format!("{}.sock", path_hash(root));
    runtime_dir
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("horde").join(&name))
        .filter(|path| fits(path))
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/horde-{uid}")).join(&name))
}

/// Returns the name of the tmux server of the city at `root` (a canonical path): as configured, or else a name that no
/// other city has.
#[must_use]
pub fn tmux_server(root: &Path, configured: &str) -> String {
    if configured.is_empty() {
        return format!("horde-{}", path_hash(root));
    }
    configured.to_owned()
}

/// Returns the name of a seat, an abstract socket by which the supervisor of this user holds a city. `key` is the
/// canonical path of the city, or its id.
#[must_use]
pub fn seat(key: &[u8], uid: u32) -> String {
    format!("horde-supervisor/{uid}/{}", hash(key))
}

fn path_hash(root: &Path) -> String {
    hash(root.as_os_str().as_encoded_bytes())
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest[..8].iter().map(|b| format!("{b:02x}")).collect()
}
