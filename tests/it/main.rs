//! Integration tests, all in one program, because linking takes the time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests run programs, measure real time, and are told by variables how to run"
)]

mod chaos;
mod cli;
mod cli_answers;
mod cli_demo;
mod cli_drums;
mod cli_owner;
mod cli_systemd;
mod cli_terminal;
mod cli_up;
mod control;
mod custody_attack;
mod custody_branches;
mod custody_bytes;
mod custody_committed;
mod custody_damaged;
mod custody_deep;
mod custody_diff;
mod custody_elsewhere;
mod custody_facts;
mod custody_gone;
mod custody_hidden;
mod custody_hooks;
mod custody_ignored;
mod custody_late_stash;
mod custody_links;
mod custody_locks;
mod custody_mapped;
mod custody_modules;
mod custody_mounts;
mod custody_moved;
mod custody_named;
mod custody_objects;
mod custody_odd;
mod custody_origin;
mod custody_planted;
mod custody_prepare;
mod custody_progress;
mod custody_prune;
mod custody_remove;
mod custody_repair;
mod custody_restore;
mod custody_retired;
mod custody_salvage;
mod custody_sandbox;
mod custody_sparse;
mod custody_stash;
mod custody_theirs;
mod custody_theorem;
mod custody_traps;
mod custody_upkeep;
mod custody_whole;
mod e2e;
mod fake_city;
mod faults;
mod forge;
mod guide;
mod kit;
mod otp;
mod sandbox_life;
mod sessions;
mod support;
mod theorem;
mod tidy;
