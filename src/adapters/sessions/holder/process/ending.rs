//! The end of a session, in order: the agent has ended → the rest of its output is read → everything that it started
//! is ended → the end is on disk → the lock is free → it is announced.
//!
//! No process escapes: the holder is the subreaper, so every process that the agent left, daemonised or not, is below
//! the holder in the process tree, and the kernel's "no children" (`ECHILD`) proves that none is left. (Tokens in
//! environments are searched only after a holder was killed, see `remains`: then the tree is lost.)

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, poll};

use super::terminal::Terminal;
use super::{Holder, cgroup, complain};
use crate::adapters::children::{self, Dead, Emptied};
use crate::adapters::sessions::files;
use crate::domain::facts::SessionExit;
use crate::domain::holder_wire::{Answer, Ended};

/// The limit of reads of the last output, so that a survivor that floods the terminal does not delay the end.
const LAST_READS: usize = 1024;
/// The time within which a program ends after the input that ends it: some ask twice, and save the conversation.
const TAKES: Duration = Duration::from_secs(5);
/// The time that connections get to take the announcement.
const ANNOUNCE_LIMIT: Duration = Duration::from_millis(200);

impl Holder {
    /// Returns true if a stop's grace period is over.
    pub(super) fn grace_is_over(&self) -> bool {
        self.stopping
            .is_some_and(|stop| !stop.killed && Instant::now() >= stop.kill_at)
    }

    /// Kills the agent with everything that can be reached at once; the rest is killed after its end.
    pub(super) fn kill_agent(&mut self) {
        if let Some(stop) = &mut self.stopping {
            stop.killed = true;
        }
        if let Some(path) = &self.state.cgroup {
            cgroup::kill(path);
        }
        // It may have ended already: its end is then reported soon.
        let _ended = self.signal_group(Signal::SIGKILL);
    }

    /// Ends a session whose start could not be recorded.
    pub(super) fn abandon(&mut self) {
        self.kill_agent();
        self.end_everything();
        self.remove_cgroup();
    }

    /// Ends a session that can no longer be served.
    pub(super) fn end_by_force(mut self) -> ExitCode {
        self.kill_agent();
        self.end()
    }

    /// Returns true if the agent ended because of a person's input, and nothing else was about to end it. The input
    /// may be a key that ends programs, a word like `/exit`, or a menu entry; after the latter two the agent exits by
    /// itself, and not by a signal. Input within tmux is invisible here, except for its time.
    fn is_ended_by_person(&self, agent: Option<Dead>) -> bool {
        if self.stopping.is_some() || self.lost {
            return false;
        }
        let lately = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < TAKES);
        if lately(self.ending_key) {
            return true;
        }
        let Some(agent) = agent else {
            return false;
        };
        let by_itself = agent.signal.is_none() || agent.is_interrupted();
        match &self.terminal {
            Terminal::Own(..) => by_itself && lately(self.typed),
            Terminal::Pane(pane) => {
                let interrupted = agent.is_interrupted() && pane.is_attached();
                interrupted || by_itself && pane.typed_within(TAKES).is_some()
            }
        }
    }

    /// Ends the session after the end of the agent.
    pub(super) fn end(mut self) -> ExitCode {
        let at = jiff::Timestamp::now();
        self.read_terminal(LAST_READS);
        let Emptied {
            first: agent,
            others: stragglers,
            undead,
        } = self.end_everything();
        self.read_terminal(LAST_READS);
        if let Terminal::Pane(pane) = &self.terminal {
            pane.read_rest(|bytes| self.log.append(bytes));
        }
        self.remove_cgroup();
        let ended = Ended {
            token: self.state.token.clone(),
            exit: SessionExit {
                code: agent.and_then(|agent| agent.code),
                signal: agent.and_then(|agent| agent.signal),
                at,
                by_person: self.is_ended_by_person(agent),
                stopped: self.stopping.is_some() || self.interrupted,
            },
            killed: self.stopping.is_some_and(|stop| stop.killed),
            stragglers,
            undead,
        };
        // Without a record the session counts as lost, and its remaining processes are found as those of a lost one.
        let recorded = match self.lost {
            true => Ok(()),
            false => files::write_durably(Path::new("."), files::EXIT, &ended),
        };
        for name in [files::SOCK, files::ATTACHED] {
            // A dead socket does no harm: the next holder replaces it.
            let _best_effort = files::remove(Path::new("."), name);
        }
        let result = match recorded {
            Ok(()) if self.lost => return ExitCode::FAILURE,
            Ok(()) => {
                let _empty = files::remove(Path::new("."), files::COMPLAINT);
                ExitCode::SUCCESS
            }
            Err(error) => {
                complain(format_args!("the end could not be recorded: {error}"));
                ExitCode::FAILURE
            }
        };
        let pane = self.announce(&ended);
        if let Terminal::Pane(pane) = pane
            && let Err(error) = pane.leave()
        {
            complain(format_args!("the pane stays: {error}"));
        }
        result
    }

    fn remove_cgroup(&self) {
        if let Some(path) = &self.state.cgroup {
            cgroup::remove(path);
        }
    }

    /// Ends the agent and all other processes below this one.
    fn end_everything(&self) -> Emptied {
        // While the agent is unreaped, its group's number cannot be reused.
        let _nobody_left = self.signal_group(Signal::SIGKILL);
        if let Some(path) = &self.state.cgroup {
            cgroup::kill(path);
        }
        children::end_all(self.state.agent.pid, &self.signals)
    }

    fn announce(self, ended: &Ended) -> Terminal {
        let terminal = self.terminal;
        let mut peers = self.peers;
        // The name is free from here on: a receiver of the announcement may start a successor.
        drop(self.lock);
        for peer in &mut peers {
            peer.waits = false;
            peer.answer(&Answer::Ended(ended.clone()));
            peer.close();
        }
        let deadline = Instant::now() + ANNOUNCE_LIMIT;
        loop {
            peers.retain(|peer| peer.has_unsent() && !peer.is_closed());
            let left = deadline.saturating_duration_since(Instant::now());
            if peers.is_empty() || left.is_zero() {
                return terminal;
            }
            let mut fds: Vec<_> = peers
                .iter()
                .map(|peer| PollFd::new(peer, PollFlags::OUT))
                .collect();
            let timeout = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: left.subsec_nanos().into(),
            };
            // The deadline ends the loop in any case.
            let _ready = poll(&mut fds, Some(&timeout));
            peers.iter_mut().for_each(super::peer::Peer::flush);
        }
    }
}
