//! A rig's work from charge to landing, on fakes, under the paused clock.

mod apart;
mod charge;
mod done;
mod merged;
mod nuke;
mod outcomes;
mod push;
mod retry;
mod stall;
mod sweep;
mod wisps;
