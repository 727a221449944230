//! `hd harness`, and its conformance kit with an agent made for it.

mod agent;
mod conformance;
mod replayed;
mod setup;
mod survey;
