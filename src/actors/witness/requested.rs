//! Charges that a caller asked for.

use std::collections::BTreeMap;

use ractor::RpcReplyPort;

use super::super::claims::Claim;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::charge;
use super::WitnessArgs;
use super::inbox::Handled;
use crate::actors::mail::{ChargeBatch, ChargeRequest, Charged};
use crate::domain::saga::Saga;

type Reply = RpcReplyPort<Result<Charged, Refusal>>;

/// Charges a relic, in a task.
pub(super) fn one(args: &WitnessArgs, request: ChargeRequest, reply: Reply) {
    let args = args.clone();
    tokio::spawn(async move {
        let result = charge(&args, request).await;
        answer(&args, reply, result);
    });
}

/// Charges several relics, in a task: their slots are taken one after another, so that their order decides, and the rest
/// of each charge runs in a task of its own.
pub(super) fn each(args: &WitnessArgs, batch: ChargeBatch) {
    let args = args.clone();
    tokio::spawn(async move {
        let (mut away, mut hangs) = (BTreeMap::new(), None);
        for charge in batch.charges {
            let known = hangs.as_ref().or_else(|| away.get(&charge.own_branch));
            let begun = match known.cloned() {
                Some(away) => Err(away),
                None => begin(&args, charge.request).await,
            };
            // It is decided whether it has a slot.
            drop(charge.claim);
            match begun {
                Ok((saga, claim)) => carry_out(&args, saga, claim, charge.reply),
                Err(refused) => {
                    if refused.kind == RefusalKind::Timeout {
                        // Each of the others would wait as long, one after another.
                        hangs.get_or_insert_with(|| refused.clone());
                    }
                    if refused.is_passing() {
                        // The remote or the store is away: what begins at the same place needs it as well.
                        away.insert(charge.own_branch, refused.clone());
                    }
                    answer(&args, charge.reply, Err(refused));
                }
            }
        }
        // What got no slot may be charged automatically from now on.
        args.ended(Handled::Yes);
    });
}

/// Charges a relic. Where automatic charging took it first, that charge is what was asked for: its end is waited for.
async fn charge(args: &WitnessArgs, request: ChargeRequest) -> Result<Charged, Refusal> {
    let world = &args.world;
    match begin(args, request.clone()).await {
        Ok((saga, _until_ended)) => charge::run(world, saga).await,
        Err(refused) if refused.kind == RefusalKind::Conflict => {
            charge::join(world, &request).await?.ok_or(refused)
        }
        Err(refused) => Err(refused),
    }
}

/// Takes a slot; the saga is claimed by this task from its first row on.
async fn begin(args: &WitnessArgs, request: ChargeRequest) -> Result<(Saga, Claim), Refusal> {
    let world = &args.world;
    let rig = world
        .city
        .rig(&args.rig)
        .ok_or_else(|| Refusal::not_found(format!("no rig named {}", args.rig)))?;
    charge::begin(world, rig, request).await
}

/// Runs a charge that has its slot.
fn carry_out(args: &WitnessArgs, saga: Saga, claim: Claim, reply: Reply) {
    let args = args.clone();
    tokio::spawn(async move {
        let charged = charge::run(&args.world, saga).await;
        drop(claim);
        answer(&args, reply, charged);
    });
}

fn answer(args: &WitnessArgs, reply: Reply, result: Result<Charged, Refusal>) {
    let passing = result.as_ref().is_err_and(Refusal::is_passing);
    let _gave_up = reply.send(result);
    args.ended(if passing { Handled::Soon } else { Handled::Yes });
}
