//! Accounts of harnesses in `status`, and `harness.resume`.

use jiff::{Timestamp, Unit};
use serde_json::Value;

use super::to_json;
use crate::actors::accounts;
use crate::actors::mail::{ChildView, SessionView};
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::{Account, HarnessResumed};
use crate::domain::account::{Park, Why};
use crate::domain::asker::Asker;
use crate::domain::condition::Condition;
use crate::domain::ids::HarnessName;
use crate::domain::suggest::closest;

/// Returns the parked accounts, and until when.
pub(super) fn list(world: &World) -> Vec<Account> {
    let parked = world.directory.accounts.all_parked();
    let parked = parked.into_iter().map(|(account, park)| {
        let mut harnesses = world.city.harnesses.values();
        let harness = harnesses.find(|harness| harness.account == account);
        Account {
            harness: harness.map(|harness| harness.name.to_string()),
            account,
            condition: park.why.word().to_owned(),
            detail: park.text,
            until: park.until,
            guessed: park.guesses > 0,
            since: park.since,
            told_by: park.told_by,
        }
    });
    parked.collect()
}

/// Returns the condition of a child: that of its session, or why it has none.
pub(super) fn condition(
    world: &World,
    view: Option<&ChildView>,
    harness: Option<&HarnessName>,
) -> Option<Condition> {
    let view = view?;
    let session = view.session.as_ref();
    let shown = session.and_then(|session| world.directory.conditions.of(&session.handle));
    let directory = &world.directory;
    let turn =
        harness.and_then(|harness| directory.accounts.turn(&world.city, harness, &view.spec.id));
    let park = || directory.accounts.parked(&world.city, harness?);
    let waits = session.is_none() && view.parked.is_some();
    match (shown, turn) {
        // A limit that is over is not shown as present: several sessions continue one after another.
        (Some(Condition::RateLimited { .. }), Some(turn)) => Some(its_turn(turn)),
        (None, Some(turn)) if waits => Some(its_turn(turn)),
        // All sessions of an account have the same end of the limit.
        (Some(Condition::RateLimited { text, until }), None) => {
            let until = park().and_then(|park| park.until).or(until);
            Some(Condition::RateLimited { text, until })
        }
        (None, None) if waits => park().map(as_condition),
        (shown, _) => shown,
    }
}

/// Returns the condition of a child whose account's limit is over, and that continues at `turn`.
fn its_turn(turn: Timestamp) -> Condition {
    let turn = turn.round(Unit::Second).unwrap_or(turn);
    Condition::RateLimited {
        text: format!("the limit is over; it continues at {turn}, in its turn"),
        until: Some(turn),
    }
}

/// Returns the known choices of a question, or of a login's dialog.
pub(super) fn choices(
    world: &World,
    session: Option<&SessionView>,
    shown: Option<&Condition>,
) -> Vec<String> {
    match (shown, session) {
        (Some(Condition::NeedsInput { choices, .. }), _) => choices.clone(),
        (Some(Condition::Auth { .. }), Some(session)) => {
            world.directory.conditions.choices(&session.handle)
        }
        (Some(_) | None, _) => Vec::new(),
    }
}

fn as_condition(park: Park) -> Condition {
    let (text, until) = (park.text, park.until);
    match park.why {
        Why::RateLimited => Condition::RateLimited { text, until },
        Why::Auth => Condition::Auth { text },
    }
}

/// Lets the sessions of a harness's account continue now: a person logged in, or the limit is over.
pub(super) fn resume(world: &World, by: Asker, name: &str) -> Result<Value, ControlError> {
    let harnesses = &world.city.harnesses;
    let named = HarnessName::new(name).ok();
    let Some(harness) = named.and_then(|name| harnesses.get(&name)) else {
        let names = || harnesses.keys().map(HarnessName::as_str);
        let hint = match closest(name, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("harnesses: {}", names().collect::<Vec<_>>().join(", ")),
        };
        return Err(ControlError::not_found(format!("no harness named {name}")).hint(hint));
    };
    let resumed = accounts::unpark(world, &harness.name, by);
    to_json(&HarnessResumed {
        harness: harness.name.clone(),
        account: harness.account.clone(),
        resumed,
    })
}
