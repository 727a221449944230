//! A look at the gates of all automations.

use std::sync::Arc;

use jiff::Timestamp;

use super::fire::{self, Trigger};
use crate::actors::boards::Role;
use crate::actors::records::automations;
use crate::actors::world::World;
use crate::domain::automation::{Automation, AutomationId, Mark, Run};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::gates::{Gate, When, cron};
use crate::ports::relics::{EventFilter, StoreError, Txn};

/// The stored and observed state of an automation.
struct GateState {
    automation: Automation,
    mark: Mark,
    last: Option<Run>,
    /// Set when an event is there that its gate waits for.
    told: bool,
}

/// Runs what is due, each in a task of its own, and returns when the next gate opens. The runs are recorded when this
/// returns.
pub(super) async fn run_due(world: &Arc<World>) -> Option<Timestamp> {
    let up_since = world.directory.answers_since()?;
    if world.is_stopping() {
        return None;
    }
    let automations = world.city.automations.clone();
    let seen = world
        .store
        .run(move |txn| observe_gates(txn, &automations, up_since))
        .await;
    let (seen, open) = match seen {
        Ok(seen) => seen,
        Err(error) => {
            tracing::warn!(%error, "the automations cannot be read; the next patrol retries");
            return None;
        }
    };
    let mut interrupted = Vec::new();
    for run in open {
        let claim = |role| world.directory.automations.claim(&run.automation, role);
        if let Some(busy) = claim(Role::Run) {
            interrupted.push(run.automation.clone());
            let ending = claim(Role::Interrupted);
            tokio::spawn(fire::interrupted(Arc::clone(world), run, busy, ending));
        }
    }
    let now = world.clock.now();
    let mut soonest: Option<Timestamp> = None;
    for GateState {
        automation,
        mark,
        last,
        told,
    } in seen
    {
        // Work that came while it could not run is left to the look at the end of that run. Another look may have seen
        // the run, and its end may be recorded already.
        let is_ending = world
            .directory
            .automations
            .is_busy(&automation.id, Role::Interrupted);
        if is_ending || interrupted.contains(&automation.id) {
            continue;
        }
        let checked = world.directory.automations.last_check(&automation.id);
        match automation.next_opening(&mark, last.as_ref(), checked, now) {
            When::Now => due(world, automation, last).await,
            When::At(time) => soonest = Some(soonest.map_or(time, |soonest| soonest.min(time))),
            When::Never if told => begin(world, &automation, Trigger::Event).await,
            When::Never => {}
        }
    }
    // What was begun looks again at its end.
    soonest
}

/// Number of events that no gate waits for after which the cursor is written: each is read more than once, but not each
/// is worth a write.
const LAG: u64 = 1000;

/// Reads everything in one transaction, and settles what needs no run: automations that are new or gone, and slots that
/// are not made up for.
fn observe_gates(
    txn: &mut dyn Txn,
    automations: &[Automation],
    up_since: Timestamp,
) -> Result<(Vec<GateState>, Vec<Run>), StoreError> {
    let ids: Vec<AutomationId> = automations.iter().map(|one| one.id.clone()).collect();
    txn.keep_marks(&ids)?;
    let (mut seen, newest) = (Vec::new(), txn.last_seq()?);
    let up_since = up_since.min(txn.now());
    for automation in automations {
        let mut mark = automations::recall(txn, automation)?;
        mark.slots = cron::settled(mark.slots, txn.now());
        let on = automation.enabled && !mark.disabled;
        if let Gate::Cron { schedule, catch_up } = &automation.gate
            && cron::missed(schedule, *catch_up, mark.slots, up_since)
        {
            if on {
                let skipped =
                    NewEvent::new(EventType::AutomationSkipped, &automation.id, Cause::Missed);
                let data = serde_json::json!({ "since": mark.slots });
                txn.record(&skipped.with(data))?;
            }
            mark.slots = up_since;
        }
        let told = match &automation.gate {
            Gate::Event { on: pattern } if on => !txn
                .events(&EventFilter {
                    after: mark.cursor,
                    kind: Some(pattern.as_str().to_owned()),
                    subject: None,
                    limit: 1,
                })?
                .is_empty(),
            _ => false,
        };
        if !told && newest.saturating_sub(mark.cursor) > LAG {
            mark.cursor = newest;
        }
        if txn.mark(&automation.id)?.as_ref() != Some(&mark) {
            txn.put_mark(&mark)?;
        }
        let last = txn.runs(Some(&automation.id), 1)?.pop();
        let automation = automation.clone();
        seen.push(GateState {
            automation,
            mark,
            last,
            told,
        });
    }
    Ok((seen, txn.open_runs()?))
}

async fn due(world: &Arc<World>, automation: Automation, last: Option<Run>) {
    let last = last.map(|run| run.id);
    match &automation.gate {
        Gate::Cooldown { .. } => {
            begin(world, &automation, Trigger::Cooldown { last }).await;
        }
        Gate::Cron { .. } => begin(world, &automation, Trigger::Cron).await,
        Gate::Condition { check, .. } => {
            let check = check.clone();
            if world
                .directory
                .automations
                .is_busy(&automation.id, Role::Run)
            {
                return;
            }
            if let Some(busy) = world
                .directory
                .automations
                .claim(&automation.id, Role::Check)
            {
                world
                    .directory
                    .automations
                    .checked(&automation.id, world.clock.now());
                let world = Arc::clone(world);
                tokio::spawn(async move {
                    let holds = fire::check(&world, &automation, check, &busy).await;
                    // It may have been removed, changed or switched off meanwhile.
                    let newest = world.newest();
                    if holds && newest.city.automation(&automation.id) == Some(&automation) {
                        begin(&world, &automation, Trigger::Condition { last }).await;
                    }
                    drop(busy);
                    // The next check is due some time.
                    fire::look_again(&world);
                });
            }
        }
        Gate::Event { .. } | Gate::Manual => {}
    }
}

/// A run that cannot be recorded is not begun; the patrol tries again.
async fn begin(world: &Arc<World>, automation: &Automation, trigger: Trigger) {
    if let Err(error) = fire::fire(world, automation, trigger).await {
        let automation = automation.id.to_string();
        tracing::warn!(
            automation,
            %error,
            "a due automation could not be started; the next patrol retries"
        );
    }
}
