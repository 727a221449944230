//! The configuration of a city: `city.toml`, checked and frozen. Nothing below `config/` reads the file again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod harness;
mod routes;
mod socket_path;

pub use self::harness::{Harness, OnCompact, PromptMode};
pub use self::socket_path::{SOCKET_PATH_MAX, seat, socket_path, tmux_server};
pub use super::agents::{Agent, AgentPrompt, Group, Pool, RestartType, Rights, Strategy};
use super::automation::{Automation, AutomationId};
use super::budget::Budget;
use super::identity::Identities;
use super::ids::Incarnation;
use super::ids::{
    AgentName, ChildId, HarnessName, RaiderId, RelicId, RigName, RitualName, SessionId, SlotName,
};
use super::merge::LandStyle;
use super::notify::NotifyPolicy;
use super::pull_request::PrCommand;
use super::restart::RestartPolicy;
use super::review_paths::ReviewPaths;
use super::ritual::Ritual;

/// A whole city.
#[derive(Debug, Clone, PartialEq)]
pub struct City {
    /// The directory that holds `city.toml`.
    pub root: PathBuf,
    /// `[workspace] name`.
    pub name: String,
    /// `sha256:...` over all sources.
    pub revision: String,
    /// `[daemon]`.
    pub daemon: DaemonPolicy,
    /// `[session]`.
    pub session: SessionPolicy,
    /// `[retention]`.
    pub retention: RetentionPolicy,
    /// `[notify]`.
    pub notify: NotifyPolicy,
    /// Every harness that can be named: presets and `[harness.X]`.
    pub harnesses: BTreeMap<HarnessName, Harness>,
    /// `[[rigs]]`, in the order of the file.
    pub rigs: Vec<Rig>,
    /// `[[agents]]`, in the order of the file.
    pub agents: Vec<Agent>,
    /// `[[groups]]`.
    pub groups: Vec<Group>,
    /// Set when the city is suspended: no child has a session, and nothing lands.
    pub suspended: bool,
    /// The daily budget of the whole city.
    pub budget: Option<Budget>,
    /// The city's automations, then those of its rigs, each by name; none that is in
    /// `[automations] skip`.
    pub automations: Vec<Automation>,
    /// `[identities]`.
    pub identities: Identities,
    /// The rituals: those of the city, and the built-in ones that it does not override.
    pub rituals: BTreeMap<RitualName, Ritual>,
}

impl City {
    /// Returns `.horde`, mode 0700.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.root.join(".horde")
    }

    /// Returns the rig of this name.
    #[must_use]
    pub fn rig(&self, name: &RigName) -> Option<&Rig> {
        self.rigs.iter().find(|rig| &rig.name == name)
    }

    /// Returns true when the configuration suspends this child, so that it has no session.
    #[must_use]
    pub fn suspends(&self, id: &ChildId) -> bool {
        let off = match id {
            ChildId::Raider(raider) => self.rig(&raider.rig).is_some_and(|rig| rig.suspended),
            ChildId::Agent(name) => self.agents.iter().any(|agent| {
                agent.suspended && (agent.name == *name || agent.member_number(name).is_some())
            }),
        };
        off || self.suspended
    }

    /// Returns true when the session belongs to an agent, or did before the configuration changed.
    #[must_use]
    pub fn is_agents(&self, session: &SessionId) -> bool {
        let raiders = |rig: &Rig| session.as_str().starts_with(&format!("gt-{}-", rig.name));
        let is_ours = self.agent_name(session).is_some();
        is_ours && (self.agent_of(session).is_some() || !self.rigs.iter().any(raiders))
    }

    /// Returns the agent, or the agent with the pool, that the session belongs to.
    #[must_use]
    pub fn agent_of(&self, session: &SessionId) -> Option<&Agent> {
        let name = self.agent_name(session)?;
        let mut agents = self.agents.iter();
        agents.find(|agent| agent.name == name || agent.member_number(&name).is_some())
    }

    /// Returns the executables of an agent: its own `process_names`, or else those of its harness. Without either, it lives
    /// as long as its session's command does.
    #[must_use]
    pub fn process_names<'a>(&'a self, agent: &'a Agent) -> &'a [String] {
        let harness = agent.harness.as_ref();
        let harness = harness.and_then(|name| self.harnesses.get(name));
        match harness {
            Some(harness) if agent.process_names.is_empty() => &harness.process_names,
            _ => &agent.process_names,
        }
    }

    /// Returns the name of the agent or pool member that the session belongs to.
    #[must_use]
    pub fn standing(&self, session: &SessionId) -> Option<AgentName> {
        self.agent_of(session)?;
        self.agent_name(session)
    }

    fn agent_name(&self, session: &SessionId) -> Option<AgentName> {
        let rest = session.as_str().strip_prefix(self.name.as_str())?;
        AgentName::new(rest.strip_prefix('-')?).ok()
    }

    /// Returns `<city>/<rig>/raiders/<Name>`.
    #[must_use]
    pub fn sandbox(&self, raider: &RaiderId) -> PathBuf {
        self.raiders_dir(&raider.rig).join(raider.name.as_str())
    }

    /// Returns `<city>/<rig>/raiders`.
    #[must_use]
    pub fn raiders_dir(&self, rig: &RigName) -> PathBuf {
        self.rig_dir(rig).join("raiders")
    }

    /// Returns `<city>/<rig>`.
    #[must_use]
    pub fn rig_dir(&self, rig: &RigName) -> PathBuf {
        self.root.join(rig.as_str())
    }

    /// Returns `.horde/custody/<rig>.git`, the supervisor's own repository of the rig.
    #[must_use]
    pub fn custody_dir(&self, rig: &RigName) -> PathBuf {
        self.state_dir().join("custody").join(format!("{rig}.git"))
    }

    /// Returns `.horde/tasks/<rig>/<relic>/<slot>-<incarnation>`: outlives the sandbox. Incarnations are counted per slot,
    /// and another slot may have worked on the relic in one of the same number.
    #[must_use]
    pub fn task_dir(
        &self,
        raider: &RaiderId,
        relic: &RelicId,
        incarnation: Incarnation,
    ) -> PathBuf {
        let own = format!("{}-{incarnation}", raider.name);
        let rig = self.tasks_dir().join(raider.rig.as_str());
        rig.join(relic.as_str()).join(own)
    }

    /// Returns `.horde/agents/<session>`: files of a standing agent's session.
    #[must_use]
    pub fn agent_dir(&self, session: &SessionId) -> PathBuf {
        self.state_dir().join("agents").join(session.as_str())
    }

    /// Returns `.horde/tasks`.
    #[must_use]
    pub fn tasks_dir(&self) -> PathBuf {
        self.state_dir().join("tasks")
    }

    /// Returns `.horde/trash`.
    #[must_use]
    pub fn trash_dir(&self) -> PathBuf {
        self.state_dir().join("trash")
    }

    /// Returns the account of a harness; none for one that is not configured.
    #[must_use]
    pub fn account(&self, harness: &HarnessName) -> Option<&str> {
        let harness = self.harnesses.get(harness)?;
        Some(harness.account.as_str())
    }

    /// Returns `.horde/outbox`.
    #[must_use]
    pub fn outbox_dir(&self) -> PathBuf {
        self.state_dir().join("outbox")
    }

    /// Returns the automation of this id.
    #[must_use]
    pub fn automation(&self, id: &AutomationId) -> Option<&Automation> {
        self.automations
            .iter()
            .find(|automation| &automation.id == id)
    }

    /// Returns `.horde/automations`: records of the processes of each automation run.
    #[must_use]
    pub fn automations_dir(&self) -> PathBuf {
        self.state_dir().join("automations")
    }

    /// Returns `.horde/set-up`: set-up commands that are running.
    #[must_use]
    pub fn set_up_dir(&self) -> PathBuf {
        self.state_dir().join("set-up")
    }

    /// Returns `.horde/gate-logs`.
    #[must_use]
    pub fn gate_logs_dir(&self) -> PathBuf {
        self.state_dir().join("gate-logs")
    }

    /// Returns `.horde/gate-logs/<rig>`.
    #[must_use]
    pub fn gate_logs(&self, rig: &RigName) -> PathBuf {
        self.gate_logs_dir().join(rig.as_str())
    }
}

/// `[daemon]`.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonPolicy {
    /// Period of the patrol, the safety net behind the events.
    pub patrol_interval: Duration,
    /// Restart intensity and back-off of every child.
    pub restart: RestartPolicy,
    /// Grace between interrupt and kill; zero kills at once.
    pub shutdown_timeout: Duration,
    /// The number of sessions that are started at once.
    pub start_concurrency: usize,
    /// Collection of closed wisps; none when it is off.
    pub wisp_gc: Option<WispGc>,
    /// The effect of SIGTERM on sessions.
    pub on_term: OnTerm,
    /// The control socket as configured, or empty; [`socket_path`] returns the actual path.
    pub socket: PathBuf,
}

/// When closed wisps are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WispGc {
    /// Period of the collection.
    pub interval: Duration,
    /// Age since its closing at which a wisp is deleted.
    pub ttl: Duration,
}

/// `[retention]`: how long records are kept. None keeps them for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Events of the journal.
    pub events: Option<Duration>,
    /// Terminal logs of sessions that have ended.
    pub session_logs: Option<Duration>,
    /// Logs of gates.
    pub gate_logs: Option<Duration>,
    /// Salvage.
    pub salvage: Option<Duration>,
    /// Bytes that all salvage together may hold; none is no limit.
    pub salvage_max: Option<u64>,
}

/// The effect of SIGTERM on sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTerm {
    /// Ends them.
    Stop,
    /// Leaves them running for the next start.
    Detach,
}

/// `[session]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPolicy {
    /// The session provider.
    pub provider: Provider,
    /// A start that takes longer counts as failed.
    pub startup_timeout: Duration,
    /// Bytes of terminal log per session.
    pub output_limit: u64,
    /// The name of the tmux server as configured, or empty; [`tmux_server`] returns the actual name.
    pub tmux_socket: String,
}

/// Session providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// The embedded provider, with a holder process per session.
    Holder,
    /// tmux.
    Tmux,
}

/// `[[rigs]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rig {
    /// Its name.
    pub name: RigName,
    /// Location of the repository.
    pub source: RigSource,
    /// Prefix of relic ids.
    pub prefix: String,
    /// The default branch, when not discovered.
    pub default_branch: Option<String>,
    /// Set when the rig is suspended: its raiders have no session, and nothing lands.
    pub suspended: bool,
    /// Set when the rig is no longer configured: it gets no new work, and stays until its present work is done.
    pub draining: bool,
    /// `[rigs.raiders]`.
    pub raiders: RaiderPolicy,
    /// `[rigs.witness]`.
    pub witness: WitnessPolicy,
    /// `[rigs.forge]`.
    pub forge: ForgePolicy,
}

/// Location of a rig's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RigSource {
    /// An existing checkout or bare repository.
    Path(PathBuf),
    /// A URL.
    Remote(String),
}

impl Rig {
    /// Returns the reason why the rig gets no new work now; none when it is open.
    #[must_use]
    pub fn closed(&self, city: &City) -> Option<&'static str> {
        match (city.suspended, self.suspended, self.draining) {
            (true, _, _) => Some("the city is suspended"),
            (false, true, _) => Some("the rig is suspended"),
            (false, false, true) => Some("the rig is no longer configured"),
            (false, false, false) => None,
        }
    }
}

impl RigSource {
    /// Returns the checkout, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Remote(_) => None,
        }
    }
}

/// `[rigs.raiders]`.
#[derive(Debug, Clone, PartialEq)]
pub struct RaiderPolicy {
    /// The harness of new raiders, unless a charge names another.
    pub harness: HarnessName,
    /// Other harnesses, by a label of the relic: one, or several among which the better record decides.
    pub routes: BTreeMap<String, Vec<HarnessName>>,
    /// The pool of slots, in the order in which they are given out.
    pub names: Vec<SlotName>,
    /// The maximum number of raiders at once. Above the pool's length, numbered names follow.
    pub max: usize,
    /// Set when ready relics are charged automatically.
    pub auto_charge: bool,
    /// Set when a raider gets reduced permissions after a crash.
    pub respawn_reduced: bool,
    /// The action after a session's conversation was compacted.
    pub on_compact: OnCompact,
    /// A session that works and shows no progress for this long is stalled.
    pub stall_after: Option<Duration>,
    /// The age at which a session is asked to hand off.
    pub max_session: Option<Duration>,
    /// The number of nudges before a stalled session is restarted.
    pub nudges: u32,
    /// Self-review rounds before the outcome must be `stuck`.
    pub max_reviews: u32,
    /// Commands run in a fresh sandbox.
    pub setup: Vec<String>,
    /// Untracked files copied from the rig's checkout.
    pub copy: Vec<String>,
    /// No terminal input or output for this long: the session is stopped and started again.
    pub idle_timeout: Option<Duration>,
    /// The daily budget of the rig's raiders.
    pub budget: Option<Budget>,
}

/// `[rigs.witness]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessPolicy {
    /// The longest time for which a `done` may make no progress.
    pub done_intent_timeout: Duration,
    /// A younger sandbox or session is not judged by the processes in it.
    pub spawn_grace: Duration,
    /// The time after which a sandbox without work that holds unsaved files is salvaged and removed.
    pub keep_dirty: Duration,
    /// The time for which a finished raider keeps sandbox and slot while its merge request waits for a person.
    pub review_hold: Duration,
}

/// `[rigs.forge]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ForgePolicy {
    /// The branch that work lands on; the default branch when none.
    pub target: Option<String>,
    /// The landing style: rebase, squash or merge.
    pub style: LandStyle,
    /// Gates that must pass before a branch lands.
    pub gates: Vec<Gate>,
    /// Set when a landing pushes to the remote; otherwise it moves the local target only.
    pub push: bool,
    /// The number of fresh raiders for one relic before it is blocked.
    pub rework_attempts: u32,
    /// Names of environment variables that gates get.
    pub gate_env_pass: Vec<String>,
    /// Set when a person must approve each merge request.
    pub review_human: bool,
    /// The paths whose change a person must approve.
    pub human_review_paths: ReviewPaths,
    /// The command that opens a pull request, if there is one.
    pub pr: Option<PrCommand>,
}

/// A gate of the merge queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// Shell command.
    pub run: String,
    /// Its limit.
    pub timeout: Duration,
    /// The number of further runs after a failure.
    pub retries: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_where_it_is_configured_while_that_fits() {
        let root = Path::new("/srv/city");
        let none = Path::new("");
        let at = |configured: &str| socket_path(root, Path::new(configured), None, 7);
        assert_eq!(
            socket_path(root, none, None, 7),
            root.join(".horde/control.sock")
        );
        assert_eq!(at("run/c.sock"), root.join("run/c.sock"));
        assert_eq!(at("/run/c.sock"), Path::new("/run/c.sock"));
    }

    #[test]
    fn a_path_too_long_for_a_socket_falls_back_to_a_name_of_the_city() {
        let suffix = "/.horde/control.sock".len();
        let root = |length: usize| PathBuf::from(format!("/{}", "x".repeat(length - 1)));
        let fits = root(SOCKET_PATH_MAX - suffix);
        let long = root(SOCKET_PATH_MAX - suffix + 1);
        let at = |root: &Path, dir: Option<&str>| {
            socket_path(root, Path::new(""), dir.map(Path::new), 7)
        };
        assert!(at(&fits, Some("/run/user/7")).starts_with(&fits));
        let own = at(&long, Some("/run/user/7"));
        assert!(own.starts_with("/run/user/7/horde"), "{own:?}");
        let shared = at(&long, None);
        assert!(shared.starts_with("/tmp/horde-7"), "{shared:?}");
        assert_eq!(shared, at(&long, Some("relative")));
        let too_long_too = format!("/{}", "y".repeat(90));
        assert_eq!(shared, at(&long, Some(&too_long_too)));
        assert_ne!(shared, at(&root(150), None));
    }
}
