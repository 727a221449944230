//! A person's rejection of a merge request: back to the session that did the work, if it still runs, else to a fresh
//! raider (`product.md`, human review). Rejections by people are not counted as reworks (`contract.md`,
//! `rework_attempts`).

use super::land;
use crate::actors::declared::outcome_file;
use crate::actors::records::identities::{self, Ended};
use crate::actors::records::{drums, rework, void_outcomes};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::actors::{ask, briefs, effects};
use crate::domain::asker::{Asker, AskerKind};
use crate::domain::attempt::{Outcome, rejected_by};
use crate::domain::drum::{DrumHead, Mailbox, NewDrum, PEOPLE};
use crate::domain::facts::RunState;
use crate::domain::ids::{ChildId, RelicId};
use crate::domain::merge::{MergeRequest, MrState};
use crate::domain::message;
use crate::domain::phase::WorkPhase;
use crate::domain::prompt;
use crate::domain::relic::Hook;
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::{StoreError, Txn};

/// A merge request that was rejected.
#[derive(Debug)]
pub struct Rejected {
    /// The merge request.
    pub mr: MergeRequest,
    /// The hook of the raider that works on; none where a fresh one is charged.
    pub back_to: Option<Hook>,
    /// The drum that tells its session, or why the mailbox takes none.
    pub told: Option<Result<DrumHead, String>>,
}

/// Rejects a merge request that waits for a person.
///
/// # Errors
/// [`RefusalKind::Conflict`] when it does not wait for a person.
pub async fn reject(
    world: &World,
    id: RelicId,
    note: String,
    asker: Asker,
) -> Result<Rejected, Refusal> {
    keep(world, &id).await?;
    let live = live_hook(world, &id).await?;
    let written = match &live {
        Some(hook) => outcome_written(world, hook).await?,
        None => None,
    };
    let rejected = world.store.run(move |txn| {
        let mut mr = txn.mr(&id)?;
        waits(txn, &mr)?;
        if let Some(saga) = submission(txn, &mr)? {
            return Err(StoreError::Conflict(submits(&mr, &saga)));
        }
        // It may have ended its review since it was looked for.
        let live = live.as_ref().filter(|_| mr.awaits_person());
        if land::reject(txn, &mut mr, &note, &asker)? {
            let ended = Ended {
                raider: &mr.raider,
                incarnation: mr.incarnation,
                relic: &mr.relic,
                mr: Some(&mr.id),
                outcome: Outcome::Rejected,
                failure: Some(rejected_by(asker.kind())),
                declared: None,
            };
            identities::end(txn, &ended)?;
        }
        let Some(hook) = live else {
            rework::reject(txn, &mr, Some(&note), &asker)?;
            return Ok(Rejected {
                mr,
                back_to: None,
                told: None,
            });
        };
        let Some(hook) = rework::give_back(txn, &mr, hook, &note, &asker)? else {
            let why = format!("{id} is submitted again at this moment; try again");
            return Err(StoreError::Conflict(why));
        };
        void_outcomes::void(txn, &hook, written)?;
        let told = tell(txn, &mr, &hook, &note, &asker)?;
        Ok(Rejected {
            mr,
            back_to: Some(hook),
            told: Some(told),
        })
    });
    let rejected = rejected.await?;
    if let Some(hook) = &rejected.back_to {
        or_warn!(
            outcome_file::set_aside(world, hook, written).await,
            raider = %hook.raider,
            "the rejected outcome could not be moved aside; it does not count while the file is unchanged"
        );
        or_warn!(
            briefs::refresh_task(world, hook).await,
            raider = %hook.raider,
            "the task file could not be written again; `hd rally` prints the note of the rejection"
        );
    }
    world.nudge(&message::witness(&rejected.mr.rig));
    Ok(rejected)
}

/// Returns why a merge request cannot be approved while its raider submits commits that it does not have: the branch may
/// have them already.
///
/// # Errors
/// The store's.
pub fn submits_later_commits(
    txn: &mut dyn Txn,
    mr: &MergeRequest,
) -> Result<Option<String>, StoreError> {
    let saga = submission(txn, mr)?;
    Ok(saga
        .filter(|saga| !saga.is_submitted())
        .map(|saga| submits(mr, &saga)))
}

/// Returns what a person is told whose decision has to wait for a submission.
fn submits(mr: &MergeRequest, saga: &Saga) -> String {
    let (id, raider) = (&mr.id, &mr.raider);
    match (saga.is_submitted(), saga.push_error()) {
        (true, _) => format!("{id} is submitted at this moment; try again"),
        // It may last for hours.
        (false, Some(why)) => format!(
            "{raider} has submitted later commits to {id}, and their push does not succeed: {why}; it is retried until it \
             does, and {id} is held with them then; `hd raider nuke {raider} --salvage` saves them and has {id} decided \
             without them"
        ),
        (false, None) => format!(
            "later commits are submitted to {id} at this moment; `hd diff {id}` shows them when it is held again"
        ),
    }
}

/// Returns the saga in which the raider of the merge request submits its work.
fn submission(txn: &mut dyn Txn, mr: &MergeRequest) -> Result<Option<Saga>, StoreError> {
    let hook = txn.hook(&mr.raider)?;
    match hook.is_some_and(|hook| hook.incarnation == mr.incarnation) {
        true => txn.saga_of(SagaKind::Done, &mr.raider.to_string()),
        false => Ok(None),
    }
}

/// Checks that the merge request waits for a person: no other can be rejected.
fn waits(txn: &mut dyn Txn, mr: &MergeRequest) -> Result<(), StoreError> {
    if mr.state == MrState::Reviewing {
        return Ok(());
    }
    let state = serde_json::to_value(mr.shown(txn.now())).unwrap_or_default();
    let state = state.as_str().unwrap_or_default().to_owned();
    let why = format!("{} does not wait for a person: it is {state}", mr.id);
    Err(StoreError::Conflict(why))
}

/// Pins the head of a merge request that is about to be rejected, as the forge pins a queued one: the next raider is told
/// of it, and its branch may be gone. A failure is logged and no error.
async fn keep(world: &World, id: &RelicId) -> Result<(), Refusal> {
    let id = id.clone();
    let read = move |txn: &mut dyn Txn| {
        let mr = txn.mr(&id)?;
        waits(txn, &mr).map(|()| mr)
    };
    let mr = world.store.run(read).await?;
    let (id, head) = (mr.id.clone(), mr.head.clone());
    let pinned = effects::repo_for(world, &mr.rig, effects::WorkKind::Landing, move |repo| {
        repo.pin(&id, &head)
    });
    if let Err(why) = pinned.await {
        tracing::warn!(mr = %mr.id, %why, "the head of a rejected attempt cannot be pinned; git may collect its commits");
    }
    Ok(())
}

/// Returns the hook of the raider that waits for the review with its session up.
///
/// # Errors
/// The store's, or the root does not answer, or the session cannot be seen now.
pub async fn live_hook(world: &World, id: &RelicId) -> Result<Option<Hook>, Refusal> {
    let id = id.clone();
    let read = move |txn: &mut dyn Txn| {
        let mr = txn.mr(&id)?;
        let record = txn.raider(&mr.raider)?;
        let own = record.filter(|record| {
            record.hook.incarnation == mr.incarnation && WorkPhase::of(record).is_in_review()
        });
        Ok(own.map(|record| record.hook))
    };
    let Some(hook) = world.store.run(read).await? else {
        return Ok(None);
    };
    let child = ChildId::Raider(hook.raider.clone());
    let views = ask::views(world).await?;
    let is_up = views
        .iter()
        .any(|view| view.spec.id == child && view.session.is_some());
    let is_live = is_up || runs_unadopted(world, &hook).await?;
    Ok(is_live.then_some(hook))
}

/// Returns true if the raider's session runs, but no actor has adopted it yet: it ran through a restart of the supervisor.
///
/// # Errors
/// Its session cannot be seen now. A fresh raider might work beside it.
async fn runs_unadopted(world: &World, hook: &Hook) -> Result<bool, Refusal> {
    let unseen = |why: String| {
        let message = format!("the session of {} cannot be seen now: {why}", hook.raider);
        let hint = "try again; if that lasts, `hd doctor` says what is wrong with the session";
        Refusal::new(RefusalKind::Unavailable, message).hint(hint)
    };
    let seen = effects::facts(world, &hook.raider.session_id()).await;
    let seen = seen.map_err(|error| unseen(error.to_string()))?;
    match seen.map(|facts| (facts.state, facts.incarnation)) {
        // Its incarnation may be unreadable, too.
        Some((RunState::Unknown { why }, _)) => Err(unseen(why)),
        Some((RunState::Running, incarnation)) => Ok(incarnation == hook.incarnation),
        Some((RunState::Exited(_) | RunState::Lost { .. }, _)) | None => Ok(false),
    }
}

/// Returns when the outcome file was last written.
async fn outcome_written(world: &World, hook: &Hook) -> Result<Option<jiff::Timestamp>, Refusal> {
    let unread = |error| {
        let message = format!("the outcome file of the raider cannot be read: {error}");
        Refusal::new(RefusalKind::Unavailable, message)
    };
    let seen = outcome_file::read(world, hook).await.map_err(unread)?;
    Ok(seen.written)
}

/// Sends the note to the mailbox of the work.
fn tell(
    txn: &mut dyn Txn,
    mr: &MergeRequest,
    hook: &Hook,
    note: &str,
    asker: &Asker,
) -> Result<Result<DrumHead, String>, StoreError> {
    let (from, reply_to) = match asker.kind() {
        AskerKind::Person => (PEOPLE.to_owned(), Some(Mailbox::People)),
        AskerKind::Agent | AskerKind::Automation => (asker.name.clone(), None),
    };
    let new = NewDrum {
        mailbox: Mailbox::Work(mr.relic.clone()),
        to: hook.raider.to_string(),
        from,
        reply_to,
        subject: format!("{} is rejected", mr.id),
        body: prompt::returned(mr, note),
        answers: None,
    };
    match drums::send(txn, &new, asker) {
        Ok(drum) => Ok(Ok(drum.head)),
        // The rejection stands: the note is in the task, too.
        Err(StoreError::Conflict(full)) => Ok(Err(full)),
        Err(error) => Err(error),
    }
}
