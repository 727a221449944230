//! Runs that bring each other about: the row of runs that led to a relic, to a run, and to an event. An event that a
//! person or the supervisor itself caused has none. All rows that begin with the same run are counted together
//! for an hour.
//!
//! ```text
//!  event ──► run ──► relic, made by its command or its ritual ──► relics that the agent on it makes ──► their events ──┐
//!    0        1                    1                                           1                                       │
//!             2 ◄──────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::automation_work::MAKER;
use super::key_values;
use crate::actors::store::about;
use crate::domain::asker::Asker;
use crate::domain::automation::{CHAIN_MAX, OFFSPRING_MAX, Run};
use crate::domain::cause::Cause;
use crate::domain::event::{Event, EventType};
use crate::domain::event_data::EventData;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// Prefix of the keys of relics.
const RELIC: &str = "automation-chain/relic/";
/// Prefix of the keys of automations: the last run of each.
const RUN: &str = "automation-chain/run/";

/// Prefix of the keys of first runs: the number of runs that each brought about, directly or not.
const OFFSPRING: &str = "automation-chain/first/";

/// The time in which these are counted together: the relics that an agent makes belong to the row of its own relic, which it
/// may work on for weeks.
const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// A number of runs since a time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Count {
    runs: u32,
    since: Timestamp,
}

impl Count {
    /// Returns true once the count begins again, as after the clock was set back.
    fn is_over(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.since);
        age.is_negative() || age >= WINDOW
    }
}

/// The place of a run in a row of runs that brought each other about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Chain {
    /// The number of runs in the row, this one included.
    pub number: u32,
    /// The first run of the row; none in a row of an older version.
    pub first: Option<u64>,
}

/// A chain as any version stored it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    /// Only the number.
    Number(u32),
    Chain {
        number: u32,
        first: Option<u64>,
    },
}

impl From<Stored> for Chain {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Number(number) => Self {
                number,
                first: None,
            },
            Stored::Chain { number, first } => Self { number, first },
        }
    }
}

/// Returns the longer one of two rows.
fn longer(one: Option<Chain>, other: Option<Chain>) -> Option<Chain> {
    let number = |chain: Option<Chain>| chain.map_or(0, |chain| chain.number);
    match number(other) > number(one) {
        true => other,
        false => one,
    }
}

/// Records the place of a run that begins behind that row.
///
/// # Errors
/// The store's.
pub fn begin_run(txn: &mut dyn Txn, run: &Run, after: Option<Chain>) -> Result<Chain, StoreError> {
    let chain = match after {
        None => Chain {
            number: 1,
            first: Some(run.id),
        },
        Some(after) => Chain {
            number: after.number + 1,
            first: after.first.or(Some(run.id)),
        },
    };
    if let (Some(_), Some(first)) = (after, chain.first) {
        let mut offspring = offspring(txn, first)?;
        offspring.runs += 1;
        key_values::write(txn, &format!("{OFFSPRING}{first}"), &offspring)?;
    }
    key_values::write(txn, &format!("{RUN}{}", run.automation), &chain)?;
    Ok(chain)
}

fn offspring(txn: &mut dyn Txn, first: u64) -> Result<Count, StoreError> {
    let now = txn.now();
    let stored: Option<Count> = key_values::read(txn, &format!("{OFFSPRING}{first}"))?;
    let begun = Count {
        runs: 0,
        since: now,
    };
    Ok(stored.filter(|count| !count.is_over(now)).unwrap_or(begun))
}

/// Returns why no further run may begin behind a row; none where one may.
///
/// # Errors
/// The store's.
pub fn is_over(txn: &mut dyn Txn, after: Option<Chain>) -> Result<Option<String>, StoreError> {
    let Some(after) = after else {
        return Ok(None);
    };
    if after.number >= CHAIN_MAX {
        let why = format!("{CHAIN_MAX} runs of automations that brought each other about");
        return Ok(Some(why));
    }
    let Some(first) = after.first else {
        return Ok(None);
    };
    let is_over = offspring(txn, first)?.runs >= OFFSPRING_MAX;
    Ok(is_over.then(|| {
        format!("{OFFSPRING_MAX} runs of automations within an hour that run {first} brought about")
    }))
}

/// Records the row of runs that led to a new relic, if any did.
///
/// # Errors
/// The store's.
pub fn note_made(txn: &mut dyn Txn, relic: &Relic, by: &Asker) -> Result<(), StoreError> {
    match of_party(txn, &by.name)? {
        None => Ok(()),
        Some(chain) => key_values::write(txn, &format!("{RELIC}{}", relic.id), &chain),
    }
}

/// Returns the row of runs that led to what this party does now: an automation by its last run, a raider or an agent by the
/// relic on its hook.
///
/// # Errors
/// The store's.
pub fn of_party(txn: &mut dyn Txn, name: &str) -> Result<Option<Chain>, StoreError> {
    if let Some(automation) = name.strip_prefix(MAKER) {
        return last_run(txn, automation);
    }
    if let Some(relic) = about::work_of(txn, name)? {
        return of_relic(txn, &relic);
    }
    // A raider is named by its session where it asked for something.
    let hooks = match name.contains('/') {
        true => Vec::new(),
        false => txn.hooks(None)?,
    };
    let own = hooks
        .into_iter()
        .find(|hook| hook.raider.session_id().as_str() == name);
    own.map_or(Ok(None), |hook| of_relic(txn, &hook.relic))
}

/// Returns the place of the run of an automation that is under way.
///
/// # Errors
/// The store's.
pub fn of_run(txn: &mut dyn Txn, run: &Run) -> Result<Option<Chain>, StoreError> {
    last_run(txn, &run.automation.to_string())
}

fn last_run(txn: &mut dyn Txn, automation: &str) -> Result<Option<Chain>, StoreError> {
    key_values::read(txn, &format!("{RUN}{automation}"))
}

/// Returns the row of a relic; that of a step is its whole's.
fn of_relic(txn: &mut dyn Txn, id: &RelicId) -> Result<Option<Chain>, StoreError> {
    let whole = txn.totem_of_step(id)?;
    let id = whole.as_ref().unwrap_or(id);
    key_values::read(txn, &format!("{RELIC}{id}"))
}

/// The row of a run, in the events of its beginning and its end.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Row {
    /// The row.
    pub chain: Option<Chain>,
}

impl EventData for Row {
    const KINDS: &'static [EventType] = &[
        EventType::AutomationFired,
        EventType::AutomationCompleted,
        EventType::AutomationFailed,
    ];
}

/// Returns true for an event about a run that began, ended, or was not begun.
fn is_about_run(event: &Event) -> bool {
    let kind = event.known();
    kind.is_some_and(|kind| Row::KINDS.contains(&kind) || kind == EventType::AutomationSkipped)
}

/// Returns the row of runs that led to an event. An event about a run names the row of that run: the automation may have run
/// again since. Those of older versions, and of skipped runs, name none.
///
/// # Errors
/// The store's.
pub fn of_event(txn: &mut dyn Txn, event: &Event) -> Result<Option<Chain>, StoreError> {
    let mut chain = None;
    // A slot that was missed comes of the schedule.
    let cause = event.cause_known();
    let is_slot = matches!(cause, Some(Cause::Missed | Cause::StillRunning));
    if is_about_run(event) && !is_slot {
        chain = match event.read::<Row>().and_then(|row| row.chain) {
            Some(named) => Some(named),
            None => last_run(txn, &event.subject)?,
        };
    }
    if let Some(asker) = event.asker() {
        chain = longer(chain, of_party(txn, &asker.name)?);
    }
    let named = event.relic();
    for id in [Some(event.subject.as_str()), named].into_iter().flatten() {
        if let Ok(relic) = id.parse::<RelicId>() {
            chain = longer(chain, of_relic(txn, &relic)?);
        }
    }
    if named.is_none() && event.subject.parse::<RaiderId>().is_ok() {
        chain = longer(chain, of_party(txn, &event.subject)?);
    }
    Ok(chain)
}

/// Forgets the relics that were closed before that time.
///
/// # Errors
/// The store's.
pub fn prune(txn: &mut dyn Txn, before: Timestamp) -> Result<(), StoreError> {
    for (id, _) in key_values::read_under::<Chain>(txn, RELIC)? {
        let relic = id.parse::<RelicId>().ok().map(|id| txn.relic(&id));
        let is_over = match relic {
            Some(Ok(relic)) => {
                let closed = relic.closed.is_some_and(|closed| closed < before);
                closed && relic.status == RelicStatus::Closed
            }
            None | Some(Err(StoreError::NotFound { .. })) => true,
            Some(Err(error)) => return Err(error),
        };
        if is_over {
            txn.set(&format!("{RELIC}{id}"), None)?;
        }
    }
    Ok(())
}

/// Deletes the counts that are over.
///
/// # Errors
/// The store's.
pub fn prune_counts(txn: &mut dyn Txn) -> Result<(), StoreError> {
    let now = txn.now();
    for (run, count) in key_values::read_under::<Count>(txn, OFFSPRING)? {
        if count.is_over(now) {
            txn.set(&format!("{OFFSPRING}{run}"), None)?;
        }
    }
    Ok(())
}
