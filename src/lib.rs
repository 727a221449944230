//! An Erlang/OTP-style supervisor for AI coding agents working on git repositories.
//!
//! Arrows point at what a module may name; `tests/it/tidy/layers.rs` holds the table:
//!
//! ```text
//! domain ◄── ports ◄── adapters ◄─────────────────────────────── daemon ◄── bin/horde-supervisor
//! domain ◄── ports ◄── actors ◄── control::{server,handlers} ◄── daemon
//! domain ◄── config ◄─────────────────────────────────────────── daemon, cli
//! domain ◄── control::{protocol,codec,client} ◄── kit ◄───────── cli ◄── bin/hd
//! ```

#[cfg(panic = "abort")]
compile_error!("supervision needs panic = \"unwind\": a panic must end one actor, not the daemon");

pub mod actors;
pub mod adapters;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
pub mod domain;
pub mod faults;
pub(crate) mod in_time;
pub mod kit;
pub mod ports;
pub mod regular;
pub mod startup;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
