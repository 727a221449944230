//! Work that a person has rejected: it is changed, and reviewed again.

use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use super::lands;
use crate::actors::mail::DoneRequest;
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::{MergeRequest, MrState, Review};
use crate::domain::relic::{Completion, Hook};

/// The merge requests of a relic that a person approved or rejected since it landed last, the oldest first. A rejection holds
/// for the later attempts of every raider: a fresh one may begin on the rejected commits.
pub struct Decided(Vec<MergeRequest>);

impl Decided {
    /// Reads the decisions.
    ///
    /// # Errors
    /// The store's.
    pub async fn of(world: &World, relic: &RelicId) -> Result<Self, Refusal> {
        let relic = relic.clone();
        let mut all = world.store.run(move |txn| txn.mrs_of(&relic)).await?;
        let landed = all.iter().rposition(|mr| mr.state == MrState::Merged);
        let since = landed.map_or(0, |at| at + 1);
        all.drain(..since);
        all.retain(|mr| matches!(mr.review, Review::Approved | Review::Rejected));
        Ok(Self(all))
    }

    fn rejections(&self) -> impl DoubleEndedIterator<Item = &MergeRequest> {
        let all = self.0.iter();
        all.filter(|mr| mr.review == Review::Rejected)
    }

    /// Returns the head that was rejected last.
    #[must_use]
    pub fn rejected_head(&self) -> Option<Oid> {
        self.rejections().next_back().map(|mr| mr.head.clone())
    }

    /// Checks that a declaration submits something else than what was rejected.
    ///
    /// # Errors
    /// [`RefusalKind::BadRequest`], as for all else that the agent can mend: the head is a rejected one, or there is to be no
    /// change although the last decision was a rejection.
    pub fn expect_rework(
        &self,
        request: &DoneRequest,
        hook: &Hook,
        git: &GitFacts,
    ) -> Result<(), Refusal> {
        self.expect_changed_head(request, hook, git)?;
        self.expect_change(request, hook)
    }

    fn expect_changed_head(
        &self,
        request: &DoneRequest,
        hook: &Hook,
        git: &GitFacts,
    ) -> Result<(), Refusal> {
        let submits = lands(request.exit, request.no_change) && git.is_committed();
        let same = self.rejections().rfind(|mr| mr.head == git.head);
        let Some(mr) = same.filter(|_| submits) else {
            return Ok(());
        };
        let message = format!(
            "{} was rejected with the same head {}, and {} has no commit since",
            mr.id, mr.head, hook.raider
        );
        let hint = "read the note with `hd rally`, commit what it asks for, then run `hd done`; or `hd done --status \
            escalated --reason WHY`";
        Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint))
    }

    /// Refuses a completion without a change for work that a person has rejected: they asked for a change, and the
    /// completion would close the relic without their look. An approval since then says that they have it.
    fn expect_change(&self, request: &DoneRequest, hook: &Hook) -> Result<(), Refusal> {
        if !request.no_change || request.exit != Completion::Completed {
            return Ok(());
        }
        let last = self.0.last();
        let Some(mr) = last.filter(|mr| mr.review == Review::Rejected) else {
            return Ok(());
        };
        let message = format!(
            "{} was rejected: a person asked for a change, so {} is not closed without one",
            mr.id, hook.relic
        );
        let hint = "commit what the note asks for, then run `hd done`; or `hd done --status escalated --reason WHY`: then a \
            person decides";
        Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint))
    }
}
