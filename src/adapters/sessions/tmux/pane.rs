//! A pane as the holder inside it sees it. The agent has the pane's terminal; the holder follows its output through
//! `pipe-pane` and types, looks and resizes with tmux commands on its own pane, which is unambiguous.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::libc;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr, tcgetpgrp, tcgetwinsize};

use super::command;
use super::paste_mode::PasteMode;
use crate::adapters::sessions::files::PaneId;

/// The number of bytes that one command presses: each is three characters of a command line that tmux limits.
const MOST_KEYS: usize = 2000;
/// Written to the terminal at the end of the session: once it comes through the pipe, all output has. Terminals
/// ignore operating system commands that they do not know.
const END_OF_OUTPUT: &[u8] = b"\x1b]7717;horde: the session is over\x07";
/// The timeout for the last output, which comes at once unless the pipe was cut.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// The pane that this process runs in.
pub struct Pane {
    program: PathBuf,
    id: PaneId,
    tty: OwnedFd,
    pipe: PipeReader,
    /// Kept open, so that the pipe never ends.
    into_pipe: PipeWriter,
    paste_mode: PasteMode,
}

impl Pane {
    /// Takes over the pane, and follows its output from here on.
    pub fn take(program: &Path) -> io::Result<Self> {
        let tmux = std::env::var_os("TMUX").unwrap_or_default();
        let tmux = tmux.to_string_lossy();
        let socket = tmux.rsplitn(3, ',').last().map(PathBuf::from);
        let id = std::env::var("TMUX_PANE").ok();
        let (Some(socket), Some(id)) = (socket.filter(|path| path.is_absolute()), id) else {
            return Err(io::Error::other("this is not a tmux pane"));
        };
        let tty = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10)?;
        let (pipe, into_pipe) = io::pipe()?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let pane = Self {
            program: program.to_owned(),
            id: PaneId { socket, id },
            tty,
            pipe,
            into_pipe,
            paste_mode: PasteMode::default(),
        };
        let (me, number) = (std::process::id(), pane.into_pipe.as_raw_fd());
        pane.run("pipe-pane", &[&format!("exec cat >/proc/{me}/fd/{number}")])?;
        Ok(pane)
    }

    /// Returns its name.
    pub fn id(&self) -> &PaneId {
        &self.id
    }

    /// Returns the terminal, as the agent gets it.
    pub fn tty(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }

    /// Returns the number of rows and columns; 0 if unknown.
    pub fn size(&self) -> (u16, u16) {
        tcgetwinsize(&self.tty).map_or((0, 0), |size| (size.ws_row, size.ws_col))
    }

    /// Returns true if a person is attached to its session; false if tmux does not tell.
    pub fn is_attached(&self) -> bool {
        let clients = self.run("display-message", &["-p", "#{session_attached}"]);
        clients.is_ok_and(|clients| clients.trim().parse().is_ok_and(|count: u32| count > 0))
    }

    /// Returns the time of a key press by a person attached to its session, within this time; none if tmux does not
    /// tell. The attaching of a client counts as its first activity, to the second.
    pub fn typed_within(&self, time: Duration) -> Option<Timestamp> {
        let format = "#{client_created} #{client_activity}";
        let clients = self.run("list-clients", &["-F", format]).ok()?;
        let now = Timestamp::now().as_second();
        let time = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let typed = clients.lines().filter_map(|line| {
            let mut times = line.split(' ').map(str::parse::<i64>);
            let (created, active) = (times.next()?.ok()?, times.next()?.ok()?);
            let is_late = active > created && now.saturating_sub(active) <= time;
            is_late.then_some(active)
        });
        Timestamp::from_second(typed.max()?).ok()
    }

    /// Runs a command on this pane.
    fn run(&self, verb: &str, more: &[&str]) -> io::Result<String> {
        let target = ["-t", &self.id.id];
        let words = [verb].into_iter().chain(target).chain(more.iter().copied());
        self.tmux(words, &[])
    }

    fn tmux<'a>(
        &self,
        words: impl IntoIterator<Item = &'a str>,
        input: &[u8],
    ) -> io::Result<String> {
        let server = [OsStr::new("-S"), self.id.socket.as_os_str()];
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        command::run(&self.program, &server, &words, input)
    }

    /// Reads the program's output; 0 if there is none now.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match (&self.pipe).read(buffer) {
            Err(error) if is_later(&error) => Ok(0),
            other => other,
        }
    }

    /// Follows the program's output.
    pub fn follow(&mut self, output: &[u8]) {
        self.paste_mode.follow(output);
    }

    /// Returns true if the program asked for bracketed pastes, as far as its output shows.
    pub fn wants_brackets(&self) -> bool {
        self.paste_mode.is_on()
    }

    /// Types a text, bracketed as a paste if the program asked for that. No shell, no key names.
    pub fn paste(&self, text: &[u8]) -> io::Result<usize> {
        let name = format!("horde-{}", std::process::id());
        let only = format!("#{{==:#{{buffer_name}},{name}}}");
        let loading = ["load-buffer", "-b", &name, "-", ";"];
        let asking = ["list-buffers", "-F", "#{buffer_size}", "-f", &only];
        let loaded = self.tmux(loading.into_iter().chain(asking), text)?;
        if loaded.trim() != text.len().to_string() {
            let (all, some) = (text.len(), loaded.trim());
            return Err(io::Error::other(format!(
                "tmux accepted {some:?} of {all} bytes of text"
            )));
        }
        self.run("paste-buffer", &["-d", "-p", "-r", "-b", &name])?;
        Ok(text.len())
    }

    /// Types bytes exactly as they are.
    pub fn press(&self, bytes: &[u8]) -> io::Result<usize> {
        for some in bytes.chunks(MOST_KEYS) {
            let keys: Vec<String> = some.iter().map(|byte| format!("{byte:02x}")).collect();
            let mut words = vec!["-H"];
            words.extend(keys.iter().map(String::as_str));
            self.run("send-keys", &words)?;
        }
        Ok(bytes.len())
    }

    /// Interrupts the program in the foreground, ahead of all queued input.
    pub fn interrupt(&self) -> io::Result<()> {
        let modes = tcgetattr(&self.tty)?;
        if modes.local_modes.contains(LocalModes::ISIG) {
            let group = tcgetpgrp(&self.tty)?;
            return Ok(rustix::process::kill_process_group(
                group,
                rustix::process::Signal::INT,
            )?);
        }
        let key = modes.special_codes[SpecialCodeIndex::VINTR];
        self.press(&[if key == 0 { 3 } else { key }]).map(drop)
    }

    /// Changes the size of its window, which then follows attached clients, as before.
    pub fn resize(&self, rows: u16, cols: u16) -> io::Result<()> {
        let (rows, cols) = (rows.to_string(), cols.to_string());
        self.run("resize-window", &["-x", &cols, "-y", &rows])?;
        // Resizing has set it to "manual" for this window; a global "manual" crashes tmux.
        self.run("set-option", &["-w", "-u", "window-size"])
            .map(drop)
    }

    /// Returns the screen as text, one line per row, blank ends cut.
    pub fn text(&self) -> io::Result<String> {
        let text = self.run("capture-pane", &["-p"])?;
        let rows: Vec<&str> = text.lines().map(str::trim_end).collect();
        let used = rows.iter().rposition(|row| !row.is_empty());
        Ok(rows[..used.map_or(0, |last| last + 1)].join("\n"))
    }

    /// Returns bytes that paint the screen on a terminal.
    pub fn paint(&self) -> io::Result<Vec<u8>> {
        let cursor = "#{e|+:#{cursor_y},1};#{e|+:#{cursor_x},1}";
        let then = ["-p", "-e", ";", "display-message", "-t", &self.id.id, "-p"];
        let said = self.run("capture-pane", &[&then[..], &[cursor]].concat())?;
        let (rows, cursor) = said.trim_end().rsplit_once('\n').unwrap_or_default();
        let rows = rows.trim_end().replace('\n', "\r\n");
        Ok(format!("\x1b[H\x1b[2J{rows}\x1b[{cursor}H").into_bytes())
    }

    /// Lets tmux close the pane when the holder ends. Everything is on record then; only the pane of a killed holder
    /// stays, with its last screen.
    pub fn leave(&self) -> io::Result<()> {
        self.run("set-option", &["-p", "remain-on-exit", "off"])
            .map(drop)
    }

    /// Reads the remaining output after the last writer has ended.
    pub fn read_rest(&self, mut take: impl FnMut(&[u8])) {
        let deadline = Instant::now() + LAST_OUTPUT;
        let marked = self.mark_the_end().is_ok();
        let mut rest = Vec::new();
        loop {
            let mut buffer = [0; 4096];
            let count = self.read(&mut buffer).unwrap_or(0);
            rest.extend_from_slice(&buffer[..count]);
            let end = END_OF_OUTPUT.len();
            if let Some(at) = rest.windows(end).position(|part| part == END_OF_OUTPUT) {
                return take(&rest[..at]);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if (count == 0 && !marked) || left.is_zero() {
                return take(&rest);
            }
            let surely = rest.len().saturating_sub(end);
            take(&rest[..surely]);
            rest.drain(..surely);
            if count == 0 {
                let timeout = rustix::time::Timespec {
                    tv_sec: 0,
                    tv_nsec: left.subsec_nanos().into(),
                };
                // The deadline ends the loop in any case.
                let _ready = poll(
                    &mut [PollFd::new(&self.pipe, PollFlags::IN)],
                    Some(&timeout),
                );
            }
        }
    }

    /// Writes the mark without blocking: a person may have stopped the terminal's output.
    fn mark_the_end(&self) -> io::Result<()> {
        let path = format!("/proc/self/fd/{}", self.tty.as_raw_fd());
        let mut tty = fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        tty.write_all(END_OF_OUTPUT)
    }
}

impl AsFd for Pane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
