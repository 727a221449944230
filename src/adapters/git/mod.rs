//! The git adapter of a rig: git2 for refs, ancestry, trees and in-memory merges; the `git` program for everything
//! that talks to a remote, runs hooks or filters, or touches a work tree.

mod admin;
mod adopt;
mod branch_conflicts;
mod branches;
mod bytes;
mod checkout;
mod collect;
pub mod command;
mod commit_checks;
mod digest;
mod discard;
mod facts;
mod fetch;
mod files;
mod filters;
mod gate;
mod ground;
mod hooks;
mod ignored;
mod in_process;
mod injected_files;
mod inner;
mod land;
mod late_writes;
mod lfs;
mod lists;
mod locks;
mod measure;
mod merge;
mod name_locks;
mod object_copy;
mod objects;
mod other_work;
mod patch_equivalence;
mod pins;
mod port;
mod prepare;
mod progress;
mod provenance;
mod push;
mod refill;
mod reflog_commits;
mod refusals;
mod remote;
mod repair;
mod retired;
mod revive;
pub mod rig;
mod salvage;
mod sandbox;
mod sandbox_fault;
mod settings;
mod share;
mod share_integrity;
mod stash;
mod stash_first_seen;
mod stash_owner;
mod stash_watch;
mod theirs;
mod upkeep;
mod verbatim;

#[cfg(test)]
mod testing;

pub use rig::{GitRepo, GitRig};
