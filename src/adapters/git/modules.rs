//! What a repository inside a sandbox holds that its remotes do not, although it looks clean: commits,
//! those that only its reflog names among them, stash entries, an operation in progress, and the same of
//! its submodules. `git submodule deinit` and `git rm` leave the git directory of one in `modules`.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin::failed;
use super::bytes::{self, RelPath};
use super::command::Git;
use super::nested::of_repository;
use super::rig::{oid, resolve};
use super::{special, status, traces};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// What is nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    /// For people.
    pub(super) what: String,
    /// Whether the agent has left it behind: commits that no branch has, whatever is not checked out.
    pub(super) left: bool,
}

impl Held {
    /// Somebody is at it.
    pub(super) fn at_work(what: impl Into<String>) -> Self {
        let (what, left) = (what.into(), false);
        Self { what, left }
    }

    fn left(what: impl Into<String>) -> Self {
        let (what, left) = (what.into(), true);
        Self { what, left }
    }
}

/// A repository inside a sandbox.
#[derive(Debug, Clone)]
pub(super) struct Inner {
    /// Its git directory.
    pub(super) git_dir: PathBuf,
    /// Its files; none where it is not checked out.
    dir: Option<PathBuf>,
}

impl Inner {
    /// The one in this directory.
    pub(super) fn checked_out(dir: &Path) -> Self {
        Self {
            git_dir: of_repository(dir),
            dir: Some(dir.to_owned()),
        }
    }

    fn git(&self) -> Git {
        let git = match &self.dir {
            Some(dir) => Git::in_dir(dir),
            // Its configuration may name a directory that is gone, which git would enter; and where a
            // file is named HEAD, git asks which HEAD is meant.
            None => {
                let empty = self.git_dir.join("objects");
                Git::in_dir(&empty).args(["--git-dir=..", "--work-tree=."])
            }
        };
        git.env("GIT_OPTIONAL_LOCKS", "0")
    }

    /// What it holds that neither its remotes do nor the commit that its base records. Those in `pins`
    /// may come from outside as well: where only they are missing, nobody is held up.
    pub(super) fn held(&self, base: Option<Oid>, pins: &[Oid]) -> Result<Option<Held>, RepoError> {
        let mut held = special::in_progress(&self.git_dir)
            .next()
            .map(Held::at_work);
        let is_open = |held: &Option<Held>| held.as_ref().is_none_or(|held| held.left);
        if held.is_none() {
            held = self.commits(base.as_ref(), pins)?;
        }
        if is_open(&held) && resolve(self.git(), "refs/stash")?.is_some() {
            held = Some(Held::at_work("stash entries"));
        }
        if is_open(&held) {
            held = self.below(base.as_ref())?.or(held);
        }
        if self.dir.is_none() {
            if held.is_none() && self.has_staged()? {
                held = Some(Held::left("staged changes"));
            }
            held = held.map(|held| Held::left(held.what));
        }
        Ok(held)
    }

    fn commits(&self, base: Option<&Oid>, pins: &[Oid]) -> Result<Option<Held>, RepoError> {
        let left = traces::head_reflogs(std::slice::from_ref(&self.git_dir))?.commits;
        let known: Vec<&Oid> = base.into_iter().collect();
        let all = self.count(&left, &known)?;
        if all == Ok(0) {
            return Ok(None);
        }
        let known: Vec<&Oid> = base.into_iter().chain(pins).collect();
        Ok(Some(match (self.count(&BTreeSet::new(), &known)?, all) {
            (Ok(0), Ok(all)) => Held::left(format!("unpushed commits: {all}")),
            (Ok(present), _) => Held::at_work(format!("unpushed commits: {present}")),
            (Err(why), _) => Held::at_work(format!("cannot be judged: {why}")),
        }))
    }

    /// Commits of its HEAD, its branches and these that are not in its remotes; or what git says.
    fn count(
        &self,
        left: &BTreeSet<Oid>,
        known: &[&Oid],
    ) -> Result<Result<u64, String>, RepoError> {
        // Where a shallow clone ends is nobody's work; that of a tag has no branch of its remote.
        let shallow = fs::read_to_string(self.git_dir.join("shallow")).unwrap_or_default();
        let known = known.iter().map(|id| id.as_str()).chain(shallow.lines());
        let known = known.map(|id| format!("^{id}\n"));
        let left = left.iter().map(|id| format!("{id}\n"));
        let input: String = left.chain(known).collect();
        let ask = |from: &[&str]| {
            let git = self.git().args(["rev-list", "--count", "--ignore-missing"]);
            let git = git.args(from).args(["--branches", "--not", "--remotes"]);
            git.arg("--stdin").stdin(input.as_str()).output()
        };
        let mut output = ask(&["HEAD"])?;
        if !output.ok() && matches!(resolve(self.git(), "HEAD"), Ok(None)) {
            // A clone that was broken off: HEAD names a branch without commits.
            output = ask(&[])?;
        }
        Ok(match output.ok() {
            true => output.text().parse().map_err(|_| output.text()),
            false => Err(output.stderr.trim().to_owned()),
        })
    }

    /// What its submodules hold, the worst first.
    fn below(&self, base: Option<&Oid>) -> Result<Option<Held>, RepoError> {
        let (mut present, mut found) = (Vec::new(), Vec::new());
        if let Some(dir) = &self.dir {
            let index = status::index(self.git())?;
            for link in index.iter().filter(|entry| entry.is_gitlink()) {
                let inside = dir.join(bytes::path(&link.path));
                if fs::symlink_metadata(inside.join(".git")).is_ok() {
                    let inner = Self::checked_out(&inside);
                    let base = recorded(self.git(), base, &link.path)?;
                    let held = inner.held(base, std::slice::from_ref(&link.oid))?;
                    found.extend(held.map(|held| (bytes::lossy(&link.path), held)));
                    present.push(inner.git_dir);
                }
            }
        }
        for (name, inner) in absent(&self.git_dir, &present)? {
            let held = inner.held(recorded(self.git(), base, &name)?, &[])?;
            found.extend(held.map(|held| (format!("modules/{}", bytes::lossy(&name)), held)));
        }
        found.sort_by_key(|(_, held)| held.left);
        let worst = found.into_iter().next();
        Ok(worst.map(|(name, held)| Held {
            what: format!("{name}: {}", held.what),
            ..held
        }))
    }

    /// Whether its index differs from HEAD; where it is not checked out, `git status` says nothing of it.
    fn has_staged(&self) -> Result<bool, RepoError> {
        let git = self.git().args(["diff-index", "--cached", "--quiet"]);
        Ok(git.args(["HEAD", "--"]).output()?.code == Some(1))
    }
}

/// Repositories in `modules` of a git directory that are none of these, by name. Asks no git.
pub(super) fn absent(
    git_dir: &Path,
    present: &[PathBuf],
) -> Result<Vec<(RelPath, Inner)>, RepoError> {
    let home = git_dir.join("modules");
    let (mut found, mut open) = (Vec::new(), vec![RelPath::new()]);
    while let Some(below) = open.pop() {
        let here = home.join(bytes::path(&below));
        let fail = |error: std::io::Error| failed("cannot list", &here, &error);
        let list = match fs::read_dir(&here) {
            Ok(list) => list,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(fail(error)),
        };
        for entry in list {
            let entry = entry.map_err(fail)?;
            if !entry.file_type().map_err(fail)?.is_dir() {
                continue;
            }
            let name = bytes::below(&below, bytes::of(Path::new(&entry.file_name())));
            let git_dir = entry.path();
            if fs::symlink_metadata(git_dir.join("HEAD")).is_err() {
                // A name may have slashes.
                open.push(name);
            } else if !present.iter().any(|known| is_same(known, &git_dir)) {
                found.push((name, Inner { git_dir, dir: None }));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(a).is_some_and(|a| Some(a) == real(b))
}

/// The commit that the base of a repository records for a submodule: it came from outside.
pub(super) fn recorded(
    git: Git,
    base: Option<&Oid>,
    path: &[u8],
) -> Result<Option<Oid>, RepoError> {
    let Some(base) = base else { return Ok(None) };
    let output = git
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["ls-tree", "-z", base.as_str(), "--"])
        .arg(bytes::path(path))
        .output()?;
    // `160000 commit <oid>\t<path>`; nothing where the base itself is not there.
    let text = bytes::lossy(&output.stdout);
    let head = text.split('\t').next().unwrap_or_default();
    match head.strip_prefix("160000 commit ") {
        Some(id) => oid(id).map(Some),
        None => Ok(None),
    }
}
