//! The agent's terminal: a pty of the holder with a model of its screen, or a tmux pane.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::input::Kind;
use super::pty::{Pty, Reading, hides_input};
use super::screen::Screen;
use crate::adapters::sessions::tmux::Pane;
use crate::domain::screen::ScreenView;

/// The terminal of a session.
pub enum Terminal {
    /// The holder owns it.
    Own(Pty, Box<Screen>),
    /// tmux owns it, and the holder runs inside.
    Pane(Pane),
}

impl Terminal {
    /// Opens a terminal that the holder owns.
    pub fn open(rows: u16, cols: u16) -> io::Result<Self> {
        let screen = Box::new(Screen::new(rows, cols));
        Ok(Self::Own(Pty::open(rows, cols)?, screen))
    }

    /// Returns the agent's side.
    pub fn of_the_agent(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(pty, _) => pty.slave(),
            Self::Pane(pane) => pane.tty(),
        }
    }

    /// Returns true if tmux owns it.
    pub fn is_pane(&self) -> bool {
        matches!(self, Self::Pane(_))
    }

    /// Returns the number of rows and columns.
    pub fn size(&self) -> (u16, u16) {
        match self {
            Self::Own(_, screen) => screen.size(),
            Self::Pane(pane) => pane.size(),
        }
    }

    /// Changes the size.
    pub fn resize(&mut self, rows: u16, cols: u16) -> io::Result<()> {
        match self {
            Self::Own(pty, screen) => {
                pty.resize(rows, cols)?;
                screen.resize(rows, cols);
                Ok(())
            }
            Self::Pane(pane) => pane.resize(rows, cols),
        }
    }

    /// Returns the mode in which the program reads.
    pub fn reading(&self) -> Reading {
        Reading::of(self.of_the_agent())
    }

    /// Returns true if the holder must bracket pastes; tmux does that itself.
    pub fn wants_brackets(&self) -> bool {
        match self {
            Self::Own(_, screen) => screen.wants_brackets(),
            Self::Pane(_) => false,
        }
    }

    /// Reads the program's output; 0 if there is none now.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Own(pty, _) => pty.read(buffer),
            Self::Pane(pane) => pane.read(buffer),
        }
    }

    /// Updates the screen. Returns the answers to the program's queries; tmux answers by itself.
    pub fn show(&mut self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Own(_, screen) => screen.show(bytes),
            Self::Pane(pane) => {
                pane.follow(bytes);
                Vec::new()
            }
        }
    }

    /// Types bytes; 0 if the program must read first.
    pub fn write(&self, bytes: &[u8], kind: Kind) -> io::Result<usize> {
        match (self, kind) {
            (Self::Own(pty, _), _) => pty.write(bytes),
            (Self::Pane(pane), Kind::Text) => pane.paste(bytes),
            (Self::Pane(pane), Kind::Keys) => pane.press(bytes),
        }
    }

    /// Presses the interrupt key, ahead of all queued input.
    pub fn interrupt(&self) -> io::Result<()> {
        match self {
            Self::Own(pty, _) => pty.interrupt(),
            Self::Pane(pane) => pane.interrupt(),
        }
    }

    /// Returns the screen as text, one line per row, blank ends cut.
    pub fn text(&self) -> io::Result<String> {
        match self {
            Self::Own(_, screen) => Ok(screen.text()),
            Self::Pane(pane) => pane.text(),
        }
    }

    /// Returns the screen with its marked cells, cursor and modes.
    pub fn view(&self) -> io::Result<ScreenView> {
        let lines = self.reading() == Reading::Lines;
        let view = match self {
            Self::Own(_, screen) => screen.view(),
            Self::Pane(pane) => {
                // tmux returns the screen as bytes that paint it.
                let (rows, cols) = pane.size();
                let mut screen = Screen::new(rows, cols);
                screen.show(&pane.paint()?);
                ScreenView {
                    bracketed_paste: Some(pane.wants_brackets()),
                    ..screen.view()
                }
            }
        };
        Ok(ScreenView {
            reads_lines: Some(lines),
            hides_input: Some(hides_input(self.of_the_agent())),
            ..view
        })
    }

    /// Like [`Terminal::paint`], without a tmux command: none in a pane.
    pub fn painted(&self) -> Option<Vec<u8>> {
        match self {
            Self::Own(_, screen) => Some(screen.paint()),
            Self::Pane(_) => None,
        }
    }

    /// Returns bytes that paint the screen on a terminal.
    pub fn paint(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Own(_, screen) => Ok(screen.paint()),
            Self::Pane(pane) => pane.paint(),
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(pty, _) => pty.as_fd(),
            Self::Pane(pane) => pane.as_fd(),
        }
    }
}
