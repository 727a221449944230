//! The tree: one file per actor. They decide by asking `domain` and act through `ports`.
//!
//! ```text
//!                       root supervisor
//!   ┌────────┬──────────┬───────────┬──────────┬──────────┬───────────┐
//! store   shaman   dispatcher    witness     forge     raider …     agent …
//!         config                one per rig  one per rig      (session/)
//! ```
//!
//! `mail/` holds the messages between actors, `records/` the records that several of them read and write, `effects.rs`
//! is the only place that touches the world. `sagas/` are the operations that survive `kill -9`, `ask.rs` is for
//! requests from tasks to actors. Each part names only parts below it, and actors never name each other
//! (`tests/it/tidy/actors.rs`).

/// Logs the error of a result, if it is one, with these fields and this text.
macro_rules! or_warn {
    ($result:expr, $($said:tt)+) => {
        if let Err(error) = $result {
            tracing::warn!(%error, $($said)+);
        }
    };
}

pub mod accounts;
pub mod ask;
pub mod boards;
pub mod briefs;
pub mod claims;
pub mod compaction;
pub mod conditions;
pub mod config;
pub mod conversation;
pub mod declared;
pub mod directory;
pub mod dispatcher;
pub mod doctor;
pub mod effects;
pub mod forge;
pub mod gates;
pub mod glances;
pub mod ground;
pub mod last_end;
mod look_timer;
pub mod mail;
pub mod metrics;
mod outbox;
pub mod prompting;
pub mod records;
pub mod refusal;
pub mod remotes;
mod retention;
pub mod rig_settings;
pub mod root;
pub mod sagas;
pub mod sandbox_faults;
pub mod sandbox_links;
pub mod sandboxes;
pub mod session;
pub mod shaman;
pub mod store;
pub mod thread_budgets;
pub mod typing;
pub mod usage;
pub mod witness;
pub mod world;
