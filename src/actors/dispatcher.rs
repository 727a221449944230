//! The dispatcher: does what is due. Now that is what `hd` left in the outbox while the supervisor
//! was away, and deferred relics whose time has come; each runs in a task of its own, so that one
//! delays no other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;

use super::refusal::{Refusal, RefusalKind};
use super::sagas::done::DoneRequest;
use super::witness::WitnessMsg;
use super::world::World;
use super::{ask, effects};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{Incarnation, InvalidId, RaiderId};
use crate::domain::message;
use crate::domain::relic::{RelicKind, RelicStatus};
use crate::ports::relics::RelicFilter;
use crate::ports::tasks::Intent;

/// Messages to the dispatcher.
#[derive(Debug)]
pub enum DispatcherMsg {
    /// Look at the outbox.
    Outbox,
    /// Look at everything that may be due.
    Patrol,
}

/// The actor. What is due stands in the store and the outbox.
pub struct DispatcherActor;

impl Actor for DispatcherActor {
    type Msg = DispatcherMsg;
    type State = Arc<World>;
    type Arguments = Arc<World>;

    async fn pre_start(
        &self,
        me: ActorRef<DispatcherMsg>,
        world: Arc<World>,
    ) -> Result<Arc<World>, ActorProcessingErr> {
        world.directory.set_dispatcher(me.clone());
        me.cast(DispatcherMsg::Patrol)?;
        Ok(world)
    }

    async fn handle(
        &self,
        _me: ActorRef<DispatcherMsg>,
        msg: DispatcherMsg,
        world: &mut Arc<World>,
    ) -> Result<(), ActorProcessingErr> {
        let outbox = Arc::clone(world);
        tokio::spawn(async move {
            if let Err(error) = empty_outbox(&outbox).await {
                tracing::warn!(%error, "the outbox could not be read");
            }
        });
        if matches!(msg, DispatcherMsg::Patrol) {
            let world = Arc::clone(world);
            tokio::spawn(async move {
                if let Err(error) = reopen_due(&world).await {
                    tracing::warn!(%error, "deferred relics could not be looked at");
                }
            });
        }
        Ok(())
    }
}

/// Empties the outbox as far as that can be done now, and returns when all of it was tried, whoever
/// was at it.
pub async fn settle_outbox(world: &Arc<World>) {
    /// Between two looks at what somebody else is at.
    const TURN: Duration = Duration::from_millis(50);
    let elsewhere = empty_outbox(world).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the outbox could not be read");
        Vec::new()
    });
    for key in elsewhere {
        while world.claims.is_claimed(&key) {
            tokio::time::sleep(TURN).await;
        }
    }
}

/// Tries every intent; returns the claims of those that somebody else is at.
async fn empty_outbox(world: &Arc<World>) -> Result<Vec<String>, Refusal> {
    let (mut trying, mut elsewhere) = (JoinSet::new(), Vec::new());
    for (file, intent) in effects::tasks(world, |tasks| tasks.outbox()).await? {
        let intent = match intent {
            Ok(intent) => intent,
            Err(error) => {
                tracing::warn!(%error, "a file in the outbox is not an intent");
                continue;
            }
        };
        let key = format!("outbox/{}", file.display());
        match world.claims.claim(key.clone()) {
            Some(claim) => {
                let world = Arc::clone(world);
                trying.spawn(async move {
                    carry_out(&world, file, intent).await;
                    drop(claim);
                });
            }
            None => elsewhere.push(key),
        }
    }
    while let Some(tried) = trying.join_next().await {
        if let Err(panic) = tried {
            tracing::error!(%panic, "an intent from the outbox panicked");
        }
    }
    Ok(elsewhere)
}

/// Carries an intent out as its author would have over the socket. What will never be accepted is
/// put away; what may be accepted later stays.
async fn carry_out(world: &World, file: PathBuf, intent: Intent) {
    let settled = match done_request(&intent) {
        Ok(request) => declare(world, request).await,
        Err(refused) => Err(refused),
    };
    match settled {
        Ok(()) => {}
        // It may be accepted later: a probe can succeed.
        Err(error) if error.is_passing() || error.kind == RefusalKind::Internal => {
            tracing::warn!(file = %file.display(), %error, "an intent waits in the outbox");
            return;
        }
        Err(error) => {
            let raider = intent.raider.as_deref().unwrap_or("nobody");
            tracing::warn!(raider, %error, "an intent from the outbox was refused");
        }
    }
    let settle = effects::tasks(world, move |tasks| tasks.settle(&file)).await;
    if let Err(error) = settle {
        tracing::warn!(%error, "an intent could not be taken out of the outbox");
    }
}

async fn declare(world: &World, request: DoneRequest) -> Result<(), Refusal> {
    let (raider, witness) = (
        request.raider.clone(),
        world.directory.witness(&request.raider.rig),
    );
    let message = |reply| WitnessMsg::Done(request, reply);
    let declared = ask::ask(witness, message, Duration::from_secs(120)).await?;
    declared.map(drop).inspect_err(|refused| {
        // Nobody else hears of it; a tree that is cleaned later may be in the middle of other work.
        let told = WitnessMsg::Refused(raider.clone(), refused.clone());
        world.directory.tell_witness(&raider.rig, told);
    })
}

fn done_request(intent: &Intent) -> Result<DoneRequest, Refusal> {
    let bad = |why: String| Refusal::new(RefusalKind::BadRequest, why);
    if intent.op != "done" {
        return Err(bad(format!("{} cannot be left in the outbox", intent.op)));
    }
    let raider = intent.raider.as_deref().unwrap_or_default();
    let rig = intent.rig.as_deref().unwrap_or_default();
    let full = if raider.contains('/') {
        raider.into()
    } else {
        format!("{rig}/raiders/{raider}")
    };
    let raider: RaiderId = full
        .parse()
        .map_err(|error: InvalidId| bad(error.to_string()))?;
    let mut request: DoneRequest = super::sagas::done::parse_args(raider, &intent.args)?;
    request.incarnation = intent.incarnation.map(Incarnation);
    Ok(request)
}

/// Deferred work whose time has come is open again.
async fn reopen_due(world: &World) -> Result<(), Refusal> {
    let filter = RelicFilter {
        kind: Some(RelicKind::Task),
        status: Some(RelicStatus::Deferred),
        ..RelicFilter::default()
    };
    let reopened = world.store.run(move |txn| {
        let now: Timestamp = txn.now();
        let mut reopened = 0;
        for mut relic in txn.relics(&filter)? {
            if relic.until.is_none_or(|until| until > now) {
                continue;
            }
            relic.status = RelicStatus::Open;
            relic.until = None;
            txn.put_relic(&relic)?;
            let data = serde_json::json!({ "status": "open" });
            let event = NewEvent::new(EventType::RelicUpdated, &relic.id, Cause::Deferred);
            txn.record(&event.with(data))?;
            reopened += 1;
        }
        Ok(reopened)
    });
    if reopened.await? > 0 {
        for rig in &world.city.rigs {
            world.nudge(&message::witness(&rig.name));
        }
    }
    Ok(())
}
