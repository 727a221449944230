//! Requests of the control socket, one file per group of verbs. A handler reads store and ports, sends one message to
//! an actor, or writes one transaction (its own, or a function of `actors/records/`) and wakes the actor that depends
//! on it. It holds no state of the city.

mod accounts;
mod agent;
mod auto;
mod auto_charge;
mod caller;
mod cost;
mod cv;
mod denials;
mod diff;
mod doctor;
mod drums;
mod escalation;
mod events;
mod hook_event;
mod metrics;
mod mq;
mod names;
mod raider;
mod relic;
mod review;
mod salvage;
mod session_verbs;
mod standing;
mod status;
mod supervisor;
mod terminal;
mod totem;
mod work;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::protocol::{ControlError, ErrorKind, Op, OpName};
use super::server::{Answer, Call, Caller, Identified, Service};
use super::snapshot::Published;
use crate::actors::mail::{StopEnd, StopMode};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Rights;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::SessionId;
use crate::ports::relics::StoreError;

/// A request to stop. The answer comes when the tree has stopped, and tells how: an earlier request of another kind may
/// have been under way.
pub type StopRequest = (StopMode, oneshot::Sender<StopEnd>);

/// The service behind the control socket.
pub struct Handlers {
    world: Arc<World>,
    started: Duration,
    stop: mpsc::Sender<StopRequest>,
    denials: denials::Denials,
    published: Arc<Published>,
}

impl Handlers {
    /// Makes handlers for this world; stop requests go to the owner of the process through `stop`.
    #[must_use]
    pub fn new(world: Arc<World>, stop: mpsc::Sender<StopRequest>) -> Self {
        let started = world.clock.mono();
        Self {
            world,
            started,
            stop,
            denials: denials::Denials::default(),
            published: Arc::default(),
        }
    }
}

impl Service for Handlers {
    fn identify(&self, pid: u32) -> Identified {
        let world = self.world.newest();
        Box::pin(async move { caller::identify(&world, pid).await })
    }

    fn rights(&self, session: &SessionId) -> Rights {
        rights_of(&self.world.newest(), session)
    }

    fn call(&self, caller: Caller, op: Op) -> Call {
        let world = self.world.newest();
        let (started, stop) = (self.started, self.stop.clone());
        let published = Arc::clone(&self.published);
        Box::pin(async move {
            match op {
                Op::Events(args) => events::events(&world, args).await.map(Answer::Stream),
                Op::RelicExport(_) => relic::export(&world).await.map(Answer::Stream),
                Op::CvExport(args) => cv::export(&world, args).await.map(Answer::Stream),
                Op::Stop(args) => supervisor::stop(&stop, args).await.map(Answer::Value),
                Op::ConfigShow(_) => Ok(Answer::Value(Value::clone(&world.shown))),
                Op::Ping(_) => supervisor::ping(&world).map(Answer::Value),
                Op::Status(args) if args.watch => {
                    Ok(Answer::Stream(status::watch(&published, &world, started)))
                }
                Op::Status(_) => status::status(&published, &world, started)
                    .await
                    .map(Answer::Text),
                Op::Metrics(_) => metrics::metrics(&published, &world, started)
                    .await
                    .map(Answer::Value),
                other => dispatch(&published, &world, caller, other)
                    .await
                    .map(Answer::Value),
            }
        })
    }

    fn forbidden(&self, caller: &Caller, op: Option<OpName>, error: &ControlError) {
        let who = caller.who.name();
        let Some(times) = self.denials.count(who, op, self.world.clock.mono()) else {
            return;
        };
        let data = json!({
            "pid": caller.pid, "uid": caller.uid, "op": op.map(|op| op.as_str()), "message": error.message,
            "times": times,
        });
        let event = NewEvent::new(EventType::ControlForbidden, who, Cause::Forbidden);
        self.world.store.journal(vec![event.with(data)]);
    }

    fn answered(&self, op: OpName, failed: Option<ErrorKind>, took: Duration) {
        let result = failed.map_or_else(|| "ok".to_owned(), |kind| word(&kind));
        let metrics = self.world.store.metrics();
        metrics.answered(op.as_str(), &result, took);
    }
}

/// Returns an agent's rights beyond its own session. An agent that is no longer configured
/// has the rights `read`.
fn rights_of(world: &World, session: &SessionId) -> Rights {
    let agent = world.city.agent_of(session);
    agent.map_or(Rights::Read, |agent| agent.rights)
}

async fn dispatch(
    published: &Published,
    world: &Arc<World>,
    caller: Caller,
    op: Op,
) -> Result<Value, ControlError> {
    let asker = || caller::asker(world, &caller);
    match op {
        Op::Run(args) => work::run(world, asker().await, args).await,
        Op::Charge(args) => work::charge(world, asker().await, args).await,
        Op::ChargePause(args) => auto_charge::pause(world, asker().await, args).await,
        Op::ChargeResume(args) => auto_charge::resume(world, asker().await, args).await,
        Op::Done(args) => session_verbs::done(world, &caller, &args).await,
        Op::Handoff(args) => session_verbs::handoff(world, &caller, args).await,
        Op::Wait(args) => session_verbs::wait(world, &caller, args).await,
        Op::Review(args) => review::record(world, &caller, args).await,
        Op::HookEvent(args) => hook_event::hook_event(world, &caller, &args).await,
        Op::Rally(_) => session_verbs::rally(world, &caller).await,
        Op::Hook(_) => session_verbs::hook(world, &caller).await,
        #[rustfmt::skip]
        op @ (Op::RelicCreate(_) | Op::RelicShow(_) | Op::RelicList(_) | Op::RelicClose(_) | Op::RelicReopen(_)
        | Op::RelicEdit(_) | Op::RelicCancel(_) | Op::RelicDepAdd(_) | Op::RelicDepRemove(_) | Op::RelicDepList(_)
        | Op::RelicReady(_) | Op::RelicImport(_) | Op::RitualList(_) | Op::RitualShow(_) | Op::TotemStart(_) | Op::TotemShow(_) | Op::StepDone(_)) => of_relics(world, &caller, op).await,
        Op::RaiderList(args) => raider::list(published, world, args).await,
        Op::RaiderShow(args) => raider::show(published, world, &args.name).await,
        Op::RaiderNuke(args) => raider::nuke(world, asker().await, args).await,
        #[rustfmt::skip]
        op @ (Op::RaiderSuspend(_) | Op::RaiderResume(_) | Op::AgentSuspend(_) | Op::AgentResume(_)) => of_suspensions(world, &caller, op).await,
        Op::Reload(args) => supervisor::reload(world, asker().await, args.dry_run).await,
        Op::RaiderRepair(args) => raider::repair(world, asker().await, &args.name).await,
        Op::Attach(args) => terminal::attach(world, &args.name).await,
        Op::Peek(args) => terminal::peek(world, &args.name).await,
        Op::Send(args) => terminal::send(world, args).await,
        Op::Answer(args) => terminal::answer(world, asker().await, args).await,
        Op::Logs(args) => terminal::logs(world, args).await,
        Op::AgentList(_) => agent::list(world).await,
        Op::AgentStart(args) => agent::start(world, &asker().await, &args.name).await,
        Op::AgentStop(args) => agent::stop(world, &asker().await, &args.name).await,
        Op::AgentRestart(args) => agent::restart(world, &asker().await, args).await,
        Op::AgentUnquarantine(args) => agent::unquarantine(world, &asker().await, &args.name).await,
        Op::HarnessResume(args) => accounts::resume(world, asker().await, &args.name),
        #[rustfmt::skip]
        op @ (Op::MqList(_) | Op::MqShow(_) | Op::MqRetry(_) | Op::MqApprove(_) | Op::MqReject(_)
        | Op::MqPr(_) | Op::Diff(_)) => of_review(world, &caller, op).await,
        Op::Doctor(args) => doctor::doctor(world, &caller, args).await,
        Op::AutoList(_) => auto::list(world).await,
        Op::AutoRun(args) => auto::run(world, asker().await, &args.name).await,
        Op::AutoHistory(args) => auto::history(world, args.name.as_deref()).await,
        Op::AutoEnable(args) => auto::switch(world, asker().await, &args.name, true).await,
        Op::AutoDisable(args) => auto::switch(world, asker().await, &args.name, false).await,
        Op::Cost(args) => cost::cost(world, args).await,
        #[rustfmt::skip]
        op @ (Op::Cv(_) | Op::CvImport(_) | Op::CvForget(_)) => cv::dispatch(world, &caller, op).await,
        Op::Why(args) => events::why(world, &args.name).await,
        #[rustfmt::skip]
        op @ (Op::SalvageList(_) | Op::SalvageStashes(_) | Op::SalvageShow(_) | Op::SalvageRestore(_) | Op::SalvagePrune(_)) => of_salvage(world, &caller, op).await,
        #[rustfmt::skip]
        op @ (Op::Escalate(_) | Op::Escalations(_) | Op::EscalationsAck(_) | Op::DrumsSend(_) | Op::DrumsInbox(_)
        | Op::DrumsRead(_) | Op::DrumsReply(_) | Op::DrumsAck(_)) => of_messages(world, &caller, op).await,
        // Handled by `call` itself.
        Op::Events(_)
        | Op::RelicExport(_)
        | Op::CvExport(_)
        | Op::Stop(_)
        | Op::ConfigShow(_)
        | Op::Ping(_)
        | Op::Status(_)
        | Op::Metrics(_) => Err(served_elsewhere()),
    }
}

/// Dispatches the operations on merge requests, and the look at what they land.
async fn of_review(world: &World, caller: &Caller, op: Op) -> Result<Value, ControlError> {
    let asker = || caller::asker(world, caller);
    match op {
        Op::Diff(args) => diff::diff(world, &args.name).await,
        Op::MqList(args) => mq::list(world, args).await,
        Op::MqShow(args) => mq::show(world, &args.mr).await,
        Op::MqRetry(args) => mq::retry(world, asker().await, &args.mr).await,
        Op::MqApprove(args) => mq::approve(world, asker().await, args).await,
        Op::MqReject(args) => mq::reject(world, asker().await, args).await,
        Op::MqPr(args) => mq::pull_request(world, asker().await, args).await,
        _ => Err(served_elsewhere()),
    }
}

/// Dispatches the operations on salvage.
async fn of_salvage(world: &World, caller: &Caller, op: Op) -> Result<Value, ControlError> {
    let asker = || caller::asker(world, caller);
    match op {
        Op::SalvageList(args) => salvage::list(world, args).await,
        Op::SalvageStashes(args) => salvage::pinned(world, args).await,
        Op::SalvageShow(args) => salvage::show(world, &args.id).await,
        Op::SalvageRestore(args) => salvage::restore(world, args).await,
        Op::SalvagePrune(args) => salvage::prune(world, asker().await, args).await,
        _ => Err(served_elsewhere()),
    }
}

/// Dispatches the orders to suspend and resume a child.
async fn of_suspensions(world: &World, caller: &Caller, op: Op) -> Result<Value, ControlError> {
    let asker = caller::asker(world, caller).await;
    match op {
        Op::RaiderSuspend(of) | Op::AgentSuspend(of) => {
            agent::suspend(world, asker, &of.name, true).await
        }
        Op::RaiderResume(of) | Op::AgentResume(of) => {
            agent::suspend(world, asker, &of.name, false).await
        }
        _ => Err(served_elsewhere()),
    }
}

/// Dispatches the operations on escalations and drums.
async fn of_messages(world: &World, caller: &Caller, op: Op) -> Result<Value, ControlError> {
    let asker = || caller::asker(world, caller);
    match op {
        Op::Escalate(args) => escalation::escalate(world, caller, args).await,
        Op::Escalations(_) => escalation::list(world).await,
        Op::EscalationsAck(args) => escalation::ack(world, asker().await, &args.id).await,
        drums => drums::dispatch(world, caller, drums).await,
    }
}

/// Dispatches the operations on relics, and on work in steps.
async fn of_relics(world: &World, caller: &Caller, op: Op) -> Result<Value, ControlError> {
    let asker = || caller::asker(world, caller);
    match op {
        Op::RelicCreate(args) => relic::create(world, asker().await, args).await,
        Op::RelicShow(args) => relic::show(world, &args.relic).await,
        Op::RelicList(args) => relic::list(world, args).await,
        Op::RelicClose(args) => relic::close(world, caller, args).await,
        Op::RelicReopen(args) => relic::reopen(world, caller, args).await,
        Op::RelicEdit(args) => relic::edit(world, caller, args).await,
        Op::RelicCancel(args) => relic::cancel(world, caller, args).await,
        Op::RelicDepAdd(args) => relic::add_dep(world, caller, &args).await,
        Op::RelicDepRemove(args) => relic::remove_dep(world, caller, &args).await,
        Op::RelicDepList(args) => relic::deps(world, args).await,
        Op::RelicReady(args) => relic::ready(world, args).await,
        Op::RelicImport(args) => relic::import(world, caller, args).await,
        other => totem::dispatch(world, caller, other).await,
    }
}

/// Returns the answer to an operation that reached a group without an arm for it. A test sends every operation and
/// refuses this answer.
fn served_elsewhere() -> ControlError {
    ControlError::internal("this operation is served elsewhere")
}

impl From<Refusal> for ControlError {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.kind {
            RefusalKind::BadRequest | RefusalKind::NoCommits => ErrorKind::BadRequest,
            RefusalKind::NotFound => ErrorKind::NotFound,
            RefusalKind::WorkAtRisk | RefusalKind::NoRoom => ErrorKind::Refused,
            RefusalKind::Conflict | RefusalKind::Changed | RefusalKind::Failed => {
                ErrorKind::Conflict
            }
            RefusalKind::NeedsHuman => ErrorKind::NeedsHuman,
            RefusalKind::Parked => ErrorKind::Parked,
            RefusalKind::Unavailable => ErrorKind::Unavailable,
            RefusalKind::Timeout => ErrorKind::Timeout,
            RefusalKind::Internal => ErrorKind::Internal,
        };
        Self {
            kind,
            message: refusal.text(),
            hint: refusal.hint,
        }
    }
}

impl From<StoreError> for ControlError {
    fn from(error: StoreError) -> Self {
        Refusal::from(error).into()
    }
}

/// Serialises a value that always has a JSON form.
fn to_json(value: &impl serde::Serialize) -> Result<Value, ControlError> {
    serde_json::to_value(value).map_err(|error| ControlError::internal(error.to_string()))
}

/// Returns the word for a value on the wire.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests;
