//! This terminal in raw mode while it shows a session; always restored.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::termios::{self, OptionalActions, Termios};

use crate::cli::error::{CliError, Doing};

/// Undoes the modes that programs leave behind, then moves below their screen, so that later output does not land in
/// it. In order: synchronised output, extended keys, alternate screen, mouse, focus, paste marks, application keys,
/// origin mode, scroll region, character set, wrapping, a hidden or odd cursor, colours; the bottom line, and a new one
/// after it.
const LEAVE: &[u8] =
    b"\x1b[?2026l\x1b[<u\x1b[>4;0m\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\
    \x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[?6l\x1b[r\x0f\x1b(B\x1b[?7h\x1b[?25h\x1b[0 q\x1b[0m\
    \x1b[999;1H\r\n";

/// The meaning of a signal here.
pub(super) enum Signal {
    /// The window has another size.
    Resized,
    /// This process is told to end.
    End,
}

/// A terminal in raw mode, restored when dropped.
pub(super) struct Terminal {
    before: Termios,
    mask: SigSet,
    signals: SignalFd,
}

/// Replaces a size of 0, which tells the holder that this terminal only watches: typed text would not count as a
/// person's.
fn known_size((rows, cols): (u16, u16)) -> (u16, u16) {
    match rows > 0 && cols > 0 {
        true => (rows, cols),
        false => (24, 80),
    }
}

impl Terminal {
    pub fn raw() -> Result<Self, CliError> {
        let mut wanted = SigSet::empty();
        for signal in [
            Number::SIGWINCH,
            Number::SIGTERM,
            Number::SIGHUP,
            Number::SIGINT,
        ] {
            wanted.add(signal);
        }
        let doing = "the terminal";
        let mask = wanted.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        let mask = mask.map_err(io::Error::from).doing(doing)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&wanted, flags);
        let signals = signals.map_err(io::Error::from).doing(doing)?;
        let before = termios::tcgetattr(io::stdin())
            .map_err(io::Error::from)
            .doing(doing)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)
            .map_err(io::Error::from)
            .doing(doing)?;
        Ok(Self {
            before,
            mask,
            signals,
        })
    }

    /// Returns its rows and columns; the usual ones if it does not know them, as on a serial line.
    pub fn size(&self) -> (u16, u16) {
        let size = termios::tcgetwinsize(io::stdout());
        known_size(size.map_or((0, 0), |size| (size.ws_row, size.ws_col)))
    }

    /// Readable when there is a signal to take.
    pub fn signals(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// Takes a signal.
    pub fn signal(&mut self) -> Result<Option<Signal>, CliError> {
        let taken = self.signals.read_signal().map_err(io::Error::from);
        let number = taken.doing("signals")?.map(|taken| taken.ssi_signo);
        let resized = u32::try_from(Number::SIGWINCH as i32).ok();
        Ok(number.map(|number| match Some(number) == resized {
            true => Signal::Resized,
            false => Signal::End,
        }))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that has gone needs no restoring.
        let _gone = io::stdout()
            .write_all(LEAVE)
            .and_then(|()| io::stdout().flush());
        let _gone = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
        let _unchanged = self.mask.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    /// A panel with modes of its own, drawn at the top; over the shell's lines or on a screen of its own.
    #[test]
    fn output_after_leaving_stands_alone_below_the_screen() {
        let size = |cells| NonZeroU16::new(cells).unwrap();
        for (enters, keeps) in [("", "panel"), ("\x1b[?1049h", "$ hd attach")] {
            let mut screen = vt100::Parser::new(size(10), size(40), 0);
            screen.process(b"$ ls\r\n$ hd attach\r\n");
            screen.process(enters.as_bytes());
            screen.process(
                b"\x1b[2J\x1b[2;6r\x1b[?6h\x1b[1;1Hpanel one\r\nrow two\x1b[1;4H\x1b[?25l",
            );
            screen.process(LEAVE);
            screen.process(b"hd: detached");
            let screen = screen.screen();
            let text = screen.contents();
            assert!(text.contains(keeps), "{text}");
            let rows: Vec<String> = screen.rows(0, 40).collect();
            let at = rows.iter().position(|row| row.contains("detached"));
            let at = at.unwrap_or_else(|| panic!("{text}"));
            assert_eq!(rows[at].trim_end(), "hd: detached", "{text}");
            assert!(
                rows[at + 1..].iter().all(|row| row.trim().is_empty()),
                "{text}"
            );
            assert!(!screen.hide_cursor() && !screen.alternate_screen());
        }
    }
}
