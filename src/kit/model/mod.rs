//! A scripted model on the loopback address, which speaks the protocols of the model providers.
//!
//! ```text
//!   program under test ──HTTP──► server ──► protocols/{anthropic, responses, chat, gemini}
//!                                               │ read: body ──► Request
//!                                               ▼
//!                          script: which step does this conversation stand at?
//!                                               │
//!                                 acts: the step as text or as a call of a declared tool
//!                                               │
//!                          protocols ──► JSON or server-sent events
//! ```
//!
//! A conversation is told by a marker in its prompt, and its position by what it already holds (the
//! results of tools, the scripted texts): a program that resumes a conversation goes on where it
//! was, a program that starts afresh begins again.

mod acts;
mod protocols;
mod request;
mod schema;
mod script;
mod server;
mod state;

#[cfg(test)]
mod tests;

pub use self::request::Protocol;
pub use self::script::{Scenario, Step};
pub use self::server::Model;
pub use self::state::{Given, Heard, Stray};
