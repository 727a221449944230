//! The work of standing agents in the chains of their identities (`raider-lifecycle.md`, identity): an entry when an agent
//! ends the work on the relic of its hook, or when that is closed under it. An agent without a harness is a program
//! without an identity, and makes none.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{agent_hooks, escalations, identities, key_values};
use crate::domain::agent_hook::{AgentHook, AgentWork};
use crate::domain::attempt::{ChargedBy, Outcome, Used, Work, agent_work_id, labels, models};
use crate::domain::budget;
use crate::domain::cause::Cause;
use crate::domain::city::{Agent, City};
use crate::domain::ids::AgentName;
use crate::domain::message::{Body, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Relic;
use crate::domain::usage::ledger::{Row, Sum};
use crate::ports::relics::{StoreError, Txn};

/// Notes with the hook of an agent that its work on the relic begins, unless that is noted.
///
/// # Errors
/// The store's.
pub fn begin(
    txn: &mut dyn Txn,
    city: &City,
    (name, agent): (&AgentName, &Agent),
) -> Result<(), StoreError> {
    let Some((mut hook, relic)) = agent_hooks::held(txn, name)? else {
        return Ok(());
    };
    let (None, Some(harness)) = (&hook.work, &agent.harness) else {
        return Ok(());
    };
    let now = txn.now();
    let mut rigs = city.rigs.iter();
    let rig = rigs.find(|rig| rig.prefix == relic.id.prefix());
    hook.work = Some(AgentWork {
        identity: city.identity(harness),
        harness: harness.clone(),
        rig: rig.map(|rig| rig.name.to_string()).unwrap_or_default(),
        labels: labels(&relic.labels),
        since: now,
        used_before: used(txn, name, now)?,
    });
    key_values::write(txn, &AgentHook::key(name), &hook)
}

/// Records the end of an agent's work on the relic of its hook.
///
/// # Errors
/// The store's.
pub fn end(
    txn: &mut dyn Txn,
    agent: &AgentName,
    (hook, relic): (&AgentHook, &Relic),
    outcome: Outcome,
    failure: Option<&str>,
) -> Result<(), StoreError> {
    let Some(own) = &hook.work else {
        return Ok(());
    };
    let work = measured(txn, agent, own, relic, failure)?;
    match txn.append_entry(&own.identity, outcome, &work) {
        Ok(_) => Ok(()),
        Err(passing @ (StoreError::Unavailable(_) | StoreError::Locked(_))) => Err(passing),
        Err(error) => {
            let (relic, identity) = (&relic.id, own.identity.as_str());
            tracing::error!(%agent, %relic, %outcome, identity, %error, "a result cannot be recorded in the chain of its identity; a person is called");
            let why = format!("{outcome} of {relic} is not in the chain of {identity}: {error}");
            let problem = ProblemKind::Unrecorded;
            let problem = problem.of(identity, problem.text());
            let call = Body::Help(Escalation::high(agent, problem, why));
            escalations::send(txn, agent.as_str(), call)
        }
    }
}

/// Records that the relic on an agent's hook is closed by another party. If the relic is reopened for the agent, its work
/// begins again.
///
/// # Errors
/// The store's.
pub fn withdrawn(txn: &mut dyn Txn, relic: &Relic) -> Result<(), StoreError> {
    let Some(agent) = agent_hooks::holder(txn, relic)? else {
        return Ok(());
    };
    let Some((mut hook, relic)) = agent_hooks::held(txn, &agent)? else {
        return Ok(());
    };
    let failure = Some(Cause::RelicClosed.as_str());
    end(txn, &agent, (&hook, &relic), Outcome::Abandoned, failure)?;
    hook.work = None;
    key_values::write(txn, &AgentHook::key(&agent), &hook)
}

/// Returns the facts of a result. Tokens and money are those of the agent since it took the relic, as far as its
/// transcripts were read.
fn measured(
    txn: &mut dyn Txn,
    agent: &AgentName,
    own: &AgentWork,
    relic: &Relic,
    failure: Option<&str>,
) -> Result<Work, StoreError> {
    let (mut all, mut named) = (Used::default(), Vec::new());
    for (model, used) in used(txn, agent, own.since)? {
        let before = own.used_before.get(&model).copied().unwrap_or_default();
        let used = used.beyond(&before);
        if !used.tokens.is_none() {
            named.push(model);
        }
        all = all.and(&used);
    }
    let is_known = !all.tokens.is_none();
    let seconds = txn.now().duration_since(own.since).as_secs();
    Ok(Work {
        city: txn.get(identities::STORE_ID)?.unwrap_or_default(),
        at: Some(txn.now()),
        work: agent_work_id(agent, &relic.id, own.since),
        agent: Some(agent.to_string()),
        rig: own.rig.clone(),
        relic: relic.id.to_string(),
        harness: Some(own.harness.to_string()),
        models: models(named.iter().map(String::as_str)),
        labels: own.labels.clone(),
        duration_s: u64::try_from(seconds).ok(),
        tokens: is_known.then_some(all.tokens),
        usd_micros: all.known_cost().filter(|_| is_known),
        charged_by: Some(ChargedBy::new(Cause::Patrol, None, relic.by.as_deref())),
        failure: failure.map(str::to_owned),
        ..Work::default()
    })
}

/// Returns the tokens and the money that an agent used since the begin of that day, by model.
fn used(
    txn: &mut dyn Txn,
    agent: &AgentName,
    since: Timestamp,
) -> Result<BTreeMap<String, Used>, StoreError> {
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let day = budget::day(since, &TimeZone::system()).to_string();
    for row in txn.usage_since(&day)? {
        if row.owner.child == agent.as_str() {
            rows.entry(row.model.clone()).or_default().push(row);
        }
    }
    let sums = rows.into_iter();
    Ok(sums
        .map(|(model, rows)| (model, Used::of(&Sum::of(&rows))))
        .collect())
}
