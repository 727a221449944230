//! Rounds of self-review (`agent-lifecycle.md`, section 4).

use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::relic::Hook;
use crate::domain::self_review::{self, Round, Verdict};
use crate::ports::relics::{StoreError, Txn};

/// The maximum number of rounds of one incarnation: a session in a loop does not fill the store.
const ROUNDS_MAX: usize = 20;

/// Records a round. Returns it with the number of rounds that may still fail. `stuck` is recorded in the transaction
/// that declares it.
///
/// # Errors
/// [`StoreError::Conflict`] when the work is declared, or the verdict may not follow the earlier ones.
pub fn add(
    txn: &mut dyn Txn,
    hook: &Hook,
    max: u32,
    verdict: Verdict,
    note: Option<&str>,
) -> Result<(Round, u32), StoreError> {
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
    Ok((round, left))
}
