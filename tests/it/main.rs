//! Integration tests, all in one program: linking is what takes time.

mod cli;
mod cli_terminal;
mod control;
mod fake_city;
