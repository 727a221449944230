//! Integration tests: the real adapters and the real programs.

mod sessions;
