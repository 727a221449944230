//! The configuration as it stands on disk now.

/// Reads and validates the configuration. Blocking.
pub trait ConfigSource: Send + Sync {
    /// The revision of what is on disk.
    ///
    /// # Errors
    /// Everything that is wrong with it, for people.
    fn check(&self) -> Result<String, String>;
}
