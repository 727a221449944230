//! The pruned three-way merge of trees: equal subtrees are never opened, so the cost depends on the change and not on
//! the size of the repository.
//!
//! It only combines paths that one side alone changed, without possible renames. As soon as a path was changed on
//! both sides, or a mode, a link, a submodule, an attributes file or a possible rename is involved, the whole merge
//! is a [`Stop::Doubt`] and is left to the `git` program: contents are never merged here.

use git2::{Oid, Repository, Tree};

/// The reason why there is no merged tree.
#[derive(Debug)]
pub(super) enum Stop {
    /// `git` must decide, for this reason (for tests and logs).
    Doubt(&'static str),
    /// The repository could not be read or written.
    Git(git2::Error),
}

impl From<git2::Error> for Stop {
    fn from(error: git2::Error) -> Self {
        Self::Git(error)
    }
}

/// The largest depth; deeper trees are merged by `git`.
const DEPTH_MAX: usize = 512;
/// The largest number of changed paths; more are merged by `git`, because opening each directory costs as much as git
/// does.
const PATHS_MAX: usize = 50_000;

const TREE: i32 = 0o040_000;
const REGULAR: i32 = 0o100_644;
const EXECUTABLE: i32 = 0o100_755;

/// Merges the trees and writes the result.
///
/// # Errors
/// [`Stop`]: the merge is in doubt, or git failed.
pub(super) fn merge(repo: &Repository, base: Oid, ours: Oid, theirs: Oid) -> Result<Oid, Stop> {
    if ours == theirs || base == theirs {
        return Ok(ours);
    }
    if base == ours {
        return Ok(theirs);
    }
    let trees = Sides {
        base: Some(repo.find_tree(base)?),
        ours: Some(repo.find_tree(ours)?),
        theirs: Some(repo.find_tree(theirs)?),
    };
    let mut merger = Merger {
        repo,
        seen: RenameHints::default(),
    };
    let merged = merger.directory(&trees, 0)?;
    // The removed path may be renamed to the added one, and the other side may add to a removed directory.
    if merger.seen.removed && merger.seen.added {
        return Err(Stop::Doubt("a path is removed and another one added"));
    }
    match merged {
        Some(tree) => Ok(tree),
        None => Ok(repo.treebuilder(None)?.write()?),
    }
}

/// The three versions of a thing.
struct Sides<T> {
    base: Option<T>,
    ours: Option<T>,
    theirs: Option<T>,
}

/// The object and mode of a name.
type Item = (Oid, i32);

/// The changes of both sides, as far as they matter for renames.
#[derive(Default)]
struct RenameHints {
    added: bool,
    removed: bool,
    paths: usize,
}

struct Merger<'r> {
    repo: &'r Repository,
    seen: RenameHints,
}

impl<'r> Merger<'r> {
    /// Merges one directory; none if nothing is left in it.
    fn directory(&mut self, trees: &Sides<Tree<'_>>, depth: usize) -> Result<Option<Oid>, Stop> {
        if depth > DEPTH_MAX {
            return Err(Stop::Doubt("the tree is very deep"));
        }
        let mut built = self.repo.treebuilder(trees.ours.as_ref())?;
        for name in names(&[&trees.base, &trees.ours, &trees.theirs]) {
            let items = Sides {
                base: item(trees.base.as_ref(), &name),
                ours: item(trees.ours.as_ref(), &name),
                theirs: item(trees.theirs.as_ref(), &name),
            };
            let merged = self.name(&name, &items, depth)?;
            if merged == items.ours {
                continue;
            }
            match merged {
                Some((id, mode)) => {
                    built.insert(&name[..], id, mode)?;
                }
                None => built.remove(&name[..])?,
            }
        }
        if built.is_empty() {
            return Ok(None);
        }
        Ok(Some(built.write()?))
    }

    /// Merges one name.
    fn name(
        &mut self,
        name: &[u8],
        items: &Sides<Item>,
        depth: usize,
    ) -> Result<Option<Item>, Stop> {
        let Sides { base, ours, theirs } = *items;
        if base == theirs {
            self.change(name, base, ours, depth)?;
            return Ok(ours);
        }
        if base == ours {
            self.change(name, base, theirs, depth)?;
            return Ok(theirs);
        }
        let directories = [base, ours, theirs].into_iter().flatten().all(is_tree);
        if !directories || ours.is_none() || theirs.is_none() {
            return Err(Stop::Doubt("both sides change a path"));
        }
        let trees = Sides {
            base: self.open(base)?,
            ours: self.open(ours)?,
            theirs: self.open(theirs)?,
        };
        let merged = self.directory(&trees, depth + 1)?;
        Ok(merged.map(|id| (id, TREE)))
    }

    /// Records a change that only one side made to a name, and to everything below it.
    fn change(
        &mut self,
        name: &[u8],
        before: Option<Item>,
        after: Option<Item>,
        depth: usize,
    ) -> Result<(), Stop> {
        if before == after {
            return Ok(());
        }
        self.seen.paths += 1;
        if depth > DEPTH_MAX || self.seen.paths > PATHS_MAX {
            return Err(Stop::Doubt("the change is very large"));
        }
        let present = || [before, after].into_iter().flatten();
        if present().all(is_tree) {
            let trees = [self.open(before)?, self.open(after)?];
            for name in names(&[&trees[0], &trees[1]]) {
                let [before, after] = [&trees[0], &trees[1]].map(|tree| item(tree.as_ref(), &name));
                self.change(&name, before, after, depth + 1)?;
            }
            return Ok(());
        }
        if name == b".gitattributes" {
            return Err(Stop::Doubt("attributes change"));
        }
        if !present().all(|(_, mode)| mode == REGULAR || mode == EXECUTABLE) {
            return Err(Stop::Doubt("it is a link or a submodule, or becomes one"));
        }
        match (before, after) {
            (Some((_, old)), Some((_, new))) if old != new => Err(Stop::Doubt("a mode changes")),
            (Some(_), Some(_)) => Ok(()),
            (before, _) => {
                self.seen.removed |= before.is_some();
                self.seen.added |= before.is_none();
                Ok(())
            }
        }
    }

    fn open(&self, item: Option<Item>) -> Result<Option<Tree<'r>>, Stop> {
        let tree = item.map(|(id, _)| self.repo.find_tree(id)).transpose()?;
        match tree {
            // git drops an empty directory when it merges.
            Some(tree) if tree.is_empty() => Err(Stop::Doubt("a directory is empty")),
            tree => Ok(tree),
        }
    }
}

fn is_tree(item: Item) -> bool {
    item.1 == TREE
}

fn item(tree: Option<&Tree<'_>>, name: &[u8]) -> Option<Item> {
    let entry = tree?.get_name_bytes(name)?;
    Some((entry.id(), entry.filemode_raw()))
}

/// Returns the names whose entries differ between the trees, each once.
fn names(trees: &[&Option<Tree<'_>>]) -> Vec<Vec<u8>> {
    let mut names = std::collections::BTreeSet::new();
    for (which, tree) in trees.iter().enumerate() {
        for entry in tree.iter().flat_map(|tree| tree.iter()) {
            let here = Some((entry.id(), entry.filemode_raw()));
            let mut others = trees.iter().enumerate().filter(|(at, _)| *at != which);
            if others.any(|(_, tree)| item(tree.as_ref(), entry.name_bytes()) != here) {
                names.insert(entry.name_bytes().to_vec());
            }
        }
    }
    names.into_iter().collect()
}
