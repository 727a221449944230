//! The witness: watches one rig's raiders, and decides when their sandboxes are removed (`witness-patrol.md`;
//! `raider-lifecycle.md`, witness responsibilities).
//!
//! ```text
//!  Charge, Done, Nuke ──► begin (answered) ──► task ────────────────────────────► Ended ─┐
//!  Look ──► Looked: pieces of work, each in a task of its own under a claim ─────► Ended ─┤
//!     ▲                                                                                   │
//!     └────────────── at once, or with back-off after a failure ◄─────────────────────────┘
//!  Outcome, Finished ──► outcome task
//!  Patrol ──► all of the above, from ground truth
//! ```
//!
//! A look reads the store, the directory of sandboxes and, at a patrol, the sessions; a piece that hangs delays nothing
//! but itself.
//!
//! A witness keeps no state that matters: a successor resumes open sagas, reads the inbox and the outcome files, and
//! comes to the same conclusions.

mod broken_sandboxes;
mod charges;
mod inbox;
mod kept_sandboxes;
mod left_branches;
mod look;
mod memory;
mod merged;
pub mod observe;
mod outcomes;
mod quarantined;
mod remote_branch;
mod requested;
mod review;
pub mod rework;
mod session_age;
mod sessionless;
pub mod stall;
mod stuck_work;
mod unknown_owner;
mod validate;
mod wisps;
mod zombies;

use crate::actors::mail::WitnessMsg;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::task::AbortHandle;

use self::inbox::Handled;
use self::look::Piece;
pub use self::memory::Memory;
use super::accounts;
use super::look_timer::{self, NoLook};
use super::refusal::Refusal;
use super::sagas::done::Begun;
use super::sagas::{done, nuke};
use super::world::World;
use crate::actors::mail::RootMail;
use crate::actors::mail::raider_spec;
use crate::actors::mail::{Accepted, DoneRequest};
use crate::actors::mail::{NukeTarget, Nuked};
use crate::domain::cause::Cause;
use crate::domain::ids::{ChildId, RaiderId, RigName};
use crate::domain::message;
use crate::domain::phase::{RaiderRecord, WorkPhase};

/// The parts that a witness is made from.
#[derive(Clone)]
pub struct WitnessArgs {
    /// The world.
    pub world: Arc<World>,
    /// Its rig.
    pub rig: RigName,
    /// Its memory, which outlives it.
    pub memory: Arc<Memory>,
}

impl WitnessArgs {
    /// Tells the witness, or its present successor, that a task ended.
    fn ended(&self, handled: Handled) {
        let retry = match handled {
            Handled::Yes => false,
            Handled::Soon => true,
            Handled::AtPatrol => return,
        };
        let ended = WitnessMsg::Ended { retry };
        self.world.directory.tell_witness(&self.rig, ended);
    }
}

/// A witness's state.
pub struct Witness {
    args: WitnessArgs,
    /// Set while a look is under way.
    looking: bool,
    again: bool,
    /// Set when the next look is a patrol's.
    patrol: bool,
    /// The timer of the next completion that may be stuck.
    due: Option<AbortHandle>,
    /// Number of failures in a row.
    retries: u32,
    /// Set while the retry timer runs: one look serves many failures.
    waiting: bool,
    /// Set when something failed since the last patrol.
    trouble: bool,
}

/// The actor.
pub struct WitnessActor;

impl Actor for WitnessActor {
    type Msg = WitnessMsg;
    type State = Witness;
    type Arguments = WitnessArgs;

    async fn pre_start(
        &self,
        me: ActorRef<WitnessMsg>,
        args: WitnessArgs,
    ) -> Result<Witness, ActorProcessingErr> {
        args.world.directory.set_witness(args.rig.clone(), &me);
        me.cast(WitnessMsg::Patrol)?;
        Ok(Witness {
            args,
            looking: false,
            again: false,
            patrol: false,
            due: None,
            retries: 0,
            waiting: false,
            trouble: false,
        })
    }

    async fn handle(
        &self,
        me: ActorRef<WitnessMsg>,
        msg: WitnessMsg,
        witness: &mut Witness,
    ) -> Result<(), ActorProcessingErr> {
        witness.args.world = witness.args.world.newest();
        match msg {
            // While stopping, start no new work.
            WitnessMsg::Look if witness.args.world.is_stopping() => {}
            WitnessMsg::Look if witness.looking => witness.again = true,
            WitnessMsg::Look => witness.start_look(&me),
            WitnessMsg::Again => {
                witness.waiting = false;
                me.cast(WitnessMsg::Look)?;
            }
            WitnessMsg::Patrol => {
                if !std::mem::take(&mut witness.trouble) {
                    witness.retries = 0;
                }
                witness.squash_wisps();
                witness.delete_left_branches();
                witness.patrol = true;
                witness.read_outcomes(outcomes::Which::All);
                me.cast(WitnessMsg::Look)?;
            }
            WitnessMsg::Finished(raider) => {
                witness.read_outcomes(outcomes::Which::Ended(raider));
            }
            WitnessMsg::Outcome(dir) => witness.read_outcomes(outcomes::Which::In(dir)),
            WitnessMsg::Refused(raider, refused) => witness.refused(raider, refused),
            WitnessMsg::Charge(request, reply) => requested::one(&witness.args, request, reply),
            WitnessMsg::ChargeEach(batch) => requested::each(&witness.args, batch),
            WitnessMsg::Done(request, reply) => witness.done(request, reply),
            WitnessMsg::Nuke {
                target,
                salvage,
                reply,
            } => {
                witness.nuke(*target, salvage, reply);
            }
            WitnessMsg::Looked { retry, next } => {
                witness.looking = false;
                witness.arm(&me, next);
                if std::mem::take(&mut witness.again) {
                    witness.start_look(&me);
                } else {
                    witness.after(&me, retry);
                }
            }
            WitnessMsg::Ended { retry: true } => witness.after(&me, true),
            WitnessMsg::Ended { retry: false } => me.cast(WitnessMsg::Look)?,
        }
        Ok(())
    }
}

impl Witness {
    /// Arms a retry with back-off after a failure; the patrol looks anyway.
    fn after(&mut self, me: &ActorRef<WitnessMsg>, retry: bool) {
        self.trouble |= retry;
        if !retry || self.waiting {
            return;
        }
        self.waiting = true;
        self.retries = (self.retries + 1).min(6);
        let wait = Duration::from_millis(250) * 2_u32.pow(self.retries);
        let _timer = me.send_after(wait, || WitnessMsg::Again);
    }

    /// Arms the look at the next completion that may be stuck.
    fn arm(&mut self, me: &ActorRef<WitnessMsg>, next: Option<Timestamp>) {
        if let Some(before) = self.due.take() {
            before.abort();
        }
        let Some(next) = next else { return };
        // It is stuck only after its time has passed. The minimum wait keeps a clock that was set from causing a busy
        // loop.
        let wait = Duration::try_from(next - self.args.world.clock.now());
        let wait = wait.map_or(Duration::from_secs(1), |wait| {
            wait + Duration::from_millis(1)
        });
        self.due = Some(me.send_after(wait, || WitnessMsg::Look).abort_handle());
    }

    fn start_look(&mut self, me: &ActorRef<WitnessMsg>) {
        self.looking = true;
        let patrol = std::mem::take(&mut self.patrol);
        let (args, me) = (self.args.clone(), me.clone());
        tokio::spawn(async move {
            let own = args.clone();
            let look = async move { look::run(&own, patrol).await };
            let name = message::witness(&args.rig);
            let looked = look_timer::watched_with_rest(&args.world, &name, look).await;
            if looked.as_ref().err() == Some(&NoLook::Hangs) {
                // In a task of its own: the end of this look must reach the witness even if the call hangs, too.
                let own = args.clone();
                tokio::spawn(async move { look::call_about_hang(&own).await });
            }
            let (retry, next) = match looked {
                Ok(Ok(next)) => (false, next),
                Ok(Err(error)) => {
                    tracing::warn!(
                        rig = %args.rig,
                        %error,
                        "the witness's look failed; it is retried with back-off"
                    );
                    (true, None)
                }
                Err(NoLook::Panicked | NoLook::Hangs) => (true, None),
            };
            // A restarted witness looks by itself.
            let _restarted = me.cast(WitnessMsg::Looked { retry, next });
        });
    }

    fn squash_wisps(&self) {
        let args = self.args.clone();
        tokio::spawn(async move {
            or_warn!(wisps::squash(&args).await, rig = %args.rig,
                "the wisps of the last patrol could not be squashed into a digest");
        });
    }

    fn delete_left_branches(&self) {
        let args = self.args.clone();
        tokio::spawn(async move {
            if let Err(error) = left_branches::delete(&args).await {
                let what = "branches that raiders left could not be looked for";
                look::warn(&args, what, &error, "the next patrol tries again");
            }
        });
    }

    fn read_outcomes(&self, which: outcomes::Which) {
        let args = self.args.clone();
        tokio::spawn(async move {
            or_warn!(outcomes::read(&args, which).await, rig = %args.rig,
                "the outcome files could not be read; the next patrol reads them again");
        });
    }

    fn refused(&self, raider: RaiderId, refused: Refusal) {
        let args = self.args.clone();
        tokio::spawn(async move {
            let name = raider.to_string();
            or_warn!(
                outcomes::refused(&args, raider, &refused).await,
                raider = name,
                "the raider could not be told that its outcome was refused; it is told when it writes another"
            );
        });
    }

    fn done(&self, request: DoneRequest, reply: RpcReplyPort<Result<Accepted, Refusal>>) {
        let args = self.args.clone();
        tokio::spawn(async move {
            match done::begin(&args.world, request).await {
                Err(refused) => {
                    let _gave_up = reply.send(Err(refused));
                }
                Ok(Begun::Already(accepted)) => {
                    let _gave_up = reply.send(Ok(accepted));
                }
                Ok(Begun::New(accepted, saga, claim)) => {
                    completed(&args.world, &accepted).await;
                    // The intent is durable: the caller may go, and its session may be ended.
                    let _gave_up = reply.send(Ok(accepted));
                    look::attend(&args, Piece::Saga(saga), claim);
                    // From now on it may be stuck: the look computes the deadline.
                    args.world
                        .directory
                        .tell_witness(&args.rig, WitnessMsg::Look);
                }
            }
        });
    }

    fn nuke(&self, target: NukeTarget, salvage: bool, reply: RpcReplyPort<Result<Nuked, Refusal>>) {
        let args = self.args.clone();
        tokio::spawn(async move {
            nuke::turn(&args.world, &target).await;
            let result = nuke_now(&args, target, salvage).await;
            let _gave_up = reply.send(result);
            args.ended(Handled::Yes);
        });
    }
}

/// Lifts a park of the account that the finished session had caused, whichever way the completion was declared.
async fn completed(world: &World, accepted: &Accepted) {
    let raider = accepted.raider.clone();
    match world.store.run(move |txn| txn.hook(&raider)).await {
        Ok(Some(hook)) if hook.incarnation == accepted.incarnation => {
            accounts::completed(world, &ChildId::Raider(hook.raider), &hook.harness);
        }
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(
                raider = %accepted.raider,
                %error,
                "the hook cannot be read, so a park of the account that this raider caused is \
                not lifted yet"
            );
        }
    }
}

/// Nukes; refused without any effect when work would be lost.
pub(super) async fn nuke_now(
    args: &WitnessArgs,
    target: NukeTarget,
    salvage: bool,
) -> Result<Nuked, Refusal> {
    let world = &args.world;
    let _until_ended = nuke::fence(world, &target, salvage).await?;
    let judged = match salvage {
        true => nuke::savable(world, target.clone()).await,
        false => nuke::permitted(world, target.clone()).await,
    };
    let judged = match judged {
        Ok(judged) => judged,
        Err(refused) => return Err(nuke::named(world, &target, refused).await),
    };
    // Checked before the session is ended, because the saga could not be opened without room.
    world.store.find_room().await?;
    super::ask::end(world, target.child_ref(), target.order()).await?;
    let raider = target.raider;
    let nuked = match nuke::begin(world, &judged).await {
        Ok((saga, _until_run)) => nuke::run(world, saga, Some(judged)).await,
        Err(refused) => Err(refused),
    };
    args.memory.judged_sandboxes.remove(&raider);
    match nuked {
        Ok(nuked) => Ok(nuked),
        // Its session was ended for the nuke; the work goes on.
        Err(refused) => Err(match respawn(world, &raider).await {
            AfterRefusal::WaitsForReview => {
                let why = "its session has ended; a session is not started for a review, so a rejection goes to a fresh \
                    raider";
                let hint = refused.hint.as_ref().map(|hint| format!("{hint}; {why}"));
                refused.hint(hint.unwrap_or_else(|| why.to_owned()))
            }
            AfterRefusal::Other => refused,
        }),
    }
}

/// The state of a raider after its nuke was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterRefusal {
    /// It waits for a person's review without a session.
    WaitsForReview,
    /// It works on with a fresh session, or needs none.
    Other,
}

/// Restarts a raider whose nuke was refused at the last moment.
async fn respawn(world: &World, raider: &RaiderId) -> AfterRefusal {
    let wanted = raider.clone();
    let read = world.store.run(move |txn| txn.raider(&wanted)).await;
    let record = read.ok().flatten();
    let reviewed = |record: &RaiderRecord| WorkPhase::of(record).is_in_review();
    if record.as_ref().is_some_and(reviewed) {
        return AfterRefusal::WaitsForReview;
    }
    let goes_on = |record: &RaiderRecord| match WorkPhase::of(record) {
        WorkPhase::Working => true,
        WorkPhase::Charging { is_done } => !is_done && record.relic.is_bound(),
        WorkPhase::Removing { .. }
        | WorkPhase::Unbound
        | WorkPhase::Orphaned { .. }
        | WorkPhase::Submitting { .. }
        | WorkPhase::Validating { .. }
        | WorkPhase::InReview { .. }
        | WorkPhase::Over { .. } => false,
    };
    if let Some(record) = record.filter(goes_on) {
        let spec = Box::new(raider_spec(&world.city, record.hook, None));
        let want = RootMail::Want {
            spec,
            cause: Cause::Recovered,
            reply: None,
        };
        world.directory.tell_root(want);
    }
    AfterRefusal::Other
}

#[cfg(test)]
mod tests;
