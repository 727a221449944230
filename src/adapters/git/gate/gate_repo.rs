//! The repository that a gate sees: a copy of the relevant parts of the supervisor's, which the gate may change. It
//! is made anew for each run, so that it contains nothing of an earlier gate, and borrows objects.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::failed;
use super::worktree::remove_all;
use crate::adapters::city_root;
use crate::adapters::git::admin::{At, entries_in, remove_if_there, write_whole};
use crate::adapters::git::bytes;
use crate::adapters::git::config_text::{listed, render};
use crate::adapters::git::remotes::AS_WRITTEN;
use crate::adapters::git::rig::GitRepo;
use crate::adapters::git::settings::NO_PUSH;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The directory that stays: a gate that uses submodules need not clone them each time.
const KEPT: &str = "modules";

/// Sections of the supervisor's settings that a gate's git uses. None of them is a remote.
const SECTIONS: &[&str] = &["user", "filter", "lfs", "diff", "url", "extensions"];
/// The URL that a gate may fetch from.
const ORIGIN: &str = "remote.origin.url";
const KEYS: &[&str] = &["core.autocrlf", "core.eol", "core.safecrlf", ORIGIN];

/// Files that are copied from the supervisor's repository.
const COPIED: &[&str] = &["shallow", "info/exclude", "info/attributes"];

/// Makes the repository of the work tree, with the commit checked out.
pub(super) fn make(
    repo: &GitRepo,
    tree: &Path,
    index: &Path,
    commit: &Oid,
) -> Result<(), RepoError> {
    let git = tree.join(".git");
    clear(&git)?;
    for dir in ["objects/info", "objects/pack", "refs/heads", "info"] {
        let dir = git.join(dir);
        city_root::make_dirs(&dir).map_err(|error| failed(&dir.display().to_string(), &error))?;
    }
    let objects = repo.repo_dir().join("objects");
    write_whole(
        &git.join("objects/info/alternates"),
        &[bytes::of(&objects), b"\n"].concat(),
    )?;
    write_whole(&git.join("packed-refs"), refs(repo)?.as_bytes())?;
    write_whole(&git.join("config"), config(repo)?.as_bytes())?;
    for name in COPIED {
        copy(&repo.repo_dir().join(name), &git.join(name))?;
    }
    copy(index, &git.join("index"))?;
    write_whole(&git.join("HEAD"), format!("{commit}\n").as_bytes())
}

/// Removes the parts that an earlier gate may have changed.
fn clear(git: &Path) -> Result<(), RepoError> {
    match fs::symlink_metadata(git) {
        Ok(found) if !found.is_dir() => remove_if_there(git)?,
        _ => {}
    }
    for entry in entries_in(git)? {
        if entry.file_name() == KEPT {
            continue;
        }
        match entry.file_type().at("cannot read", git)?.is_dir() {
            true => remove_all(&entry.path()),
            false => remove_if_there(&entry.path())?,
        }
    }
    Ok(())
}

/// Returns the refs that gates ask for: tags and remote-tracking refs.
fn refs(repo: &GitRepo) -> Result<String, RepoError> {
    let list = repo
        .git()
        .args(["for-each-ref", "--format=%(objectname) %(refname)"])
        .args(["refs/remotes", "refs/tags"])
        .run()?;
    let mut text = "# pack-refs with: sorted \n".to_owned();
    text.extend(list.text().lines().flat_map(|line| [line, "\n"]));
    Ok(text)
}

fn config(repo: &GitRepo) -> Result<String, RepoError> {
    let list = repo
        .git()
        .args(["config", "--local", "--includes", "--list", "-z"]);
    let mut settings = vec![
        ("core.bare".to_owned(), Some("false".to_owned())),
        ("core.logallrefupdates".to_owned(), Some("true".to_owned())),
        ("remote.origin.pushurl".to_owned(), Some(NO_PUSH.to_owned())),
    ];
    let all = listed(&list.run()?.stdout);
    // A gate runs what an agent wrote, and gets the URL as it is written.
    let written = format!("remote.origin{AS_WRITTEN}.url");
    let has_written = all.iter().any(|(key, _)| *key == written);
    for (key, value) in all {
        let key = match has_written {
            true if key == ORIGIN => continue,
            true if key == written => ORIGIN.to_owned(),
            _ => key,
        };
        let section = key.split('.').next().unwrap_or_default();
        let format = key == "core.repositoryformatversion";
        if SECTIONS.contains(&section) || KEYS.contains(&&*key) || format {
            settings.push((key, value));
        }
    }
    Ok(render(&settings))
}

fn copy(from: &Path, to: &Path) -> Result<(), RepoError> {
    match fs::copy(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(failed(&to.display().to_string(), &error))
        }
        _ => Ok(()),
    }
}
