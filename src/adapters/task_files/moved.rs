//! Migrates task directories of a version whose paths lacked the slot: moves them to the current paths and adapts
//! their sandbox's links. A link stays at the old path, for programs that were told that path.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::text::at;
use crate::ports::tasks::TaskError;

/// Names of our links in a sandbox.
const LINKS: [&str; 4] = [
    "TASK.md",
    ".horde-task.md",
    ".horde-outcome",
    ".orange-outcome",
];

/// Moves the directory, and redirects the sandbox's links into the old one. Idempotent.
pub(super) fn adopt(old: &Path, dir: &Path, sandbox: &Path) -> Result<(), TaskError> {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    if old.symlink_metadata().is_ok_and(|meta| meta.is_dir()) && !is_there(dir) {
        fs::rename(old, dir).map_err(at(old))?;
        symlink(dir.file_name().unwrap_or_default(), old).map_err(at(old))?;
    }
    if is_there(dir) {
        for name in LINKS {
            turn(&sandbox.join(name), old, dir).map_err(at(sandbox))?;
        }
    }
    Ok(())
}

/// Redirects a link atomically, if it leads into the old directory.
fn turn(link: &Path, old: &Path, dir: &Path) -> io::Result<()> {
    let Ok(target) = fs::read_link(link) else {
        return Ok(());
    };
    let Ok(rest) = target.strip_prefix(old) else {
        return Ok(());
    };
    let made = tempfile::Builder::new()
        .prefix(".horde-")
        .make_in(link.parent().unwrap_or(Path::new(".")), |path| {
            symlink(dir.join(rest), path)
        })?;
    made.persist(link).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_the_slot_is_moved_and_every_path_to_it_leads_on() {
        let home = crate::testing::scratch();
        let (old, dir) = (home.path().join("gt-1/1"), home.path().join("gt-1/Toast-1"));
        let sandbox = home.path().join("Toast");
        fs::create_dir_all(&old).unwrap();
        fs::create_dir(&sandbox).unwrap();
        fs::write(old.join("outcome"), "").unwrap();
        symlink(old.join("outcome"), sandbox.join(".horde-outcome")).unwrap();
        symlink("/elsewhere", sandbox.join("TASK.md")).unwrap();
        let written = |text: &str| fs::write(sandbox.join(".horde-outcome"), text).unwrap();
        for _twice in 0..2 {
            adopt(&old, &dir, &sandbox).unwrap();
        }
        written("passed");
        let link = fs::read_link(sandbox.join(".horde-outcome")).unwrap();
        assert_eq!(link, dir.join("outcome"));
        assert_eq!(fs::read_to_string(dir.join("outcome")).unwrap(), "passed");
        assert_eq!(fs::read_to_string(old.join("outcome")).unwrap(), "passed");
        let other = fs::read_link(sandbox.join("TASK.md")).unwrap();
        assert_eq!(other, Path::new("/elsewhere"), "an agent's link is its own");
    }

    #[test]
    fn there_is_nothing_to_move_in_a_new_city() {
        let home = crate::testing::scratch();
        let (old, dir) = (home.path().join("1"), home.path().join("Toast-1"));
        fs::create_dir(&dir).unwrap();
        adopt(&old, &dir, home.path()).unwrap();
        assert!(old.symlink_metadata().is_err(), "no link is left");
    }
}
