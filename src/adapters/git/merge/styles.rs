//! Rebase, squash and merge, in memory: objects are written, no ref moves.

use super::commit::{Commit, Draft, ident_now};
use super::engine::{Engine, Joined};
use super::message;
use crate::domain::ids::Oid;
use crate::domain::merge::{LandStyle, MergeOutcome};
use crate::ports::repo::{LandRequest, RepoError};

/// Whether the target has the work already, as equal patches. Asked only where a merge conflicts:
/// a change that was landed and then built upon conflicts with its own source.
pub(super) trait Upstream {
    /// Whether one commit's patch is on the target.
    fn has_commit(&self, onto: &Oid, commit: &Commit) -> Result<bool, RepoError>;

    /// Whether all of the work is, commit by commit or as one squashed patch.
    fn has_all(&self, onto: &Oid, head: &Oid) -> Result<bool, RepoError>;
}

/// Makes the commits that would land.
pub(super) fn land(
    engine: &dyn Engine,
    upstream: &dyn Upstream,
    request: &LandRequest,
) -> Result<MergeOutcome, RepoError> {
    let onto = engine.commit(&request.onto)?;
    let work = engine.missing(&request.onto, &request.head)?;
    if work.is_empty() {
        return Ok(MergeOutcome::Nothing);
    }
    if engine.merge_bases(&request.onto, &request.head)?.is_empty() {
        return Err(RepoError::Failed(format!(
            "{} shares no history with {}",
            request.head, request.onto
        )));
    }
    let work = work
        .iter()
        .map(|id| engine.commit(id))
        .collect::<Result<Vec<_>, _>>()?;
    let landing = Landing {
        engine,
        upstream,
        request,
        onto,
        committer: ident_now(&request.committer),
        linear: work.iter().all(|commit| commit.parents.len() == 1),
        work,
    };
    match request.style {
        LandStyle::Rebase if landing.linear => landing.rebase(),
        LandStyle::Rebase => landing.rebase_around_merges(),
        LandStyle::Squash => landing.whole(Landing::squashed),
        LandStyle::Merge => landing.whole(Landing::joined),
    }
}

struct Landing<'a> {
    engine: &'a dyn Engine,
    upstream: &'a dyn Upstream,
    request: &'a LandRequest,
    onto: Commit,
    /// The committer line of what is written.
    committer: Vec<u8>,
    /// Whether there are no merge commits among the work.
    linear: bool,
    /// What the target lacks, parents first.
    work: Vec<Commit>,
}

/// A replayed commit that is not written yet: the last one gets the trailers.
struct Replayed {
    draft: Draft,
    /// The original, where it stands on the tip already: it is kept as it is, committer and all.
    unchanged: Option<Oid>,
}

impl Landing<'_> {
    /// Replays one commit after the other. Those that change nothing any more are skipped, and
    /// so are those that conflict because the target has an equal patch.
    fn rebase(&self) -> Result<MergeOutcome, RepoError> {
        let commits = self.work.iter().filter(|commit| commit.parents.len() == 1);
        let (mut tip, mut tree) = (self.onto.id.clone(), self.onto.tree.clone());
        let mut last: Option<Replayed> = None;
        for commit in commits {
            if let Some(replayed) = &last {
                tip = self.write(replayed)?;
            }
            let parent = self.engine.commit(&commit.parents[0])?;
            let merged = match self.replayed(&parent, &tip, &tree, commit)? {
                Joined::Tree(merged) => merged,
                Joined::Conflict(_) if self.upstream.has_commit(&self.onto.id, commit)? => continue,
                Joined::Conflict(paths) => return self.conflict(paths),
            };
            if merged == tree {
                continue;
            }
            let unchanged = parent.id == tip && !self.engine.signs();
            let unchanged = unchanged.then(|| commit.id.clone());
            tree = merged;
            last = Some(Replayed {
                draft: Draft {
                    tree: tree.clone(),
                    parents: vec![tip.clone()],
                    author: commit.author.clone(),
                    committer: self.committer.clone(),
                    encoding: commit.encoding.clone(),
                    message: commit.message.clone(),
                },
                unchanged,
            });
        }
        let Some(mut last) = last else {
            return Ok(MergeOutcome::Nothing);
        };
        if tree == self.onto.tree {
            // The work takes back what it did, or what the target did not have.
            return Ok(MergeOutcome::Nothing);
        }
        let message = message::with_trailers(&last.draft.message, &self.request.trailers);
        if message != last.draft.message {
            last.draft.message = message;
            last.unchanged = None;
        }
        let tip = self.write(&last)?;
        Ok(MergeOutcome::Clean { tip, tree })
    }

    /// The tree of a commit replayed on the tip.
    fn replayed(
        &self,
        parent: &Commit,
        tip: &Oid,
        tree: &Oid,
        commit: &Commit,
    ) -> Result<Joined, RepoError> {
        if parent.tree == *tree {
            return Ok(Joined::Tree(commit.tree.clone()));
        }
        self.engine.join(Some(parent), tip, &commit.id)
    }

    fn write(&self, replayed: &Replayed) -> Result<Oid, RepoError> {
        match &replayed.unchanged {
            Some(original) => Ok(original.clone()),
            None => self.engine.write(&replayed.draft),
        }
    }

    /// A branch with merge commits: its conflicts may be resolved in them, which a replay without
    /// them would lose. So the merge of the whole says what lands. The commits are replayed in a
    /// line where that gives the very same tree, and squashed where it does not.
    fn rebase_around_merges(&self) -> Result<MergeOutcome, RepoError> {
        let whole = match self.engine.join(None, &self.onto.id, &self.request.head)? {
            Joined::Tree(tree) => tree,
            Joined::Conflict(paths) => return self.conflict(paths),
        };
        if whole == self.onto.tree {
            return Ok(MergeOutcome::Nothing);
        }
        let line = self.rebase()?;
        if matches!(&line, MergeOutcome::Clean { tree, .. } if *tree == whole) {
            return Ok(line);
        }
        self.finish(self.squashed(whole))
    }

    /// Lands the merge of the whole as one commit.
    fn whole(&self, draft: fn(&Self, Oid) -> Draft) -> Result<MergeOutcome, RepoError> {
        match self.engine.join(None, &self.onto.id, &self.request.head)? {
            Joined::Tree(tree) if tree == self.onto.tree => Ok(MergeOutcome::Nothing),
            Joined::Tree(tree) => self.finish(draft(self, tree)),
            Joined::Conflict(paths) => self.conflict(paths),
        }
    }

    fn conflict(&self, paths: Vec<String>) -> Result<MergeOutcome, RepoError> {
        if self.upstream.has_all(&self.onto.id, &self.request.head)? {
            return Ok(MergeOutcome::Nothing);
        }
        Ok(MergeOutcome::Conflict(paths))
    }

    fn finish(&self, draft: Draft) -> Result<MergeOutcome, RepoError> {
        let tip = self.engine.write(&draft)?;
        let tree = draft.tree;
        Ok(MergeOutcome::Clean { tip, tree })
    }

    /// One commit by the author of the head, with everybody else as co-author.
    fn squashed(&self, tree: Oid) -> Draft {
        let single: Vec<Commit> = self
            .work
            .iter()
            .filter(|commit| commit.parents.len() < 2)
            .cloned()
            .collect();
        let head = self
            .work
            .iter()
            .find(|commit| commit.id == self.request.head);
        let author = head.map_or_else(|| self.committer.clone(), |head| head.author.clone());
        let mut trailers = message::co_authors(&author, &single);
        trailers.extend(self.request.trailers.iter().cloned());
        Draft {
            tree,
            parents: vec![self.onto.id.clone()],
            message: message::squash(&self.request.title, &single, &trailers),
            author,
            committer: self.committer.clone(),
            encoding: None,
        }
    }

    /// A merge commit of the target and the work.
    fn joined(&self, tree: Oid) -> Draft {
        Draft {
            tree,
            parents: vec![self.onto.id.clone(), self.request.head.clone()],
            message: message::merge(&self.request.title, &self.request.trailers),
            author: self.committer.clone(),
            committer: self.committer.clone(),
            encoding: None,
        }
    }
}
