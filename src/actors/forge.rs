//! The forge: one rig's merge queue. The queue is rows in the store; this actor only decides when to look and lands one
//! merge request at a time.
//!
//! ```text
//!  Look ─► inbox task: pin, queue, acknowledge MERGE_READY ─► Looked ─┐
//!            ▲                                                        ▼
//!            │                                   lane task: land the next one ─► Landed
//!            └──────────────── held ones: timer ◄───────────────────┘
//! ```

mod elsewhere;

use crate::actors::mail::ForgeMsg;
use crate::actors::mail::LaneTurn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::claims::ClaimKey;
use super::effects;
use super::look_timer;
use super::refusal::{Refusal, RefusalKind};
use super::sagas::land;
use super::world::World;
use crate::actors::mail::LandOutcome;
use crate::actors::records::escalations::{self, Ends};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{RelicId, RigName};
use crate::domain::merge::MrState;
use crate::domain::message::{self, Body, Escalation, MergeReady, Message};
use crate::domain::problem::ProblemKind;
use crate::domain::queue::{self, Step};
use crate::domain::saga::{FaultPoint, Saga, SagaKind};
use crate::ports::repo::Repo;

/// Members of an attempt.
const MEMBERS: usize = 1;
/// Delay before a failed landing is retried.
const SOON: Duration = Duration::from_secs(1);

/// The parts that a forge is made from.
#[derive(Clone)]
pub struct ForgeArgs {
    /// The world.
    pub world: Arc<World>,
    /// Its rig.
    pub rig: RigName,
    /// The merge request that is tried now. It outlives the forge, as the task that tries it does.
    pub tried: Arc<Tried>,
}

/// A forge's state.
pub struct Forge {
    args: ForgeArgs,
    /// Set while the inbox task runs; a message meanwhile sets `again`.
    looking: bool,
    again: bool,
    /// Set while a landing runs.
    landing: bool,
    /// The watch over merge requests that wait for a review.
    watch: Arc<elsewhere::Watch>,
    /// Set when the rig was suspended at the last turn; none before the first.
    paused: Option<bool>,
    /// Wakes for the first held merge request, or for a lane that was held.
    timer: Option<Timer>,
}

/// The merge request that the task of the lane tries, for the task that looks.
#[derive(Default)]
pub struct Tried(Mutex<Option<RelicId>>);

impl Tried {
    fn now(&self) -> MutexGuard<'_, Option<RelicId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Timer = tokio::task::JoinHandle<Result<(), ractor::MessagingErr<ForgeMsg>>>;

/// The actor.
pub struct ForgeActor;

impl Actor for ForgeActor {
    type Msg = ForgeMsg;
    type State = Forge;
    type Arguments = ForgeArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ForgeMsg>,
        args: ForgeArgs,
    ) -> Result<Forge, ActorProcessingErr> {
        args.world.directory.set_forge(args.rig.clone(), &me);
        me.cast(ForgeMsg::Look)?;
        Ok(Forge {
            args,
            looking: false,
            again: false,
            landing: false,
            watch: Arc::default(),
            paused: None,
            timer: None,
        })
    }

    async fn handle(
        &self,
        me: ActorRef<ForgeMsg>,
        msg: ForgeMsg,
        forge: &mut Forge,
    ) -> Result<(), ActorProcessingErr> {
        forge.args.world = forge.args.world.newest();
        match msg {
            ForgeMsg::Look if forge.looking => forge.again = true,
            ForgeMsg::Look => forge.start_look(&me),
            ForgeMsg::Looked => {
                forge.looking = false;
                if std::mem::take(&mut forge.again) {
                    forge.start_look(&me);
                }
                forge.land_next(&me);
            }
            ForgeMsg::Landed(result) => {
                forge.landing = false;
                forge.landed(&me, result);
            }
        }
        Ok(())
    }
}

impl Forge {
    fn start_look(&mut self, me: &ActorRef<ForgeMsg>) {
        self.looking = true;
        let (args, me) = (self.args.clone(), me.clone());
        tokio::spawn(async move {
            let own = args.clone();
            let read = async move {
                let read = read_inbox(&own).await;
                if let Err(error) = end_void_gate(&own).await {
                    tracing::warn!(
                        rig = %own.rig,
                        %error,
                        "the gate of withdrawn work could not be ended; the next look retries"
                    );
                }
                read
            };
            match look_timer::watched(&args.world, "forge", read).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(
                        rig = %args.rig,
                        %error,
                        "the forge could not read its inbox; the next look retries"
                    );
                }
                Err(why) => tracing::error!(
                    rig = %args.rig,
                    ?why,
                    "the forge's check of its queue hung or panicked; nothing landed in it, and the next check retries"
                ),
            }
            // A restarted forge looks by itself.
            let _restarted = me.cast(ForgeMsg::Looked);
        });
    }

    fn land_next(&mut self, me: &ActorRef<ForgeMsg>) {
        if self.landing {
            return;
        }
        // A predecessor that panicked may have left a landing running: it holds the lane.
        let Some(claim) = self
            .args
            .world
            .claims
            .claim(ClaimKey::Lane(self.args.rig.clone()))
        else {
            self.arm(me, Some(SOON));
            return;
        };
        self.landing = true;
        let (args, me) = (self.args.clone(), me.clone());
        let watch = Arc::clone(&self.watch);
        tokio::spawn(async move {
            let landing = tokio::spawn(async move { land_one(&args, &watch).await });
            let panicked = |panic| Err(Refusal::new(RefusalKind::Internal, format!("{panic}")));
            let result = landing.await.unwrap_or_else(panicked);
            drop(claim);
            // A restarted forge looks by itself.
            let _restarted = me.cast(ForgeMsg::Landed(result));
        });
    }

    fn landed(&mut self, me: &ActorRef<ForgeMsg>, result: Result<LaneTurn, Refusal>) {
        self.note_pause(&result);
        match result {
            // Nothing to do: wait for a message, or until the next held merge request is due.
            Ok(LaneTurn::Idle { due }) => {
                let now = self.args.world.clock.now();
                let wait = |due: Timestamp| Duration::try_from(due - now).unwrap_or_default();
                self.arm(me, due.map(wait));
            }
            Ok(LaneTurn::Paused) => self.arm(me, None),
            Ok(LaneTurn::Tried(_)) => self.land_next(me),
            Err(error) => {
                tracing::warn!(rig = %self.args.rig, %error, "a landing failed; retry in 1 s");
                self.arm(me, Some(SOON));
            }
        }
    }

    /// Journals once that the queue is paused, when the landing under way is over.
    fn note_pause(&mut self, result: &Result<LaneTurn, Refusal>) {
        let paused = match result {
            Ok(LaneTurn::Paused) => true,
            Ok(LaneTurn::Idle { .. } | LaneTurn::Tried(_)) => false,
            Err(_) => return,
        };
        if paused && self.paused == Some(false) {
            let (kind, cause) = (EventType::ForgePaused, Cause::Suspended);
            let event = NewEvent::new(kind, &self.args.rig, cause);
            self.args.world.store.journal(vec![event]);
        }
        self.paused = Some(paused);
    }

    /// Arms a look after `wait`. One timer at a time.
    fn arm(&mut self, me: &ActorRef<ForgeMsg>, wait: Option<Duration>) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        self.timer = wait.map(|wait| {
            let wait = wait.max(Duration::from_millis(10));
            me.send_after(wait, || ForgeMsg::Look)
        });
    }
}

/// Takes MERGE_READY messages into the queue: pinned first, then acknowledged.
async fn read_inbox(args: &ForgeArgs) -> Result<(), Refusal> {
    let world = &args.world;
    let to = message::forge(&args.rig);
    for message in world.store.run(move |txn| txn.inbox(&to)).await? {
        match message.body.clone() {
            // A message that cannot be taken now does not hold up others; the patrol retries.
            Body::MergeReady(ready) => {
                if let Err(error) = accept(args, &message, ready.clone()).await {
                    tracing::warn!(
                        rig = %args.rig,
                        id = message.id,
                        %error,
                        "a merge request could not be queued; the next look retries, and a \
                        person is called unless the failure is transient"
                    );
                    if !error.is_passing() {
                        refuse(args, ready, error).await?;
                    }
                }
            }
            _ => {
                tracing::warn!(
                    rig = %args.rig,
                    id = message.id,
                    from = %message.from,
                    "the forge received a message of a kind that it does not handle; it is \
                    marked as handled"
                );
                world.store.run(move |txn| txn.handled(message.id)).await?;
            }
        }
    }
    Ok(())
}

async fn accept(args: &ForgeArgs, message: &Message, ready: MergeReady) -> Result<(), Refusal> {
    let world = &args.world;
    let (id, mr) = (message.id, ready.mr.clone());
    let state = world.store.run(move |txn| Ok(txn.mr(&mr)?.state)).await?;
    if state != MrState::Reviewing {
        // Queued before, or withdrawn: a pin would outlive it.
        world.store.run(move |txn| txn.handled(id)).await?;
        return Ok(());
    }
    let (mr, head) = (ready.mr.clone(), ready.head.clone());
    effects::repo_for(world, &args.rig, effects::WorkKind::Landing, move |repo| {
        repo.pin(&mr, &head)
    })
    .await?;
    world.at(FaultPoint::LandPinBefore);
    world
        .store
        .run(move |txn| {
            if !txn.handled(id)? {
                return Ok(());
            }
            let mut mr = txn.mr(&ready.mr)?;
            if !land::take(txn, &mut mr, &Step::Queued(ready.head.clone()))? {
                return Ok(());
            }
            land::record_mr(txn, EventType::MrQueued, &mr, Cause::Done)
        })
        .await?;
    world.at(FaultPoint::LandPinAfter);
    // The queue owns the work now: the sandbox may be removed, and its slot freed.
    world.nudge(&message::witness(&args.rig));
    Ok(())
}

/// Calls a person about work that cannot be queued; it is still retried at each look.
async fn refuse(args: &ForgeArgs, ready: MergeReady, error: Refusal) -> Result<(), Refusal> {
    let body = Escalation::high(
        &ready.raider,
        ProblemKind::QueueRefused,
        format!("{} at {}: {error}", ready.mr, ready.head),
    )
    .on(ready.relic);
    escalations::call(
        &args.world,
        &message::forge(&args.rig),
        Ends::WithWork,
        body,
    )
    .await
}

/// Finishes an interrupted landing, else lands the next merge request; none when there is nothing to do.
async fn land_one(args: &ForgeArgs, watch: &elsewhere::Watch) -> Result<LaneTurn, Refusal> {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig).cloned() else {
        return Ok(LaneTurn::Idle { due: None });
    };
    let name = args.rig.clone();
    let (sagas, queue) = world
        .store
        .run(move |txn| Ok((txn.sagas(Some(&name))?, txn.mrs(Some(&name), true)?)))
        .await?;
    let now = world.clock.now();
    let held = |saga: &Saga| {
        let mr = queue.iter().find(|mr| mr.id.as_str() == saga.subject);
        mr.is_some_and(|mr| mr.is_held(now))
    };
    let begun = sagas
        .into_iter()
        .find(|saga| saga.kind == SagaKind::Land && !held(saga));
    if let Some(saga) = begun {
        let id = saga.subject.parse::<RelicId>().ok();
        let own = Arc::clone(world);
        let work = async move { land::resume(&own, &rig, saga).await };
        return apart(world, id, work).await;
    }
    // This task holds the lane, so no test runs: these states are of interrupted attempts.
    let stranded: Vec<RelicId> = queue
        .iter()
        .filter(|mr| matches!(mr.state, MrState::Testing | MrState::Merging))
        .map(|mr| mr.id.clone())
        .collect();
    if !stranded.is_empty() {
        return land::restore(world, stranded).await.map(LaneTurn::Tried);
    }
    if rig.suspended || world.city.suspended {
        // No landing is under way; a reload has every actor look.
        recover(args).await;
        return Ok(LaneTurn::Paused);
    }
    match queue::next_attempt(&queue, MEMBERS, now).first() {
        Some(mr) => {
            let (id, own) = (mr.id.clone(), Arc::clone(world));
            let work = async move { land::attempt(&own, &rig, id).await };
            *args.tried.now() = Some(mr.id.clone());
            let landing = apart(world, Some(mr.id.clone()), work).await;
            *args.tried.now() = None;
            landing
        }
        None => {
            let queued = queue.iter().filter(|mr| mr.state == MrState::Queued);
            let due = queued.filter_map(|mr| mr.not_before).min();
            recover(args).await;
            elsewhere::look(args, watch, &rig, &queue).await;
            Ok(LaneTurn::Idle { due })
        }
    }
}

/// Ends the gate of a merge request that was withdrawn while it was tested: it would hold the lane for nothing, up to
/// its timeout. A stop that comes between two gates is repeated at the next look.
async fn end_void_gate(args: &ForgeArgs) -> Result<(), Refusal> {
    let id = args.tried.now().clone();
    let Some(id) = id else { return Ok(()) };
    let (world, mr) = (&args.world, id.clone());
    let state = world.store.run(move |txn| Ok(txn.mr(&mr)?.state)).await?;
    if state == MrState::Rejected {
        tracing::info!(
            rig = %args.rig,
            mr = %id,
            "the merge request was withdrawn while it was tested; its gate is ended"
        );
        let stop = |repo: &dyn Repo| {
            repo.stop_gate();
            Ok(())
        };
        effects::repo(world, &args.rig, stop).await?;
    }
    Ok(())
}

/// Takes back an interrupted landing, which locks the checkout of a person until then: no other may follow. The next
/// patrol tries again.
async fn recover(args: &ForgeArgs) {
    let recovered = |repo: &dyn Repo| repo.recover_landing();
    let kind = effects::WorkKind::Landing;
    let done = effects::repo_for(&args.world, &args.rig, kind, recovered);
    if let Err(why) = done.await {
        tracing::debug!(
            rig = %args.rig,
            %why,
            "an interrupted landing cannot be taken back now; the next patrol tries again"
        );
    }
}

/// Runs one merge request's turn. An attempt that fails for a reason of its own, even by a panic, does not hold up
/// others; a transient failure is retried.
async fn apart(
    world: &World,
    id: Option<RelicId>,
    work: impl Future<Output = Result<LandOutcome, Refusal>> + Send + 'static,
) -> Result<LaneTurn, Refusal> {
    let panicked = |panic| Err(Refusal::new(RefusalKind::Internal, format!("{panic}")));
    let result = tokio::spawn(work).await.unwrap_or_else(panicked);
    match (result, id) {
        (Err(error), Some(id)) if !error.is_passing() && !world.is_stopping() => {
            land::set_back(world, id, error.to_string()).await
        }
        (result, _) => result,
    }
    .map(LaneTurn::Tried)
}

#[cfg(test)]
mod tests;
