//! The only place that spawns processes, opens files and reads the clock.

pub mod git;
pub mod proc;
pub mod sessions;
