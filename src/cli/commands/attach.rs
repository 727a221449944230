//! `hd attach` and `hd logs -f`: a session's terminal, straight from its holder. The supervisor only tells the holder's
//! place.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::isatty;

use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::output;
use crate::control::client;
use crate::control::protocol::answers::{Attached, Pane};
use crate::control::protocol::{Exit, Op, args::Named};
use crate::domain::holder_wire::{self as wire, Answer, Ended, Frames, Request};
use crate::domain::terminal_text::Following;

mod end;
mod terminal;
mod terminal_keys;

use terminal::{Signal, Terminal};
use terminal_keys::{Keys, Typed};

/// Bytes taken from a socket or a keyboard at once.
const CHUNK: usize = 64 * 1024;

/// The end of an attached client.
enum End {
    Detached,
    Ended(Ended),
    /// The holder let go of a client that did not read fast enough.
    Dropped,
}

/// Takes this terminal into the session until Ctrl-\ or its end.
pub(super) fn attach(args: Named, context: &mut Context) -> Result<(), CliError> {
    if !(isatty(io::stdin()) && isatty(io::stdout())) {
        return Err(CliError::usage("attach needs a terminal")
            .hint("`hd peek NAME` prints the screen, `hd logs -f NAME` follows it"));
    }
    let name = args.name.clone();
    let point: Attached = context.ask(&Op::Attach(args))?;
    if let Some(pane) = &point.tmux {
        return become_tmux(pane);
    }
    let mut holder = Holder::reach(&point)?;
    output::message(&format!("hd: attached to {name}; Ctrl-\\ detaches"));
    let mut terminal = Terminal::raw()?;
    let end = holder.interact(&mut terminal);
    drop(terminal);
    match end? {
        End::Detached => output::message(&format!("hd: detached; {name} continues")),
        End::Ended(ended) => {
            let told = end::end_message(context, &name, &point, &ended);
            output::message(&format!("hd: {told}"));
        }
        End::Dropped => return Err(dropped()),
    }
    Ok(())
}

/// Becomes the tmux client of a pane. Only these two words of the answer are used, each in its own place and form: an
/// answer can name no other program or argument.
#[expect(clippy::disallowed_methods, reason = "becomes the client of tmux")]
fn become_tmux(pane: &Pane) -> Result<(), CliError> {
    let number = pane.id.strip_prefix('%').unwrap_or_default();
    let is_id = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !(is_id && pane.socket.is_absolute()) {
        return Err(strange());
    }
    client::is_ours(&pane.socket).doing(format!("the tmux server at {}", pane.socket.display()))?;
    let mut tmux = Command::new("tmux");
    tmux.arg("-S").arg(&pane.socket);
    tmux.args(["attach-session", "-t", &pane.id]);
    Err(tmux.exec()).doing("tmux")
}

/// Shows what the session writes until it ends, and touches nothing.
pub(super) fn watch(name: String, context: &mut Context) -> Result<(), CliError> {
    let point: Attached = context.ask(&Op::Attach(Named { name: name.clone() }))?;
    let mut holder = Holder::reach(&point)?;
    match holder.watch()? {
        End::Ended(ended) => {
            let told = end::end_message(context, &name, &point, &ended);
            output::message(&format!("\nhd: {told}"));
        }
        End::Detached => {}
        End::Dropped => return Err(dropped()),
    }
    Ok(())
}

fn how(ended: &Ended) -> String {
    match (ended.exit.code, ended.exit.signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn dropped() -> CliError {
    CliError::failed("the session disconnected this terminal, which was too slow")
        .hint("attach again")
}

/// A connection to the process that holds a session.
struct Holder {
    stream: UnixStream,
    frames: Frames,
    /// Set when the output is shown as text instead of on a terminal of the session's size.
    followed: Option<Following>,
}

impl Holder {
    /// Connects to the session at the place that the supervisor named.
    fn reach(point: &Attached) -> Result<Self, CliError> {
        let socket = &point.socket;
        let stream = client::open(socket).doing(format!("the session at {}", socket.display()))?;
        let mut holder = Self {
            stream,
            frames: Frames::default(),
            followed: None,
        };
        holder.greet()?;
        // Whichever session has the name: the supervisor names no token.
        holder.send(&Request::Expect(String::new()))?;
        Ok(holder)
    }

    fn greet(&mut self) -> Result<(), CliError> {
        self.stream
            .write_all(&wire::hello(wire::VERSION))
            .doing("the session")?;
        let hello = loop {
            if let Some(hello) = self.frames.hello() {
                break hello;
            }
            if !self.hear()? {
                return Err(CliError::failed("the session does not answer"));
            }
        };
        let agreed = wire::agree(&hello);
        agreed.map_err(|error| CliError::new(Exit::Version, error.to_string()))?;
        Ok(())
    }

    fn send(&mut self, request: &Request) -> Result<(), CliError> {
        let sent = self.stream.write_all(&request.encode());
        match sent {
            // The reason of the end may still be unread.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent.doing("the session"),
        }
    }

    /// Reads from the holder; false at the end of its messages.
    fn hear(&mut self) -> Result<bool, CliError> {
        let mut bytes = [0; CHUNK];
        let read = loop {
            match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break 0,
                read => break read.doing("the session")?,
            }
        };
        self.frames.push(&bytes[..read]);
        Ok(read > 0)
    }

    /// Shows the frames that are complete.
    fn show(&mut self) -> Result<Option<End>, CliError> {
        let broken = |error: wire::WireError| CliError::failed(error.to_string());
        while let Some((kind, payload)) = self.frames.next_frame().map_err(broken)? {
            match Answer::decode(kind, payload).map_err(broken)? {
                Answer::Snapshot(bytes) | Answer::Output(bytes) => match &mut self.followed {
                    Some(following) => {
                        output::print(following.text(&bytes).as_bytes())?;
                    }
                    None => output::print(&bytes)?,
                },
                Answer::Ended(ended) => return Ok(Some(End::Ended(ended))),
                Answer::Gone => {
                    return Err(CliError::new(Exit::NotFound, "that session has ended")
                        .hint("a newer one may run; try again"));
                }
                // Keys that the program does not read; the terminal bell is its own message.
                Answer::Refused(_) => output::print(b"\x07")?,
                Answer::Done
                | Answer::Screen(_)
                | Answer::View(_)
                | Answer::Changed
                | Answer::Unknown(_) => {}
            }
        }
        Ok(None)
    }

    fn watch(&mut self) -> Result<End, CliError> {
        self.followed = Some(Following::default());
        // A size of 0 leaves the terminal as it is.
        self.send(&Request::Attach { rows: 0, cols: 0 })?;
        loop {
            // Shows messages that came together with the greeting before waiting for more.
            if let Some(end) = self.show()? {
                return Ok(end);
            }
            if !self.hear()? {
                return Ok(End::Dropped);
            }
        }
    }

    fn interact(&mut self, terminal: &mut Terminal) -> Result<End, CliError> {
        let (rows, cols) = terminal.size();
        self.send(&Request::Attach { rows, cols })?;
        let mut keys = Keys::default();
        loop {
            if let Some(end) = self.show()? {
                return Ok(end);
            }
            let (input, signal, session) = ready(terminal, &self.stream)?;
            if signal {
                match terminal.signal()? {
                    Some(Signal::Resized) => {
                        let (rows, cols) = terminal.size();
                        self.send(&Request::Resize { rows, cols })?;
                    }
                    Some(Signal::End) => return Ok(End::Detached),
                    None => {}
                }
            }
            if input {
                let mut bytes = [0; 4096];
                let read = io::stdin().lock().read(&mut bytes).doing("the keyboard")?;
                if read == 0 {
                    return Ok(End::Detached);
                }
                match keys.take(&bytes[..read]) {
                    Typed::Keys(bytes) => self.send(&Request::Keys(bytes))?,
                    Typed::Detach(before) => {
                        self.send(&Request::Keys(before))?;
                        return Ok(End::Detached);
                    }
                }
            }
            if session && !self.hear()? {
                return Ok(End::Dropped);
            }
        }
    }
}

fn strange() -> CliError {
    CliError::failed("the supervisor did not report a pane of tmux")
}

/// Waits for the keyboard, a signal or the session.
fn ready(terminal: &Terminal, session: &UnixStream) -> Result<(bool, bool, bool), CliError> {
    let stdin = io::stdin();
    let mut fds = [
        PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(terminal.signals(), PollFlags::IN),
        PollFd::new(session, PollFlags::IN),
    ];
    loop {
        match poll(&mut fds, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error)).doing("the terminal"),
        }
    }
    let is_ready = |index: usize| !fds[index].revents().is_empty();
    Ok((is_ready(0), is_ready(1), is_ready(2)))
}
