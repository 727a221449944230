//! Brings a salvaged sandbox back as a worktree: HEAD (detached), the exact index, every file byte
//! for byte, nested repositories, and the state of an operation in progress.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::admin::{failed, linked};
use super::super::bytes;
use super::super::command::{CHECKOUT, Git};
use super::super::nested::MODULES;
use super::super::raw::{Raw, record_path};
use super::super::rig::{GitRepo, oid};
use super::super::status;
use super::manifest::{Lists, Manifest};
use super::part;
use crate::domain::ids::Oid;
use crate::ports::repo::{RepoError, SalvageRecord};

/// A restoration under way.
struct Restore<'a> {
    repo: &'a GitRepo,
    raw: Raw,
    /// `refs/horde/salvage/...`, without the last part.
    prefix: String,
    lists: Lists,
    /// Where it is built.
    to: &'a Path,
    admin: PathBuf,
}

/// Makes the worktree, whole or not at all. `to` must not exist.
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
    if let [only] = &record.refs[..] {
        // A commit without a sandbox around it.
        let head = present(repo, record, only)?;
        return worktree(repo, &["--detach"], head.as_str(), to);
    }
    let prefix = record
        .refs
        .iter()
        .find_map(|name| name.strip_suffix("/meta"));
    let prefix = prefix.ok_or_else(|| RepoError::NotFound(format!("salvage {}", record.id)))?;
    let meta = format!("{prefix}/meta");
    present(repo, record, &meta)?;
    let manifest = Manifest::read(repo, &meta)?;
    let admin = add_worktree(repo, &manifest, &meta, to)?;
    let restore = Restore {
        repo,
        raw: Raw::new(repo)?,
        prefix: prefix.to_owned(),
        lists: Lists::read(repo, &meta)?,
        to,
        admin,
    };
    restore.index()?;
    restore.unchanged_files()?;
    restore.exact_files()?;
    restore.nested()?;
    restore.flags()?;
    restore.state()?;
    Git::in_dir(to)
        .args(["status", "--porcelain"])
        .limit(CHECKOUT)
        .run()?;
    restore.verify()?;
    restore.link_nested(home)
}

/// Where a ref of the salvage is.
fn present(repo: &GitRepo, record: &SalvageRecord, name: &str) -> Result<Oid, RepoError> {
    let found = repo.resolve(name)?;
    found.ok_or_else(|| RepoError::NotFound(format!("salvage {}: {name}", record.id)))
}

/// A worktree at a commit.
fn worktree(repo: &GitRepo, how: &[&str], at: &str, to: &Path) -> Result<(), RepoError> {
    let _serial = repo.worktrees();
    Git::in_dir(repo.theirs())
        .args(["worktree", "add", "--quiet"])
        .args(how)
        .arg(to)
        .arg(at)
        .limit(CHECKOUT)
        .run()
        .map(drop)
}

/// A detached worktree at the salvaged HEAD, without files.
fn add_worktree(
    repo: &GitRepo,
    manifest: &Manifest,
    meta: &str,
    to: &Path,
) -> Result<PathBuf, RepoError> {
    let at = match &manifest.head {
        Some(head) => head.clone(),
        None => repo
            .resolve(meta)?
            .ok_or_else(|| RepoError::NotFound(meta.to_owned()))?,
    };
    worktree(repo, &["--detach", "--no-checkout"], at.as_str(), to)?;
    if manifest.head.is_none() {
        // HEAD named a branch without commits, and names one again.
        let wanted = manifest.branch.as_deref().unwrap_or("restored");
        let mut name = format!("refs/heads/{wanted}");
        while repo.their_refs().resolve(&name)?.is_some() {
            name.push_str("-restored");
        }
        Git::in_dir(to)
            .args(["symbolic-ref", "HEAD", &name])
            .run()?;
    }
    linked(to).ok_or_else(|| RepoError::Failed(format!("{} has no git directory", to.display())))
}

impl Restore<'_> {
    fn git(&self) -> Git {
        Git::in_dir(self.to).limit(CHECKOUT)
    }

    /// A tree of the salvage, by its name below the prefix.
    fn tree(&self, name: &str) -> Result<Oid, RepoError> {
        let name = format!("{}/{name}", self.prefix);
        let output = self
            .repo
            .git()
            .args(["rev-parse", "--verify", &name])
            .run()?;
        oid(&output.text())
    }

    /// Every entry in every stage.
    fn index(&self) -> Result<(), RepoError> {
        self.git()
            .args(["update-index", "-z", "--index-info"])
            .stdin(bytes::join(self.lists.index.iter().map(Vec::as_slice)))
            .run()?;
        Ok(())
    }

    /// Files that are as the index has them are written as git writes them, filters included.
    fn unchanged_files(&self) -> Result<(), RepoError> {
        let exact = self.lists.raw.iter().map(|record| record_path(record));
        let absent = self.lists.absent.iter().map(Vec::as_slice);
        let other: HashSet<&[u8]> = exact.chain(absent).collect();
        let mut files = Vec::new();
        for entry in status::index(self.git())? {
            if entry.stage > 0 || other.contains(entry.path.as_slice()) {
                continue;
            }
            if entry.is_gitlink() {
                let dir = self.to.join(bytes::path(&entry.path));
                fs::create_dir_all(&dir).map_err(|error| failed("cannot make", &dir, &error))?;
            } else {
                files.push(entry.path);
            }
        }
        self.git()
            .args(["checkout-index", "-u", "-z", "--stdin"])
            .stdin(bytes::join(files.iter().map(Vec::as_slice)))
            .run()?;
        Ok(())
    }

    /// Changed and untracked files, byte for byte.
    fn exact_files(&self) -> Result<(), RepoError> {
        let index = self.raw.index("exact");
        index.load(self.lists.raw.iter().map(Vec::as_slice))?;
        index.write_files(self.to)
    }

    /// Nested repositories by number: where each is, if it is checked out, and where its git directory is,
    /// in a worktree there.
    fn repositories(&self, at: &Path) -> Vec<(usize, Option<PathBuf>, PathBuf)> {
        let all = self.lists.nested.chunks_exact(2).enumerate();
        let placed = all.filter_map(|(n, about)| {
            let target = match about[1].split_at_checked(2)? {
                (b"s:", below) => at.join(bytes::path(below)),
                (b"a:", below) => self.admin.join(bytes::path(below)),
                _ => return None,
            };
            let out = !about[0].starts_with(MODULES);
            let dir = out.then(|| at.join(bytes::path(&about[0])));
            Some((n, dir, target))
        });
        placed.collect()
    }

    /// Git directories of nested repositories, so that they are repositories again.
    fn nested(&self) -> Result<(), RepoError> {
        let make = |dir: &Path| {
            fs::create_dir_all(dir).map_err(|error| failed("cannot make", dir, &error))
        };
        for (n, dir, target) in self.repositories(self.to) {
            // git knows a git directory by these, and a tree holds no empty directory.
            for name in ["objects", "refs"] {
                make(&target.join(name))?;
            }
            let index = self.raw.index(&format!("nested-{n}"));
            index.read(&self.tree(&format!("nested-{n}^{{tree}}"))?)?;
            index.write_files(&target)?;
            dir.as_deref().map_or(Ok(()), make)?;
        }
        self.link_nested(self.to)?;
        for (_, dir, _) in self.repositories(self.to) {
            let Some(dir) = dir else { continue };
            // Those of its submodules that are not checked out: without a directory they were deleted.
            let index = status::index(Git::in_dir(&dir))?;
            for link in index.iter().filter(|entry| entry.is_gitlink()) {
                make(&dir.join(bytes::path(&link.path)))?;
            }
        }
        Ok(())
    }

    /// Has nested repositories and their git directories, where they are apart, name each other as they
    /// are in a worktree there.
    fn link_nested(&self, there: &Path) -> Result<(), RepoError> {
        let here = self.repositories(self.to).into_iter();
        for ((_, dir, target), (_, to, leads)) in here.zip(self.repositories(there)) {
            let config = Git::in_dir(self.to).args(["config", "--file"]);
            let config = config.arg(target.join("config"));
            let Some((dir, to)) = dir.zip(to) else {
                // git would enter where its files were.
                config.args(["--unset", "core.worktree"]).output()?;
                continue;
            };
            let file = dir.join(".git");
            if target != file {
                let link = [b"gitdir: ", bytes::of(&leads), b"\n"].concat();
                fs::write(&file, link).map_err(|error| failed("cannot write", &file, &error))?;
                config.arg("core.worktree").arg(&to).run()?;
            }
        }
        Ok(())
    }

    /// Promised paths, skip-worktree and assume-unchanged.
    fn flags(&self) -> Result<(), RepoError> {
        if !self.lists.intent.is_empty() {
            self.git()
                .env("GIT_LITERAL_PATHSPECS", "1")
                .args(["add", "--intent-to-add", "--force"])
                .args(["--pathspec-from-file=-", "--pathspec-file-nul"])
                .stdin(bytes::join(self.lists.intent.iter().map(Vec::as_slice)))
                .run()?;
        }
        let flags = [
            ("--skip-worktree", &self.lists.skip),
            ("--assume-unchanged", &self.lists.assume),
        ];
        for (flag, paths) in flags {
            if !paths.is_empty() {
                self.git()
                    .args(["update-index", flag, "-z", "--stdin"])
                    .stdin(bytes::join(paths.iter().map(Vec::as_slice)))
                    .run()?;
            }
        }
        Ok(())
    }

    /// State of a rebase, merge, pick or bisect, and HEAD's reflog; HEAD itself stays detached.
    fn state(&self) -> Result<(), RepoError> {
        let index = self.raw.index("state");
        index.read(&self.tree("meta:state")?)?;
        let zeros = self
            .repo
            .git()
            .args(["rev-parse", "--show-object-format"])
            .run()?
            .text();
        let zeros = "0".repeat(if zeros == "sha256" { 64 } else { 40 });
        let head = format!("0 {zeros} 0\tHEAD").into_bytes();
        index.load([head.as_slice()])?;
        index.write_files(&self.admin)
    }

    /// Reads back: the index must be the salvaged one, the files must hash to the salvaged ones.
    fn verify(&self) -> Result<(), RepoError> {
        let wrong = |what: &str| {
            RepoError::Failed(format!(
                "{}: {what} differs from the salvage",
                self.to.display()
            ))
        };
        let entries = status::index(self.git())?;
        let promised = |path: &Vec<u8>| self.lists.intent.contains(path);
        let index: Vec<_> = entries
            .iter()
            .filter(|entry| !promised(&entry.path))
            .map(|entry| entry.record(&entry.path, entry.stage))
            .collect();
        if index != self.lists.index {
            return Err(wrong("the index"));
        }
        let again = self.raw.index("verify");
        let paths = self.lists.raw.iter().map(|record| record_path(record));
        again.add(self.to, paths)?;
        if again.records()? != self.lists.raw {
            return Err(wrong("a file"));
        }
        let back = self.lists.absent.iter().find(|path| {
            let path = self.to.join(bytes::path(path));
            fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir())
        });
        back.map_or(Ok(()), |_| Err(wrong("a deleted file")))
    }
}
