//! The daemon's side of the conversation with a holder: blocking, every wait with a timeout.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::files::SOCK;
use crate::domain::holder_wire::{
    Answer, Frames, HELLO_LEN, Request, VERSION, WireError, agree, hello,
};

/// The timeout after which a holder counts as stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout for ending a session. Twice this, for the interrupt and for the stop, is less than a stop of all
/// sessions may take.
const HURRY: Duration = Duration::from_secs(3);

/// The reason why a holder did not do what was asked.
#[derive(Debug)]
pub enum HolderError {
    /// The session is over, or another one has its name.
    Gone,
    /// The holder refused.
    Refused(String),
    /// The holder has no protocol version in common.
    Foreign(WireError),
    /// The holder did not answer.
    Silent(io::Error),
}

impl From<io::Error> for HolderError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Self::Gone,
            _ => Self::Silent(error),
        }
    }
}

impl std::fmt::Display for HolderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("the session has ended"),
            Self::Refused(why) => f.write_str(why),
            Self::Foreign(error) => write!(f, "its holder has another version: {error}"),
            Self::Silent(error) if error.kind() == ErrorKind::WouldBlock => {
                f.write_str("its holder does not answer")
            }
            Self::Silent(error) => write!(f, "its holder does not answer: {error}"),
        }
    }
}

/// A conversation with the holder of one session.
pub struct Client {
    stream: UnixStream,
    frames: Frames,
}

impl Client {
    /// Connects to the holder in this directory, if it holds the session of this token.
    ///
    /// # Errors
    /// [`HolderError`].
    pub fn connect(dir: &Path, token: &str) -> Result<Self, HolderError> {
        Self::within(PATIENCE, dir, token)
    }

    /// Like [`Client::connect`], with a short timeout, for a caller that ends the session: a holder that hangs does
    /// not delay that.
    ///
    /// # Errors
    /// [`HolderError`].
    pub fn hurried(dir: &Path, token: &str) -> Result<Self, HolderError> {
        Self::within(HURRY, dir, token)
    }

    fn within(limit: Duration, dir: &Path, token: &str) -> Result<Self, HolderError> {
        let mut stream = open(dir, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(&hello(VERSION))?;
        stream.write_all(&Request::Expect(token.to_owned()).encode())?;
        let mut bytes = [0; HELLO_LEN];
        stream.read_exact(&mut bytes)?;
        agree(&bytes).map_err(HolderError::Foreign)?;
        Ok(Self {
            stream,
            frames: Frames::default(),
        })
    }

    /// Returns the connection and the unread data, for a caller that goes on without blocking.
    pub fn into_parts(self) -> (UnixStream, Frames) {
        (self.stream, self.frames)
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// [`HolderError`].
    pub fn ask(&mut self, request: &Request) -> Result<Answer, HolderError> {
        self.send(request)?;
        match self.answer()? {
            Answer::Refused(why) => Err(HolderError::Refused(why)),
            Answer::Gone | Answer::Ended(_) => Err(HolderError::Gone),
            answer => Ok(answer),
        }
    }

    /// Sends a request without waiting.
    ///
    /// # Errors
    /// [`HolderError`].
    pub fn send(&mut self, request: &Request) -> Result<(), HolderError> {
        Ok(self.stream.write_all(&request.encode())?)
    }

    /// Waits for the next message of the holder.
    ///
    /// # Errors
    /// [`HolderError`].
    pub fn answer(&mut self) -> Result<Answer, HolderError> {
        let odd = |error| HolderError::Silent(io::Error::new(ErrorKind::InvalidData, error));
        loop {
            if let Some((kind, payload)) = self.frames.next_frame().map_err(odd)? {
                return Answer::decode(kind, payload).map_err(odd);
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(HolderError::Gone),
                Ok(count) => self.frames.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Connects with a path of any length. The timeout also covers a holder that accepts no connection.
fn open(dir: &Path, limit: Duration) -> io::Result<UnixStream> {
    let dir = File::open(dir)?;
    let path = format!("/proc/self/fd/{}/{SOCK}", dir.as_raw_fd());
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
