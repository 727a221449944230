//! A conversation that is about to be compacted: the agent loses part of its context, so it is told the state of its task,
//! or to hand off before that (`on_compact` of `[rigs.raiders]` and of `[[agents]]`).

use std::sync::Arc;
use std::time::Duration;

use super::claims::ClaimKey;
use super::typing::{self, Typing};
use super::world::World;
use crate::domain::city::OnCompact;
use crate::domain::ids::{ChildId, HarnessName};
use crate::domain::prompt;
use crate::domain::typed_line::HELD;
use crate::ports::sessions::SessionHandle;

/// Interval between two checks whether the agent takes text.
const PAUSE: Duration = Duration::from_secs(5);
/// After this the text comes too late. A person's begun line is held for a shorter time.
const PATIENCE: Duration = HELD.saturating_add(Duration::from_secs(5 * 60));

/// Tells the agent, as soon as its program takes text.
pub fn begins(world: &World, child: &ChildId, harness: &HarnessName, handle: &SessionHandle) {
    let Some(text) = instructions(world, child, handle) else {
        return;
    };
    // Programs report one compaction by several hooks.
    let Some(claim) = world
        .claims
        .claim(ClaimKey::Compaction(handle.token.clone()))
    else {
        return;
    };
    let (world, child) = (Arc::new(world.clone()), child.clone());
    let (harness, handle) = (harness.clone(), handle.clone());
    tokio::spawn(async move {
        type_instructions(&world, &child, &harness, &handle, &text).await;
        drop(claim);
    });
}

/// Returns what a session is told; none when its configuration wants nothing said.
fn instructions(world: &World, child: &ChildId, handle: &SessionHandle) -> Option<String> {
    let hd = world.hd();
    let on_compact = match child {
        ChildId::Raider(raider) => world.city.rig(&raider.rig)?.raiders.on_compact,
        ChildId::Agent(_) => world.city.agent_of(&handle.id)?.on_compact,
    };
    match (on_compact, child) {
        (OnCompact::Rally, ChildId::Raider(_)) => Some(prompt::compacted(&hd)),
        (OnCompact::Rally, ChildId::Agent(_)) => Some(prompt::agent_compacted(&hd)),
        (OnCompact::Handoff, ChildId::Raider(_)) => Some(prompt::compacts(&hd)),
        (OnCompact::Handoff, ChildId::Agent(_)) => Some(prompt::agent_compacts(&hd)),
        (OnCompact::Nothing, _) => None,
    }
}

async fn type_instructions(
    world: &World,
    child: &ChildId,
    harness: &HarnessName,
    handle: &SessionHandle,
    text: &str,
) {
    let mut deadline = world.clock.mono() + PATIENCE;
    while world.clock.mono() < deadline && !world.is_stopping() {
        // The hook runs before: text typed now would be compacted, too.
        tokio::time::sleep(PAUSE).await;
        let typing = typing::may_type(world, harness, handle).await;
        if typing == Typing::Gone {
            return;
        }
        let accounts = &world.directory.accounts;
        if accounts.held(&world.city, harness, child).is_some() {
            deadline = world.clock.mono() + PATIENCE;
            continue;
        }
        if typing != Typing::Free {
            continue;
        }
        match typing::submit(world, child, Some(harness), handle, text).await {
            Ok(()) => return,
            // A dialog, an attached person or other text came between.
            Err(later) if later.is_later() => {}
            Err(error) => {
                tracing::warn!(
                    session = %handle.id,
                    %error,
                    "the text about a compaction could not be typed into the session; the agent \
                    is not told"
                );
                return;
            }
        }
    }
    if !world.is_stopping() {
        tracing::warn!(
            session = %handle.id,
            "the session's program took no text in time; the agent is not told about its \
            compaction"
        );
    }
}
