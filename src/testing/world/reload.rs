//! Another configuration for a town.

use super::*;
use crate::actors::root::Reload;
use crate::domain::reload::AgentChange;
use crate::ports::sessions::Sessions;

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
        // While they cannot be seen nobody is known to be attached.
        let sessions = self.parts.sessions.list().unwrap_or_default();
        let attached = sessions.into_iter().filter(|facts| facts.attached);
        let attached = attached.map(|facts| facts.id).collect();
        let message = |reply| {
            RootMsg::Reload(Box::new(Reload {
                world,
                attached,
                dry_run: false,
                reply,
            }))
        };
        let changes = ask::ask(Some(self.root.clone()), message, HOUR).await;
        changes.unwrap()
    }
}
