//! A completion that is declared again: the same one, or later commits of work that a person is reviewing. These take
//! the place of the reviewed ones in the same merge request.

use super::{Plan, lands};
use crate::actors::declared;
use crate::actors::mail::DoneRequest;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::facts::GitFacts;
use crate::domain::merge::{MergeRequest, MrState};
use crate::domain::phase::WorkPhase;
use crate::domain::relic::{DoneIntent, Exit, Hook};
use crate::ports::relics::{StoreError, Txn};

/// The relation of a declaration to an earlier one.
pub(super) enum Again {
    /// There is no earlier one, except for one whose merge request was rejected.
    First(Option<Box<MergeRequest>>),
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
        return Ok(Again::First(rejected(world, hook).await?.map(Box::new)));
    };
    let raider = hook.raider.clone();
    let record = world.store.run(move |txn| txn.raider(&raider)).await?;
    let reviewed = record.is_some_and(|record| {
        record.hook.incarnation == hook.incarnation
            && matches!(WorkPhase::of(&record), WorkPhase::InReview { .. })
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

/// Returns the newest merge request of the work if it was rejected.
async fn rejected(world: &World, hook: &Hook) -> Result<Option<MergeRequest>, Refusal> {
    let (key, branch) = (
        (hook.relic.clone(), hook.raider.clone(), hook.incarnation),
        hook.branch.clone(),
    );
    let read = move |txn: &mut dyn Txn| txn.mr_of(&key.0, &key.1, key.2);
    let mr = world.store.run(read).await?;
    Ok(mr.filter(|mr| mr.state == MrState::Rejected && mr.branch == branch))
}

/// Checks that a declaration after a rejection submits something else than what was rejected.
///
/// # Errors
/// The head is the rejected one.
pub(super) fn changed(
    request: &DoneRequest,
    hook: &Hook,
    git: &GitFacts,
    rejected: Option<&MergeRequest>,
) -> Result<(), Refusal> {
    let same = rejected.filter(|mr| mr.head == git.head && git.is_committed());
    let Some(mr) = same.filter(|_| lands(request.exit, request.no_change)) else {
        return Ok(());
    };
    let message = format!(
        "{} was rejected with the same head {}, and {} has no commit since",
        mr.id, mr.head, hook.raider
    );
    let hint = "read the note with `hd rally`, commit what it asks for, then run `hd done`; or `hd done --status \
        escalated --reason WHY`";
    Err(Refusal::conflict(message).hint(hint))
}

/// Refuses a completion without a change for work that a person has rejected: they asked for a change, and the completion
/// would close the relic without their look. This holds for a fresh raider, too.
///
/// # Errors
/// The newest merge request of the relic was rejected.
pub(super) async fn changes_what_was_rejected(
    world: &World,
    request: &DoneRequest,
    hook: &Hook,
) -> Result<(), Refusal> {
    if !request.no_change || request.exit != Exit::Completed {
        return Ok(());
    }
    let relic = hook.relic.clone();
    let newest = world.store.run(move |txn| Ok(txn.mrs_of(&relic)?.pop()));
    let rejected = newest.await?.filter(|mr| {
        // Others were withdrawn with their relic.
        mr.state == MrState::Rejected && mr.decided_at.is_some()
    });
    let Some(mr) = rejected else { return Ok(()) };
    let message = format!(
        "{} was rejected: a person asked for a change, so {} is not closed without one",
        mr.id, hook.relic
    );
    let hint = "commit what the note asks for, then run `hd done`; or `hd done --status escalated --reason WHY`: then a \
        person decides";
    Err(Refusal::conflict(message).hint(hint))
}

/// Checks that the head that is to be replaced is still the reviewed one.
pub(super) fn check(txn: &mut dyn Txn, plan: &Plan) -> Result<(), StoreError> {
    let Some(head) = &plan.replaces else {
        return Ok(());
    };
    let record = txn.raider(&plan.raider)?;
    let waits = record.is_some_and(|record| {
        let is_reviewed = matches!(WorkPhase::of(&record), WorkPhase::InReview { .. });
        is_reviewed && record.mr.is_some_and(|mr| mr.head == *head)
    });
    if waits {
        return Ok(());
    }
    let why = format!("the review of {} has just ended; try again", plan.relic);
    Err(StoreError::Conflict(why))
}
