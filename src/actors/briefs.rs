//! Texts that describe a raider's work, from the present state of the relic.

use crate::actors::effects;
use crate::actors::records::totems;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::ids::RelicId;
use crate::domain::merge::MrState;
use crate::domain::prompt::{self, Brief, Problem};
use crate::domain::relic::{Hook, Relic};
use crate::domain::task_names::TASK;
use crate::domain::totem::orders;
use crate::ports::relics::{StoreError, Txn};
use crate::ports::tasks::TaskFiles;

/// The work that a text describes.
pub(in crate::actors) struct Assignment {
    /// The relic.
    pub(in crate::actors) relic: Relic,
    /// The state of its totem, in words; none without a totem.
    pub(in crate::actors) steps: Option<String>,
    /// Set when what was submitted for it last was rejected or withdrawn.
    pub(in crate::actors) is_rejected: bool,
}

impl Assignment {
    /// Reads the work on a relic.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::actors) fn read(
        txn: &mut dyn Txn,
        relic: &RelicId,
        hd: &str,
    ) -> Result<Self, StoreError> {
        let totem = totems::read(txn, relic)?;
        let newest = txn.mrs_of(relic)?.pop();
        Ok(Self {
            relic: txn.relic(relic)?,
            is_rejected: newest.is_some_and(|mr| mr.state == MrState::Rejected),
            steps: totem.map(|totem| orders::orders(&totem, hd)),
        })
    }
}

async fn work(world: &World, hook: &Hook, hd: &str) -> Result<Assignment, Refusal> {
    let (id, hd) = (hook.relic.clone(), hd.to_owned());
    let read = move |txn: &mut dyn Txn| Assignment::read(txn, &id, &hd);
    Ok(world.store.run(read).await?)
}

/// Writes `TASK.md` again, after the totem of the relic has changed.
///
/// # Errors
/// The store cannot be read, or the file cannot be written.
pub async fn refresh_task(world: &World, hook: &Hook) -> Result<(), Refusal> {
    let Some(rig) = world.city.rig(&hook.raider.rig) else {
        return Ok(());
    };
    let text = task_text(world, rig, hook).await?;
    let dir = world
        .city
        .task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let owner = effects::Owner::Rig(rig.name.clone());
    let write = move |tasks: &dyn TaskFiles| tasks.write_beside(&dir, TASK, &text);
    effects::tasks(world, owner, write).await?;
    Ok(())
}

/// Returns the text of `TASK.md`.
///
/// # Errors
/// The store cannot be read.
pub async fn task_text(world: &World, rig: &Rig, hook: &Hook) -> Result<String, Refusal> {
    let hd = world.hd();
    let work = work(world, hook, &hd).await?;
    Ok(prompt::task_file(&brief(
        world, rig, hook, &work, TASK, &hd,
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
    let hd = world.hd();
    let work = work(world, hook, &hd).await?;
    let file = world.tasks.task_file(&world.city.sandbox(&hook.raider));
    Ok(prompt::nudge(
        &brief(world, rig, hook, &work, file, &hd),
        problem,
    ))
}

pub(in crate::actors) fn brief<'a>(
    world: &'a World,
    rig: &'a Rig,
    hook: &'a Hook,
    work: &'a Assignment,
    task_file: &'a str,
    hd: &'a str,
) -> Brief<'a> {
    let harness = world.city.harnesses.get(&hook.harness);
    let relic = &work.relic;
    Brief {
        raider: &hook.raider,
        relic: &hook.relic,
        title: &relic.title,
        body: &relic.body,
        context: relic.context.as_deref(),
        is_rejected: work.is_rejected,
        steps: work.steps.as_deref(),
        branch: &hook.branch,
        starts_on: relic.starts_on.as_deref(),
        base: &hook.base,
        target: &hook.target,
        task_file,
        review: harness.map_or("", |harness| harness.review.as_str()),
        max_reviews: rig.raiders.max_reviews,
        hd,
    }
}
