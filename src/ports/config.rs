//! The configuration as it is on disk now.

use std::sync::Arc;

use super::repo::Repo;
use crate::domain::city::{City, Rig};

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The city that it describes.
    pub city: City,
    /// The complete configuration, with all defaults, as `hd config show` prints it.
    pub shown: serde_json::Value,
}

/// Called when a file changed that may affect the configuration.
pub type ConfigListener = Box<dyn Fn() + Send + Sync>;

/// Reads and validates the configuration, and opens the repositories that it names. Blocking.
pub trait ConfigSource: Send + Sync {
    /// Reads the configuration from disk, and watches its files from now on. A file that cannot be watched is logged:
    /// the patrol looks anyway.
    ///
    /// # Errors
    /// All errors in it, for people.
    fn load(&self) -> Result<Loaded, String>;

    /// Makes a rig's repository, which is not prepared yet.
    fn rig(&self, city: &City, rig: &Rig) -> Arc<dyn Repo>;

    /// Sets the listener for changes that may affect the configuration. Called once.
    fn listen(&self, listener: ConfigListener);
}
