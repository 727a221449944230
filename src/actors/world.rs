//! Everything that actors share: the configuration, the ports, the store, and each other's addresses.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::claims::Claims;
use super::directory::Directory;
use super::mail::{ForgeMsg, ShamanMsg, WitnessMsg};
use super::store::StoreHandle;
use super::thread_budgets::ThreadBudgets;
use crate::domain::age::Jumps;
use crate::domain::city::City;
use crate::domain::facts::Usage;
use crate::domain::ids::RigName;
use crate::domain::intent::Secret;
use crate::domain::message;
use crate::domain::saga::FaultPoint;
use crate::domain::session_env;
use crate::ports::clock::Clock;
use crate::ports::repo::Repo;
use crate::ports::runner::Runner;
use crate::ports::sessions::Sessions;
use crate::ports::tasks::TaskFiles;

/// Aborts the process at a fault point when told to (feature `fault-points`).
pub type FaultHook = Arc<dyn Fn(FaultPoint) + Send + Sync>;

/// Returns the reason why nothing of the city may be touched by its path any more, if there is one. May block.
pub type Displaced = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The world of the actors: the ports, and one configuration. A reload makes a new world on the same ports; work under
/// way keeps the world that it began with, and takes the newest ([`World::newest`]) before the next piece of work.
#[derive(Clone)]
pub struct World {
    /// The configuration in force.
    pub city: Arc<City>,
    /// The configuration in full, as `hd config show` prints it.
    pub shown: Arc<serde_json::Value>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The session provider.
    pub sessions: Arc<dyn Sessions>,
    /// git, per rig.
    pub repos: BTreeMap<RigName, Arc<dyn Repo>>,
    /// Commands of gates, automations and notices.
    pub runner: Arc<dyn Runner>,
    /// Task files and outbox.
    pub tasks: Arc<dyn TaskFiles>,
    /// The relic store.
    pub store: StoreHandle,
    /// The permits of `start_concurrency`: the number of sessions that may be starting at once.
    pub starts: Arc<tokio::sync::Semaphore>,
    /// The environment that sessions and gates may be given parts of.
    pub env: BTreeMap<String, String>,
    /// Directory of the running program, put first in a session's `PATH`.
    pub bin_dir: std::path::PathBuf,
    /// The control socket, told to sessions.
    pub socket: std::path::PathBuf,
    /// The secret from which the keys of sessions are derived.
    pub secret: Secret,
    /// A number in 0..1 that differs from call to call, for jitter.
    pub random: Arc<dyn Fn() -> f64 + Send + Sync>,
    /// Returns this process's use of the machine, if known.
    pub usage: Arc<dyn Fn() -> Option<Usage> + Send + Sync>,
    /// Crash sweeps.
    pub fault: FaultHook,
    /// The look at the city's directory, asked before each piece of blocking work.
    pub displaced: Displaced,
    /// Set while the supervisor stops: failures are not unwound but resumed by the next start.
    pub stopping: Arc<AtomicBool>,
    /// The addresses of actors.
    pub directory: Arc<Directory>,
    /// The claims of work in progress.
    pub claims: Claims,
    /// The budgets of blocking work.
    pub thread_budgets: ThreadBudgets,
}

impl World {
    /// Returns the world with the newest configuration: this one, unless a reload has made another. An actor takes it at the
    /// start of each message, in one place; a task that outlives a message takes it before each piece of its work.
    #[must_use]
    pub fn newest(self: &Arc<Self>) -> Arc<Self> {
        self.directory.newest().unwrap_or_else(|| Arc::clone(self))
    }

    /// Returns the rig's repository; every configured rig has one.
    #[must_use]
    pub fn repo(&self, rig: &RigName) -> Option<Arc<dyn Repo>> {
        self.repos.get(rig).cloned()
    }

    /// Returns the command `hd` of this supervisor, as any shell finds it.
    #[must_use]
    pub fn hd(&self) -> String {
        session_env::hd(&self.bin_dir)
    }

    /// Returns the age of a wall-clock stamp; no jump of that clock makes it older.
    #[must_use]
    pub fn age(&self, key: &str, stamp: Timestamp) -> Duration {
        let ages = self.directory.ages.lock();
        let mut ages = ages.unwrap_or_else(PoisonError::into_inner);
        ages.of(key, stamp, self.clock.now(), self.clock.mono())
    }

    /// Notes a jump of the wall clock since the last look, and returns those of the time before that are not older than `longest`.
    #[must_use]
    pub fn jumps(&self, wall: Timestamp, since_boot: Duration, longest: Duration) -> Jumps {
        let jumps = self.directory.jumps.lock();
        let mut jumps = jumps.unwrap_or_else(PoisonError::into_inner);
        jumps.look(wall, since_boot, longest);
        jumps.clone()
    }

    /// Drops the ages of objects that are gone.
    pub fn prune_ages(&self) {
        let ages = self.directory.ages.lock();
        let mut ages = ages.unwrap_or_else(PoisonError::into_inner);
        ages.prune(self.clock.mono());
    }

    /// Returns true while the supervisor stops.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Passes a fault point.
    pub fn at(&self, point: FaultPoint) {
        (self.fault)(point);
    }

    /// Tells the owner of the mailbox to read it. Mailboxes are rows; this is a hint.
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
                "the mailbox {address} has no owner"
            );
        }
    }
}
