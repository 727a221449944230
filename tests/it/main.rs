//! Integration tests, all in one program: linking is what takes time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cli;
mod cli_terminal;
mod control;
mod fake_city;
