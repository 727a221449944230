//! The program of holders and keepers: `horde-session`, which is installed beside the supervisor and links only what it needs.

use std::fs::File;
use std::os::fd::IntoRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::PROGRAM;

/// Returns a path of this program that can be executed as long as this process lives, even if an upgrade has replaced or
/// removed its file: a holder of another version may not understand its arguments. Returns this very program, which can do
/// the same, where the other one is missing or of another version.
#[must_use]
pub fn program(own: &Path) -> PathBuf {
    let own_image = format!("/proc/{}/exe", std::process::id());
    let beside = own.with_file_name(PROGRAM);
    let Ok(file) = File::open(&beside) else {
        tracing::debug!(program = %beside.display(), "the program for sessions is not installed; the supervisor's own program holds them");
        return own_image.into();
    };
    // Stays open: it is the program, whatever becomes of its name.
    let path = PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        file.into_raw_fd()
    ));
    let version = Command::new(&path)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let expected = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    let is_ours = |said: &[u8]| String::from_utf8_lossy(said).trim() == expected;
    if version.is_ok_and(|said| is_ours(&said.stdout)) {
        return path;
    }
    tracing::warn!(program = %beside.display(), expected, "the program for sessions is of another version or does not run; the supervisor's own program holds the sessions");
    own_image.into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn supervisor_holds_sessions_where_the_program_for_them_is_missing_or_of_another_version() {
        let dir = crate::testing::scratch();
        let own = dir.path().join("horde-supervisor");
        let image = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
        assert_eq!(program(&own), image);
        let beside = dir.path().join(PROGRAM);
        let install = |version: &str| {
            // A file that is open for writing cannot be executed, and a process that is being started has it open, too.
            let text = format!("#!/bin/sh\necho {PROGRAM} {version}\n");
            let new = crate::testing::scratch();
            let file = new.path().join("x");
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            let copied = Command::new("cp").arg("-p").args([&file, &beside]).status();
            assert!(copied.unwrap().success());
        };
        install("0.0.0");
        assert_eq!(program(&own), image);
        install(env!("CARGO_PKG_VERSION"));
        let found = program(&own);
        fs::remove_file(&beside).unwrap();
        assert_ne!(found, image);
        let said = Command::new(found).output().unwrap().stdout;
        assert!(
            String::from_utf8_lossy(&said).contains(PROGRAM),
            "it is gone by name only"
        );
    }
}
