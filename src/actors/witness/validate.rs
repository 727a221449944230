//! POLECAT_DONE: vouched for by measuring again, then passed on as MERGE_READY
//! (`witness-patrol.md`, signal flow). What a raider said is never enough.
//!
//! ```text
//!  of another incarnation ──► void            done saga still open ──► later
//!  tree not clean ──► escalated, waits        remote lacks the head ──► pushed again
//!  completed ──► MERGE_READY (or waits for a person)
//!  no change ──► closed    escalated ──► blocked    deferred ──► deferred
//! ```

use super::super::effects;
use super::super::refusal::Refusal;
use super::super::sagas::land;
use super::inbox::{Handled, escalate};
use super::kept::{self, Kept};
use super::{WitnessArgs, wisps};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::{MergeRequest, MrState, Review};
use crate::domain::message::{self, Body, Escalation, MergeReady, PolecatDone, Severity};
use crate::domain::nuke::{CleanupStatus, losses};
use crate::domain::relic::{Exit, Hook, RelicStatus};
use crate::domain::saga::{FaultPoint, SagaKind};
use crate::domain::wisp::{About, Cleanup};
use crate::ports::relics::{StoreError, Txn};

/// Validates a POLECAT_DONE.
///
/// # Errors
/// The remote, the repository or the store cannot be asked at present.
pub async fn polecat_done(
    args: &WitnessArgs,
    id: u64,
    done: PolecatDone,
) -> Result<Handled, Refusal> {
    let world = &args.world;
    let (raider, subject) = (done.raider.clone(), done.raider.to_string());
    let (relic, incarnation) = (done.relic.clone(), done.incarnation);
    let (hook, saga, mr) = world
        .store
        .run(move |txn| {
            let saga = txn.saga_of(SagaKind::Done, &subject)?;
            let mr = txn.mr_of(&relic, &raider, incarnation)?;
            Ok((txn.hook(&raider)?, saga, mr))
        })
        .await?;
    let Some(hook) = hook.filter(|hook| hook.incarnation == done.incarnation) else {
        // Fenced: whatever it was about is gone, and its successor is not touched.
        world.store.run(move |txn| txn.handled(id)).await?;
        return Ok(Handled::Yes);
    };
    if saga.is_some() {
        // Its session is being ended; the end of the saga makes the witness look again.
        return Ok(Handled::AtPatrol);
    }
    if mr.is_some_and(|mr| awaits_person(&mr)) {
        // Measured again when somebody has looked.
        return Ok(Handled::AtPatrol);
    }
    let Some(facts) = measure(args, &hook).await? else {
        return Ok(Handled::AtPatrol);
    };
    let said = hook.done.as_ref();
    let no_change = done.exit == Exit::Completed && said.is_some_and(|intent| intent.no_change);
    if let Some(problem) = objection(&hook, &facts, no_change) {
        return changed_since(args, &hook, &facts, problem).await;
    }
    let lands = done.exit == Exit::Completed && !no_change;
    if lands && facts.ahead == 0 && facts.head != done.head {
        // Nothing would land, and the relic would be closed for it.
        lost_commits(args, &hook, &done.head, &facts.head).await?;
        return Ok(Handled::AtPatrol);
    }
    if facts.ahead > 0 {
        match ensure_pushed(args, &hook, &done.head, &facts.head).await {
            Ok(()) => {}
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                let problem = "the finished branch cannot be pushed as it is";
                escalate(args, &hook, problem, error.to_string()).await?;
                return Ok(Handled::AtPatrol);
            }
        }
    }
    world.at(FaultPoint::WitnessReadyBefore);
    let head = facts.head;
    let settled = match done.exit {
        Exit::Completed if no_change => {
            close_unchanged(args, id, hook).await.map(|()| Handled::Yes)
        }
        Exit::Completed => vouch(args, id, hook, done, head).await,
        Exit::Escalated | Exit::Deferred => put_off(args, id, hook).await.map(|()| Handled::Yes),
    };
    world.at(FaultPoint::WitnessReadyAfter);
    settled
}

/// What is there is not what was declared: it is kept until somebody sees to it, or for `keep_dirty`.
async fn changed_since(
    args: &WitnessArgs,
    hook: &Hook,
    facts: &GitFacts,
    problem: &str,
) -> Result<Handled, Refusal> {
    let said = hook.done.as_ref();
    let mut losses = losses(facts);
    if facts.ahead > 0 && said.is_some_and(|intent| intent.no_change) {
        losses.push(format!("{} commits up to {}", facts.ahead, facts.head));
    }
    let kept = Kept {
        hook,
        owns: true,
        since: said.map_or(hook.charged_at, |intent| intent.at),
        detected: None,
        problem,
        refused: Refusal {
            status: Some(CleanupStatus::measured(facts)),
            ..Refusal::work_at_risk(problem, losses)
        },
    };
    kept::kept(args, kept).await
}

/// What is in the sandbox now; nothing when that cannot be known, which a person is told.
async fn measure(args: &WitnessArgs, hook: &Hook) -> Result<Option<GitFacts>, Refusal> {
    let world = &args.world;
    let (path, target) = (world.city.sandbox(&hook.raider), hook.target.clone());
    let facts = effects::repo(world, &args.rig, move |repo| repo.facts(&path, &target));
    match facts.await.map_err(Refusal::from) {
        Ok(facts) => Ok(Some(facts)),
        Err(error) if error.is_passing() => Err(error),
        Err(error) => {
            let problem = "the sandbox cannot be measured after done";
            escalate(args, hook, problem, error.to_string()).await?;
            Ok(None)
        }
    }
}

/// Why what is in the sandbox now is not what was declared.
fn objection(hook: &Hook, facts: &GitFacts, no_change: bool) -> Option<&'static str> {
    if !facts.is_committed() {
        return Some("the sandbox is not clean after done");
    }
    if facts.branch.as_ref() != Some(&hook.branch) {
        // Whatever that is, it was not declared: it would be pushed and landed in its stead.
        return Some("another branch is checked out after done");
    }
    let later = no_change && facts.ahead > 0;
    later.then_some("commits were made after done said that nothing had to change")
}

/// Calls a person about a branch that nothing would land from, and names the ways out.
async fn lost_commits(
    args: &WitnessArgs,
    hook: &Hook,
    said: &Oid,
    now: &Oid,
) -> Result<(), Refusal> {
    let key = (hook.relic.clone(), hook.raider.clone(), hook.incarnation);
    let read = move |txn: &mut dyn Txn| txn.mr_of(&key.0, &key.1, key.2);
    let mr = args.world.store.run(read).await?;
    let mr = mr.map_or_else(String::new, |mr| mr.id.to_string());
    let evidence = format!(
        "done said {said}, now it is at {now}\n`hd mq reject {mr}` gives the work to a fresh raider; \
         `hd raider nuke {} --salvage` does too and keeps what the sandbox holds",
        hook.raider
    );
    escalate(
        args,
        hook,
        "the branch lost its commits after done",
        evidence,
    )
    .await
}

/// The head that the sandbox has now is on the remote; a head that moved after `done` is pushed
/// again first (`4-rules.md`, done). What was pushed at `done` is ours to replace, by lease: the agent
/// may have amended it since.
async fn ensure_pushed(
    args: &WitnessArgs,
    hook: &Hook,
    pushed: &Oid,
    head: &Oid,
) -> Result<(), Refusal> {
    let (branch, pushed, head) = (hook.branch.clone(), pushed.clone(), head.clone());
    effects::repo(&args.world, &args.rig, move |repo| {
        match repo.remote_head(&branch)? {
            Some(there) if there == head => Ok(()),
            Some(there) if there == pushed => repo.push_branch(&branch, &head, Some(&pushed)),
            _ => repo.push_branch(&branch, &head, None),
        }
    })
    .await?;
    Ok(())
}

/// Sends MERGE_READY, or waits for a person. POLECAT_DONE stays open meanwhile: what a person
/// approves is measured again before it goes on.
async fn vouch(
    args: &WitnessArgs,
    id: u64,
    hook: Hook,
    done: PolecatDone,
    head: Oid,
) -> Result<Handled, Refusal> {
    let world = &args.world;
    let human = world
        .city
        .rig(&args.rig)
        .is_some_and(|rig| rig.forge.review_human);
    let wanted = human || done.gate.is_some();
    let (from, to) = (message::witness(&args.rig), message::forge(&args.rig));
    let forge = to.clone();
    let sent = world.store.run(move |txn| {
        let missing = || StoreError::Failed(format!("{} has no merge request", hook.relic));
        let mr = txn.mr_of(&hook.relic, &hook.raider, hook.incarnation)?;
        let mut mr = mr.ok_or_else(missing)?;
        if mr.state != MrState::Reviewing {
            txn.handled(id)?;
            return Ok(Handled::Yes);
        }
        mr.head = head.clone();
        if wanted && mr.review != Review::Approved {
            return hold(txn, mr);
        }
        mr.note = None;
        txn.put_mr(&mr)?;
        if txn.handled(id)? {
            let ready = ready(&hook, &mr.id, &head);
            txn.send(&from, &to, Body::MergeReady(ready))?;
            let about = About {
                raider: hook.raider.clone(),
                incarnation: hook.incarnation,
                relic: Some(hook.relic.clone()),
            };
            let evidence = format!("{} of {}", mr.id, hook.branch);
            wisps::track(txn, &about, Cleanup::MergeRequested, &evidence)?;
        }
        Ok(Handled::Yes)
    });
    let sent = sent.await?;
    world.nudge(&forge);
    Ok(sent)
}

/// Whether it is noted that a person must look, and none has.
pub(super) fn awaits_person(mr: &MergeRequest) -> bool {
    mr.state == MrState::Reviewing && mr.review == Review::Wanted && mr.note.is_some()
}

/// Notes, once, that a person must look.
fn hold(txn: &mut dyn Txn, mut mr: MergeRequest) -> Result<Handled, StoreError> {
    let first = !awaits_person(&mr);
    mr.review = Review::Wanted;
    mr.note = Some(format!(
        "a person must look: hd mq approve {0} or hd mq reject {0}",
        mr.id
    ));
    txn.put_mr(&mr)?;
    if first {
        land::record_mr(txn, EventType::MrHeld, &mr, Cause::Done)?;
    }
    Ok(Handled::AtPatrol)
}

fn ready(hook: &Hook, mr: &RelicId, head: &Oid) -> MergeReady {
    MergeReady {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        rig: hook.raider.rig.clone(),
        relic: hook.relic.clone(),
        mr: mr.clone(),
        branch: hook.branch.clone(),
        head: head.clone(),
        verified: "session ended, sandbox clean, head on the remote".to_owned(),
    }
}

/// The verified no-change completion: closed without a merge request.
async fn close_unchanged(args: &WitnessArgs, id: u64, hook: Hook) -> Result<(), Refusal> {
    let closed = args.world.store.run(move |txn| {
        if !txn.handled(id)? {
            return Ok(());
        }
        let reason = hook.done.as_ref().and_then(|intent| intent.reason.clone());
        let mut relic = txn.relic(&hook.relic)?;
        relic.status = RelicStatus::Closed;
        relic.closed = Some(txn.now());
        txn.put_relic(&relic)?;
        let data = serde_json::json!({
            "relic": relic.id, "raider": hook.raider, "no_change": true, "reason": reason,
        });
        let event = NewEvent::new(EventType::RelicClosed, &relic.id, Cause::Done);
        txn.record(&event.with(data.clone()))?;
        txn.append_cv(&hook.raider.to_string(), "no_change", &data)
            .map(|_| ())
    });
    Ok(closed.await?)
}

/// Escalated work waits for a person, deferred work for its time; both keep what was pushed.
async fn put_off(args: &WitnessArgs, id: u64, hook: Hook) -> Result<(), Refusal> {
    let from = message::witness(&args.rig);
    let stuck = hook
        .done
        .as_ref()
        .is_some_and(|intent| intent.exit == Exit::Escalated);
    let put_off = args.world.store.run(move |txn| {
        if !txn.handled(id)? {
            return Ok(());
        }
        if settle(txn, &hook, stuck)? && stuck {
            let reason = hook.done.as_ref().and_then(|intent| intent.reason.clone());
            let body = Body::Help(Escalation {
                agent: hook.raider.to_string(),
                relic: Some(hook.relic.clone()),
                problem: "the agent is stuck".to_owned(),
                severity: Severity::Medium,
                evidence: reason.unwrap_or_default(),
            });
            txn.send(&from, message::SHAMAN, body)?;
        }
        Ok(())
    });
    put_off.await?;
    args.world.nudge(message::SHAMAN);
    Ok(())
}

/// False when the relic is not this raider's any more: what a person did with it meanwhile holds.
fn settle(txn: &mut dyn Txn, hook: &Hook, stuck: bool) -> Result<bool, StoreError> {
    let intent = hook.done.as_ref();
    let cause = if stuck { Cause::Stuck } else { Cause::Deferred };
    let mut relic = txn.relic(&hook.relic)?;
    let ours = relic.assignee.as_deref() == Some(hook.raider.to_string().as_str());
    if relic.status != RelicStatus::Hooked || !ours {
        return Ok(false);
    }
    relic.status = if stuck {
        RelicStatus::Blocked
    } else {
        RelicStatus::Deferred
    };
    relic.assignee = None;
    relic.until = intent.and_then(|intent| intent.until);
    relic.branch = Some(hook.branch.clone());
    txn.put_relic(&relic)?;
    let data = serde_json::json!({
        "status": relic.status, "raider": hook.raider, "until": relic.until,
        "reason": intent.and_then(|intent| intent.reason.clone()),
    });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, cause);
    txn.record(&event.with(data.clone()))?;
    if stuck {
        let event = NewEvent::new(EventType::RaiderStuck, &hook.raider, cause);
        txn.record(&event.with(data.clone()))?;
    }
    let kind = if stuck { "escalated" } else { "deferred" };
    txn.append_cv(&hook.raider.to_string(), kind, &data)?;
    Ok(true)
}
