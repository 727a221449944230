//! The place where agents run: start, adopt, observe, type, end.
//!
//! Every method may block (processes, files, sockets) and is called on a blocking thread. Exits are
//! announced through the listener; an announcement is a hint, and [`Sessions::list`] is the truth.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::city::Provider;
pub use crate::domain::facts::Stopped;
use crate::domain::facts::{ProcessId, SessionExit, SessionFacts};
use crate::domain::ids::{Generation, Incarnation, SessionId};
use crate::domain::screen::ScreenView;

/// Everything that is needed to start a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSpec {
    /// The session's id; one session of an id lives at a time.
    pub id: SessionId,
    /// Its generation, kept with the session and given back by `list`.
    pub generation: Generation,
    /// The raider's incarnation (0 for agents), kept likewise.
    pub incarnation: Incarnation,
    /// Program and arguments; the program is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The complete environment: nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Size of the terminal log on disk, in bytes, both segments together.
    pub output_limit: u64,
    /// Facts kept with the session (`set_meta` changes them later).
    pub meta: BTreeMap<String, String>,
}

/// Names one session for ever: a handle to an ended session never acts on its successor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionHandle {
    /// The session's id.
    pub id: SessionId,
    /// Unique per start.
    pub token: String,
}

/// The reason why a session did not start. Counts as a death for the restart policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A session of this id is running; adopt it instead.
    #[error("session {0} is already running")]
    Exists(SessionId),
    /// The working directory is missing.
    #[error("working directory {0} does not exist")]
    NoCwd(PathBuf),
    /// The program is missing or may not be run.
    #[error("program {program:?} cannot be run: {why}")]
    NoProgram {
        /// The program as configured.
        program: String,
        /// The error of the look-up.
        why: String,
    },
    /// Processes of an earlier session are alive and could not be ended.
    #[error("processes of an earlier session of {0} are still alive")]
    Stragglers(SessionId),
    /// The session's records cannot be written: the disk is full or read-only. The agent is not at fault.
    #[error("its records cannot be written: {0}")]
    Unwritable(String),
    /// The provider itself failed (no process, no file, no memory).
    #[error("the session provider failed: {0}")]
    Provider(String),
}

/// The reason why a call on a session failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// No session of that handle is running: it ended, or a successor took the name.
    #[error("session {0} is gone")]
    Gone(SessionId),
    /// The provider did not answer, or refused.
    #[error("session {id}: {why}")]
    Failed {
        /// The session.
        id: SessionId,
        /// The error.
        why: String,
    },
}

/// Input for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Text followed by the submit key, as bracketed paste where the program asked for it.
    Submit(String),
    /// Text without the submit key, as bracketed paste where the program asked for it.
    Paste(String),
    /// Bytes as they are: keys of a person, which may end the program.
    Raw(Vec<u8>),
    /// The key that ends the input of a program that reads lines, typed by the supervisor. If the program ends after
    /// it, that is its own doing.
    EndOfInput,
}

/// An announcement of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// The agent ended, and its exit is on record.
    Exited(SessionHandle, SessionExit),
    /// The holder is gone and left no record.
    Lost(SessionHandle, String),
}

/// A started or adopted session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Its handle.
    pub handle: SessionHandle,
    /// The agent's process.
    pub agent: ProcessId,
    /// The holder's process.
    pub holder: Option<ProcessId>,
    /// Generation as kept with the session.
    pub generation: Generation,
}

/// A session, and its incarnation, that a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The session's id.
    pub session: SessionId,
    /// The incarnation that the session was started for.
    pub incarnation: Incarnation,
}

/// The owner of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// A session owns it.
    Of(Member),
    /// No session owns it.
    Unowned,
    /// The owner is unknown: the process is gone, its ancestors do not confirm its claim, or its session has ended.
    Unknown,
}

impl Membership {
    /// Returns the session.
    #[must_use]
    pub fn session(self) -> Option<SessionId> {
        match self {
            Self::Of(member) => Some(member.session),
            Self::Unowned | Self::Unknown => None,
        }
    }
}

/// Location and claim of a calling process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerPlace {
    /// Its working directory.
    pub dir: PathBuf,
    /// Set when that is the directory in question, or below it.
    pub inside: bool,
    /// The session that its environment names (`HD_SESSION`). Only a claim, which can take rights away and never give
    /// them.
    pub claims: Option<String>,
}

/// Receives [`SessionEvent`]s; called from any thread, must not block.
pub type Listener = Box<dyn Fn(SessionEvent) + Send + Sync>;

/// Receives the handle of a session whose program wrote output; called from any thread, must not block.
pub type ScreenListener = Box<dyn Fn(SessionHandle) + Send + Sync>;

/// A provider of sessions. One conformance suite applies to all.
pub trait Sessions: Send + Sync {
    /// Sets the listener for exits. Called once, before any other method.
    fn listen(&self, listener: Listener);

    /// Sets the listener for changed screens. It is called when a program that wrote falls quiet, and about once a
    /// second while it does not. Only a hint: some changes, and those of sessions of older programs, are not announced.
    /// Called once.
    fn listen_to_screens(&self, listener: ScreenListener);

    /// Starts a session and returns when its agent's process runs. Ends stragglers of an earlier
    /// session of this id first.
    ///
    /// # Errors
    /// [`StartError`]; no process is left running then.
    fn start(&self, spec: &SessionSpec) -> Result<Started, StartError>;

    /// Takes over a running session found by [`Sessions::list`]; its exit will be announced.
    ///
    /// # Errors
    /// [`SessionError::Gone`] when it ended meanwhile.
    fn adopt(&self, id: &SessionId) -> Result<Started, SessionError>;

    /// Lists all sessions, running or ended and not yet forgotten, in one call.
    ///
    /// # Errors
    /// The provider cannot be asked: then no session's state is known.
    fn list(&self) -> Result<Vec<SessionFacts>, SessionError>;

    /// Returns the facts of one session; none when there is no trace of it.
    ///
    /// # Errors
    /// As [`Sessions::list`].
    fn facts(&self, id: &SessionId) -> Result<Option<SessionFacts>, SessionError>;

    /// Interrupts the agent (the terminal's interrupt key).
    ///
    /// # Errors
    /// [`SessionError`].
    fn interrupt(&self, handle: &SessionHandle) -> Result<(), SessionError>;

    /// Ends the session and everything it started: TERM, at most `grace`, then KILL; returns when none of its processes
    /// is alive. Zero grace kills at once. Idempotent; refuses a successor's session.
    ///
    /// # Errors
    /// [`SessionError::Failed`] when processes could not be ended.
    fn stop(&self, handle: &SessionHandle, grace: Duration) -> Result<Stopped, SessionError>;

    /// Types into the terminal. Returns when the terminal has taken the input.
    ///
    /// # Errors
    /// [`SessionError`].
    fn send(&self, handle: &SessionHandle, input: &Input) -> Result<(), SessionError>;

    /// Returns the screen as text, a line per row, without trailing blank rows.
    ///
    /// # Errors
    /// [`SessionError`].
    fn peek(&self, handle: &SessionHandle) -> Result<String, SessionError>;

    /// Returns the screen with its marked cells, cursor and modes, as far as the session's holder knows them.
    ///
    /// # Errors
    /// [`SessionError`].
    fn view(&self, handle: &SessionHandle) -> Result<ScreenView, SessionError>;

    /// Returns the last `bytes` of the terminal log, also of an ended session.
    ///
    /// # Errors
    /// [`SessionError`].
    fn logs(&self, id: &SessionId, bytes: u64) -> Result<Vec<u8>, SessionError>;

    /// Returns the endpoint for a client: a socket that speaks the holder protocol, or a pane of a tmux server.
    ///
    /// # Errors
    /// [`SessionError`].
    fn attach(&self, handle: &SessionHandle) -> Result<AttachPoint, SessionError>;

    /// Keeps a fact with the session.
    ///
    /// # Errors
    /// [`SessionError`].
    fn set_meta(&self, handle: &SessionHandle, key: &str, value: &str) -> Result<(), SessionError>;

    /// Reads a fact kept with the session.
    ///
    /// # Errors
    /// [`SessionError`].
    fn get_meta(&self, id: &SessionId, key: &str) -> Result<Option<String>, SessionError>;

    /// Checks that sessions of that kind could be started here. Changes nothing.
    ///
    /// # Errors
    /// The reason why not.
    fn check(&self, provider: Provider) -> Result<(), String>;

    /// Returns true when a session with this `PATH` would find the program. Changes nothing.
    ///
    /// # Errors
    /// The look-up failed.
    fn finds(&self, program: &str, path: &str) -> Result<bool, String>;

    /// Returns the processor time that a running session's processes have used, ended ones included. Reads every
    /// process of the machine, so callers use it rarely and for few sessions. None when it is unknown.
    fn cpu(&self, id: &SessionId) -> Option<Duration>;

    /// Returns true when a running session's agent started a command within this time that has run for some seconds and
    /// still runs; an older process belongs to the agent itself. As costly as [`Sessions::cpu`]; none when unknown.
    fn runs_command(&self, id: &SessionId, within: Duration) -> Option<bool>;

    /// Tells, for each running session, if one of these programs is among its processes; with no names, if the process
    /// that was started is alive. In the order of `of`; none where unknown. Reads the processes of the machine once at
    /// most.
    fn agents_live(&self, of: &[(SessionId, Vec<String>)]) -> Vec<Option<bool>>;

    /// Prepares for sessions of that kind, without a change for the next starts.
    ///
    /// # Errors
    /// The reason why sessions of that kind cannot be started here.
    fn make_ready(&self, provider: Provider) -> Result<(), String>;

    /// Sets the kind of session that the next starts make; running sessions stay as they are. Has no effect on a
    /// provider of one kind. Does not block.
    fn prefer(&self, provider: Provider);

    /// Returns the session that the process belongs to, by membership (never by the process's own claim).
    fn membership(&self, pid: u32) -> Membership;

    /// Returns the location of the process in relation to this directory, as the kernel reports it.
    ///
    /// # Errors
    /// The reason why it is unknown: the process is gone, or belongs to another user.
    fn standing(&self, pid: u32, of: &Path) -> Result<CallerPlace, String>;

    /// Announces that the supervisor stops: descriptors that only serve to watch are closed, for the stops need some.
    fn stopping(&self) {}

    /// Ends every session that was started or adopted here, by the handles of its processes alone: no file and no path
    /// is used, because another directory may be in the place of the sessions'. Returns those that could not be ended,
    /// each with the reason.
    fn end_known(&self) -> Vec<String> {
        Vec::new()
    }

    /// Removes the terminal logs of sessions that ended before that time, and returns the number of sessions that had
    /// one. Logs of running, lost or unknown sessions stay.
    ///
    /// # Errors
    /// [`SessionError`] of the first log that could not be removed; the others are removed.
    fn prune_logs(&self, ended_before: Timestamp) -> Result<usize, SessionError>;

    /// Removes everything of an ended session but its log. Refuses a running session.
    ///
    /// # Errors
    /// [`SessionError`].
    fn forget(&self, id: &SessionId) -> Result<(), SessionError>;
}

/// Endpoint at which a client attaches to a session's terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachPoint {
    /// A Unix socket that speaks the holder protocol.
    Holder(PathBuf),
    /// A pane of a tmux server.
    Tmux {
        /// The server's socket.
        server: PathBuf,
        /// The pane's id there (`%3`).
        pane: String,
        /// A Unix socket that speaks the holder protocol, for clients that only watch.
        watch: PathBuf,
    },
}
