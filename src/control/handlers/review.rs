//! `review`: a raider records a round of self-review (`agent-lifecycle.md`, section 4).

use serde_json::Value;

use super::caller::own_hook;
use super::{session_verbs, to_json};
use crate::actors::records::self_reviews;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::SelfReview;
use crate::control::protocol::args;
use crate::control::server::Caller;
use crate::domain::relic::Completion;
use crate::domain::self_review::{self, Verdict};
use crate::ports::relics::Txn;

/// The maximum size of a note, in bytes.
const NOTE_MAX: usize = 4 * 1024;

/// Records the round. `stuck` declares the completion `escalated`, and is recorded with it.
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
        // The round is recorded with the declaration.
        session_verbs::stuck(world, caller, &stuck(why)).await?;
        let read =
            move |txn: &mut dyn Txn| txn.self_reviews(&hook.relic, &hook.raider, hook.incarnation);
        let mut rounds = world.store.run(read).await?;
        let left = self_review::left(&rounds, max);
        // Another completion was declared meanwhile.
        let over = || ControlError::conflict("the work is done; its review is over");
        let last = rounds.pop().filter(|last| last.verdict == Verdict::Stuck);
        let round = last.ok_or_else(over)?;
        return to_json(&SelfReview { round, max, left });
    }
    let add = move |txn: &mut dyn Txn| self_reviews::add(txn, &hook, max, verdict, note.as_deref());
    let (round, left) = world.store.run(add).await?;
    to_json(&SelfReview { round, max, left })
}

fn stuck(why: &str) -> args::Done {
    args::Done {
        status: Completion::Escalated,
        cleanup_status: None,
        no_change: false,
        until: None,
        reason: Some(why.to_owned()),
    }
}
