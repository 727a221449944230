//! The tree: one file per actor. They decide by asking `domain` and act through `ports`.

pub mod store;
