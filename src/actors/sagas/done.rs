//! `done`: intent → verified push → merge request and POLECAT_DONE → session ended
//! (`raider-lifecycle.md`, `hd done`; `polecat-lifecycle.md`).
//!
//! ```text
//!  begin ── intent ──► push ──► submit ──► session ──► closed; the witness reads POLECAT_DONE
//!             │          │
//!             │          ├── the remote is away: `push_blocked`, retried with back-off
//!             │          ├── the remote refuses: the same, and a person is called
//!             │          └── withdrawn (`records/withdrawals.rs`): the hook is open again
//!             └── answered to the caller here: from now on it survives everything
//! ```
//!
//! Work that a person is to review keeps its session ([`review`](crate::actors::declared::review)), which may submit
//! later commits in the same way (`again.rs`).

mod again;
mod push;
mod report;
mod submit;

use crate::actors::declared::{self, Decided, lands, review};
use crate::actors::mail::Accepted;
use crate::actors::mail::DoneRequest;
use serde::{Deserialize, Serialize};

use super::super::ask;
use super::super::claims::Claim;
use super::super::refusal::Refusal;
use super::super::world::World;
use super::{claimed, pack, step, unpack};
use crate::actors::mail::{ChildRef, RootMail};
use crate::actors::records::{charges, quarantine, self_reviews};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::event_data;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId};
use crate::domain::message;
use crate::domain::nuke::CleanupStatus;
use crate::domain::relic::{Completion, DoneIntent, Hook, RelicStatus};
use crate::domain::saga::{FaultPoint, Saga, SagaKind};
use crate::domain::self_review::Verdict;
use crate::ports::relics::{StoreError, Txn};

use self::again::Again;
use self::submit::submit;

pub use self::report::mismatch;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    raider: RaiderId,
    incarnation: Incarnation,
    relic: RelicId,
    branch: String,
    target: String,
    head: Oid,
    exit: Completion,
    cleanup_status: Option<CleanupStatus>,
    no_change: bool,
    wants_review: bool,
    /// Set when there are commits to push.
    push: bool,
    /// The head that this submission replaces while a person reviews it.
    #[serde(default)]
    replaces: Option<Oid>,
    /// The completion that this submission takes the place of: it counts again when the push is withdrawn.
    #[serde(default)]
    former: Option<Box<DoneIntent>>,
    /// The head of the relic that a person rejected last: the branch of the remote may have it, and what is submitted now is
    /// reviewed again.
    #[serde(default)]
    rejected: Option<Oid>,
    /// Set while it is not known whether a person is to review it.
    #[serde(default)]
    may_be_reviewed: bool,
    /// Set when the session stays for the reviewer.
    #[serde(default)]
    keeps_session: bool,
    /// Why the push does not succeed, for displays.
    blocked: Option<String>,
}

/// The result of [`begin`].
pub enum Begun {
    /// The intent is durable; the caller runs the saga.
    New(Accepted, Box<Saga>, Claim),
    /// The completion had been declared before.
    Already(Accepted),
}

/// Checks the declaration against git and makes it durable.
///
/// # Errors
/// [`RefusalKind::WorkAtRisk`] for a dirty tree, [`RefusalKind::BadRequest`] for one without
/// commits, [`RefusalKind::Conflict`] for a stale incarnation.
pub async fn begin(world: &World, request: DoneRequest) -> Result<Begun, Refusal> {
    let raider = request.raider.clone();
    let hook = world.store.run(move |txn| txn.hook(&raider)).await?;
    let hook = hook
        .ok_or_else(|| Refusal::not_found(format!("{} has no work on its hook", request.raider)))?;
    current(&request, &hook)?;
    let (git, former) = match again::of(world, &request, &hook).await? {
        Again::First => (declared::measure(world, &hook).await?, None),
        Again::Same(intent) => return Ok(already(&hook, &intent)),
        Again::Replaces(git, former) => (git, Some(former)),
    };
    let replaces = former.as_ref().map(|former| former.head.clone());
    let decided = Decided::of(world, &hook.relic).await?;
    decided.expect_rework(&request, &hook, &git)?;
    let rejected = decided.rejected_head();
    let may_be_reviewed = review::is_possible(world, &request)
        || replaces.is_some()
        || rejected.is_some() && lands(request.exit, request.no_change);
    let mismatch = report::compare(world, &request, &git);
    declared::check(world, &request, &hook, &git).await?;
    let plan = Plan {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        relic: hook.relic.clone(),
        branch: hook.branch.clone(),
        target: hook.target.clone(),
        head: git.head.clone(),
        exit: request.exit,
        cleanup_status: request.cleanup_status,
        no_change: request.no_change,
        wants_review: request.wants_review,
        push: git.ahead > 0,
        replaces,
        former,
        rejected,
        may_be_reviewed,
        keeps_session: false,
        blocked: None,
    };
    world.at(FaultPoint::DoneIntentBefore);
    let accepted = Accepted {
        may_be_reviewed,
        ..accepted(&hook, git.head, request.exit, false)
    };
    let (claims, max_reviews) = (world.claims.clone(), max_reviews(world, &hook));
    let needs_steps = declared::needs_steps(world, &request, &hook);
    let declared = world.store.run(move |txn| {
        if let Some(intent) = declared_intent(txn, &plan)? {
            return Ok(Err(intent));
        }
        // A totem may have been started, or a step reopened, since the check.
        let open = declared::open_steps(txn, &plan.relic)?.filter(|_| needs_steps);
        if let Some((_, why)) = open {
            return Err(StoreError::Conflict(why));
        }
        let saga = declare(txn, &request, &plan, (mismatch, max_reviews))?;
        claimed(&claims, saga).map(Ok)
    });
    match declared.await? {
        Ok((saga, claim)) => {
            world.at(FaultPoint::DoneIntentAfter);
            Ok(Begun::New(accepted, Box::new(saga), claim))
        }
        // The same completion was declared meanwhile: by the file, the outbox, or the same call.
        Err(intent) => Ok(already(&hook, &intent)),
    }
}

fn max_reviews(world: &World, hook: &Hook) -> u32 {
    let rig = world.city.rig(&hook.raider.rig);
    rig.map_or(1, |rig| rig.raiders.max_reviews)
}

/// Checks that a declaration is of the present incarnation.
fn current(request: &DoneRequest, hook: &Hook) -> Result<(), Refusal> {
    let said = request.incarnation.unwrap_or(hook.incarnation);
    if said == hook.incarnation {
        return Ok(());
    }
    let (raider, now) = (&request.raider, hook.incarnation);
    let message = format!("{raider} is in incarnation {now} now");
    Err(Refusal::conflict(message))
}

fn already(hook: &Hook, intent: &DoneIntent) -> Begun {
    Begun::Already(accepted(hook, intent.head.clone(), intent.exit, true))
}

fn accepted(hook: &Hook, head: Oid, exit: Completion, already: bool) -> Accepted {
    Accepted {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        relic: hook.relic.clone(),
        branch: hook.branch.clone(),
        head,
        exit,
        already,
        may_be_reviewed: false,
    }
}

/// Returns the intent that this incarnation declared meanwhile, if any.
fn declared_intent(txn: &mut dyn Txn, plan: &Plan) -> Result<Option<DoneIntent>, StoreError> {
    let hook = txn.hook(&plan.raider)?;
    let own = hook.filter(|hook| hook.incarnation == plan.incarnation);
    let intent = own.and_then(|hook| hook.done);
    Ok(intent.filter(|intent| plan.replaces.as_ref() != Some(&intent.head)))
}

fn declare(
    txn: &mut dyn Txn,
    request: &DoneRequest,
    plan: &Plan,
    (mismatch, max_reviews): (Option<CleanupStatus>, u32),
) -> Result<Saga, StoreError> {
    let gone = || StoreError::Conflict(format!("{} is being nuked", plan.raider));
    let mut hook = txn.hook(&plan.raider)?.ok_or_else(gone)?;
    again::check(txn, plan)?;
    if hook.incarnation != plan.incarnation || hook.is_declared() && plan.replaces.is_none() {
        let why = format!("{} is done already", plan.raider);
        return Err(StoreError::Conflict(why));
    }
    let subject = plan.raider.to_string();
    if txn.saga_of(SagaKind::Nuke, &subject)?.is_some() {
        return Err(gone());
    }
    if request.is_stuck_review {
        let (stuck, why) = (Verdict::Stuck, request.reason.as_deref());
        self_reviews::add(txn, &hook, max_reviews, stuck, why)?;
    }
    quarantine::release(txn, &plan.relic, Cause::Done)?;
    let mut relic = txn.relic(&plan.relic)?;
    if relic.status == RelicStatus::Closed {
        return Err(StoreError::Conflict(format!("{} is closed", plan.relic)));
    }
    // A completion ends the row of failures.
    relic.charge_failures = 0;
    txn.put_relic(&relic)?;
    if let Some(charge) = txn.saga_of(SagaKind::Charge, &subject)? {
        // The agent finished before its charge was shown: the journal keeps the order.
        charges::show(txn, &charge)?;
    }
    hook.done = Some(DoneIntent {
        exit: request.exit,
        head: plan.head.clone(),
        cleanup_status: request.cleanup_status,
        mismatch,
        no_change: request.no_change,
        wants_review: request.wants_review,
        until: request.until,
        reason: request.reason.clone(),
        at: txn.now(),
    });
    txn.put_hook(&hook)?;
    let data = serde_json::json!({
        "incarnation": plan.incarnation, "head": plan.head, "reason": request.reason,
    });
    let done = event_data::Done {
        relic: plan.relic.clone(),
        exit: plan.exit,
    };
    let event = NewEvent::new(EventType::RaiderDone, &plan.raider, request.cause);
    txn.record(&event.with(data).and(&done))?;
    txn.open_saga(
        SagaKind::Done,
        &plan.raider.rig,
        &subject,
        "intent",
        &pack(plan),
    )
}

/// Runs the saga to its end from its current step. The push is retried until it succeeds or the completion is
/// withdrawn.
///
/// # Errors
/// The store cannot write, or the session would not end; the saga stays open.
pub async fn run(world: &World, mut saga: Saga) -> Result<(), Refusal> {
    let mut plan: Plan = unpack(&saga)?;
    if saga.step == "intent" {
        if plan.push && !push::push(world, &mut saga, &mut plan).await? {
            return Ok(());
        }
        world.at(FaultPoint::DonePushBefore);
        step(world, &mut saga, "push", &plan).await?;
        world.at(FaultPoint::DonePushAfter);
    }
    if saga.step == "push" {
        world.at(FaultPoint::DoneSubmitBefore);
        submit(world, &mut saga, &mut plan).await?;
        world.at(FaultPoint::DoneSubmitAfter);
    }
    if !plan.keeps_session {
        let meant = ChildRef::raider(&plan.raider, plan.incarnation);
        ask::end(world, meant, Cause::Done).await?;
    }
    world.at(FaultPoint::DoneSessionBefore);
    let id = saga.id;
    world.store.run(move |txn| txn.close_saga(id)).await?;
    world.at(FaultPoint::DoneSessionAfter);
    if plan.keeps_session {
        // After a restart in between, the session is not adopted: its raider was busy at the look of the start.
        world.directory.tell_root(RootMail::Look);
    }
    world.nudge(&message::witness(&plan.raider.rig));
    Ok(())
}

#[cfg(test)]
mod tests;
