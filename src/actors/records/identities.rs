//! Attempts at relics, and the entries of identity chains (`raider-lifecycle.md`, identity). Each entry is appended in
//! the transaction that settles the work, with facts that the supervisor measured.

use jiff::Timestamp;

use crate::domain::attempt::{self, Attempt, ChargedBy, Outcome, Used, Work, labels, models};
use crate::domain::cause::Cause;
use crate::domain::city::City;
use crate::domain::ids::{HarnessName, Incarnation, Oid, RaiderId, RelicId, RigName};
use crate::domain::merge::MergeRequest;
use crate::domain::message::{self, Body, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Hook, Relic};
use crate::domain::routing::{self, Candidate, Choice};
use crate::domain::track_record;
use crate::domain::usage::ledger::{Row, Sum};
use crate::ports::relics::{StoreError, Txn};

use super::{escalations, key_values};

/// The store's key of its own id.
pub const STORE_ID: &str = "store:id";
/// The store's key of the number of choices for a label.
const CHOICES: &str = "routing.choices";

/// A charge, as an attempt records it.
#[derive(Debug)]
pub struct Begun<'a> {
    /// The hook.
    pub hook: &'a Hook,
    /// The identity.
    pub identity: String,
    /// The cause of the charge.
    pub cause: Cause,
    /// The caller that asked for it.
    pub by: Option<&'a str>,
    /// The assignee that the relic had before.
    pub assignee: Option<String>,
    /// The choice of its harness.
    pub choice: Option<Choice>,
    /// The newest commit of the target that the existing branch has on which it begins.
    pub began: Option<Oid>,
}

/// Records an attempt that begins.
///
/// # Errors
/// The store's.
pub fn begin(txn: &mut dyn Txn, relic: &Relic, begun: Begun<'_>) -> Result<(), StoreError> {
    let hook = begun.hook;
    let rows = txn.usage_of_work(&hook.relic, &hook.raider.to_string())?;
    let used = Used::of(&Sum::of(&rows));
    // The ledger does not tell apart incarnations: what is used from now on is of this one.
    for mut earlier in txn.attempts_of(&hook.relic, &hook.raider)? {
        if earlier.incarnation != hook.incarnation && earlier.used_until.is_none() {
            earlier.used_until = Some(used);
            txn.put_attempt(&earlier)?;
        }
    }
    txn.put_attempt(&Attempt {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        relic: hook.relic.clone(),
        harness: Some(hook.harness.clone()),
        identity: begun.identity,
        charged_at: Some(hook.charged_at),
        charged_by: Some(ChargedBy::new(begun.cause, begun.by, relic.by.as_deref())),
        assignee: begun.assignee,
        choice: begun.choice,
        labels: Some(labels(&relic.labels)),
        used_before: used,
        used_until: None,
        counted_until: None,
        began: begun.began,
        files: None,
    })
}

/// Records that an attempt goes on with another harness.
///
/// # Errors
/// The store's.
pub fn go_on_with(
    txn: &mut dyn Txn,
    city: &City,
    hook: &Hook,
    harness: &HarnessName,
) -> Result<(), StoreError> {
    let mut attempt = of(txn, &hook.raider, hook.incarnation, &hook.relic)?;
    attempt.identity = city.identity(harness);
    attempt.harness = Some(harness.clone());
    txn.put_attempt(&attempt)
}

/// Returns the record of an attempt.
///
/// # Errors
/// The store's.
pub fn of(
    txn: &mut dyn Txn,
    raider: &RaiderId,
    incarnation: Incarnation,
    relic: &RelicId,
) -> Result<Attempt, StoreError> {
    let found = txn.attempt(raider, incarnation)?;
    let own = found.filter(|attempt| attempt.relic == *relic);
    Ok(own.unwrap_or_else(|| Attempt::unknown(raider, incarnation, relic)))
}

/// A result of an attempt.
#[derive(Debug)]
pub struct Ended<'a> {
    /// The raider.
    pub raider: &'a RaiderId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The relic.
    pub relic: &'a RelicId,
    /// The merge request, if there is one.
    pub mr: Option<&'a RelicId>,
    /// The result.
    pub outcome: Outcome,
    /// The kind of failure.
    pub failure: Option<&'a str>,
    /// When the agent declared its completion; with a merge request, the time of that counts.
    pub declared: Option<Timestamp>,
}

impl<'a> Ended<'a> {
    /// Returns the result of the work on a hook that has no merge request.
    #[must_use]
    pub fn of_hook(hook: &'a Hook, outcome: Outcome) -> Self {
        Self {
            raider: &hook.raider,
            incarnation: hook.incarnation,
            relic: &hook.relic,
            mr: None,
            outcome,
            failure: None,
            declared: hook.done.as_ref().map(|intent| intent.at),
        }
    }
}

/// Appends a result to the chain of the identity that did the work. A result that is there already is not appended
/// again. Time, tokens and money are those that no earlier entry of the attempt counts.
///
/// A chain that takes no entry, because it was changed from outside, does not keep the work from being settled: a person
/// is called.
///
/// # Errors
/// The store's.
pub fn end(txn: &mut dyn Txn, ended: &Ended<'_>) -> Result<(), StoreError> {
    let stored = txn.attempt(ended.raider, ended.incarnation)?;
    let stored = stored.filter(|attempt| attempt.relic == *ended.relic);
    let is_stored = stored.is_some();
    let mut attempt =
        stored.unwrap_or_else(|| Attempt::unknown(ended.raider, ended.incarnation, ended.relic));
    let work = measured(txn, ended, &mut attempt)?;
    match txn.append_entry(&attempt.identity, ended.outcome, &work) {
        Ok(Some(_)) if is_stored => txn.put_attempt(&attempt),
        Ok(_) => Ok(()),
        Err(passing @ (StoreError::Unavailable(_) | StoreError::Locked(_))) => Err(passing),
        Err(error) => call_person(txn, ended, &attempt.identity, &error),
    }
}

/// Returns the facts of a result, and notes in the attempt what they count.
fn measured(
    txn: &mut dyn Txn,
    ended: &Ended<'_>,
    attempt: &mut Attempt,
) -> Result<Work, StoreError> {
    let relic = txn.relic(ended.relic)?;
    let requests = txn.mrs_of(ended.relic)?;
    let request = requests.iter().find(|mr| Some(&mr.id) == ended.mr);
    let declared = match request {
        Some(mr) => Some(txn.relic(&mr.id)?.created),
        None => ended.declared,
    };
    let until = declared.unwrap_or_else(|| txn.now());
    let from = attempt.counted_until.or(attempt.charged_at);
    let first_pass = match ended.outcome {
        Outcome::Merged => Some(!txn.has_failed_before(ended.relic)?),
        _ => None,
    };
    let rows = txn.usage_of_work(ended.relic, &ended.raider.to_string())?;
    let all = attempt.used_until.unwrap_or(Used::of(&Sum::of(&rows)));
    let used = all.beyond(&attempt.used_before);
    let is_known = !used.tokens.is_none();
    attempt.used_before = all;
    attempt.counted_until = attempt.counted_until.max(Some(until));
    Ok(Work {
        city: txn.get(STORE_ID)?.unwrap_or_default(),
        at: Some(txn.now()),
        work: attempt.work(),
        agent: None,
        rig: ended.raider.rig.to_string(),
        relic: ended.relic.to_string(),
        mr: ended.mr.map(ToString::to_string),
        tries: request.map(|mr| mr.attempts),
        harness: attempt.harness.as_ref().map(ToString::to_string),
        models: models(rows.iter().map(model)),
        labels: (attempt.labels.clone()).unwrap_or_else(|| labels(&relic.labels)),
        files: (attempt.files.clone()).filter(|_| ended.outcome == Outcome::Merged),
        first_pass,
        duration_s: from
            .map(|from| u64::try_from(until.duration_since(from).as_secs()).unwrap_or_default()),
        tokens: is_known.then_some(used.tokens),
        usd_micros: used.known_cost().filter(|_| is_known),
        charged_by: attempt.charged_by.clone(),
        failure: ended.failure.map(str::to_owned),
        moved: None,
    })
}

/// Calls a person for a result that cannot be recorded.
fn call_person(
    txn: &mut dyn Txn,
    ended: &Ended<'_>,
    identity: &str,
    error: &StoreError,
) -> Result<(), StoreError> {
    let (raider, relic, outcome) = (ended.raider, ended.relic, ended.outcome);
    tracing::error!(%raider, %relic, %outcome, identity, %error, "a result cannot be recorded in the chain of its identity; a person is called");
    let why = format!("{outcome} of {relic} is not in the chain of {identity}: {error}");
    let problem = ProblemKind::Unrecorded;
    let problem = problem.of(identity, problem.text());
    let call = Body::Escalation(Escalation::high(raider, problem, why));
    escalations::send(txn, &message::witness(&raider.rig), call)
}

/// Records that work which was withdrawn from the queue came to nothing: its relic is closed.
///
/// # Errors
/// The store's.
pub fn withdrawn(txn: &mut dyn Txn, mr: &MergeRequest) -> Result<(), StoreError> {
    let ended = Ended {
        raider: &mr.raider,
        incarnation: mr.incarnation,
        relic: &mr.relic,
        mr: Some(&mr.id),
        outcome: Outcome::Abandoned,
        failure: Some(Cause::RelicClosed.as_str()),
        declared: None,
    };
    end(txn, &ended)
}

fn model(row: &Row) -> &str {
    &row.model
}

/// Chooses among harnesses for a label by the records of their identities, and counts the choice. None without a
/// candidate.
///
/// # Errors
/// The store's.
pub fn choose(
    txn: &mut dyn Txn,
    city: &City,
    rig: &RigName,
    label: &str,
    harnesses: &[HarnessName],
) -> Result<Option<Choice>, StoreError> {
    let named = attempt::label(label);
    let mut running: Vec<String> = Vec::new();
    for hook in txn.hooks(None)? {
        let attempt = of(txn, &hook.raider, hook.incarnation, &hook.relic)?;
        let labels = match attempt.labels {
            Some(labels) => labels,
            None => attempt::labels(&txn.relic(&hook.relic)?.labels),
        };
        if labels.contains(&named) {
            running.push(attempt.identity);
        }
    }
    let mut candidates = Vec::with_capacity(harnesses.len());
    for harness in harnesses {
        let identity = city.identity(harness);
        let newest = txn.newest_entries(&identity, &named, routing::WINDOW)?;
        let tried = track_record::with_label(&newest, &named);
        let is_recent = |at| txn.now().duration_since(at) < routing::START_PAUSE;
        let own = running.iter().filter(|of| **of == identity).count();
        candidates.push(Candidate {
            harness: harness.clone(),
            identity,
            successes: tried.tally.successes,
            results: tried.tally.results,
            tried: tried.entries,
            running: own as u64,
            cannot_start: tried.failed_start.is_some_and(is_recent),
        });
    }
    let key = turns(rig, label);
    let turn: u64 = key_values::read(txn, &key)?.unwrap_or_default();
    let choice = routing::choose(label, candidates, turn);
    if choice.is_some() {
        key_values::write(txn, &key, &turn.wrapping_add(1))?;
    }
    Ok(choice)
}

fn turns(rig: &RigName, label: &str) -> String {
    format!("{CHOICES}/{rig}/{label}")
}
