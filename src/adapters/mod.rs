//! The implementations of the ports. Of the layers below `daemon`, only this one spawns processes, opens files of the
//! city and reads the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "adapters are where time, environment and processes come from"
)]

pub(crate) mod beneath;
pub(crate) mod children;
pub mod city_root;
pub mod clock;
pub mod commands;
pub(crate) mod exclude;
pub mod git;
pub mod keeper;
pub(crate) mod link_walk;
pub mod mounts;
pub mod proc;
pub mod relics_sqlite;
pub(crate) mod removal;
pub mod runs;
pub mod secret;
pub mod sessions;
pub mod standstill;
pub mod task_files;
pub mod trash;
pub mod watch;
