//! Stored facts about a raider's silence: the steps taken against it, and the wait that its session declared. Small
//! facts, void for another incarnation or session.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::key_values::{read, read_under, write};
use crate::actors::records::escalations;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{RaiderId, RigName};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Hook;
use crate::domain::stall::{Steps, Wait};
use crate::ports::relics::{StoreError, Txn};

/// Problems of a stalled session that are over when it goes on.
const STALLED: [ProblemKind; 5] = [
    ProblemKind::StalledHelpless,
    ProblemKind::StalledUntold,
    ProblemKind::StalledUnrecognised,
    ProblemKind::StalledBegun,
    ProblemKind::StalledKept,
];

/// The key prefix of steps about stalled raiders.
const STEPS: &str = "stall/";
/// The key prefix of declared waits.
const WAIT: &str = "wait/";

fn steps_of(raider: &RaiderId) -> String {
    format!("{STEPS}{raider}")
}

fn wait_of(raider: &RaiderId) -> String {
    format!("{WAIT}{raider}")
}

/// Returns the steps taken about this raider, if it is stalled.
///
/// # Errors
/// The store's.
pub fn steps(txn: &mut dyn Txn, hook: &Hook) -> Result<Option<Steps>, StoreError> {
    let steps: Option<Steps> = read(txn, &steps_of(&hook.raider))?;
    Ok(steps.filter(|steps| steps.incarnation == hook.incarnation))
}

/// Returns the last wait that a session of this name declared; it holds for that session only.
///
/// # Errors
/// The store's.
pub fn wait(txn: &mut dyn Txn, raider: &RaiderId) -> Result<Option<Wait>, StoreError> {
    read(txn, &wait_of(raider))
}

/// Returns the steps taken about the stalled ones of the raiders with these hooks.
///
/// # Errors
/// The store's.
pub fn all_steps(
    txn: &mut dyn Txn,
    hooks: &[Hook],
) -> Result<BTreeMap<RaiderId, Steps>, StoreError> {
    let mut all: BTreeMap<RaiderId, Steps> = by_raider(txn, STEPS)?;
    let held = hooks.iter().map(|hook| (&hook.raider, hook.incarnation));
    let held: BTreeMap<_, _> = held.collect();
    all.retain(|raider, steps| held.get(raider) == Some(&steps.incarnation));
    Ok(all)
}

/// Returns the last wait of each raider; it holds for the session that declared it only.
///
/// # Errors
/// The store's.
pub fn all_waits(txn: &mut dyn Txn) -> Result<BTreeMap<RaiderId, Wait>, StoreError> {
    by_raider(txn, WAIT)
}

fn by_raider<T: DeserializeOwned>(
    txn: &mut dyn Txn,
    prefix: &str,
) -> Result<BTreeMap<RaiderId, T>, StoreError> {
    let facts = read_under(txn, prefix)?.into_iter();
    Ok(facts
        .filter_map(|(raider, fact)| Some((raider.parse().ok()?, fact)))
        .collect())
}

/// Declares a wait, replacing an earlier one. A session that can declare one is not stalled.
///
/// # Errors
/// The store's.
pub fn declare(txn: &mut dyn Txn, raider: &RaiderId, wait: &Wait) -> Result<(), StoreError> {
    write(txn, &wait_of(raider), wait)?;
    txn.set(&steps_of(raider), None)?;
    if let Some(hook) = txn.hook(raider)? {
        close_escalations(txn, &hook, &STALLED)?;
        close_escalations(txn, &hook, &[ProblemKind::StalledSpins])?;
    }
    let data = serde_json::json!({ "until": wait.until, "reason": wait.reason });
    let event = NewEvent::new(EventType::RaiderWaiting, raider, Cause::Wait);
    crate::actors::store::about::record(txn, &event.with(data)).map(drop)
}

/// Records a step about a stalled raider, with its event; the first step journals the stall. Returns false when the
/// raider has other work by now, or is finished.
pub(in crate::actors) fn take(
    txn: &mut dyn Txn,
    hook: &Hook,
    silence: std::time::Duration,
    change: &dyn Fn(&mut Steps),
    event: Option<&NewEvent>,
) -> Result<bool, StoreError> {
    let same = |now: &Hook| now.is_open_for(hook.incarnation);
    if !txn.hook(&hook.raider)?.as_ref().is_some_and(same) {
        return Ok(false);
    }
    let mut steps = match steps(txn, hook)? {
        Some(steps) => steps,
        None => {
            let data = serde_json::json!({
                "relic": hook.relic, "incarnation": hook.incarnation, "silent_s": silence.as_secs(),
            });
            let stalled = NewEvent::new(EventType::RaiderStalled, &hook.raider, Cause::Stalled);
            txn.record(&stalled.with(data))?;
            let silent = txn.now().checked_sub(silence);
            Steps::none(hook.incarnation, silent.unwrap_or_else(|_| txn.now()))
        }
    };
    change(&mut steps);
    write(txn, &steps_of(&hook.raider), &steps)?;
    if let Some(event) = event {
        txn.record(event)?;
    }
    Ok(true)
}

/// Records that the raider goes on: it is not stalled, and its escalations are closed.
pub(in crate::actors) fn recover(
    txn: &mut dyn Txn,
    hook: &Hook,
    cause: Cause,
) -> Result<(), StoreError> {
    let Some(steps) = steps(txn, hook)? else {
        return Ok(());
    };
    txn.set(&steps_of(&hook.raider), None)?;
    close_escalations(txn, hook, &STALLED)?;
    close_escalations(txn, hook, &[ProblemKind::Unseen])?;
    let data = serde_json::json!({ "relic": hook.relic, "stalled_since": steps.since });
    let event = NewEvent::new(EventType::RaiderWorking, &hook.raider, cause);
    txn.record(&event.with(data)).map(drop)
}

/// Closes the escalations of these problems about this raider and its work.
pub(in crate::actors) fn close_escalations(
    txn: &mut dyn Txn,
    hook: &Hook,
    kinds: &[ProblemKind],
) -> Result<(), StoreError> {
    let raider = hook.raider.to_string();
    escalations::close_matching(txn, kinds, |who, work| {
        who == raider && work == Some(&hook.relic)
    })
}

/// Clears the stalls of a rig that has no `stall_after` any more.
pub(in crate::actors) fn forget(txn: &mut dyn Txn, rig: &RigName) -> Result<(), StoreError> {
    let hooks = txn.hooks(Some(rig))?;
    let raiders: Vec<_> = hooks.iter().map(|hook| hook.raider.to_string()).collect();
    escalations::close_matching(txn, &[ProblemKind::StalledSpins], |who, _| {
        raiders.iter().any(|raider| raider == who)
    })?;
    for hook in hooks {
        recover(txn, &hook, Cause::Config)?;
    }
    Ok(())
}
