//! Makes the parts of the tree: adapters, world and infrastructure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::files::OnDisk;
use super::manager::Manager;
use super::{Built, DaemonError, NO_ROOM, Start, Store, failed_at, infra, own_env};
use crate::actors::claims::{ClaimKey, Claims};
use crate::actors::conditions;
use crate::actors::mail::ConfigMsg;
use crate::actors::mail::DispatcherMsg;
use crate::actors::mail::RootMail;
use crate::actors::mail::WitnessMsg;
use crate::actors::root::RootArgs;
use crate::actors::store::{self, StoreHandle};
use crate::actors::thread_budgets::ThreadBudgets;
use crate::actors::world::World;
use crate::adapters::clock::SystemClock;
use crate::adapters::commands::Commands;
use crate::adapters::git::{GitRepo, GitRig};
use crate::adapters::relics_sqlite::{Expectation, SqliteRelics, mark};
use crate::adapters::sessions::{LocalSessions, holder};
use crate::adapters::task_files::DiskTaskFiles;
use crate::adapters::{keeper, proc, secret};
use crate::domain::city::{City, Rig, tmux_server};
use crate::domain::ids::RigName;
use crate::faults;
use crate::ports::clock::Clock;
use crate::ports::config::ConfigSource;
use crate::ports::relics::{Relics, StoreError};
use crate::ports::repo::{Committed, Repo, RepoError};
use crate::ports::sessions::Sessions;
use crate::ports::tasks::TaskEvent;

/// Makes the world, and the specifications of its infrastructure, in order.
pub(super) async fn build(
    start: Start,
    socket: PathBuf,
    manager: Arc<Manager>,
    built: &Built,
) -> Result<RootArgs, DaemonError> {
    let city = &start.city;
    let failed =
        |what: &str, error: &dyn std::fmt::Display| DaemonError::Failed(format!("{what}: {error}"));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let exe = std::env::current_exe()
        .map_err(|e| failed("the path of this program cannot be found", &e))?;
    let sessions: Arc<dyn Sessions> = Arc::new(sessions(city, &exe)?);
    // Those of a killed predecessor run already.
    let _first = built.sessions.set(Arc::clone(&sessions));
    let tasks = DiskTaskFiles::new(city.outbox_dir(), city.trash_dir(), city.set_up_dir())
        .map_err(|e| failed("task files", &e))?;
    let open = store_opener(city, &clock, &start);
    // A damaged store is reported at once, before anything is started on top of it.
    open().map_err(|error| match error {
        StoreError::Unavailable(_) => DaemonError::Failed(format!("{error}; {NO_ROOM}")),
        StoreError::Locked(_) => DaemonError::Failed(error.to_string()),
        _ => failed("the relic store cannot be opened", &error),
    })?;
    let dir = city.state_dir();
    let secret = secret::of_city(&dir).map_err(failed_at(&dir, "cannot be prepared"))?;
    let source: Arc<dyn ConfigSource> = Arc::new(OnDisk::new(start.file));
    let claims = Claims::default();
    let repos = repos(city, &claims).await?;
    let ground = Arc::clone(&start.ground);
    let tasks = Arc::new(tasks);
    let world = Arc::new(World {
        city: Arc::clone(city),
        shown: Arc::new(start.shown),
        clock,
        sessions,
        repos,
        tasks: Arc::clone(&tasks) as _,
        store: StoreHandle::new(),
        starts: Arc::new(Semaphore::new(city.daemon.start_concurrency.max(1))),
        env: own_env(),
        bin_dir: exe.parent().map(PathBuf::from).unwrap_or_default(),
        socket,
        secret,
        random: Arc::new(random),
        usage: Arc::new(|| proc::own_usage().ok()),
        fault: faults::hook(),
        displaced: Arc::new(move || ground.displaced()),
        stopping: Arc::default(),
        directory: Arc::default(),
        claims,
        thread_budgets: ThreadBudgets::default(),
        runner: Arc::new(Commands),
    });
    let asked = Arc::clone(&world);
    tasks.ask_of_commits(Box::new(move |sandbox, name, bytes| {
        committed(&asked.newest(), sandbox, name, bytes)
    }));
    connect(&world, &*source);
    Ok(RootArgs {
        infra: infra::all(&world, open, source, manager),
        rig_infra: Arc::new(infra::of_rig),
        left: Arc::default(),
        world,
    })
}

/// Returns where a file of that name with these bytes is committed. None when that cannot be read.
fn committed(world: &World, sandbox: &Path, name: &str, bytes: Option<&[u8]>) -> Option<Committed> {
    let is_its = |rig: &&Rig| sandbox.parent() == Some(&world.city.raiders_dir(&rig.name));
    let rig = world.city.rigs.iter().find(is_its);
    let repo = world.repo(&rig?.name)?;
    // A sandbox of a held rig may be another directory.
    repo.ready().ok()?;
    let found = repo.committed(sandbox, name, bytes);
    let unread = |error: &RepoError| {
        tracing::warn!(
            sandbox = %sandbox.display(),
            name,
            %error,
            "cannot compare a file in the place of a link with the commit"
        );
    };
    found.inspect_err(unread).ok()
}

fn sessions(city: &City, exe: &Path) -> Result<LocalSessions, DaemonError> {
    let server = tmux_server(&city.root, &city.session.tmux_socket);
    let exe = holder::program(exe);
    keeper::keep_with(exe.clone());
    let dir = city.state_dir().join("sessions");
    let sessions = LocalSessions::new(dir.clone(), exe, &server);
    let sessions = sessions.map_err(failed_at(&dir, "cannot be prepared"))?;
    sessions
        .make_ready(city.session.provider)
        .map_err(|why| DaemonError::Failed(format!("no session can be started: {why}")))?;
    sessions.prefer(city.session.provider);
    Ok(sessions)
}

fn store_opener(city: &City, clock: &Arc<dyn Clock>, start: &Start) -> store::Open {
    let (path, clock) = (city.state_dir().join("relics.db"), Arc::clone(clock));
    let (known, ground) = (start.store, Arc::clone(&start.ground));
    let worked_on = city.rigs.iter().map(|rig| city.raiders_dir(&rig.name));
    let worked_on: Vec<PathBuf> = worked_on.collect();
    // Only the first time: a store that is lost later must be noticed.
    let any = AtomicBool::new(known == Store::Any);
    let starts = AtomicBool::new(true);
    // A store that was opened here is not new, whatever is left of it.
    let was_opened = AtomicBool::new(false);
    Arc::new(move || {
        let any = any.swap(false, Ordering::Relaxed);
        let at_start = starts.swap(false, Ordering::Relaxed);
        let is_first = !was_opened.load(Ordering::Relaxed);
        // The store at this path is another city's, or a backup that no supervisor has taken yet.
        if let Some(why) = ground.displaced() {
            return Err(StoreError::Unavailable(why));
        }
        let known = match any || is_first && is_fresh(&path, &worked_on) {
            true => Expectation::Any,
            false => Expectation::Marked,
        };
        let opened = SqliteRelics::open_known(&path, Arc::clone(&clock), known);
        let store = opened.map_err(|error| match error {
            // At runtime the store actor waits for a store that can be opened.
            StoreError::Failed(why) if !at_start => StoreError::Unavailable(why),
            error => error,
        })?;
        was_opened.store(true, Ordering::Relaxed);
        let ground = Arc::clone(&ground);
        let store = store.guarded(Box::new(move || ground.displaced()));
        Ok(Box::new(store) as Box<dyn Relics>)
    })
}

/// Returns whether there was no store yet: no trace of a store is left, nor a raider's sandbox.
fn is_fresh(store: &Path, worked_on: &[PathBuf]) -> bool {
    let has = |dir: &PathBuf| std::fs::read_dir(dir).is_ok_and(|mut dir| dir.next().is_some());
    !mark::is_left(store) && !worked_on.iter().any(has)
}

/// The time that the start waits for the rigs. A first fetch, or a disk that hangs, may take longer.
const PREPARE_LIMIT: Duration = Duration::from_secs(20);

/// Prepares the git repositories of all rigs in parallel. A rig that cannot be prepared, or not in time, is held: it
/// does no work until it is prepared, then or by a patrol. The other rigs do not depend on it.
async fn repos(
    city: &City,
    claims: &Claims,
) -> Result<BTreeMap<RigName, Arc<dyn Repo>>, DaemonError> {
    // All before the first preparation, which must know the places of the others.
    let made = city
        .rigs
        .iter()
        .map(|rig| (rig.name.clone(), git(city, rig)));
    let repos: BTreeMap<_, _> = made.collect();
    let mut preparing = tokio::task::JoinSet::new();
    for (name, repo) in &repos {
        let (name, repo) = (name.clone(), Arc::clone(repo));
        // A patrol must not begin it again meanwhile.
        let claim = claims.claim(ClaimKey::Prepare(name.clone()));
        preparing.spawn_blocking(move || {
            if let Err(why) = repo.prepare() {
                tracing::error!(rig = %name, %why, "the repository of the rig could not be set up, so no work of this rig starts; each patrol retries, and other rigs are not affected");
            }
            drop(claim);
        });
    }
    let mut failed = None;
    let all = async {
        while let Some(joined) = preparing.join_next().await {
            failed = joined
                .err()
                .map(|panic| panic.to_string())
                .or(failed.take());
        }
    };
    if tokio::time::timeout(PREPARE_LIMIT, all).await.is_err() {
        tracing::warn!(limit = ?PREPARE_LIMIT, "some rigs are not prepared in time; they are held until they are; the other rigs start");
    }
    preparing.detach_all();
    match failed {
        None => Ok(repos),
        Some(why) => Err(DaemonError::Failed(why)),
    }
}

pub(super) fn git(city: &City, rig: &Rig) -> Arc<dyn Repo> {
    let dir = city.rig_dir(&rig.name);
    GitRepo::watched(GitRig {
        name: rig.name.clone(),
        source: rig.source.clone(),
        ours: city.custody_dir(&rig.name),
        theirs: dir.join("repo.git"),
        raiders_dir: city.raiders_dir(&rig.name),
        forge_dir: dir.join("forge"),
        push: rig.forge.push,
    })
}

/// Returns a number in 0..1, different at each call; good enough to spread restarts.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let bits = RandomState::new().build_hasher().finish();
    // A float holds 53 bits exactly.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let unit = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    unit
}

/// Connects the sources of events with the actors that handle them.
fn connect(world: &Arc<World>, source: &dyn ConfigSource) {
    let told = Arc::clone(world);
    source.listen(Box::new(move || {
        told.directory.tell_config(ConfigMsg::Touched)
    }));
    let told = Arc::clone(world);
    world.sessions.listen(Box::new(move |event| {
        told.directory.tell_root(RootMail::Session(event));
    }));
    conditions::connect(world);
    let told = Arc::clone(world);
    world.tasks.listen(Box::new(move |event| match event {
        TaskEvent::Outbox => told.directory.tell_dispatcher(DispatcherMsg::Outbox),
        TaskEvent::Outcome(dir) => {
            // The directory names the rig, but the witness that has the hook knows best.
            for rig in &told.newest().city.rigs {
                told.directory
                    .tell_witness(&rig.name, WitnessMsg::Outcome(dir.clone()));
            }
        }
    }));
}
