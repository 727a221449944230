//! The sandbox of a charge: task, worktree, set-up commands.

use super::super::super::effects;
use super::super::super::refusal::{Refusal, RefusalKind};
use super::super::super::world::World;
use super::Plan;
use crate::actors::briefs;
use crate::actors::rig_settings;
use crate::domain::city::Rig;
use crate::domain::relic::Hook;
use crate::ports::repo::SandboxSpec;

/// Writes the task, makes the sandbox and sets it up. Idempotent.
pub(super) async fn make(world: &World, plan: &Plan) -> Result<(), Refusal> {
    let city = &world.city;
    let rig = city
        .rig(&plan.raider.rig)
        .ok_or_else(|| Refusal::not_found(format!("rig {} is not configured", plan.raider.rig)))?;
    let task_dir = city.task_dir(&plan.raider, &plan.relic, plan.incarnation);
    let text = briefs::task_text(world, rig, &plan.hook(world)).await?;
    let dir = task_dir.clone();
    let owner = effects::Owner::Rig(rig.name.clone());
    effects::tasks(world, owner, move |tasks| tasks.write_task(&dir, &text)).await?;
    let spec = sandbox_spec(world, rig, &plan.hook(world), task_dir);
    effects::repo_for(world, &rig.name, effects::WorkKind::Sandbox, move |repo| {
        repo.make_sandbox(&spec)
    })
    .await?;
    world.directory.sandboxes.note(&rig.name);
    if !rig.raiders.setup.is_empty() {
        let (commands, sandbox) = (rig.raiders.setup.clone(), city.sandbox(&plan.raider));
        let env = rig_settings::raider_env(world, rig, &plan.hook(world)).await?;
        let made = effects::set_up(world, &rig.name, (sandbox, commands), env);
        made.await.map_err(|error| {
            let hint =
                "`setup` of the rig must succeed in a fresh sandbox; the relic is as it was before";
            Refusal::new(RefusalKind::Failed, error.to_string()).hint(hint)
        })?;
    }
    Ok(())
}

/// Returns the spec of a hook's sandbox.
#[must_use]
pub fn sandbox_spec(
    world: &World,
    rig: &Rig,
    hook: &Hook,
    task_dir: std::path::PathBuf,
) -> SandboxSpec {
    SandboxSpec {
        raider: hook.raider.clone(),
        relic: hook.relic.clone(),
        incarnation: hook.incarnation,
        branch: hook.branch.clone(),
        base: hook.base.clone(),
        path: world.city.sandbox(&hook.raider),
        task_dir,
        copy: rig.raiders.copy.clone(),
    }
}
