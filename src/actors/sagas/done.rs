//! `done`: intent → verified push → merge request and POLECAT_DONE → session ended
//! (`raider-lifecycle.md`, `hd done`; `polecat-lifecycle.md`).
//!
//! ```text
//!  begin ── intent ──► push ──► submit ──► session ──► closed; the witness reads POLECAT_DONE
//!             │          │
//!             │          ├── the remote is away: `push_blocked`, tried again with back-off
//!             │          ├── it says no: the same, and a person is called
//!             │          └── taken back (`withdraw`): the hook is open again
//!             └── answered to the caller here: from now on it survives everything
//! ```

mod fit;
mod push;
mod report;
mod submit;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::super::claims::Claim;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::root::Meant;
use super::super::world::World;
use super::super::{ask, effects, quarantine};
use super::{claimed, pack, step, unpack};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId};
use crate::domain::message;
use crate::domain::nuke::{self, CleanupStatus};
use crate::domain::outcome::Outcome;
use crate::domain::relic::{DoneIntent, Exit, Hook, RelicStatus};
use crate::domain::saga::{FaultPoint, Saga, SagaKind};
use crate::domain::until;
use crate::ports::relics::{StoreError, Txn};

use self::submit::submit;

pub use self::push::{blocked, is_pushing, withdraw};
pub use self::report::mismatch;

/// A declared completion.
#[derive(Debug, Clone)]
pub struct DoneRequest {
    /// Who declares it.
    pub raider: RaiderId,
    /// Which incarnation, where the caller said so; a stale one is refused.
    pub incarnation: Option<Incarnation>,
    /// How it ends.
    pub exit: Exit,
    /// What the agent says of its sandbox.
    pub cleanup_status: Option<CleanupStatus>,
    /// Nothing had to change.
    pub no_change: bool,
    /// A person must look before it lands.
    pub wants_review: bool,
    /// For deferred work.
    pub until: Option<Timestamp>,
    /// In the agent's words.
    pub reason: Option<String>,
    /// Who asked: the agent itself, its outcome file, or the outbox.
    pub cause: Cause,
}

/// Reads a request from the arguments of `done`, as they come over the socket or from the outbox.
///
/// # Errors
/// [`RefusalKind::BadRequest`].
pub fn parse_args(
    raider: RaiderId,
    args: &serde_json::Value,
    now: Timestamp,
) -> Result<DoneRequest, Refusal> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Args {
        status: Option<Exit>,
        cleanup_status: Option<CleanupStatus>,
        no_change: bool,
        until: Option<String>,
        reason: Option<String>,
    }
    let bad = |why: String| Refusal::new(RefusalKind::BadRequest, why);
    let args: Args =
        serde_json::from_value(args.clone()).map_err(|error| bad(error.to_string()))?;
    let read = |text: &str| {
        let hint = "RFC 3339, seconds since 1970, or as a harness says it: 7:04am (UTC), in 2h";
        let until = until::declared(text, now, &TimeZone::system());
        until.ok_or_else(|| bad(format!("{text:?} is not a time")).hint(hint))
    };
    let until = args.until.as_deref().map(read).transpose()?;
    Ok(DoneRequest {
        raider,
        incarnation: None,
        exit: args.status.unwrap_or(Exit::Completed),
        cleanup_status: args.cleanup_status,
        no_change: args.no_change,
        wants_review: false,
        until,
        reason: args.reason,
        cause: Cause::Done,
    })
}

/// The request that an outcome on file comes to.
#[must_use]
pub fn request_of(hook: &Hook, outcome: Outcome) -> DoneRequest {
    let (exit, no_change, wants_review, reason) = match outcome {
        Outcome::Passed { no_change } => (Exit::Completed, no_change.is_some(), false, no_change),
        Outcome::Reviewing => (Exit::Completed, false, true, None),
        Outcome::Stuck { reason } => (Exit::Escalated, false, false, Some(reason)),
    };
    DoneRequest {
        raider: hook.raider.clone(),
        incarnation: Some(hook.incarnation),
        exit,
        cleanup_status: None,
        no_change,
        wants_review,
        until: None,
        reason,
        cause: Cause::OutcomeFile,
    }
}

/// An accepted completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// Who.
    pub raider: RaiderId,
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// The work.
    pub relic: RelicId,
    /// The branch that is being pushed.
    pub branch: String,
    /// Its head.
    pub head: Oid,
    /// How it ends.
    pub exit: Exit,
    /// It had been accepted before.
    pub already: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    raider: RaiderId,
    incarnation: Incarnation,
    relic: RelicId,
    branch: String,
    target: String,
    head: Oid,
    exit: Exit,
    cleanup_status: Option<CleanupStatus>,
    no_change: bool,
    wants_review: bool,
    /// Whether there are commits to push.
    push: bool,
    /// Why the push does not go through, for displays.
    blocked: Option<String>,
}

/// What [`begin`] came to.
pub enum Begun {
    /// The intent is durable; the saga is to be run.
    New(Accepted, Box<Saga>, Claim),
    /// It had been declared before.
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
    if request
        .incarnation
        .is_some_and(|said| said != hook.incarnation)
    {
        let message = format!(
            "{} is in incarnation {} now",
            request.raider, hook.incarnation
        );
        return Err(Refusal::conflict(message));
    }
    if let Some(intent) = &hook.done {
        return Ok(Begun::Already(accepted(
            &hook,
            intent.head.clone(),
            intent.exit,
            true,
        )));
    }
    let git = measure(world, &hook).await?;
    let mismatch = report::compare(world, &request, &git);
    check(world, &request, &hook, &git).await?;
    fit::check(world, &hook, &git).await?;
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
        blocked: None,
    };
    world.at(FaultPoint::DoneIntentBefore);
    let accepted = accepted(&hook, git.head, request.exit, false);
    let claims = world.claims.clone();
    let declared = world.store.run(move |txn| {
        if let Some(intent) = said(txn, &plan)? {
            return Ok(Err(intent));
        }
        let saga = declare(txn, &request, &plan, mismatch)?;
        claimed(&claims, saga).map(Ok)
    });
    match declared.await? {
        Ok((saga, claim)) => {
            world.at(FaultPoint::DoneIntentAfter);
            Ok(Begun::New(accepted, Box::new(saga), claim))
        }
        // Somebody was faster, by another way: the file, the outbox, the same call again.
        Err(intent) => Ok(Begun::Already(self::accepted(
            &hook,
            intent.head,
            intent.exit,
            true,
        ))),
    }
}

fn accepted(hook: &Hook, head: Oid, exit: Exit, already: bool) -> Accepted {
    Accepted {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        relic: hook.relic.clone(),
        branch: hook.branch.clone(),
        head,
        exit,
        already,
    }
}

async fn measure(world: &World, hook: &Hook) -> Result<GitFacts, Refusal> {
    let (sandbox, target) = (world.city.sandbox(&hook.raider), hook.target.clone());
    let rig = &hook.raider.rig;
    let measured = effects::repo(world, rig, move |repo| repo.facts(&sandbox, &target)).await;
    // `hd` writes down what is declared on a full disk, and it is taken up when there is room.
    measured.map_err(Refusal::passing_on_a_full_disk)
}

/// Whether the declaration would be accepted as things are.
///
/// # Errors
/// As [`begin`] for what the sandbox holds.
pub async fn preview(world: &World, request: &DoneRequest, hook: &Hook) -> Result<(), Refusal> {
    let git = measure(world, hook).await?;
    check(world, request, hook, &git).await?;
    fit::check(world, hook, &git).await
}

/// `4-rules.md`, done: never an automatic commit; zero commits only when nothing had to change.
async fn check(
    world: &World,
    request: &DoneRequest,
    hook: &Hook,
    git: &GitFacts,
) -> Result<(), Refusal> {
    if !git.is_committed() {
        let losses = nuke::losses(git);
        let message = "the work tree is not clean";
        let hint = "commit what belongs to the work, remove what does not, and say `hd done` again";
        return Err(Refusal::work_at_risk(message, losses).hint(hint));
    }
    fit::on_branch(world, hook, git).await?;
    if request.exit != Exit::Completed {
        return Ok(());
    }
    if request.no_change {
        if request.reason.as_deref().is_none_or(str::is_empty) {
            let message = "--no-change needs --reason";
            return Err(Refusal::new(RefusalKind::BadRequest, message));
        }
        if git.ahead > 0 {
            let message = format!("{} has {} commits of its own", hook.branch, git.ahead);
            let hint = "leave --no-change away to land them";
            return Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint));
        }
        return Ok(());
    }
    if git.ahead == 0 {
        let message = format!("{} has no commits", hook.branch);
        let hint =
            "commit the work; or, if nothing had to change: hd done --no-change --reason WHY";
        return Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint));
    }
    Ok(())
}

/// The intent of this incarnation, where it declared one meanwhile.
fn said(txn: &mut dyn Txn, plan: &Plan) -> Result<Option<DoneIntent>, StoreError> {
    let hook = txn.hook(&plan.raider)?;
    let own = hook.filter(|hook| hook.incarnation == plan.incarnation);
    Ok(own.and_then(|hook| hook.done))
}

fn declare(
    txn: &mut dyn Txn,
    request: &DoneRequest,
    plan: &Plan,
    mismatch: Option<CleanupStatus>,
) -> Result<Saga, StoreError> {
    let gone = || StoreError::Conflict(format!("{} is being nuked", plan.raider));
    let mut hook = txn.hook(&plan.raider)?.ok_or_else(gone)?;
    if hook.incarnation != plan.incarnation || hook.done.is_some() {
        let why = format!("{} is done already", plan.raider);
        return Err(StoreError::Conflict(why));
    }
    let subject = plan.raider.to_string();
    if txn.saga_of(SagaKind::Nuke, &subject)?.is_some() {
        return Err(gone());
    }
    quarantine::release(txn, &plan.relic, Cause::Done)?;
    let mut relic = txn.relic(&plan.relic)?;
    if relic.status == RelicStatus::Closed {
        return Err(StoreError::Conflict(format!("{} is closed", plan.relic)));
    }
    // Its raiders do not come to nothing.
    relic.charge_failures = 0;
    txn.put_relic(&relic)?;
    if let Some(charge) = txn.saga_of(SagaKind::Charge, &subject)? {
        // The agent was faster than the end of its charge: the journal tells them in order.
        super::charge::show(txn, &charge)?;
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
        "relic": plan.relic, "incarnation": plan.incarnation, "head": plan.head,
        "exit": plan.exit, "reason": request.reason,
    });
    let event = NewEvent::new(EventType::RaiderDone, &plan.raider, request.cause);
    txn.record(&event.with(data))?;
    txn.open_saga(
        SagaKind::Done,
        &plan.raider.rig,
        &subject,
        "intent",
        &pack(plan),
    )
}

/// Runs the saga to its end from wherever it is. Pushing goes on until it succeeds, or the completion
/// is taken back.
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
        submit(world, &mut saga, &plan).await?;
        world.at(FaultPoint::DoneSubmitAfter);
    }
    let meant = Meant::raider(&plan.raider, plan.incarnation);
    ask::end(world, meant, Cause::Done).await?;
    world.at(FaultPoint::DoneSessionBefore);
    let id = saga.id;
    world.store.run(move |txn| txn.close_saga(id)).await?;
    world.at(FaultPoint::DoneSessionAfter);
    world.nudge(&message::witness(&plan.raider.rig));
    Ok(())
}
