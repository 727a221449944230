//! End to end: the real daemon, real git, and a scripted agent that does what its task says.

mod agents;
mod charge;
mod config;
mod crash;
mod done;
mod forge;
mod handoff;
mod landing;
mod names;
mod nuke;
mod outcome;
mod review;
mod rights;
mod stop;
mod survive;
mod tmux;
