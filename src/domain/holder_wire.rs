//! The wire protocol between a session's holder and its clients: pure encoding, no sockets.
//!
//! A holder outlives upgrades of the daemon, so the conversation begins with versions and changes
//! only by addition. Everything goes over the stream socket `.horde/sessions/<id>/sock`; a path
//! longer than 107 bytes is reached as `/proc/self/fd/<fd of the directory>/sock`.
//!
//! ```text
//! client → hello (8 bytes: "HDHOLD", version as u16 big endian)
//! holder → hello (its own version; it closes after it when it cannot speak the client's)
//! then frames both ways: u32 big endian length of kind and payload, u8 kind, payload
//! ```
//!
//! Every request has exactly one answer, in order, except [`Request::Expect`], [`Request::Keys`] and
//! [`Request::Watch`]: the first two have none, a watch has one [`Answer::Changed`] per change. [`Answer::Ended`] is
//! sent to every connection when the session has ended and its end is on disk; the holder closes after it.
//!
//! An attach, as `hd attach` holds it:
//!
//! ```text
//! client → hello                     holder → hello
//! client → Expect(token)             (no answer; Gone and a close if another session holds the name)
//! client → Attach { rows, cols }     holder → Snapshot(bytes that paint the screen as it is)
//!                                    holder → Output(bytes of the terminal as they come) ...
//! client → Keys(bytes typed) ...     (Refused when the program does not read and 4 MiB wait)
//! client → Resize { rows, cols }     holder → Done, among the Output
//! client closes: detached            holder → Ended(how), then closes: the session is over
//! ```
//!
//! An attached client that does not read is dropped (the stream ends without `Ended`); it may attach again and gets a
//! fresh snapshot. While no client is attached, the holder itself answers the program's queries to the terminal; an
//! attached terminal answers them by `Keys`.

use serde::{Deserialize, Serialize};

use super::facts::SessionExit;
use super::screen::ScreenView;

/// The version this build speaks.
pub const VERSION: u16 = 3;
/// The oldest version this build understands.
pub const OLDEST: u16 = VERSION;
/// Length of a hello.
pub const HELLO_LEN: usize = 8;
/// Most bytes of kind and payload in one frame.
pub const MAX_FRAME: usize = 1024 * 1024 + 64;
/// Most bytes of text or keys in one frame.
pub const MAX_INPUT: usize = 1024 * 1024;

const MAGIC: &[u8; 6] = b"HDHOLD";

/// Error when bytes from the other side are not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The first bytes are not a hello.
    #[error("the other side does not speak the holder protocol")]
    NotAHolder,
    /// A version this build does not understand.
    #[error("holder protocol version {0} is not understood (this is {VERSION}, oldest {OLDEST})")]
    Version(u16),
    /// A frame that is longer than allowed.
    #[error("a frame of {0} bytes is longer than allowed")]
    TooLong(usize),
    /// A frame whose payload does not fit its kind.
    #[error("a frame of kind {0:#04x} is malformed")]
    Malformed(u8),
}

/// Returns the first bytes that each side sends.
#[must_use]
pub fn hello(version: u16) -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    bytes[..6].copy_from_slice(MAGIC);
    bytes[6..].copy_from_slice(&version.to_be_bytes());
    bytes
}

/// Reads a hello and returns the version that both sides speak from then on.
///
/// # Errors
/// Not a hello, or a version older than [`OLDEST`]. A newer peer steps down to ours.
pub fn agree(bytes: &[u8; HELLO_LEN]) -> Result<u16, WireError> {
    if &bytes[..6] != MAGIC {
        return Err(WireError::NotAHolder);
    }
    let version = u16::from_be_bytes([bytes[6], bytes[7]]);
    if version < OLDEST {
        return Err(WireError::Version(version));
    }
    Ok(version.min(VERSION))
}

/// A request to a holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Fence: continue only if the session has this token. Empty: any.
    Expect(String),
    /// Stream the terminal to this connection, and resize the terminal unless a size is 0.
    Attach {
        /// Rows of the client's terminal.
        rows: u16,
        /// Columns of the client's terminal.
        cols: u16,
    },
    /// Bytes typed, unanswered.
    Keys(Vec<u8>),
    /// Change the terminal's size.
    Resize {
        /// Rows.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// Submit a text; answered when the terminal took it.
    Submit(String),
    /// Type bytes as they are; answered when the terminal took them.
    Type(Vec<u8>),
    /// Return the screen as text.
    Peek,
    /// Press the interrupt key.
    Interrupt,
    /// End the session; answered by [`Answer::Ended`].
    Stop {
        /// Milliseconds between TERM and KILL.
        grace_ms: u64,
    },
    /// Return the screen with its marked cells, cursor and modes.
    Look,
    /// Send [`Answer::Changed`] after output: when the program falls quiet, and once a second while it does not.
    Watch,
    /// Type a text without the submit key; answered when the terminal took it.
    Paste(String),
    /// Type the key that ends the input of a program that reads lines; answered when the terminal took it. With
    /// [`Request::Type`] it would count as a key of a person.
    EndOfInput,
    /// A kind this build does not know; answered by [`Answer::Refused`].
    Unknown(u8),
}

/// An answer of a holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Done as asked.
    Done,
    /// Not done; the text gives the reason. The connection stays open.
    Refused(String),
    /// Another session holds this name; the connection is closed.
    Gone,
    /// The screen as text.
    Screen(String),
    /// Bytes that paint the session's present screen on an empty terminal.
    Snapshot(Vec<u8>),
    /// Bytes the program wrote.
    Output(Vec<u8>),
    /// The session has ended and its end is on disk.
    Ended(Ended),
    /// The screen with its marked cells, cursor and modes.
    View(Box<ScreenView>),
    /// The program wrote output since the last `Changed`.
    Changed,
    /// A kind this build does not know; ignored.
    Unknown(u8),
}

/// The end of a session, as in `exit.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The token of the session that ended.
    pub token: String,
    /// The exit of its agent.
    #[serde(flatten)]
    pub exit: SessionExit,
    /// Set when a stop had to use KILL.
    #[serde(default)]
    pub killed: bool,
    /// Processes that outlived the agent and were ended with it.
    #[serde(default)]
    pub stragglers: u32,
    /// Processes that could not be ended.
    #[serde(default)]
    pub undead: u32,
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 1).expect("payloads are bounded by the caller");
    let mut bytes = Vec::with_capacity(payload.len() + 5);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(payload);
    bytes
}

fn size(rows: u16, cols: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (rows.to_be_bytes(), cols.to_be_bytes());
    [a, b, c, d]
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data always serialises")
}

impl Request {
    /// Encodes the request as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Expect(token) => frame(0x01, token.as_bytes()),
            Self::Attach { rows, cols } => frame(0x02, &size(*rows, *cols)),
            Self::Keys(bytes) => frame(0x03, bytes),
            Self::Resize { rows, cols } => frame(0x04, &size(*rows, *cols)),
            Self::Submit(text) => frame(0x05, text.as_bytes()),
            Self::Type(bytes) => frame(0x06, bytes),
            Self::Peek => frame(0x07, &[]),
            Self::Interrupt => frame(0x08, &[]),
            Self::Stop { grace_ms } => frame(0x0a, &grace_ms.to_be_bytes()),
            Self::Look => frame(0x0d, &[]),
            Self::Watch => frame(0x0e, &[]),
            Self::Paste(text) => frame(0x0f, text.as_bytes()),
            Self::EndOfInput => frame(0x10, &[]),
            Self::Unknown(kind) => frame(*kind, &[]),
        }
    }

    /// Reads a request from a frame's kind and payload.
    ///
    /// # Errors
    /// [`WireError::Malformed`].
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let bad = || WireError::Malformed(kind);
        let text = || String::from_utf8(payload.to_vec()).map_err(|_| bad());
        let sizes = || match payload {
            [a, b, c, d] => Ok((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))),
            _ => Err(bad()),
        };
        Ok(match kind {
            0x01 => Self::Expect(text()?),
            0x02 => {
                let (rows, cols) = sizes()?;
                Self::Attach { rows, cols }
            }
            0x03 => Self::Keys(payload.to_vec()),
            0x04 => {
                let (rows, cols) = sizes()?;
                Self::Resize { rows, cols }
            }
            0x05 => Self::Submit(text()?),
            0x06 => Self::Type(payload.to_vec()),
            0x07 => Self::Peek,
            0x08 => Self::Interrupt,
            0x0a => Self::Stop {
                grace_ms: u64::from_be_bytes(payload.try_into().map_err(|_| bad())?),
            },
            0x0d => Self::Look,
            0x0e => Self::Watch,
            0x0f => Self::Paste(text()?),
            0x10 => Self::EndOfInput,
            other => Self::Unknown(other),
        })
    }
}

impl Answer {
    /// Encodes the answer as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Done => frame(0x81, &[]),
            Self::Refused(why) => frame(0x82, why.as_bytes()),
            Self::Gone => frame(0x83, &[]),
            Self::Screen(text) => frame(0x84, text.as_bytes()),
            Self::Snapshot(bytes) => frame(0x86, bytes),
            Self::Output(bytes) => frame(0x87, bytes),
            Self::Ended(ended) => frame(0x88, &json(ended)),
            Self::View(view) => frame(0x89, &json(view)),
            Self::Changed => frame(0x8a, &[]),
            Self::Unknown(kind) => frame(*kind, &[]),
        }
    }

    /// Reads an answer from a frame's kind and payload.
    ///
    /// # Errors
    /// [`WireError::Malformed`].
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let bad = || WireError::Malformed(kind);
        let text = || String::from_utf8(payload.to_vec()).map_err(|_| bad());
        Ok(match kind {
            0x81 => Self::Done,
            0x82 => Self::Refused(text()?),
            0x83 => Self::Gone,
            0x84 => Self::Screen(text()?),
            0x86 => Self::Snapshot(payload.to_vec()),
            0x87 => Self::Output(payload.to_vec()),
            0x88 => Self::Ended(serde_json::from_slice(payload).map_err(|_| bad())?),
            0x89 => Self::View(serde_json::from_slice(payload).map_err(|_| bad())?),
            0x8a => Self::Changed,
            other => Self::Unknown(other),
        })
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    read: usize,
}

impl Frames {
    /// Adds bytes from the socket.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the hello off the front, once it is complete.
    pub fn hello(&mut self) -> Option<[u8; HELLO_LEN]> {
        let bytes = self.bytes[self.read..].first_chunk()?;
        self.read += HELLO_LEN;
        Some(*bytes)
    }

    /// Returns the next complete frame: kind and payload.
    ///
    /// # Errors
    /// A length of 0 or above [`MAX_FRAME`]; the stream cannot go on after that.
    pub fn next_frame(&mut self) -> Result<Option<(u8, &[u8])>, WireError> {
        let rest = &self.bytes[self.read..];
        let Some(length) = rest.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(WireError::TooLong(length));
        }
        if rest.len() < 4 + length {
            return Ok(None);
        }
        let start = self.read + 4;
        self.read = start + length;
        Ok(Some((
            self.bytes[start],
            &self.bytes[start + 1..start + length],
        )))
    }
}

#[cfg(test)]
mod tests;
