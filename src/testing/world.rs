//! A whole city on fakes, for tests of the actors under Tokio's paused clock. Time stands still while any task runs,
//! and jumps when none does: after a millisecond has passed, everything that can happen has happened.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod city;
mod looks;
mod mishaps;
mod orders;
mod parts;
mod reload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::actors::ask;
use crate::actors::claims::Claims;
use crate::actors::dispatcher::DispatcherActor;
use crate::actors::forge::{ForgeActor, ForgeArgs, Tried};
use crate::actors::mail::DispatcherMsg;
use crate::actors::mail::WitnessMsg;
use crate::actors::mail::{Accepted, DoneRequest};
use crate::actors::mail::{ChargeRequest, Charged};
use crate::actors::mail::{ChildState, ChildView, RootMail, StopMode};
use crate::actors::mail::{NukeTarget, Nuked};
use crate::actors::refusal::Refusal;
use crate::actors::root::RootMsg;
use crate::actors::root::{InfraSpec, RootActor, RootArgs, Spawn, Survivors};
use crate::actors::shaman::{ShamanActor, ShamanArgs};
use crate::actors::thread_budgets::ThreadBudgets;
use crate::actors::witness::{Memory, WitnessActor, WitnessArgs};
use crate::actors::world::{Displaced, FaultHook, World};
use crate::adapters::clock::PausedClock;
use crate::domain::cause::Cause;
use crate::domain::city::{
    Agent, City, DaemonPolicy, ForgePolicy, Gate, Harness, OnTerm, PromptMode, Provider,
    RaiderPolicy, RestartType, RetentionPolicy, Rig, RigSource, Rights, SessionPolicy,
    WitnessPolicy,
};
use crate::domain::event::{Event, EventType};
use crate::domain::ids::{
    AgentName, ChildId, HarnessName, RaiderId, RelicId, RigName, SessionId, SlotName,
};
use crate::domain::merge::{LandStyle, MergeRequest};
use crate::domain::notify::{Notice, NotifyPolicy};
use crate::domain::question::Pattern;
use crate::domain::relic::{Completion, Hook, Relic, RelicKind, RelicStatus};
use crate::domain::restart::{Backoff, History, RestartPolicy};
use crate::ports::clock::Clock;
use crate::ports::relics::{EventFilter, RelicFilter, StoreError, Txn};
use crate::ports::repo::Repo;
use crate::ports::tasks::TaskEvent;

pub use self::city::{asking, city, standing};
pub use self::mishaps::Interruption;
pub use self::parts::Parts;

use super::fake_tasks;
use super::records;

/// A moment: after it everything that can happen now has happened.
pub const MOMENT: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// The parts of a city. Every field has a sensible default.
pub struct Scenario {
    /// The configuration.
    pub city: City,
    /// Called at every fault point.
    pub fault: FaultHook,
    /// A git to use instead of the fake.
    pub repo: Option<Arc<dyn Repo>>,
    /// The look at the city's directory.
    pub displaced: Displaced,
}

/// Returns the only rig of a scenario.
#[must_use]
pub fn rig() -> RigName {
    RigName::new("horde").unwrap()
}

/// Returns the raider of this name.
#[must_use]
pub fn raider(name: &str) -> RaiderId {
    RaiderId::new(rig(), SlotName::new(name).unwrap())
}

/// Returns the child of this agent.
#[must_use]
pub fn agent(name: &str) -> ChildId {
    ChildId::Agent(AgentName::new(name).unwrap())
}

impl Default for Scenario {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario {
    /// A rig with four slots, a harness that just runs, no agents, no gates.
    #[must_use]
    pub fn new() -> Self {
        Self {
            city: city(),
            fault: Arc::new(|_| {}),
            repo: None,
            displaced: Arc::new(|| None),
        }
    }

    /// Changes values of the rig.
    #[must_use]
    pub fn rig(mut self, change: impl FnOnce(&mut Rig)) -> Self {
        change(&mut self.city.rigs[0]);
        self
    }

    /// Changes values of the configuration.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut City)) -> Self {
        change(&mut self.city);
        self
    }

    /// Adds a standing agent.
    #[must_use]
    pub fn agent(mut self, name: &str, restart: RestartType) -> Self {
        self.city.agents.push(standing(name, restart));
        self
    }

    /// Adds a gate.
    #[must_use]
    pub fn gate(self, name: &str) -> Self {
        self.rig(|rig| {
            rig.forge.gates.push(Gate {
                name: name.to_owned(),
                run: "true".into(),
                timeout: Duration::from_secs(60),
                retries: 0,
            });
        })
    }

    /// Sets the hook of every fault point.
    #[must_use]
    pub fn fault(mut self, fault: FaultHook) -> Self {
        self.fault = fault;
        self
    }

    /// Starts the scenario without changes, with a charged raider that has one commit.
    pub async fn at_work() -> (TestCity, Charged) {
        let city = Self::new().start().await;
        let charged = city.worker("a").await;
        (city, charged)
    }

    /// Starts everything and waits until it is quiet.
    pub async fn start(self) -> TestCity {
        let clock = start_clock();
        let parts = Parts::new(&clock);
        self.start_on(parts, clock).await
    }

    /// Starts on an existing world, and waits until it is quiet.
    pub async fn start_on(self, parts: Parts, clock: Arc<dyn Clock>) -> TestCity {
        let city = self.begin_on(parts, clock).await;
        city.boot().await;
        city
    }

    /// Makes a city whose root waits to be booted.
    pub async fn begin_on(self, parts: Parts, clock: Arc<dyn Clock>) -> TestCity {
        let repo = self.repo.unwrap_or_else(|| Arc::clone(&parts.repo) as _);
        parts.sessions.follow(Arc::clone(&clock));
        let concurrency = self.city.daemon.start_concurrency;
        let world = Arc::new(World {
            city: Arc::new(self.city),
            shown: Arc::default(),
            clock,
            sessions: Arc::clone(&parts.sessions) as _,
            repos: BTreeMap::from([(rig(), repo)]),
            tasks: Arc::clone(&parts.tasks) as _,
            store: parts.store.clone(),
            starts: Arc::new(Semaphore::new(concurrency)),
            env: BTreeMap::from([("PATH".into(), "/bin".into())]),
            bin_dir: "/bin".into(),
            socket: "/city/.horde/control.sock".into(),
            random: Arc::new(|| 0.0),
            usage: Arc::new(|| None),
            fault: self.fault,
            directory: Arc::default(),
            claims: Claims::default(),
            thread_budgets: ThreadBudgets::default(),
            runner: Arc::clone(&parts.runner) as _,
            stopping: Default::default(),
            displaced: self.displaced,
            secret: fake_tasks::secret(),
        });
        connect(&world);
        let left = Arc::<Survivors>::default();
        let args = RootArgs {
            world: Arc::clone(&world),
            infra: infrastructure(&world),
            rig_infra: Arc::new(|_, _| Vec::new()),
            left: Arc::clone(&left),
        };
        let (root, task) = RootActor::spawn(None, RootActor, args).await.unwrap();
        world.directory.set_root(&root);
        TestCity {
            end: End(root.clone()),
            world,
            root,
            task,
            parts,
            left,
        }
    }
}

/// Returns the clock of a city that starts at the beginning of a year.
#[must_use]
pub fn start_clock() -> Arc<dyn Clock> {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    Arc::new(PausedClock::starting_at(start))
}

/// A running city.
pub struct TestCity {
    /// The world that the actors see.
    pub world: Arc<World>,
    /// The root.
    pub root: ActorRef<RootMsg>,
    /// Ends with the root.
    pub task: JoinHandle<()>,
    /// The fakes.
    pub parts: Parts,
    /// The processes that a stop did not end.
    pub left: Arc<Survivors>,
    /// Ends the actors with the city, so that finished cities of a large test cost nothing.
    end: End,
}

/// Kills a root when it is dropped.
struct End(ActorRef<RootMsg>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.kill();
    }
}

fn connect(world: &Arc<World>) {
    let told = Arc::downgrade(world);
    world.sessions.listen(Box::new(move |event| {
        if let Some(world) = told.upgrade() {
            world.directory.tell_root(RootMail::Session(event));
        }
    }));
    let told = Arc::downgrade(world);
    world.tasks.listen(Box::new(move |event| {
        let Some(world) = told.upgrade() else { return };
        match event {
            TaskEvent::Outbox => world.directory.tell_dispatcher(DispatcherMsg::Outbox),
            TaskEvent::Outcome(dir) => {
                let outcome = WitnessMsg::Outcome(dir);
                world.directory.tell_witness(&rig(), outcome);
            }
        }
    }));
}

type Spawned<M> = Result<(ActorRef<M>, JoinHandle<()>), SpawnErr>;

fn cell<M>(spawned: Spawned<M>) -> Result<ActorCell, SpawnErr> {
    spawned.map(|(actor, _task)| actor.get_cell())
}

fn infrastructure(world: &Arc<World>) -> Vec<InfraSpec> {
    let args = ShamanArgs {
        world: Arc::clone(world),
        notices: Arc::default(),
    };
    let shaman: Spawn = Arc::new(move |root| {
        let args = args.clone();
        Box::pin(
            async move { cell(ShamanActor::spawn_linked(None, ShamanActor, args, root).await) },
        )
    });
    let (own, tried) = (Arc::clone(world), Arc::<Tried>::default());
    let forge: Spawn = Arc::new(move |root| {
        let args = ForgeArgs {
            world: Arc::clone(&own),
            rig: rig(),
            tried: Arc::clone(&tried),
        };
        Box::pin(async move { cell(ForgeActor::spawn_linked(None, ForgeActor, args, root).await) })
    });
    let (own, memory) = (Arc::clone(world), Arc::<Memory>::default());
    let witness: Spawn = Arc::new(move |root| {
        let args = WitnessArgs {
            world: Arc::clone(&own),
            rig: rig(),
            memory: Arc::clone(&memory),
        };
        Box::pin(
            async move { cell(WitnessActor::spawn_linked(None, WitnessActor, args, root).await) },
        )
    });
    let own = Arc::clone(world);
    let dispatcher: Spawn = Arc::new(move |root| {
        let world = Arc::clone(&own);
        Box::pin(async move {
            cell(DispatcherActor::spawn_linked(None, DispatcherActor, world, root).await)
        })
    });
    [
        ("shaman", shaman),
        ("horde/forge", forge),
        ("horde/witness", witness),
        ("dispatcher", dispatcher),
    ]
    .into_iter()
    .map(|(name, spawn)| InfraSpec {
        name: name.to_owned(),
        spawn,
    })
    .collect()
}

/// Time and orders.
impl TestCity {
    /// Starts the tree.
    pub async fn boot(&self) {
        let ready = self
            .root
            .call(|reply| RootMail::Boot(reply).into(), None)
            .await
            .unwrap();
        assert!(ready.is_success());
        self.world.directory.set_answering(self.world.clock.now());
        self.world.directory.tell_root(RootMail::Ready);
        let dispatcher = &self.world.directory;
        dispatcher.tell_dispatcher(DispatcherMsg::Look);
        self.pass(MOMENT).await;
    }

    /// Waits for a condition without letting time pass, while a blocking call of a fake is held and time therefore
    /// stands still.
    pub async fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = std::time::Instant::now() + super::PATIENCE;
        while !condition() {
            let now = std::time::Instant::now();
            assert!(now < deadline, "waited in vain for: {what}");
            let breath = || super::poll::pass(MOMENT);
            tokio::task::spawn_blocking(breath).await.unwrap();
        }
    }

    /// Lets virtual time pass.
    pub async fn pass(&self, time: Duration) {
        // Nothing happens here except for time.
        let nothing = std::future::pending::<()>();
        let _always_over = tokio::time::timeout(time, nothing).await;
    }

    /// Waits until everything that can happen now has happened.
    pub async fn settle(&self) {
        self.pass(MOMENT).await;
    }

    /// Makes an open task.
    pub async fn relic(&self, title: &str) -> RelicId {
        let new = records::task(title);
        self.store(move |txn| txn.create_relic(&new)).await.id
    }

    /// Charges the relic, as `hd charge` does.
    pub async fn charge(&self, relic: &RelicId) -> Result<Charged, Refusal> {
        self.charge_to(relic, None).await
    }

    /// Charges the relic to a raider of this name, or to any.
    pub async fn charge_to(
        &self,
        relic: &RelicId,
        name: Option<SlotName>,
    ) -> Result<Charged, Refusal> {
        let request = ChargeRequest {
            relic: relic.clone(),
            harness: None,
            name,
            target: None,
            origin: Cause::Operator.into(),
        };
        let witness = self.world.directory.witness(&rig());
        ask::ask(witness, |reply| WitnessMsg::Charge(request, reply), HOUR).await?
    }

    /// Makes a charged raider.
    pub async fn charged(&self, title: &str) -> Charged {
        let relic = self.relic(title).await;
        self.charge(&relic).await.unwrap()
    }

    /// Makes a charged raider with one commit, ready for `done`.
    pub async fn worker(&self, title: &str) -> Charged {
        let charged = self.charged(title).await;
        self.parts.repo.commit(&charged.raider.name);
        charged
    }

    /// Declares work done, as `hd done` does.
    pub async fn done(&self, request: DoneRequest) -> Result<Accepted, Refusal> {
        let witness = self.world.directory.witness(&request.raider.rig);
        ask::ask(witness, |reply| WitnessMsg::Done(request, reply), HOUR).await?
    }

    /// Declares work completed.
    pub async fn completed(&self, raider: &RaiderId) -> Result<Accepted, Refusal> {
        self.done(completion(raider)).await
    }

    /// Nukes the raider, as `hd raider nuke` does.
    pub async fn nuke(&self, raider: &RaiderId, salvage: bool) -> Result<Nuked, Refusal> {
        let hook = self.hook(raider).await.unwrap();
        let target = Box::new(NukeTarget::of(&hook, Cause::Operator));
        let message = |reply| WitnessMsg::Nuke {
            target,
            salvage,
            reply,
        };
        ask::ask(self.world.directory.witness(&rig()), message, HOUR).await?
    }

    /// Stops everything; returns when the root is gone.
    pub async fn stop(self, mode: StopMode) {
        let reply = None;
        self.root
            .cast(RootMail::Stop { mode, reply }.into())
            .unwrap();
        self.task.await.unwrap();
        drop(self.end);
    }

    /// Ends the daemon as `kill -9` does: no actor runs on, sessions do.
    pub async fn crash(self) -> Parts {
        self.root.kill();
        self.task.await.unwrap();
        self.parts.rewired()
    }
}

/// Returns a plain request for `done`.
#[must_use]
pub fn completion(raider: &RaiderId) -> DoneRequest {
    DoneRequest {
        raider: raider.clone(),
        incarnation: None,
        exit: Completion::Completed,
        cleanup_status: None,
        no_change: false,
        wants_review: false,
        is_stuck_review: false,
        until: None,
        reason: None,
        cause: Cause::Done,
    }
}
