//! Rebase, squash and merge, in memory: objects are written, no ref moves.

use super::commit::{Commit, Draft, ident_now};
use super::engine::{Engine, Joined};
use super::message;
use crate::domain::ids::Oid;
use crate::domain::merge::{LandStyle, MergeOutcome};
use crate::ports::repo::{LandRequest, RepoError};

/// Makes the commits that would land.
pub(super) fn land(engine: &dyn Engine, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
    let onto = engine.commit(&request.onto)?;
    if engine.merge_bases(&request.onto, &request.head)?.is_empty() {
        return Ok(MergeOutcome::Unrelated);
    }
    let former = former(engine, request)?;
    let known: Vec<&Oid> = former.iter().chain([&request.onto]).collect();
    let work = engine.missing(&known, &request.head)?;
    if work.is_empty() {
        return Ok(MergeOutcome::Nothing);
    }
    let work = work.iter().map(|id| engine.commit(id));
    let work = work.collect::<Result<Vec<_>, _>>()?;
    let landing = Landing {
        engine,
        request,
        onto,
        committer: ident_now(&request.committer),
        linear: work.iter().all(|commit| commit.parents.len() == 1),
        work,
        former,
    };
    match request.style {
        LandStyle::Rebase if landing.linear => landing.rebase(),
        LandStyle::Rebase => landing.rebase_around_merges(),
        LandStyle::Squash => landing.whole(Landing::squashed),
        // A merge commit would have the removed commits among its ancestors.
        LandStyle::Merge if !landing.former.is_empty() => landing.whole(Landing::squashed),
        LandStyle::Merge => landing.whole(Landing::joined),
    }
}

/// Returns the tips that the target had when the work was begun, if a force-push has removed them from the target
/// since. Work that does not contain such a tip was not begun on it.
fn former(engine: &dyn Engine, request: &LandRequest) -> Result<Vec<Oid>, RepoError> {
    let mut former = Vec::new();
    for began in &request.began {
        match engine.commit(began) {
            Err(RepoError::NotFound(_)) => continue,
            found => found?,
        };
        let has = |tip| Ok::<_, RepoError>(engine.merge_bases(began, tip)? == [began.clone()]);
        if !has(&request.onto)? && has(&request.head)? {
            former.push(began.clone());
        }
    }
    Ok(former)
}

struct Landing<'a> {
    engine: &'a dyn Engine,
    request: &'a LandRequest,
    onto: Commit,
    /// The committer line of the new commits.
    committer: Vec<u8>,
    /// Set when there are no merge commits among the work.
    linear: bool,
    /// The commits that the target lacks, parents first.
    work: Vec<Commit>,
    /// Tips that the target had when the work was begun, and that were removed from the target.
    former: Vec<Oid>,
}

/// A replayed commit that is not written yet: the last one gets the trailers.
struct Replayed {
    draft: Draft,
    /// The original, if its parent is the tip already: it is kept as it is, including its committer.
    unchanged: Option<Oid>,
}

impl Landing<'_> {
    /// Replays one commit after the other, as `git rebase --reapply-cherry-picks` does: commits without an effect are
    /// skipped. Patches are not compared with those of the target: an equal one may have been reverted there, or
    /// differ in white space.
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
                Joined::Conflict(paths) => return Ok(MergeOutcome::Conflict(paths)),
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
            // The work has no effect in total: it reverts itself, or something that the target does not have.
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

    /// Returns the tree of a commit replayed on the tip.
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

    /// Rebases a branch with merge commits. Conflicts may be resolved in these, and a replay without them would lose
    /// the resolution. So the merge of the whole branch decides the result. The commits are replayed in a line if
    /// that gives the same tree, and squashed otherwise.
    fn rebase_around_merges(&self) -> Result<MergeOutcome, RepoError> {
        let whole = match self.joined_trees()? {
            Joined::Tree(tree) => tree,
            Joined::Conflict(paths) => return Ok(MergeOutcome::Conflict(paths)),
        };
        if whole == self.onto.tree {
            return Ok(MergeOutcome::Nothing);
        }
        let line = self.rebase()?;
        if matches!(&line, MergeOutcome::Clean { tree, .. } if *tree == whole) {
            return Ok(line);
        }
        self.finish(self.squashed(whole)?)
    }

    /// Merges the whole branch. If the target was rewritten, it is merged as if the target had reverted the removed
    /// commits itself: so git finds the bases of the work, even if the work has merged the rewritten target.
    fn joined_trees(&self) -> Result<Joined, RepoError> {
        let (onto, head) = (&self.onto.id, &self.request.head);
        if self.former.is_empty() {
            return self.engine.join(None, onto, head);
        }
        let taken_back = self.engine.store(&Draft {
            tree: self.onto.tree.clone(),
            parents: std::iter::once(onto).chain(&self.former).cloned().collect(),
            author: self.committer.clone(),
            committer: self.committer.clone(),
            encoding: None,
            message: b"the target without what was taken off it\n".to_vec(),
        })?;
        self.engine.join(None, &taken_back, head)
    }

    /// Lands the merge of the whole branch as one commit.
    fn whole(
        &self,
        draft: fn(&Self, Oid) -> Result<Draft, RepoError>,
    ) -> Result<MergeOutcome, RepoError> {
        match self.joined_trees()? {
            Joined::Tree(tree) if tree == self.onto.tree => Ok(MergeOutcome::Nothing),
            Joined::Tree(tree) => self.finish(draft(self, tree)?),
            Joined::Conflict(paths) => Ok(MergeOutcome::Conflict(paths)),
        }
    }

    fn finish(&self, draft: Draft) -> Result<MergeOutcome, RepoError> {
        let tip = self.engine.write(&draft)?;
        let tree = draft.tree;
        Ok(MergeOutcome::Clean { tip, tree })
    }

    /// Makes one commit, by the author of all or most commits, with the others as co-authors. Its text is UTF-8,
    /// independent of theirs.
    fn squashed(&self, tree: Oid) -> Result<Draft, RepoError> {
        let single = self.work.iter().filter(|commit| commit.parents.len() < 2);
        let single: Vec<Commit> = single
            .map(|commit| self.engine.utf8(commit))
            .collect::<Result<_, _>>()?;
        let author = message::author(&single).unwrap_or_else(|| self.committer.clone());
        let mut trailers = message::co_authors(&author, &single);
        trailers.extend(self.request.trailers.iter().cloned());
        Ok(Draft {
            tree,
            parents: vec![self.onto.id.clone()],
            message: message::squash(&self.request.title, &single, &trailers),
            author,
            committer: self.committer.clone(),
            encoding: None,
        })
    }

    /// Makes a merge commit of the target and the work.
    fn joined(&self, tree: Oid) -> Result<Draft, RepoError> {
        Ok(Draft {
            tree,
            parents: vec![self.onto.id.clone(), self.request.head.clone()],
            message: message::merge(&self.request.title, &self.request.trailers),
            author: self.committer.clone(),
            committer: self.committer.clone(),
            encoding: None,
        })
    }
}
