//! Looking at the world: at start-up, and at every patrol. Finds the sessions that run and the
//! hooks that ask for one, plans (`domain::reconcile`), and applies. The same code serves both, so
//! a crash and a restart are one more patrol.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};

use super::super::config::ConfigMsg;
use super::super::dispatcher::DispatcherMsg;
use super::super::effects;
use super::super::forge::ForgeMsg;
use super::super::shaman::ShamanMsg;
use super::super::witness::WitnessMsg;
use super::super::world::World;
use super::{ChildSpec, Root, RootMsg, Work};
use crate::domain::cause::Cause;
use crate::domain::city::{Agent, City, RestartType};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId};
use crate::domain::prompt::Problem;
use crate::domain::reconcile::{Decision, Seen, Wanted, plan};
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::sessions::SessionHandle;

/// The child of a hook.
#[must_use]
pub fn raider_spec(city: &City, hook: Hook, problem: Option<Problem>) -> ChildSpec {
    let id = ChildId::Raider(hook.raider.clone());
    ChildSpec {
        session: id.session_id(&city.name),
        id,
        work: Work::Raider {
            hook: Arc::new(hook),
            problem,
        },
        restart: RestartType::Permanent,
        grace: city.daemon.shutdown_timeout,
    }
}

/// The child of a standing agent.
#[must_use]
pub fn agent_spec(city: &City, agent: &Agent) -> ChildSpec {
    let id = ChildId::Agent(agent.name.clone());
    ChildSpec {
        session: id.session_id(&city.name),
        id,
        work: Work::Agent(Arc::new(agent.clone())),
        restart: agent.restart,
        grace: agent.shutdown_timeout,
    }
}

/// One look at the world, planned. Nothing when it cannot be seen: then nothing is done.
async fn look(
    world: &World,
    tended: BTreeSet<ChildId>,
    resting: BTreeSet<AgentName>,
) -> Vec<(Decision, Option<Box<ChildSpec>>)> {
    let city = Arc::clone(&world.city);
    let Ok(any) = SessionId::new("any") else {
        return Vec::new();
    };
    let sessions = effects::sessions(world, &any, |provider| provider.list()).await;
    let stored = world
        .store
        .run(|txn| {
            let mut hooks = Vec::new();
            for hook in txn.hooks(None)? {
                // Work that was closed elsewhere asks for no session any more.
                let over = txn.relic(&hook.relic)?.status == RelicStatus::Closed;
                hooks.push((hook, over));
            }
            Ok((hooks, txn.sagas(None)?))
        })
        .await;
    let (sessions, (hooks, sagas)) = match (sessions, stored) {
        (Ok(sessions), Ok(stored)) => (sessions, stored),
        (Err(error), _) => {
            tracing::warn!(%error, "the sessions cannot be seen; nothing is concluded from that");
            return Vec::new();
        }
        (_, Err(error)) => {
            tracing::warn!(%error, "the store cannot be read; nothing is concluded from that");
            return Vec::new();
        }
    };
    let (mut specs, busy) = raiders(&city, hooks, &sagas);
    let agents = city
        .agents
        .iter()
        .filter(|agent| !resting.contains(&agent.name));
    specs.extend(agents.map(|agent| agent_spec(&city, agent)));
    let wanted = specs.iter().map(wanted).collect();
    let decisions = plan(&Seen {
        sessions,
        wanted,
        busy,
        tended,
    });
    let spec_of = |decision: &Decision| match decision {
        Decision::Adopt(id) | Decision::Start(id) => specs
            .iter()
            .find(|spec| &spec.id == id)
            .cloned()
            .map(Box::new),
        Decision::StopOrphan { .. } => None,
    };
    decisions
        .into_iter()
        .map(|decision| (decision.clone(), spec_of(&decision)))
        .collect()
}

/// The raiders that ask for a session, and the sessions that somebody else is busy with. The hooks
/// come with whether their work is over.
fn raiders(
    city: &City,
    hooks: Vec<(Hook, bool)>,
    sagas: &[Saga],
) -> (Vec<ChildSpec>, BTreeSet<SessionId>) {
    let in_saga = |kind: SagaKind, subject: &str| {
        sagas
            .iter()
            .any(|saga| saga.kind == kind && saga.subject == subject)
    };
    let mut busy: BTreeSet<_> = sagas
        .iter()
        .filter(|saga| saga.kind != SagaKind::Land)
        .filter_map(|saga| saga.subject.parse::<RaiderId>().ok())
        .map(|raider| raider.session_id())
        .collect();
    let mut specs = Vec::new();
    for (hook, over) in hooks {
        let subject = hook.raider.to_string();
        let saga = in_saga(SagaKind::Charge, &subject) || in_saga(SagaKind::Nuke, &subject);
        if hook.done.is_some() || over || saga {
            busy.insert(hook.raider.session_id());
        } else if city.rig(&hook.raider.rig).is_some() {
            specs.push(raider_spec(city, hook, None));
        }
    }
    (specs, busy)
}

fn wanted(spec: &ChildSpec) -> Wanted {
    let incarnation = match &spec.work {
        Work::Raider { hook, .. } => hook.incarnation,
        Work::Agent(_) => Default::default(),
    };
    Wanted {
        id: spec.id.clone(),
        session: spec.session.clone(),
        incarnation,
    }
}

impl Root {
    /// Starts the tree: infrastructure in order, then what the world asks for.
    pub(super) async fn boot(&mut self, me: &ActorRef<RootMsg>, reply: RpcReplyPort<()>) {
        self.start_infra(me).await;
        let plan = look(&self.world, BTreeSet::new(), BTreeSet::new()).await;
        self.apply(me, plan).await;
        self.arm_patrol(me);
        let _gave_up = reply.send(());
    }

    fn arm_patrol(&mut self, me: &ActorRef<RootMsg>) {
        self.patrol_epoch += 1;
        let epoch = self.patrol_epoch;
        let interval = self.world.city.daemon.patrol_interval;
        let _timer = me.send_after(interval, move || RootMsg::Patrol(epoch));
    }

    /// Looks again, and tells everybody else to. One look at a time; the timer is armed anew each
    /// time, so a slow look never piles up others.
    pub(super) fn patrol(&mut self, me: &ActorRef<RootMsg>, epoch: u64) {
        if epoch != self.patrol_epoch || self.stopping.is_some() {
            return;
        }
        self.arm_patrol(me);
        self.world.directory.tell_config(ConfigMsg::Check);
        self.world.directory.tell_shaman(ShamanMsg::Look);
        self.world.directory.tell_dispatcher(DispatcherMsg::Patrol);
        for rig in &self.world.city.rigs {
            self.world
                .directory
                .tell_witness(&rig.name, WitnessMsg::Patrol);
            self.world.directory.tell_forge(&rig.name, ForgeMsg::Look);
        }
        if self.looking {
            return;
        }
        self.looking = true;
        let world = Arc::clone(&self.world);
        let tended = self.slots.keys().cloned().collect();
        let resting = self.resting.clone();
        let me = me.clone();
        tokio::spawn(async move {
            let plan = look(&world, tended, resting).await;
            // The root only goes with the process.
            let _gone = me.cast(RootMsg::Planned(plan));
        });
    }

    pub(super) async fn apply(
        &mut self,
        me: &ActorRef<RootMsg>,
        plan: Vec<(Decision, Option<Box<ChildSpec>>)>,
    ) {
        self.looking = false;
        for (decision, spec) in plan {
            match (decision, spec) {
                (Decision::Adopt(id), Some(spec)) if !self.slots.contains_key(&id) => {
                    self.want(me, *spec, Cause::Adopted, None).await;
                }
                (Decision::Start(id), Some(spec)) if !self.slots.contains_key(&id) => {
                    let cause = match id {
                        ChildId::Raider(_) => Cause::Recovered,
                        ChildId::Agent(_) => Cause::Config,
                    };
                    self.want(me, *spec, cause, None).await;
                }
                (Decision::StopOrphan { session, token }, _) => self.stop_orphan(session, token),
                (Decision::Adopt(_) | Decision::Start(_), _) => {}
            }
        }
    }

    fn stop_orphan(&self, session: SessionId, token: String) {
        let world = Arc::clone(&self.world);
        let grace: Duration = world.city.daemon.shutdown_timeout;
        tokio::spawn(async move {
            let subject = session.to_string();
            let handle = SessionHandle { id: session, token };
            match effects::stop(&world, handle, grace).await {
                Ok(how) => {
                    let data = serde_json::json!({ "how": format!("{how:?}") });
                    let event =
                        NewEvent::new(EventType::AgentOrphanStopped, subject, Cause::Removed);
                    world.store.note(vec![event.with(data)]);
                }
                Err(error) => tracing::warn!(%error, "an orphan session could not be ended"),
            }
        });
    }
}
