//! The composition root: the only place that knows the concrete adapters. Follows the life of the process:
//!
//! ```text
//!  config ─► ground, lock ─► socket made ─► adapters ─► tree booted (sessions adopted) ─► it listens ─► ready
//!     │           │              │                                                          │
//!   exit 2     exit 4          exit 1         signals, `hd stop` ──► two passes ─► socket gone ─► exit 0
//! ```

mod child_processes;
mod city_identity;
mod displaced;
mod files;
mod ground;
mod infra;
mod lock;
mod manager;
mod memory;
mod moves;
mod own_files;
mod seat;
mod signals;
mod tree;

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::{mpsc, oneshot, watch};

use self::ground::Ground;
use self::manager::Manager;
use self::own_files::{OwnFiles, keep};
use self::signals::Signals;
use crate::actors::ask;
use crate::actors::mail::DispatcherMsg;
use crate::actors::mail::{ChildView, RootMail, StopEnd, StopMode};
use crate::actors::root::{RootActor, RootMsg, Survivors};
use crate::actors::world::World;
use crate::adapters::{city_root, runs, standstill};
use crate::config;
use crate::control::handlers::{Handlers, StopRequest};
use crate::control::server::{self, Bound};
use crate::domain::cause::Cause;
use crate::domain::city::{City, OnTerm, socket_path};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::shown;
use crate::ports::sessions::Sessions;
use crate::telemetry;

/// Exit code of a supervisor that ended without an error of its own.
const STOPPED: u8 = 0;
/// Exit codes of `contract.md`, 2.1.
const FAILED: u8 = 1;
const CONFIG_INVALID: u8 = 2;
const HELD_BY_ANOTHER: u8 = 4;

/// Timeout for writing the last lines of the log.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Timeout for answers in progress once the tree has stopped.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// The reason why the daemon did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
    /// Another supervisor holds the city.
    #[error("another supervisor (pid {pid}) holds this city")]
    Held {
        /// The pid as that supervisor reports it; for display only.
        pid: String,
    },
    /// Another supervisor holds the path or the id of the city, and not its directory.
    #[error("{0}")]
    Occupied(String),
    /// The city's directory was removed or replaced while the supervisor ran.
    #[error("{0}")]
    Displaced(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl DaemonError {
    fn exit(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Config(_) => CONFIG_INVALID,
            Self::Held { .. } | Self::Occupied(_) => HELD_BY_ANOTHER,
            Self::Displaced(_) | Self::Failed(_) => FAILED,
        })
    }
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> DaemonError + '_ {
    move |error| DaemonError::Failed(format!("{what}: {error}"))
}

/// Advice for a city whose disk takes no writes.
const NO_ROOM: &str = "check that its disk has free space and is writable";

fn failed_at(path: &Path, what: &str) -> impl Fn(std::io::Error) -> DaemonError {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let said = format!("{} {what}", path.display());
    move |error| {
        DaemonError::Failed(match error.kind() {
            QuotaExceeded | ReadOnlyFilesystem | StorageFull => {
                format!("{said}: {error}; {NO_ROOM}")
            }
            _ => format!("{said}: {error}"),
        })
    }
}

/// Validates a city and reports its errors.
#[must_use]
pub fn check(path: &Path) -> ExitCode {
    match config::load(path, &config::Env::of_process()) {
        Ok(_) => ExitCode::from(STOPPED),
        Err(wrong) => {
            telemetry::print(&shown::lines(&wrong.render(false)));
            ExitCode::from(CONFIG_INVALID)
        }
    }
}

/// The relic store that a supervisor begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// The existing store; a new one only in a city that never had one.
    Known,
    /// Any store, even an older one or none.
    Any,
}

/// Runs the supervisor of a city until it is stopped.
#[must_use]
pub fn run(path: &Path, store: Store) -> ExitCode {
    memory::one_arena();
    let code = match supervise(path, store) {
        Ok(()) => ExitCode::from(STOPPED),
        Err(error) => {
            match &error {
                DaemonError::Config(text) => telemetry::print(&shown::lines(text)),
                _ => tracing::error!(%error, "supervisor failed and exits"),
            }
            error.exit()
        }
    };
    telemetry::flush(LAST_LINES);
    code
}

/// The most threads for blocking work. They are made when they are needed; the budgets of about twenty-five rigs that all hang
/// (`actors/thread_budgets.rs`) do not use them up.
const BLOCKING_MAX: usize = 4096;

fn supervise(path: &Path, store: Store) -> Result<(), DaemonError> {
    // Resolved once: a link that leads elsewhere later must not move a city under its supervisor. An error in the path
    // is reported by the code that reads it.
    let file = config::city_file(path).unwrap_or_else(|_| path.to_owned());
    let loaded = config::load(&file, &config::Env::of_process())
        .map_err(|wrong| DaemonError::Config(wrong.render(false)))?;
    if !loaded.warnings.is_empty() {
        tracing::warn!("{}", loaded.warnings.render(false).trim_end());
    }
    let shown = config::show_json(&loaded);
    let city = Arc::new(loaded.city);
    let ground = Arc::new(Ground::take(&city.root)?);
    let own = Arc::downgrade(&ground);
    let root = ground
        .held_root()
        .map_err(failed_at(&city.root, "cannot be held"))?;
    city_root::hold(ground.city().to_owned(), root);
    standstill::watch(move || own.upgrade().is_some_and(|own| own.displaced().is_some()));
    runs::work_for(&city.state_dir());
    if let Err(error) = config::write_schema(&city.root) {
        tracing::warn!(%error, "could not write the schema of city.toml; editors may not know its newest keys");
    }
    panic_hook();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING_MAX)
        .enable_all()
        .build()
        .map_err(failed("the runtime cannot be started"))?;
    let start = Start {
        city,
        shown,
        file,
        store,
        ground: Arc::clone(&ground),
    };
    let result = runtime.block_on(live(start));
    if matches!(result, Err(DaemonError::Displaced(_))) {
        // A store that is closed removes its log by path: that of the directory which is there now. The locks are held
        // until the process has ended.
        let _never_dropped = (ManuallyDrop::new(runtime), ManuallyDrop::new(ground));
        return result;
    }
    let left = child_processes::end(runtime);
    drop(ground);
    match left.is_empty() {
        true => result,
        false => result.and(Err(DaemonError::Failed(format!(
            "the supervisor's own processes do not end: {left:?}"
        )))),
    }
}

/// The input of a supervisor's run.
struct Start {
    city: Arc<City>,
    shown: serde_json::Value,
    file: PathBuf,
    store: Store,
    ground: Arc<Ground>,
}

/// The parts of a supervisor, from when each of them exists.
#[derive(Default)]
struct Built {
    sessions: OnceLock<Arc<dyn Sessions>>,
    world: OnceLock<Arc<World>>,
}

/// Runs until it is stopped, or until the city's directory is not at its path any more.
async fn live(start: Start) -> Result<(), DaemonError> {
    let (ground, built) = (Arc::clone(&start.ground), Built::default());
    tokio::select! {
        result = work(start, &built) => result,
        why = displaced::noticed(ground) => Err(displaced::end(&built, why).await),
    }
}

/// Runs from building the adapters, which are noted in `built`, to the final answer.
async fn work(start: Start, built: &Built) -> Result<(), DaemonError> {
    let mut signals = Signals::new().map_err(failed("signals cannot be handled"))?;
    let ground = Arc::clone(&start.ground);
    let socket = socket_of(&start.city);
    // Before anything is started, for a supervisor without a socket could not be asked about it.
    let bound = bind(&socket)?;
    let manager = Arc::new(Manager::new());
    let args = tokio::select! {
        args = tree::build(start, socket, Arc::clone(&manager), built) => args?,
        () = signals.stop(None) => {
            manager.stopping();
            return Ok(());
        }
    };
    let world = Arc::clone(built.world.get_or_init(|| Arc::clone(&args.world)));
    let left = Arc::clone(&args.left);
    let (root, ended) = RootActor::spawn(None, RootActor, args)
        .await
        .map_err(|error| DaemonError::Failed(format!("the root cannot be started: {error}")))?;
    world.directory.set_root(&root);
    journal(&world, EventType::ControllerStarted);
    let (boot, limit) = (world.directory.root(), Duration::from_secs(600));
    tokio::select! {
        booted = ask::ask(boot, RootMail::Boot, limit) => {
            booted.map_err(|refused| DaemonError::Failed(refused.to_string()))?;
        }
        () = signals.stop(Some(&world)) => {
            let (_nobody, requests) = mpsc::channel(1);
            let mode = Some(on_term(&world));
            let tree = Tree { root, ended, left };
            return until_stopped(&world, tree, &manager, &mut signals, requests, mode).await;
        }
    }
    let (control, requests) = Control::serve(bound, ground, &world)?;
    journal(&world, EventType::ControllerReady);
    // Only now: the commands of automations may call the supervisor.
    world.directory.set_answering(world.clock.now());
    world.directory.tell_root(RootMail::Ready);
    world.directory.tell_dispatcher(DispatcherMsg::Look);
    manager.ready();
    let watch = |limit| watch(Arc::clone(&world), Arc::clone(&manager), limit);
    let watching = sd_notify::watchdog_enabled().map(|limit| tokio::spawn(watch(limit)));
    let tree = Tree { root, ended, left };
    let outcome = until_stopped(&world, tree, &manager, &mut signals, requests, None).await;
    if let Some(watching) = watching {
        watching.abort();
    }
    control.end().await;
    outcome
}

/// Creates the control socket; nothing can connect to it yet.
fn bind(socket: &Path) -> Result<Bound, DaemonError> {
    server::bind(socket).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => DaemonError::Held {
            pid: format!("unknown; it listens at {}", socket.display()),
        },
        _ => failed_at(socket, "cannot be made: it is the control socket")(error),
    })
}

/// The running control server.
struct Control {
    stopping: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
    keeping: tokio::task::JoinHandle<()>,
}

impl Control {
    fn serve(
        bound: Bound,
        ground: Arc<Ground>,
        world: &Arc<World>,
    ) -> Result<(Self, mpsc::Receiver<StopRequest>), DaemonError> {
        let listens = bound.listen();
        let (listener, file) = listens.map_err(failed("the control socket cannot listen"))?;
        let (stop, requests) = mpsc::channel(4);
        let (stopping, watching) = watch::channel(false);
        let (renew, listeners) = mpsc::channel(1);
        // The channel has room for one.
        let _taken = renew.try_send(listener);
        let handlers = Arc::new(Handlers::new(Arc::clone(world), stop));
        let serving = tokio::spawn(server::serve(listeners, handlers, watching));
        let mut files = OwnFiles::new(ground, file, renew);
        let keeping = tokio::spawn(keep(move || files.check(), Arc::clone(world)));
        let control = Self {
            stopping,
            serving,
            keeping,
        };
        Ok((control, requests))
    }

    /// Closes the control server: no client can connect any more, and clients with open requests get an answer.
    async fn end(self) {
        self.keeping.abort();
        // This also removes the file of the socket. A check in progress ends before the process does.
        let _aborted = self.keeping.await;
        // The receiver is gone only if the server has ended by itself.
        let _ended = self.stopping.send(true);
        let _slow_clients = tokio::time::timeout(ANSWER_LIMIT, self.serving).await;
    }
}

/// Returns the kind of stop that the first signal asks for.
fn on_term(world: &Arc<World>) -> StopMode {
    match world.newest().city.daemon.on_term {
        OnTerm::Stop => StopMode::Graceful,
        OnTerm::Detach => StopMode::KeepSessions,
    }
}

/// The running tree.
struct Tree {
    root: ActorRef<RootMsg>,
    /// Completes when the root has ended.
    ended: tokio::task::JoinHandle<()>,
    /// The sessions that a stop has not ended.
    left: Arc<Survivors>,
}

/// Waits for a reason to stop, unless there is one, stops the tree, and keeps listening: a second signal skips the
/// grace. Callers that asked for the stop are told how it ended.
async fn until_stopped(
    world: &Arc<World>,
    Tree { root, ended, left }: Tree,
    manager: &Manager,
    signals: &mut Signals,
    mut requests: mpsc::Receiver<StopRequest>,
    mut reason: Option<StopMode>,
) -> Result<(), DaemonError> {
    tokio::pin!(ended);
    let mut asked: Vec<oneshot::Sender<StopEnd>> = Vec::new();
    let mut stopping = None;
    loop {
        if let Some(mode) = reason.take() {
            manager.stopping();
            // Sessions that are being ended cannot be kept any more, and the reverse.
            stopping.get_or_insert(mode);
            if root
                .cast(RootMail::Stop { mode, reply: None }.into())
                .is_err()
            {
                break;
            }
        }
        reason = tokio::select! {
            _ = &mut ended => break,
            () = signals.stop(Some(world)) => Some(match stopping {
                Some(_) => StopMode::Now,
                None => on_term(world),
            }),
            Some((mode, done)) = requests.recv() => {
                asked.push(done);
                Some(mode)
            }
        };
    }
    let Some(mode) = stopping else {
        let what = "the root supervisor ended unexpectedly";
        return Err(DaemonError::Failed(what.into()));
    };
    let left = match mode {
        StopMode::KeepSessions => Vec::new(),
        StopMode::Graceful | StopMode::Now => left.list(),
    };
    let end = StopEnd { mode, left };
    for done in asked {
        // The caller may be gone.
        let _gone = done.send(end.clone());
    }
    match end.left.is_empty() {
        true => Ok(()),
        false => Err(DaemonError::Failed(end.says())),
    }
}

fn journal(world: &World, kind: EventType) {
    let data = serde_json::json!({
        "pid": std::process::id(), "version": env!("CARGO_PKG_VERSION"),
        "socket": world.socket, "config_revision": world.city.revision,
    });
    let event = NewEvent::new(kind, &world.city.name, Cause::Operator).with(data);
    world.store.journal(vec![event]);
}

async fn watch(world: Arc<World>, manager: Arc<Manager>, limit: Duration) {
    let look = || {
        let world = Arc::clone(&world);
        async move { ask::views(&world).await }
    };
    let lives = |views: &[ChildView]| {
        manager.lives(views, world.directory.reload_error().as_deref());
    };
    manager::watch(limit, look, lives).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program reads its environment once, for all others"
)]
fn socket_of(city: &City) -> PathBuf {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let uid = nix::unistd::geteuid().as_raw();
    socket_path(&city.root, &city.daemon.socket, runtime_dir.as_deref(), uid)
}

/// Logs a panic, which ends one actor or task, as one line without a backtrace.
fn panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("(no text)");
        tracing::error!(place, panic = text, "an actor or task panicked");
    }));
}

/// Returns the environment of this process, of which sessions and gates may get parts.
#[expect(
    clippy::disallowed_methods,
    reason = "the program reads its environment once, for all others"
)]
fn own_env() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
