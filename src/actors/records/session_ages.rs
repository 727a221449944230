//! The requests to old sessions to hand off: one small fact per raider, void for another session.

use super::key_values;
use crate::domain::ids::{RaiderId, RigName};
use crate::domain::relic::Hook;
use crate::domain::session_age::Asked;
use crate::ports::relics::{StoreError, Txn};

/// Prefix of the keys.
const KEY: &str = "session-age/";

/// Returns these hooks, each with the requests to its session. Forgets the requests of the rig's other raiders.
///
/// # Errors
/// The store's.
pub fn asked(
    txn: &mut dyn Txn,
    rig: &RigName,
    hooks: Vec<Hook>,
) -> Result<Vec<(Hook, Option<Asked>)>, StoreError> {
    let mut known = key_values::read_under::<Asked>(txn, &format!("{KEY}{rig}/"))?;
    let mut found = Vec::new();
    for hook in hooks {
        let name = hook.raider.to_string();
        let own = |rest: &str| name == format!("{rig}/{rest}");
        let at = known.iter().position(|(rest, _)| own(rest));
        found.push((hook, at.map(|at| known.swap_remove(at).1)));
    }
    for (rest, _) in known {
        txn.set(&format!("{KEY}{rig}/{rest}"), None)?;
    }
    Ok(found)
}

/// Stores the requests to the raider's session.
///
/// # Errors
/// The store's.
pub fn put(txn: &mut dyn Txn, raider: &RaiderId, asked: &Asked) -> Result<(), StoreError> {
    key_values::write(txn, &format!("{KEY}{raider}"), asked)
}
