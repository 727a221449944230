//! POLECAT_DONE: validated by a new measurement, then passed on as MERGE_READY (`witness-patrol.md`, signal flow). A
//! raider's report alone is never enough.
//!
//! ```text
//!  of another incarnation ──► void            done saga still open ──► later
//!  withdrawn by a rejection ──► void
//!  tree not clean ──► kept                    remote lacks the head ──► pushed again, or kept
//!  cannot be measured, or nothing would land ──► kept
//!  sandbox gone ──► the declared head goes on, unless its branch holds more than was pushed
//!  approved by a person ──► the reviewed head goes on, whatever the sandbox has since
//!  completed ──► MERGE_READY (or waits for a person)
//!  no change ──► closed    escalated ──► blocked    deferred ──► deferred
//! ```

use super::super::declared::review;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::{closing, done, land, nuke};
use super::super::{ask, declared};
use super::inbox::{Handled, raise};
use super::kept_sandboxes::{self, KeptSandbox};
use super::{WitnessArgs, remote_branch, wisps};
use crate::actors::mail::{ChildRef, NukeTarget};
use crate::actors::records::identities::{self, Ended};
use crate::actors::records::later_heads;
use crate::domain::attempt::Outcome;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::{MergeRequest, MrState, Review};
use crate::domain::message::{self, Body, Escalation, MergeReady, RaiderDone};
use crate::domain::nuke::{CleanupStatus, losses, mismatch};
use crate::domain::problem::ProblemKind;
use crate::domain::queue::Step;
use crate::domain::relic::{Completion, Hook, RelicStatus};
use crate::domain::saga::{FaultPoint, SagaKind};
use crate::domain::wisp::{About, Cleanup};
use crate::ports::relics::{StoreError, Txn};

/// Validates a POLECAT_DONE.
///
/// # Errors
/// The remote, the repository or the store is not available at present.
pub async fn raider_done(
    args: &WitnessArgs,
    id: u64,
    done: RaiderDone,
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
    if mr.as_ref().is_some_and(MergeRequest::awaits_person) {
        return Ok(Handled::AtPatrol);
    }
    let hook = hook.filter(|hook| hook.incarnation == done.incarnation);
    if hook.is_some() && saga.is_some() {
        // Its session is being ended, or it submits later commits; the end of the saga makes the witness look again.
        return Ok(Handled::AtPatrol);
    }
    let landed = mr.as_ref().is_some_and(|mr| mr.state == MrState::Merged);
    match (hook, mr.filter(MergeRequest::is_in_review)) {
        (hook, Some(mr)) => approved(args, id, done, (hook, mr)).await,
        (Some(hook), None) if !landed && hook.is_declared() => finished(args, id, done, hook).await,
        // It landed elsewhere during its review; or a person rejected it, and its session works on; or fenced: that incarnation
        // is gone, and its successor is not touched.
        (Some(_), None) | (None, None) => {
            world.store.run(move |txn| txn.handled(id)).await?;
            Ok(Handled::Yes)
        }
    }
}

/// Passes on the sandbox's present state, or keeps the sandbox.
async fn finished(
    args: &WitnessArgs,
    id: u64,
    done: RaiderDone,
    hook: Hook,
) -> Result<Handled, Refusal> {
    let world = &args.world;
    let said = hook.done.as_ref();
    let no_change =
        done.exit == Completion::Completed && said.is_some_and(|intent| intent.no_change);
    let lands = done.exit == Completion::Completed && !no_change;
    let (head, is_pushed, status) = match measure(args, &hook).await? {
        Validation::There(facts) => {
            if let Some(problem) = objection(&hook, &facts, no_change) {
                return changed_since(args, &hook, &facts, problem).await;
            }
            if lands && facts.ahead == 0 && facts.head != done.head {
                // Nothing would land, and the relic would be closed for it.
                return lost_commits(args, &hook, &done.head, &facts).await;
            }
            let status = CleanupStatus::measured(&facts);
            if lands && facts.head != done.head {
                // These commits were made after `done`, which checked others.
                if let Some(refused) = declared::unfit(world, &hook, &facts).await? {
                    return stays(args, &hook, ProblemKind::Unpushed, refused).await;
                }
            }
            (facts.head, facts.ahead > 0, status)
        }
        Validation::Gone(None) => (done.head.clone(), lands, CleanupStatus::Clean),
        Validation::Gone(Some(refused)) => {
            let problem = ProblemKind::SandboxGoneUnpushed;
            return stays(args, &hook, problem, refused).await;
        }
        Validation::Unseen(refused) => {
            let problem = ProblemKind::FinishedUnmeasured;
            return stays(args, &hook, problem, refused).await;
        }
    };
    if is_pushed && let Some(why) = remote_branch::ensure_pushed(args, &done, &head, None).await? {
        let refused = Refusal {
            status: Some(status),
            ..Refusal::work_at_risk(
                ProblemKind::Unpushed.text(),
                vec![format!("commits up to {head}: {why}")],
            )
        };
        return stays(args, &hook, ProblemKind::Unpushed, refused).await;
    }
    world.at(FaultPoint::WitnessReadyBefore);
    let settled = match done.exit {
        Completion::Completed if no_change => {
            close_unchanged(args, id, hook).await.map(|()| Handled::Yes)
        }
        Completion::Completed => send_merge_ready(args, id, done, head).await,
        Completion::Escalated | Completion::Deferred => {
            put_off(args, id, hook).await.map(|()| Handled::Yes)
        }
    };
    world.at(FaultPoint::WitnessReadyAfter);
    settled
}

/// Handles an approval: ends the session that was kept for the review, and passes on the head that was reviewed, as far
/// as the remote has it or has later commits of its raider in its place. Later work of the session does not land: the
/// removal of the sandbox finds it, and calls a person.
async fn approved(
    args: &WitnessArgs,
    id: u64,
    done: RaiderDone,
    (hook, mr): (Option<Hook>, MergeRequest),
) -> Result<Handled, Refusal> {
    if hook.is_some() {
        let meant = ChildRef::raider(&done.raider, done.incarnation);
        ask::end(&args.world, meant, Cause::Approved).await?;
    }
    let (of, head) = (mr.id, mr.head);
    let later = args.world.store.run(move |txn| later_heads::read(txn, &of));
    let later = later.await?;
    if let Some(why) = remote_branch::ensure_pushed(args, &done, &head, later).await? {
        // The approved commit may be in no sandbox.
        let body = Escalation::high(&done.raider, ProblemKind::Unpushed, why.message)
            .on(done.relic.clone());
        raise(args, body).await?;
        return Ok(Handled::AtPatrol);
    }
    send_merge_ready(args, id, done, head).await
}

/// Keeps a sandbox that differs from what was declared, until a person resolves it, or for `keep_dirty`.
async fn changed_since(
    args: &WitnessArgs,
    hook: &Hook,
    facts: &GitFacts,
    problem: ProblemKind,
) -> Result<Handled, Refusal> {
    let said = hook.done.as_ref();
    report_mismatch(args, hook, facts).await?;
    let mut losses = losses(facts);
    if facts.ahead > 0 && said.is_some_and(|intent| intent.no_change) {
        losses.push(format!("{} commits up to {}", facts.ahead, facts.head));
    }
    let refused = Refusal {
        status: Some(CleanupStatus::measured(facts)),
        ..Refusal::work_at_risk(problem.text(), losses)
    };
    stays(args, hook, problem, refused).await
}

/// Records once that a report disagrees with the present state.
async fn report_mismatch(args: &WitnessArgs, hook: &Hook, facts: &GitFacts) -> Result<(), Refusal> {
    let Some(intent) = &hook.done else {
        return Ok(());
    };
    let Some(reported) = intent.cleanup_status else {
        return Ok(());
    };
    let Some(measured) = mismatch(reported, facts) else {
        return Ok(());
    };
    let event = done::mismatch(&hook.raider, reported, measured);
    let (raider, incarnation) = (hook.raider.clone(), hook.incarnation);
    let record = move |txn: &mut dyn Txn| {
        let hook = txn.hook(&raider)?;
        let Some(mut hook) = hook.filter(|hook| hook.incarnation == incarnation) else {
            return Ok(());
        };
        match &mut hook.done {
            Some(intent) if intent.mismatch != Some(measured) => intent.mismatch = Some(measured),
            _ => return Ok(()),
        }
        txn.put_hook(&hook)?;
        txn.record(&event).map(drop)
    };
    Ok(args.world.store.run(record).await?)
}

/// Keeps a sandbox that cannot be removed as it is, and tells a person; kept until a person resolves it, or for
/// `keep_dirty`.
async fn stays(
    args: &WitnessArgs,
    hook: &Hook,
    problem: ProblemKind,
    refused: Refusal,
) -> Result<Handled, Refusal> {
    let said = hook.done.as_ref();
    let kept = KeptSandbox {
        hook,
        owns: true,
        since: said.map_or(hook.charged_at, |intent| intent.at),
        detected: None,
        problem,
        refused,
        may_go: true,
    };
    kept_sandboxes::retain(args, kept).await
}

/// The state of a finished sandbox.
enum Validation {
    /// Present.
    There(GitFacts),
    /// Removed by hand; with the refusal when its branch alone holds commits.
    Gone(Option<Refusal>),
    /// Unknown, with the reason.
    Unseen(Refusal),
}

/// Measures the sandbox.
async fn measure(args: &WitnessArgs, hook: &Hook) -> Result<Validation, Refusal> {
    let world = &args.world;
    let target = NukeTarget::of(hook, Cause::Done);
    let error = match nuke::facts(world, &target).await.map_err(Refusal::from) {
        Ok(Some(facts)) => return Ok(Validation::There(facts)),
        Ok(None) => match nuke::check(world, &target).await {
            Ok(_) => return Ok(Validation::Gone(None)),
            Err(refused) if refused.kind == RefusalKind::WorkAtRisk => {
                return Ok(Validation::Gone(Some(refused)));
            }
            Err(error) => error,
        },
        Err(error) => error,
    };
    if error.is_passing() {
        return Err(error);
    }
    Ok(Validation::Unseen(nuke::unreadable(&target, error.message)))
}

/// Returns why the present state is not the declared one.
fn objection(hook: &Hook, facts: &GitFacts, no_change: bool) -> Option<ProblemKind> {
    if !facts.is_committed() {
        return Some(ProblemKind::SandboxChanged);
    }
    if facts.branch.as_ref() != Some(&hook.branch) {
        // Another branch was not declared: it would be pushed and landed instead.
        return Some(ProblemKind::OtherBranch);
    }
    let later = no_change && facts.ahead > 0;
    later.then_some(ProblemKind::CommitsAfterDone)
}

/// Keeps a sandbox from whose branch nothing would land, and tells a person the ways out.
async fn lost_commits(
    args: &WitnessArgs,
    hook: &Hook,
    said: &Oid,
    facts: &GitFacts,
) -> Result<Handled, Refusal> {
    let key = (hook.relic.clone(), hook.raider.clone(), hook.incarnation);
    let read = move |txn: &mut dyn Txn| txn.mr_of(&key.0, &key.1, key.2);
    let mr = args.world.store.run(read).await?;
    let mr = mr.map_or_else(String::new, |mr| mr.id.to_string());
    let problem = ProblemKind::BranchLostCommits;
    let lost = vec![
        format!("done declared {said}, now it is at {}", facts.head),
        format!("`hd mq reject {mr}` gives the work to a fresh raider"),
    ];
    let refused = Refusal {
        status: Some(CleanupStatus::measured(facts)),
        ..Refusal::work_at_risk(problem.text(), lost)
    };
    stays(args, hook, problem, refused).await
}

/// Sends MERGE_READY, or waits for a review. POLECAT_DONE stays open meanwhile: an approved merge request is measured
/// again before it goes on.
async fn send_merge_ready(
    args: &WitnessArgs,
    id: u64,
    done: RaiderDone,
    head: Oid,
) -> Result<Handled, Refusal> {
    let world = &args.world;
    let needed = needed(args, &done, &head).await?;
    let (from, to) = (message::witness(&args.rig), message::forge(&args.rig));
    let forge = to.clone();
    let sent = world.store.run(move |txn| {
        let missing = || StoreError::Failed(format!("{} has no merge request", done.relic));
        let mr = txn.mr_of(&done.relic, &done.raider, done.incarnation)?;
        let mut mr = mr.ok_or_else(missing)?;
        if mr.state != MrState::Reviewing {
            txn.handled(id)?;
            return Ok(Handled::Yes);
        }
        // An approval is of the head that was shown.
        let is_approved = mr.review == Review::Approved && mr.head == head;
        let was_approved = mr.review == Review::Approved;
        if (needed.is_some() || was_approved || done.gate.is_some()) && !is_approved {
            let why = needed.as_ref().and_then(|needed| needed.why.as_deref());
            land::hold_for_review(txn, mr, &head, why)?;
            return Ok(Handled::AtPatrol);
        }
        land::take(txn, &mut mr, &Step::Ready(head.clone()))?;
        if txn.handled(id)? {
            let ready = ready(&done, &mr.id, &head);
            txn.send(&from, &to, Body::MergeReady(ready))?;
            let about = About {
                raider: done.raider.clone(),
                incarnation: done.incarnation,
                relic: Some(done.relic.clone()),
            };
            let evidence = format!("{} of {}", mr.id, done.branch);
            wisps::track(txn, &about, Cleanup::MergeRequested, &evidence)?;
        }
        Ok(Handled::Yes)
    });
    let sent = sent.await?;
    world.nudge(&forge);
    Ok(sent)
}

/// Returns the review that the head needs; none where the head would not land.
async fn needed(
    args: &WitnessArgs,
    done: &RaiderDone,
    head: &Oid,
) -> Result<Option<review::Needed>, Refusal> {
    let key = (done.relic.clone(), done.raider.clone(), done.incarnation);
    let read = move |txn: &mut dyn Txn| txn.mr_of(&key.0, &key.1, key.2);
    let mr = args.world.store.run(read).await?;
    match mr.filter(|mr| mr.state == MrState::Reviewing && mr.review != Review::Approved) {
        // What waits already was compared with the target when it was submitted.
        Some(mr) if mr.awaits_person() && mr.head == *head => {
            review::by_known_tip(&args.world, &args.rig, head, &mr.target).await
        }
        Some(mr) => review::needed(&args.world, &args.rig, head, &mr.target).await,
        None => Ok(None),
    }
}

fn ready(done: &RaiderDone, mr: &RelicId, head: &Oid) -> MergeReady {
    MergeReady {
        raider: done.raider.clone(),
        incarnation: done.incarnation,
        rig: done.rig.clone(),
        relic: done.relic.clone(),
        mr: mr.clone(),
        branch: done.branch.clone(),
        head: head.clone(),
        verified: "session ended, sandbox clean, head on the remote".to_owned(),
    }
}

/// Closes a verified no-change completion without a merge request.
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
        txn.record(&event.with(data))?;
        closing::close_steps(txn, &relic, &Cause::Done.into())?;
        identities::end(txn, &Ended::of_hook(&hook, Outcome::NoChange))
    });
    Ok(closed.await?)
}

/// Settles escalated work, which waits for a person, and deferred work, which waits for its time; both keep what was
/// pushed.
async fn put_off(args: &WitnessArgs, id: u64, hook: Hook) -> Result<(), Refusal> {
    let from = message::witness(&args.rig);
    let stuck = hook
        .done
        .as_ref()
        .is_some_and(|intent| intent.exit == Completion::Escalated);
    let put_off = args.world.store.run(move |txn| {
        if !txn.handled(id)? {
            return Ok(());
        }
        if release_relic(txn, &hook, stuck)? && stuck {
            let reason = hook.done.as_ref().and_then(|intent| intent.reason.clone());
            let body = Body::Help(
                Escalation::high(
                    &hook.raider,
                    ProblemKind::AgentStuck,
                    reason.unwrap_or_default(),
                )
                .on(hook.relic.clone())
                .medium(),
            );
            txn.send(&from, message::SHAMAN, body)?;
        }
        Ok(())
    });
    put_off.await?;
    args.world.nudge(message::SHAMAN);
    Ok(())
}

/// Returns false when the relic is not this raider's any more: a person's decision meanwhile holds.
fn release_relic(txn: &mut dyn Txn, hook: &Hook, stuck: bool) -> Result<bool, StoreError> {
    let intent = hook.done.as_ref();
    let cause = if stuck { Cause::Stuck } else { Cause::Deferred };
    let mut relic = txn.relic(&hook.relic)?;
    let ours = relic.is_of(&hook.raider);
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
        "status": relic.status, "raider": hook.raider, "relic": relic.id, "until": relic.until,
        "reason": intent.and_then(|intent| intent.reason.clone()),
    });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, cause);
    txn.record(&event.with(data.clone()))?;
    if stuck {
        let event = NewEvent::new(EventType::RaiderStuck, &hook.raider, cause);
        txn.record(&event.with(data))?;
    }
    let outcome = if stuck {
        Outcome::Escalated
    } else {
        Outcome::Deferred
    };
    identities::end(txn, &Ended::of_hook(hook, outcome))?;
    Ok(true)
}
