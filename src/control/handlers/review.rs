//! `review`: a raider records a round of self-review (`agent-lifecycle.md`, section 4).

use serde_json::Value;

use super::caller::own_hook;
use super::{session_verbs, to_json};
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::SelfReview;
use crate::control::protocol::args;
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::relic::{Exit, Hook};
use crate::domain::self_review::{self, Round, Verdict};
use crate::ports::relics::{StoreError, Txn};

/// The maximum size of a note, in bytes.
const NOTE_MAX: usize = 4 * 1024;
/// The maximum number of rounds of one incarnation: a session in a loop does not fill the store.
const ROUNDS_MAX: usize = 20;

/// Records the round. `stuck` declares the completion `escalated` first, and is recorded if that is accepted.
pub(super) async fn record(
    world: &World,
    caller: &Caller,
    args: args::Review,
) -> Result<Value, ControlError> {
    let note = args.message.filter(|note| !note.trim().is_empty());
    if note.as_ref().is_some_and(|note| note.len() > NOTE_MAX) {
        let message = format!("the note is longer than {} KiB", NOTE_MAX / 1024);
        return Err(ControlError::bad_request(message).hint("commit the details, or shorten it"));
    }
    let hook = own_hook(world, caller).await?;
    if hook.is_declared() {
        return Err(ControlError::conflict(
            "the work is done; its review is over",
        ));
    }
    let rig = world.city.rig(&hook.raider.rig);
    let max = rig.map_or(1, |rig| rig.raiders.max_reviews);
    let verdict = args.verdict;
    if verdict == Verdict::Stuck {
        let Some(why) = &note else {
            let message = "`stuck` needs the reason: a person reads it";
            return Err(ControlError::bad_request(message).hint("hd review stuck -m WHY"));
        };
        session_verbs::done(world, caller, &stuck(why)).await?;
    }
    let add = move |txn: &mut dyn Txn| add(txn, &hook, max, verdict, note.as_deref());
    to_json(&world.store.run(add).await?)
}

fn stuck(why: &str) -> args::Done {
    args::Done {
        status: Exit::Escalated,
        cleanup_status: None,
        no_change: false,
        until: None,
        reason: Some(why.to_owned()),
    }
}

fn add(
    txn: &mut dyn Txn,
    hook: &Hook,
    max: u32,
    verdict: Verdict,
    note: Option<&str>,
) -> Result<SelfReview, StoreError> {
    let now = txn.hook(&hook.raider)?;
    let now = now.filter(|now| now.incarnation == hook.incarnation);
    // What is declared meanwhile ends the review; `stuck` is such a declaration.
    if verdict != Verdict::Stuck && now.is_none_or(|now| now.is_declared()) {
        let why = "the work is done; its review is over";
        return Err(StoreError::Conflict(why.to_owned()));
    }
    let mut rounds = txn.self_reviews(&hook.relic, &hook.raider, hook.incarnation)?;
    if !self_review::may_follow(&rounds, max, verdict) {
        let why = format!(
            "{max} of {max} self-reviews of {} failed: run `hd review stuck -m WHY`",
            hook.relic
        );
        return Err(StoreError::Conflict(why));
    }
    if rounds.len() >= ROUNDS_MAX && verdict != Verdict::Stuck {
        let why = format!("{ROUNDS_MAX} self-reviews of {} are recorded", hook.relic);
        return Err(StoreError::Conflict(why));
    }
    let last = rounds.last().map_or(0, |last| last.round);
    let round = Round {
        relic: hook.relic.clone(),
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        round: last + 1,
        verdict,
        note: note.map(str::to_owned),
        at: txn.now(),
    };
    txn.add_self_review(&round)?;
    rounds.push(round.clone());
    let left = self_review::left(&rounds, max);
    let data = serde_json::json!({
        "relic": hook.relic, "incarnation": hook.incarnation, "round": round.round,
        "verdict": verdict, "note": note, "left": left,
    });
    let asker = Asker::agent(hook.raider.to_string());
    let event = NewEvent::new(EventType::RaiderReviewed, &hook.raider, &asker);
    txn.record(&event.with(data))?;
    Ok(SelfReview { round, max, left })
}
