//! `charge`: slot → sandbox → hook → session, all or nothing (`raider-lifecycle.md`, correct
//! lifecycle; `agent-lifecycle.md`, section 1).
//!
//! ```text
//!  begin ── slot ──► sandbox ──► hook ──► session ──► charged
//!              │        │          │         │
//!              └────────┴──────────┴─────────┴──► unwound: session ended, hook dropped,
//!                                                 sandbox removed, slot free, relic open
//! ```
//!
//! A charge that was not requested by a person, and that fails for good, counts as a failure of the relic.

mod base;
mod harness;
mod join;
mod sandbox;
mod slots;
mod unwind;

use crate::actors::mail::ChargeRequest;
use crate::actors::mail::Charged;
use crate::actors::rig_settings;
use serde::{Deserialize, Serialize};

use super::super::ask;
use super::super::claims::Claim;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use super::{claimed, pack, step, unpack};
use crate::actors::mail::raider_spec;
use crate::actors::records::failures::Former;
use crate::actors::records::{agent_hooks, auto_charge, charges, identities, quarantine};
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::existing_branch::Start;
use crate::domain::ids::{HarnessName, Incarnation, Oid, RaiderId, RelicId};
use crate::domain::relic::{Hook, Relic, RelicKind, RelicStatus};
use crate::domain::routing::Choice;
use crate::domain::saga::{FaultPoint, Saga, SagaKind};
use crate::ports::relics::{StoreError, Txn};

use self::base::base;
pub use self::base::start_on;
pub use self::harness::known_harness;
pub use self::join::join;
pub use self::sandbox::sandbox_spec;
pub use self::slots::free_slots;
use self::slots::{free_slot, sandbox_names};
pub use self::unwind::stranded;
use self::unwind::unwind;

/// The settings of a charge that override the rig's; kept with the relic.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Asked {
    target: Option<String>,
    harness: Option<HarnessName>,
}

/// The inputs of all steps; journalled with each step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    relic: RelicId,
    raider: RaiderId,
    incarnation: Incarnation,
    branch: String,
    base: Oid,
    /// Set when the base is the tip of the target.
    #[serde(default)]
    from_target: bool,
    target: String,
    /// The existing branch that it begins on, if one was asked for.
    #[serde(default)]
    start: Option<Start>,
    /// The newest commit of the target that the existing branch has.
    #[serde(default)]
    began: Option<Oid>,
    harness: HarnessName,
    /// The identity of the work; an older version did not record it.
    #[serde(default)]
    identity: Option<String>,
    /// The choice of the harness among several, if there was one.
    #[serde(default)]
    choice: Option<Choice>,
    cause: Cause,
    /// The caller that asked for the charge, if any.
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    asked: Asked,
    /// The settings that the relic had before; an older version did not record them.
    #[serde(default)]
    former: Option<Former>,
    /// Why the charge is unwound, if that counts as a failure of the relic.
    #[serde(default)]
    failure: Option<String>,
    /// Why the charge is unwound, for displays.
    #[serde(default)]
    error: Option<String>,
}

impl Plan {
    fn hook(&self, world: &World) -> Hook {
        Hook {
            raider: self.raider.clone(),
            incarnation: self.incarnation,
            relic: self.relic.clone(),
            branch: self.branch.clone(),
            base: self.base.clone(),
            from_target: self.from_target,
            target: self.target.clone(),
            harness: self.harness.clone(),
            charged_at: world.clock.now(),
            done: None,
        }
    }

    fn charged(&self, world: &World) -> Charged {
        Charged {
            raider: self.raider.clone(),
            incarnation: self.incarnation,
            relic: self.relic.clone(),
            branch: self.branch.clone(),
            start: self.start.clone(),
            sandbox: world.city.sandbox(&self.raider),
            session: self.raider.session_id(),
            new_slot: false,
        }
    }
}

fn may_begin(world: &World, rig: &Rig) -> Result<(), Refusal> {
    if world.is_stopping() {
        let message = "the supervisor is stopping";
        return Err(Refusal::new(RefusalKind::Unavailable, message));
    }
    match rig.closed(&world.city) {
        Some(why) => Err(Refusal::conflict(format!("{}: {why}", rig.name))),
        None => Ok(()),
    }
}

/// Chooses and holds a slot. An error leaves everything unchanged.
///
/// # Errors
/// [`RefusalKind::Conflict`] for a relic that cannot be charged or a rig without a free slot,
/// [`RefusalKind::Unavailable`] while the supervisor stops, [`RefusalKind::Parked`] while the account of the
/// harness is at a limit or wants a login, or a budget is spent.
pub async fn begin(
    world: &World,
    rig: &Rig,
    request: ChargeRequest,
) -> Result<(Saga, Claim), Refusal> {
    may_begin(world, rig)?;
    let (id, cause) = (request.relic.clone(), request.origin.cause());
    let relic = (world.store)
        .run(move |txn| check_relic(txn, &id, cause))
        .await?;
    expect_own(rig, &relic.id)?;
    // The settings of an earlier charge of the relic hold for its reworks, too.
    let asked = Asked {
        target: request.target.clone().or(relic.target.clone()),
        harness: request.harness.clone().or(relic.harness.clone()),
    };
    let candidates = harness::candidates(world, rig, &relic, asked.harness.as_ref()).await?;
    // Before anything is fetched for it.
    let on_disk = sandbox_names(world, rig).await?;
    let (own, name) = (rig.clone(), request.name.clone());
    world
        .store
        .run(move |txn| free_slot(txn, &own, &on_disk, name.as_ref()))
        .await?;
    let target = match asked.target.clone() {
        Some(target) => target,
        None => rig_settings::target_of_charge(world, rig).await?,
    };
    let base = base(world, rig, &relic, &target).await?;
    let on_disk = sandbox_names(world, rig).await?;
    world.at(FaultPoint::ChargeSlotBefore);
    let (rig, claims) = (rig.clone(), world.claims.clone());
    let city = std::sync::Arc::clone(&world.city);
    let begun = world
        .store
        .run(move |txn| {
            let relic = check_relic(txn, &request.relic, cause)?;
            refuse_paused(txn, &rig, cause)?;
            let name = free_slot(txn, &rig, &on_disk, request.name.as_ref())?;
            let raider = RaiderId::new(rig.name.clone(), name);
            let incarnation = txn.next_incarnation(&raider)?;
            let (harness, choice) = candidates.choose(txn, &city, &rig.name)?;
            let plan = Plan {
                branch: raider.branch(&relic.id, incarnation),
                relic: relic.id,
                incarnation,
                base: base.head.clone(),
                from_target: base.from_target,
                target: target.clone(),
                start: base.start.clone(),
                began: base.began.clone(),
                identity: Some(city.identity(&harness)),
                harness,
                choice,
                cause,
                by: request.origin.by().cloned(),
                asked: asked.clone(),
                former: None,
                failure: None,
                error: None,
                raider: raider.clone(),
            };
            let (subject, data) = (raider.to_string(), pack(&plan));
            let saga = txn.open_saga(SagaKind::Charge, &rig.name, &subject, "slot", &data)?;
            claimed(&claims, saga)
        })
        .await?;
    world.at(FaultPoint::ChargeSlotAfter);
    Ok(begun)
}

/// Checks that the relic is one of the rig's.
fn expect_own(rig: &Rig, relic: &RelicId) -> Result<(), Refusal> {
    if relic.prefix() == rig.prefix {
        return Ok(());
    }
    let message = format!("{relic} is not a relic of rig {}", rig.name);
    let hint = format!("its relics begin with {}-", rig.prefix);
    Err(Refusal::conflict(message).hint(hint))
}

/// Refuses a charge that no caller asked for while automatic charging is paused.
fn refuse_paused(txn: &mut dyn Txn, rig: &Rig, cause: Cause) -> Result<(), StoreError> {
    if cause.is_asked() || auto_charge::pauses(txn)?.of(&rig.name).is_none() {
        return Ok(());
    }
    let why = format!("automatic charging of {} is paused", rig.name);
    Err(StoreError::Conflict(why))
}

/// Returns a relic that may be charged, or why it may not. Only a person charges a blocked one.
fn check_relic(txn: &mut dyn Txn, id: &RelicId, cause: Cause) -> Result<Relic, StoreError> {
    let conflict = |why: String| Err(StoreError::Conflict(why));
    let relic = txn.relic(id)?;
    if relic.kind != RelicKind::Task {
        return conflict(format!("{id} is not a task"));
    }
    match relic.status {
        RelicStatus::Open => {}
        RelicStatus::Hooked => {
            let raider = relic.assignee.unwrap_or_default();
            return conflict(format!("{id} is hooked to {raider}"));
        }
        // The raider of the quarantine is gone: a person has another raider try.
        RelicStatus::Blocked if cause == Cause::Operator && quarantine::is_open(txn, id)? => {}
        RelicStatus::Blocked if txn.hook_of_relic(id)?.is_none() => {
            return conflict(format!(
                "{id} is blocked; `hd relic reopen {id}` makes it ready"
            ));
        }
        RelicStatus::Blocked => {}
        RelicStatus::Deferred => {
            return conflict(format!(
                "{id} is deferred; `hd relic reopen {id}` makes it ready"
            ));
        }
        RelicStatus::Closed => return conflict(format!("{id} is closed")),
    }
    if let Some(saga) = txn.sagas(None)?.iter().find(|saga| saga.charges(id)) {
        return conflict(format!("{id} is being charged to {}", saga.subject));
    }
    if let Some(hook) = txn.hook_of_relic(id)? {
        let raider = &hook.raider;
        let helps = match relic.status {
            RelicStatus::Blocked if !hook.is_declared() => {
                format!(
                    "; `hd relic reopen {id}` starts that raider again, and `hd raider nuke {raider} --salvage` removes it, so that another one can be charged"
                )
            }
            RelicStatus::Blocked | RelicStatus::Open => {
                format!(
                    "; `hd raider nuke {raider} --salvage` saves what is left there and frees it"
                )
            }
            _ => String::new(),
        };
        return conflict(format!("{id} is on the hook of {raider}{helps}"));
    }
    if let Some(agent) = agent_hooks::holder(txn, &relic)? {
        return conflict(format!(
            "{id} is on the hook of {agent}; `hd relic edit {id} --assignee ''` takes it off"
        ));
    }
    check_deps(txn, &relic)?;
    Ok(relic)
}

fn check_deps(txn: &mut dyn Txn, relic: &Relic) -> Result<(), StoreError> {
    let id = &relic.id;
    for dep in &relic.deps {
        if txn.relic(dep)?.status != RelicStatus::Closed {
            let why = format!("{id} depends on {dep}, which is not closed");
            return Err(StoreError::Conflict(why));
        }
    }
    Ok(())
}

/// Runs the saga to its end from its current step; unwinds it when a step fails for good.
///
/// # Errors
/// Why the charge failed. After a transient failure the saga stays open.
pub async fn run(world: &World, mut saga: Saga) -> Result<Charged, Refusal> {
    let mut plan: Plan = unpack(&saga)?;
    if saga.step == "unwind" {
        unwind(world, &saga, &plan).await?;
        let message = "the charge failed and was undone";
        return Err(Refusal::new(RefusalKind::Failed, message));
    }
    match forward(world, &mut saga, &plan).await {
        Ok(()) => Ok(plan.charged(world)),
        Err(failure) if world.is_stopping() => {
            tracing::info!(
                raider = %plan.raider,
                error = %failure,
                "the stop of the supervisor interrupts a charge; the next start completes it"
            );
            let what = "the supervisor is stopping; its next start completes the charge of";
            let message = format!("{what} {}", plan.relic);
            Err(Refusal::new(RefusalKind::Unavailable, message))
        }
        Err(failure) if !stored(world).await => Err(failure),
        Err(failure) => {
            tracing::warn!(
                raider = %plan.raider,
                error = %failure,
                "a charge failed and is undone"
            );
            // A person who asked for it sees the error; a transient failure is retried without being counted.
            let counts = !plan.cause.is_asked() && !failure.is_passing();
            plan.error = Some(failure.to_string());
            plan.failure = plan.error.clone().filter(|_| counts);
            plan.former = unpack::<Plan>(&saga)?.former;
            step(world, &mut saga, "unwind", &plan).await?;
            unwind(world, &saga, &plan).await?;
            Err(failure)
        }
    }
}

/// Returns true when the store can write; otherwise a saga can neither go on nor unwind.
async fn stored(world: &World) -> bool {
    world
        .store
        .run(|txn| txn.set("probe", Some("charge")))
        .await
        .is_ok()
}

async fn forward(world: &World, saga: &mut Saga, plan: &Plan) -> Result<(), Refusal> {
    if saga.step == "slot" {
        sandbox::make(world, plan).await?;
        world.at(FaultPoint::ChargeSandboxBefore);
        step(world, saga, "sandbox", plan).await?;
        world.at(FaultPoint::ChargeSandboxAfter);
    }
    if saga.step == "sandbox" {
        world.at(FaultPoint::ChargeHookBefore);
        tie(world, saga, plan).await?;
        world.at(FaultPoint::ChargeHookAfter);
    }
    let hook = plan.hook(world);
    let up = ask::want(world, raider_spec(&world.city, hook, None), Cause::Charged).await;
    up.map_err(|refused| {
        refused.hint("the program of the harness must be in PATH, have an absolute path, or be in the sandbox; the relic is as it was before")
    })?;
    world.at(FaultPoint::ChargeSessionBefore);
    let id = saga.id;
    let shown = world.store.run(move |txn| match txn.saga(id)? {
        Some(saga) => charges::show(txn, &saga),
        // The agent was faster: its `hd done` has shown the charge.
        None => Ok(()),
    });
    shown.await?;
    world.at(FaultPoint::ChargeSessionAfter);
    Ok(())
}

/// Writes the hook in one transaction; checks the relic again, which may have been closed while the sandbox was made.
async fn tie(world: &World, saga: &mut Saga, plan: &Plan) -> Result<(), Refusal> {
    let (id, hook) = (saga.id, plan.hook(world));
    let (mut plan, city) = (plan.clone(), std::sync::Arc::clone(&world.city));
    let (asked, cause) = (plan.asked.clone(), plan.cause);
    let data = world
        .store
        .run(move |txn| {
            let mut relic = txn.relic(&hook.relic)?;
            // A person may have edited it while the sandbox was made.
            plan.former = Some(Former::of(&relic));
            let assignee = relic.assignee.clone();
            let blocked = relic.status == RelicStatus::Blocked;
            if relic.status != RelicStatus::Open && !(blocked && cause == Cause::Operator) {
                let why = format!("{} changed while it was being charged", relic.id);
                return Err(StoreError::Conflict(why));
            }
            // Edited while the sandbox was made.
            check_deps(txn, &relic)?;
            if !cause.is_asked() && relic.assignee.is_some() {
                let why = format!("{} was assigned while it was being charged", relic.id);
                return Err(StoreError::Conflict(why));
            }
            if let Some(agent) = agent_hooks::holder(txn, &relic)? {
                let why = format!("{agent} took {} while it was being charged", relic.id);
                return Err(StoreError::Conflict(why));
            }
            if blocked {
                // A person has looked: reset the counters of attempts.
                (relic.reworks, relic.charge_failures) = (0, 0);
            }
            relic.status = RelicStatus::Hooked;
            relic.assignee = Some(hook.raider.to_string());
            relic.raider = Some(hook.raider.clone());
            relic.target.clone_from(&asked.target);
            relic.harness.clone_from(&asked.harness);
            txn.put_relic(&relic)?;
            txn.put_hook(&hook)?;
            let begun = identities::Begun {
                hook: &hook,
                identity: (plan.identity.clone()).unwrap_or_else(|| city.identity(&hook.harness)),
                cause,
                by: plan.by.as_deref(),
                assignee,
                choice: plan.choice.clone(),
                began: plan.began.clone(),
            };
            identities::begin(txn, &relic, begun)?;
            let data = serde_json::json!({ "status": "hooked", "raider": hook.raider });
            let event = NewEvent::new(EventType::RelicUpdated, &relic.id, Cause::Charged);
            txn.record(&event.with(data))?;
            let data = pack(&plan);
            txn.step_saga(id, "hook", &data).map(|()| data)
        })
        .await?;
    saga.step = "hook".to_owned();
    saga.data = data;
    Ok(())
}
