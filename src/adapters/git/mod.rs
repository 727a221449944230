//! git, as one rig needs it: git2 for refs, ancestry, trees and in-memory merges; the `git` program
//! for everything that talks to a remote, runs hooks or filters, or touches a work tree.

pub mod command;
mod equal;
mod gate;
mod land;
mod landing;
mod merge;
mod pins;
mod push;
mod remote;
pub mod rig;

#[cfg(test)]
mod testing;

pub use rig::{GitRepo, GitRig};
