//! A repository inside a sandbox, seen without its configuration: copies of its refs, and its objects. Says
//! what it holds that its remotes do not, although it looks clean: commits, those that only its reflog names
//! among them, stash entries, an operation in progress.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::admin::{failed, scratch};
use super::super::bytes;
use super::super::command::Git;
use super::super::files::hash::Format;
use super::super::files::index::{Index, Lens};
use super::super::files::open::Root;
use super::super::files::walk::{All, Kind, from};
use super::super::rig::{GitRepo, oid, resolve};
use super::super::{special, traces};
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A ref is a line; `packed-refs` and a list of grafts grow with the repository.
const LINE_MAX: u64 = 64 * 1024;
const LIST_MAX: u64 = 256 * 1024 * 1024;

/// What is nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Held {
    /// For people.
    pub(in super::super) what: String,
    /// Whether the agent has left it behind: commits that no branch has, whatever is not checked out.
    pub(in super::super) left: bool,
}

impl Held {
    /// Work goes on there.
    pub(in super::super) fn at_work(what: impl Into<String>) -> Self {
        let (what, left) = (what.into(), false);
        Self { what, left }
    }

    /// Work was left there.
    pub(in super::super) fn left(what: impl Into<String>) -> Self {
        let (what, left) = (what.into(), true);
        Self { what, left }
    }
}

/// The repository.
#[derive(Debug)]
pub(super) struct View {
    lens: Lens,
    /// Its git directory; of a worktree, the administrative one.
    pub(super) git_dir: PathBuf,
}

impl View {
    /// Copies the refs of a git directory.
    ///
    /// # Errors
    /// It cannot be read, or is of a kind that cannot be seen so.
    pub(super) fn of(repo: &GitRepo, git_dir: &Path, format: Format) -> Result<Self, RepoError> {
        let common = common(git_dir);
        let fail = |error: std::io::Error| failed("cannot read", git_dir, &error);
        if common.join("reftable").is_dir() {
            let what = format!("{} keeps its refs in tables", git_dir.display());
            return Err(RepoError::Failed(what));
        }
        let read = |dir: &Path, name: &str, max| beneath::read(dir, Path::new(name), max);
        let packed = read(&common, "packed-refs", LIST_MAX).map_err(fail)?;
        let head = read(git_dir, "HEAD", LINE_MAX).map_err(fail)?;
        if head.is_none() {
            let what = format!("{} has no HEAD", git_dir.display());
            return Err(RepoError::Failed(what));
        }
        let log = read(git_dir, "logs/HEAD", LIST_MAX).map_err(fail)?;
        let told = [&log, &head, &packed].into_iter().flatten();
        let told = told.filter_map(|text| traces::ids(text).first().map(Format::of));
        let format = told.into_iter().next().unwrap_or(format);
        let objects = [common.join("objects"), repo.repo_dir().join("objects")];
        let lens = Lens::new(scratch(repo)?, format, &objects)?;
        let shallow = read(&common, "shallow", LIST_MAX).map_err(fail)?;
        let view = Self {
            lens,
            git_dir: git_dir.to_owned(),
        };
        for (name, text) in [
            ("HEAD", head),
            ("packed-refs", packed),
            ("shallow", shallow),
        ] {
            if let Some(text) = text {
                view.put(name.as_bytes(), &text)?;
            }
        }
        let root = Root::open(&common).map_err(fail)?;
        let refs = match root.stat(b"refs").map_err(fail)? {
            Some(_) => from(&root, b"refs", &mut All).map_err(fail)?.entries,
            None => Vec::new(),
        };
        for entry in refs.iter().filter(|entry| entry.kind == Kind::File) {
            let name = bytes::path(&entry.path);
            if let Some(text) = beneath::read(&common, name, LINE_MAX).map_err(fail)? {
                view.put(&entry.path, &text)?;
            }
        }
        Ok(view)
    }

    fn put(&self, name: &[u8], text: &[u8]) -> Result<(), RepoError> {
        let file = self.lens.git_dir().join(bytes::path(name));
        let dir = file.parent().unwrap_or(&file);
        let put = fs::create_dir_all(dir).and_then(|()| fs::write(&file, text));
        put.map_err(|error| failed("cannot write", &file, &error))
    }

    /// A command on it.
    pub(super) fn git(&self) -> Git {
        self.lens.git()
    }

    /// A directory for what is made of it.
    pub(super) fn scratch(&self) -> PathBuf {
        self.lens.git_dir()
    }

    /// What is staged.
    pub(super) fn index(&self) -> Result<Index, RepoError> {
        self.lens.index(&self.git_dir)
    }

    /// Its HEAD; none on a branch without commits.
    pub(super) fn head(&self) -> Option<Oid> {
        resolve(self.git(), "HEAD").ok().flatten()
    }

    /// What it holds that neither its remotes do nor the commit that its base records. Those in `pins` may
    /// come from outside as well: where only they are missing, nothing is held up.
    pub(super) fn held(&self, base: Option<&Oid>, pins: &[Oid]) -> Result<Option<Held>, RepoError> {
        let mut held = special::in_progress(&self.git_dir)
            .next()
            .map(Held::at_work);
        let is_open = |held: &Option<Held>| held.as_ref().is_none_or(|held| held.left);
        if held.is_none() {
            held = self.commits(base, pins)?;
        }
        if is_open(&held) && resolve(self.git(), "refs/stash")?.is_some() {
            held = Some(Held::at_work("stash entries"));
        }
        Ok(held)
    }

    fn commits(&self, base: Option<&Oid>, pins: &[Oid]) -> Result<Option<Held>, RepoError> {
        let reflog = traces::head_reflogs(std::slice::from_ref(&self.git_dir))?;
        let known: Vec<&Oid> = base.into_iter().collect();
        let all = self.count(&reflog.commits, &known)?;
        if all == Ok(0) {
            return Ok(None);
        }
        let known: Vec<&Oid> = base.into_iter().chain(pins).collect();
        Ok(Some(match (self.count(&BTreeSet::new(), &known)?, all) {
            // Pins on a tag, and those of before: nothing was made there.
            (Ok(0), Ok(_)) if !reflog.made && !reflog.commits.is_empty() => return Ok(None),
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
        // A shallow clone ends at commits that are not its own; that of a tag has no branch of its remote.
        let shallow = fs::read_to_string(self.lens.git_dir().join("shallow")).unwrap_or_default();
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

    /// The commit that a commit of it records for a submodule.
    pub(super) fn recorded(&self, base: Option<&Oid>, path: &[u8]) -> Option<Oid> {
        recorded(self.git(), base, path).ok().flatten()
    }

    /// Where it was cloned from, as its configuration says: for people.
    pub(super) fn origin(&self) -> String {
        let config = beneath::read(&common(&self.git_dir), Path::new("config"), LIST_MAX);
        let config = config.ok().flatten().unwrap_or_default();
        let text = bytes::lossy(&config);
        let urls = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("url"));
        let mut urls = urls.filter_map(|rest| rest.trim_start().strip_prefix('='));
        urls.next()
            .map_or_else(String::new, |url| super::super::push::shown(url.trim()))
    }
}

/// The directory with the refs and objects of a git directory.
pub(super) fn common(git_dir: &Path) -> PathBuf {
    let text = beneath::read(git_dir, Path::new("commondir"), LINE_MAX);
    match text.ok().flatten() {
        Some(text) => git_dir.join(bytes::path(text.trim_ascii_end())),
        None => git_dir.to_owned(),
    }
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
