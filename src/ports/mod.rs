//! Traits only: what the actors need of the world. Fakes and real adapters pass the same
//! conformance suites (`testing::conformance`).

pub mod clock;
pub mod config;
pub mod relics;
pub mod repo;
pub mod runner;
pub mod sessions;
pub mod tasks;
