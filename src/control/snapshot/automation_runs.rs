//! The automations in a snapshot.

use crate::actors::records::automations;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::domain::automation::{Automation, Mark, Run};
use crate::ports::relics::Txn;

/// The most waiting events that are counted.
const COUNTED: usize = 100;

/// An automation, its mark, its last run, and the number of events that wait for it.
pub(in crate::control) type Seen = (Automation, Mark, Option<Run>, usize);

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
            let waiting = match automation.enabled && !mark.disabled {
                true => automations::waiting_events(txn, automation, &mark, Some(COUNTED))?.len(),
                false => 0,
            };
            Ok((automation.clone(), mark, last, waiting.min(COUNTED)))
        });
        seen.collect::<Result<Vec<_>, _>>()
    };
    Ok(world.store.run(read).await?)
}
