//! Standing agents: `[[agents]]`, their pools, and the groups and dependencies that bind them
//! (`health-patrol.md`, and what its "Known Limitations" lack; OTP's names and meanings).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::ids::{AgentName, HarnessName};

/// `[[agents]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// Program and arguments (from `command`, or from a harness with its prompt).
    pub command: Vec<String>,
    /// The prompt of one that a harness drives.
    pub prompt: Option<AgentPrompt>,
    /// Text typed in at the start, for harnesses that want it so.
    pub first_input: Option<String>,
    /// The harness that drives it: what is typed into its terminal is read as a person's words.
    pub harness: Option<HarnessName>,
    /// Working directory.
    pub dir: PathBuf,
    /// Configured environment, the harness's included.
    pub env: BTreeMap<String, String>,
    /// Names taken from the supervisor's environment.
    pub env_pass: Vec<String>,
    /// When it is started again.
    pub restart: RestartType,
    /// What its calls may do.
    pub rights: Rights,
    /// Its own grace.
    pub shutdown_timeout: Duration,
    /// No terminal input or output for this long: stopped and started again.
    pub idle_timeout: Option<Duration>,
    /// Agents that are up before it starts, and that end after it.
    pub depends_on: Vec<AgentName>,
    /// It has no session for now.
    pub suspended: bool,
    /// Several of it, `<name>-1` and on; none of the plain name then.
    pub pool: Option<Pool>,
    /// For a pool's member: how long it may go on when it is not wanted any more.
    pub drain_timeout: Duration,
    /// SHA-256 over what needs a restart when it changes.
    pub fingerprint: String,
}

impl Agent {
    /// The pool member of this number.
    ///
    /// # Errors
    /// The name would be none; the configuration has checked that it is one up to `max`.
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

    /// The number of a pool member, if it is one of this pool.
    #[must_use]
    pub fn member_number(&self, member: &AgentName) -> Option<u32> {
        self.pool.as_ref()?;
        let number = member.as_str().strip_prefix(self.name.as_str())?;
        let number = number.strip_prefix('-')?;
        // One spelling per number: "01" is somebody else.
        let parsed: u32 = number.parse().ok().filter(|n| *n > 0)?;
        (parsed.to_string() == number).then_some(parsed)
    }
}

/// The prompt of a standing agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPrompt {
    /// The text.
    pub text: String,
    /// The file that it was read from; empty where it stands in the configuration.
    pub file: PathBuf,
}

/// `pool` of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Members that are always wanted.
    pub min: u32,
    /// The most that are ever wanted.
    pub max: u32,
    /// Shell command that prints the wanted size; none keeps `min`.
    pub check: Option<String>,
    /// How often it is run, and its limit.
    pub check_interval: Duration,
    /// How long a member that is not wanted any more may go on.
    pub drain_timeout: Duration,
}

/// What the calls of a program that the supervisor runs may do, the fewest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rights {
    /// Only look.
    Read,
    /// Make and move work, too.
    Work,
    /// Whatever a person may.
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

/// `[[groups]]`: whom the death of a member concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Whom.
    pub strategy: Strategy,
    /// In the order of their start.
    pub members: Vec<AgentName>,
}

/// OTP's restart strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Only the dead one.
    OneForOne,
    /// Everybody.
    OneForAll,
    /// It and those after it.
    RestForOne,
}

impl Group {
    /// The members that are stopped and started with a member that died, itself included, in the
    /// order of their start; empty when it is none.
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

/// An agent that depends on itself, by way of the others, in the order of dependence.
///
/// Agents that are named and do not exist are not this function's business.
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

    fn name(text: &str) -> AgentName {
        AgentName::new(text).unwrap()
    }

    fn names(text: &str) -> Vec<AgentName> {
        text.split_whitespace().map(name).collect()
    }

    /// OTP: one_for_all restarts everybody, rest_for_one those started after the dead one.
    #[test]
    fn a_strategy_says_who_is_restarted() {
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
            name: name("worker"),
            command: vec!["true".into()],
            prompt: None,
            first_input: None,
            harness: None,
            dir: "/".into(),
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            restart: RestartType::Permanent,
            rights: Rights::Work,
            shutdown_timeout: Duration::ZERO,
            idle_timeout: None,
            depends_on: Vec::new(),
            suspended: false,
            pool: Some(Pool {
                min: 0,
                max: 4,
                check: None,
                check_interval: Duration::from_secs(30),
                drain_timeout: Duration::from_secs(300),
            }),
            drain_timeout: Duration::ZERO,
            fingerprint: "x".into(),
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
