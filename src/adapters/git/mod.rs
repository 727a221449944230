//! The git adapter of a rig: git2 for refs, ancestry, trees and in-memory merges; the `git` program for everything
//! that talks to a remote, runs hooks or filters, or touches a work tree.

mod admin;
mod adopt;
mod ailment;
mod branches;
mod bytes;
mod checkout;
mod claim;
mod collect;
pub mod command;
mod digest;
mod discard;
mod equal;
mod facts;
mod fetch;
mod files;
mod filters;
mod fit;
mod gate;
mod ground;
mod hooks;
mod ignored;
mod inner;
mod known;
mod land;
mod late;
mod lfs;
mod links;
mod lists;
mod locks;
mod measure;
mod merge;
mod objects;
mod pins;
mod port;
mod prepare;
mod progress;
mod provenance;
mod push;
mod raw;
mod refill;
mod refusals;
mod remote;
mod repair;
mod retired;
mod revive;
pub mod rig;
mod salvage;
mod sandbox;
mod settings;
mod share;
mod sighted;
mod special;
mod stash;
mod stash_watch;
mod take;
mod theirs;
mod traces;
mod turns;
mod upkeep;
mod way;
mod whole;

#[cfg(test)]
mod testing;

pub use rig::{GitRepo, GitRig};
