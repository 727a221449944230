//! Standing agents: `[[agents]]`, their pools, and the groups and dependencies that bind them
//! (`health-patrol.md`, and what its "Known Limitations" lack; OTP's names and meanings).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::city::OnCompact;
use super::ids::{AgentName, HarnessName};

/// `[[agents]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// Program and arguments (from `command`, or from a harness with its prompt).
    pub command: Vec<String>,
    /// The prompt of an agent that a harness drives.
    pub prompt: Option<AgentPrompt>,
    /// Text typed at the start, for harnesses that need that.
    pub first_input: Option<String>,
    /// The harness that drives it: text typed into its terminal counts as a person's.
    pub harness: Option<HarnessName>,
    /// The executables of which at least one runs while it is alive; none: those of its harness.
    pub process_names: Vec<String>,
    /// The message after its conversation was compacted.
    pub on_compact: OnCompact,
    /// Working directory.
    pub dir: PathBuf,
    /// Configured environment, the harness's included.
    pub env: BTreeMap<String, String>,
    /// Names of variables taken from the supervisor's environment.
    pub env_pass: Vec<String>,
    /// The restart type.
    pub restart: RestartType,
    /// The rights of its calls to the supervisor.
    pub rights: Rights,
    /// Grace between interrupt and kill.
    pub shutdown_timeout: Duration,
    /// A session without terminal input or output for this long is stopped and started again.
    pub idle_timeout: Option<Duration>,
    /// Agents that are up before it starts, and that end after it.
    pub depends_on: Vec<AgentName>,
    /// Set when it is suspended: it has no session.
    pub suspended: bool,
    /// The pool, with members `<name>-1` and on; the plain name then has no session.
    pub pool: Option<Pool>,
    /// For a pool member: the time that it may go on after it is no longer needed.
    pub drain_timeout: Duration,
    /// SHA-256 over the settings whose change needs a restart.
    pub fingerprint: String,
}

impl Agent {
    /// Returns the pool member of this number.
    ///
    /// # Errors
    /// The name would be invalid; the configuration has checked the numbers up to `max`.
    pub fn member(&self, number: u32) -> Result<Self, super::ids::InvalidId> {
        Ok(Self {
            name: AgentName::new(format!("{}-{number}", self.name))?,
            drain_timeout: self
                .pool
                .as_ref()
                .map_or(Duration::ZERO, |pool| pool.drain_timeout),
            pool: None,
            ..self.clone()
        })
    }

    /// Returns the number of a member of this pool.
    #[must_use]
    pub fn member_number(&self, member: &AgentName) -> Option<u32> {
        self.pool.as_ref()?;
        let number = member.as_str().strip_prefix(self.name.as_str())?;
        let number = number.strip_prefix('-')?;
        // Each number has one spelling: "01" names another agent.
        let parsed: u32 = number.parse().ok().filter(|n| *n > 0)?;
        (parsed.to_string() == number).then_some(parsed)
    }
}

/// The prompt of a standing agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPrompt {
    /// The text.
    pub text: String,
    /// The file that it was read from; empty where the text is in the configuration.
    pub file: PathBuf,
}

/// `pool` of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The minimum number of members.
    pub min: u32,
    /// The maximum number of members.
    pub max: u32,
    /// Shell command that prints the desired size; none keeps `min`.
    pub check: Option<String>,
    /// Period of the command, and its timeout.
    pub check_interval: Duration,
    /// The time that a member may go on after it is no longer needed.
    pub drain_timeout: Duration,
}

/// Rights of the calls of a program that the supervisor runs, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rights {
    /// Only observe.
    Read,
    /// Also make and move work.
    Work,
    /// Everything that a person may.
    All,
}

/// OTP's restart types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartType {
    /// Always.
    Permanent,
    /// After an abnormal end.
    Transient,
    /// Never.
    Temporary,
}

/// `[[groups]]`: agents that are restarted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The restart strategy.
    pub strategy: Strategy,
    /// In the order of their start.
    pub members: Vec<AgentName>,
}

/// OTP's restart strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Only the dead member.
    OneForOne,
    /// All members.
    OneForAll,
    /// The dead member and those after it.
    RestForOne,
}

impl Group {
    /// Returns the members that are stopped and started with a member that died, itself included, in the order of their
    /// start; empty when the agent is no member.
    #[must_use]
    pub fn affected(&self, dead: &AgentName) -> &[AgentName] {
        let Some(at) = self.members.iter().position(|member| member == dead) else {
            return &[];
        };
        match self.strategy {
            Strategy::OneForOne => &self.members[at..=at],
            Strategy::OneForAll => &self.members,
            Strategy::RestForOne => &self.members[at..],
        }
    }
}

/// Returns a cycle of agents that depend on each other, in the order of dependence.
///
/// Names without an agent are ignored here.
#[must_use]
pub fn dependency_cycle(agents: &[(&AgentName, &[AgentName])]) -> Option<Vec<AgentName>> {
    let needs: BTreeMap<_, _> = agents.iter().copied().collect();
    let mut cleared = BTreeSet::new();
    agents
        .iter()
        .find_map(|(name, _)| walk(name, &needs, &mut Vec::new(), &mut cleared))
}

fn walk<'a>(
    name: &'a AgentName,
    needs: &BTreeMap<&'a AgentName, &'a [AgentName]>,
    path: &mut Vec<&'a AgentName>,
    cleared: &mut BTreeSet<&'a AgentName>,
) -> Option<Vec<AgentName>> {
    if let Some(at) = path.iter().position(|seen| *seen == name) {
        let mut cycle: Vec<_> = path[at..].iter().copied().cloned().collect();
        cycle.push(name.clone());
        return Some(cycle);
    }
    if cleared.contains(name) {
        return None;
    }
    path.push(name);
    let found = needs
        .get(name)
        .into_iter()
        .flat_map(|needs| needs.iter())
        .find_map(|need| walk(need, needs, path, cleared));
    path.pop();
    cleared.insert(name);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::world::standing;

    fn name(text: &str) -> AgentName {
        AgentName::new(text).unwrap()
    }

    fn names(text: &str) -> Vec<AgentName> {
        text.split_whitespace().map(name).collect()
    }

    /// OTP: one_for_all restarts all members, rest_for_one those started after the dead one.
    #[test]
    fn strategy_selects_the_members_that_restart() {
        let table = [
            (Strategy::OneForOne, "b", "b"),
            (Strategy::OneForAll, "b", "a b c"),
            (Strategy::RestForOne, "b", "b c"),
            (Strategy::RestForOne, "a", "a b c"),
            (Strategy::RestForOne, "c", "c"),
            (Strategy::OneForAll, "x", ""),
        ];
        for (strategy, dead, affected) in table {
            let group = Group {
                name: "g".into(),
                strategy,
                members: names("a b c"),
            };
            assert_eq!(
                group.affected(&name(dead)),
                names(affected),
                "{strategy:?} {dead}"
            );
        }
    }

    #[test]
    fn a_cycle_is_named_in_order() {
        let (a, b, c, d) = (name("a"), name("b"), name("c"), name("d"));
        let (needs_b, needs_c, needs_a, none) = (names("b"), names("c"), names("a d"), names(""));
        let cycle = dependency_cycle(&[
            (&d, &none[..]),
            (&a, &needs_b[..]),
            (&b, &needs_c[..]),
            (&c, &needs_a[..]),
        ]);
        assert_eq!(cycle, Some(names("a b c a")));
        let diamond = names("b c");
        let straight = [
            (&a, &diamond[..]),
            (&b, &names("d")[..]),
            (&c, &names("d")[..]),
            (&d, &none[..]),
        ];
        assert_eq!(dependency_cycle(&straight), None);
        assert_eq!(
            dependency_cycle(&[(&a, &names("a")[..])]),
            Some(names("a a"))
        );
    }

    #[test]
    fn members_of_a_pool_are_numbered_from_one() {
        let pool = Agent {
            pool: Some(Pool {
                min: 0,
                max: 4,
                check: None,
                check_interval: Duration::from_secs(30),
                drain_timeout: Duration::from_secs(300),
            }),
            ..standing("worker", RestartType::Permanent)
        };
        let member = pool.member(3).unwrap();
        assert_eq!(member.name, name("worker-3"));
        assert_eq!(pool.member_number(&member.name), Some(3));
        for stranger in ["worker", "worker-0", "worker-03", "worker-x", "other-3"] {
            assert_eq!(pool.member_number(&name(stranger)), None, "{stranger}");
        }
        assert_eq!(member.member_number(&member.name), None);
    }
}
