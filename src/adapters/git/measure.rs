//! Measures a sandbox: everything in it that a removal could lose, and a digest of all of it.
//!
//! The facts are made from the same measurement that salvage writes from, so that neither can contain something that
//! the other lacks. No git runs in the sandbox: its bytes are read directly.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::admin::{self, At};
use super::bytes::RelPath;
use super::entry_links;
use super::files::compare::{Against, Compared, Tree, compare, staged};
use super::files::convert::{Judge, Lfs, lists};
use super::files::hash::Format;
use super::files::hash_cache::HashCache;
use super::files::ignore::{Excludes, Rules};
use super::files::index::{Index, Lens};
use super::files::open::Root;
use super::files::paths::Paths;
use super::files::walk::{Entry, Walked, walk};
use super::ground::{Ground, ground};
use super::inner::{self, Around, InnerFindings};
use super::reflog_commits::{self, Lost};
use super::rig::{GitRepo, resolve};
use super::stash::{self, Stash};
use super::{digest, injected_files, objects, other_work};
use crate::domain::ids::Oid;
use crate::domain::other_work::OtherWork;
use crate::ports::repo::RepoError;

/// A sandbox at one moment.
#[derive(Debug)]
pub(super) struct Measured {
    /// The paths of the sandbox, and its HEAD.
    pub(super) ground: Ground,
    /// The hash that its repository names objects with.
    pub(super) format: Format,
    /// The files of HEAD.
    pub(super) tree: Arc<Tree>,
    /// The index, flags included.
    pub(super) index: Arc<Index>,
    /// Its files, and their differences from HEAD.
    pub(super) files: Compared,
    /// All entries that no rule hides, for a removal: `files` lacks those of repositories inside, and copies.
    pub(super) entries: Vec<Entry>,
    /// Paths that ignore rules hide; a hidden directory is one path that ends with `/`.
    pub(super) hidden: Vec<RelPath>,
    /// Mount points in the sandbox.
    pub(super) mounts: Vec<RelPath>,
    /// Repositories inside the sandbox.
    pub(super) inner: InnerFindings,
    /// Stash entries of this sandbox.
    pub(super) stashes: Vec<Stash>,
    /// Stash entries that the sandbox had, and that are no longer in the list.
    pub(super) dropped: Vec<Oid>,
    /// The reason, for people, why a reflog of HEAD cannot be read.
    pub(super) odd_log: Option<String>,
    /// Commits that only the sandbox's reflog and branches name.
    pub(super) lost: Lost,
    /// Commits that the sandbox names and that are incomplete: they cannot be saved.
    pub(super) damaged: BTreeSet<Oid>,
    /// Other things that hold work, for people.
    pub(super) other_work: Vec<OtherWork>,
    /// Digest of everything above and of the content that it refers to.
    pub(super) fingerprint: String,
}

impl Measured {
    /// Tracked paths that hold something a commit does not.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &RelPath> {
        match self.ground.gone {
            // Changes that were not staged were lost with the directory.
            true => self.files.staged.iter(),
            false => self.files.dirty.iter(),
        }
    }

    /// Untracked paths, nested repositories (ending with `/`) among them.
    pub(super) fn untracked(&self) -> impl Iterator<Item = &RelPath> {
        self.files.untracked.iter()
    }

    /// Its administrative directory, and those of worktrees that the agent made inside it.
    pub(super) fn admins(&self) -> Vec<PathBuf> {
        let own = self.ground.admin.iter().cloned();
        own.chain(self.ground.inside.iter().cloned()).collect()
    }
}

/// The trust in the cache of file fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// Files whose fingerprint is unchanged are not read again.
    Known,
    /// Files that may have been written without a change of their fingerprint are read again: a removal depends on
    /// it.
    Afresh,
}

/// Measures the sandbox now. Changes nothing in it.
pub(super) fn measure(repo: &GitRepo, sandbox: &Path, files: Files) -> Result<Measured, RepoError> {
    let ground = ground(repo, sandbox)?;
    if ground.gone {
        return Err(RepoError::NotFound(format!(
            "the sandbox {}",
            sandbox.display()
        )));
    }
    measure_ground(repo, ground, files)
}

/// Measures the rest of a sandbox, even if its directory is gone. None if nothing is left.
pub(super) fn measure_left(
    repo: &GitRepo,
    sandbox: &Path,
    files: Files,
) -> Result<Option<Measured>, RepoError> {
    let ground = ground(repo, sandbox)?;
    match ground.gone {
        true => gone(repo, ground),
        false => measure_ground(repo, ground, files).map(Some),
    }
}

/// Measures all that git still knows of a sandbox whose directory is gone. None if the directory is there, or if git
/// knows nothing.
pub(super) fn measure_gone(repo: &GitRepo, sandbox: &Path) -> Result<Option<Measured>, RepoError> {
    let ground = ground(repo, sandbox)?;
    match ground.gone {
        true => gone(repo, ground),
        false => Ok(None),
    }
}

fn gone(repo: &GitRepo, ground: Ground) -> Result<Option<Measured>, RepoError> {
    let known = ground.admin.as_deref();
    // A sandbox that was never filled had no agent in it, and without an index all files would look deleted.
    let unfilled = ground.note.as_ref().is_some_and(|note| !note.complete);
    let is_unborn = |admin: &Path| unfilled && !admin.join("index").exists();
    if known.is_none_or(is_unborn) {
        return Ok(None);
    }
    if let Some(why) = &ground.garbled {
        return Err(RepoError::Failed(format!(
            "{}: {why}",
            ground.sandbox.display()
        )));
    }
    let measured = measure_ground(repo, ground, Files::Known)?;
    match &measured.index.odd {
        Some(why) => {
            let sandbox = measured.ground.sandbox.display();
            Err(RepoError::Failed(format!("the index of {sandbox}: {why}")))
        }
        None => Ok(Some(measured)),
    }
}

/// The findings on the disk.
#[derive(Default)]
struct Disk {
    files: Compared,
    walked: Walked,
    inner: InnerFindings,
}

/// The things that the files of a sandbox are compared with.
struct Baseline {
    format: Format,
    lens: Lens,
    index: Arc<Index>,
    tree: Arc<Tree>,
}

/// Treats a HEAD that is not whole as absent: the sandbox then consists of its base and of the files on the disk.
fn drop_broken_head(repo: &GitRepo, ground: &mut Ground) -> Result<(), RepoError> {
    match objects::check_theirs(repo) {
        Err(why) if !objects::is_shut(repo) => return Err(why),
        _ => {}
    }
    let Some(head) = &ground.head else {
        return Ok(());
    };
    // Read from ours: an agent may have forged the content of a tree in theirs.
    if !repo.take_whole(std::slice::from_ref(head))?.is_empty() {
        let short = head.short();
        ground.garbled = Some(format!("its HEAD names {short}, which is damaged"));
        ground.head = None;
        ground.stands_for = ground.note.as_ref().map(|note| note.base.clone());
    }
    Ok(())
}

/// Returns the hash that theirs names objects with, and a lens that shows the objects of theirs and ours.
pub(super) fn lens(repo: &GitRepo) -> Result<(Format, Lens), RepoError> {
    let format = Format::named(repo.object_format()?);
    let [theirs, ours] = [repo.theirs(), repo.repo_dir()].map(|dir| dir.join("objects"));
    let lens = Lens::new(admin::scratch(repo)?, format, &theirs, &ours)?;
    Ok((format, lens))
}

fn sight(repo: &GitRepo, ground: &Ground) -> Result<Baseline, RepoError> {
    let (format, lens) = lens(repo)?;
    let index = match &ground.admin {
        Some(admin) => lens.index(admin, &repo.recent)?,
        None => Arc::default(),
    };
    let tree = match ground.head.as_ref().or(ground.stands_for.as_ref()) {
        Some(commit) => {
            repo.take(std::slice::from_ref(commit))?;
            repo.files_of(commit)?
        }
        None => Arc::default(),
    };
    Ok(Baseline {
        format,
        lens,
        index,
        tree,
    })
}

fn measure_ground(repo: &GitRepo, mut ground: Ground, files: Files) -> Result<Measured, RepoError> {
    drop_broken_head(repo, &mut ground)?;
    let sight = sight(repo, &ground)?;
    let disk = match ground.gone {
        true => Disk {
            files: Compared {
                staged: staged(&Against {
                    tree: &sight.tree,
                    index: &sight.index,
                    format: sight.format,
                }),
                ..Compared::default()
            },
            inner: left_modules(repo, &ground, &sight)?,
            ..Disk::default()
        },
        false => disk(repo, &ground, &sight, files)?,
    };
    let reflog = reflog_commits::reflogs(repo, &ground)?;
    // Stash entries are copied to ours, pinned and judged there. HEAD is in ours already.
    let note = ground.note.as_ref();
    let (stashes, mut damaged) = stash::whole(repo, &ground, &reflog)?;
    stash::pin(repo, note, &stashes)?;
    let dropped = stash::dropped(repo, note, &stashes)?;
    let find = |damaged: &_| reflog_commits::lost(repo, note, &ground, &reflog, damaged);
    let tips = |lost: &Lost| lost.tips.iter().chain(&lost.own).cloned().collect();
    let (lost, more) = repo.take_tips(find, tips)?;
    damaged.extend(more);
    let mut measured = Measured {
        ground,
        format: sight.format,
        tree: sight.tree,
        index: sight.index,
        files: disk.files,
        entries: disk.walked.entries,
        hidden: disk.walked.hidden,
        mounts: disk.walked.mounts,
        inner: disk.inner,
        stashes,
        dropped,
        odd_log: reflog.odd,
        lost,
        damaged,
        other_work: Vec::new(),
        fingerprint: String::new(),
    };
    measured.other_work = other_work::list(&measured)?;
    measured.fingerprint = digest::of(&measured)?;
    Ok(measured)
}

/// Returns the cache of file fingerprints.
fn known(repo: &GitRepo, root: &Root, files: Files) -> HashCache {
    let list = super::ground::seen_file(repo, root.path());
    let mut seen = HashCache::read(&list, &repo.recent);
    if files == Files::Afresh {
        seen.doubt(root.is_in_memory());
    }
    seen
}

fn disk(
    repo: &GitRepo,
    ground: &Ground,
    sight: &Baseline,
    files: Files,
) -> Result<Disk, RepoError> {
    let (tree, index, format) = (&*sight.tree, &*sight.index, sight.format);
    let sandbox = ground.sandbox.as_path();
    let root = Root::open(sandbox).at("cannot read", sandbox)?;
    let excludes = super::ignored::excludes(repo);
    let listed = index.entries.iter().map(|staged| &staged.path);
    let tracked = Paths::of(tree.keys().chain(listed.clone()));
    let own = injected_files::names(ground.note.as_ref());
    let shown = Paths::of(tree.keys().chain(listed).chain(&own));
    let mut rules = rules(ground, &excludes, &shown, index);
    let mut walked = walk(&root, &mut rules).at("cannot read", sandbox)?;
    all_read(&walked)?;
    let mut seen = known(repo, &root, files);
    let entries = match files {
        Files::Afresh => walked.entries.clone(),
        Files::Known => std::mem::take(&mut walked.entries),
    };
    let entries = inner::outside(entries, &walked.repositories, b"", &tracked);
    let entries = injected_files::without_copies(&root, entries, ground.note.as_ref(), &tracked);
    let scratch = sight.lens.git_dir();
    let base = ground.note.as_ref().map(|note| &note.base);
    let judge = Judge {
        // The tree's blobs are in ours, like the tree.
        git: || repo.git().env("GIT_DIR", repo.repo_dir()),
        root: &root,
        lists: lists(tree),
        scratch: &scratch,
        prefix: b"",
        lfs: Lfs {
            ours: repo.repo_dir(),
            commits: ground.head.as_ref().zip(base),
        },
    };
    let against = Against {
        tree,
        index,
        format,
    };
    let mut files = compare(&root, entries, &against, &mut seen, |it| judge.judge(it))?;
    injected_files::not_work(&mut files.untracked);
    let around = Around {
        repo,
        root: &root,
        admin: ground.admin.as_deref(),
        index,
        tree,
        head: ground.head.as_ref(),
        base,
        excludes: &excludes,
        format,
    };
    let mut inner = inner::find(&around, &walked, &files.items, &mut seen)?;
    inner.apply(&mut files, &mut walked.hidden);
    seen.tidy(files.items.iter().map(|item| &item.entry));
    seen.write(&super::ground::seen_file(repo, sandbox), &repo.recent)?;
    Ok(Disk {
        files,
        walked,
        inner,
    })
}

/// Returns the rules that leave out our links and the sandbox's own `.git` link.
pub(super) fn rules<'a>(
    ground: &Ground,
    excludes: &'a Excludes,
    shown: &'a Paths<'a>,
    index: &Index,
) -> Rules<'a> {
    let mut rules = Rules::new(excludes, shown);
    let left_out = index.entries.iter().filter(|staged| staged.skip);
    left_out.for_each(|staged| rules.left_out(&staged.path));
    for name in injected_files::EXCLUDED.map(str::as_bytes) {
        if injected_files::is_ours(&ground.sandbox, name) {
            rules.skip(name);
        }
    }
    if ground.is_linked() {
        rules.skip(&b".git"[..]);
    }
    rules
}

/// Refuses if anything that may be work cannot be read.
fn all_read(walked: &Walked) -> Result<(), RepoError> {
    match walked.closed.iter().find(|closed| !closed.hidden) {
        None => Ok(()),
        Some(closed) => {
            let path = super::bytes::lossy(&closed.path);
            let what = format!("cannot read {path}: {}", closed.why);
            Err(RepoError::Failed(what))
        }
    }
}

/// Finds the submodules of a sandbox whose directory is gone: their git directories are in its administrative
/// directory.
fn left_modules(
    repo: &GitRepo,
    ground: &Ground,
    sight: &Baseline,
) -> Result<InnerFindings, RepoError> {
    let empty = admin::scratch(repo)?;
    let around = Around {
        repo,
        root: &Root::open(empty.path()).at("cannot read", empty.path())?,
        admin: ground.admin.as_deref(),
        index: &sight.index,
        tree: &sight.tree,
        head: ground.head.as_ref(),
        base: ground.note.as_ref().map(|note| &note.base),
        excludes: &Excludes::default(),
        format: sight.format,
    };
    inner::find(&around, &Walked::default(), &[], &mut HashCache::default())
}

/// Compares the files of a sandbox with its HEAD, and measures nothing else.
pub(super) fn glance(repo: &GitRepo, sandbox: &Path) -> Result<(Ground, Compared), RepoError> {
    let mut ground = entry_links::locate(repo, sandbox).and_then(|_| ground(repo, sandbox))?;
    drop_broken_head(repo, &mut ground)?;
    let sight = sight(repo, &ground)?;
    let disk = disk(repo, &ground, &sight, Files::Known)?;
    Ok((ground, disk.files))
}

/// Resolves an id to a commit of ours or theirs.
pub(super) fn commit(repo: &GitRepo, id: &Oid) -> Result<Option<Oid>, RepoError> {
    match repo.known().and_then(|known| known.commit(id.as_str())) {
        Some(commit) => Ok(Some(commit)),
        None => resolve(repo.lens(), id.as_str()),
    }
}
