//! Results as people read them. Pure: a JSON value in, text out. Fields that are missing are shown
//! as `-`, fields that are new do no harm.

pub(super) mod cost;
pub(super) mod event;
pub(super) mod harness;
pub(super) mod lists;
pub(super) mod said;
pub(super) mod show;
pub(super) mod status;
mod table;
mod words;

#[cfg(test)]
mod people_tests;
#[cfg(test)]
mod safe_tests;
#[cfg(test)]
mod tests;
