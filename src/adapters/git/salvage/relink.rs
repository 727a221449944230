//! Adapts the paths of submodules. A submodule has two directories that name each other by path. In a restored
//! worktree both are elsewhere, so these two lines are the only ones that are changed, after all bytes were verified.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::admin::{At, write_whole};
use super::super::bytes;
use super::super::command::Git;
use super::super::files::walk::Kind;
use super::manifest::{Line, Manifest};
use crate::domain::plain_path::plain;
use crate::ports::repo::RepoError;

/// Points links into the old administrative directory to the new one, and the configurations of those submodules to
/// their files. `to` is the path where the worktree is built, `home` its final path.
pub(super) fn relink(
    manifest: &Manifest,
    (to, home): (&Path, &Path),
    admin: &Path,
    work: &[Line],
    state: &[Line],
) -> Result<(), RepoError> {
    let mut linked: Vec<(PathBuf, PathBuf)> = Vec::new();
    for line in work.iter().filter(|line| is_link(line)) {
        let file = to.join(bytes::path(&line.path));
        let text = fs::read(&file).at("cannot read", &file)?;
        let Some(target) = text.strip_prefix(b"gitdir: ") else {
            continue;
        };
        let dir = bytes::path(&line.path).parent().unwrap_or(Path::new(""));
        let old = Path::new(&manifest.sandbox).join(dir);
        let led = plain(&old.join(bytes::path(target.trim_ascii_end())));
        let below = led.strip_prefix(plain(Path::new(&manifest.admin)));
        // A copy of the sandbox's own link is a file like any other.
        if let Ok(below) = below
            && below.starts_with("modules")
        {
            let new = admin.join(below);
            write_whole(&file, &[b"gitdir: ", bytes::of(&new), b"\n"].concat())?;
            linked.push((new, home.join(dir)));
        }
    }
    for line in state {
        let Some(dir) = line.path.strip_suffix(b"/config") else {
            continue;
        };
        if !dir.starts_with(b"modules/") {
            continue;
        }
        let dir = admin.join(bytes::path(dir));
        // Run where git finds no repository: that of the work tree is theirs.
        let config = Git::in_dir(Path::new("/")).args(["config", "--file"]);
        let config = config.arg(dir.join("config"));
        match linked.iter().find(|(new, _)| *new == dir) {
            Some((_, files)) => {
                config.arg("core.worktree").arg(files).run()?;
            }
            // git would otherwise enter the former directory of its files.
            None => drop(config.args(["--unset", "core.worktree"]).output()?),
        }
    }
    Ok(())
}

fn is_link(line: &Line) -> bool {
    line.kind == Kind::File && (line.path.ends_with(b"/.git"))
}
