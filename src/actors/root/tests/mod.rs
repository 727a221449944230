//! The root on fakes, under the paused clock.

mod converge;
mod groups;
mod history;
mod orders;
mod planned;
mod pools;
mod recovery;
mod restart;
mod shutdown;
