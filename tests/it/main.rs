//! Integration tests.

mod custody_facts;
mod custody_prepare;
mod custody_remove;
mod custody_repair;
mod custody_salvage;
mod custody_sandbox;
mod custody_theorem;
mod landing;
mod support;
