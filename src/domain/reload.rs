//! Compares two configurations: what the change means for each rig, agent and raider, and what must wait
//! (`health-patrol.md`, config drift and reload; `rules.md`, reload).
//!
//! ```text
//!  old + new ──► refused: a renamed workspace or city  nothing is applied
//!            └─► in_force: new, but for what only a    pending says what
//!                restart can change, and with rigs
//!                that are gone until they are empty
//!            └─► changes, rigs, raiders: one word for each that is concerned
//! ```

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::city::{Agent, City, Rig};
use super::ids::{AgentName, ChildId, HarnessName, RaiderId, RigName};
use super::relic::Hook;

/// The effect of a reload on an agent or raider.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Its configuration is unchanged.
    None,
    /// Its configuration changed, and its session goes on.
    Live,
    /// A person is attached, or the agent asks a question: it is restarted once the person has left or answered.
    Deferred,
    /// It gets a fresh session.
    Restart,
    /// It gets a session.
    Start,
    /// Its session ends.
    Drain,
}

/// An entry of a reload's answer about an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentChange {
    /// Name of the agent.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// The effect.
    pub action: Change,
}

/// The effect of a reload on a rig.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RigAction {
    /// It is new, or was draining and is configured again.
    Added,
    /// Its settings changed.
    Changed,
    /// It is no longer configured, and stays until its work is done.
    Drain,
    /// It is no longer configured, and had no work.
    Removed,
}

/// An entry of a reload's answer about a rig; unchanged rigs have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RigChange {
    /// Name of the rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// The effect.
    pub action: RigAction,
    /// Its changed keys, for [`RigAction::Changed`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

/// A raider that takes over a change with its next session, or loses its present session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaiderChange {
    /// Id of the raider.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// `Deferred` to its next session, or `Drain`.
    pub action: Change,
    /// The harness that drives it.
    #[schemars(with = "String")]
    pub harness: HarnessName,
}

/// A session of an agent that is running or starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Name of the agent or pool member.
    pub name: AgentName,
    /// Fingerprint of the configuration that it was started from; none when it is not on record.
    pub fingerprint: Option<String>,
    /// Set when it must not be disturbed: a person is attached, or it asks a question.
    pub undisturbed: bool,
}

/// Returns the reason why a configuration cannot be applied at all.
#[must_use]
pub fn refused(old: &City, new: &City) -> Option<String> {
    if old.root != new.root {
        return Some(format!(
            "the city is in {} now: its sessions, sandboxes and records are in {}; stop the \
             supervisor and start it there",
            new.root.display(),
            old.root.display()
        ));
    }
    (old.name != new.name).then(|| {
        format!(
            "[workspace] name: \"{}\" cannot become \"{}\" while the supervisor runs: sessions \
             are named after it; stop the supervisor and start it again",
            old.name, new.name
        )
    })
}

/// Returns the configuration that can be in force now, and the keys that take effect only at the next start. A rig that
/// is no longer configured stays, without new work, while `holds_work` returns true for it.
#[must_use]
pub fn in_force(
    old: &City,
    mut new: City,
    holds_work: &dyn Fn(&RigName) -> bool,
) -> (City, Vec<String>) {
    let mut pending = Vec::new();
    if new.daemon.socket != old.daemon.socket {
        new.daemon.socket.clone_from(&old.daemon.socket);
        pending.push("[daemon] socket".to_owned());
    }
    if new.session.tmux_socket != old.session.tmux_socket {
        new.session.tmux_socket.clone_from(&old.session.tmux_socket);
        pending.push("[session] tmux_socket".to_owned());
    }
    for rig in &mut new.rigs {
        let Some(before) = old.rig(&rig.name) else {
            continue;
        };
        if rig.source != before.source {
            rig.source = before.source.clone();
            pending.push(format!("rig {}: path or remote", rig.name));
        }
        if rig.forge.push != before.forge.push {
            rig.forge.push = before.forge.push;
            pending.push(format!("rig {}: push", rig.name));
        }
    }
    for rig in &old.rigs {
        if new.rig(&rig.name).is_none() && holds_work(&rig.name) {
            let mut rig = rig.clone();
            rig.draining = true;
            new.rigs.push(rig);
        }
    }
    (new, pending)
}

/// Returns the rigs that change, with the new configuration as it can be in force. `shown` holds the old and the new
/// configuration as people see them.
#[must_use]
pub fn rigs(old: &City, new: &City, shown: [&Value; 2]) -> Vec<RigChange> {
    let row = |rig: &Rig, action| RigChange {
        rig: rig.name.clone(),
        action,
        keys: match action {
            RigAction::Changed => keys(&rig.name, shown),
            RigAction::Added | RigAction::Drain | RigAction::Removed => Vec::new(),
        },
    };
    let kept = new.rigs.iter().filter_map(|rig| {
        let action = match old.rig(&rig.name) {
            None => RigAction::Added,
            Some(before) if before == rig => return None,
            Some(before) => match (before.draining, rig.draining) {
                (true, false) => RigAction::Added,
                (_, true) => RigAction::Drain,
                (false, false) => RigAction::Changed,
            },
        };
        Some(row(rig, action))
    });
    let gone = old.rigs.iter().filter(|rig| new.rig(&rig.name).is_none());
    kept.chain(gone.map(|rig| row(rig, RigAction::Removed)))
        .collect()
}

/// Returns the changed keys of a rig, except those that take effect at the next start.
fn keys(name: &RigName, shown: [&Value; 2]) -> Vec<String> {
    const LATER: &[&str] = &["path", "remote", "forge.push"];
    let rigs = shown.map(|shown| shown["rigs"].as_array().map_or(&[][..], Vec::as_slice));
    let rig = rigs.map(|rigs| rigs.iter().find(|rig| rig["name"] == name.as_str()));
    let [Some(old), Some(new)] = rig.map(|rig| rig.map(flat)) else {
        return Vec::new();
    };
    let all: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let changed = |key: &&&String| old.get(**key) != new.get(**key);
    let now = |key: &&&String| !LATER.contains(&key.as_str());
    let keys = all.iter().filter(changed).filter(now);
    keys.map(|key| (*key).clone()).collect()
}

/// Flattens `{"max": 4, "raiders": {"nudges": 2}}` to the keys `max` and `raiders.nudges`.
fn flat(table: &Value) -> BTreeMap<String, &Value> {
    let mut flattened = BTreeMap::new();
    for (key, value) in table.as_object().into_iter().flatten() {
        match value.is_object() {
            true => flattened.extend(
                flat(value)
                    .into_iter()
                    .map(|(inner, value)| (format!("{key}.{inner}"), value)),
            ),
            false => {
                flattened.insert(key.clone(), value);
            }
        }
    }
    flattened
}

/// Returns the raiders whose session ends because they are suspended now, and those whose harness changes with their
/// next session. A raider that an operator holds has no session.
#[must_use]
pub fn raiders(
    old: &City,
    new: &City,
    hooks: &[Hook],
    held: &BTreeSet<ChildId>,
) -> Vec<RaiderChange> {
    let action = |hook: &Hook| {
        let id = ChildId::Raider(hook.raider.clone());
        let works = !hook.is_declared() && !held.contains(&id);
        if works && new.suspends(&id) && !old.suspends(&id) {
            return Some(Change::Drain);
        }
        let harness = &hook.harness;
        (old.harnesses.get(harness) != new.harnesses.get(harness)).then_some(Change::Deferred)
    };
    let row = |hook: &Hook| {
        Some(RaiderChange {
            raider: hook.raider.clone(),
            action: action(hook)?,
            harness: hook.harness.clone(),
        })
    };
    hooks.iter().filter_map(row).collect()
}

/// Returns the effect on every agent of either configuration, in the order of the new one. An agent that an operator
/// holds has no session, and the new configuration gives it none.
#[must_use]
pub fn changes(
    old: &City,
    new: &City,
    running: &[Running],
    held: &BTreeSet<AgentName>,
) -> Vec<AgentChange> {
    let row = |agent: &Agent, action| AgentChange {
        agent: agent.name.clone(),
        action,
    };
    let kept = new.agents.iter().map(|agent| {
        let before = old.agents.iter().find(|old| old.name == agent.name);
        let off = new.suspended || agent.suspended;
        row(agent, change(before, agent, off, running, held))
    });
    let gone = old
        .agents
        .iter()
        .filter(|agent| new.agents.iter().all(|new| new.name != agent.name));
    kept.chain(gone.map(|agent| row(agent, Change::Drain)))
        .collect()
}

fn change(
    before: Option<&Agent>,
    agent: &Agent,
    suspended: bool,
    running: &[Running],
    held: &BTreeSet<AgentName>,
) -> Change {
    let is_own = |name: &AgentName| *name == agent.name || agent.member_number(name).is_some();
    // A pool that was a single agent, or the reverse, has sessions under the other name.
    let was_own = |name: &AgentName| before.is_some_and(|b| b.member_number(name).is_some());
    let own: Vec<_> = running
        .iter()
        .filter(|session| is_own(&session.name) || was_own(&session.name))
        .collect();
    let changed = before != Some(agent);
    if suspended {
        return match own.is_empty() {
            true if changed => Change::Live,
            true => Change::None,
            false => Change::Drain,
        };
    }
    if own.is_empty() {
        let rests = held.contains(&agent.name);
        let empty_pool = agent.pool.as_ref().is_some_and(|pool| pool.min == 0);
        return match (rests || empty_pool, changed) {
            (true, true) => Change::Live,
            (true, false) => Change::None,
            (false, _) => Change::Start,
        };
    }
    // A session without a recorded fingerprint is taken as unchanged, so an upgrade of the supervisor restarts no
    // agent.
    let drifted = |session: &&&Running| {
        let from = session.fingerprint.as_ref();
        from.is_some_and(|from| *from != agent.fingerprint)
    };
    let drifted: Vec<_> = own.iter().filter(drifted).collect();
    match (drifted.is_empty(), changed) {
        (true, true) => Change::Live,
        (true, false) => Change::None,
        (false, _) if drifted.iter().all(|session| session.undisturbed) => Change::Deferred,
        (false, _) => Change::Restart,
    }
}

#[cfg(test)]
mod tests;
