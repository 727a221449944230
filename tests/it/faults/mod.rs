//! The real daemon, with real git and a scripted agent, is killed and must recover.

mod charge;
pub mod city;
mod end;
mod kills;
mod late;
mod sweep;
