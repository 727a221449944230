//! Reads a repository inside a sandbox without its configuration, through copies of its refs and its objects. Finds
//! what the repository holds that its remotes do not, although it looks clean: commits (also those that only its
//! reflog names), stash entries, an operation in progress.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::admin::{At, common_dir, failed, scratch};
use super::super::bytes;
use super::super::command::Git;
use super::super::files::hash::Format;
use super::super::files::index::{Index, Lens};
use super::super::files::open::Root;
use super::super::files::recent::Recent;
use super::super::files::walk::{Kind, all_below};
use super::super::object_copy::looked_up;
use super::super::reflog_commits::{HeadReflog, is_ours_alone};
use super::super::rig::{GitRepo, oid, resolve};
use super::super::{other_work, reflog_commits};
use crate::adapters::beneath;
use crate::adapters::city_root;
use crate::domain::ids::Oid;
use crate::domain::url_text::without_passwords;
use crate::ports::repo::RepoError;

/// A ref is one line; `packed-refs` and a list of grafts grow with the repository.
const LINE_MAX: u64 = 64 * 1024;
const LIST_MAX: u64 = 256 * 1024 * 1024;

/// Work that exists only in this repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct HeldWork {
    /// The description for people.
    pub(in super::super) what: String,
    /// Set when the agent left the work behind: commits that no branch has, or anything that is not checked out.
    pub(in super::super) left: bool,
}

impl HeldWork {
    /// Work in progress.
    pub(in super::super) fn at_work(what: impl Into<String>) -> Self {
        let (what, left) = (what.into(), false);
        Self { what, left }
    }

    /// Work that was left behind.
    pub(in super::super) fn left(what: impl Into<String>) -> Self {
        let (what, left) = (what.into(), true);
        Self { what, left }
    }
}

/// The trust in the repository's remote-tracking refs and in its list of shallow commits.
#[derive(Debug, Clone, Copy)]
enum Claims {
    /// Commits that they reach count as pushed.
    Count,
    /// The agent's claim, which counts for nothing.
    Nothing,
}

/// A repository inside a sandbox.
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
    /// When the git directory cannot be read, or is of an unsupported kind.
    pub(super) fn of(repo: &GitRepo, git_dir: &Path, format: Format) -> Result<Self, RepoError> {
        let common = common_dir(git_dir);
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
        let told = told.filter_map(|text| reflog_commits::ids(text).first().map(Format::of));
        let format = told.into_iter().next().unwrap_or(format);
        let (objects, ours) = (common.join("objects"), repo.repo_dir().join("objects"));
        let lens = Lens::new(scratch(repo)?, format, &objects, &ours)?;
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
            Some(_) => all_below(&root, b"refs")?,
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
        let put = city_root::make_dirs(dir).and_then(|()| fs::write(&file, text));
        put.at("cannot write", &file)
    }

    /// A git command that reads it.
    pub(super) fn git(&self) -> Git {
        self.lens.git()
    }

    /// A directory for temporary files about it.
    pub(super) fn scratch(&self) -> PathBuf {
        self.lens.git_dir()
    }

    /// Returns its index.
    pub(super) fn index(&self) -> Result<Index, RepoError> {
        let index = self.lens.index(&self.git_dir, &Recent::default())?;
        Ok(Arc::unwrap_or_clone(index))
    }

    /// Returns its HEAD; none on a branch without commits.
    pub(super) fn head(&self) -> Option<Oid> {
        resolve(self.git(), "HEAD").ok().flatten()
    }

    /// Returns the work that neither the remotes have nor the commit that its base records. Commits in `pins` may
    /// come from outside, too: if only they are missing, no removal is held up.
    pub(super) fn held(
        &self,
        repo: &GitRepo,
        base: Option<&Oid>,
        pins: &[Oid],
    ) -> Result<Option<HeldWork>, RepoError> {
        let mut held = other_work::in_progress(&self.git_dir)
            .next()
            .map(HeldWork::at_work);
        let is_open = |held: &Option<HeldWork>| held.as_ref().is_none_or(|held| held.left);
        if held.is_none() {
            held = self.commits(repo, base, pins)?;
        }
        if is_open(&held) && resolve(self.git(), "refs/stash")?.is_some() {
            held = Some(HeldWork::at_work("stash entries"));
        }
        Ok(held)
    }

    fn commits(
        &self,
        repo: &GitRepo,
        base: Option<&Oid>,
        pins: &[Oid],
    ) -> Result<Option<HeldWork>, RepoError> {
        let reflog = reflog_commits::head_reflogs(std::slice::from_ref(&self.git_dir))?;
        let only_fetched = self.only_fetched(&reflog)? && self.stays_elsewhere(repo);
        let known: Vec<&Oid> = base.into_iter().collect();
        let all = self.count(&reflog.commits, &known, Claims::Count)?;
        if all == Ok(0) {
            if only_fetched {
                return Ok(None);
            }
            // An agent that commits there can also write a remote-tracking ref: only the commits of ours are certain.
            let ours = ours(repo)?;
            let known: Vec<&Oid> = base.into_iter().chain(&ours).collect();
            return Ok(
                match self.count(&reflog.commits, &known, Claims::Nothing)? {
                    Ok(0) => None,
                    Ok(claimed) => Some(HeldWork::left(format!(
                        "commits that only its own refs list as pushed: {claimed}"
                    ))),
                    Err(why) => Some(HeldWork::left(format!("cannot be inspected: {why}"))),
                },
            );
        }
        let known: Vec<&Oid> = base.into_iter().chain(pins).collect();
        let present = self.count(&BTreeSet::new(), &known, Claims::Count)?;
        Ok(Some(match (present, all) {
            // Pins on a tag, and pins of earlier commits: nothing was committed there.
            (Ok(0), Ok(_)) if only_fetched => return Ok(None),
            (Ok(0), Ok(all)) => HeldWork::left(format!("unpushed commits: {all}")),
            (Ok(present), _) => HeldWork::at_work(format!("unpushed commits: {present}")),
            (Err(why), _) => HeldWork::at_work(format!("cannot be inspected: {why}")),
        }))
    }

    /// Returns true if its reflogs exist and tell only of fetching and of going from one commit to another. `git
    /// update-ref` on a remote-tracking ref leaves a line without a message. Reflogs can be written by hand,
    /// therefore loose commits are checked, too: a clone brings packs, and a commit that was made here is a loose
    /// object.
    fn only_fetched(&self, head: &HeadReflog) -> Result<bool, RepoError> {
        if head.made || head.commits.is_empty() || self.has_own_commits()? {
            return Ok(false);
        }
        let common = common_dir(&self.git_dir);
        let fail = |error: std::io::Error| failed("cannot read", &common, &error);
        let root = Root::open(&common).map_err(fail)?;
        // Includes the reflogs of its worktrees.
        for dir in [&b"logs"[..], b"worktrees"] {
            let Some(_) = root.stat(dir).map_err(fail)? else {
                continue;
            };
            let files = all_below(&root, dir)?;
            let files = files.iter().filter(|entry| entry.kind == Kind::File);
            for path in files.map(|entry| entry.path.as_slice()) {
                let is_log = path.split(|byte| *byte == b'/').any(|name| name == b"logs");
                let read = || beneath::read(&common, bytes::path(path), LIST_MAX).map_err(fail);
                if is_log && reflog_commits::is_made(&read()?.unwrap_or_default()) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns true if a commit is a loose object that none of the local directories has from which the repository
    /// was cloned.
    fn has_own_commits(&self) -> Result<bool, RepoError> {
        let objects = common_dir(&self.git_dir).join("objects");
        let root = Root::open(&objects).at("cannot read", &objects)?;
        let (urls, mut lenders) = (self.urls(), Vec::new());
        for dir in urls.iter().filter_map(|url| self.local(url)) {
            lenders.extend([dir.join("objects"), dir.join(".git/objects")]);
        }
        let files = all_below(&root, b"")?;
        let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
        let own = files.iter().map(|entry| entry.path.as_slice());
        let own = own.filter(|path| {
            let is_loose = path.get(2) == Some(&b'/') && path[..2].iter().all(is_digit);
            let name = bytes::path(path);
            is_loose && !lenders.iter().any(|dir| dir.join(name).exists())
        });
        let ids = own.filter_map(|path| Oid::new(bytes::lossy(path).replace('/', "")).ok());
        let ids: Vec<Oid> = ids.collect();
        let mut told = looked_up(self.git(), "%(objecttype)", &ids)?.into_iter();
        // A damaged object may be a commit.
        Ok(told.any(|(_, kind)| !matches!(kind.as_deref(), Some("blob" | "tree" | "tag"))))
    }

    /// Returns the path of a URL that names no other machine.
    fn local(&self, url: &str) -> Option<PathBuf> {
        let above = self.git_dir.parent().unwrap_or(&self.git_dir);
        local(url).map(|path| above.join(path))
    }

    /// Returns true if the source of the clone may still exist after the sandbox is removed. Remotes on other
    /// machines are not asked.
    fn stays_elsewhere(&self, repo: &GitRepo) -> bool {
        let homes = fs::canonicalize(repo.raiders_dir()).ok();
        self.urls().iter().all(|url| match self.local(url) {
            None => true,
            Some(path) => {
                let found = fs::canonicalize(path);
                found.is_ok_and(|real| !homes.as_ref().is_some_and(|homes| real.starts_with(homes)))
            }
        })
    }

    /// Counts the commits of its HEAD, its branches and `left` that are neither in `known` nor, if `claims` count, in
    /// its remote-tracking refs. The inner error is git's message.
    fn count(
        &self,
        left: &BTreeSet<Oid>,
        known: &[&Oid],
        claims: Claims,
    ) -> Result<Result<u64, String>, RepoError> {
        // A shallow clone ends at commits that are not its own; a shallow clone of a tag has no remote-tracking
        // branch.
        let (shallow, remotes) = match claims {
            Claims::Count => {
                let list = fs::read_to_string(self.lens.git_dir().join("shallow"));
                (list.unwrap_or_default(), Some("--remotes"))
            }
            Claims::Nothing => (String::new(), None),
        };
        let known = known.iter().map(|id| id.as_str()).chain(shallow.lines());
        let known = known.map(|id| format!("^{id}\n"));
        let left = left.iter().map(|id| format!("{id}\n"));
        let input: String = left.chain(known).collect();
        let ask = |from: &[&str]| {
            let git = self.git().args(["rev-list", "--count", "--ignore-missing"]);
            let git = git.args(from).arg("--branches");
            let git = git.args(remotes.iter().flat_map(|remotes| ["--not", remotes]));
            git.arg("--stdin").stdin(input.as_str()).output()
        };
        let mut output = ask(&["HEAD"])?;
        if !output.ok() && matches!(resolve(self.git(), "HEAD"), Ok(None)) {
            // A clone that was interrupted: HEAD names a branch without commits.
            output = ask(&[])?;
        }
        Ok(match output.ok() {
            true => output.text().parse().map_err(|_| output.text()),
            false => Err(output.stderr.trim().to_owned()),
        })
    }

    /// Returns the commit that one of its commits records for a submodule.
    pub(super) fn recorded(&self, base: Option<&Oid>, path: &[u8]) -> Option<Oid> {
        recorded(self.git(), base, path).ok().flatten()
    }

    /// Returns the URL that it was cloned from by its configuration, for people.
    pub(super) fn origin(&self) -> String {
        let urls = self.urls();
        let url = urls.first().map_or("", String::as_str);
        without_passwords(url)
    }

    /// Returns the URLs in its configuration.
    fn urls(&self) -> Vec<String> {
        let config = beneath::read(&common_dir(&self.git_dir), Path::new("config"), LIST_MAX);
        let config = config.ok().flatten().unwrap_or_default();
        let text = bytes::lossy(&config);
        let urls = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("url"));
        let urls = urls.filter_map(|rest| rest.trim_start().strip_prefix('='));
        urls.map(|url| url.trim().to_owned()).collect()
    }
}

/// Returns the path of a URL that names no other machine.
fn local(url: &str) -> Option<&Path> {
    if let Some(path) = url.strip_prefix("file://") {
        return Some(Path::new(path));
    }
    let named = url.split('/').next().unwrap_or_default();
    (!named.contains(':')).then(|| Path::new(url))
}

/// Returns the commits that the refs of ours name. Salvage and pinned stash entries do not count, or the act of
/// saving would change the measurement.
fn ours(repo: &GitRepo) -> Result<Vec<Oid>, RepoError> {
    let refs = repo.refs()?.into_iter();
    let counted = refs.filter(|(_, name)| !is_ours_alone(name));
    Ok(counted.map(|(id, _)| id).collect())
}

/// Returns the commit that the base of a repository records for a submodule: it came from outside.
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
    // `160000 commit <oid>\t<path>`; empty if the base itself is missing.
    let text = bytes::lossy(&output.stdout);
    let head = text.split('\t').next().unwrap_or_default();
    match head.strip_prefix("160000 commit ") {
        Some(id) => oid(id).map(Some),
        None => Ok(None),
    }
}
