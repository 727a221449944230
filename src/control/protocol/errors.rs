//! Errors of the protocol, and the only table of exit codes (`contract.md`, 2.1 and 2.4).

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::suggest::closest;

use super::VERSION;

/// The exit codes of `hd`; the numbers are defined nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// The operation succeeded.
    Ok = 0,
    /// The operation failed.
    Failed = 1,
    /// The command line or the configuration is invalid.
    Usage = 2,
    /// The supervisor cannot be reached.
    Unreachable = 3,
    /// There is no such object.
    NotFound = 4,
    /// Refused: work would be lost.
    Refused = 5,
    /// The operation took too long.
    TimedOut = 6,
    /// A person has to act first.
    NeedsHuman = 7,
    /// The merge or a gate failed.
    MergeFailed = 8,
    /// Parked: a rate limit, a login.
    Parked = 9,
    /// The supervisor speaks another version of the protocol.
    Version = 10,
}

impl Exit {
    /// The table as `hd help` prints it.
    pub const TABLE: &str = "\
Exit codes:
  0 ok · 1 failed · 2 usage or config invalid · 3 supervisor unreachable · 4 no such object
  5 refused, work would be lost · 6 timed out · 7 waiting for a human · 8 merge or gate failed
  9 parked (rate limit, login) · 10 protocol version mismatch";

    /// Returns the number.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The kind of an error; decides the exit code of `hd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request itself is wrong.
    BadRequest,
    /// There is no such object.
    NotFound,
    /// Work would be lost.
    Refused,
    /// The caller has no right to it.
    Forbidden,
    /// The present state does not allow it.
    Conflict,
    /// The supervisor, or what it needs for this, is not there.
    Unavailable,
    /// A person has to act first: a dialog is open.
    NeedsHuman,
    /// The account of the harness is at a limit, or wants a login.
    Parked,
    /// The operation took too long.
    Timeout,
    /// Another version of the protocol.
    Version,
    /// A fault of the supervisor.
    #[serde(other)]
    Internal,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::BadRequest,
        Self::NotFound,
        Self::Refused,
        Self::Forbidden,
        Self::Conflict,
        Self::Unavailable,
        Self::NeedsHuman,
        Self::Parked,
        Self::Timeout,
        Self::Version,
        Self::Internal,
    ];

    /// Returns the exit code of `hd` for this kind.
    #[must_use]
    pub fn exit(self) -> Exit {
        match self {
            Self::BadRequest => Exit::Usage,
            Self::NotFound => Exit::NotFound,
            Self::Refused => Exit::Refused,
            Self::Forbidden | Self::Conflict | Self::Internal => Exit::Failed,
            Self::Unavailable => Exit::Unreachable,
            Self::NeedsHuman => Exit::NeedsHuman,
            Self::Parked => Exit::Parked,
            Self::Timeout => Exit::TimedOut,
            Self::Version => Exit::Version,
        }
    }
}

/// The reason why a request was not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    /// Its kind.
    pub kind: ErrorKind,
    /// The message: a lowercase fragment.
    pub message: String,
    /// Advice on what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ControlError {
    /// An error without a hint.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Makes an error: the request itself is wrong.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadRequest, message)
    }

    /// Makes an error: there is no such object.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Makes an error: work would be lost.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// Makes an error: the caller has no right to it.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, message)
    }

    /// Makes an error: the present state does not allow it.
    #[must_use]
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Makes an error: the supervisor, or something that it needs for this, is not there.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Makes an error: the operation took too long.
    #[must_use]
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Timeout, message)
    }

    /// Makes an error: a fault of the supervisor.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Returns the same error with this hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn version(theirs: &Value) -> Self {
        Self::new(
            ErrorKind::Version,
            format!("protocol version {theirs} is not supported"),
        )
        .hint(format!(
            "this supervisor speaks version {VERSION}; use the hd that came with it"
        ))
    }
}

/// Returns the error for an unknown word, with the nearest known word or all of them as the hint.
pub(super) fn unknown(what: &str, word: &str, known: &[&str]) -> ControlError {
    let error = ControlError::bad_request(format!("unknown {what} {word:?}"));
    match closest(word, known.iter().copied()) {
        Some(meant) => error.hint(format!("did you mean {meant:?}?")),
        None if known.is_empty() => error.hint("it takes no arguments"),
        None => error.hint(format!("known: {}", known.join(", "))),
    }
}
