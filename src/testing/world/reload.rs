//! Changes a city's configuration, as a reload does.

#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "a part of the module above")
)]
use super::*;
use crate::actors::conditions;
use crate::actors::mail::Reload;
use crate::domain::reload::AgentChange;

/// The interval of patrols while hours pass.
const SELDOM: Duration = Duration::from_secs(300);

impl TestCity {
    /// Puts another configuration in force, as a reload does, and waits until the city is quiet.
    pub async fn reload(&self, change: impl FnOnce(&mut City)) -> Vec<AgentChange> {
        let changes = self.reconfigure(change).await;
        self.settle().await;
        changes
    }

    /// Lets hours pass: exactly as much time as [`TestCity::pass`] does, but with few patrols until shortly before the end,
    /// because patrols take most of the time of such tests.
    pub async fn pass_hours(&self, time: Duration) {
        let usual = self.world.newest().city.daemon.patrol_interval;
        let long = time.saturating_sub(SELDOM);
        if long <= SELDOM || usual >= SELDOM {
            return self.pass(time).await;
        }
        self.reconfigure(|city| city.daemon.patrol_interval = SELDOM)
            .await;
        self.pass(long).await;
        self.reconfigure(|city| city.daemon.patrol_interval = usual)
            .await;
        self.pass(time - long).await;
    }

    /// As [`TestCity::reload`], without waiting for the consequences.
    pub async fn reconfigure(&self, change: impl FnOnce(&mut City)) -> Vec<AgentChange> {
        let old = self.world.newest();
        let mut city = City::clone(&old.city);
        change(&mut city);
        let undisturbed = conditions::undisturbed(&old).await;
        let message = |reply| {
            RootMail::Reload(Box::new(Reload {
                city: Arc::new(city),
                shown: Arc::clone(&old.shown),
                repos: old.repos.clone(),
                // If sessions cannot be listed, no person counts as attached.
                undisturbed: undisturbed.unwrap_or_default(),
                dry_run: false,
                reply,
            }))
        };
        let changes = ask::ask(Some(self.root.get_derived()), message, HOUR).await;
        changes.unwrap()
    }
}
