//! Renders answers and results for people. Pure: a value in, text out. Fields that are null are shown as `-`.

mod child;
pub(super) mod cost;
pub(super) mod cv;
pub(super) mod drums;
pub(super) mod event;
pub(super) mod harness;
pub(super) mod lists;
pub(super) mod outcome_lines;
pub(super) mod patch;
pub(super) mod show;
pub(super) mod status;
mod table;
pub(super) mod totem;
mod words;

pub(super) use words::to_seconds;

#[cfg(test)]
mod action_tests;
#[cfg(test)]
mod people_tests;
#[cfg(test)]
mod safe_tests;
#[cfg(test)]
mod tests;
