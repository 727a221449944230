//! Orders to raiders and agents, and their terminals: `agent.*`, `attach`, `peek`, `send`, `answer`, `logs`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::ids::HarnessName;

/// The answer to an order to start, stop, restart, suspend or resume a raider or agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ordered {
    /// The raider or agent.
    pub name: String,
    /// Its state after the order.
    pub state: OrderedState,
}

/// The state of a raider or agent after an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderedState {
    /// Its session is being started.
    Starting,
    /// Its session has ended, and it rests.
    Stopped,
    /// No request starts a session for it.
    Suspended,
    /// It is not suspended any more.
    Resumed,
}

/// The answer to `attach`: the place of a session's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attached {
    /// The raider or agent.
    pub name: String,
    /// A Unix socket that speaks the holder protocol; for a pane of tmux, it only shows the output.
    pub socket: PathBuf,
    /// The number of the newest event: later ones tell how the session ended. Absent for a pane of tmux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The pane of tmux that takes input; absent where a holder has the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux: Option<Pane>,
}

/// A pane of tmux.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pane {
    /// The socket of its server.
    pub socket: PathBuf,
    /// Its id there, such as `%3`.
    pub id: String,
}

/// The answer to `peek`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Screen {
    /// The raider or agent.
    pub name: String,
    /// Its screen.
    pub text: String,
}

/// The answer to `logs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogText {
    /// The raider or agent.
    pub name: String,
    /// The end of its output.
    pub text: String,
    /// The number of bytes of that end.
    pub bytes: usize,
}

/// The answer to `send`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taken {
    /// The raider or agent.
    pub name: String,
    /// Set when its terminal took the text or the keys.
    pub taken: bool,
}

/// The answer to `answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// The raider or agent.
    pub name: String,
    /// The question.
    pub question: String,
    /// The choice, or the words; a secret is hidden.
    pub answer: String,
    /// The question that is open now, if any.
    pub next: Option<String>,
}

/// The answer to `harness.resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HarnessResumed {
    /// The harness.
    #[schemars(with = "String")]
    pub harness: HarnessName,
    /// Its account.
    pub account: String,
    /// Unset when the account was not parked.
    pub resumed: bool,
}
