//! The links in a raider's sandbox to its task and its outcome, which an editor or a clean-up may have replaced or
//! removed (`agent-lifecycle.md`, section 1).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::effects;
use super::world::World;
use crate::domain::ids::RaiderId;
use crate::domain::relic::Hook;
use crate::ports::tasks::{TaskError, TaskFiles};

/// Puts the links back, as the first part of other work on the files. A failure is logged: the files are read and
/// measured as they are.
pub fn repair_with(tasks: &dyn TaskFiles, raider: &RaiderId, dir: &Path, sandbox: &Path) {
    match tasks.repair_links(dir, sandbox) {
        Ok(kept) => {
            logged().remove(raider);
            for file in kept {
                tracing::info!(
                    %raider,
                    file = %file.display(),
                    "a file in the sandbox had taken the place of a link to the task or the outcome; the file is kept \
                    in the task directory, and the link is made again"
                );
            }
        }
        Err(error) if is_new(raider, &error) => tracing::warn!(
            %raider,
            %error,
            "a link in the sandbox to the task or the outcome cannot be made again; it is tried at each patrol"
        ),
        // Logged already.
        Err(_) => {}
    }
}

/// Returns the last failure of each raider that was logged: an agent decides how often there is one.
fn logged() -> MutexGuard<'static, BTreeMap<RaiderId, String>> {
    static LOGGED: Mutex<BTreeMap<RaiderId, String>> = Mutex::new(BTreeMap::new());
    LOGGED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_new(raider: &RaiderId, error: &TaskError) -> bool {
    let before = logged().insert(raider.clone(), error.to_string());
    before.is_none_or(|before| before != error.to_string())
}

/// Puts the links of a raider's sandbox back. A failure is logged, also that of earlier work on these files that hangs.
pub async fn repair(world: &World, hook: &Hook) {
    on_files(world, hook, repair_with).await;
}

/// Puts the links back and watches the outcome file, for a session that starts or is adopted. A failure is logged.
pub async fn attend(world: &World, hook: &Hook) {
    on_files(world, hook, |tasks, raider, dir, sandbox| {
        tasks.watch(dir, sandbox);
        repair_with(tasks, raider, dir, sandbox);
    })
    .await;
}

async fn on_files(
    world: &World,
    hook: &Hook,
    work: impl FnOnce(&dyn TaskFiles, &RaiderId, &Path, &Path) + Send + 'static,
) {
    let city = &world.city;
    let dir = city.task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let (raider, sandbox) = (hook.raider.clone(), city.sandbox(&hook.raider));
    let owner = effects::Owner::Rig(raider.rig.clone());
    let repo = world.repo(&raider.rig);
    let work = move |tasks: &dyn TaskFiles| {
        // The sandbox of a held rig may be another directory.
        if repo.is_none_or(|repo| repo.ready().is_ok()) {
            work(tasks, &raider, &dir, &sandbox);
        }
        Ok(())
    };
    let done: Result<(), TaskError> = effects::tasks(world, owner, work).await;
    if let Err(error) = done {
        tracing::warn!(
            raider = %hook.raider,
            %error,
            "the links of a sandbox cannot be looked at; they are looked at with the next patrol"
        );
    }
}
