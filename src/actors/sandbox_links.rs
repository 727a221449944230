//! The links in a raider's sandbox to its task and its outcome, which an editor or a clean-up may have replaced or
//! removed (`agent-lifecycle.md`, section 1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use super::effects;
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::event::{Event, EventType, NewEvent};
use crate::domain::event_data::TaskReplaced;
use crate::domain::ids::RaiderId;
use crate::domain::relic::Hook;
use crate::ports::relics::EventFilter;
use crate::ports::tasks::{Repaired, TaskError, TaskFiles};

/// Puts the links back, as the first part of other work on the files. A failure is logged: the files are read and
/// measured as they are. An agent decides how often that happens: a kept file is logged at info once for each
/// incarnation, and a failure once. Returns the first kept file of the incarnation, for [`tell`], until that has journalled
/// it.
#[must_use]
pub fn repair_with(
    tasks: &dyn TaskFiles,
    raider: &RaiderId,
    dir: &Path,
    sandbox: &Path,
) -> Option<PathBuf> {
    let Repaired { moved, failed } = tasks.repair_links(dir, sandbox);
    let failed = failed.map(|error| error.to_string());
    let (is_first, is_new) = note(raider, dir, moved.first(), failed.as_ref());
    for (nth, file) in moved.iter().enumerate() {
        let said = "a file in the sandbox had taken the place of a link to the task or the outcome; the file is kept in \
            the task directory, and the link is made again";
        match is_first && nth == 0 {
            true => tracing::info!(%raider, file = %file.display(), "{said}"),
            false => tracing::debug!(%raider, file = %file.display(), "{said}"),
        }
    }
    if let Some(error) = failed.filter(|_| is_new) {
        tracing::warn!(
            %raider,
            error,
            "a link in the sandbox to the task or the outcome cannot be made again; it is tried at each patrol"
        );
    }
    with_notes(raider, dir, |own| own.untold.clone())
}

/// Journals the first file of an incarnation that had taken the place of a link, once, also over restarts of the
/// supervisor. A failure is logged: the file is kept all the same.
pub async fn tell(world: &World, hook: &Hook, kept: Option<PathBuf>) {
    let Some(file) = kept else { return };
    let raider = hook.raider.clone();
    let replaced = TaskReplaced {
        incarnation: hook.incarnation,
        file: file.display().to_string(),
    };
    let data = json!({ "relic": hook.relic });
    let told = world.store.run(move |txn| {
        let earlier = txn.events(&EventFilter {
            kind: Some(EventType::RaiderTaskReplaced.as_str().to_owned()),
            subject: Some(raider.to_string()),
            ..EventFilter::default()
        })?;
        let mut earlier = earlier.iter().filter_map(Event::read::<TaskReplaced>);
        if earlier.any(|told| told.incarnation == replaced.incarnation) {
            return Ok(());
        }
        let event = NewEvent::new(EventType::RaiderTaskReplaced, &raider, Cause::Patrol);
        txn.record(&event.with(data.clone()).and(&replaced))
            .map(drop)
    });
    match told.await {
        Ok(()) => told_of(&hook.raider, &file),
        Err(error) => tracing::warn!(
            raider = %hook.raider,
            file = %file.display(),
            %error,
            "a kept file that had taken the place of a link could not be journalled; the next patrol retries"
        ),
    }
}

/// The notes about the links of a raider.
#[derive(Default)]
struct Noted {
    /// The task directory of the incarnation.
    dir: PathBuf,
    /// Set when a kept file was logged.
    has_moved: bool,
    /// The first kept file, until its event is stored.
    untold: Option<PathBuf>,
    /// The last failure that was logged.
    failed: Option<String>,
}

/// The notes of all raiders.
static NOTED: Mutex<BTreeMap<RaiderId, Noted>> = Mutex::new(BTreeMap::new());

/// Notes that the event of a kept file is stored.
fn told_of(raider: &RaiderId, file: &Path) {
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = noted.get_mut(raider) {
        // The raider may be in its next incarnation, with a file of that.
        own.untold.take_if(|untold| untold == file);
    }
}

/// Notes the result of a repair. Returns whether its kept files are the first ones of the incarnation, and whether its
/// failure is another one than before.
fn note(
    raider: &RaiderId,
    dir: &Path,
    moved: Option<&PathBuf>,
    failed: Option<&String>,
) -> (bool, bool) {
    with_notes(raider, dir, |own| {
        let is_first = moved.is_some() && !own.has_moved;
        if is_first {
            own.has_moved = true;
            own.untold = moved.cloned();
        }
        let is_new = failed.is_some() && own.failed.as_ref() != failed;
        own.failed = failed.cloned();
        (is_first, is_new)
    })
}

/// Works on the notes of a raider's incarnation.
fn with_notes<T>(raider: &RaiderId, dir: &Path, work: impl FnOnce(&mut Noted) -> T) -> T {
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    let own = noted.entry(raider.clone()).or_default();
    if own.dir != dir {
        *own = Noted {
            dir: dir.to_owned(),
            ..Noted::default()
        };
    }
    work(own)
}

/// Puts the links of a raider's sandbox back. A failure is logged, also that of earlier work on these files that hangs.
pub async fn repair(world: &World, hook: &Hook) {
    let kept = on_files(world, hook, repair_with).await;
    tell(world, hook, kept).await;
}

/// Puts the links back and watches the outcome file, for a session that starts or is adopted. A failure is logged.
pub async fn attend(world: &World, hook: &Hook) {
    let kept = on_files(world, hook, |tasks, raider, dir, sandbox| {
        tasks.watch(dir, sandbox);
        repair_with(tasks, raider, dir, sandbox)
    });
    tell(world, hook, kept.await).await;
}

async fn on_files(
    world: &World,
    hook: &Hook,
    work: impl FnOnce(&dyn TaskFiles, &RaiderId, &Path, &Path) -> Option<PathBuf> + Send + 'static,
) -> Option<PathBuf> {
    let city = &world.city;
    let dir = city.task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let (raider, sandbox) = (hook.raider.clone(), city.sandbox(&hook.raider));
    let owner = effects::Owner::Rig(raider.rig.clone());
    let repo = world.repo(&raider.rig);
    let work = move |tasks: &dyn TaskFiles| {
        // The sandbox of a held rig may be another directory.
        let is_own = repo.is_none_or(|repo| repo.ready().is_ok());
        Ok(is_own
            .then(|| work(tasks, &raider, &dir, &sandbox))
            .flatten())
    };
    let done: Result<_, TaskError> = effects::tasks(world, owner, work).await;
    done.unwrap_or_else(|error| {
        tracing::warn!(
            raider = %hook.raider,
            %error,
            "the links of a sandbox cannot be looked at; they are looked at with the next patrol"
        );
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fake_tasks::FakeTasks;

    /// The event was not journalled when its first write failed.
    #[test]
    fn first_kept_file_of_an_incarnation_is_told_until_its_event_is_stored() {
        let raider: RaiderId = "untold/raiders/Toast".parse().unwrap();
        let (tasks, sandbox) = (FakeTasks::default(), Path::new("/sandbox"));
        let repair = |dir: &str| repair_with(&tasks, &raider, Path::new(dir), sandbox);
        let (first, second) = (
            Path::new("/1/TASK.replaced-1.md"),
            Path::new("/2/TASK.replaced-1.md"),
        );
        assert_eq!(repair("/1"), None);
        tasks.replaces(first);
        assert_eq!(repair("/1").as_deref(), Some(first));
        assert_eq!(
            repair("/1").as_deref(),
            Some(first),
            "its event is not stored"
        );
        tasks.replaces(second);
        assert_eq!(
            repair("/2").as_deref(),
            Some(second),
            "the next incarnation"
        );
        told_of(&raider, first);
        assert_eq!(repair("/2").as_deref(), Some(second));
        told_of(&raider, second);
        assert_eq!(repair("/2"), None);
        tasks.replaces(Path::new("/2/TASK.replaced-2.md"));
        assert_eq!(repair("/2"), None, "one file of each incarnation");
    }
}
