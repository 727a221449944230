//! The outcome file of an incarnation, and whether it counts.

use std::time::Duration;

use jiff::Timestamp;

use crate::actors::effects;
use crate::actors::records::void_outcomes;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sandbox_links;
use crate::actors::world::World;
use crate::domain::outcome::{self, OutcomeFile};
use crate::domain::relic::Hook;
use crate::ports::tasks::{OutcomeText, TaskError};

/// The number of times that an outcome is read again while git works in its sandbox.
const SETTLES: usize = 4;
/// The pause before that.
const SETTLE_EVERY: Duration = Duration::from_millis(500);

/// An outcome file, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeSeen {
    /// The content.
    pub said: OutcomeFile,
    /// When it was last written.
    pub written: Option<Timestamp>,
    /// Set when it counts no longer: a person rejected what it declared.
    pub is_void: bool,
}

/// Reads the outcome file of a raider's incarnation, after the links of its sandbox were put back.
///
/// # Errors
/// The file cannot be read, or the store, which tells whether the file counts.
pub async fn read(world: &World, hook: &Hook) -> Result<OutcomeSeen, Refusal> {
    let mut file = text(world, hook).await?;
    for _ in 0..SETTLES {
        if !file.unsettled {
            break;
        }
        // git works in the sandbox for a moment, which no event ends.
        tokio::time::sleep(SETTLE_EVERY).await;
        file = text(world, hook).await?;
    }
    if file.unsettled {
        let message =
            "git works in the sandbox, or cannot be asked, and a file there may be the outcome";
        return Err(Refusal::new(RefusalKind::Unavailable, message));
    }
    let (own, written) = (hook.clone(), file.written);
    let is_void = world
        .store
        .run(move |txn| void_outcomes::is_void(txn, &own, written))
        .await?;
    if is_void && !file.text.trim().is_empty() {
        // It was to be moved when it was rejected.
        let moved = set_aside(world, hook, written).await;
        if let Err(error) = moved {
            tracing::debug!(raider = %hook.raider, %error, "a rejected outcome still cannot be moved aside");
        }
    }
    let said = match file.odd {
        Some(why) => OutcomeFile::Unclear(why),
        None => outcome::parse(&file.text, &hook.relic),
    };
    Ok(OutcomeSeen {
        said,
        written,
        is_void,
    })
}

async fn text(world: &World, hook: &Hook) -> Result<OutcomeText, Refusal> {
    let dir = world
        .city
        .task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let sandbox = world.city.sandbox(&hook.raider);
    let owner = effects::Owner::Rig(hook.raider.rig.clone());
    let (raider, repo) = (hook.raider.clone(), world.repo(&hook.raider.rig));
    let file = effects::tasks(world, owner, move |tasks| {
        // The sandbox of a held rig may be another directory: what is in it says nothing.
        if let Some(Err(held)) = repo.map(|repo| repo.ready()) {
            let why = held.to_string();
            return Err(TaskError { path: sandbox, why });
        }
        let kept = sandbox_links::repair_with(tasks, &raider, &dir, &sandbox);
        Ok((kept, tasks.outcome(&dir, &sandbox)))
    });
    let (kept, text) = file.await?;
    sandbox_links::tell(world, hook, kept).await;
    Ok(text?)
}

/// Moves the outcomes of a raider's incarnation aside that were declared until this time, and count no longer.
///
/// # Errors
/// It cannot be moved. It does not count all the same while it is unchanged.
pub async fn set_aside(
    world: &World,
    hook: &Hook,
    written: Option<Timestamp>,
) -> Result<(), Refusal> {
    let dir = world
        .city
        .task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let sandbox = world.city.sandbox(&hook.raider);
    let owner = effects::Owner::Rig(hook.raider.rig.clone());
    let moved = effects::tasks(world, owner, move |tasks| {
        tasks.set_outcome_aside(&dir, &sandbox, written)
    });
    Ok(moved.await?)
}
