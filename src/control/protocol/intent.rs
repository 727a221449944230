//! A completion declared while the supervisor was away: `hd done` leaves it in
//! `<city>/.horde/outbox/`, the supervisor takes it up when it is back.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One file of the outbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Version of the protocol it was written under.
    pub v: u64,
    /// What is asked (`done`).
    pub op: String,
    /// With what, as on the socket.
    pub args: Map<String, Value>,
    /// `HD_ACTOR` or `HD_RAIDER` of the session.
    pub raider: Option<String>,
    /// `HD_RIG` of the session.
    pub rig: Option<String>,
    /// `HD_INCARNATION` of the session: an intent of an earlier one is void.
    pub incarnation: Option<u64>,
    /// `HD_RELIC` of the session.
    pub relic: Option<String>,
    /// `HD_SESSION` of the session.
    pub session: Option<String>,
    /// Where it was called.
    pub cwd: PathBuf,
    /// The process that called.
    pub pid: u32,
    /// When.
    pub at: Timestamp,
}
