//! The migration of the chains of slots: each entry that verifies is copied to the chain of the identity that did the
//! work. An entry that does not verify stays in the old table, and `hd cv --verify` reports it.
//!
//! The harness of an old entry is that of its charge in the journal; work whose charge was deleted there has the identity
//! `unknown`. A model is not known of old work, so the identity has none.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::Value;

use crate::domain::attempt::{Attempt, ChargedBy, Moved, Outcome, Used, Work, labels, work_id};
use crate::domain::cause::Cause;
use crate::domain::cv::Head;
use crate::domain::identity::UNKNOWN;
use crate::domain::ids::{HarnessName, Incarnation, RaiderId, RelicId};
use crate::domain::merge::MergeRequest;
use crate::ports::relics::{ChainOf, StoreError};

use super::value::Time;
use super::{hooks, identities, merge_requests};

/// The schema's version that moves the chains.
pub(super) const VERSION: usize = 21;
/// The number of entries that are read at once.
const PAGE: usize = 500;

/// A charge as the journal has it.
struct Charge {
    at: Timestamp,
    incarnation: u64,
    harness: Option<HarnessName>,
    by: ChargedBy,
}

/// Charges by raider and relic, the oldest first.
type Charges = HashMap<(String, String), Vec<Charge>>;

/// Copies the entries of all chains of slots, and records the attempts that are not over.
pub(super) fn move_over(conn: &Connection) -> Result<(), StoreError> {
    let charges = charges(conn)?;
    let city: String = conn
        .query_row(
            "SELECT value FROM facts WHERE key = 'store:id'",
            [],
            |row| row.get(0),
        )
        .unwrap_or_default();
    let mut last = String::new();
    loop {
        let page = identities::chains(conn, &ChainOf::Slot, &last, PAGE)?;
        for (slot, _) in &page {
            move_chain(conn, &city, slot, &charges)?;
        }
        match page.last() {
            // A name that is no UTF-8 reads as another one, which may come before it.
            Some((slot, _)) if *slot > last => last.clone_from(slot),
            _ => break,
        }
    }
    for hook in hooks::list(conn, None)? {
        let mut attempt = attempt(&hook.raider, hook.incarnation, &hook.relic, &charges);
        attempt.identity = hook.harness.to_string();
        attempt.harness = Some(hook.harness);
        attempt.charged_at = Some(hook.charged_at);
        identities::put_attempt(conn, &attempt)?;
    }
    for mr in unsettled(conn)? {
        if identities::attempt(conn, &mr.raider, mr.incarnation)?.is_none() {
            let attempt = attempt(&mr.raider, mr.incarnation, &mr.relic, &charges);
            identities::put_attempt(conn, &attempt)?;
        }
    }
    Ok(())
}

/// Returns the merge requests whose result may still be recorded: also those that landed or failed, and whose message
/// waits.
fn unsettled(conn: &Connection) -> Result<Vec<MergeRequest>, StoreError> {
    let mut select = conn.prepare(
        "SELECT m.* FROM merge_requests m JOIN relics r ON r.id = m.relic
          WHERE m.settled_at IS NULL AND r.status <> 'closed'",
    )?;
    let rows = select.query_map([], merge_requests::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Copies the entries of one chain, up to the first that does not verify.
fn move_chain(
    conn: &Connection,
    city: &str,
    slot: &str,
    charges: &Charges,
) -> Result<(), StoreError> {
    let mut head = Head::default();
    loop {
        let page = identities::entries(conn, &ChainOf::Slot, slot, head.seq, PAGE)?;
        let is_last = page.len() < PAGE;
        for stored in page {
            let entry = stored.entry;
            if head.follow(slot, &entry).is_err() {
                return Ok(());
            }
            let Some(outcome) = Outcome::named(&entry.kind) else {
                continue;
            };
            let mut work = work(conn, slot, &entry.data, charges)?;
            work.city = city.to_owned();
            work.failure = word(&entry.data, "failure_type");
            work.moved = Some(Moved {
                chain: slot.to_owned(),
                seq: entry.seq,
                hash: entry.hash,
            });
            if work.work.is_empty() {
                // No incarnation is known: the place in the old chain is unique, too.
                work.work = format!("{slot}#{}@{}", work.relic, head.seq);
            }
            let name = work.harness.clone().unwrap_or_else(|| UNKNOWN.to_owned());
            identities::append(conn, &name, outcome, &work)?;
        }
        if is_last {
            return Ok(());
        }
    }
}

fn word(data: &Value, key: &str) -> Option<String> {
    data.get(key)?.as_str().map(str::to_owned)
}

/// Returns what is known of the work of an old entry.
fn work(
    conn: &Connection,
    slot: &str,
    data: &Value,
    charges: &Charges,
) -> Result<Work, StoreError> {
    let relic = word(data, "relic").unwrap_or_default();
    let incarnation = data.get("incarnation").and_then(Value::as_u64);
    let charge = charges
        .get(&(slot.to_owned(), relic.clone()))
        .and_then(|all| match incarnation {
            Some(wanted) => all.iter().find(|charge| charge.incarnation == wanted),
            None => all.last(),
        });
    let mut select =
        conn.prepare_cached("SELECT label FROM relic_labels WHERE relic = ? ORDER BY place")?;
    let named = select.query_map([&relic], |row| identities::text(row, "label"))?;
    let named: Vec<String> = named.collect::<Result<_, _>>()?;
    Ok(Work {
        work: incarnation.map_or_else(String::new, |number| work_id(slot, Incarnation(number))),
        rig: slot.split('/').next().unwrap_or_default().to_owned(),
        relic,
        mr: word(data, "mr"),
        harness: charge.and_then(|charge| Some(charge.harness.as_ref()?.to_string())),
        labels: labels(&named),
        charged_by: charge.map(|charge| charge.by.clone()),
        ..Work::default()
    })
}

/// Returns an attempt that is not over.
fn attempt(
    raider: &RaiderId,
    incarnation: Incarnation,
    relic: &RelicId,
    charges: &Charges,
) -> Attempt {
    let mut attempt = Attempt::unknown(raider, incarnation, relic);
    let all = charges.get(&(raider.to_string(), relic.to_string()));
    let own = |charge: &&Charge| charge.incarnation == incarnation.0;
    if let Some(charge) = all.and_then(|all| all.iter().find(own)) {
        attempt.harness.clone_from(&charge.harness);
        if let Some(harness) = &charge.harness {
            attempt.identity = harness.to_string();
        }
        attempt.charged_at = Some(charge.at);
        attempt.charged_by = Some(charge.by.clone());
    }
    // The ledger does not tell apart what was used before this version.
    attempt.used_before = Used::default();
    attempt
}

/// Reads the charges of the journal.
fn charges(conn: &Connection) -> Result<Charges, StoreError> {
    let mut select = conn.prepare(
        "SELECT ts, subject, cause, data FROM events WHERE type = 'raider.charged' ORDER BY seq",
    )?;
    let mut rows = select.query([])?;
    let mut charges = Charges::new();
    while let Some(row) = rows.next()? {
        let data = identities::text(row, "data")?;
        let data: Value = serde_json::from_str(&data).unwrap_or_default();
        let cause = identities::text(row, "cause")?;
        let incarnation = data.get("incarnation").and_then(Value::as_u64);
        let (Some(relic), Some(incarnation)) = (word(&data, "relic"), incarnation) else {
            continue;
        };
        let cause = Cause::named(&cause).unwrap_or(Cause::Config);
        let harness = word(&data, "harness").and_then(|name| HarnessName::new(name).ok());
        let charge = Charge {
            at: row.get::<_, Time>("ts")?.0,
            incarnation,
            harness,
            by: ChargedBy::new(cause, word(&data, "by").as_deref(), None),
        };
        let key = (identities::text(row, "subject")?, relic);
        charges.entry(key).or_default().push(charge);
    }
    Ok(charges)
}
