//! The checks that need no supervisor: files, programs, the configuration, and its repositories.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::city::City;
use crate::cli::environment;
use crate::config::{self, Env};
use crate::domain::doctor::local::{
    Private, Repository, git_version, other_git, permissions, repository, shadowed,
};
use crate::domain::doctor::{Finding, Kind};

/// Runs the checks, and fixes findings if asked. `their_git` describes the supervisor's git, if a supervisor answered.
pub(super) fn check(city: &City, file: &Path, fix: bool, their_git: Option<&str>) -> Vec<Finding> {
    let mut private = vec![
        (city.root.join(".horde"), 0o700),
        (city.socket.clone(), 0o600),
    ];
    // A city with a long path has a socket in a directory of its own, named like this.
    let elsewhere = city.socket.parent().filter(|dir| {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("horde")
    });
    private.extend(elsewhere.map(|dir| (dir.to_owned(), 0o700)));
    let private = private
        .into_iter()
        .filter_map(|(path, must)| file_mode(path, must));
    let mut findings: Vec<_> = private.filter_map(|file| closed(&file, fix)).collect();
    findings.extend(other_hd());
    match git(&["version"]) {
        Ok(version) => {
            findings.extend(git_version(&version).err().map(old_git));
            findings.extend(their_git.and_then(|theirs| other_git(&version, theirs)));
        }
        // Without git nothing can be said about a repository.
        Err(why) => {
            findings.push(old_git(why));
            return findings;
        }
    }
    match config::load(file, &Env::of_process()) {
        Ok(loaded) => {
            let rigs = loaded.city.rigs.iter();
            let rigs = rigs.filter_map(|rig| Some((rig.name.as_str(), rig.source.path()?)));
            findings.extend(rigs.filter_map(|(rig, path)| repository(rig, path, &inspect(path))));
        }
        Err(errors) => {
            let says = match errors.iter().count() {
                1 => "it has an error".to_owned(),
                many => format!("it has {many} errors"),
            };
            let hint = "`hd config check` shows them; the configuration in force stays until they are fixed";
            findings.push(Finding::new(Kind::Config, file.display(), says, hint));
        }
    }
    findings
}

/// Returns a file's mode; none if the file is missing, because the supervisor makes it when needed, closed to others.
fn file_mode(path: PathBuf, must: u32) -> Option<Private> {
    let meta = fs::metadata(&path).ok()?;
    Some(Private {
        path,
        mode: meta.mode() & 0o7777,
        must,
        own: meta.uid() == rustix::process::getuid().as_raw(),
    })
}

fn closed(file: &Private, fix: bool) -> Option<Finding> {
    let finding = permissions(file)?;
    if !(fix && finding.fixable) {
        return Some(finding);
    }
    let mode = fs::Permissions::from_mode(file.must);
    let mended = fs::set_permissions(&file.path, mode);
    Some(finding.tried(mended.map_err(|error| error.to_string())))
}

/// Finds another program named `hd` that comes first in the `PATH`, as Debian's hexdump is.
fn other_hd() -> Option<Finding> {
    let own = fs::canonicalize(env::current_exe().ok()?).ok()?;
    let mut candidates = environment::places("hd").into_iter();
    let found = candidates.find(|file| {
        let meta = fs::metadata(file);
        meta.is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
    });
    let found = found.and_then(|found| fs::canonicalize(found).ok());
    shadowed(&own, found.as_deref())
}

fn old_git(why: String) -> Finding {
    let hint = "install a newer git, and put it first in the PATH of `hd` and of the supervisor";
    Finding::new(Kind::GitVersion, "git", why, hint)
}

fn inspect(path: &Path) -> Result<Repository, String> {
    let at = |words: &[&str]| {
        let dir = path.to_string_lossy();
        git(&[&["-C", &dir], words].concat())
    };
    let shallow = at(&["rev-parse", "--is-shallow-repository"])? == "true";
    // git ends with 1 when no such key is configured.
    let partial = at(&["config", "--get-regexp", r"^remote\..*\.promisor$"]).is_ok();
    let origin = at(&["config", "--get", "remote.origin.url"]).is_ok();
    Ok(Repository {
        shallow,
        partial,
        origin,
    })
}

/// Returns git's output, or its error message.
#[expect(
    clippy::disallowed_methods,
    reason = "asks the git that sandboxes will be made with"
)]
fn git(words: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    git.args(words).env("LC_ALL", "C");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(name);
    }
    let output = git
        .output()
        .map_err(|error| format!("git cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
