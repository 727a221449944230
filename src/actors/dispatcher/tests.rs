//! Automations on the paused clock.
