//! A terminal for programs that need one.

use std::fs::{File, OpenOptions};
use std::io::Read;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{self, Winsize};

/// Opens a terminal. Returns the user's end, and the end for programs.
pub fn terminal() -> (File, File) {
    let seat = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&seat).unwrap();
    unlockpt(&seat).unwrap();
    let name = ptsname(&seat, Vec::new()).unwrap().into_string().unwrap();
    let end = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .unwrap();
    let size = Winsize {
        ws_row: 30,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    termios::tcsetwinsize(&end, size).unwrap();
    (File::from(seat), end)
}

/// Reads the terminal until it contains the text.
pub fn shown(seat: &mut File, text: &str) -> String {
    let mut all = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let read = seat.read(&mut bytes).unwrap();
        all.extend_from_slice(&bytes[..read]);
        let said = String::from_utf8_lossy(&all);
        if said.contains(text) {
            return said.into_owned();
        }
    }
}
