//! What the store knows of a raider's silence: what was done about it, and the wait that its session
//! declared. One small fact each, void for another incarnation or session.

use super::super::remembered::{read, write};
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

fn steps_of(raider: &RaiderId) -> String {
    format!("stall/{raider}")
}

fn wait_of(raider: &RaiderId) -> String {
    format!("wait/{raider}")
}

/// What was done about this raider, if it is stalled.
///
/// # Errors
/// The store's.
pub fn steps(txn: &mut dyn Txn, hook: &Hook) -> Result<Option<Steps>, StoreError> {
    let steps: Option<Steps> = read(txn, &steps_of(&hook.raider))?;
    Ok(steps.filter(|steps| steps.incarnation == hook.incarnation))
}

/// The last wait that a session of this name declared; it holds for that session only.
///
/// # Errors
/// The store's.
pub fn wait(txn: &mut dyn Txn, raider: &RaiderId) -> Result<Option<Wait>, StoreError> {
    read(txn, &wait_of(raider))
}

/// Declares a wait, in place of one before. Who can say that is not stalled.
///
/// # Errors
/// The store's.
pub fn declare(txn: &mut dyn Txn, raider: &RaiderId, wait: &Wait) -> Result<(), StoreError> {
    write(txn, &wait_of(raider), wait)?;
    txn.set(&steps_of(raider), None)?;
    if let Some(hook) = txn.hook(raider)? {
        over(txn, &hook, &STALLED)?;
        over(txn, &hook, &[ProblemKind::StalledSpins])?;
    }
    let data = serde_json::json!({ "until": wait.until, "reason": wait.reason });
    let event = NewEvent::new(EventType::RaiderWaiting, raider, Cause::Wait);
    txn.record(&event.with(data)).map(drop)
}

/// Records a step about a stalled raider, and the event of it; the first says that it is stalled.
/// False when it has other work by now, or is finished.
pub(super) fn take(
    txn: &mut dyn Txn,
    hook: &Hook,
    silence: std::time::Duration,
    change: &dyn Fn(&mut Steps),
    event: Option<&NewEvent>,
) -> Result<bool, StoreError> {
    let same = |now: &Hook| now.incarnation == hook.incarnation && now.done.is_none();
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
            Steps::none(hook.incarnation, txn.now())
        }
    };
    change(&mut steps);
    write(txn, &steps_of(&hook.raider), &steps)?;
    if let Some(event) = event {
        txn.record(event)?;
    }
    Ok(true)
}

/// It goes on: it is not stalled, and what people were called for is over.
pub(super) fn recover(txn: &mut dyn Txn, hook: &Hook, cause: Cause) -> Result<(), StoreError> {
    let Some(steps) = steps(txn, hook)? else {
        return Ok(());
    };
    txn.set(&steps_of(&hook.raider), None)?;
    over(txn, hook, &STALLED)?;
    over(txn, hook, &[ProblemKind::Unseen])?;
    let data = serde_json::json!({ "relic": hook.relic, "stalled_since": steps.since });
    let event = NewEvent::new(EventType::RaiderWorking, &hook.raider, cause);
    txn.record(&event.with(data)).map(drop)
}

/// Closes the calls for problems of these kinds with this raider and its work.
pub(super) fn over(
    txn: &mut dyn Txn,
    hook: &Hook,
    kinds: &[ProblemKind],
) -> Result<(), StoreError> {
    let raider = hook.raider.to_string();
    escalations::over(txn, kinds, |who, work| {
        who == raider && work == Some(&hook.relic)
    })
}

/// Nobody of this rig is stalled: it is not looked for any more.
pub(super) fn forget(txn: &mut dyn Txn, rig: &RigName) -> Result<(), StoreError> {
    let hooks = txn.hooks(Some(rig))?;
    let raiders: Vec<_> = hooks.iter().map(|hook| hook.raider.to_string()).collect();
    escalations::over(txn, &[ProblemKind::StalledSpins], |who, _| {
        raiders.iter().any(|raider| raider == who)
    })?;
    for hook in hooks {
        recover(txn, &hook, Cause::Config)?;
    }
    Ok(())
}
