//! The root supervisor: owns every child, restarts it one_for_one within its own intensity, and
//! ends all of them in order.
//!
//! ```text
//!  infrastructure (infra.rs)         children (children.rs, deaths.rs)
//!  store, shaman, dispatcher,        raiders and agents: one slot each, holding
//!  config, witness+forge per rig     spec, desired, deaths, epoch, actor
//!        │ a panic                         │ ActorFailed(ChildExit)
//!        └── restarted, rebuilt            └── restart, back-off, quarantine, or rest
//!
//!  orders.rs    what others ask: want, end, rest, wake, cycle
//!  wanted.rs, look.rs ─► recovery.rs ─► planned.rs
//!               who should be there, what is, what follows: at start-up, at every patrol, and
//!               after a reload (reload.rs)
//!  shells.rs    agents that died inside their wrappers
//!  depends.rs   start after, stop before      groups.rs  one_for_all, rest_for_one
//!  pools.rs     how many members              shutdown.rs  two passes, reverse order
//!  history.rs   deaths that outlive the supervisor
//! ```
//!
//! Only the root starts and stops children. Everybody else asks.

mod children;
mod deaths;
mod depends;
mod groups;
mod handoffs;
mod history;
mod infra;
mod left;
mod look;
mod meant;
mod orders;
mod parked;
mod planned;
mod pools;
mod recovery;
mod reload;
mod shells;
mod shutdown;
mod slot;
mod spec;
pub mod standing;
mod unseen;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

pub use self::infra::{InfraSpec, Spawn};
pub use self::left::{Left, StopEnd};
pub use self::meant::Meant;
pub use self::pools::PoolView;
pub use self::recovery::end_orphan;
pub use self::reload::{Reload, RigInfra};
pub use self::shutdown::{Pass, StopMode};
pub use self::slot::{ChildState, ChildView, EndRefused};
pub use self::spec::{ChildSpec, SessionView, Work};
pub use self::wanted::{agent_spec, raider_spec};

use self::groups::Together;
use self::history::Histories;
pub use self::history::Written;
use self::infra::Infra;
use self::look::Look;
use self::pools::Pools;
use self::shells::Shells;
use self::slot::Slot;
use super::launch::How;
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::event::NewEvent;
use crate::domain::handoff::Progress;
use crate::domain::ids::{AgentName, ChildId};
use crate::domain::prompt::PoolNotice;
use crate::domain::restart::Mono;
use crate::ports::sessions::{SessionEvent, Stopped};

/// Messages to the root.
pub enum RootMsg {
    /// A child is wanted. Answered when its session is up, or the child rests because it is
    /// suspended, or with why its first start failed; then it is forgotten, so that the asker can
    /// unwind.
    Want {
        /// The child.
        spec: Box<ChildSpec>,
        /// Why.
        cause: Cause,
        /// Who waits for it; without anybody, a failed start is a death like any other.
        reply: Option<RpcReplyPort<Result<(), String>>>,
    },
    /// A child's session is up.
    Up {
        /// Who.
        id: ChildId,
        /// Which actor says so.
        actor: ActorId,
        /// The session.
        session: SessionView,
        /// Started or adopted.
        how: How,
    },
    /// A child is not wanted any more: end its session whatever state it is in, and forget it.
    /// Answered when nothing of it runs.
    End {
        /// Who, and what of it.
        meant: Meant,
        /// Why.
        cause: Cause,
        /// Answered when nothing of it runs.
        reply: RpcReplyPort<Result<(), EndRefused>>,
    },
    /// A session without an actor was ended.
    Swept {
        /// Who.
        id: ChildId,
        /// Which attempt.
        epoch: u64,
        /// How it went.
        result: Result<Stopped, EndRefused>,
    },
    /// End the session and start a fresh one; planned, not a death.
    Cycle {
        /// Whose.
        meant: Meant,
        /// Why.
        cause: Cause,
        /// The end of its terminal, where its end is a death.
        tail: Option<String>,
        /// What it has to show for its work, where it hands off.
        progress: Progress,
        /// Answered when the old session is told to end.
        reply: RpcReplyPort<Result<(), String>>,
    },
    /// The time to start a child again has come.
    Retry {
        /// Who.
        id: ChildId,
        /// A timer of an earlier epoch is void.
        epoch: u64,
    },
    /// An operator stops a child; sticky for agents.
    Rest {
        /// Who.
        id: ChildId,
        /// Answered when it rests.
        reply: RpcReplyPort<Result<(), EndRefused>>,
    },
    /// An operator starts a resting, backing-off or quarantined child now; its history is cleared.
    /// Who rested and cannot be started rests on; for the others that is a death like any other.
    Wake {
        /// Who.
        id: ChildId,
        /// Why.
        cause: Cause,
        /// Answered when its session is up, or waits for others, or with why it could not be started.
        reply: RpcReplyPort<Result<(), String>>,
    },
    /// The provider says that a session ended.
    Session(SessionEvent),
    /// What is there?
    Views(RpcReplyPort<Vec<ChildView>>),
    /// How large is each pool, and why?
    Pools(RpcReplyPort<Vec<PoolView>>),
    /// Start the tree: infrastructure, then recovery.
    Boot(RpcReplyPort<()>),
    /// Restart one infrastructure actor.
    Reinfra {
        /// Which.
        name: String,
        /// A timer of an earlier epoch is void.
        epoch: u64,
    },
    /// Time to look at everything.
    Patrol(u64),
    /// The control socket answers: what asks over it may be run.
    Ready,
    /// Something that a look would see has changed.
    Look,
    /// A draining child's time is up, or it said that it is finished.
    DrainDue {
        /// Who.
        id: ChildId,
        /// A timer of an earlier epoch is void; none when the child itself says so.
        epoch: Option<u64>,
    },
    /// Words may not be typed into a child's session now.
    Unsaid {
        /// Whose.
        id: ChildId,
        /// Which.
        words: PoolNotice,
    },
    /// The restart of a group may go on.
    GroupDue {
        /// Which.
        group: String,
        /// A timer of an earlier epoch is void.
        epoch: u64,
    },
    /// Time to ask how many members a pool needs.
    PoolDue {
        /// Which.
        agent: AgentName,
        /// A timer of an earlier epoch is void.
        epoch: u64,
    },
    /// How many members a pool needs.
    PoolSized {
        /// Which.
        agent: AgentName,
        /// An answer to an earlier epoch's question is void.
        epoch: u64,
        /// As its check says.
        size: Result<u32, String>,
    },
    /// A new configuration is in force.
    Reload(Box<Reload>),
    /// What a look at everything came to; nothing where it could not be seen.
    Planned(Box<Look>),
    /// End everything, or leave the sessions running.
    Stop {
        /// How.
        mode: StopMode,
        /// Answered at the end.
        reply: Option<RpcReplyPort<()>>,
    },
    /// Something is due of the accounts of harnesses, or has changed.
    Accounts,
    /// When something is due of them next.
    AccountsDue(Option<jiff::Timestamp>),
    /// A pass of the stop is over, or its time is up.
    StopDue(Pass),
}

/// What the root is made from.
pub struct RootArgs {
    /// The world.
    pub world: Arc<World>,
    /// The infrastructure, in the order of its start.
    pub infra: Vec<InfraSpec>,
    /// What a rig needs of it.
    pub rig_infra: RigInfra,
}

/// The root's state.
pub struct Root {
    world: Arc<World>,
    infra: Vec<Infra>,
    rig_infra: RigInfra,
    slots: BTreeMap<ChildId, Slot>,
    /// Agents that an operator stopped: they rest until started again.
    resting: BTreeSet<AgentName>,
    /// Children that a person suspended, as of the last look.
    suspended: BTreeSet<ChildId>,
    patrol_epoch: u64,
    /// The next look is a patrol's: it looks at the processes of sessions, too.
    patrolling: bool,
    /// Sessions of agents that run without their agent.
    shells: Shells,
    /// Since when it cannot be seen of these whether they run.
    unseen: BTreeMap<ChildId, Mono>,
    /// The timer of the look that the first idle session is due for.
    idle: Option<tokio::task::AbortHandle>,
    /// The timer of what is due next of the accounts.
    accounts: Option<tokio::task::AbortHandle>,
    /// One look at a time, at the world that was in force when it began; a wish to look meanwhile is
    /// another look.
    looking: Option<Arc<World>>,
    look_again: bool,
    /// The dispatcher is to be told when the look is acted on.
    reconciling: bool,
    /// Groups that are being restarted.
    together: BTreeMap<String, Together>,
    group_epoch: u64,
    pools: Pools,
    histories: Histories,
    /// The control socket answers.
    ready: bool,
    /// A look was applied: from then on the list of children is complete.
    seen: bool,
    /// Who waits for the first look to be acted on.
    booting: Vec<RpcReplyPort<()>>,
    stopping: Option<shutdown::Stopping>,
}

/// The actor.
pub struct RootActor;

impl Actor for RootActor {
    type Msg = RootMsg;
    type State = Root;
    type Arguments = RootArgs;

    async fn pre_start(
        &self,
        _me: ActorRef<RootMsg>,
        args: RootArgs,
    ) -> Result<Root, ActorProcessingErr> {
        args.world.directory.set_newest(&args.world);
        Ok(Root {
            world: args.world,
            infra: args.infra.into_iter().map(Infra::new).collect(),
            rig_infra: args.rig_infra,
            slots: BTreeMap::new(),
            resting: Default::default(),
            suspended: Default::default(),
            patrol_epoch: 0,
            patrolling: false,
            shells: Shells::new(),
            unseen: BTreeMap::new(),
            idle: None,
            accounts: None,
            looking: None,
            look_again: false,
            reconciling: false,
            together: BTreeMap::new(),
            group_epoch: 0,
            pools: Pools::default(),
            histories: Histories::default(),
            ready: false,
            seen: false,
            booting: Vec::new(),
            stopping: None,
        })
    }

    async fn handle(
        &self,
        me: ActorRef<RootMsg>,
        msg: RootMsg,
        root: &mut Root,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            RootMsg::Want { spec, cause, reply } => root.want(&me, *spec, cause, reply).await,
            RootMsg::Up {
                id,
                actor,
                session,
                how,
            } => root.up(&me, &id, actor, session, how).await,
            RootMsg::End {
                meant,
                cause,
                reply,
            } => root.end(&me, meant, cause, reply),
            RootMsg::Swept { id, epoch, result } => {
                root.swept(&me, &id, epoch, result);
                root.settled(&me, &id).await;
            }
            RootMsg::Cycle {
                meant,
                cause,
                tail,
                progress,
                reply,
            } => root.cycle(&meant, cause, (tail, progress), reply),
            RootMsg::Retry { id, epoch } => root.retry(&me, &id, epoch).await,
            RootMsg::Rest { id, reply } => root.rest(&me, id, reply),
            RootMsg::Wake { id, cause, reply } => root.wake(&me, id, cause, reply).await,
            RootMsg::Session(event) => root.session_event(event),
            RootMsg::Views(reply) => {
                // The asker gave up waiting.
                let _late = reply.send(root.views());
            }
            RootMsg::Pools(reply) => {
                let _late = reply.send(root.pool_views());
            }
            RootMsg::Boot(reply) => root.boot(&me, reply).await,
            RootMsg::Reinfra { name, epoch } => root.reinfra(&me, &name, epoch).await,
            RootMsg::Patrol(epoch) => root.patrol(&me, epoch),
            RootMsg::Ready => {
                root.ready = true;
                root.ask_pools(&me);
            }
            RootMsg::Look => root.set_out(&me),
            RootMsg::Accounts => root.look_at_accounts(&me),
            RootMsg::AccountsDue(next) => root.arm_accounts(&me, next),
            RootMsg::DrainDue { id, epoch } => root.drain_due(&me, &id, epoch),
            RootMsg::Unsaid { id, words } => root.unsaid(&id, words),
            RootMsg::GroupDue { group, epoch } => root.group_due(&me, &group, epoch).await,
            RootMsg::PoolDue { agent, epoch } => root.pool_due(&me, agent, epoch),
            RootMsg::PoolSized { agent, epoch, size } => {
                root.pool_sized(&me, &agent, epoch, size);
            }
            RootMsg::Reload(reload) => root.reload(&me, *reload).await,
            RootMsg::Planned(look) => root.apply(&me, *look).await,
            RootMsg::Stop { mode, reply } => root.stop(&me, mode, reply),
            RootMsg::StopDue(pass) => root.stop_due(&me, pass),
        }
        Ok(())
    }

    /// Never returns an error: that would end the whole tree.
    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<RootMsg>,
        event: SupervisionEvent,
        root: &mut Root,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                root.actor_ended(&me, cell.get_id(), Some(error)).await;
            }
            // An actor that stops by itself gives no reason; one that was killed has one.
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                let error = reason.map(ActorProcessingErr::from);
                root.actor_ended(&me, cell.get_id(), error).await;
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl Root {
    fn note(&self, event: NewEvent) {
        self.world.store.note(vec![event]);
    }
}

#[cfg(test)]
mod tests;
