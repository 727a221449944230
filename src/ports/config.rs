//! The configuration as it stands on disk now.

use std::path::PathBuf;
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
    /// The directories whose entries it was read from: what to watch.
    pub dirs: Vec<PathBuf>,
}

/// Told when something in a watched directory changed.
pub type ConfigListener = Box<dyn Fn() + Send + Sync>;

/// Reads and validates the configuration, and makes what it names. Blocking.
pub trait ConfigSource: Send + Sync {
    /// Reads what is on disk.
    ///
    /// # Errors
    /// Everything that is wrong with it, for people.
    fn load(&self) -> Result<Loaded, String>;

    /// A rig's git, made ready to be worked on.
    ///
    /// # Errors
    /// Why it cannot be worked on, for people.
    fn open_rig(&self, city: &City, rig: &Rig) -> Result<Arc<dyn Repo>, String>;

    /// Calls the listener whenever something in a watched directory changes. Called once.
    fn listen(&self, listener: ConfigListener);

    /// Watches these directories and no others from now on. What cannot be watched is logged: the
    /// patrol looks anyway.
    fn watch(&self, dirs: &[PathBuf]);
}
