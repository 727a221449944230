//! `hd doctor`: gathers the facts that `domain::doctor` judges, and tries its remedies. Each remedy checks again, at
//! the instant of acting, that its object still has no owner.

mod programs;
mod relics;
mod remedies;
mod targets;

use crate::actors::records::slots;
use crate::actors::sandboxes;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::claims::ClaimKey;
use super::refusal::Refusal;
use super::sagas::nuke;
use super::sandbox_faults;
use super::world::World;
use super::{ask, effects};
use crate::actors::mail::NukeTarget;
use crate::actors::sandboxes::Hookless;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::doctor::{Diagnosis, Facts, Finding, Kind, RigFacts, Stray, examine};
use crate::domain::facts::Probed;
use crate::domain::ids::{RaiderId, RelicId, SessionId, SlotName};
use crate::domain::relic::{Hook, RelicStatus};
use crate::ports::relics::{RelicFilter, StoreError, Txn};

/// Advice where the files of the configuration are not in force.
const NOT_IN_FORCE: &str =
    "`hd config check` shows what is wrong in the files; `hd reload` applies them";

/// Examines the city; applies the remedies if a caller asked for that.
///
/// # Errors
/// The store cannot be read, or the root does not answer: owners are unknown then.
pub async fn run(world: &Arc<World>, fix: Option<&Asker>) -> Result<Vec<Finding>, Refusal> {
    let mut findings = world.directory.ground.findings();
    let diagnoses = match diagnoses(world).await {
        // Consequences of these findings need not be reported, too.
        Err(_) if !findings.is_empty() => return Ok(findings),
        diagnoses => diagnoses?,
    };
    for diagnosis in diagnoses {
        let finding = match (diagnosis.remedy, fix) {
            (Some(remedy), Some(asker)) => diagnosis
                .finding
                .tried(remedies::apply(world, remedy, asker).await),
            _ => diagnosis.finding,
        };
        findings.push(finding);
    }
    findings.extend(world.directory.refused_reload().map(|why| {
        let says = format!("the configuration on disk is not in force: {why}");
        Finding::new(Kind::Config, &world.city.name, says, NOT_IN_FORCE)
    }));
    findings.extend(targets::faults(world).await);
    Ok(findings)
}

/// Returns the version of the git in use; none when no rig needs git, or it cannot be asked.
pub async fn git(world: &World) -> Option<String> {
    let rig = &world.city.rigs.first()?.name;
    effects::repo(world, rig, |repo| repo.program()).await.ok()
}

/// Returns the problems seen in two examinations in a row: an examination takes time, and a city at work changes
/// between its first and last observation.
async fn diagnoses(world: &Arc<World>) -> Result<Vec<Diagnosis>, Refusal> {
    let first = examine(&facts(world).await?);
    if first.is_empty() {
        return Ok(first);
    }
    let mut second = examine(&facts(world).await?);
    let about = |it: &Diagnosis| (it.finding.kind, it.finding.subject.clone());
    second.retain(|now| first.iter().any(|before| about(before) == about(now)));
    Ok(second)
}

/// The owned objects, from the store.
struct Owned {
    /// All hooks.
    hooks: Vec<Hook>,
    /// Raiders that a hook or an open saga holds.
    held: BTreeSet<RaiderId>,
    /// Branches of merge requests that are not over.
    queued: BTreeSet<String>,
    /// Relics that are not closed.
    open: BTreeSet<RelicId>,
}

fn owned(txn: &mut dyn Txn) -> Result<Owned, StoreError> {
    let hooks = txn.hooks(None)?;
    let held = slots::held(txn, None)?;
    let queued = txn.mrs(None, true)?.into_iter().map(|mr| mr.branch);
    let relics = txn.relics(&RelicFilter::default())?.into_iter();
    let open = relics.filter(|relic| relic.status != RelicStatus::Closed);
    Ok(Owned {
        hooks,
        held,
        queued: queued.collect(),
        open: open.map(|relic| relic.id).collect(),
    })
}

/// Returns the sessions with an owner: raiders with work, agents, and children that the root still has.
async fn wanted(world: &World, held: &BTreeSet<RaiderId>) -> Result<BTreeSet<SessionId>, Refusal> {
    let views = ask::views(world).await?;
    let tended = views.into_iter().map(|view| view.spec.session);
    Ok(held
        .iter()
        .map(RaiderId::session_id)
        .chain(tended)
        .collect())
}

async fn facts(world: &Arc<World>) -> Result<Facts, Refusal> {
    // Listed before owners are read: an object that gets an owner meanwhile is not in the list.
    let sessions = effects::list(world).await;
    let emptying = world.claims.is_claimed(&ClaimKey::Trash);
    let left = effects::tasks(world, effects::Owner::City, |tasks| tasks.leftovers()).await;
    let mut seen = Vec::new();
    for rig in &world.city.rigs {
        let lone = sandboxes::hookless(world, rig).await;
        let spare = effects::repo(world, &rig.name, |repo| repo.spare_branches()).await;
        let ailing = sandbox_faults::by_raider(world, &rig.name).await;
        seen.push((rig, lone, spare, ailing));
    }
    let owned = world.store.run(owned).await?;
    let sandboxes = relics::Sandboxes::list(world).await;
    let lost = move |txn: &mut dyn Txn| relics::lost(txn, &sandboxes);
    let lost = world.store.run(lost).await?;
    let mut wanted = wanted(world, &owned.held).await?;
    let listed = sessions.iter().flatten().map(|facts| &facts.id);
    wanted.extend(listed.filter(|id| world.city.is_agents(id)).cloned());
    let mut rigs = Vec::new();
    for (rig, lone, spare, ailing) in seen {
        let held = owned.held.iter().filter(|raider| raider.rig == rig.name);
        let held: BTreeSet<SlotName> = held.map(|raider| raider.name.clone()).collect();
        let strays = match lone {
            Ok(lone) => Probed::Known(judged(world, lone).await),
            Err(error) => Probed::Unknown(refusal_text(&error)),
        };
        rigs.push(RigFacts {
            rig: rig.name.clone(),
            is_held: effects::is_held(world, &rig.name),
            held,
            strays,
            branches: Probed::from(spare),
            ailing: Probed::from(ailing.map(|ailing| {
                let ailing = ailing.into_iter();
                ailing
                    .map(|(raider, what)| (raider, Probed::from(what)))
                    .collect()
            })),
            queued: owned.queued.clone(),
            open: owned.open.clone(),
        });
    }
    let trash = left.as_ref().map(|left| match emptying {
        true => Vec::new(),
        false => left.trash.clone(),
    });
    let unknown = |hook: &&Hook| world.city.rig(&hook.raider.rig).is_none();
    let stranded = owned.hooks.iter().filter(unknown);
    let stranded = stranded.map(|hook| (hook.relic.clone(), hook.raider.clone()));
    Ok(Facts {
        sessions: Probed::from(sessions),
        wanted,
        lost,
        stranded: stranded.collect(),
        rigs,
        trash: Probed::from(trash),
        outbox: Probed::from(left.as_ref().map(|left| left.outbox.clone())),
        lacking: programs::lacking(world, &owned.hooks).await,
        now: world.clock.now(),
    })
}

/// Returns the safety protocol's judgement of each sandbox, without touching it.
async fn judged(world: &World, lone: Vec<Hookless>) -> Vec<(SlotName, Stray)> {
    let mut judged = Vec::new();
    for Hookless { raider, was } in lone {
        let stray = match was {
            Probed::Unknown(why) => Stray::Unreadable(why),
            Probed::Known(None) => Stray::Unowned,
            Probed::Known(Some(hook)) => {
                match nuke::check(world, &NukeTarget::of(&hook, Cause::Operator)).await {
                    Ok(_) => Stray::Spare,
                    Err(kept) => Stray::Kept(refusal_text(&kept)),
                }
            }
        };
        judged.push((raider.name, stray));
    }
    judged
}

fn refusal_text(refusal: &Refusal) -> String {
    let losses = refusal.losses.iter().map(String::as_str);
    let parts: Vec<_> = std::iter::once(refusal.message.as_str())
        .chain(losses)
        .collect();
    parts.join("; ")
}
