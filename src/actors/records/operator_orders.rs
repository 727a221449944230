//! Operators' orders about children that outlive the supervisor: stopped agents, and suspended children. Sets in the
//! store, under one key each.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::quarantine;
use crate::domain::ids::{AgentName, ChildId, Incarnation, RaiderId};
use crate::ports::relics::{StoreError, Txn};

/// The orders in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorOrders {
    /// Agents that rest until an operator starts them.
    pub resting: BTreeSet<AgentName>,
    /// Children without a session until an operator resumes them.
    pub suspended: BTreeSet<ChildId>,
}

const RESTING: &str = "agents.resting";
const SUSPENDED: &str = "children.suspended";

/// The stored form of a child's id.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Child {
    Raider(RaiderId),
    Agent(AgentName),
}

/// Reads the orders in force.
///
/// # Errors
/// The store's.
pub fn read(txn: &mut dyn Txn) -> Result<OperatorOrders, StoreError> {
    let suspended: Vec<Child> = set(txn, SUSPENDED)?;
    Ok(OperatorOrders {
        resting: set(txn, RESTING)?.into_iter().collect(),
        suspended: suspended.into_iter().map(from).collect(),
    })
}

/// Changes the orders.
///
/// # Errors
/// The store's.
pub fn update(txn: &mut dyn Txn, change: &dyn Fn(&mut OperatorOrders)) -> Result<(), StoreError> {
    let before = read(txn)?;
    let mut said = before.clone();
    change(&mut said);
    if said.resting != before.resting {
        put(txn, RESTING, &said.resting)?;
    }
    if said.suspended != before.suspended {
        let suspended: Vec<_> = said.suspended.into_iter().map(to).collect();
        put(txn, SUSPENDED, &suspended)?;
    }
    Ok(())
}

/// Drops a raider's hook, if it is of this incarnation, together with a suspension of the raider: the next holder of
/// the name is another raider.
///
/// # Errors
/// The store's.
pub fn drop_hook(
    txn: &mut dyn Txn,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<bool, StoreError> {
    let held = txn.drop_hook(raider, incarnation)?;
    if held {
        update(txn, &|said| {
            said.suspended.remove(&ChildId::Raider(raider.clone()));
        })?;
        quarantine::forget(txn, raider)?;
    }
    Ok(held)
}

fn set<T: for<'de> Deserialize<'de>>(txn: &mut dyn Txn, key: &str) -> Result<Vec<T>, StoreError> {
    let Some(text) = txn.get(key)? else {
        return Ok(Vec::new());
    };
    serde_json::from_str(&text).map_err(|error| StoreError::Failed(format!("{key}: {error}")))
}

fn put(txn: &mut dyn Txn, key: &str, value: &impl Serialize) -> Result<(), StoreError> {
    let text = serde_json::to_string(value).map_err(|e| StoreError::Failed(e.to_string()))?;
    txn.set(key, Some(&text))
}

fn from(child: Child) -> ChildId {
    match child {
        Child::Raider(raider) => ChildId::Raider(raider),
        Child::Agent(agent) => ChildId::Agent(agent),
    }
}

fn to(child: ChildId) -> Child {
    match child {
        ChildId::Raider(raider) => Child::Raider(raider),
        ChildId::Agent(agent) => Child::Agent(agent),
    }
}
