//! Multi-step operations, one file each, written as a chain of journalled steps that resumes after `kill -9` and
//! unwinds after a failure. They run in tasks; the witness or forge that started a task is told of its end by message.
//! At most one task per saga ([`Claims`](super::claims::Claims)).

pub mod charge;
pub mod closing;
pub mod done;
pub mod land;
pub mod nuke;
pub mod prune;
pub mod pull_request;
pub mod rejection;
pub mod repair;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::claims::{Claim, ClaimKey, Claims};
use super::refusal::{Refusal, RefusalKind};
use super::world::World;
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::StoreError;

/// Returns a saga's plan as JSON.
fn pack(plan: &impl Serialize) -> Value {
    // Plans are plain structs with string keys: they always have a JSON form.
    serde_json::to_value(plan).unwrap_or(Value::Null)
}

/// Reads a saga's plan; an unreadable plan was written by another version.
fn unpack<T: DeserializeOwned>(saga: &Saga) -> Result<T, Refusal> {
    serde_json::from_value(saga.data.clone()).map_err(|error| {
        let message = format!(
            "saga {} ({}) cannot be read: {error}",
            saga.id,
            saga.kind.as_str()
        );
        Refusal::new(RefusalKind::Internal, message)
    })
}

/// Checks that this program can read the plan of a saga that the witness resumes.
///
/// # Errors
/// The plan cannot be read, with the reason.
pub fn check(saga: &Saga) -> Result<(), Refusal> {
    match saga.kind {
        SagaKind::Charge => unpack::<charge::Plan>(saga).map(drop),
        SagaKind::Done => unpack::<done::Plan>(saga).map(drop),
        SagaKind::Nuke => unpack::<nuke::Plan>(saga).map(drop),
        SagaKind::Prune => unpack::<prune::Plan>(saga).map(drop),
        SagaKind::Land => Ok(()),
    }
}

/// Journals that a saga finished a step.
async fn step(
    world: &World,
    saga: &mut Saga,
    name: impl Into<String>,
    plan: &impl Serialize,
) -> Result<(), Refusal> {
    let (id, data, name) = (saga.id, pack(plan), name.into());
    let (stored, next) = (data.clone(), name.clone());
    world
        .store
        .run(move |txn| txn.step_saga(id, &next, &stored))
        .await?;
    saga.step = name;
    saga.data = data;
    Ok(())
}

/// Claims a saga in the transaction that opens it: it is invisible until the commit, so no other task can claim it
/// first.
fn claimed(claims: &Claims, saga: Saga) -> Result<(Saga, Claim), StoreError> {
    match claims.claim(ClaimKey::Saga(saga.id)) {
        Some(claim) => Ok((saga, claim)),
        None => Err(StoreError::Failed(format!(
            "saga {} is already claimed",
            saga.id
        ))),
    }
}
