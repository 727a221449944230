//! Looking at the world: at start-up, and at every patrol. Finds the sessions that run and the
//! hooks that ask for one, plans (`domain::reconcile`), and applies. The same code serves both, so
//! a crash and a restart are one more patrol.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};

use super::super::config::ConfigMsg;
use super::super::dispatcher::{self, DispatcherMsg};
use super::super::effects;
use super::super::forge::ForgeMsg;
use super::super::sagas::repair;
use super::super::shaman::ShamanMsg;
use super::super::witness::WitnessMsg;
use super::super::world::World;
use super::{ChildSpec, ChildState, Root, RootMsg, Work};
use crate::domain::cause::Cause;
use crate::domain::city::{Agent, City, RestartType};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId};
use crate::domain::prompt::Problem;
use crate::domain::reconcile::{Decision, Seen, Wanted, plan};
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::sessions::{SessionEvent, SessionHandle};

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

/// What the root knew when it set out to look.
struct Known {
    tended: BTreeSet<ChildId>,
    resting: BTreeSet<AgentName>,
    /// Sessions that were up, and which of that name.
    up: BTreeMap<SessionId, String>,
}

/// One look at the world, planned. Nothing when it cannot be seen: then nothing is done.
#[derive(Default)]
pub struct Look {
    decisions: Vec<(Decision, Option<Box<ChildSpec>>)>,
    /// Ends of sessions that were thought to be up. Events are hints; here is where a lost one is
    /// made up for.
    ended: Vec<SessionEvent>,
    /// Raiders that hold a slot; none when that is not known.
    hooked: Option<BTreeSet<RaiderId>>,
}

type Stored = (Vec<(Hook, bool)>, Vec<Saga>);

/// Sessions, hooks (and whether their work was closed elsewhere) and open sagas.
async fn see(world: &World) -> Option<(Vec<SessionFacts>, Stored)> {
    let any = SessionId::new("any").ok()?;
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
    match (sessions, stored) {
        (Ok(sessions), Ok(stored)) => Some((sessions, stored)),
        (Err(error), _) => {
            tracing::warn!(%error, "the sessions cannot be seen; nothing is concluded from that");
            None
        }
        (_, Err(error)) => {
            tracing::warn!(%error, "the store cannot be read; nothing is concluded from that");
            None
        }
    }
}

async fn look(world: &World, known: Known) -> Look {
    let city = Arc::clone(&world.city);
    let Some((sessions, (hooks, sagas))) = see(world).await else {
        return Look::default();
    };
    let hooked = hooks.iter().map(|(hook, _)| hook.raider.clone()).collect();
    let rested = |(hook, over): (Hook, bool)| {
        let mended = world.claims.is_claimed(&repair::mending(&hook.raider));
        (hook, over || mended)
    };
    let hooks = hooks.into_iter().map(rested).collect();
    let (mut specs, busy) = raiders(&city, hooks, &sagas);
    let agents = city
        .agents
        .iter()
        .filter(|agent| !known.resting.contains(&agent.name));
    specs.extend(agents.map(|agent| agent_spec(&city, agent)));
    let ended = ended(&sessions, known.up);
    let decisions = plan(&Seen {
        sessions,
        wanted: specs.iter().map(wanted).collect(),
        busy,
        tended: known.tended,
    });
    let spec_of = |decision: &Decision| match decision {
        Decision::Adopt(id) | Decision::Start(id) => {
            let spec = specs.iter().find(|spec| &spec.id == id);
            spec.cloned().map(Box::new)
        }
        Decision::StopOrphan { .. } => None,
    };
    let decisions = decisions.into_iter();
    Look {
        decisions: decisions.map(|d| (d.clone(), spec_of(&d))).collect(),
        ended,
        hooked: Some(hooked),
    }
}

/// Sessions that were up when the look began and are not any more.
fn ended(sessions: &[SessionFacts], up: BTreeMap<SessionId, String>) -> Vec<SessionEvent> {
    let ended = up.into_iter().filter_map(|(id, token)| {
        let facts = sessions.iter().find(|facts| facts.id == id);
        let handle = SessionHandle { id, token };
        match facts {
            Some(facts) if facts.token == handle.token => match &facts.state {
                RunState::Exited(exit) => Some(SessionEvent::Exited(handle, exit.clone())),
                RunState::Lost { why } => Some(SessionEvent::Lost(handle, why.clone())),
                RunState::Running | RunState::Unknown { .. } => None,
            },
            Some(_) => Some(SessionEvent::Lost(handle, "another took its name".into())),
            None => Some(SessionEvent::Lost(handle, "no trace is left of it".into())),
        }
    });
    ended.collect()
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
    /// Starts the tree: infrastructure in order, then what the world asks for. Answered when that
    /// is known; meanwhile the root hears, for it may have to restart what the look waits for.
    pub(super) async fn boot(&mut self, me: &ActorRef<RootMsg>, reply: RpcReplyPort<()>) {
        self.start_infra(me).await;
        effects::empty_trash(&self.world);
        self.booting.push(reply);
        self.arm_patrol(me);
        self.set_out(me);
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
        self.set_out(me);
    }

    fn set_out(&mut self, me: &ActorRef<RootMsg>) {
        if self.looking {
            return;
        }
        self.looking = true;
        let world = Arc::clone(&self.world);
        let up = self.slots.values().filter_map(|slot| {
            let session = slot.session.as_ref()?;
            Some((session.handle.id.clone(), session.handle.token.clone()))
        });
        let known = Known {
            tended: self.slots.keys().cloned().collect(),
            resting: self.resting.clone(),
            up: up.collect(),
        };
        let (me, first) = (me.clone(), !self.booting.is_empty());
        tokio::spawn(async move {
            // In a task of its own: a look that panics must not be the last one.
            let look = tokio::spawn(async move {
                if first {
                    // Who said `hd done` while the supervisor was away wants no session.
                    dispatcher::settle_outbox(&world).await;
                }
                look(&world, known).await
            });
            let look = look.await.unwrap_or_default();
            // The root only goes with the process.
            let _gone = me.cast(RootMsg::Planned(Box::new(look)));
        });
    }

    pub(super) async fn apply(&mut self, me: &ActorRef<RootMsg>, look: Look) {
        self.looking = false;
        if self.stopping.is_none() {
            for event in look.ended {
                self.session_event(event);
            }
            for (decision, spec) in look.decisions {
                self.decided(me, decision, spec).await;
            }
            if let Some(hooked) = look.hooked {
                self.forget_finished(&hooked);
            }
        }
        for reply in self.booting.drain(..) {
            let _gave_up = reply.send(());
        }
    }

    async fn decided(
        &mut self,
        me: &ActorRef<RootMsg>,
        decision: Decision,
        spec: Option<Box<ChildSpec>>,
    ) {
        match (decision, spec) {
            (Decision::Adopt(id), Some(spec)) if self.is_free(&id) => {
                self.want(me, *spec, Cause::Adopted, None).await;
            }
            (Decision::Start(id), Some(spec)) if self.is_free(&id) => {
                let cause = match id {
                    ChildId::Raider(_) => Cause::Recovered,
                    ChildId::Agent(_) => Cause::Config,
                };
                self.want(me, *spec, cause, None).await;
            }
            (Decision::StopOrphan { session, token }, _) if !self.is_held(&session) => {
                self.stop_orphan(session, token);
            }
            (Decision::Adopt(_) | Decision::Start(_) | Decision::StopOrphan { .. }, _) => {}
        }
    }

    /// Whether a child came to have the session since the look began: it is woken, and no orphan.
    fn is_held(&self, session: &SessionId) -> bool {
        let mut slots = self.slots.values();
        slots.any(|slot| slot.has_actor() && &slot.spec.session == session)
    }

    /// Whether nobody took care of the child, or laid it to rest, since the look began.
    fn is_free(&self, id: &ChildId) -> bool {
        let rests = match id {
            ChildId::Raider(_) => false,
            ChildId::Agent(agent) => self.resting.contains(agent),
        };
        !rests && !self.slots.contains_key(id)
    }

    /// A finished raider whose slot was freed meanwhile is nobody any more.
    fn forget_finished(&mut self, hooked: &BTreeSet<RaiderId>) {
        self.slots.retain(|id, slot| match id {
            ChildId::Raider(raider) => {
                let finished = slot.state == ChildState::Finished && !slot.has_actor();
                !finished || hooked.contains(raider)
            }
            ChildId::Agent(_) => true,
        });
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
