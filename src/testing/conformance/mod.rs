//! Conformance suites, one per port, run by the fake and by every real adapter alike.

pub mod sessions;
