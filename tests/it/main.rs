//! Integration tests, all in one program: linking is what takes time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod chaos;
mod cli;
mod cli_systemd;
mod cli_terminal;
mod cli_up;
mod control;
mod custody_bytes;
mod custody_facts;
mod custody_gone;
mod custody_hidden;
mod custody_ignored;
mod custody_modules;
mod custody_mounts;
mod custody_prepare;
mod custody_progress;
mod custody_prune;
mod custody_remove;
mod custody_repair;
mod custody_restore;
mod custody_retired;
mod custody_salvage;
mod custody_sandbox;
mod custody_theirs;
mod custody_theorem;
mod e2e;
mod fake_city;
mod faults;
mod forge;
mod kit;
mod landing;
mod otp;
mod sessions;
mod support;
mod theorem;
mod tidy;
