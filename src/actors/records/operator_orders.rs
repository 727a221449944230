//! Operators' orders about children that outlive the supervisor: stopped agents, and suspended children. Sets in the
//! store, under one key each, and the callers of the latest orders about a suspension.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::key_values;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{AgentName, ChildId};
use crate::ports::relics::{StoreError, Txn};

/// The orders in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorOrders {
    /// Agents that rest until an operator starts them.
    pub resting: BTreeSet<AgentName>,
    /// Children without a session until an operator resumes them.
    pub suspended: BTreeSet<ChildId>,
    /// The latest order about the suspension of each child, until the child is resumed. Orders of older versions have
    /// none.
    pub suspensions: BTreeMap<ChildId, SuspensionOrder>,
}

/// An order to suspend or resume a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspensionOrder {
    /// Set for a suspension.
    pub suspends: bool,
    /// The caller that asked for it.
    pub by: Asker,
}

impl SuspensionOrder {
    /// Returns true when it brought this event about. The configuration may suspend a child, too.
    #[must_use]
    pub fn explains(&self, event: &NewEvent) -> bool {
        match event.kind {
            EventType::AgentSuspended => self.suspends,
            EventType::AgentResumed => !self.suspends && event.cause == Cause::Unsuspended,
            _ => false,
        }
    }
}

const RESTING: &str = "agents.resting";
const SUSPENDED: &str = "children.suspended";
const SUSPENSIONS: &str = "children.suspensions";

/// Reads the orders in force.
///
/// # Errors
/// The store's.
pub fn read(txn: &mut dyn Txn) -> Result<OperatorOrders, StoreError> {
    Ok(OperatorOrders {
        resting: list(txn, RESTING)?,
        suspended: list(txn, SUSPENDED)?,
        suspensions: list::<Vec<_>>(txn, SUSPENSIONS)?.into_iter().collect(),
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
    if said.suspensions != before.suspensions {
        let orders: Vec<_> = said.suspensions.iter().collect();
        key_values::write(txn, SUSPENSIONS, &orders)?;
    }
    Ok(())
}

fn list<T: DeserializeOwned + Default>(txn: &mut dyn Txn, key: &str) -> Result<T, StoreError> {
    let Some(text) = txn.get(key)? else {
        return Ok(T::default());
    };
    serde_json::from_str(&text).map_err(|error| StoreError::Failed(format!("{key}: {error}")))
}
