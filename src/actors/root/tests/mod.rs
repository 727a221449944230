//! The root on fakes, under the paused clock.

mod converge;
mod orders;
mod recovery;
mod restart;
mod shutdown;
