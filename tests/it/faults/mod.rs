//! The real daemon, with real git and a scripted agent, is killed and must not care.

pub mod city;
mod end;
mod kills;
mod sweep;
