//! Operators' orders about children that outlive the supervisor: stopped agents, and suspended children. Sets in the
//! store, under one key each.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use super::key_values;
use crate::domain::ids::{AgentName, ChildId};
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

/// Reads the orders in force.
///
/// # Errors
/// The store's.
pub fn read(txn: &mut dyn Txn) -> Result<OperatorOrders, StoreError> {
    Ok(OperatorOrders {
        resting: set(txn, RESTING)?,
        suspended: set(txn, SUSPENDED)?,
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
        key_values::write(txn, RESTING, &said.resting)?;
    }
    if said.suspended != before.suspended {
        key_values::write(txn, SUSPENDED, &said.suspended)?;
    }
    Ok(())
}

fn set<T: DeserializeOwned + Ord>(txn: &mut dyn Txn, key: &str) -> Result<BTreeSet<T>, StoreError> {
    let Some(text) = txn.get(key)? else {
        return Ok(BTreeSet::new());
    };
    serde_json::from_str(&text).map_err(|error| StoreError::Failed(format!("{key}: {error}")))
}
