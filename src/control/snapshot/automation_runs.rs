//! The automations in a snapshot.

use crate::actors::records::automations;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::domain::automation::{Automation, Mark, Run};
use crate::ports::relics::Txn;

/// An automation, its mark, and its last run.
pub(in crate::control) type Seen = (Automation, Mark, Option<Run>);

/// Reads the marks and last runs of all automations.
pub(in crate::control) async fn automations(world: &World) -> Result<Vec<Seen>, ControlError> {
    let all = world.city.automations.clone();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let read = move |txn: &mut dyn Txn| {
        let seen = all.iter().map(|automation| {
            let mark = automations::recall(txn, automation)?;
            let last = txn.runs(Some(&automation.id), 1)?.pop();
            Ok((automation.clone(), mark, last))
        });
        seen.collect::<Result<Vec<_>, _>>()
    };
    Ok(world.store.run(read).await?)
}
