//! The place where agents run: start, adopt, look, talk, end.
//!
//! Every method may block (processes, files, sockets) and is called on a blocking thread. Exits are
//! announced through the listener; an announcement is a hint, and [`Sessions::list`] is the truth.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::city::Provider;
use crate::domain::facts::{ProcessId, SessionExit, SessionFacts};
use crate::domain::ids::{Generation, Incarnation, SessionId};
use crate::domain::screen::ScreenView;

/// What to start.
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

/// Names one session for ever: a handle to an ended one never acts on its successor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionHandle {
    /// The session's id.
    pub id: SessionId,
    /// Unique per start.
    pub token: String,
}

/// Why a session did not start. A death in the sense of the restart policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A session of this id lives; adopt it instead.
    #[error("session {0} is already running")]
    Exists(SessionId),
    /// The working directory is not there.
    #[error("working directory {0} does not exist")]
    NoCwd(PathBuf),
    /// The program is not there or may not be run.
    #[error("program {program:?} cannot be run: {why}")]
    NoProgram {
        /// As configured.
        program: String,
        /// What the look-up said.
        why: String,
    },
    /// Processes of an earlier session live on and could not be ended.
    #[error("processes of an earlier session of {0} are still alive")]
    Stragglers(SessionId),
    /// Its records cannot be written: the disk is full or read-only. No agent failed.
    #[error("its records cannot be written: {0}")]
    Unwritable(String),
    /// The provider itself failed (no process, no file, no memory).
    #[error("the session provider failed: {0}")]
    Provider(String),
}

/// Why a call on a session failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// No session of that handle lives (it ended, or a successor took the name).
    #[error("session {0} is gone")]
    Gone(SessionId),
    /// The provider did not answer, or said no.
    #[error("session {id}: {why}")]
    Failed {
        /// The session.
        id: SessionId,
        /// What happened.
        why: String,
    },
}

/// What to type into a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Text followed by the submit key, as bracketed paste where the program asked for it.
    Submit(String),
    /// Text without the submit key, as bracketed paste where the program asked for it.
    Paste(String),
    /// Bytes as they are: keys of a person, who may end the program by them.
    Raw(Vec<u8>),
    /// The key that ends the input of a program that reads lines, typed by the supervisor: the program's end after it is its
    /// own.
    EndOfInput,
}

/// What a provider announces by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// The agent ended and how is on record.
    Exited(SessionHandle, SessionExit),
    /// The holder is gone without a record.
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

/// How a session was ended by [`Sessions::stop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It had ended before.
    Already,
    /// It ended within the grace.
    Gracefully,
    /// It had to be killed.
    Killed,
}

/// A session as one of its processes knows it: of exactly this incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The session's id.
    pub session: SessionId,
    /// The incarnation that it was started for.
    pub incarnation: Incarnation,
}

/// Where a process belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// To a session.
    Of(Member),
    /// To none.
    Nobodys,
    /// That cannot be told: it is gone, it claims what its ancestors do not confirm, or its session is
    /// one that has ended.
    Unknown,
}

impl Membership {
    /// The session.
    #[must_use]
    pub fn session(self) -> Option<SessionId> {
        match self {
            Self::Of(member) => Some(member.session),
            Self::Nobodys | Self::Unknown => None,
        }
    }
}

/// Where the process of a caller stands, and what it was started as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its working directory.
    pub dir: PathBuf,
    /// Whether that is the directory in question, or below it.
    pub inside: bool,
    /// The session that its environment names (`HD_SESSION`). A claim, which can only take rights away.
    pub claims: Option<String>,
}

/// Receives [`SessionEvent`]s; called from any thread, must not block.
pub type Listener = Box<dyn Fn(SessionEvent) + Send + Sync>;

/// Receives the handle of a session whose program wrote something; called from any thread, must not
/// block.
pub type ScreenListener = Box<dyn Fn(SessionHandle) + Send + Sync>;

/// A provider of sessions (`3-architecture.md`, 3.3). One conformance suite holds for all.
pub trait Sessions: Send + Sync {
    /// Sets who hears of exits. Called once, before anything else.
    fn listen(&self, listener: Listener);

    /// Sets what hears of changed screens: once a program that wrote is quiet, and about once a second
    /// while it is not. A hint: some changes, and those of sessions of older programs, are not
    /// announced. Called once.
    fn listen_to_screens(&self, listener: ScreenListener);

    /// Starts a session and returns when its agent's process runs. Ends stragglers of an earlier
    /// session of this id first.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    fn start(&self, spec: &SessionSpec) -> Result<Started, StartError>;

    /// Takes over a running session found by [`Sessions::list`]; its exit will be announced.
    ///
    /// # Errors
    /// [`SessionError::Gone`] when it ended meanwhile.
    fn adopt(&self, id: &SessionId) -> Result<Started, SessionError>;

    /// All sessions, running or ended and not yet forgotten. One call for all.
    ///
    /// # Errors
    /// The provider cannot be asked: then nothing is known of any session.
    fn list(&self) -> Result<Vec<SessionFacts>, SessionError>;

    /// One session; none when there is no trace of it.
    ///
    /// # Errors
    /// As [`Sessions::list`].
    fn facts(&self, id: &SessionId) -> Result<Option<SessionFacts>, SessionError>;

    /// Asks the agent to stop what it does (the terminal's interrupt key).
    ///
    /// # Errors
    /// [`SessionError`].
    fn interrupt(&self, handle: &SessionHandle) -> Result<(), SessionError>;

    /// Ends the session and everything it started: TERM, at most `grace`, then KILL; returns when
    /// nothing of it lives. Zero grace kills at once. Idempotent; refuses a successor's session.
    ///
    /// # Errors
    /// [`SessionError::Failed`] when processes could not be ended.
    fn stop(&self, handle: &SessionHandle, grace: Duration) -> Result<Stopped, SessionError>;

    /// Types into the terminal. Returns when the terminal took it.
    ///
    /// # Errors
    /// [`SessionError`].
    fn send(&self, handle: &SessionHandle, input: &Input) -> Result<(), SessionError>;

    /// The screen as text, one line per row, trailing blank rows cut.
    ///
    /// # Errors
    /// [`SessionError`].
    fn peek(&self, handle: &SessionHandle) -> Result<String, SessionError>;

    /// The screen with its marked cells, cursor and modes, as far as the session's holder can tell.
    ///
    /// # Errors
    /// [`SessionError`].
    fn view(&self, handle: &SessionHandle) -> Result<ScreenView, SessionError>;

    /// The last `bytes` of the terminal log, also of an ended session.
    ///
    /// # Errors
    /// [`SessionError`].
    fn logs(&self, id: &SessionId, bytes: u64) -> Result<Vec<u8>, SessionError>;

    /// Changes the size of the terminal.
    ///
    /// # Errors
    /// [`SessionError`].
    fn resize(&self, handle: &SessionHandle, rows: u16, cols: u16) -> Result<(), SessionError>;

    /// Where a client attaches: a socket that speaks the holder protocol, or a command to run.
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

    /// Whether sessions of that kind could be started here. Changes nothing.
    ///
    /// # Errors
    /// Why not.
    fn check(&self, provider: Provider) -> Result<(), String>;

    /// Whether a session with this `PATH` would find the program. Changes nothing.
    ///
    /// # Errors
    /// It cannot be seen whether it is there.
    fn finds(&self, program: &str, path: &str) -> Result<bool, String>;

    /// Processor time that a running session's processes have used, those that ended included. Looks
    /// at every process of the machine, so it is asked of few sessions and seldom. None when it cannot
    /// be told.
    fn cpu(&self, id: &SessionId) -> Option<Duration>;

    /// Whether a running session's agent has started a command within this time that still runs, and has run for some
    /// seconds: what is older belongs to the agent itself. As costly as [`Sessions::cpu`]; none when it cannot be told.
    fn runs_command(&self, id: &SessionId, within: Duration) -> Option<bool>;

    /// Whether one of these programs is among each running session's processes; with no names, whether the
    /// process that was started lives. In the order of the question; none where it cannot be told. Looks at
    /// the processes of the machine once at most.
    fn agents_live(&self, of: &[(SessionId, Vec<String>)]) -> Vec<Option<bool>>;

    /// Makes ready for sessions of that kind, without a change for the next starts.
    ///
    /// # Errors
    /// Sessions of that kind cannot be started here, and why.
    fn make_ready(&self, provider: Provider) -> Result<(), String>;

    /// Says which kind of session the next starts make; those that run stay where they are. A
    /// provider of one kind has no choice. Does not block.
    fn prefer(&self, provider: Provider);

    /// Which session the process belongs to, by membership (never by what the process says).
    fn membership(&self, pid: u32) -> Membership;

    /// Where the process stands in relation to this directory, as the kernel says.
    ///
    /// # Errors
    /// It cannot be told, and why: the process is gone, or belongs to another user.
    fn standing(&self, pid: u32, of: &Path) -> Result<Standing, String>;

    /// Says that the supervisor stops: what only watches gives its descriptors back, for the stops need some.
    fn stopping(&self) {}

    /// Removes the terminal logs of sessions that ended before that time, and says how many had one.
    /// Those of a session that lives, is lost or cannot be judged stay.
    ///
    /// # Errors
    /// [`SessionError`] of the first that could not be removed; the others are.
    fn prune_logs(&self, ended_before: Timestamp) -> Result<usize, SessionError>;

    /// Removes what is left of an ended session but its log. Refuses a living one.
    ///
    /// # Errors
    /// [`SessionError`].
    fn forget(&self, id: &SessionId) -> Result<(), SessionError>;
}

/// How to attach to a session's terminal.
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
        /// A Unix socket that speaks the holder protocol, for those who only watch.
        watch: PathBuf,
    },
}
