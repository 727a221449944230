//! Restores salvage of the first format, which has git trees instead of a list: HEAD (detached), the exact index,
//! files as git writes them, nested repositories. This format is no longer written.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::admin::{failed, scratch};
use super::super::bytes::{self, RelPath};
use super::super::command::{CHECKOUT, Git};
use super::super::files::hash::Format;
use super::super::files::index::Lens;
use super::super::rig::{GitRepo, oid};
use super::super::verbatim::{Raw, record_path};
use super::manifest::{Manifest, blob};
use super::restore::worktree;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The directory of git directories of submodules that were not checked out.
const MODULES: &[u8] = b".git/modules";

/// Returns the records of an index, all stages: `<mode> <oid> <stage>\t<path>`.
fn index(git: Git) -> Result<Vec<Vec<u8>>, RepoError> {
    let output = git.args(["ls-files", "-s", "-z"]).run()?;
    Ok(bytes::split(&output.stdout).map(<[u8]>::to_vec).collect())
}

fn is_link(record: &[u8]) -> bool {
    record.starts_with(b"160000 ")
}

fn is_merged(record: &[u8]) -> bool {
    let tab = record.iter().position(|byte| *byte == b'\t');
    tab.is_some_and(|tab| record[..tab].ends_with(b" 0"))
}

/// A restore in progress.
struct Restore<'a> {
    repo: &'a GitRepo,
    raw: Raw,
    /// `refs/horde/salvage/...`, without the last part.
    prefix: String,
    lists: Lists,
    /// The directory that it is built in.
    to: &'a Path,
    admin: PathBuf,
}

/// Builds the worktree.
pub(super) fn build(
    repo: &GitRepo,
    meta: &str,
    manifest: &Manifest,
    to: &Path,
    home: &Path,
) -> Result<(), RepoError> {
    let prefix = meta.strip_suffix("/meta").unwrap_or(meta);
    let head = match &manifest.head {
        Some(head) => format!("{head}\n"),
        None => format!(
            "ref: refs/heads/{}-restored\n",
            manifest.branch.as_deref().unwrap_or("head")
        ),
    };
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let admin = worktree(repo, &name, head, to)?;
    let restore = Restore {
        repo,
        raw: Raw::new(repo)?,
        prefix: prefix.to_owned(),
        lists: Lists::read(repo, meta)?,
        to,
        admin,
    };
    restore.index()?;
    restore.unchanged_files()?;
    restore.exact_files()?;
    restore.nested()?;
    restore.flags()?;
    restore.state()?;
    restore.verify()?;
    restore.link_nested(home)
}

impl Restore<'_> {
    fn git(&self) -> Git {
        self.repo
            .work(self.to, &self.admin.join("index"))
            .limit(CHECKOUT)
    }

    /// Returns a tree of the salvage, by its name below the prefix.
    fn tree(&self, name: &str) -> Result<Oid, RepoError> {
        let name = format!("{}/{name}", self.prefix);
        let output = self
            .repo
            .git()
            .args(["rev-parse", "--verify", &name])
            .run()?;
        oid(&output.text())
    }

    /// Writes every entry in every stage.
    fn index(&self) -> Result<(), RepoError> {
        self.git()
            .args(["update-index", "-z", "--index-info"])
            .stdin(bytes::join(self.lists.index.iter().map(Vec::as_slice)))
            .run()?;
        Ok(())
    }

    /// Writes files that match the index as git does, with filters.
    fn unchanged_files(&self) -> Result<(), RepoError> {
        let exact = self.lists.raw.iter().map(|record| record_path(record));
        let absent = self.lists.absent.iter().map(Vec::as_slice);
        let other: HashSet<&[u8]> = exact.chain(absent).collect();
        let mut files = Vec::new();
        for record in index(self.git())? {
            let path = record_path(&record);
            if !is_merged(&record) || other.contains(path) {
                continue;
            }
            if is_link(&record) {
                let dir = self.to.join(bytes::path(path));
                fs::create_dir_all(&dir).map_err(|error| failed("cannot make", &dir, &error))?;
            } else {
                files.push(path.to_vec());
            }
        }
        self.git()
            .args(["checkout-index", "-u", "-z", "--stdin"])
            .stdin(bytes::join(files.iter().map(Vec::as_slice)))
            .run()?;
        Ok(())
    }

    /// Writes changed and untracked files, byte for byte.
    fn exact_files(&self) -> Result<(), RepoError> {
        let index = self.raw.index("exact");
        index.load(self.lists.raw.iter().map(Vec::as_slice))?;
        index.write_files(self.to)
    }

    /// Returns the nested repositories by number, each with the path of its files if it is checked out, and that of
    /// its git directory, for a worktree at `at`.
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

    /// Writes the git directories of nested repositories, so that they are repositories again.
    fn nested(&self) -> Result<(), RepoError> {
        let make = |dir: &Path| {
            fs::create_dir_all(dir).map_err(|error| failed("cannot make", dir, &error))
        };
        for (n, dir, target) in self.repositories(self.to) {
            // git recognises a git directory by these, and a tree contains no empty directory.
            for name in ["objects", "refs"] {
                make(&target.join(name))?;
            }
            let index = self.raw.index(&format!("nested-{n}"));
            index.read(&self.tree(&format!("nested-{n}^{{tree}}"))?)?;
            index.write_files(&target)?;
            dir.as_deref().map_or(Ok(()), make)?;
        }
        self.link_nested(self.to)?;
        let format = Format::named(self.repo.object_format()?);
        for (_, dir, target) in self.repositories(self.to) {
            let Some(dir) = dir else { continue };
            // The directories of its submodules that are not checked out: git would show them as deleted. Its own
            // configuration is an agent's and is not read.
            let index =
                Lens::new(scratch(self.repo)?, format, &[])?.index(&target, &self.repo.recent)?;
            for link in index.entries.iter().filter(|staged| staged.is_link()) {
                make(&dir.join(bytes::path(&link.path)))?;
            }
        }
        Ok(())
    }

    /// Makes nested repositories and their separate git directories name each other by their paths in a worktree at
    /// `there`.
    fn link_nested(&self, there: &Path) -> Result<(), RepoError> {
        let here = self.repositories(self.to).into_iter();
        for ((_, dir, target), (_, to, leads)) in here.zip(self.repositories(there)) {
            // Run where git finds no repository: that of the work tree is theirs.
            let config = Git::in_dir(Path::new("/")).args(["config", "--file"]);
            let config = config.arg(target.join("config"));
            let Some((dir, to)) = dir.zip(to) else {
                // git would otherwise enter the former directory of its files.
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

    /// Sets the flags: intent-to-add, skip-worktree and assume-unchanged.
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

    /// Restores the state of a rebase, merge, pick or bisect, and HEAD's reflog; HEAD itself stays detached.
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

    /// Verifies the result: the index must be the salvaged one, and the files must hash to the salvaged ids.
    fn verify(&self) -> Result<(), RepoError> {
        let wrong = |what: &str| {
            RepoError::Failed(format!(
                "{}: {what} differs from the salvage",
                self.to.display()
            ))
        };
        let mut index = index(self.git())?;
        index.retain(|record| {
            let path = record_path(record);
            !self.lists.intent.iter().any(|promised| promised == path)
        });
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

/// The lists for machines: NUL-separated files in the tree of `meta`.
#[derive(Debug, Default)]
struct Lists {
    /// Index records, all stages.
    index: Vec<Vec<u8>>,
    /// Index records of files stored byte for byte.
    raw: Vec<Vec<u8>>,
    /// Tracked paths that did not exist.
    absent: Vec<RelPath>,
    /// Paths with intent-to-add.
    intent: Vec<RelPath>,
    /// Paths with skip-worktree.
    skip: Vec<RelPath>,
    /// Paths with assume-unchanged.
    assume: Vec<RelPath>,
    /// Nested repositories: path, and place of the git directory (`s:` in the sandbox, `a:` in the administrative
    /// directory, `-` elsewhere), alternating.
    nested: Vec<RelPath>,
}

impl Lists {
    /// Reads the lists.
    fn read(repo: &GitRepo, meta: &str) -> Result<Self, RepoError> {
        let list = |name: &str| -> Result<Vec<Vec<u8>>, RepoError> {
            let list = blob(repo.git(), meta, name)?;
            Ok(bytes::split(&list).map(<[u8]>::to_vec).collect())
        };
        Ok(Self {
            index: list("index")?,
            raw: list("raw")?,
            absent: list("absent")?,
            intent: list("intent")?,
            skip: list("skip")?,
            assume: list("assume")?,
            nested: list("nested")?,
        })
    }
}
