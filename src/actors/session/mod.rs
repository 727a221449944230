//! A child of the root: the actor that holds one session, the start or adoption of its session, and the meaning of its
//! end.

pub mod child;
pub mod endings;
pub mod launch;
