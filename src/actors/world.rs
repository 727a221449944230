//! What every actor can reach: the configuration, the ports, the store, and each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use jiff::Timestamp;
use ractor::ActorRef;

use super::accounts::Accounts;
use super::claims::Claims;
use super::conditions::Conditions;
use super::config::ConfigMsg;
use super::dispatcher::DispatcherMsg;
use super::dispatcher::automations::Automations;
use super::forge::ForgeMsg;
use super::glances::Glances;
use super::ground::Ground;
use super::root::{Left, RootMsg};
use super::shaman::{Notices, ShamanMsg};
use super::store::StoreHandle;
use super::witness::{Keepers, Silences, Troubles, WitnessMsg};
use crate::domain::age::Ages;
use crate::domain::city::City;
use crate::domain::facts::Usage;
use crate::domain::ids::RigName;
use crate::domain::intent::Secret;
use crate::domain::message;
use crate::domain::saga::FaultPoint;
use crate::domain::session_env;
use crate::ports::clock::Clock;
use crate::ports::repo::Repo;
use crate::ports::sessions::Sessions;
use crate::ports::tasks::TaskFiles;

/// Aborts the process at a fault point when told to (feature `fault-points`).
pub type FaultHook = Arc<dyn Fn(FaultPoint) + Send + Sync>;

/// The world as actors see it: the ports, and one configuration. A reload makes a new world on the
/// same ports; what is under way keeps the one it began with, and everybody takes the newest
/// ([`World::newest`]) before the next piece of work.
#[derive(Clone)]
pub struct World {
    /// The configuration in force.
    pub city: Arc<City>,
    /// It in full, as `hd config show` prints it.
    pub shown: Arc<serde_json::Value>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where agents run.
    pub sessions: Arc<dyn Sessions>,
    /// git, per rig.
    pub repos: BTreeMap<RigName, Arc<dyn Repo>>,
    /// Task files and outbox.
    pub tasks: Arc<dyn TaskFiles>,
    /// What must survive.
    pub store: StoreHandle,
    /// How many sessions may be starting at once (`start_concurrency`).
    pub starts: Arc<tokio::sync::Semaphore>,
    /// The environment that sessions and gates may be given parts of.
    pub env: BTreeMap<String, String>,
    /// Directory of the running program, put first in a session's `PATH`.
    pub bin_dir: std::path::PathBuf,
    /// The control socket, told to sessions.
    pub socket: std::path::PathBuf,
    /// What the keys of sessions are made from.
    pub secret: Secret,
    /// A number in 0..1 that differs from call to call, for jitter.
    pub random: Arc<dyn Fn() -> f64 + Send + Sync>,
    /// What this process has used of the machine, where that can be seen.
    pub usage: Arc<dyn Fn() -> Option<Usage> + Send + Sync>,
    /// Crash sweeps.
    pub fault: FaultHook,
    /// The supervisor is stopping: what fails now is not unwound but resumed by the next start.
    pub stopping: Arc<AtomicBool>,
    /// Who is where.
    pub directory: Arc<Directory>,
    /// What is being worked on.
    pub claims: Claims,
    /// Automations as they run.
    pub automations: Arc<Automations>,
    /// How people are told.
    pub notices: Arc<Notices>,
}

impl World {
    /// The world with the newest configuration: this one, unless a reload has made another.
    #[must_use]
    pub fn newest(self: &Arc<Self>) -> Arc<Self> {
        self.directory.newest().unwrap_or_else(|| Arc::clone(self))
    }

    /// The rig's repository; every configured rig has one.
    #[must_use]
    pub fn repo(&self, rig: &RigName) -> Option<Arc<dyn Repo>> {
        self.repos.get(rig).cloned()
    }

    /// The command `hd` of this supervisor, as any shell finds it.
    #[must_use]
    pub fn hd(&self) -> String {
        session_env::hd(&self.bin_dir)
    }

    /// How old something is that the wall clock stamped; no jump of that clock makes it older.
    #[must_use]
    pub fn age(&self, key: &str, stamp: Timestamp) -> Duration {
        let ages = self.directory.ages.lock();
        let mut ages = ages.unwrap_or_else(PoisonError::into_inner);
        ages.of(key, stamp, self.clock.now(), self.clock.mono())
    }

    /// Forgets the ages of what is no more.
    pub fn prune_ages(&self) {
        let ages = self.directory.ages.lock();
        let mut ages = ages.unwrap_or_else(PoisonError::into_inner);
        ages.prune(self.clock.mono());
    }

    /// Whether the supervisor is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Passes a fault point.
    pub fn at(&self, point: FaultPoint) {
        (self.fault)(point);
    }

    /// Tells whoever owns the mailbox to look into it. Mailboxes are rows; this is a hint.
    pub fn nudge(&self, address: &str) {
        if address == message::SHAMAN {
            return self.directory.tell_shaman(ShamanMsg::Look);
        }
        let Some((rig, role)) = address.split_once('/') else {
            return;
        };
        let Ok(rig) = RigName::new(rig) else { return };
        if address == message::witness(&rig) {
            self.directory.tell_witness(&rig, WitnessMsg::Look);
        } else if address == message::forge(&rig) {
            self.directory.tell_forge(&rig, ForgeMsg::Look);
        } else {
            debug_assert!(
                role.starts_with("raiders/"),
                "nobody owns the mailbox {address}"
            );
        }
    }
}

/// The present reference of every actor that others talk to. References of restarted actors are
/// replaced by the root, so nobody keeps one.
#[derive(Default)]
pub struct Directory {
    root: OnceLock<ActorRef<RootMsg>>,
    witnesses: RwLock<BTreeMap<RigName, ActorRef<WitnessMsg>>>,
    forges: RwLock<BTreeMap<RigName, ActorRef<ForgeMsg>>>,
    shaman: RwLock<Option<ActorRef<ShamanMsg>>>,
    dispatcher: RwLock<Option<ActorRef<DispatcherMsg>>>,
    config: RwLock<Option<ActorRef<ConfigMsg>>>,
    patrols: RwLock<BTreeMap<RigName, Timestamp>>,
    ages: Mutex<Ages>,
    /// What witnesses remember of sessions from look to look: a restarted one goes on from it.
    pub silences: Silences,
    /// Pieces of work of witnesses that do not go on.
    pub troubles: Troubles,
    /// Raiders whose sandboxes were judged, and kept, since the last patrol.
    pub kept: Keepers,
    /// Conditions of sessions: questions, limits, logins.
    pub conditions: Conditions,
    /// What git said of sandboxes last.
    pub glances: Glances,
    /// Accounts of harnesses: which are at a limit, or want a login.
    pub accounts: Accounts,
    /// What is wrong with the supervisor's own files.
    pub ground: Ground,
    /// What a stop has not ended.
    pub left: Left,
    reload_error: RwLock<Option<String>>,
    /// Weak, because the world holds its directory; the root keeps it alive.
    newest: RwLock<Weak<World>>,
}

impl Directory {
    /// Enters the root; there is one for the life of the process.
    pub fn set_root(&self, root: ActorRef<RootMsg>) {
        // A second root cannot be: the daemon makes exactly one.
        let _first_wins = self.root.set(root);
    }

    /// Enters the world with the newest configuration.
    pub fn set_newest(&self, world: &Arc<World>) {
        *self.newest.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(world);
    }

    pub(super) fn newest(&self) -> Option<Arc<World>> {
        self.newest
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .upgrade()
    }

    /// Takes a rig's actors out: it is not configured any more.
    pub fn remove_rig(&self, rig: &RigName) {
        self.silences.forget(rig);
        let locks = (&self.witnesses, &self.forges, &self.patrols);
        locks
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(rig);
        locks
            .1
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(rig);
        locks
            .2
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(rig);
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> Option<ActorRef<RootMsg>> {
        self.root.get().cloned()
    }

    /// Enters a rig's witness.
    pub fn set_witness(&self, rig: RigName, witness: ActorRef<WitnessMsg>) {
        self.witnesses
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(rig, witness);
    }

    /// Enters a rig's forge.
    pub fn set_forge(&self, rig: RigName, forge: ActorRef<ForgeMsg>) {
        self.forges
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(rig, forge);
    }

    /// Enters the shaman.
    pub fn set_shaman(&self, shaman: ActorRef<ShamanMsg>) {
        *self.shaman.write().unwrap_or_else(PoisonError::into_inner) = Some(shaman);
    }

    /// Enters the dispatcher.
    pub fn set_dispatcher(&self, dispatcher: ActorRef<DispatcherMsg>) {
        *self
            .dispatcher
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(dispatcher);
    }

    /// A rig's witness.
    #[must_use]
    pub fn witness(&self, rig: &RigName) -> Option<ActorRef<WitnessMsg>> {
        self.witnesses
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(rig)
            .cloned()
    }

    /// A rig's forge.
    #[must_use]
    pub fn forge(&self, rig: &RigName) -> Option<ActorRef<ForgeMsg>> {
        self.forges
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(rig)
            .cloned()
    }

    /// Enters the watcher of the configuration.
    pub fn set_config(&self, config: ActorRef<ConfigMsg>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Some(config);
    }

    /// The watcher of the configuration.
    #[must_use]
    pub fn config(&self) -> Option<ActorRef<ConfigMsg>> {
        self.config
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sends to the watcher of the configuration, as [`Directory::tell_root`].
    pub fn tell_config(&self, msg: ConfigMsg) {
        let config = self
            .config
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(config) = config {
            let _restarting = config.cast(msg);
        }
    }

    /// Notes what keeps the configuration on disk from being in force.
    pub fn set_reload_error(&self, error: Option<String>) {
        *self
            .reload_error
            .write()
            .unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// What keeps the configuration on disk from being in force.
    #[must_use]
    pub fn reload_error(&self) -> Option<String> {
        self.reload_error
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes that a rig's witness patrolled and saw its rig, for displays.
    pub fn patrolled(&self, rig: RigName, at: Timestamp) {
        self.patrols
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(rig, at);
    }

    /// When a rig's witness last patrolled and saw its rig.
    #[must_use]
    pub fn last_patrol(&self, rig: &RigName) -> Option<Timestamp> {
        self.patrols
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(rig)
            .copied()
    }

    /// Sends to the root. A message to an actor that is being restarted is lost on purpose: what
    /// matters is in the store, and the successor looks there first.
    pub fn tell_root(&self, msg: RootMsg) {
        if let Some(root) = self.root() {
            let _restarting = root.cast(msg);
        }
    }

    /// Sends to a rig's witness, as [`Directory::tell_root`].
    pub fn tell_witness(&self, rig: &RigName, msg: WitnessMsg) {
        if let Some(witness) = self.witness(rig) {
            let _restarting = witness.cast(msg);
        }
    }

    /// Sends to a rig's forge, as [`Directory::tell_root`].
    pub fn tell_forge(&self, rig: &RigName, msg: ForgeMsg) {
        if let Some(forge) = self.forge(rig) {
            let _restarting = forge.cast(msg);
        }
    }

    /// Sends to the shaman, as [`Directory::tell_root`].
    pub fn tell_shaman(&self, msg: ShamanMsg) {
        let shaman = self
            .shaman
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(shaman) = shaman {
            let _restarting = shaman.cast(msg);
        }
    }

    /// The dispatcher.
    #[must_use]
    pub fn dispatcher(&self) -> Option<ActorRef<DispatcherMsg>> {
        self.dispatcher
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sends to the dispatcher, as [`Directory::tell_root`].
    pub fn tell_dispatcher(&self, msg: DispatcherMsg) {
        if let Some(dispatcher) = self.dispatcher() {
            let _restarting = dispatcher.cast(msg);
        }
    }
}
