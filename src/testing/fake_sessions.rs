//! Sessions in memory, for tests of the layers above. A session runs until the test says otherwise; calls are recorded.
//!
//! A path with a part named `is-not-there` does not exist; every other path does. A program named `fake` follows its
//! arguments (see [`argv`]); any other just runs.

mod callers;
mod ends;
mod interlude;
mod port;
mod terminal;

pub use self::terminal::Silence;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::conformance::sessions::Program;
use crate::domain::city::Provider;
use crate::domain::facts::{ProcessId, RunState, SessionExit, SessionFacts};
use crate::domain::ids::SessionId;
use crate::domain::screen::Inputs;
use crate::ports::clock::Clock;
use crate::ports::sessions::{
    Input, Listener, Membership, ScreenListener, SessionEvent, SessionHandle, SessionSpec,
    StartError,
};

type Ear = Arc<OnceLock<Listener>>;

/// A provider of pretended sessions.
pub struct FakeSessions {
    world: Arc<World>,
    ear: Ear,
    eye: Arc<OnceLock<ScreenListener>>,
}

#[derive(Default)]
struct World {
    inner: Mutex<Inner>,
    released: Condvar,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Fake>,
    logs: HashMap<SessionId, Vec<u8>>,
    refusals: HashMap<SessionId, VecDeque<StartError>>,
    processes: HashMap<u32, Membership>,
    callers: callers::Callers,
    stuck_starts: Vec<SessionId>,
    holds_lists: bool,
    lists_begun: usize,
    /// Running calls of `list`, in their order.
    lists_held: VecDeque<usize>,
    lists_released: usize,
    undead: Vec<SessionId>,
    deaf: Vec<SessionId>,
    clogged: Vec<SessionId>,
    /// Sessions whose terminal does not confirm input, and how much it takes.
    silent: HashMap<SessionId, Silence>,
    /// The input that each terminal has taken.
    inputs: HashMap<SessionId, Inputs>,
    /// Sessions whose holder does not report inputs.
    olds: Vec<SessionId>,
    /// Sessions whose holder drops each connection.
    hung_up: Vec<SessionId>,
    /// Sessions among the clogged with input that still waits.
    draining: Vec<SessionId>,
    /// Sessions whose terminal is full of other input.
    stuffed: Vec<SessionId>,
    /// Sessions whose program changes its screen as soon as a text is pasted.
    hiders: Vec<SessionId>,
    stuck_stops: Vec<SessionId>,
    stubborn: Vec<SessionId>,
    /// Sessions whose program asks for pastes to be marked.
    pasters: Vec<SessionId>,
    /// The text that programs show at their start.
    at_start: String,
    doubles: usize,
    looks: HashMap<SessionId, usize>,
    starts: Vec<SessionSpec>,
    stops: Vec<(SessionHandle, Duration)>,
    history: Vec<(SessionHandle, bool)>,
    sent: Vec<(SessionHandle, Input)>,
    interrupts: Vec<SessionHandle>,
    blind: Option<String>,
    lacking: Option<(Provider, String)>,
    preferred: Option<Provider>,
    serial: u32,
    clock: Option<Arc<dyn Clock>>,
    interludes: HashMap<&'static str, interlude::Act>,
}

struct Fake {
    spec: SessionSpec,
    facts: SessionFacts,
    hidden: Option<String>,
    /// Set when the agent is gone, and its session is not.
    hollow: bool,
    cpu: Duration,
    runs_command: bool,
    ignores_term: bool,
    /// None when the screen cannot be read.
    screen: Option<String>,
    /// The last time that a person typed, if a line is begun.
    begun: Option<Timestamp>,
    /// The last time that a person pressed a key, when the provider does not see which key.
    touched: Option<Timestamp>,
    meta: BTreeMap<String, String>,
    meta_hidden: bool,
    meta_refused: bool,
    ear: Ear,
}

impl Fake {
    fn handle(&self) -> SessionHandle {
        SessionHandle {
            id: self.facts.id.clone(),
            token: self.facts.token.clone(),
        }
    }

    fn runs(&self) -> bool {
        self.facts.state == RunState::Running
    }

    fn facts(&self) -> SessionFacts {
        let mut facts = self.facts.clone();
        if let Some(why) = &self.hidden {
            facts.state = RunState::Unknown { why: why.clone() };
        }
        facts
    }

    /// Returns the task of a `fake` program.
    fn task(&self) -> Option<(&str, &str)> {
        match self.spec.argv.as_slice() {
            [program, verb] if program == "fake" => Some((verb, "")),
            [program, verb, more] if program == "fake" => Some((verb, more)),
            _ => None,
        }
    }
}

/// Returns the command by which a fake session runs this program.
#[must_use]
pub fn argv(program: &Program) -> Vec<String> {
    let (verb, more) = match program {
        Program::Prints(text) => ("prints", text.clone()),
        Program::Exits(code) => ("exits", code.to_string()),
        Program::DiesOf(signal) => ("dies-of", signal.to_string()),
        Program::PrintsEnvironment => ("prints-environment", String::new()),
        Program::Echoes => ("echoes", String::new()),
        Program::IgnoresTerm => ("ignores-term", String::new()),
        Program::NotesInterrupts => ("notes-interrupts", String::new()),
        Program::Wraps => ("wraps", String::new()),
    };
    vec!["fake".to_owned(), verb.to_owned(), more]
}

impl Default for FakeSessions {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeSessions {
    /// Makes a world without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self {
            world: Arc::default(),
            ear: Ear::default(),
            eye: Arc::default(),
        }
    }

    /// Returns the same world as a new daemon finds it, without a listener.
    #[must_use]
    pub fn successor(&self) -> Self {
        Self {
            world: Arc::clone(&self.world),
            ear: Ear::default(),
            eye: Arc::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A test that failed in another thread may still look.
        let guard = self.world.inner.lock();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the agent with this exit.
    pub fn end(&self, id: &SessionId, exit: SessionExit) {
        self.change(id, RunState::Exited(exit.clone()), |handle| {
            SessionEvent::Exited(handle, exit)
        });
    }

    /// Removes the holder without a record.
    pub fn lose(&self, id: &SessionId, why: &str) {
        let why = why.to_owned();
        self.change(id, RunState::Lost { why: why.clone() }, |handle| {
            SessionEvent::Lost(handle, why)
        });
    }

    fn change(
        &self,
        id: &SessionId,
        state: RunState,
        event: impl FnOnce(SessionHandle) -> SessionEvent,
    ) {
        let (ear, handle) = {
            let mut inner = self.inner();
            let Some(fake) = inner.sessions.get_mut(id).filter(|fake| fake.runs()) else {
                return;
            };
            fake.facts.state = state;
            let (ear, handle) = (Arc::clone(&fake.ear), fake.handle());
            inner.history.push((handle.clone(), false));
            (ear, handle)
        };
        // Outside the lock: a listener may look at the world.
        if let Some(listener) = ear.get() {
            listener(event(handle));
        }
    }

    /// Makes the session unreadable (`Some(why)`), or readable again.
    pub fn hide(&self, id: &SessionId, why: Option<&str>) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.hidden = why.map(ToOwned::to_owned);
        }
    }

    /// Makes the facts that are kept with the session unreadable, or readable again.
    pub fn hide_meta(&self, id: &SessionId, hidden: bool) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.meta_hidden = hidden;
        }
    }

    /// Makes the facts that are kept with the session unwritable, or writable again.
    pub fn refuse_meta(&self, id: &SessionId, refused: bool) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.meta_refused = refused;
        }
    }

    /// Makes `list` fail (`Some(why)`), or work again.
    pub fn blind(&self, why: Option<&str>) {
        self.inner().blind = why.map(ToOwned::to_owned);
    }

    /// Makes starts of this kind of session fail with this reason.
    pub fn lack(&self, provider: Provider, why: &str) {
        self.inner().lacking = Some((provider, why.to_owned()));
    }

    /// Returns the kind of session that was last preferred.
    #[must_use]
    pub fn preferred(&self) -> Option<Provider> {
        self.inner().preferred
    }

    /// Makes the next start of this id fail; several failures queue up.
    pub fn refuse_start(&self, id: &SessionId, error: StartError) {
        let mut inner = self.inner();
        inner
            .refusals
            .entry(id.clone())
            .or_default()
            .push_back(error);
    }

    /// Cancels the queued failures of starts.
    pub fn accept_starts(&self) {
        self.inner().refusals.clear();
    }

    /// Makes the session ignore TERM, so that a stop has to kill.
    pub fn ignore_term(&self, id: &SessionId) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.ignores_term = true;
        }
    }

    /// Holds starts of this id until [`FakeSessions::release_start`].
    pub fn hold_start(&self, id: &SessionId) {
        self.inner().stuck_starts.push(id.clone());
    }

    /// Lets held starts of this id continue.
    pub fn release_start(&self, id: &SessionId) {
        self.inner().stuck_starts.retain(|stuck| stuck != id);
        self.world.released.notify_all();
    }

    /// Makes stops of this id with a grace last until a stop without one.
    pub fn outlive_grace(&self, id: &SessionId) {
        self.inner().stubborn.push(id.clone());
    }

    /// The agent exits, and the listener is not told.
    pub fn exit_unheard(&self, id: &SessionId, code: i32) {
        let exit = self.exited(Some(code), None);
        let mut inner = self.inner();
        let fake = inner.sessions.get_mut(id).filter(|fake| fake.runs());
        if let Some(fake) = fake {
            fake.facts.state = RunState::Exited(exit);
            let handle = fake.handle();
            inner.history.push((handle, false));
        }
    }

    /// Makes stops fail from now on; the session stays readable.
    pub fn refuse_stop(&self, id: &SessionId) {
        self.inner().undead.push(id.clone());
    }

    /// Makes stops work again.
    pub fn allow_stop(&self, id: &SessionId) {
        self.inner().undead.retain(|other| other != id);
    }

    /// Sets whether the terminal refuses all input.
    pub fn deafen(&self, id: &SessionId, deaf: bool) {
        let mut inner = self.inner();
        inner.deaf.retain(|other| other != id);
        inner.deaf.extend(deaf.then(|| id.clone()));
    }

    /// Holds stops of this id until [`FakeSessions::release_stop`].
    pub fn hold_stop(&self, id: &SessionId) {
        self.inner().stuck_stops.push(id.clone());
    }

    /// Lets held stops of this id continue.
    pub fn release_stop(&self, id: &SessionId) {
        self.inner().stuck_stops.retain(|stuck| stuck != id);
        self.world.released.notify_all();
    }

    /// Sets whether calls of `list` are held.
    pub fn hold_lists(&self, hold: bool) {
        self.inner().holds_lists = hold;
        self.world.released.notify_all();
    }

    /// Lets the first held call of `list` return.
    pub fn release_list(&self) {
        self.inner().lists_released += 1;
        self.world.released.notify_all();
    }

    /// Returns the number of held calls of `list`.
    #[must_use]
    pub fn lists_held(&self) -> usize {
        self.inner().lists_held.len()
    }

    /// Sets the time of the session's last activity.
    pub fn set_last_activity(&self, id: &SessionId, at: Option<Timestamp>) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.facts.last_activity = at;
            // The session is at least as old as that.
            fake.facts.started_at =
                at.map_or(fake.facts.started_at, |at| at.min(fake.facts.started_at));
        }
    }

    /// Sets whether a person is attached.
    pub fn set_attached(&self, id: &SessionId, attached: bool) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            fake.facts.attached = attached;
        }
    }

    /// Sets whether the provider only guesses that a person is attached.
    pub fn guess_attached(&self, id: &SessionId, guessed: bool) {
        if let Some(fake) = self.inner().sessions.get_mut(id) {
            (fake.facts.attached, fake.facts.guessed) = (guessed, guessed);
        }
    }
}

/// Methods that observe.
impl FakeSessions {
    /// Returns every spec that was started, in order.
    #[must_use]
    pub fn starts(&self) -> Vec<SessionSpec> {
        self.inner().starts.clone()
    }

    /// Returns every process that began (true) or ended, in order.
    #[must_use]
    pub fn history(&self) -> Vec<(SessionHandle, bool)> {
        self.inner().history.clone()
    }

    /// Returns every requested stop, in order.
    #[must_use]
    pub fn stops(&self) -> Vec<(SessionHandle, Duration)> {
        self.inner().stops.clone()
    }

    /// Returns everything typed into sessions of this id.
    #[must_use]
    pub fn sent(&self, id: &SessionId) -> Vec<Input> {
        let inner = self.inner();
        let to = inner.sent.iter().filter(|(handle, _)| handle.id == *id);
        to.map(|(_, input)| input.clone()).collect()
    }

    /// Returns the number of presses of the interrupt key in sessions of this id.
    #[must_use]
    pub fn interrupts(&self, id: &SessionId) -> usize {
        let inner = self.inner();
        let of = inner.interrupts.iter().filter(|handle| handle.id == *id);
        of.count()
    }

    /// Returns the number of times that sessions of this id were looked at one by one.
    #[must_use]
    pub fn looks(&self, id: &SessionId) -> usize {
        self.inner().looks.get(id).copied().unwrap_or(0)
    }

    /// Returns the number of starts that were refused because a session of that id was running.
    #[must_use]
    pub fn doubles(&self) -> usize {
        self.inner().doubles
    }

    /// Returns the ids of the running sessions.
    #[must_use]
    pub fn running(&self) -> Vec<SessionId> {
        let inner = self.inner();
        let running = inner.sessions.values().filter(|fake| fake.runs());
        running.map(|fake| fake.facts.id.clone()).collect()
    }
}

impl Inner {
    fn print(&mut self, id: &SessionId, line: &str) {
        let now = Some(self.now());
        if let Some(fake) = self.sessions.get_mut(id) {
            let screen = fake.screen.get_or_insert_default();
            if !screen.is_empty() {
                screen.push('\n');
            }
            screen.push_str(line);
            (fake.facts.last_activity, fake.facts.last_output) = (now, now);
            let log = self.logs.entry(id.clone()).or_default();
            log.extend_from_slice(line.replace('\n', "\r\n").as_bytes());
            log.extend_from_slice(b"\r\n");
        }
    }

    fn process(&mut self) -> ProcessId {
        self.serial += 1;
        ProcessId {
            // Above every pid that a kernel gives out.
            pid: 0x4000_0000 + self.serial,
            started: u64::from(self.serial),
        }
    }
}

fn is_there(path: &Path) -> bool {
    path.iter().all(|part| part != "is-not-there")
}
