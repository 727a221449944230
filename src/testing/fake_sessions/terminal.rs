//! Output and resource use of fake programs, and the state of their terminals.

use std::time::Duration;

use jiff::Timestamp;

use super::{Fake, FakeSessions};
use crate::domain::ids::SessionId;

/// The amount of input that a terminal takes without confirming it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Takes all of it.
    TakesAll,
    /// Takes a part of it, or is not known to have taken the rest.
    TakesAPart,
}

impl FakeSessions {
    /// Makes every program show this from its start on.
    pub fn shows_at_start(&self, screen: &str) {
        screen.clone_into(&mut self.inner().at_start);
    }

    /// Makes the programs of this id read keys, and ask for pastes to be marked.
    pub fn reads_keys(&self, id: &SessionId) {
        self.inner().pasters.push(id.clone());
    }

    /// Prints a line.
    pub fn print(&self, id: &SessionId, line: &str) {
        self.inner().print(id, line);
        self.announce(id);
    }

    /// Sets the screen; none makes it unreadable.
    pub fn show(&self, id: &SessionId, screen: Option<&str>) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.screen = screen.map(str::to_owned);
        }
        self.announce(id);
    }

    /// Begins a line of a person who typed last at this time; none submits it.
    pub fn begin_line(&self, id: &SessionId, typed: Option<Timestamp>) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.begun = typed;
        }
    }

    /// Sets the time of the last key of a person who is attached to the pane in tmux.
    pub fn touch(&self, id: &SessionId, pressed: Option<Timestamp>) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.touched = pressed;
        }
    }

    /// Sets whether input is taken and not confirmed, because the program does not read.
    pub fn clog(&self, id: &SessionId, clogged: bool) {
        let mut inner = self.inner();
        inner.clogged.retain(|other| other != id);
        let before = inner.draining.len();
        inner.draining.retain(|other| other != id);
        let drained = (before - inner.draining.len()) as u64;
        inner.inputs.entry(id.clone()).or_default().taken += drained;
        inner.clogged.extend(clogged.then(|| id.clone()));
    }

    /// Sets whether the terminal is full of other input, so that it takes nothing more.
    pub fn stuff(&self, id: &SessionId, stuffed: bool) {
        let mut inner = self.inner();
        inner.stuffed.retain(|other| other != id);
        inner.stuffed.extend(stuffed.then(|| id.clone()));
    }

    /// Sets how much input is taken without being confirmed.
    pub fn silence(&self, id: &SessionId, silence: Option<Silence>) {
        let mut inner = self.inner();
        inner.silent.remove(id);
        inner.silent.extend(silence.map(|how| (id.clone(), how)));
    }

    /// Makes its holder of a version that reports no inputs.
    pub fn is_old(&self, id: &SessionId) {
        self.inner().olds.push(id.clone());
    }

    /// Sets whether the holder drops each connection that looks, although the session runs.
    pub fn hang_up(&self, id: &SessionId, hung_up: bool) {
        let mut inner = self.inner();
        inner.hung_up.retain(|other| other != id);
        inner.hung_up.extend(hung_up.then(|| id.clone()));
    }

    /// Makes the program show `Loading` as soon as a text is pasted.
    pub fn hides_pastes(&self, id: &SessionId) {
        self.inner().hiders.push(id.clone());
    }

    /// Announces a changed screen, as a holder does.
    fn announce(&self, id: &SessionId) {
        let handle = self.inner().sessions.get(id).map(Fake::handle);
        if let (Some(listener), Some(handle)) = (self.eye.get(), handle) {
            listener(handle);
        }
    }

    /// Adds processor time to its processes.
    pub fn use_cpu(&self, id: &SessionId, more: Duration) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.cpu += more;
        }
    }

    /// Sets whether the agent runs a command.
    pub fn run_command(&self, id: &SessionId, runs: bool) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.runs_command = runs;
        }
    }
}
