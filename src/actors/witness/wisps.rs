//! Cleanup wisps: made when something prevents a raider's removal, closed by the look that finds it no more, squashed
//! into a digest at the end of the patrol's cycle (`witness-patrol.md`, cleanup wisp lifecycle).

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::super::refusal::Refusal;
use super::WitnessArgs;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{RaiderId, RigName};
use crate::domain::phase::WorkPhase;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::domain::wisp::{self, About, Cleanup};
use crate::ports::relics::{NewRelic, RelicFilter, StoreError, Txn};

/// Maximum number of wisps in a digest; more go into the next cycle's.
const DIGEST_MAX: usize = 500;

/// Tracks a raider from now on. A wisp of the same kind is kept, with the newest evidence.
///
/// # Errors
/// The store's.
pub fn track(
    txn: &mut dyn Txn,
    about: &About,
    state: Cleanup,
    evidence: &str,
) -> Result<(), StoreError> {
    let open = wisps(txn, about.label(), RelicStatus::Open)?;
    let known = open
        .into_iter()
        .find(|wisp| Cleanup::of(wisp) == Some(state));
    if let Some(mut wisp) = known {
        if wisp.body != evidence {
            evidence.clone_into(&mut wisp.body);
            txn.put_relic(&wisp)?;
        }
        return Ok(());
    }
    let mut wisp = txn.create_relic(&NewRelic {
        prefix: wisp::PREFIX.to_owned(),
        kind: RelicKind::Wisp,
        title: format!("cleanup of {}: {}", about.raider, state.as_str()),
        body: evidence.to_owned(),
        priority: 0,
        labels: about.labels(state),
        parent: None,
        deps: Vec::new(),
        by: None,
    })?;
    wisp.raider = Some(about.raider.clone());
    txn.put_relic(&wisp)?;
    let data = serde_json::json!({
        "id": wisp.id, "state": state.as_str(), "incarnation": about.incarnation,
        "relic": about.relic, "evidence": evidence,
    });
    let event = NewEvent::new(EventType::WispCreated, &about.raider, Cause::Patrol);
    txn.record(&event.with(data)).map(|_| ())
}

/// Tracks a sandbox of unknown owner.
///
/// # Errors
/// The store's.
pub async fn track_unowned(
    args: &WitnessArgs,
    raider: &RaiderId,
    evidence: &str,
) -> Result<(), Refusal> {
    let (about, evidence) = (About::unowned(raider), evidence.to_owned());
    let track = move |txn: &mut dyn Txn| {
        let state = Cleanup::ZombieDetected;
        track(txn, &about, state, &evidence)
    };
    Ok(args.world.store.run(track).await?)
}

/// Closes the wisps about sandboxes of unknown owner, except of `these`.
///
/// # Errors
/// The store's.
pub fn unowned(
    txn: &mut dyn Txn,
    rig: &RigName,
    these: &BTreeSet<RaiderId>,
) -> Result<(), StoreError> {
    for wisp in wisps(txn, wisp::cycle(rig), RelicStatus::Open)? {
        let about = About::of(&wisp).filter(About::is_unowned);
        if about.is_some_and(|about| !these.contains(&about.raider)) {
            close(txn, wisp, "its owner is known again".to_owned())?;
        }
    }
    Ok(())
}

/// Returns since when a sandbox has been kept, at the latest since the given time: a raider that is restarted and dies
/// each time has not recovered in between.
///
/// # Errors
/// The store's.
pub fn kept_since(
    txn: &mut dyn Txn,
    about: &About,
    latest: Timestamp,
) -> Result<Timestamp, StoreError> {
    let mut open = wisps(txn, about.label(), RelicStatus::Open)?;
    open.retain(|wisp| Cleanup::of(wisp) != Some(Cleanup::MergeRequested));
    let first = open.into_iter().map(|wisp| wisp.created).min();
    Ok(first.map_or(latest, |first| first.min(latest)))
}

/// Observations of raiders besides the store.
#[derive(Debug, Clone, Default)]
pub struct WispEvidence {
    /// Raiders that have a sandbox without a hook; none when unknown.
    pub lone: Option<Vec<RaiderId>>,
    /// Raiders with a session and no death that counts; none when not observed.
    pub well: Option<Vec<RaiderId>>,
}

/// Closes the wisps of a rig that no longer apply.
///
/// # Errors
/// The store's.
pub fn review(txn: &mut dyn Txn, rig: &RigName, seen: &WispEvidence) -> Result<(), StoreError> {
    for wisp in wisps(txn, wisp::cycle(rig), RelicStatus::Open)? {
        if let Some(end) = end(txn, &wisp, seen)? {
            close(txn, wisp, end)?;
        }
    }
    Ok(())
}

fn close(txn: &mut dyn Txn, mut wisp: Relic, end: String) -> Result<(), StoreError> {
    wisp.status = RelicStatus::Closed;
    wisp.closed = Some(txn.now());
    wisp.context = Some(end);
    txn.put_relic(&wisp)?;
    let data = serde_json::json!({ "end": wisp.context });
    let event = NewEvent::new(EventType::RelicClosed, &wisp.id, Cause::Patrol);
    txn.record(&event.with(data)).map(|_| ())
}

/// Returns how a wisp ended; none while it applies.
fn end(txn: &mut dyn Txn, wisp: &Relic, seen: &WispEvidence) -> Result<Option<String>, StoreError> {
    let (Some(about), Some(state)) = (About::of(wisp), Cleanup::of(wisp)) else {
        return Ok(Some("its subject is unknown".to_owned()));
    };
    if state == Cleanup::MergeRequested {
        let mr = match &about.relic {
            Some(relic) => txn.mr_of(relic, &about.raider, about.incarnation)?,
            None => None,
        };
        return Ok(match mr {
            None => Some("dropped".to_owned()),
            Some(mr) => mr
                .is_final()
                .then(|| format!("{:?}", mr.state).to_lowercase()),
        });
    }
    let is_in = |who: &Option<Vec<RaiderId>>| who.as_ref().map(|who| who.contains(&about.raider));
    let record = txn.raider(&about.raider)?;
    if let Some(record) = record.filter(|record| record.hook.incarnation == about.incarnation) {
        // A raider that is retried while its relic is blocked has not recovered.
        let is_hooked = record.relic == RelicStatus::Hooked;
        let works = is_hooked && WorkPhase::of(&record).is_working();
        let works = works && is_in(&seen.well) == Some(true);
        return Ok(works.then(|| "its raider works again".to_owned()));
    }
    Ok((is_in(&seen.lone) == Some(false)).then(|| "removed".to_owned()))
}

/// Squashes the wisps closed in the last cycle into its digest: a cycle ends where the next begins.
///
/// # Errors
/// The store's.
pub async fn squash(args: &WitnessArgs) -> Result<(), Refusal> {
    let rig = args.rig.clone();
    let squash = move |txn: &mut dyn Txn| {
        let mut ended = wisps(txn, wisp::cycle(&rig), RelicStatus::Closed)?;
        ended.truncate(DIGEST_MAX);
        if ended.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = ended.iter().map(wisp::line).collect();
        let mut digest = txn.create_relic(&NewRelic {
            prefix: wisp::PREFIX.to_owned(),
            kind: RelicKind::Wisp,
            title: format!("patrol digest of {rig}: {} ended", ended.len()),
            body: lines.join("\n"),
            priority: 0,
            labels: vec![wisp::digest(&rig)],
            parent: None,
            deps: Vec::new(),
            by: None,
        })?;
        digest.status = RelicStatus::Closed;
        digest.closed = Some(txn.now());
        txn.put_relic(&digest)?;
        for mut wisp in ended {
            wisp.labels.retain(|label| *label != wisp::cycle(&rig));
            wisp.parent = Some(digest.id.clone());
            txn.put_relic(&wisp)?;
        }
        Ok(())
    };
    Ok(args.world.store.run(squash).await?)
}

fn wisps(txn: &mut dyn Txn, label: String, status: RelicStatus) -> Result<Vec<Relic>, StoreError> {
    txn.relics(&RelicFilter {
        kind: Some(RelicKind::Wisp),
        status: Some(status),
        prefix: None,
        label: Some(label),
        limit: None,
    })
}
