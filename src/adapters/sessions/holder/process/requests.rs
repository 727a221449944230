//! Answers requests.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::terminal::Terminal;
use super::{Holder, Stopping, screen};
use crate::domain::harness::END_OF_INPUT;
use crate::domain::holder_wire::{Answer, MAX_INPUT, Request};
use crate::domain::screen::ScreenView;
use crate::domain::terminal_keys;
use crate::domain::typed_line::TypedLine;

/// The time after a key press within which a person in tmux may have begun a line.
const TYPES: Duration = Duration::from_secs(10);

impl Holder {
    /// Answers the request of the connection at this index.
    pub(super) fn answer(&mut self, at: usize, request: Request) {
        let id = self.peers[at].id;
        let answer = match request {
            Request::Attach { .. }
            | Request::Keys(_)
            | Request::Type(_)
            | Request::Submit(_)
            | Request::Paste(_)
            | Request::EndOfInput
            | Request::Resize { .. }
            | Request::Peek
            | Request::Look
                if self.lost =>
            {
                Answer::Refused("its terminal is gone".to_owned())
            }
            Request::Expect(token) if token.is_empty() || token == self.state.token => return,
            Request::Expect(_) => {
                self.peers[at].answer(&Answer::Gone);
                self.peers[at].close();
                return;
            }
            Request::Attach { rows, cols } => return self.attach(at, rows, cols),
            Request::Keys(_) if self.terminal.is_pane() => {
                Answer::Refused("a tmux session takes keys only in tmux itself".to_owned())
            }
            Request::Keys(bytes) => match self.input.type_bytes(bytes.clone(), None) {
                Ok(()) => return self.note_typed(at, &bytes),
                Err(why) => Answer::Refused(why),
            },
            Request::Type(_) | Request::Submit(_) | Request::Paste(_) | Request::EndOfInput => {
                match self.put_in(id, &request) {
                    Ok(()) => return self.peers[at].waits = true,
                    Err(why) => Answer::Refused(why),
                }
            }
            Request::Resize { rows, cols } => {
                if !self.peers[at].attached {
                    self.own_size = screen::bounded(rows, cols);
                }
                done(self.set_size(rows, cols))
            }
            Request::Peek => match self.terminal.text() {
                Ok(text) => Answer::Screen(text),
                Err(error) => Answer::Refused(error.to_string()),
            },
            Request::Look => match self.terminal.view() {
                Ok(view) => Answer::View(Box::new(self.with_input(view))),
                Err(error) => Answer::Refused(error.to_string()),
            },
            Request::Watch => return self.peers[at].watches = true,
            Request::Interrupt => {
                self.interrupted = true;
                done(self.terminal.interrupt())
            }
            Request::Stop { grace_ms } => return self.stop(Duration::from_millis(grace_ms)),
            Request::Unknown(kind) => {
                Answer::Refused(format!("requests of kind {kind:#04x} are unknown"))
            }
        };
        self.peers[at].answer(&answer);
    }

    /// Queues input; the answer follows when the program has read it.
    fn put_in(&mut self, id: u64, request: &Request) -> Result<(), String> {
        let bracketed = self.terminal.wants_brackets();
        match request {
            Request::Submit(text) => {
                let reading = self.terminal.reading();
                self.input.submit(text, reading, bracketed, Some(id))?;
            }
            Request::Paste(text) => self.input.paste(text, bracketed, Some(id))?,
            Request::Type(bytes) => self.input.type_bytes(bytes.clone(), Some(id))?,
            Request::EndOfInput => {
                let key = END_OF_INPUT.to_string().into_bytes();
                self.input.type_bytes(key, Some(id))?;
            }
            _ => {}
        }
        // Only after the input was accepted: refused input ends no line.
        self.note_pressed(request);
        Ok(())
    }

    /// Notes the time of an attached person's input, and whether it was a key that ends programs.
    fn note_typed(&mut self, at: usize, typed: &[u8]) {
        if !self.peers[at].attached {
            return;
        }
        self.begun.typed(typed, Timestamp::now());
        if !terminal_keys::is_typed(typed) {
            return;
        }
        self.typed = Some(Instant::now());
        if terminal_keys::ends_programs(typed) {
            self.ending_key = self.typed;
        }
    }

    /// Notes input typed for a person: a key that ends programs, or the end of a line that they have begun.
    fn note_pressed(&mut self, request: &Request) {
        match request {
            Request::Type(bytes) => {
                if terminal_keys::ends_programs(bytes) {
                    self.ending_key = Some(Instant::now());
                }
                self.begun.pressed(bytes);
            }
            Request::Submit(_) => self.begun = TypedLine::default(),
            _ => {}
        }
    }

    /// Adds facts about input to the view: a line that a person has begun, and queued input. In tmux a person's keys
    /// are invisible, only the time of the last one is known.
    fn with_input(&self, view: ScreenView) -> ScreenView {
        let (begun, touched) = match &self.terminal {
            Terminal::Own(..) => (self.begun.typed_last(Timestamp::now()), None),
            Terminal::Pane(pane) => (None, pane.typed_within(TYPES)),
        };
        ScreenView {
            begun,
            touched,
            queued: Some(self.input.waiting() as u64),
            inputs: Some(self.input.inputs()),
            ..view
        }
    }

    fn attach(&mut self, at: usize, rows: u16, cols: u16) {
        // A peer that watches a tmux pane through the holder does not set its size.
        if rows > 0 && cols > 0 && !self.terminal.is_pane() {
            // A terminal that cannot be resized is shown as it is.
            let _best_effort = self.set_size(rows, cols);
        }
        let paint = match self.terminal.paint() {
            Ok(paint) => paint,
            Err(error) => return self.peers[at].refuse(error.to_string()),
        };
        let (first, rest) = paint.split_at(paint.len().min(MAX_INPUT));
        let peer = &mut self.peers[at];
        peer.answer(&Answer::Snapshot(first.to_vec()));
        peer.stream(rest);
        peer.follows = true;
        peer.attached = rows > 0 && cols > 0;
    }

    /// Changes the terminal's size, within bounds.
    pub(super) fn set_size(&mut self, rows: u16, cols: u16) -> std::io::Result<()> {
        let (rows, cols) = screen::bounded(rows, cols);
        if self.terminal.size() == (rows, cols) {
            return Ok(());
        }
        self.terminal.resize(rows, cols)
    }

    /// Signals the agent's process group. Its pid cannot be reused: the agent is our child and is not reaped before
    /// the session is over.
    pub(super) fn signal_group(&self, signal: Signal) -> nix::Result<()> {
        killpg(Pid::from_raw(self.state.agent.pid.cast_signed()), signal)
    }

    /// Begins to end the session. A second stop can only shorten the grace period.
    pub(super) fn stop(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace.min(Duration::from_secs(365 * 24 * 3600));
        if let Some(stop) = &mut self.stopping {
            stop.kill_at = stop.kill_at.min(kill_at);
            return;
        }
        self.stopping = Some(Stopping {
            kill_at,
            killed: false,
        });
        if !grace.is_zero() {
            // If there is no group to signal, the agent's end is reported soon. A stopped agent takes the TERM only
            // once it is continued.
            let _ended = self.signal_group(Signal::SIGTERM);
            let _ended = self.signal_group(Signal::SIGCONT);
        }
    }
}

fn done(result: std::io::Result<()>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(error.to_string()),
    }
}
