//! Escalations for raiders with open work whose sandbox is gone or broken. The witness only calls a person: the branch's
//! commits are safe in `repo.git`, and a person decides whether to repair the sandbox or to give up the work.

use std::collections::{BTreeMap, BTreeSet};

use super::super::refusal::Refusal;
use super::super::sandbox_faults;
use super::WitnessArgs;
use super::inbox;
use crate::actors::records::escalations;
use crate::domain::ids::RaiderId;
use crate::domain::sandbox_fault::SandboxFault;
use crate::ports::relics::Txn;

/// Calls a person for each broken sandbox, and closes the escalations of those that work again.
///
/// # Errors
/// The store's.
pub(super) async fn call(args: &WitnessArgs) -> Result<(), Refusal> {
    let mut still: BTreeMap<_, BTreeSet<RaiderId>> = SandboxFault::PROBLEMS
        .map(|it| (it, BTreeSet::new()))
        .into();
    for (hook, seen) in sandbox_faults::observe(&args.world, &args.rig).await? {
        let raider = &hook.raider;
        match seen {
            Ok(what) => {
                let sandbox = args.world.city.sandbox(raider);
                let evidence = format!("{}; {}", what.says(&sandbox), what.advice(raider));
                still
                    .entry(what.problem())
                    .or_default()
                    .insert(raider.clone());
                inbox::escalate(args, &hook, what.problem(), evidence).await?;
            }
            Err(error) => {
                tracing::warn!(
                    %raider,
                    %error,
                    "the sandbox cannot be inspected; earlier escalations about it stay open \
                    until the next patrol"
                );
                // An earlier escalation may still be right.
                for these in still.values_mut() {
                    these.insert(raider.clone());
                }
            }
        }
    }
    let rig = args.rig.clone();
    let settled = move |txn: &mut dyn Txn| {
        let mut still = still.iter();
        still.try_for_each(|(problem, these)| escalations::still_so(txn, &rig, *problem, these))
    };
    Ok(args.world.store.run(settled).await?)
}
