//! Another configuration for a town.

#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "a part of the module above")
)]
use super::*;
use crate::actors::conditions;
use crate::actors::root::Reload;
use crate::domain::reload::AgentChange;

impl Town {
    /// Puts another configuration in force, as a reload does, and waits until it is quiet.
    pub async fn reload(&self, change: impl FnOnce(&mut City)) -> Vec<AgentChange> {
        let changes = self.reconfigure(change).await;
        self.settle().await;
        changes
    }

    /// As [`Town::reload`], without waiting for what comes of it.
    pub async fn reconfigure(&self, change: impl FnOnce(&mut City)) -> Vec<AgentChange> {
        let old = self.world.newest();
        let mut city = City::clone(&old.city);
        change(&mut city);
        let world = Arc::new(World {
            city: Arc::new(city),
            ..World::clone(&old)
        });
        let undisturbed = conditions::undisturbed(&world).await;
        let message = |reply| {
            RootMsg::Reload(Box::new(Reload {
                world,
                // While they cannot be seen nobody is known to be attached.
                undisturbed: undisturbed.unwrap_or_default(),
                dry_run: false,
                reply,
            }))
        };
        let changes = ask::ask(Some(self.root.clone()), message, HOUR).await;
        changes.unwrap()
    }
}
