//! The configuration as it stands on disk now.

use std::sync::Arc;

use super::repo::Repo;
use crate::domain::city::{City, Rig};

/// A configuration that is right.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it says.
    pub city: City,
    /// It in full, every default filled in, as `hd config show` prints it.
    pub shown: serde_json::Value,
}

/// Told when something changed that may decide what the configuration says.
pub type ConfigListener = Box<dyn Fn() + Send + Sync>;

/// Reads and validates the configuration, and makes what it names. Blocking.
pub trait ConfigSource: Send + Sync {
    /// Reads what is on disk, and watches from now on what decides that. What cannot be watched is
    /// logged: the patrol looks anyway.
    ///
    /// # Errors
    /// Everything that is wrong with it, for people.
    fn load(&self) -> Result<Loaded, String>;

    /// A rig's git, made ready to be worked on.
    ///
    /// # Errors
    /// Why it cannot be worked on, for people.
    fn open_rig(&self, city: &City, rig: &Rig) -> Result<Arc<dyn Repo>, String>;

    /// Calls the listener whenever something changed that may decide what it says. Called once.
    fn listen(&self, listener: ConfigListener);
}
