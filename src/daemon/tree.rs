//! Adapters, world and infrastructure: what the tree is made of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ractor::{Actor, ActorCell};
use tokio::sync::Semaphore;

use super::{DaemonError, own_env};
use crate::actors::config::{ConfigActor, ConfigArgs};
use crate::actors::dispatcher::{DispatcherActor, DispatcherMsg};
use crate::actors::forge::{ForgeActor, ForgeArgs};
use crate::actors::root::{InfraSpec, RootMsg, Spawn};
use crate::actors::shaman::ShamanActor;
use crate::actors::store::{self, StoreActor, StoreHandle};
use crate::actors::witness::{WitnessActor, WitnessArgs, WitnessMsg};
use crate::actors::world::{Claims, Directory, World};
use crate::adapters::clock::SystemClock;
use crate::adapters::git::{GitRepo, GitRig};
use crate::adapters::relics_sqlite::SqliteRelics;
use crate::adapters::sessions::holder::HolderSessions;
use crate::adapters::task_files::DiskTaskFiles;
use crate::config;
use crate::domain::city::{City, Rig};
use crate::domain::ids::RigName;
use crate::faults;
use crate::ports::clock::Clock;
use crate::ports::config::ConfigSource;
use crate::ports::relics::Relics;
use crate::ports::repo::Repo;
use crate::ports::tasks::TaskEvent;

/// Makes the world and says how its infrastructure is started, in order.
pub(super) async fn build(
    city: &Arc<City>,
    path: &Path,
    socket: PathBuf,
) -> Result<(Arc<World>, Vec<InfraSpec>), DaemonError> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| DaemonError::Failed(format!("{what}: {error}"));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let exe = std::env::current_exe().map_err(|e| failed("the program cannot find itself", &e))?;
    let sessions = HolderSessions::new(city.state_dir().join("sessions"), exe.clone())
        .map_err(|e| failed("the session provider cannot be started", &e))?;
    let tasks = DiskTaskFiles::new(city.outbox_dir(), city.trash_dir(), city.set_up_dir())
        .map_err(|e| failed("task files", &e))?;
    let open = store_opener(city, &clock);
    // A damaged store is said at once, before anything is started on top of it.
    open().map_err(|e| failed("the relic store cannot be opened", &e))?;
    let repos = repos(city).await?;
    let world = Arc::new(World {
        city: Arc::clone(city),
        clock,
        sessions: Arc::new(sessions),
        repos,
        tasks: Arc::new(tasks),
        store: StoreHandle::new(),
        starts: Arc::new(Semaphore::new(city.daemon.start_concurrency.max(1))),
        env: own_env(),
        bin_dir: exe.parent().map(PathBuf::from).unwrap_or_default(),
        socket,
        random: Arc::new(random),
        fault: faults::hook(),
        stopping: AtomicBool::new(false),
        directory: Directory::default(),
        claims: Claims::default(),
    });
    let source = Arc::new(OnDisk(path.to_owned()));
    let infra = infrastructure(&world, open, source);
    Ok((world, infra))
}

/// The city's files, read anew each time.
struct OnDisk(PathBuf);

impl ConfigSource for OnDisk {
    fn check(&self) -> Result<String, String> {
        match config::load(&self.0, &config::Env::of_process()) {
            Ok(loaded) => Ok(loaded.city.revision),
            Err(wrong) => Err(wrong.render(false)),
        }
    }
}

fn store_opener(city: &City, clock: &Arc<dyn Clock>) -> store::Open {
    let (path, clock) = (city.state_dir().join("relics.db"), Arc::clone(clock));
    Arc::new(move || {
        let store = SqliteRelics::open(&path, Arc::clone(&clock))?;
        Ok(Box::new(store) as Box<dyn Relics>)
    })
}

/// Every rig's git, made ready side by side. One that cannot be worked on stops the start: its
/// raiders' work could not be judged.
async fn repos(city: &City) -> Result<BTreeMap<RigName, Arc<dyn Repo>>, DaemonError> {
    let mut preparing = tokio::task::JoinSet::new();
    for rig in &city.rigs {
        let (name, repo) = (rig.name.clone(), git(city, rig));
        preparing.spawn_blocking(move || {
            let prepared = repo.prepare();
            (name, repo, prepared)
        });
    }
    let (mut repos, mut failed) = (BTreeMap::new(), None);
    // All are waited for: git must not run on behind a start that failed.
    while let Some(joined) = preparing.join_next().await {
        match joined {
            Ok((name, repo, Ok(()))) => {
                repos.insert(name, repo);
            }
            Ok((name, _, Err(error))) => failed = Some(format!("rig {name}: {error}")),
            Err(panic) => failed = Some(panic.to_string()),
        }
    }
    match failed {
        None => Ok(repos),
        Some(why) => Err(DaemonError::Failed(why)),
    }
}

fn git(city: &City, rig: &Rig) -> Arc<dyn Repo> {
    let dir = city.rig_dir(&rig.name);
    Arc::new(GitRepo::new(GitRig {
        name: rig.name.clone(),
        source: rig.source.clone(),
        repo_dir: dir.join("repo.git"),
        raiders_dir: city.raiders_dir(&rig.name),
        forge_dir: dir.join("forge"),
        push: rig.forge.push,
    }))
}

/// 0..1, different at each call; good enough to spread restarts.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let bits = RandomState::new().build_hasher().finish();
    // 53 bits are what a float holds exactly.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let unit = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    unit
}

/// What the world says by itself goes to whoever must know.
pub(super) fn connect(world: &Arc<World>) {
    let told = Arc::clone(world);
    world.sessions.listen(Box::new(move |event| {
        told.directory.tell_root(RootMsg::Session(event));
    }));
    let told = Arc::clone(world);
    world.tasks.listen(Box::new(move |event| match event {
        TaskEvent::Outbox => told.directory.tell_dispatcher(DispatcherMsg::Outbox),
        TaskEvent::Outcome(dir) => {
            // The directory names the rig, but the witness that has the hook knows best.
            for rig in &told.city.rigs {
                told.directory
                    .tell_witness(&rig.name, WitnessMsg::Outcome(dir.clone()));
            }
        }
    }));
}

/// In the order of their start; stopped in reverse.
fn infrastructure(
    world: &Arc<World>,
    open: store::Open,
    source: Arc<dyn ConfigSource>,
) -> Vec<InfraSpec> {
    let handle = world.store.clone();
    let mut specs = vec![spec("store", move |root| {
        let args = store::Args {
            handle: handle.clone(),
            open: Arc::clone(&open),
        };
        async move { cell(StoreActor::spawn_linked(None, StoreActor, args, root).await) }
    })];
    let own = Arc::clone(world);
    specs.push(spec("shaman", move |root| {
        let world = Arc::clone(&own);
        async move { cell(ShamanActor::spawn_linked(None, ShamanActor, world, root).await) }
    }));
    let args = ConfigArgs {
        world: Arc::clone(world),
        source,
    };
    specs.push(spec("config", move |root| {
        let args = args.clone();
        async move { cell(ConfigActor::spawn_linked(None, ConfigActor, args, root).await) }
    }));
    for rig in &world.city.rigs {
        let args = ForgeArgs {
            world: Arc::clone(world),
            rig: rig.name.clone(),
        };
        specs.push(spec(&format!("{}/forge", rig.name), move |root| {
            let args = args.clone();
            async move { cell(ForgeActor::spawn_linked(None, ForgeActor, args, root).await) }
        }));
        let args = WitnessArgs {
            world: Arc::clone(world),
            rig: rig.name.clone(),
        };
        specs.push(spec(&format!("{}/witness", rig.name), move |root| {
            let args = args.clone();
            async move { cell(WitnessActor::spawn_linked(None, WitnessActor, args, root).await) }
        }));
    }
    let own = Arc::clone(world);
    specs.push(spec("dispatcher", move |root| {
        let world = Arc::clone(&own);
        async move { cell(DispatcherActor::spawn_linked(None, DispatcherActor, world, root).await) }
    }));
    specs
}

type Spawned<M> = Result<(ractor::ActorRef<M>, tokio::task::JoinHandle<()>), ractor::SpawnErr>;

fn cell<M>(spawned: Spawned<M>) -> Result<ActorCell, ractor::SpawnErr> {
    spawned.map(|(actor, _task)| actor.get_cell())
}

fn spec<F>(name: &str, spawn: impl Fn(ActorCell) -> F + Send + Sync + 'static) -> InfraSpec
where
    F: Future<Output = Result<ActorCell, ractor::SpawnErr>> + Send + 'static,
{
    let spawn: Spawn = Arc::new(move |root| Box::pin(spawn(root)));
    InfraSpec {
        name: name.to_owned(),
        spawn,
    }
}
