//! The task around a first prompt: it sees a panic, reports it, and begins again.

use std::sync::Arc;

use super::FirstPrompt;
use crate::actors::directory::Directory;
use crate::actors::world::World;
use crate::domain::first_prompt::Reason;

impl FirstPrompt {
    /// Runs it in a task of its own. One that panics begins again at the next patrol, with the stage that is stored with
    /// the session. The third panic ends that: a panic behind the typing would type it for ever. Then a person is called,
    /// as often as that takes while the session runs.
    pub(super) async fn run_guarded(mut self, directory: &Arc<Directory>) {
        for last in [false, false, true] {
            let (own, shared) = (self.clone(), Arc::clone(directory));
            let Err(error) = tokio::spawn(async move { own.run(&shared).await }).await else {
                return;
            };
            let newest = directory.newest().filter(|world| !world.is_stopping());
            let Some(world) = newest else { return };
            tracing::error!(
                child = %self.child,
                %error,
                last,
                "the task that types a first prompt panicked; the prompt waits, and the next patrol retries, unless \
                 this was the last try"
            );
            // When that panics, too, people are told after the next panic.
            self.report(&world, last).await;
            let patrol = world.city.daemon.patrol_interval;
            drop(world);
            tokio::time::sleep(patrol).await;
        }
        self.call_until_told(directory).await;
    }

    /// Reports the panic, in a task of its own.
    async fn report(&mut self, world: &Arc<World>, last: bool) {
        let (mut own, city) = (self.clone(), Arc::clone(world));
        let told = tokio::spawn(async move {
            let why = Reason::Panicked;
            let _patrol = own.kept_back(&city, &why, "").await;
            // Nothing reports it later: three patrols may be shorter than the time after which people are told.
            if last && !own.delay.has_called_for(&why) {
                own.call(&city, &why, "").await;
            }
            own.delay
        });
        if let Ok(delay) = told.await {
            self.delay = delay;
        }
    }

    /// Returns true when the session has ended or has a successor. A panic proves nothing.
    async fn is_over(&self, world: &Arc<World>) -> bool {
        let (own, city) = (self.clone(), Arc::clone(world));
        let over = tokio::spawn(async move {
            city.directory.conditions.is_followed(&own.handle) || own.is_gone(&city).await
        });
        over.await.unwrap_or(false)
    }

    /// Calls a person at each patrol until that has succeeded: the report of the last panic may have panicked, too, or
    /// the store may not take it.
    async fn call_until_told(&mut self, directory: &Directory) {
        while !self.delay.has_called_for(&Reason::Panicked) {
            let newest = directory.newest().filter(|world| !world.is_stopping());
            let Some(world) = newest else { return };
            if self.is_over(&world).await {
                return;
            }
            self.report(&world, true).await;
            let patrol = world.city.daemon.patrol_interval;
            drop(world);
            tokio::time::sleep(patrol).await;
        }
    }
}
