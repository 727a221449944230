//! Stores the content of a measured sandbox as blobs, and lists it. Blobs of HEAD are not stored twice.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::super::admin::At;
use super::super::bytes::{self, RelPath};
use super::super::command::Git;
use super::super::files::compare::{Item, read};
use super::super::files::hash_cache::HashCache;
use super::super::files::open::Root;
use super::super::files::store::{Store, Unstored};
use super::super::files::walk::{Entry, Kind, all_below};
use super::super::ground::seen_file;
use super::super::inner::Home;
use super::super::measure::Measured;
use super::super::object_copy::looked_up;
use super::super::other_work::ASIDE;
use super::super::rig::GitRepo;
use super::manifest::{EntryRoot, Line, Numbers};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Names in the administrative directory that are not state of the agent's work.
const NOT_STATE: &[&str] = &["gitdir", "commondir", "locked"];

/// The result of storing a sandbox.
pub(super) struct Capture {
    /// A line for every entry.
    pub(super) lines: Vec<Line>,
    /// The blobs that HEAD does not reach.
    pub(super) blobs: BTreeSet<Oid>,
    /// Bytes of file content among them.
    pub(super) bytes: u64,
    /// Pipes, sockets and devices.
    pub(super) other: Vec<String>,
}

/// An entry to save.
struct Planned<'a> {
    home: Home,
    root: &'a Root,
    entry: Entry,
    id: Option<Oid>,
}

/// The directories that contain the entries.
struct Roots {
    sandbox: Option<Root>,
    admin: Option<Root>,
    other: HashMap<std::path::PathBuf, Root>,
}

impl Roots {
    fn of(measured: &Measured) -> Result<Self, RepoError> {
        let open = |dir: &Path| Root::open(dir).at("cannot read", dir);
        let ground = &measured.ground;
        let mut other = HashMap::new();
        for (home, _) in &measured.inner.more {
            if let Home::Other(dir) = home
                && !other.contains_key(dir)
            {
                other.insert(dir.clone(), open(dir)?);
            }
        }
        Ok(Self {
            sandbox: match ground.gone {
                true => None,
                false => Some(open(&ground.sandbox)?),
            },
            admin: ground.admin.as_deref().map(open).transpose()?,
            other,
        })
    }

    fn get(&self, home: &Home) -> Option<&Root> {
        match home {
            Home::Sandbox => self.sandbox.as_ref(),
            Home::Admin => self.admin.as_ref(),
            Home::Other(dir) => self.other.get(dir),
        }
    }
}

/// Lists the entries of the sandbox's work to save, with the ids of all files.
fn plan<'a>(
    repo: &GitRepo,
    measured: &Measured,
    roots: &'a Roots,
) -> Result<Vec<Planned<'a>>, RepoError> {
    if let Some(closed) = measured.inner.inner.iter().find(|inner| inner.closed) {
        let path = bytes::lossy(&closed.path);
        let what = format!("parts of {path} cannot be read: it cannot be saved");
        return Err(RepoError::Failed(what));
    }
    if let Some(mount) = measured.mounts.first() {
        let path = measured.ground.sandbox.join(bytes::path(mount));
        let what = format!(
            "{} is a mount point: run `umount`, then the rest can be saved",
            path.display()
        );
        return Err(RepoError::Failed(what));
    }
    let own = measured
        .files
        .items
        .iter()
        .map(|item| (Home::Sandbox, item));
    let more = measured
        .inner
        .more
        .iter()
        .map(|(home, item)| (home.clone(), item));
    let mut known: HashSet<(Home, &RelPath)> = HashSet::new();
    let (file, mut planned) = (seen_file(repo, &measured.ground.sandbox), Vec::new());
    let mut seen = HashCache::read(&file, &repo.recent);
    for (home, Item { entry, id }) in own.chain(more) {
        let Some(root) = roots.get(&home) else {
            continue;
        };
        if !known.insert((home.clone(), &entry.path)) {
            continue;
        }
        let (entry, id) = match id {
            None if entry.git_mode().is_some() => {
                // The file is unchanged since the checkout, and was not read before.
                match read(root, entry.clone(), measured.format, &mut seen)? {
                    Some((entry, id)) => (entry, Some(id)),
                    None => continue,
                }
            }
            id => (entry.clone(), id.clone()),
        };
        planned.push(Planned {
            home,
            root,
            entry,
            id,
        });
    }
    seen.write(&file, &repo.recent)?;
    Ok(planned)
}

/// Returns the blobs that are reachable from a ref to HEAD.
fn known(measured: &Measured) -> HashSet<&Oid> {
    match measured.ground.head {
        Some(_) => measured.tree.values().map(|(_, id)| id).collect(),
        None => HashSet::new(),
    }
}

/// Returns the number of bytes of files that [`capture`] would store, without holes and git's own state.
pub(super) fn size(repo: &GitRepo, measured: &Measured) -> Result<u64, RepoError> {
    let roots = Roots::of(measured)?;
    let known = known(measured);
    let mut counted = HashSet::new();
    let mut total = 0;
    for planned in plan(repo, measured, &roots)? {
        if let Some(id) = planned.id
            && !known.contains(&id)
            && counted.insert(id)
        {
            total += planned.entry.weight();
        }
    }
    Ok(total)
}

/// Stores everything. Changes nothing in the sandbox.
///
/// # Errors
/// [`Unstored::Changed`] if a file changed since it was measured.
pub(super) fn capture<F: Fn() -> Git>(
    repo: &GitRepo,
    store: &mut Store<F>,
    measured: &Measured,
) -> Result<Capture, Unstored> {
    let roots = Roots::of(measured)?;
    let known = known(measured);
    let mut list = List::default();
    let mut bytes = 0;
    for planned in plan(repo, measured, &roots)? {
        let Planned {
            home,
            root,
            entry,
            id,
        } = planned;
        if let Some(id) = id.as_ref().filter(|id| !known.contains(id)) {
            store.entry(root, &entry, id)?;
            if list.blobs.insert(id.clone()) {
                bytes += entry.weight();
            }
        }
        list.add(&home, entry, id);
    }
    if let Some(root) = &roots.admin {
        for entry in state(root)? {
            let read = read(root, entry, measured.format, &mut HashCache::default())?;
            let Some((entry, id)) = read else { continue };
            store.entry(root, &entry, &id)?;
            list.blobs.insert(id.clone());
            list.add(&Home::Admin, entry, Some(id));
        }
    }
    if measured.ground.gone {
        list.lines.extend(as_staged(repo, measured)?);
    }
    store.flush()?;
    list.lines
        .sort_by(|a, b| (a.place, &a.path).cmp(&(b.place, &b.path)));
    list.lines
        .dedup_by(|a, b| (a.place, &a.path) == (b.place, &b.path));
    let is_other = |line: &&Line| line.kind == Kind::Other;
    let other = list.lines.iter().filter(is_other);
    Ok(Capture {
        other: other.map(|line| bytes::lossy(&line.path)).collect(),
        lines: list.lines,
        blobs: list.blobs,
        bytes,
    })
}

/// Lists the files of a sandbox whose directory is gone, by its index. Their blobs are copied with the staged
/// objects.
fn as_staged(repo: &GitRepo, measured: &Measured) -> Result<Vec<Line>, RepoError> {
    let merged = measured
        .index
        .entries
        .iter()
        .filter(|it| it.stage == 0 && !it.skip);
    let merged: Vec<_> = merged.filter(|it| !it.promised).collect();
    let ids = merged.iter().map(|it| &it.id);
    let sizes = looked_up(repo.lens(), "%(objectsize)", ids)?;
    let lines = merged.iter().zip(sizes).filter_map(|(staged, (_, size))| {
        let (kind, mode) = match staged.mode.as_str() {
            "160000" => (Kind::Dir, 0o755),
            "120000" => (Kind::Link, 0o777),
            "100755" => (Kind::File, 0o755),
            _ => (Kind::File, 0o644),
        };
        // A missing blob cannot be restored.
        let size = match kind {
            Kind::Dir => 0,
            _ => size?.parse().ok()?,
        };
        Some(Line {
            place: EntryRoot::Work,
            path: staged.path.clone(),
            kind,
            mode,
            size,
            modified: (
                measured.ground.note.as_ref().map_or(0, |note| note.created),
                0,
            ),
            id: (kind != Kind::Dir).then(|| staged.id.clone()),
            file: None,
        })
    });
    Ok(lines.collect())
}

/// The list under construction.
#[derive(Default)]
struct List {
    lines: Vec<Line>,
    blobs: BTreeSet<Oid>,
    numbers: Numbers,
    others: Vec<std::path::PathBuf>,
}

impl List {
    fn add(&mut self, home: &Home, entry: Entry, id: Option<Oid>) {
        let place = match home {
            Home::Sandbox => EntryRoot::Work,
            Home::Admin => EntryRoot::Admin,
            Home::Other(dir) => {
                let at = self.others.iter().position(|known| known == dir);
                EntryRoot::Other(at.unwrap_or_else(|| {
                    self.others.push(dir.clone());
                    self.others.len() - 1
                }))
            }
        };
        let shared = entry.kind == Kind::File && entry.links > 1 && place == EntryRoot::Work;
        self.lines.push(Line {
            place,
            kind: entry.kind,
            mode: entry.stamp.mode,
            size: entry.stamp.size,
            modified: entry.stamp.modified,
            id,
            file: shared.then(|| self.numbers.of(entry.stamp.inode)),
            path: entry.path,
        });
    }
}

/// Returns the files of the administrative directory that describe the agent's work, including the index.
fn state(root: &Root) -> Result<Vec<Entry>, RepoError> {
    let mut entries = all_below(root, b"")?;
    entries.retain(|entry| entry.git_mode().is_some() && is_state(&entry.path));
    Ok(entries)
}

/// Returns true if a file of an administrative directory describes the agent's work.
pub(super) fn is_state(path: &[u8]) -> bool {
    let text = bytes::lossy(path);
    let first = text.split('/').next().unwrap_or_default();
    first != "modules"
        && !NOT_STATE.contains(&text.as_str())
        && !text.ends_with(".lock")
        && (!first.contains(".aside") || ASIDE.iter().any(|kept| first.starts_with(kept)))
}
