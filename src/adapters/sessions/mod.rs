//! Providers of sessions: the places where agents run.

pub mod holder;
