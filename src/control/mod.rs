//! The control socket: its messages, the rights of its callers, and both of its ends.
//!
//! ```text
//!   hd ── client ──► socket ──► codec ──► protocol ──► rights ──► Service (handlers) ──► actors
//! ```
//!
//! `protocol`, `codec` and `client` know nothing of the daemon; `server` knows it only as a
//! [`server::Service`].

pub mod client;
pub mod codec;
pub mod handlers;
pub mod protocol;
pub mod rights;
pub mod server;
mod snapshot;
