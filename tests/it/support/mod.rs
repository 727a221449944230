//! Helpers shared by the integration tests.

pub mod again;
pub mod chance;
pub mod city;
pub mod deep;
pub mod disk;
pub mod git;
pub mod live;
pub mod namespace;
pub mod plan;
pub mod processes;
pub mod pty;
pub mod repository;
pub mod tmux;

pub use horde_supervisor::testing::program;
