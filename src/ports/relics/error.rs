//! The error of the store.

/// The reason why the store refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot write now (disk full, read-only); nothing was changed.
    #[error("the relic store cannot write: {0}")]
    Unavailable(String),
    /// Another program keeps the store locked; nothing was changed.
    #[error("the relic store is locked, another program uses it: {0}")]
    Locked(String),
    /// No such row.
    #[error("no such {kind}: {id}")]
    NotFound {
        /// "relic", "merge request", ...
        kind: &'static str,
        /// The id as given.
        id: String,
    },
    /// The present state forbids it.
    #[error("{0}")]
    Conflict(String),
    /// The file is damaged, or a bug.
    #[error("the relic store failed: {0}")]
    Failed(String),
}
