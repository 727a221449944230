//! The `hd` end of the control socket: blocking, small, and never stuck on a hanging supervisor.
#![expect(
    clippy::disallowed_methods,
    reason = "a blocking client waits for another process, in real time"
)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::owner::Foreign;
use super::protocol::{Body, ControlError, Op, OpName, Pace, Request, Response, args};

mod owner;
pub mod seat;

/// The longest answer line; a city would need some hundred thousand raiders for it.
const ANSWER_MAX: u64 = 256 * 1024 * 1024;
/// The number of bytes that are read at once: the status of a large city has hundreds of kilobytes.
const READ_AT_ONCE: usize = 256 * 1024;
/// The silence after which a supervisor is asked whether it lives.
const SILENCE: Duration = Duration::from_secs(10);
/// The limit for an answer to that ping.
const PING_LIMIT: Duration = Duration::from_secs(5);
/// The limit of a request that only reads.
const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// The limit of a request that changes something: sandboxes are made, branches pushed, sessions ended.
const ACT_LIMIT: Duration = Duration::from_secs(15 * 60);

/// A connection to a supervisor.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    reader: BufReader<UnixStream>,
    asked: u64,
}

impl Client {
    /// Connects to the socket.
    ///
    /// # Errors
    /// `unavailable` when nothing listens there.
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let stream = open(path).map_err(|error| unreachable(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(READ_AT_ONCE, stream),
            asked: 0,
        })
    }

    /// Sends a request, and waits for the result.
    ///
    /// # Errors
    /// The supervisor's error; `unavailable` when it no longer lives; `timeout` when it lives and does not finish.
    pub fn call(&mut self, op: &Op) -> Result<Value, ControlError> {
        let text = self.call_text(op)?;
        serde_json::from_str(&text).map_err(|error| strange(&error.to_string()))
    }

    /// Sends a request, and waits for the result. Returns its JSON as it came: a large one is not read twice.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call_text(&mut self, op: &Op) -> Result<String, ControlError> {
        let id = self.ask(op)?;
        let limit = match op.name().pace() {
            Pace::Slow => ACT_LIMIT,
            Pace::Quick => LOOK_LIMIT,
        };
        let started = Instant::now();
        loop {
            let line = self.line(op.name(), started, Some(limit))?;
            let unread: Unread<'_> = read(&line)?;
            match unread.ok {
                Some(true) if unread.id == id => {
                    let result = unread.result.map_or("null", RawValue::get);
                    return Ok(result.to_owned());
                }
                Some(true) => return Err(strange("it answered another request")),
                // An item, or an error.
                Some(false) | None => {
                    if let Body::Failed(error) = read::<Response>(&line)?.body {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Sends a request, and gives each item to `each` until that says stop, or the stream ends. Waits without a limit. After a
    /// stop, the connection takes no further request.
    ///
    /// # Errors
    /// As [`Client::call`], or the error of `each`.
    pub fn stream<E: From<ControlError>>(
        &mut self,
        op: &Op,
        mut each: impl FnMut(Value) -> Result<Flow, E>,
    ) -> Result<(), E> {
        let id = self.ask(op)?;
        loop {
            let line = self.line(op.name(), Instant::now(), None)?;
            let response = read::<Response>(&line)?;
            match response.body {
                Body::Item(_) | Body::Done(_) if response.id != id => {
                    return Err(strange("it answered another request").into());
                }
                Body::Item(item) => {
                    if each(item)? == Flow::Stop {
                        return Ok(());
                    }
                }
                Body::Done(_) => return Ok(()),
                Body::Failed(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the process at the other end.
    #[must_use]
    pub fn peer_pid(&self) -> Option<u32> {
        let peer = owner::peer(self.reader.get_ref()).ok()?;
        u32::try_from(peer.pid()).ok().filter(|pid| *pid != 0)
    }

    fn ask(&mut self, op: &Op) -> Result<Value, ControlError> {
        self.asked += 1;
        let id = self.asked.to_string();
        let mut line = Request::line(&id, op);
        line.push('\n');
        let mut stream = self.reader.get_ref();
        let sent = stream
            .set_write_timeout(Some(SILENCE))
            .and_then(|()| stream.write_all(line.as_bytes()));
        match sent {
            // A refused connection is closed at once, but the reason can still be read.
            Ok(()) => Ok(Value::String(id)),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Value::String(id)),
            Err(error) => Err(unreachable(&self.path, &error)),
        }
    }

    /// Reads the next line. With a limit, a silence makes the client ping the supervisor on another connection. A
    /// stream has no limit: it may be silent for days, and its end is noticed.
    fn line(
        &mut self,
        op: OpName,
        started: Instant,
        limit: Option<Duration>,
    ) -> Result<Vec<u8>, ControlError> {
        let mut bytes = Vec::new();
        let silence = if op == OpName::Ping {
            PING_LIMIT
        } else {
            SILENCE
        };
        loop {
            let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(
                    ControlError::timeout(format!("{op} did not finish in time"))
                        .hint("it may still finish; see `hd events` and `hd status`"),
                );
            }
            let wait = left.map(|left| left.min(silence).max(Duration::from_millis(1)));
            self.reader
                .get_ref()
                .set_read_timeout(wait)
                .map_err(|error| unreachable(&self.path, &error))?;
            let mut limited = (&mut self.reader).take(ANSWER_MAX - bytes.len() as u64);
            match limited.read_until(b'\n', &mut bytes) {
                Ok(_) if bytes.ends_with(b"\n") => return Ok(bytes),
                Ok(_) => return Err(hung_up(&self.path)),
                Err(error) if silent(&error) => self.still_lives(op)?,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(hung_up(&self.path));
                }
                Err(error) => return Err(unreachable(&self.path, &error)),
            }
        }
    }

    fn still_lives(&self, op: OpName) -> Result<(), ControlError> {
        // A stopping supervisor takes no new connections, and its end is noticed on this one.
        if op == OpName::Stop {
            return Ok(());
        }
        if op != OpName::Ping && Self::connect(&self.path)?.answers() {
            return Ok(());
        }
        Err(ControlError::unavailable(format!(
            "the supervisor at {} does not answer",
            self.path.display()
        ))
        .hint("its process may hang or be stopped; killing and restarting it is safe"))
    }

    /// Returns whether the supervisor answers at all; a refusal for too many connections counts.
    fn answers(mut self) -> bool {
        let ping = Op::Ping(args::Nothing {});
        let asked = self.ask(&ping).is_ok();
        asked
            && self
                .line(OpName::Ping, Instant::now(), Some(PING_LIMIT))
                .is_ok_and(|line| read::<Response>(&line).is_ok())
    }
}

/// A line of an answer whose result is not read yet.
#[derive(Deserialize)]
struct Unread<'line> {
    id: Value,
    ok: Option<bool>,
    #[serde(borrow)]
    result: Option<&'line RawValue>,
}

fn read<'line, T: Deserialize<'line>>(line: &'line [u8]) -> Result<T, ControlError> {
    serde_json::from_slice(line).map_err(|error| strange(&error.to_string()))
}

/// The answer of a stream's reader: go on or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    Continue,
    /// Stop reading.
    Stop,
}

/// Verifies that a socket and its directory are this user's.
///
/// # Errors
/// They are not, or cannot be read.
pub fn is_ours(path: &Path) -> io::Result<()> {
    owner::dir_of(path).map(drop)
}

/// Returns whether a socket is there that another user could have made.
#[must_use]
pub fn is_foreign(path: &Path) -> bool {
    let found = owner::dir_of(path);
    found.is_err_and(|error| error.get_ref().is_some_and(|inner| inner.is::<Foreign>()))
}

/// Connects to a socket of this user's without waiting: the full queue of a hanging supervisor is an error, too. A path
/// too long for a socket's address is reached through its opened directory.
///
/// # Errors
/// It belongs to another user ([`Foreign`]), or nothing listens.
pub fn open(path: &Path) -> io::Result<UnixStream> {
    let dir = owner::dir_of(path)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    match SocketAddrUnix::new(path) {
        Ok(address) => rustix::net::connect(&socket, &address)?,
        Err(_) => {
            let too_long = || io::Error::from(io::ErrorKind::InvalidFilename);
            let name = path.file_name().ok_or_else(too_long)?;
            let near = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string());
            rustix::net::connect(&socket, &SocketAddrUnix::new(near.join(name))?)?;
        }
    }
    owner::verify_peer(&socket, path)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn silent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn unreachable(path: &Path, error: &io::Error) -> ControlError {
    let inner = error.get_ref();
    if let Some(foreign) = inner.and_then(|inner| inner.downcast_ref::<Foreign>()) {
        return ControlError::unavailable(format!("the socket is not used: {foreign}"))
            .hint(foreign.hint.clone());
    }
    let why = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "no process listens".to_owned()
        }
        io::ErrorKind::WouldBlock => "it accepts no more connections".to_owned(),
        _ => error.to_string(),
    };
    ControlError::unavailable(format!(
        "the supervisor cannot be reached at {}: {why}",
        path.display()
    ))
    .hint("start it with `hd up -d`")
}

fn hung_up(path: &Path) -> ControlError {
    ControlError::unavailable(format!(
        "the supervisor at {} closed the connection",
        path.display()
    ))
    .hint("it may have stopped; see `hd ping`")
}

fn strange(why: &str) -> ControlError {
    ControlError::internal(format!(
        "the process that answers is not a supervisor: {why}"
    ))
}
