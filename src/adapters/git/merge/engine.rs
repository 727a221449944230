//! Two engines that read, merge and write: in process with git2, and with the `git` program. The styles do not know
//! which one they use.

use std::path::{Path, PathBuf};

use git2::{ObjectType, Repository, Sort};

use super::commands;
use super::commands::{Apart, Commands};
use super::commit::{Commit, Draft};
use super::tree::{self, Stop};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The result of a three-way merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Joined {
    /// The merged tree.
    Tree(Oid),
    /// The paths that conflict, sorted.
    Conflict(Vec<String>),
}

/// The repository operations that the styles need.
pub(super) trait Engine {
    /// Reads a commit.
    fn commit(&self, id: &Oid) -> Result<Commit, RepoError>;

    /// Returns the commit with its author and message in UTF-8.
    fn utf8(&self, commit: &Commit) -> Result<Commit, RepoError>;

    /// Writes a commit, signed if the repository demands it.
    fn write(&self, draft: &Draft) -> Result<Oid, RepoError>;

    /// Writes a commit that does not land, without a signature.
    fn store(&self, draft: &Draft) -> Result<Oid, RepoError>;

    /// Returns true if written commits are signed.
    fn signs(&self) -> bool;

    /// Returns the best common ancestors.
    fn merge_bases(&self, one: &Oid, other: &Oid) -> Result<Vec<Oid>, RepoError>;

    /// Returns the commits of `head` that none of `known` has, parents first.
    fn missing(&self, known: &[&Oid], head: &Oid) -> Result<Vec<Oid>, RepoError>;

    /// Merges two commits, with their merge bases or with the given one.
    fn join(&self, base: Option<&Commit>, ours: &Oid, theirs: &Oid) -> Result<Joined, RepoError>;
}

/// The engine with git2, which asks the `git` program in doubt.
pub(super) struct InProcess {
    repo: Repository,
    dir: PathBuf,
    fallback: Commands,
}

/// Opens the engine that fits the repository: only `git` if libgit2 cannot open the repository (reftable, sha256,
/// partial clones), or does not see its whole history.
pub(super) fn open(dir: &Path) -> Result<Box<dyn Engine>, RepoError> {
    let Some(engine) = InProcess::open(dir) else {
        return Ok(Box::new(Commands::new(dir, commands::signs(dir)?)));
    };
    Ok(Box::new(engine))
}

/// As [`open`], for commits that do not land: nothing is signed, and objects are written to the other repository.
pub(super) fn open_apart(dir: &Path, apart: Apart) -> Box<dyn Engine> {
    // The settings of the repository decide; the other one has its objects, too.
    let engine = InProcess::open(dir).zip(Repository::open_bare(&apart.dir).ok());
    let fallback = Commands::new(dir, false).apart(apart);
    match engine {
        None => Box::new(fallback),
        Some((engine, repo)) => Box::new(InProcess {
            repo,
            fallback,
            ..engine
        }),
    }
}

impl InProcess {
    /// Opens the repository; none if git2 must not be used here.
    pub(super) fn open(dir: &Path) -> Option<Self> {
        let repo = Repository::open(dir).ok()?;
        let config = repo
            .config()
            .and_then(|mut config| config.snapshot())
            .ok()?;
        if repo.is_shallow() {
            return None;
        }
        let signs = config.get_bool("commit.gpgsign").unwrap_or(false);
        Some(Self {
            repo,
            dir: dir.to_owned(),
            fallback: Commands::new(dir, signs),
        })
    }

    /// Returns the merged tree as far as this process decides it, or the reason why it does not.
    pub(super) fn join_pruned(
        &self,
        base: &Oid,
        ours: &Oid,
        theirs: &Oid,
    ) -> Result<Result<Oid, &'static str>, RepoError> {
        let tree_of = |id: &Oid| Ok::<_, git2::Error>(self.repo.find_commit(raw(id)?)?.tree_id());
        let trees = (|| Ok((tree_of(base)?, tree_of(ours)?, tree_of(theirs)?)))();
        let (base, ours, theirs) = trees.map_err(|error: git2::Error| failed(&error))?;
        match tree::merge(&self.repo, base, ours, theirs) {
            Ok(tree) => Ok(Ok(domain(tree)?)),
            Err(Stop::Doubt(why)) => Ok(Err(why)),
            Err(Stop::Git(error)) => Err(failed(&error)),
        }
    }
}

impl Engine for InProcess {
    fn commit(&self, id: &Oid) -> Result<Commit, RepoError> {
        let read = || {
            let odb = self.repo.odb()?;
            let object = odb.read(raw(id)?)?;
            Ok::<_, git2::Error>((object.kind(), object.data().to_vec()))
        };
        match read() {
            Ok((ObjectType::Commit, body)) => Commit::parse(id, &body),
            Ok(_) => Err(RepoError::Failed(format!("{id} is not a commit"))),
            Err(error) if error.code() == git2::ErrorCode::NotFound => {
                Err(RepoError::NotFound(format!("commit {id}")))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    fn utf8(&self, commit: &Commit) -> Result<Commit, RepoError> {
        self.fallback.utf8(commit)
    }

    fn write(&self, draft: &Draft) -> Result<Oid, RepoError> {
        if self.signs() {
            return self.fallback.write(draft);
        }
        self.store(draft)
    }

    fn store(&self, draft: &Draft) -> Result<Oid, RepoError> {
        let odb = self.repo.odb().map_err(|error| failed(&error))?;
        let id = odb
            .write(ObjectType::Commit, &draft.bytes())
            .map_err(|error| failed(&error))?;
        domain(id)
    }

    fn signs(&self) -> bool {
        self.fallback.signs()
    }

    fn merge_bases(&self, one: &Oid, other: &Oid) -> Result<Vec<Oid>, RepoError> {
        let bases = raw(one).and_then(|one| self.repo.merge_bases(one, raw(other)?));
        match bases {
            Ok(bases) => bases.iter().map(|id| domain(*id)).collect(),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(&error)),
        }
    }

    fn missing(&self, known: &[&Oid], head: &Oid) -> Result<Vec<Oid>, RepoError> {
        let walk = || {
            let mut walk = self.repo.revwalk()?;
            walk.set_sorting(Sort::TOPOLOGICAL | Sort::REVERSE)?;
            walk.push(raw(head)?)?;
            for known in known {
                walk.hide(raw(known)?)?;
            }
            walk.collect::<Result<Vec<_>, git2::Error>>()
        };
        let ids = walk().map_err(|error| failed(&error))?;
        ids.into_iter().map(domain).collect()
    }

    fn join(&self, base: Option<&Commit>, ours: &Oid, theirs: &Oid) -> Result<Joined, RepoError> {
        let single = match base {
            Some(base) => Some(base.id.clone()),
            None => match <[Oid; 1]>::try_from(self.merge_bases(ours, theirs)?) {
                Ok([only]) => Some(only),
                Err(_) => None,
            },
        };
        if let Some(single) = single {
            match self.join_pruned(&single, ours, theirs)? {
                Ok(tree) => return Ok(Joined::Tree(tree)),
                Err(why) => {
                    tracing::debug!(repo = %self.dir.display(), %ours, %theirs, why, "this merge is left to the git program");
                }
            }
        }
        self.fallback.join(base, ours, theirs)
    }
}

fn raw(id: &Oid) -> Result<git2::Oid, git2::Error> {
    git2::Oid::from_str(id.as_str())
}

fn domain(id: git2::Oid) -> Result<Oid, RepoError> {
    Oid::new(id.to_string()).map_err(|error| RepoError::Failed(error.to_string()))
}

fn failed(error: &git2::Error) -> RepoError {
    RepoError::Failed(format!("git2: {}", error.message()))
}
