//! Integration tests.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot go on without, it may stop at"
)]

mod custody_facts;
mod custody_prepare;
mod custody_remove;
mod custody_repair;
mod custody_salvage;
mod custody_sandbox;
mod custody_theorem;
mod landing;
mod support;
