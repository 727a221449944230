//! Finds a sandbox's parts and its HEAD, as far as possible: its administrative directory may be gone, garbled, or
//! replaced by an agent's `git init`. The files on the disk are measured and saved all the same.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin::{self, Note, failed};
use super::entry_links;
use super::entry_links::locate;
use super::measure::commit;
use super::rig::GitRepo;
use super::theirs::{self, Head};
use super::{revive, share_integrity};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The parts of a sandbox.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) sandbox: PathBuf,
    /// Its administrative directory; none if that is gone.
    pub(super) admin: Option<PathBuf>,
    /// The administrative directories of worktrees that the agent made inside it.
    pub(super) inside: Vec<PathBuf>,
    /// Set when its directory is gone.
    pub(super) gone: bool,
    /// The fault of its link, for people.
    pub(super) broken: Option<String>,
    /// The fault of its HEAD, for people.
    pub(super) garbled: Option<String>,
    pub(super) note: Option<Note>,
    /// HEAD's commit; none on a branch without commits.
    pub(super) head: Option<Oid>,
    /// HEAD's branch; none when detached.
    pub(super) branch: Option<String>,
    /// The commit that the files are compared with if HEAD is unusable.
    pub(super) stands_for: Option<Oid>,
}

impl Ground {
    /// Returns true if its `.git` is the link that was made with it.
    pub(super) fn is_linked(&self) -> bool {
        self.broken.is_none()
    }
}

/// Finds the parts of a sandbox. A link or a file in its place is an error.
pub(super) fn ground(repo: &GitRepo, sandbox: &Path) -> Result<Ground, RepoError> {
    share_integrity::heal(repo);
    revive::check(repo, sandbox);
    let gone = match fs::symlink_metadata(sandbox) {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(failed("cannot read", sandbox, &error)),
    };
    let note = Note::read(repo, sandbox);
    let found = || match entry_links::of_sandbox(repo, sandbox)?.into_iter().next() {
        Some(admin) => Ok(Some(admin)),
        None => {
            let led = led(repo, sandbox);
            Ok(led.or_else(|| super::repair::by_name(repo, sandbox, note.as_ref())))
        }
    };
    let (admin, broken) = match locate(repo, sandbox) {
        Ok(place) => (Some(place.admin), None),
        Err(RepoError::NotFound(_)) => (found()?, None),
        Err(RepoError::Broken { why, .. }) if sandbox.is_dir() && !sandbox.is_symlink() => {
            (found()?, Some(why))
        }
        Err(error) => return Err(error),
    };
    let inside = match gone {
        true => Vec::new(),
        false => entry_links::inside(repo, sandbox)?
            .into_iter()
            .map(|it| it.0)
            .collect(),
    };
    if let (Some(why), None, None) = (&broken, &admin, &note) {
        let (sandbox, why) = (sandbox.to_owned(), why.clone());
        return Err(RepoError::Broken { sandbox, why });
    }
    let mut ground = Ground {
        sandbox: sandbox.to_owned(),
        admin,
        inside,
        gone,
        broken,
        garbled: None,
        note,
        head: None,
        branch: None,
        stands_for: None,
    };
    find_head(repo, &mut ground)?;
    Ok(ground)
}

/// Returns the administrative directory of the sandbox's link, if no sandbox claims that directory: it is the
/// sandbox's own, with a damaged link back.
fn led(repo: &GitRepo, sandbox: &Path) -> Option<PathBuf> {
    let admin = entry_links::linked(sandbox)?;
    let is_ours = admin.parent() == admin::home(repo).as_deref() && !super::repair::claimed(&admin);
    is_ours.then_some(admin)
}

fn find_head(repo: &GitRepo, ground: &mut Ground) -> Result<(), RepoError> {
    let named = match &ground.admin {
        Some(admin) => theirs::head(admin).map_err(|error| error.to_string()),
        None => Err("its administrative directory is gone".to_owned()),
    };
    match named {
        Ok(Some(Head::Ref(name))) => {
            match repo.their_refs().resolve(&name) {
                Ok(head) => ground.head = head,
                Err(why) => ground.garbled = Some(why.to_string()),
            }
            let branch = name.strip_prefix("refs/heads/").unwrap_or(&name);
            ground.branch = Some(branch.to_owned());
        }
        Ok(Some(Head::Commit(id))) => ground.head = Some(id),
        Ok(None) => ground.garbled = Some("its HEAD names nothing".to_owned()),
        Err(why) => ground.garbled = Some(why),
    }
    if let Some(head) = &ground.head
        && commit(repo, head)?.is_none()
    {
        ground.garbled = Some(format!(
            "its HEAD names {}, which is not a commit",
            head.short()
        ));
        ground.head = None;
    }
    if ground.garbled.is_none() {
        return Ok(());
    }
    // The branch of the note is certain: its tip, or else its base.
    let branch = ground.note.as_ref().map(|note| note.branch.clone());
    // That branch may itself be unreadable.
    let own = branch.iter().filter_map(|name| {
        repo.their_refs()
            .resolve(&format!("refs/heads/{name}"))
            .ok()
    });
    for tip in own.flatten() {
        if commit(repo, &tip)?.is_some() {
            ground.head = Some(tip);
            ground.branch = branch;
            return Ok(());
        }
    }
    ground.stands_for = ground.note.as_ref().map(|note| note.base.clone());
    Ok(())
}

/// Returns the path of the cache of a sandbox's hashed files.
pub(super) fn seen_file(repo: &GitRepo, sandbox: &Path) -> PathBuf {
    let name = sandbox.file_name().unwrap_or_default();
    repo.repo_dir().join("horde").join("seen").join(name)
}
