//! The holder's loop: one `poll` over signals, terminal, socket and connections, with a timeout only while something
//! is due. An idle session causes no wake-ups.

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, poll};

use super::peer::Peer;
use super::{Holder, complain};
use crate::adapters::children;
use crate::adapters::sessions::files;
use crate::domain::holder_wire::Answer;

/// The largest number of connections.
const MOST_PEERS: usize = 64;
/// The number of reads of the terminal per turn, so that a flood does not starve the rest.
const READS_PER_TURN: usize = 32;
/// The grace period when the holder itself gets a TERM (a machine going down).
const OWN_GRACE: Duration = Duration::from_secs(5);
/// Output is announced to watching peers once the program has been quiet this long ...
const SETTLED: Duration = Duration::from_millis(150);
/// ... or this long after the first output that was not announced.
const ANNOUNCED: Duration = Duration::from_secs(1);

/// The events of one `poll`.
struct Ready {
    signals: bool,
    listener: bool,
    readable: bool,
    writable: bool,
    peers: Vec<PollFlags>,
}

impl Holder {
    /// Serves until the session is over.
    pub(super) fn run(mut self) -> ExitCode {
        loop {
            self.work_on_input();
            while self.serve() {
                self.work_on_input();
            }
            self.drop_closed_peers();
            self.note_attached();
            let seen = match self.wait() {
                Ok(seen) => seen,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => {
                    // Without poll the holder cannot work; it ends the session in order, on record.
                    complain(format_args!("poll: {error}"));
                    return self.end_by_force();
                }
            };
            if seen.readable {
                self.read_terminal(READS_PER_TURN);
            }
            if seen.signals && self.read_signals() {
                return self.end();
            }
            if seen.listener {
                self.accept();
            }
            if seen.writable {
                self.work_on_input();
            }
            self.exchange(&seen.peers);
            self.announce_output();
            if self.grace_is_over() {
                self.kill_agent();
            }
        }
    }

    /// Returns the time of the next announcement of output; none if no peer watches, or there is none.
    fn announcement_due(&self) -> Option<Instant> {
        let since = self.activity.unannounced_since?;
        let quiet = self.activity.quiet_since? + SETTLED;
        let watched = self.peers.iter().any(|peer| peer.watches);
        watched.then(|| quiet.min(since + ANNOUNCED))
    }

    fn announce_output(&mut self) {
        if self
            .announcement_due()
            .is_some_and(|due| due <= Instant::now())
        {
            self.activity.unannounced_since = None;
            for peer in self.peers.iter_mut().filter(|peer| peer.watches) {
                peer.answer(&Answer::Changed);
            }
        }
    }

    fn wait(&self) -> Result<Ready, rustix::io::Errno> {
        let mut master = PollFlags::IN;
        if self.input.wants_room() && !self.terminal.is_pane() {
            master |= PollFlags::OUT;
        }
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.terminal.as_fd(), master),
        ];
        for peer in &self.peers {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, peer.listens());
            flags.set(PollFlags::OUT, peer.has_unsent());
            fds.push(PollFd::from_borrowed_fd(peer.as_fd(), flags));
        }
        let timeout = self.next_deadline().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            rustix::time::Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        poll(&mut fds, timeout.as_ref())?;
        let flags = |at: usize| fds[at].revents();
        Ok(Ready {
            signals: !flags(0).is_empty(),
            listener: !flags(1).is_empty(),
            readable: flags(2).intersects(PollFlags::IN),
            writable: flags(2).intersects(PollFlags::OUT),
            peers: fds[3..].iter().map(PollFd::revents).collect(),
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let stop = self.stopping.filter(|stop| !stop.killed);
        [
            stop.map(|stop| stop.kill_at),
            self.input.deadline(),
            self.announcement_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Reads the program's output into log, screen and streams.
    pub(super) fn read_terminal(&mut self, reads: usize) {
        let mut buffer = [0; 4096];
        for _ in 0..reads {
            let Ok(count @ 1..) = self.terminal.read(&mut buffer) else {
                return;
            };
            let bytes = &buffer[..count];
            self.log.follow(bytes, &self.terminal);
            let replies = self.terminal.show(bytes);
            let watched = self.peers.iter().any(|peer| peer.attached);
            if !watched && !replies.is_empty() {
                // A program that does not read its terminal does not need the replies either.
                let _full = self.input.type_bytes(replies, None);
            }
            for peer in self.peers.iter_mut().filter(|peer| peer.follows) {
                peer.stream(bytes);
            }
            let now = Instant::now();
            self.activity.quiet_since = Some(now);
            self.activity.unannounced_since.get_or_insert(now);
        }
    }

    /// Returns true when the agent has ended.
    fn read_signals(&mut self) -> bool {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match Signal::try_from(signal.ssi_signo.cast_signed()) {
                Ok(Signal::SIGTERM) => self.stop(OWN_GRACE),
                Ok(Signal::SIGHUP) => self.terminal_is_gone(),
                _ => {}
            }
        }
        self.keep_the_agent_awake();
        self.agent_has_ended()
    }

    /// Handles the loss of tmux or of the pane: the session ends as it would with any terminal. The agent's reaction
    /// to that is not the end of its work, so the session goes on record as lost.
    fn terminal_is_gone(&mut self) {
        // A stop in progress ends in order.
        if self.stopping.is_none() {
            self.lost = true;
            let gone = std::io::Error::other("its terminal is gone");
            self.give_up_input(&gone);
            complain("its terminal is gone: the tmux server or the pane was killed");
            // If there is no group to signal, the agent's end is reported soon.
            let _ended = self.signal_group(Signal::SIGHUP);
            self.stop(OWN_GRACE);
        }
    }

    /// Continues an agent that the stop key has stopped, because no shell could continue it. The kernel prevents the
    /// stop for the agent of a detached holder; in a pane it takes the holder for a shell.
    fn keep_the_agent_awake(&self) {
        if self.terminal.is_pane()
            && children::stopped(self.state.agent.pid) == Some(Signal::SIGTSTP as i32)
        {
            // If there is no group to signal, the agent's end is reported soon.
            let _ended = self.signal_group(Signal::SIGCONT);
        }
    }

    /// Returns true if the agent has ended. Does not reap it, so that its pid is not reused yet; adopted orphans are
    /// reaped.
    fn agent_has_ended(&self) -> bool {
        while let Ok(Some(dead)) = children::peek() {
            if dead.pid == self.state.agent.pid {
                return true;
            }
            children::reap_one(dead.pid);
        }
        false
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.peers.len() >= MOST_PEERS {
                // Makes room by dropping a connection without a hello, if there is one.
                match self.peers.iter().position(|peer| !peer.is_known()) {
                    Some(silent) => drop(self.peers.remove(silent)),
                    None => continue,
                }
            }
            self.next_peer += 1;
            // A connection of another user is not served.
            self.peers.extend(Peer::new(self.next_peer, stream));
        }
    }

    fn drop_closed_peers(&mut self) {
        let input = &mut self.input;
        self.peers.retain(|peer| {
            if peer.is_closed() && peer.waits {
                input.forget(peer.id);
            }
            !peer.is_closed()
        });
    }

    fn exchange(&mut self, seen: &[PollFlags]) {
        for (peer, flags) in self.peers.iter_mut().zip(seen) {
            if flags.intersects(PollFlags::OUT) {
                peer.flush();
            }
            if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                peer.receive();
            }
        }
    }

    /// Answers the pending requests. Returns true if there were any.
    fn serve(&mut self) -> bool {
        let mut served = false;
        for at in 0..self.peers.len() {
            while let Some(request) = self.peers[at].request() {
                self.answer(at, request);
                served = true;
            }
        }
        served
    }

    /// Types queued input, and notifies the peers whose input has been taken.
    fn work_on_input(&mut self) {
        let now = Instant::now();
        let pumped = self
            .input
            .pump(now, |bytes, kind| self.terminal.write(bytes, kind));
        let pumped = match pumped {
            Ok(pumped) => pumped,
            Err(error) => return self.give_up_input(&error),
        };
        if pumped.bytes > 0 {
            self.log.touch();
        }
        for waiter in pumped.told {
            if let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == waiter) {
                peer.waits = false;
                peer.answer(&Answer::Done);
            }
        }
    }

    /// Drops input that could not be typed, so that it is not typed later at an unexpected time.
    fn give_up_input(&mut self, error: &std::io::Error) {
        let why = format!("it was not typed: {error}");
        complain(&why);
        for waiter in self.input.give_up() {
            if let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == waiter) {
                peer.waits = false;
                peer.refuse(&why);
            }
        }
    }

    /// Keeps the marker file up to date, and restores the session's own size when the last client detaches.
    fn note_attached(&mut self) {
        let attached = self.peers.iter().any(|peer| peer.attached);
        // The agent's own commands can make and remove files here, too.
        let marked = std::path::Path::new(files::ATTACHED).exists();
        let before = std::mem::replace(&mut self.marked, attached);
        if attached == before && attached == marked {
            return;
        }
        // An attached person is not disturbed: because of the marker the supervisor postpones nudges, drift restarts
        // and idle kills. Without it they come as if no person were there.
        if attached {
            let _best_effort = files::create_anew(std::path::Path::new("."), files::ATTACHED);
        } else {
            let _best_effort = std::fs::remove_file(files::ATTACHED);
            if before && !self.terminal.is_pane() {
                let (rows, cols) = self.own_size;
                let _best_effort = self.set_size(rows, cols);
            }
        }
    }
}
