//! Restores a salvaged sandbox as a worktree: HEAD (detached), the index and git's state files, and every file byte
//! for byte with its mode and time. Everything is read again and compared. No git runs in the worktree, so neither a
//! filter nor a hook takes part.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::admin::{self, At, write_whole};
use super::super::bytes;
use super::super::rig::{GitRepo, locked};
use super::manifest::{EntryRoot, Line, Manifest, VERSION, lines};
use super::part;
use super::prune::tips;
use super::relink::relink;
use super::written::{prove, write};
use crate::domain::ids::Oid;
use crate::ports::repo::{RepoError, SalvageRecord};

/// The new name of an agent's own repository that was in place of the sandbox's link.
const FOUND: &str = "found.git";

/// Makes the worktree atomically. `to` must not exist.
pub(in super::super) fn restore(
    repo: &GitRepo,
    record: &SalvageRecord,
    to: &Path,
) -> Result<(), RepoError> {
    part::whole(repo, &record.id, to, |part, home| {
        build(repo, record, part, home)
    })
}

fn build(repo: &GitRepo, record: &SalvageRecord, to: &Path, home: &Path) -> Result<(), RepoError> {
    if let [only] = &record.refs[..]
        && only.ends_with("/head")
    {
        // A commit without a sandbox around it.
        let head = present(repo, record, only)?;
        return checkout(repo, &record.id, &head, to);
    }
    let meta = record.refs.iter().find(|name| name.ends_with("/meta"));
    let meta = meta.ok_or_else(|| RepoError::NotFound(format!("salvage {}", record.id)))?;
    // Without its HEAD, git could not open the worktree.
    let head = record.refs.iter().find(|name| name.ends_with("/head"));
    for name in [Some(meta), head].into_iter().flatten() {
        present(repo, record, name)?;
    }
    let manifest = Manifest::read(repo, meta)?;
    if manifest.version != VERSION {
        let (id, found) = (&record.id, manifest.version);
        let what =
            format!("salvage {id} has format {found}; only format {VERSION} can be restored");
        return Err(RepoError::Failed(what));
    }
    let lines = lines(repo, meta)?;
    let admin = worktree(repo, &record.id, head_line(repo, &manifest)?, to)?;
    let mut work: Vec<Line> = Vec::new();
    let mut state: Vec<Line> = Vec::new();
    for line in lines {
        match line.place {
            EntryRoot::Work => work.push(line),
            // HEAD itself is detached: its branch may be checked out elsewhere.
            EntryRoot::Admin if line.path != b"HEAD" => state.push(line),
            EntryRoot::Admin | EntryRoot::Other(_) => {}
        }
    }
    aside(&mut work);
    let git = || repo.git();
    write(git, to, &work)?;
    write(git, &admin, &state)?;
    prove(to, &work, true)?;
    prove(&admin, &state, false)?;
    relink(&manifest, (to, home), &admin, &work, &state)
}

/// Returns the commit of a ref of the salvage.
fn present(repo: &GitRepo, record: &SalvageRecord, name: &str) -> Result<Oid, RepoError> {
    if let Some(found) = repo.resolve(name)? {
        return Ok(found);
    }
    let (id, dir) = (&record.id, repo.repo_dir().display());
    Err(match tips(repo, &[name.to_owned()])?.pop() {
        Some((_, lost)) => RepoError::Failed(format!(
            "salvage {id} cannot be restored: its commit {lost} is missing from {dir}, or damaged. Copy the objects of a backup \
            of {dir} into it"
        )),
        None => RepoError::NotFound(format!("salvage {id}: {name}")),
    })
}

/// Renames the entries that an agent put in place of the link.
fn aside(lines: &mut [Line]) {
    let is_top = |path: &[u8]| path == b".git" || path.starts_with(b".git/");
    let mut name = FOUND.as_bytes().to_vec();
    while lines.iter().any(|line| line.path == name) {
        name.extend_from_slice(b".2");
    }
    for line in lines.iter_mut().filter(|line| is_top(&line.path)) {
        line.path.splice(..4, name.iter().copied());
    }
    lines.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Returns the content of HEAD: the salvaged commit or, if there was none, a branch without commits.
fn head_line(repo: &GitRepo, manifest: &Manifest) -> Result<String, RepoError> {
    if let Some(head) = &manifest.head {
        return Ok(format!("{head}\n"));
    }
    let wanted = manifest.branch.as_deref().unwrap_or("restored");
    let mut name = format!("refs/heads/{wanted}");
    // A ref that cannot be read occupies its name, too.
    while !matches!(repo.their_refs().resolve(&name), Ok(None)) {
        name.push_str("-restored");
    }
    Ok(format!("ref: {name}\n"))
}

/// Makes a worktree of theirs without files. Returns its administrative directory.
fn worktree(repo: &GitRepo, name: &str, head: String, to: &Path) -> Result<PathBuf, RepoError> {
    let _serial = locked(&repo.state.worktrees);
    // The link back comes first: it identifies a worktree that is left half made.
    let admin = admin::make(repo, name, head.as_bytes(), to)?;
    fs::create_dir(to).at("cannot make", to)?;
    let link = [b"gitdir: ", bytes::of(&admin), b"\n"].concat();
    write_whole(&to.join(".git"), &link)?;
    admin::unlock(&admin)?;
    Ok(admin)
}

/// Makes a worktree with the files of a commit, as git checks them out for us.
fn checkout(repo: &GitRepo, name: &str, head: &Oid, to: &Path) -> Result<(), RepoError> {
    let admin = worktree(repo, name, format!("{head}\n"), to)?;
    repo.work(to, &admin.join("index"))
        .args(["read-tree", "-u", "--reset", head.as_str()])
        .limit(super::super::command::CHECKOUT)
        .run()
        .map(drop)
}
