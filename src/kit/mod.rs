//! The conformance kit: drives a harness as it is configured, against a model that follows a script.
//!
//! ```text
//!   place: home, repository, city.toml     model: what the model says, step by step
//!        └──────────────┬──────────────────────┘
//!                     bench ◄── cases: what a harness has to do
//!                       │
//!             supervisor ──► the harness ──► the model
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "the kit runs real programs and waits for them in real time"
)]

pub mod bench;
pub mod cases;
pub mod installed;
pub mod kit_dir;
pub mod model;
pub mod outcome;
pub mod programs;
