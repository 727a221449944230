//! An Erlang/OTP-style supervisor for AI coding agents working on git repositories.
//!
//! Arrows point at what a module may name; `tests/it/tidy.rs` holds the table:
//!
//! ```text
//! domain ◄── ports ◄── adapters ◄─────────────────────────────── daemon ◄── bin/horde-supervisor
//! domain ◄── ports ◄── actors ◄── control::{server,handlers} ◄── daemon
//! domain ◄── config ◄─────────────────────────────────────────── daemon, cli
//! domain ◄── control::{protocol,codec,client} ◄───────────────── cli ◄── bin/hd
//! ```

#[cfg(panic = "abort")]
compile_error!("supervision needs panic = \"unwind\": a panic must end one actor, not the daemon");

pub mod adapters;
pub mod domain;
pub mod ports;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
