//! The addresses of all actors, and shared state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockWriteGuard, Weak};

use jiff::Timestamp;
use ractor::{ActorRef, Message};

use super::boards::{Accounts, Automations, Conditions, Glances, Ground, SandboxChanges};
use super::mail::{Address, ConfigMsg, DispatcherMsg, ForgeMsg, RootMail, ShamanMsg, WitnessMsg};
use super::remotes::Unlanded;
use super::world::World;
use crate::domain::age::{Ages, Jumps};
use crate::domain::ids::RigName;

/// The reason why the configuration on disk is not in force as a whole, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotInForce {
    /// It was refused or could not be checked: the former one is in force.
    Refused(String),
    /// It is in force, except for keys that take effect at the next start of the supervisor.
    AtNextStart(String),
}

/// Holds the present address of each actor that receives messages, and the tables that several actors read. A table that
/// only one actor reads is in the memory of that actor, which the root holds (`witness::Memory`, `shaman::Notices`, `forge::Tried`),
/// unless another layer reads it, too.
///
/// | Table | Written by | Read by |
/// |---|---|---|
/// | `conditions` | watchers of screens, agents' hooks | root, witness, prompts, answers, `hd status` |
/// | `accounts` | sessions' conditions | root, witness, prompts, `hd status` |
/// | `sandboxes` | charge, repair, removal | the snapshot |
/// | `glances` | patrols of witnesses | `hd status` |
/// | `ground` | the keeper of the daemon | root, `hd doctor`, `hd status` |
/// | `automations` | dispatcher | dispatcher, `hd auto list`, the stop |
/// | `unlanded` | removals | removals, of all rigs' witnesses and callers |
/// | `ages` | all looks | all looks: one clock for one stamp |
/// | `jumps` | retention | retention, also of a dispatcher that was restarted |
/// | `patrols`, `reload_error`, `answers_since` | witness, configuration, daemon | `hd status`, dispatcher |
///
/// The root replaces the addresses of restarted actors, so none is kept elsewhere.
///
/// A message to an actor that is being restarted is lost on purpose: the store has what matters, and the successor
/// reads it first.
#[derive(Default)]
pub struct Directory {
    root: OnceLock<Address<RootMail>>,
    witnesses: Each<Address<WitnessMsg>>,
    forges: Each<Address<ForgeMsg>>,
    shaman: SharedValue<Address<ShamanMsg>>,
    dispatcher: SharedValue<Address<DispatcherMsg>>,
    config: SharedValue<Address<ConfigMsg>>,
    patrols: Each<Timestamp>,
    pub(super) ages: Mutex<Ages>,
    pub(super) jumps: Mutex<Jumps>,
    /// The heads that no target had when the remotes were asked.
    pub unlanded: Unlanded,
    /// Conditions of sessions: questions, limits, logins.
    pub conditions: Conditions,
    /// The last answers of git about sandboxes, for displays.
    pub glances: Glances,
    /// Accounts of harnesses: which are at a limit, or want a login.
    pub accounts: Accounts,
    /// The automations that run.
    pub automations: Automations,
    /// The faults that are known of the supervisor's own files.
    pub ground: Ground,
    /// Sandboxes that the supervisor made, repaired or removed: an older look at the disk is void.
    pub sandboxes: SandboxChanges,
    reload_error: SharedValue<NotInForce>,
    answers_since: OnceLock<Timestamp>,
    /// Weak, because the world holds its directory; the root keeps it alive.
    newest: SharedValue<Weak<World>>,
}

/// A value that comes and is replaced.
struct SharedValue<T>(RwLock<Option<T>>);

impl<T> Default for SharedValue<T> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<T: Clone> SharedValue<T> {
    fn get(&self) -> Option<T> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, value: Option<T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

/// A value for each rig.
struct Each<T>(RwLock<BTreeMap<RigName, T>>);

impl<T> Default for Each<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Clone> Each<T> {
    fn get(&self, rig: &RigName) -> Option<T> {
        let of = self.0.read().unwrap_or_else(PoisonError::into_inner);
        of.get(rig).cloned()
    }

    fn all(&self) -> RwLockWriteGuard<'_, BTreeMap<RigName, T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send<M>(to: Option<Address<M>>, msg: M) {
    if let Some(to) = to {
        let _restarting = to.send_message(msg);
    }
}

impl Directory {
    /// Enters the root; there is one for the life of the process.
    pub fn set_root<M: Message + From<RootMail>>(&self, root: &ActorRef<M>)
    where
        RootMail: TryFrom<M>,
    {
        // A second root cannot be: the daemon makes exactly one.
        let _first_wins = self.root.set(root.get_derived());
    }

    /// Enters a rig's witness.
    pub fn set_witness(&self, rig: RigName, witness: &ActorRef<WitnessMsg>) {
        self.witnesses.all().insert(rig, witness.get_derived());
    }

    /// Enters a rig's forge.
    pub fn set_forge(&self, rig: RigName, forge: &ActorRef<ForgeMsg>) {
        self.forges.all().insert(rig, forge.get_derived());
    }

    /// Enters the shaman.
    pub fn set_shaman(&self, shaman: &ActorRef<ShamanMsg>) {
        self.shaman.set(Some(shaman.get_derived()));
    }

    /// Enters the dispatcher.
    pub fn set_dispatcher(&self, dispatcher: &ActorRef<DispatcherMsg>) {
        self.dispatcher.set(Some(dispatcher.get_derived()));
    }

    /// Enters the watcher of the configuration.
    pub fn set_config(&self, config: &ActorRef<ConfigMsg>) {
        self.config.set(Some(config.get_derived()));
    }

    /// Takes a rig's actors out: it is not configured any more.
    pub fn remove_rig(&self, rig: &RigName) {
        self.witnesses.all().remove(rig);
        self.forges.all().remove(rig);
        self.patrols.all().remove(rig);
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> Option<Address<RootMail>> {
        self.root.get().cloned()
    }

    /// A rig's witness.
    #[must_use]
    pub fn witness(&self, rig: &RigName) -> Option<Address<WitnessMsg>> {
        self.witnesses.get(rig)
    }

    /// A rig's forge.
    #[must_use]
    pub fn forge(&self, rig: &RigName) -> Option<Address<ForgeMsg>> {
        self.forges.get(rig)
    }

    /// The dispatcher.
    #[must_use]
    pub fn dispatcher(&self) -> Option<Address<DispatcherMsg>> {
        self.dispatcher.get()
    }

    /// The watcher of the configuration.
    #[must_use]
    pub fn config(&self) -> Option<Address<ConfigMsg>> {
        self.config.get()
    }

    /// Sends to the root.
    pub fn tell_root(&self, msg: RootMail) {
        send(self.root(), msg);
    }

    /// Sends to a rig's witness.
    pub fn tell_witness(&self, rig: &RigName, msg: WitnessMsg) {
        send(self.witness(rig), msg);
    }

    /// Sends to a rig's forge.
    pub fn tell_forge(&self, rig: &RigName, msg: ForgeMsg) {
        send(self.forge(rig), msg);
    }

    /// Sends to the shaman.
    pub fn tell_shaman(&self, msg: ShamanMsg) {
        send(self.shaman.get(), msg);
    }

    /// Sends to the dispatcher.
    pub fn tell_dispatcher(&self, msg: DispatcherMsg) {
        send(self.dispatcher(), msg);
    }

    /// Sends to the watcher of the configuration.
    pub fn tell_config(&self, msg: ConfigMsg) {
        send(self.config(), msg);
    }

    /// Enters the world with the newest configuration.
    pub fn set_newest(&self, world: &Arc<World>) {
        self.newest.set(Some(Arc::downgrade(world)));
    }

    pub(super) fn newest(&self) -> Option<Arc<World>> {
        self.newest.get()?.upgrade()
    }

    /// Notes that the supervisor answers on its socket from now on.
    pub fn set_answering(&self, now: Timestamp) {
        self.answers_since.get_or_init(|| now);
    }

    /// Returns since when the supervisor answers on its socket. No automation runs before, because its
    /// command may use `hd`.
    #[must_use]
    pub fn answers_since(&self) -> Option<Timestamp> {
        self.answers_since.get().copied()
    }

    /// Notes the reason why the configuration on disk is not in force.
    pub fn set_reload_error(&self, error: Option<NotInForce>) {
        self.reload_error.set(error);
    }

    /// Returns the reason why the configuration on disk is not in force as a whole.
    #[must_use]
    pub fn reload_error(&self) -> Option<String> {
        let (NotInForce::Refused(why) | NotInForce::AtNextStart(why)) = self.reload_error.get()?;
        Some(why)
    }

    /// Returns the reason why nothing of the configuration on disk is in force.
    #[must_use]
    pub fn refused_reload(&self) -> Option<String> {
        match self.reload_error.get()? {
            NotInForce::Refused(why) => Some(why),
            NotInForce::AtNextStart(_) => None,
        }
    }

    /// Notes that a rig's witness patrolled and saw its rig, for displays.
    pub fn patrolled(&self, rig: RigName, at: Timestamp) {
        self.patrols.all().insert(rig, at);
    }

    /// When a rig's witness last patrolled and saw its rig.
    #[must_use]
    pub fn last_patrol(&self, rig: &RigName) -> Option<Timestamp> {
        self.patrols.get(rig)
    }
}
