//! Traits only: the outside world as the actors need it. Fakes and real adapters pass the same conformance suites
//! (`testing::conformance`).

pub mod clock;
pub mod config;
pub mod relics;
pub mod repo;
pub mod runner;
pub mod sessions;
pub mod tasks;
