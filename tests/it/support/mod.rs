//! What the integration tests share.

pub mod city;
pub mod git;
