//! `mq.*`: the merge queue.

use jiff::Timestamp;
use serde_json::Value;

use super::{diff, drums, names, to_json};
use crate::actors::effects;
use crate::actors::records::auto_charge;
use crate::actors::records::escalations;
use crate::actors::records::raider_notes;
use crate::actors::records::rework;
use crate::actors::refusal::Refusal;
use crate::actors::sagas::{land, pull_request, rejection};
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::{Decided, MrDetails, MrRow, PullRequest, ReviewedSession};
use crate::control::protocol::args::{self, InRig, MqReject};
use crate::domain::asker::Asker;
use crate::domain::event::EventType;
use crate::domain::ids::RelicId;
use crate::domain::merge::{self, MergeRequest, MrState, Review};
use crate::domain::message;
use crate::domain::queue::Step;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{StoreError, Txn};

/// The longest note of a rejection, in bytes.
const NOTE_MAX: usize = 12 * 1024;
/// The smallest number of digits that names a commit.
const COMMIT_MIN: usize = 7;

/// Lists merge requests in the order in which they land; finished ones last.
pub(super) async fn list(world: &World, args: InRig) -> Result<Value, ControlError> {
    let rig = names::rig_filter(world, args.rig.as_deref())?;
    let mut mrs = world
        .store
        .run(move |txn| txn.mrs(rig.as_ref(), false))
        .await?;
    mrs.sort_by(|a, b| {
        let key = |mr| (merge::MergeRequest::is_final(mr), merge::order(mr));
        key(a).cmp(&key(b))
    });
    let now = world.clock.now();
    let rows: Vec<_> = mrs.iter().map(|mr| MrRow::of(mr, now)).collect();
    to_json(&rows)
}

pub(super) async fn show(world: &World, id: &str) -> Result<Value, ControlError> {
    let id = names::relic(id)?;
    let (mr, reviews, notes) = world
        .store
        .run(move |txn| {
            let mr = named(txn, &id)?;
            let reviews = txn.self_reviews(&mr.relic, &mr.raider, mr.incarnation)?;
            let notes = raider_notes::of(txn, &mr.id)?;
            Ok((mr, reviews, notes))
        })
        .await?;
    let changes = diff::sum(world, &mr).await;
    let session = match mr.awaits_person() {
        // That it cannot be told now is no reason to show nothing.
        true => rejection::live_hook(world, &mr.id).await.ok(),
        false => None,
    };
    let session = session.map(|live| match live {
        Some(_) => ReviewedSession::Live,
        None => ReviewedSession::Ended,
    });
    let mut details = MrDetails::of(mr, reviews, world.clock.now());
    (details.changes, details.session) = (changes, session);
    details.raider_notes = notes;
    to_json(&details)
}

/// Returns the merge request of this id, or the newest of the relic of this id.
fn named(txn: &mut dyn Txn, id: &RelicId) -> Result<MergeRequest, StoreError> {
    match txn.mr(id) {
        Err(error @ StoreError::NotFound { .. }) => txn.mrs_of(id)?.pop().ok_or(error),
        found => found,
    }
}

/// Retries a held merge request at once, or a failed one that blocked its relic.
pub(super) async fn retry(world: &World, asker: Asker, id: &str) -> Result<Value, ControlError> {
    let (id, now) = (names::relic(id)?, world.clock.now());
    let mr = world
        .store
        .run(move |txn| {
            let mut mr = txn.mr(&id)?;
            if matches!(mr.state, MrState::Testing | MrState::Merging) {
                return Ok(mr);
            }
            let failed = matches!(mr.state, MrState::Failed | MrState::Conflict);
            let revived = failed && rework::revive(txn, &mr, &asker)?;
            if !land::take(txn, &mut mr, &Step::Retried { revived })? {
                let why = format!("{id} is {}: there is nothing to retry", state(&mr, now));
                return Err(StoreError::Conflict(why));
            }
            land::record_mr(txn, EventType::MrQueued, &mr, &asker)?;
            Ok(mr)
        })
        .await?;
    world.nudge(&message::forge(&mr.rig));
    to_json(&MrRow::of(&mr, world.clock.now()))
}

/// Approves a merge request: the witness measures again and lets it continue.
pub(super) async fn approve(
    world: &World,
    asker: Asker,
    args: args::MqApprove,
) -> Result<Value, ControlError> {
    let (id, now) = (names::relic(&args.mr)?, world.clock.now());
    if args.head.is_none() {
        submitted(world, &id).await?;
    }
    let mr = world
        .store
        .run(move |txn| {
            let mut mr = txn.mr(&id)?;
            if let Some(head) = args.head.as_deref()
                && (head.len() < COMMIT_MIN || !mr.head.as_str().starts_with(head))
            {
                let why = format!("the head of {id} is {}, not {head}", mr.head);
                return Err(StoreError::Conflict(why));
            }
            let is_refused = matches!(
                mr.state,
                MrState::Rejected | MrState::Failed | MrState::Conflict
            );
            if mr.review == Review::Approved && !is_refused {
                return Ok(Ok(mr));
            }
            waits(&mr, now)?;
            if mr.review != Review::Wanted {
                return Err(unverified(txn, &mr)?);
            }
            if let Some(why) = rejection::submits_later_commits(txn, &mr)? {
                return Err(StoreError::Conflict(why));
            }
            if mr.replaced && args.head.is_none() {
                return Ok(Err(mr));
            }
            let note = "approved: it is checked again, then queued".to_owned();
            land::take(txn, &mut mr, &Step::Approved { note })?;
            land::record_mr(txn, EventType::MrApproved, &mr, &asker)?;
            Ok(Ok(mr))
        })
        .await?;
    let mr = mr.map_err(|mr| unseen(&mr))?;
    world.nudge(&message::witness(&mr.rig));
    decided(world, &mr, "approved")
}

/// Returns the refusal of an approval that does not name the head, where the person may mean an earlier one.
fn unseen(mr: &MergeRequest) -> ControlError {
    let (id, head) = (&mr.id, mr.head.short());
    let message = format!(
        "the head of {id} was replaced during its review: it is {} now, and an approval must name it",
        mr.head
    );
    let hint = format!(
        "look at it with `hd diff {id}`, then approve it: hd mq approve {id} --head {head}"
    );
    ControlError::conflict(message).hint(hint)
}

/// Refuses the approval of a merge request whose raider has committed since and not submitted that: the person may mean
/// these commits, too. A sandbox that cannot be read now is no reason to refuse.
async fn submitted(world: &World, id: &RelicId) -> Result<(), ControlError> {
    let id = id.clone();
    let read = move |txn: &mut dyn Txn| {
        let mr = txn.mr(&id)?;
        // It has declared them: it need not be told to.
        if let Some(why) = rejection::submits_later_commits(txn, &mr)? {
            return Err(StoreError::Conflict(why));
        }
        let hook = txn.hook(&mr.raider)?;
        Ok((mr, hook))
    };
    let (mr, hook) = world.store.run(read).await?;
    let own = hook.filter(|hook| hook.incarnation == mr.incarnation && mr.awaits_person());
    let Some(hook) = own else {
        return Ok(());
    };
    let (sandbox, target) = (world.city.sandbox(&hook.raider), hook.target.clone());
    let facts = effects::repo_for(world, &mr.rig, effects::WorkKind::Sandbox, move |repo| {
        repo.facts(&sandbox, &target)
    });
    match facts.await.map_err(Refusal::from) {
        Ok(facts) if facts.head != mr.head => {
            let (id, head) = (&mr.id, mr.head.short());
            let message = format!(
                "{} has committed since: its sandbox is at {}, and {id} has {head}",
                hook.raider, facts.head
            );
            let hint = format!(
                "have it run `hd done`, which submits that to {id}; or approve what was submitted: hd mq approve {id} \
                 --head {head}"
            );
            Err(ControlError::conflict(message).hint(hint))
        }
        Ok(_) => Ok(()),
        Err(why) => {
            tracing::debug!(mr = %mr.id, %why, "the sandbox of a merge request that is approved cannot be read");
            Ok(())
        }
    }
}

/// Returns the merge request, with the person's decision first.
fn decided(world: &World, mr: &MergeRequest, decision: &str) -> Result<Value, ControlError> {
    to_json(&Decided {
        decision: decision.to_owned(),
        back_to: None,
        delivery: None,
        charge_paused: false,
        mr: MrRow::of(mr, world.clock.now()),
    })
}

/// Returns the refusal for a merge request that its raider has declared, and that waits for something else than an
/// approval.
fn unverified(txn: &mut dyn Txn, mr: &MergeRequest) -> Result<StoreError, StoreError> {
    let open = escalations::about(txn, &[&mr.relic, &mr.id], None)?;
    let why = match open.last() {
        Some(escalation) => format!("{} ({})", escalation.title, escalation.id),
        None => "its raider's work is being verified".to_owned(),
    };
    let id = &mr.id;
    let message = format!("{id} does not wait for a person: {why}; `hd mq reject {id}` rejects it");
    Ok(StoreError::Conflict(message))
}

/// Rejects a merge request: its live session, or else a fresh raider, gets the work with the note.
pub(super) async fn reject(
    world: &World,
    asker: Asker,
    args: MqReject,
) -> Result<Value, ControlError> {
    let id = names::relic(&args.mr)?;
    let note = args.note.as_deref().map_or("", str::trim).to_owned();
    if note.is_empty() {
        let hint = format!("hd mq reject {id} --note \"what is wrong with it\"");
        let error =
            ControlError::bad_request("a rejection needs a note: it is all that the raider learns");
        return Err(error.hint(hint));
    }
    if note.len() > NOTE_MAX {
        let message = format!(
            "the note has {} bytes, and {NOTE_MAX} are allowed",
            note.len()
        );
        return Err(ControlError::bad_request(message));
    }
    let rejected = rejection::reject(world, id, note, asker.clone()).await?;
    let (rig, relic) = (rejected.mr.rig.clone(), rejected.mr.relic.clone());
    let paused = world.store.run(move |txn| {
        let is_open = txn.relic(&relic)?.status == RelicStatus::Open;
        Ok(is_open && auto_charge::pauses(txn)?.of(&rig).is_some())
    });
    // The rejection is carried out, whatever can be read after it.
    let charge_paused = rejected.back_to.is_none() && paused.await.unwrap_or_default();
    let delivery = match rejected.told {
        None => None,
        Some(Err(full)) => Some(drums::waits(Some(full))),
        Some(Ok(drum)) => Some(drums::deliver(world, drum, &asker).await.1),
    };
    to_json(&Decided {
        decision: "rejected".to_owned(),
        back_to: rejected.back_to.map(|hook| hook.raider),
        delivery,
        charge_paused,
        mr: MrRow::of(&rejected.mr, world.clock.now()),
    })
}

/// Opens a pull request for a merge request, or for the newest one of a relic or a raider. The command is run to its end
/// if the caller leaves.
pub(super) async fn pull_request(
    world: &World,
    asker: Asker,
    args: args::MqPr,
) -> Result<Value, ControlError> {
    let mr = match RelicId::new(&args.mr) {
        Ok(id) => world.store.run(move |txn| named(txn, &id)).await?,
        Err(_) => of_raider(world, &args.mr).await?,
    };
    let own = std::sync::Arc::new(world.clone());
    let anew = args.anew;
    let opening = tokio::spawn(async move { pull_request::open(&own, mr, anew, &asker).await });
    let opened = opening.await;
    let opened = opened.map_err(|panic| ControlError::internal(panic.to_string()))??;
    to_json(&PullRequest {
        url: opened.mr.pr.clone(),
        already: opened.already,
        output: opened.output,
        mr: MrRow::of(&opened.mr, world.clock.now()),
    })
}

/// Returns the newest merge request of the work on a raider's hook.
async fn of_raider(world: &World, name: &str) -> Result<MergeRequest, ControlError> {
    let hook = names::raider(world, name).await?;
    let raider = hook.raider.clone();
    let read = move |txn: &mut dyn Txn| txn.mr_of(&hook.relic, &hook.raider, hook.incarnation);
    let found = world.store.run(read).await?;
    found.ok_or_else(|| {
        let message = format!("the work of {raider} has no merge request yet");
        ControlError::conflict(message).hint("`hd done` in its session submits it")
    })
}

/// Checks that the merge request waits for a person: no other can be approved.
fn waits(mr: &MergeRequest, now: Timestamp) -> Result<(), StoreError> {
    if mr.state == MrState::Reviewing {
        return Ok(());
    }
    let state = state(mr, now);
    let why = format!("{} does not wait for a person: it is {state}", mr.id);
    Err(StoreError::Conflict(why))
}

/// Returns the state as the lists show it.
fn state(mr: &MergeRequest, now: Timestamp) -> String {
    let state = serde_json::to_value(mr.shown(now)).unwrap_or_default();
    state.as_str().unwrap_or_default().to_owned()
}
