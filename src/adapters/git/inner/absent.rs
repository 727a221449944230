//! Git directories of submodules that are not checked out (`git submodule deinit`, `git rm`), and directories that
//! their owner closed by permissions.

use std::fs;
use std::path::Path;

use super::super::admin::{At, failed, is_closed};
use super::super::bytes::{self, RelPath};
use super::super::files::compare::{Tree, tree};
use super::super::files::open::{Root, is_nothing};
use super::super::files::walk::Closed;
use super::search::Search;
use super::view::{HeldWork, View, recorded};
use super::{Inner, Kind};
use crate::ports::repo::RepoError;

impl Search<'_, '_> {
    /// Adds the git directories below a `modules` directory that hold work of their own.
    pub(super) fn absent(&mut self, modules: &Path, shown: &[u8]) -> Result<(), RepoError> {
        let root = match Root::open(modules) {
            Ok(root) => root,
            Err(error) if is_nothing(&error) => return Ok(()),
            Err(error) => return Err(failed("cannot list", modules, &error)),
        };
        let mut open: Vec<RelPath> = vec![Vec::new()];
        while let Some(below) = open.pop() {
            let (_, names) = root.list(&below).at("cannot list", modules)?;
            let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted.as_bytes());
            // A git directory whose removal was interrupted may have lost its HEAD.
            if !below.is_empty() && (has("HEAD") || has("objects") && has("refs")) {
                let git_dir = modules.join(bytes::path(&below));
                let name = bytes::below(shown, &below);
                self.module(&git_dir, &name, &below)?;
                // Its own submodules.
                let inner = git_dir.join("modules");
                self.absent(&inner, &bytes::below(&name, b"modules"))?;
                continue;
            }
            // A name may have slashes.
            let dirs = names.iter().filter(|(_, is_dir)| is_dir.unwrap_or(true));
            open.extend(dirs.map(|(name, _)| bytes::below(&below, name)));
            open.sort_by(|a, b| b.cmp(a));
        }
        Ok(())
    }

    fn module(&mut self, git_dir: &Path, shown: &[u8], name: &[u8]) -> Result<(), RepoError> {
        let real = |path: &Path| fs::canonicalize(path).ok();
        let at = real(git_dir);
        if self.present.iter().any(|known| real(known) == at) {
            return Ok(());
        }
        let held = match View::of(self.around.repo, git_dir, self.around.format) {
            Ok(view) => {
                let base = recorded(self.around.repo.lens(), self.around.base, name)?;
                match view.held(self.around.repo, base.as_ref(), &[]) {
                    Ok(None) if has_staged(&view)? => Some(HeldWork::left("staged changes")),
                    Ok(held) => held,
                    Err(error) => Some(HeldWork::left(format!("cannot be inspected: {error}"))),
                }
            }
            Err(error) => Some(HeldWork::left(format!("cannot be inspected: {error}"))),
        };
        if let Some(held) = held {
            self.keep_git_dir(git_dir)?;
            self.add(shown, Kind::Left, held.what);
        }
        Ok(())
    }

    /// Adds a hidden directory that its owner closed, if the owner is this user: the agent's work may be in it. Files
    /// that a container writes as another user are no work.
    pub(super) fn closed(&mut self, closed: &Closed) {
        let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let known = |inner: &Inner| closed.path.starts_with(&bytes::below(&inner.path, b""));
        if is_closed(&self.full(&closed.path), &error) && !self.found.inner.iter().any(known) {
            self.add(
                &closed.path,
                Kind::Ignored,
                format!("cannot be read: {}", closed.why),
            );
            if let Some(last) = self.found.inner.last_mut() {
                last.closed = true;
            }
        }
    }
}

/// Returns true if its index differs from HEAD.
fn has_staged(view: &View) -> Result<bool, RepoError> {
    let index = view.index()?;
    let files = match view.head() {
        Some(head) => tree(view.git(), &head, b"")?,
        None => Tree::default(),
    };
    let same = |(mode, id): &(String, _), it: &super::super::files::index::Staged| {
        (mode, id) == (&it.mode, &it.id) && it.stage == 0
    };
    let staged = &index.entries;
    let all = staged
        .iter()
        .all(|it| files.get(&it.path).is_some_and(|known| same(known, it)));
    // `git submodule deinit` may leave an empty index.
    Ok(index.odd.is_some() || !all || (!staged.is_empty() && staged.len() != files.len()))
}
