//! Texts that describe a raider's work, from the present state of the relic.

use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::prompt::{self, Brief, Problem};
use crate::domain::relic::{Hook, Relic};

/// Returns the text of `TASK.md`.
///
/// # Errors
/// The store cannot be read.
pub async fn task_text(world: &World, rig: &Rig, hook: &Hook) -> Result<String, Refusal> {
    let id = hook.relic.clone();
    let relic = world.store.run(move |txn| txn.relic(&id)).await?;
    let (hd, file) = (world.hd(), "TASK.md");
    Ok(prompt::task_file(&brief(
        world, rig, hook, &relic, file, &hd,
    )))
}

/// Returns the text that is typed into a session whose outcome cannot be accepted.
///
/// # Errors
/// The store cannot be read.
pub async fn nudge_text(
    world: &World,
    rig: &Rig,
    hook: &Hook,
    problem: &Problem,
) -> Result<String, Refusal> {
    let id = hook.relic.clone();
    let relic = world.store.run(move |txn| txn.relic(&id)).await?;
    let file = world.tasks.task_file(&world.city.sandbox(&hook.raider));
    let hd = world.hd();
    Ok(prompt::nudge(
        &brief(world, rig, hook, &relic, file, &hd),
        problem,
    ))
}

pub(in crate::actors) fn brief<'a>(
    world: &'a World,
    rig: &'a Rig,
    hook: &'a Hook,
    relic: &'a Relic,
    task_file: &'a str,
    hd: &'a str,
) -> Brief<'a> {
    let harness = world.city.harnesses.get(&hook.harness);
    Brief {
        raider: &hook.raider,
        relic: &hook.relic,
        title: &relic.title,
        body: &relic.body,
        context: relic.context.as_deref(),
        branch: &hook.branch,
        base: &hook.base,
        target: &hook.target,
        task_file,
        review: harness.map_or("", |harness| harness.review.as_str()),
        max_reviews: rig.raiders.max_reviews,
        hd,
    }
}
