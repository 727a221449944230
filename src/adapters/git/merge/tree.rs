//! The pruned three-way merge of trees: equal subtrees are never opened, so it costs what the
//! change costs, not what the repository holds.
//!
//! It decides only what is beyond doubt. Whatever could involve a rename, a type change, a merge
//! driver or a conflict is a [`Stop::Doubt`], and the `git` program is asked instead.

use git2::{MergeFileInput, ObjectType, Oid, Repository, Tree, merge_file};

use super::attributes;

/// Why there is no merged tree.
#[derive(Debug)]
pub(super) enum Stop {
    /// `git` must decide; for tests and logs, why.
    Doubt(&'static str),
    /// The repository could not be read or written.
    Git(git2::Error),
}

impl From<git2::Error> for Stop {
    fn from(error: git2::Error) -> Self {
        Self::Git(error)
    }
}

/// Larger files are merged by `git`.
const CONTENT_MAX: usize = 16 * 1024 * 1024;
/// Deeper trees are merged by `git`.
const DEPTH_MAX: usize = 512;

const TREE: i32 = 0o040_000;
const REGULAR: i32 = 0o100_644;
const EXECUTABLE: i32 = 0o100_755;

/// Merges the trees and writes the result. `driven`: whether attributes outside of the trees may
/// choose how contents are merged; asked only when a content is merged.
///
/// # Errors
/// [`Stop`]: there is doubt, or git failed.
pub(super) fn merge(
    repo: &Repository,
    driven: &dyn Fn() -> bool,
    base: Oid,
    ours: Oid,
    theirs: Oid,
) -> Result<Oid, Stop> {
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
    match (Merger { repo, driven }).directory(&trees, false, 0)? {
        Some(tree) => Ok(tree),
        None => Ok(repo.treebuilder(None)?.write()?),
    }
}

/// One thing in its three versions.
struct Sides<T> {
    base: Option<T>,
    ours: Option<T>,
    theirs: Option<T>,
}

/// What a name refers to: object and mode.
type Item = (Oid, i32);

/// What becomes of a name.
enum Verdict {
    /// This, or nothing.
    Take(Option<Item>),
    /// Open the three trees.
    Descend,
    /// Merge the three contents; the mode is settled.
    Content(i32),
}

struct Merger<'r> {
    repo: &'r Repository,
    driven: &'r dyn Fn() -> bool,
}

impl Merger<'_> {
    /// Merges one directory; none when nothing is left in it. `driven`: an attribute above may
    /// choose how contents are merged.
    fn directory(
        &self,
        trees: &Sides<Tree<'_>>,
        driven: bool,
        depth: usize,
    ) -> Result<Option<Oid>, Stop> {
        if depth > DEPTH_MAX {
            return Err(Stop::Doubt("the tree is very deep"));
        }
        let driven = driven || self.attributes(trees)?;
        let start = trees.ours.as_ref();
        let mut built = self.repo.treebuilder(start)?;
        let (mut removed, mut added) = ([false; 2], [false; 2]);
        for name in names(trees) {
            let item = |tree: &Option<Tree<'_>>| {
                let entry = tree.as_ref()?.get_name_bytes(&name)?;
                Some((entry.id(), entry.filemode_raw()))
            };
            let items = Sides {
                base: item(&trees.base),
                ours: item(&trees.ours),
                theirs: item(&trees.theirs),
            };
            for (side, item) in [items.ours, items.theirs].into_iter().enumerate() {
                removed[side] |= items.base.is_some() && item.is_none();
                added[side] |= items.base.is_none() && item.is_some();
            }
            let merged = match judge(&items)? {
                Verdict::Take(item) => {
                    self.refuse_hidden_removals(&items)?;
                    item
                }
                Verdict::Descend => self.descend(&items, driven, depth)?,
                Verdict::Content(_) if driven || (self.driven)() => {
                    return Err(Stop::Doubt("an attribute may choose a merge driver"));
                }
                Verdict::Content(mode) => Some((self.content(&items)?, mode)),
            };
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
        // A removal here and an addition there may be one half each of a renamed directory.
        if (removed[0] && added[1]) || (removed[1] && added[0]) {
            return Err(Stop::Doubt("one side removes where the other adds"));
        }
        if built.is_empty() {
            return Ok(None);
        }
        Ok(Some(built.write()?))
    }

    fn descend(
        &self,
        items: &Sides<Item>,
        driven: bool,
        depth: usize,
    ) -> Result<Option<Item>, Stop> {
        let open = |item: Option<Item>| {
            item.map(|(id, _)| self.repo.find_tree(id))
                .transpose()
                .map_err(Stop::from)
        };
        let trees = Sides {
            base: open(items.base)?,
            ours: open(items.ours)?,
            theirs: open(items.theirs)?,
        };
        let merged = self.directory(&trees, driven, depth + 1)?;
        Ok(merged.map(|id| (id, TREE)))
    }

    /// Whether a `.gitattributes` of this directory could choose how contents are merged.
    fn attributes(&self, trees: &Sides<Tree<'_>>) -> Result<bool, Stop> {
        let all = [&trees.base, &trees.ours, &trees.theirs];
        for tree in all.into_iter().flatten() {
            let Some(entry) = tree.get_name_bytes(b".gitattributes") else {
                continue;
            };
            if entry.kind() == Some(ObjectType::Blob)
                && attributes::may_drive_merges(self.repo.find_blob(entry.id())?.content())
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn content(&self, items: &Sides<Item>) -> Result<Oid, Stop> {
        let blob = |item: Option<Item>| match item {
            Some((id, _)) => Ok(self.repo.find_blob(id)?),
            None => Err(Stop::Doubt("both sides add it differently")),
        };
        let (base, ours, theirs) = (blob(items.base)?, blob(items.ours)?, blob(items.theirs)?);
        for content in [base.content(), ours.content(), theirs.content()] {
            if content.len() > CONTENT_MAX || is_binary(content) {
                return Err(Stop::Doubt("a content is binary or very large"));
            }
        }
        let input = |content| {
            let mut input = MergeFileInput::new();
            input.content(content);
            input
        };
        let merged = merge_file(
            &input(base.content()),
            &input(ours.content()),
            &input(theirs.content()),
            None,
        )?;
        if !merged.is_automergeable() {
            return Err(Stop::Doubt("contents conflict"));
        }
        Ok(self.repo.blob(merged.content())?)
    }

    /// A path that both sides removed may be a rename that only `git` can see, also where the
    /// sides agree and are therefore not opened.
    fn refuse_hidden_removals(&self, items: &Sides<Item>) -> Result<(), Stop> {
        if items.ours != items.theirs || items.base == items.ours {
            return Ok(());
        }
        let Some(base) = items.base else {
            return Ok(());
        };
        if self.loses_a_path(base, items.ours, 0)? {
            return Err(Stop::Doubt("both sides remove a path"));
        }
        Ok(())
    }

    /// Whether a path of `before` is not in `after`.
    fn loses_a_path(&self, before: Item, after: Option<Item>, depth: usize) -> Result<bool, Stop> {
        let Some(after) = after else {
            return Ok(true);
        };
        if before == after {
            return Ok(false);
        }
        if depth > DEPTH_MAX || is_tree(before) != is_tree(after) {
            return Ok(true);
        }
        if !is_tree(before) {
            return Ok(false);
        }
        let (before, after) = (
            self.repo.find_tree(before.0)?,
            self.repo.find_tree(after.0)?,
        );
        for entry in &before {
            let now = after.get_name_bytes(entry.name_bytes());
            let now = now.map(|entry| (entry.id(), entry.filemode_raw()));
            if self.loses_a_path((entry.id(), entry.filemode_raw()), now, depth + 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_tree(item: Item) -> bool {
    item.1 == TREE
}

/// What becomes of one name, as far as that is beyond doubt.
fn judge(items: &Sides<Item>) -> Result<Verdict, Stop> {
    let Sides { base, ours, theirs } = *items;
    if ours == theirs || base == theirs {
        return Ok(Verdict::Take(ours));
    }
    if base == ours {
        return Ok(Verdict::Take(theirs));
    }
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return Err(Stop::Doubt("one side removes what the other changes"));
    };
    let present = [base, Some(ours), Some(theirs)];
    let mut present = present.into_iter().flatten();
    if present.clone().all(is_tree) {
        return Ok(Verdict::Descend);
    }
    let Some(base) = base else {
        return Err(Stop::Doubt("both sides add it differently"));
    };
    if !present.all(|(_, mode)| mode == REGULAR || mode == EXECUTABLE) {
        return Err(Stop::Doubt("types differ, or it is a link or a submodule"));
    }
    let mode = pick(base.1, ours.1, theirs.1).ok_or(Stop::Doubt("modes clash"))?;
    match pick(base.0, ours.0, theirs.0) {
        Some(id) => Ok(Verdict::Take(Some((id, mode)))),
        None => Ok(Verdict::Content(mode)),
    }
}

/// The three-way choice between single values.
fn pick<T: PartialEq>(base: T, ours: T, theirs: T) -> Option<T> {
    if ours == theirs || base == theirs {
        Some(ours)
    } else if base == ours {
        Some(theirs)
    } else {
        None
    }
}

/// Names whose entries are not the same on all three sides, each once.
fn names(trees: &Sides<Tree<'_>>) -> Vec<Vec<u8>> {
    let all = [&trees.base, &trees.ours, &trees.theirs];
    let mut names = std::collections::BTreeSet::new();
    for (which, tree) in all.into_iter().enumerate() {
        for entry in tree.iter().flat_map(|tree| tree.iter()) {
            let same = |other: &Option<Tree<'_>>| {
                let found = other.as_ref()?.get_name_bytes(entry.name_bytes())?;
                Some(found.id() == entry.id() && found.filemode_raw() == entry.filemode_raw())
            };
            let others = all.iter().enumerate().filter(|(at, _)| *at != which);
            if !others
                .map(|(_, tree)| same(tree))
                .all(|same| same == Some(true))
            {
                names.insert(entry.name_bytes().to_vec());
            }
        }
    }
    names.into_iter().collect()
}

/// As git decides it.
fn is_binary(content: &[u8]) -> bool {
    content.iter().take(8000).any(|byte| *byte == 0)
}
