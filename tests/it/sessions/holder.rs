//! Real-only.
