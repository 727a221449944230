//! Questions about ours that libgit2 answers in this process: a git process costs milliseconds, and a
//! measurement has a dozen of them.
//!
//! libgit2 reads ours and nothing else, and only what it finds is believed. Where it finds nothing, or cannot read
//! (sha256, damage), git is asked.

use std::collections::HashSet;

use git2::{ObjectType, Repository, Sort};

use super::rig::{GitRepo, PUSH_URL_KEY, oid};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// So many commits before HEAD are looked through; git looks through all of them.
const RECENT_MAX: usize = 256;

/// Ours, opened by libgit2.
pub(super) struct Known(Repository);

impl GitRepo {
    /// What is known in this process; none where libgit2 cannot open ours.
    pub(super) fn known(&self) -> Option<Known> {
        Repository::open_bare(self.repo_dir()).ok().map(Known)
    }

    /// Every ref of ours, with the object that it names.
    pub(super) fn refs(&self) -> Result<Vec<(Oid, String)>, RepoError> {
        if let Some(refs) = self.known().and_then(|known| known.refs()) {
            return Ok(refs);
        }
        let format = "--format=%(objectname) %(refname)";
        let text = self.git().args(["for-each-ref", format]).run()?.text();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(id, name)| Ok((oid(id)?, name.to_owned())))
            .collect()
    }
}

impl Known {
    /// Whether ours has an object of this name.
    pub(super) fn has(&self, id: &Oid) -> bool {
        let found = || Some(self.0.odb().ok()?.exists(named(id.as_str())?));
        found().unwrap_or_default()
    }

    /// The type of an object of ours, as git names it.
    pub(super) fn kind(&self, id: &Oid) -> Option<&'static str> {
        let (_, kind) = self.0.odb().ok()?.read_header(named(id.as_str())?).ok()?;
        Some(kind.str())
    }

    /// The commit that a full ref name or a full id stands for.
    pub(super) fn commit(&self, name: &str) -> Option<Oid> {
        let object = match name.starts_with("refs/") {
            true => self.0.find_reference(name).ok()?.peel(ObjectType::Commit),
            false => {
                let found = self.0.find_object(named(name)?, None).ok()?;
                found.peel(ObjectType::Commit)
            }
        };
        told(object.ok()?.id())
    }

    /// The tree of a commit.
    pub(super) fn tree(&self, commit: &Oid) -> Option<Oid> {
        let commit = self.0.find_commit(named(commit.as_str())?).ok()?;
        told(commit.tree_id())
    }

    fn refs(&self) -> Option<Vec<(Oid, String)>> {
        let mut found = Vec::new();
        for reference in self.0.references().ok()? {
            let reference = reference.ok()?;
            let name = reference.name().ok()?.to_owned();
            let target = reference.resolve().ok()?.target()?;
            found.push((told(target)?, name));
        }
        Some(found)
    }

    /// The committer of a commit, and when it was made, in seconds since 1970.
    pub(super) fn committed(&self, id: &Oid) -> Option<(String, i64)> {
        let commit = self.0.find_commit(named(id.as_str())?).ok()?;
        // git converts a name to UTF-8.
        if !matches!(commit.message_encoding(), Ok(None)) {
            return None;
        }
        let committer = commit.committer();
        Some((
            committer.name().ok()?.to_owned(),
            committer.when().seconds(),
        ))
    }

    /// A commit and some of those before it.
    pub(super) fn recent(&self, from: &Oid) -> HashSet<Oid> {
        let walk = || {
            let mut walk = self.0.revwalk().ok()?;
            walk.set_sorting(Sort::TIME).ok()?;
            walk.push(named(from.as_str())?).ok()?;
            let ids = walk.take(RECENT_MAX).map_while(Result::ok);
            Some(ids.filter_map(told).collect())
        };
        walk().unwrap_or_default()
    }

    /// The one best common ancestor of two commits; none where there are several, too.
    pub(super) fn merge_base(&self, one: &Oid, other: &Oid) -> Option<Oid> {
        if self.0.is_shallow() {
            return None;
        }
        let (one, other) = (named(one.as_str())?, named(other.as_str())?);
        let bases = self.0.merge_bases(one, other).ok()?;
        match bases[..] {
            [base] => told(base),
            _ => None,
        }
    }

    /// How many commits the first one has that the other has not.
    pub(super) fn ahead(&self, head: &Oid, of: &Oid) -> Option<u64> {
        if self.0.is_shallow() {
            return None;
        }
        let (head, of) = (named(head.as_str())?, named(of.as_str())?);
        let (ahead, _) = self.0.graph_ahead_behind(head, of).ok()?;
        u64::try_from(ahead).ok()
    }

    /// The URL that the supervisor pushes to.
    pub(super) fn push_url(&self) -> Option<String> {
        let file = self.0.path().join("config");
        let config = git2::Config::open(&file).ok()?;
        let url = config.get_string(PUSH_URL_KEY).ok()?;
        (!url.is_empty()).then_some(url)
    }
}

/// An id as libgit2 has it. It would take a short one for one that ends with zeros.
fn named(id: &str) -> Option<git2::Oid> {
    let is_full = id.len() == 40;
    is_full.then(|| git2::Oid::from_str(id).ok()).flatten()
}

fn told(id: git2::Oid) -> Option<Oid> {
    Oid::new(id.to_string()).ok()
}
