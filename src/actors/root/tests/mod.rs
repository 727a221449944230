//! The root on fakes, under the paused clock.

mod restart;
