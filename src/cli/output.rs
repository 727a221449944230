//! Standard output: colours only on a terminal and if the user wants them, and no panic when the reader has closed the
//! pipe.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::termios;

use super::environment;
use super::error::CliError;
use crate::domain::shown;

/// The colours and width to write with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub color: bool,
    /// The terminal's width, which lines are fitted to. None when the output is no terminal: then nothing is cut.
    pub width: Option<usize>,
}

/// Few colours, each with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
    Waits,
    Faint,
    Strong,
}

impl Style {
    /// For standard output.
    pub fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    /// For standard error.
    pub fn of_stderr() -> Self {
        Self::of(&io::stderr())
    }

    /// Chooses colours: none with `NO_COLOR`, `TERM=dumb`, or if the stream is no terminal.
    fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        let unwanted = environment::value("NO_COLOR").is_some();
        let dumb = environment::raw("TERM").is_none_or(|term| term == "dumb");
        Self {
            color: stream.is_terminal() && !unwanted && !dumb,
            width: width(stream),
        }
    }

    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Waits => "33",
            Tone::Faint => "2",
            Tone::Strong => "1",
        };
        if self.color && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Returns the terminal's width; none without a terminal, or if the terminal does not know it.
fn width(stream: &impl AsFd) -> Option<usize> {
    let size = termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Prints bytes unchanged, and flushes.
pub(super) fn print(text: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::closed_pipe(),
        _ => CliError::failed(format!("standard output: {error}")),
    })
}

/// Prints a text with its line end; control sequences are removed, except for colours.
pub(super) fn line(text: &str) -> Result<(), CliError> {
    print(with_end(shown::painted(text)).as_bytes())
}

/// Prints JSON with its line end.
pub(super) fn json(value: &impl Display) -> Result<(), CliError> {
    print(with_end(shown::json(&value.to_string())).as_bytes())
}

fn with_end(text: Cow<'_, str>) -> String {
    let mut text = text.into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Prints a message for people on standard error.
pub(super) fn message(text: &str) {
    eprintln!("{}", shown::painted(text));
}
