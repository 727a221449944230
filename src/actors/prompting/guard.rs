//! The task around a first prompt: it sees a panic, reports it, and begins again.

use std::sync::Arc;

use super::FirstPrompt;
use crate::actors::directory::Directory;
use crate::domain::first_prompt::Reason;

impl FirstPrompt {
    /// Runs it in a task of its own. One that panics begins again at the next patrol, with the stage that is stored with
    /// the session. The third panic ends that: a panic behind the typing would type it for ever.
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
            let (mut own, city) = (self.clone(), Arc::clone(&world));
            let told = tokio::spawn(async move {
                let why = Reason::Panicked;
                let _patrol = own.kept_back(&city, &why, "").await;
                // Nothing reports it later: three patrols may be shorter than the time after which people are told.
                if last && !own.delay.has_called_for(&why) {
                    own.call(&city, &why, "").await;
                }
                own.delay
            });
            // When that panics, too, people are told after the next panic.
            self.delay = told.await.unwrap_or(self.delay);
            let patrol = world.city.daemon.patrol_interval;
            drop(world);
            tokio::time::sleep(patrol).await;
        }
    }
}
