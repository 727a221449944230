//! End to end: the real daemon, real git, and a scripted agent that does what its task says.

mod landing;
