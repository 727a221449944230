//! The pty of a session: the master side, and a slave that is kept open so that the terminal outlives every program
//! that closes it. Nothing waits for an end of file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Winsize, tcgetattr, tcsetattr,
    tcsetwinsize,
};

/// The mode in which the program reads its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Line by line; the kernel edits and cuts lines.
    Lines,
    /// Byte by byte.
    Raw,
}

impl Reading {
    /// Returns the current mode of the program of this terminal.
    pub fn of(terminal: BorrowedFd<'_>) -> Self {
        match tcgetattr(terminal) {
            Ok(modes) if modes.local_modes.contains(LocalModes::ICANON) => Self::Lines,
            _ => Self::Raw,
        }
    }
}

/// Returns true if the program reads a line without echo, like a password.
pub fn hides_input(terminal: BorrowedFd<'_>) -> bool {
    tcgetattr(terminal).is_ok_and(|modes| {
        let modes = modes.local_modes;
        modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    })
}

/// A pseudo-terminal.
pub struct Pty {
    master: OwnedFd,
    slave: OwnedFd,
}

impl Pty {
    /// Opens a terminal of this size.
    pub fn open(rows: u16, cols: u16) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        let mut modes = tcgetattr(&slave)?;
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        rustix::fs::fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
        let pty = Self { master, slave };
        pty.resize(rows, cols)?;
        Ok(pty)
    }

    /// Returns the agent's side.
    pub fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// Changes the size; the kernel notifies the program.
    pub fn resize(&self, rows: u16, cols: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.master, size)?)
    }

    /// Reads the program's output; 0 if there is none now.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match rustix::io::read(&self.master, buffer) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            other => Ok(other?),
        }
    }

    /// Types bytes; 0 if the program must read first.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(&self.master, bytes) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            other => Ok(other?),
        }
    }

    /// Presses the interrupt key, ahead of all queued input.
    pub fn interrupt(&self) -> io::Result<()> {
        let key =
            tcgetattr(&self.slave).map_or(3, |modes| modes.special_codes[SpecialCodeIndex::VINTR]);
        if key != 0 && self.write(&[key])? == 1 {
            return Ok(());
        }
        // The terminal takes no more keys: its foreground group gets the key's signal directly.
        let interrupt = nix::libc::SIGINT;
        // SAFETY: TIOCSIG takes a signal number by value and a descriptor that is open.
        let result = unsafe {
            nix::libc::ioctl(
                std::os::fd::AsRawFd::as_raw_fd(&self.master),
                nix::libc::TIOCSIG,
                interrupt,
            )
        };
        nix::errno::Errno::result(result).map(drop)?;
        Ok(())
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}
