//! A completion that is declared again: the same one, or later commits of work that a person is reviewing. These take
//! the place of the reviewed ones in the same merge request.

use super::Plan;
use crate::actors::declared::{self, lands};
use crate::actors::mail::DoneRequest;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::facts::GitFacts;
use crate::domain::phase::WorkPhase;
use crate::domain::relic::{DoneIntent, Hook};
use crate::ports::relics::{StoreError, Txn};

/// The relation of a declaration to an earlier one.
pub(super) enum Again {
    /// There is no earlier one, except for those whose merge requests were rejected.
    First,
    /// It is the same.
    Same(DoneIntent),
    /// It submits what git says here, in place of the head of this completion.
    Replaces(GitFacts, Box<DoneIntent>),
}

/// Compares a declaration with an earlier one of its incarnation.
///
/// # Errors
/// The work is in review, and the declaration submits nothing.
pub(super) async fn of(
    world: &World,
    request: &DoneRequest,
    hook: &Hook,
) -> Result<Again, Refusal> {
    let Some(intent) = hook.done.clone() else {
        return Ok(Again::First);
    };
    let raider = hook.raider.clone();
    let record = world.store.run(move |txn| txn.raider(&raider)).await?;
    let reviewed = record.is_some_and(|record| {
        record.hook.incarnation == hook.incarnation && WorkPhase::of(&record).is_in_review()
    });
    if !reviewed {
        return Ok(Again::Same(intent));
    }
    let git = declared::measure(world, hook).await?;
    let lands = lands(request.exit, request.no_change);
    if lands && git.head == intent.head && git.is_committed() {
        return Ok(Again::Same(intent));
    }
    if !lands {
        let message = format!("{} waits for the review of a person", hook.relic);
        let hint = "tell them with `hd escalate`, or submit later commits with `hd done`";
        return Err(Refusal::conflict(message).hint(hint));
    }
    Ok(Again::Replaces(git, Box::new(intent)))
}

/// Checks that the head that is to be replaced is still the reviewed one.
pub(super) fn check(txn: &mut dyn Txn, plan: &Plan) -> Result<(), StoreError> {
    let Some(head) = &plan.replaces else {
        return Ok(());
    };
    let record = txn.raider(&plan.raider)?;
    let waits = record.is_some_and(|record| {
        let is_reviewed = WorkPhase::of(&record).is_in_review();
        is_reviewed && record.mr.is_some_and(|mr| mr.head == *head)
    });
    if waits {
        return Ok(());
    }
    let why = format!("the review of {} has just ended; try again", plan.relic);
    Err(StoreError::Conflict(why))
}
