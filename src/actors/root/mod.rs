//! The root supervisor: owns every child, restarts it one_for_one within its own intensity, and ends all of them in
//! order.
//!
//! ```text
//!  infrastructure (infra.rs)         children (children.rs, child_record.rs)
//!  store, shaman, dispatcher,        raiders and agents: one record each, holding
//!  config, witness+forge per rig     spec, actor, session and the state machine of domain/child.rs
//!        │ a panic                         │ an event: an order, ActorFailed(ChildExit), a timer
//!        └── restarted, rebuilt            └── a step, whose actions the root carries out (steps.rs)
//!
//!  orders.rs    what others ask: want, end, rest, wake, cycle
//!  desired.rs, look.rs ─► patrol.rs ─► planned.rs
//!               the desired children, the observed ones, the plan: at start-up, at every patrol, and
//!               after a reload (reload.rs)
//!  dead_agents.rs    agents that died inside their wrappers
//!  depends.rs   start after, stop before      groups.rs  one_for_all, rest_for_one
//!  pools.rs     how many members              shutdown.rs  two passes, reverse order
//!  history.rs   deaths that outlive the supervisor    deaths.rs, handoffs.rs   records of ends
//! ```
//!
//! Only the root starts and stops children. Every other actor asks it.

mod child_record;
mod children;
mod dead_agents;
mod deaths;
mod depends;
mod desired;
mod groups;
mod handoffs;
mod history;
mod infra;
mod look;
mod orders;
mod parked;
mod patrol;
mod planned;
mod pools;
mod reload;
mod shutdown;
mod steps;
mod survivors;
mod suspensions;
mod unobservable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

pub use self::infra::{InfraSpec, Spawn};
pub use self::patrol::end_orphan;
pub use self::reload::RigInfra;
pub use self::shutdown::Pass;
pub use self::survivors::Survivors;

use self::child_record::ChildRecord;
use self::dead_agents::DeadAgents;
use self::groups::Together;
use self::history::Histories;
use self::infra::Infra;
use self::look::Look;
use self::pools::Pools;
use super::mail::{EndRefused, RootMail};
use super::world::World;
use crate::actors::records::operator_orders::SuspensionOrder;
use crate::domain::child::{Event, Token};
use crate::domain::event::NewEvent;
use crate::domain::ids::{AgentName, ChildId};
use crate::domain::prompt::PoolNotice;
use crate::domain::restart::Mono;
use crate::ports::sessions::Stopped;

/// Messages to the root: from other actors, and from the root to itself.
pub enum RootMsg {
    /// A message of another actor.
    Mail(RootMail),
    /// A session without an actor was ended.
    Swept {
        /// The child.
        id: ChildId,
        /// The mark of that attempt.
        token: Token,
        /// The result.
        result: Result<Stopped, EndRefused>,
    },
    /// An event of a child that matters only while the supervisor does not stop.
    Step {
        /// The child.
        id: ChildId,
        /// The event.
        event: Event,
    },
    /// Restart one infrastructure actor.
    RestartInfra {
        /// The name.
        name: String,
        /// A timer of an earlier epoch is void.
        epoch: u64,
    },
    /// Time for a patrol; the value is the timer's epoch.
    Patrol(u64),
    /// A notice could not be typed into a child's session and waits.
    Unsaid {
        /// The child.
        id: ChildId,
        /// The notice.
        words: PoolNotice,
    },
    /// The restart of a group may go on.
    GroupDue {
        /// The group.
        group: String,
        /// The mark of that restart.
        token: Token,
    },
    /// Time to ask how many members a pool needs.
    PoolDue {
        /// The pool.
        agent: AgentName,
        /// The mark under which it is asked.
        token: Token,
    },
    /// The answer of a pool's check.
    PoolSized {
        /// The pool.
        agent: AgentName,
        /// The mark of the question.
        token: Token,
        /// The number of members, or why the check failed.
        size: Result<u32, String>,
    },
    /// The result of a look; empty when the world could not be observed.
    Planned(Box<Look>),
    /// When something is due for the accounts next.
    AccountsDue(Option<jiff::Timestamp>),
    /// A pass of the stop is over, or its deadline has passed.
    StopDue(Pass),
}

impl From<RootMail> for RootMsg {
    fn from(mail: RootMail) -> Self {
        Self::Mail(mail)
    }
}

impl TryFrom<RootMsg> for RootMail {
    type Error = ();

    fn try_from(msg: RootMsg) -> Result<Self, ()> {
        match msg {
            RootMsg::Mail(mail) => Ok(mail),
            _ => Err(()),
        }
    }
}

/// The parts that the root is made from.
pub struct RootArgs {
    /// The world.
    pub world: Arc<World>,
    /// The infrastructure, in the order of its start.
    pub infra: Vec<InfraSpec>,
    /// Makes the infrastructure of a rig.
    pub rig_infra: RigInfra,
    /// The sessions that a stop has not ended; read after the root has ended.
    pub left: Arc<Survivors>,
}

/// The root's state.
pub struct Root {
    world: Arc<World>,
    infra: Vec<Infra>,
    rig_infra: RigInfra,
    left: Arc<Survivors>,
    children: BTreeMap<ChildId, ChildRecord>,
    /// The last of the marks by which a late message is told from one that is waited for.
    last_token: u64,
    /// Agents that an operator stopped: they rest until they are started again.
    resting: BTreeSet<AgentName>,
    /// Children that an operator suspended, as of the last look.
    suspended: BTreeSet<ChildId>,
    /// The latest orders about these suspensions, as of the last look.
    suspensions: BTreeMap<ChildId, SuspensionOrder>,
    patrol_epoch: u64,
    /// Set when the next look is a patrol's: it inspects the processes of sessions, too.
    patrolling: bool,
    /// Sessions of agents that run without the agent's process.
    dead_agents: DeadAgents,
    /// Children whose run state is unknown, and since when.
    unseen: BTreeMap<ChildId, Mono>,
    /// The timer of the next idle timeout.
    idle: Option<tokio::task::AbortHandle>,
    /// The timer of what is due for the accounts next.
    accounts: Option<tokio::task::AbortHandle>,
    /// The world that the look under way began with; one look at a time. A request meanwhile sets `look_again`.
    looking: Option<Arc<World>>,
    look_again: bool,
    /// Set when the dispatcher must be told once the look is applied.
    reconciling: bool,
    /// Group restarts under way.
    together: BTreeMap<String, Together>,
    pools: Pools,
    histories: Histories,
    /// Set when the control socket answers.
    ready: bool,
    /// Set when the first look was applied: from then on the list of children is complete.
    seen: bool,
    /// Callers that wait for the first look to be applied.
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
            left: args.left,
            children: BTreeMap::new(),
            last_token: 0,
            resting: Default::default(),
            suspended: Default::default(),
            suspensions: BTreeMap::new(),
            patrol_epoch: 0,
            patrolling: false,
            dead_agents: DeadAgents::new(),
            unseen: BTreeMap::new(),
            idle: None,
            accounts: None,
            looking: None,
            look_again: false,
            reconciling: false,
            together: BTreeMap::new(),
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
        // Noted first: a caller that is answered by this message and looks then sees its effect, because the look at the
        // children is a message behind it.
        if !matches!(msg, RootMsg::Mail(RootMail::Views(_) | RootMail::Pools(_))) {
            root.world.store.changes().note();
        }
        match msg {
            RootMsg::Mail(mail) => root.read(&me, mail).await,
            RootMsg::Swept { id, token, result } => root.swept(&me, &id, token, result).await,
            RootMsg::Step { id, event } if root.stopping.is_none() => {
                root.step(&me, &id, event).await;
            }
            RootMsg::Step { .. } => {}
            RootMsg::RestartInfra { name, epoch } => root.restart_infra(&me, &name, epoch).await,
            RootMsg::Patrol(epoch) => root.patrol(&me, epoch),
            RootMsg::AccountsDue(next) => root.arm_accounts(&me, next),
            RootMsg::Unsaid { id, words } => root.unsaid(&id, words),
            RootMsg::GroupDue { group, token } => root.group_due(&me, &group, token).await,
            RootMsg::PoolDue { agent, token } => root.pool_due(&me, agent, token),
            RootMsg::PoolSized { agent, token, size } => {
                root.pool_sized(&me, &agent, token, size);
            }
            RootMsg::Planned(look) => root.apply(&me, *look).await,
            RootMsg::StopDue(pass) => root.stop_due(&me, pass),
        }
        Ok(())
    }

    /// Never returns an error: an error would end the whole tree.
    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<RootMsg>,
        event: SupervisionEvent,
        root: &mut Root,
    ) -> Result<(), ActorProcessingErr> {
        root.world.store.changes().note();
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                root.actor_ended(&me, cell.get_id(), Some(error)).await;
            }
            // An actor that stops by itself has no reason; a killed one has.
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
    /// Handles a message of another actor.
    async fn read(&mut self, me: &ActorRef<RootMsg>, mail: RootMail) {
        match mail {
            RootMail::Want { spec, cause, reply } => self.want(me, *spec, cause, reply).await,
            RootMail::Up {
                id,
                actor,
                session,
                how,
            } => self.up(me, &id, actor, session, how).await,
            RootMail::End {
                meant,
                order,
                reply,
            } => self.end(me, meant, order, reply).await,
            RootMail::Cycle {
                meant,
                order,
                tail,
                progress,
                reply,
            } => self.cycle(me, &meant, order, (tail, progress), reply).await,
            RootMail::Rest { id, by, reply } => self.rest(me, id, by, reply).await,
            RootMail::Wake { id, order, reply } => self.wake(me, id, order, reply).await,
            RootMail::Session(event) => self.session_event(event),
            RootMail::Views(reply) => {
                // The caller may have stopped waiting.
                let _late = reply.send(self.views());
            }
            RootMail::Pools(reply) => {
                let _late = reply.send(self.pool_views());
            }
            RootMail::Boot(reply) => self.boot(me, reply).await,
            RootMail::Ready => {
                self.ready = true;
                self.ask_pools(me);
            }
            RootMail::Look => self.start_look(me),
            RootMail::Accounts => self.look_at_accounts(me),
            RootMail::DrainDue { id, drain } => {
                self.step(me, &id, Event::DrainDue(drain)).await;
            }
            RootMail::Reload(reload) => self.reload(me, *reload).await,
            RootMail::Stop { mode, reply } => self.stop(me, mode, reply),
        }
    }

    fn journal(&self, event: NewEvent) {
        self.world.store.journal(vec![event]);
    }
}

#[cfg(test)]
mod tests;
