//! A child of the root: the actor that holds one session, how its session is started or adopted, and what its end
//! means.

pub mod child;
pub mod endings;
pub mod launch;
