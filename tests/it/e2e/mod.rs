//! End to end: the real daemon, real git, and a scripted agent that does what its task says.

mod agents;
mod automations;
mod charge;
mod commands;
mod config;
mod crash;
mod done;
mod escalations;
mod handoff;
mod history;
mod landing;
mod manager;
mod metrics;
mod names;
mod nuke;
mod outcome;
mod push;
mod reload;
mod retention;
mod review;
mod rights;
mod stop;
mod survive;
mod tmux;
mod upgrade;
