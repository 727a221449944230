//! The tree: one file per actor. They decide by asking `domain` and act through `ports`.
//!
//! ```text
//!                       root supervisor
//!   ┌────────┬──────────┬───────────┬──────────┬──────────┬───────────┐
//! store   shaman   dispatcher    witness     forge     raider …     agent …
//!         config                one per rig  one per rig      (child.rs)
//! ```
//!
//! `effects.rs` is the one place that touches the world, `sagas/` are the operations that survive
//! `kill -9`, `ask.rs` is how tasks put questions to actors.

pub mod accounts;
pub mod ask;
pub mod child;
pub mod claims;
pub mod compaction;
pub mod conditions;
pub mod config;
pub mod directory;
pub mod dispatcher;
pub mod doctor;
pub mod effects;
pub mod endings;
pub mod forge;
pub mod gates;
pub mod glances;
pub mod ground;
pub mod launch;
mod lookout;
pub mod mail;
pub mod metrics;
pub mod prompting;
pub mod quarantine;
pub mod refusal;
pub mod remotes;
mod retention;
pub mod root;
pub mod sagas;
pub mod shaman;
pub mod store;
pub mod typing;
pub mod usage;
pub mod witness;
pub mod world;
