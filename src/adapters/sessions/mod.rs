//! The sessions of this machine (`docs/decisions/own-holder.md`): one small holder process each, which is detached and owns
//! the terminal ([`holder`]), or runs inside a tmux pane ([`tmux`]). Both kinds keep the same records and the same
//! lock in the same place, so a session of either kind is found, ended and never doubled in the same way; only the
//! start depends on the preferred kind.
//!
//! This side lives in the daemon. It starts holders ([`launch`]), reads their files ([`files`], [`observe`]), talks
//! to their sockets ([`client`]) and observes their ends ([`monitor`]). It holds no state that a new daemon could not
//! find again.

mod by_handle;
mod changes;
mod client;
mod few_descriptors;
mod files;
pub mod holder;
mod launch;
mod logs;
mod members;
mod monitor;
mod observe;
mod provider;
mod remains;
mod revive;
mod sessions_dir;
mod tmux;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use self::changes::Changes;
use self::client::{Client, HolderError};
use self::files::{RecordRead, SessionRecord, Spec};
pub use self::launch::is_holder;

use self::few_descriptors::FewDescriptors;
use self::launch::{Launch, Reply};
use self::members::Members;
use self::monitor::Monitor;
use self::observe::ObservedSession;
use self::sessions_dir::SessionsDir;
use self::tmux::Tmux;
use crate::adapters::proc::{self, Pidfd};
use crate::domain::city::Provider;
use crate::domain::facts::RunState;
use crate::domain::holder_wire::{Answer, Request};
use crate::domain::ids::SessionId;
use crate::ports::sessions::{
    Member, SessionError, SessionHandle, SessionSpec, StartError, Started, Stopped,
};

/// The time that a holder gets after the grace period to end everything and record it.
const AFTER_GRACE: Duration = Duration::from_secs(10);

/// The provider of sessions.
pub struct LocalSessions {
    place: SessionsDir,
    exe: PathBuf,
    gates: Mutex<HashMap<SessionId, Arc<Mutex<()>>>>,
    members: Members,
    monitor: Monitor,
    changes: Changes,
    open_files: Option<u64>,
    few_descriptors: FewDescriptors,
    tmux: Tmux,
    preferred: Mutex<Provider>,
    /// The sessions whose log is no regular file, as the log of the supervisor says.
    odd_logs: Mutex<HashSet<SessionId>>,
}

impl LocalSessions {
    /// Makes a provider that keeps sessions in this directory (`.horde/sessions`) and re-executes this program
    /// (`horde-supervisor`) as their holders. New ones are detached, or, if
    /// [`Sessions::prefer`](crate::ports::sessions::Sessions::prefer) demands it, run on the tmux server of this
    /// name.
    ///
    /// # Errors
    /// When the directory cannot be made, or the kernel refuses a thread.
    pub fn new(state_dir: PathBuf, exe: PathBuf, tmux_server: &str) -> io::Result<Self> {
        let place = SessionsDir::open(&state_dir)?;
        let settings = place.home().with_file_name("tmux.conf");
        revive::all(place.home())?;
        let provider = Self {
            members: Members::of(place.home().to_owned(), tmux_server.to_owned()),
            place,
            exe,
            tmux: Tmux::new(tmux_server.to_owned(), settings),
            preferred: Mutex::new(Provider::Holder),
            odd_logs: Mutex::default(),
            gates: Mutex::default(),
            monitor: Monitor::new()?,
            changes: Changes::new()?,
            open_files: proc::raise_open_files(),
            few_descriptors: FewDescriptors::new(),
        };
        // Callers must be recognised before the first patrol has adopted any session.
        for sight in provider.look_at_all()? {
            if let (RunState::Running, Some(state)) = (&sight.facts.state, &sight.state) {
                provider.members.add(state);
            }
        }
        Ok(provider)
    }

    /// Says what is in the place of a session's log, once until there is a file again.
    fn tell_odd_log(&self, id: &SessionId, odd: Option<(PathBuf, &'static str)>) {
        let mut told = self.odd_logs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((path, kind)) = odd else {
            told.remove(id);
            return;
        };
        if told.insert(id.clone()) {
            let path = path.display();
            tracing::warn!(session = %id, %path, "{kind} is in the place of a session's log; it is not read, and the next start of the session replaces it");
        }
    }

    fn dir(&self, id: &SessionId) -> PathBuf {
        self.place.path().join(id.as_str())
    }

    /// Observes a session. If its record is missing, or differs from the living holder that this supervisor knows,
    /// the holder is right, and the record is written again.
    fn observe(&self, id: &SessionId) -> Option<ObservedSession> {
        let dir = self.dir(id);
        let seen = observe::session(id, &dir);
        let Some(known) = self.members.state(id) else {
            return seen;
        };
        match &seen {
            Some(ObservedSession {
                state: Some(state), ..
            }) if *state == known => seen,
            _ if observe::holds(&known, &dir).unwrap_or(false) => {
                mend(&dir, &known);
                Some(observe::judge(&dir, known))
            }
            Some(ObservedSession { state: Some(_), .. }) => seen,
            _ => Some(observe::judge(&dir, known)),
        }
    }

    fn look_at_all(&self) -> io::Result<Vec<ObservedSession>> {
        let ids = self.ids()?;
        Ok(ids.iter().filter_map(|id| self.observe(id)).collect())
    }

    /// Returns every session that has a directory or is known.
    fn ids(&self) -> io::Result<Vec<SessionId>> {
        let mut ids = self.members.ids();
        let listed = match fs::read_dir(self.place.path()) {
            // The directory and its parent were removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            listed => Some(listed?),
        };
        for entry in listed.into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_str().map(SessionId::new) {
                Some(Ok(id)) if entry.file_type()?.is_dir() => {
                    ids.insert(id);
                }
                _ => tracing::debug!(
                    ?name,
                    "an entry of the sessions directory is not a session's directory and is ignored"
                ),
            }
        }
        Ok(ids.into_iter().collect())
    }

    /// Serialises changes of one session's files; sessions do not block each other.
    fn gate(&self, id: &SessionId) -> Arc<Mutex<()>> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(id.clone()).or_default())
    }

    fn preferred(&self) -> Provider {
        *self
            .preferred
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the pane of a holder that was killed, which still shows the last screen to people. The pane of another
    /// city, from which a record was copied, stays.
    fn remove_pane(&self, state: &SessionRecord) {
        if let Some(pane) = &state.pane
            && !launch::is_of_another_city(state.holder.pid, &self.dir(&state.id))
            && let Err(error) = tmux::remove(pane, state.holder.pid, &state.id)
        {
            tracing::warn!(session = %state.id, %error, "the tmux pane of a session could not be removed; it shows the last screen until a person closes it");
        }
    }

    /// Returns the session that this handle names, running or ended.
    fn named(&self, handle: &SessionHandle) -> Result<ObservedSession, SessionError> {
        let sight = self.observe(&handle.id);
        sight
            .filter(|sight| sight.facts.token == handle.token)
            .ok_or_else(|| SessionError::Gone(handle.id.clone()))
    }

    fn ask(&self, handle: &SessionHandle, request: &Request) -> Result<Answer, SessionError> {
        Client::connect(&self.dir(&handle.id), &handle.token)
            .and_then(|mut client| client.ask(request))
            .map_err(|trouble| fault(&handle.id, &trouble))
    }

    /// Makes sure that no process of an earlier session of this id lives.
    fn clear(&self, id: &SessionId, dir: &Path) -> Result<(), StartError> {
        let sight = self.observe(id);
        match sight.as_ref().map(|sight| &sight.facts.state) {
            Some(RunState::Running) => return Err(StartError::Exists(id.clone())),
            Some(RunState::Unknown { why })
                if sight.as_ref().is_some_and(|s| s.state.is_some()) =>
            {
                return Err(StartError::Provider(why.clone()));
            }
            _ => {}
        }
        let orderly = matches!(
            sight.as_ref().map(|sight| &sight.facts.state),
            None | Some(RunState::Exited(_))
        );
        let token = sight.and_then(|sight| sight.state).map(|state| state.token);
        let spec = files::read::<Spec>(dir, files::SPEC).map_err(provider)?;
        let broken_off = match spec {
            RecordRead::Record(spec) => Some(spec.token) != token,
            RecordRead::Nothing => false,
            RecordRead::Garbage(_) => true,
        };
        if orderly && !broken_off && !files::is_locked(dir).map_err(provider)? {
            return Ok(());
        }
        match remains::end(dir, self.members.state(id).as_ref()).map_err(provider)? {
            remains::Ending {
                some_live: true, ..
            } => Err(StartError::Stragglers(id.clone())),
            remains::Ending { .. } => Ok(()),
        }
    }

    fn launch(&self, spec: &SessionSpec, dir: &Path) -> Result<SessionRecord, StartError> {
        let launch = Launch {
            id: spec.id.clone(),
            token: new_token().map_err(provider)?,
            generation: spec.generation,
            incarnation: spec.incarnation,
            argv: spec.argv.clone(),
            env: spec.env.clone(),
            cwd: std::path::absolute(&spec.cwd).map_err(provider)?,
            output_limit: spec.output_limit,
            meta: spec.meta.clone(),
            open_files: self.open_files,
        };
        // Before the agent can act: it must never be taken for the operator.
        let member = Member {
            session: spec.id.clone(),
            incarnation: spec.incarnation,
        };
        self.members.starting(&launch.token, member);
        let reply = match self.preferred() {
            Provider::Holder => holder::start(&self.exe, dir, &launch),
            Provider::Tmux => self.tmux.start(&self.exe, dir, &launch),
        };
        let reply = reply.or_else(|error| {
            // The start may be stuck half-way, together with its agent. No other session can have this lock or token
            // now, so every process with one of them belongs to this start.
            let left = remains::end(dir, None)?;
            tracing::warn!(session = %spec.id, killed = left.killed, "the start of a session failed; its remaining processes were killed");
            Err(error)
        });
        if !matches!(reply, Ok(Reply::Ready(_))) {
            self.members.not_started(&launch.token);
        }
        match reply.map_err(provider)? {
            Reply::Ready(state) => {
                self.members.add(&state);
                Ok(*state)
            }
            Reply::Locked => Err(StartError::Stragglers(spec.id.clone())),
            Reply::NoCwd => Err(StartError::NoCwd(spec.cwd.clone())),
            Reply::NoProgram(why) => Err(StartError::NoProgram {
                program: spec.argv.first().cloned().unwrap_or_default(),
                why,
            }),
            Reply::Unwritable(why) => Err(StartError::Unwritable(why)),
            Reply::Failed(why) => Err(StartError::Provider(why)),
        }
    }

    /// Makes the holder end its session; a holder that cannot is killed, and its processes are ended.
    fn stop_running(&self, state: &SessionRecord, grace: Duration) -> io::Result<Stopped> {
        let dir = self.dir(&state.id);
        let Some(holder) = Pidfd::open(&state.holder)? else {
            return self.how_it_ended(state);
        };
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let asked = Client::hurried(&dir, &state.token)
            .and_then(|mut client| client.send(&Request::Stop { grace_ms }).map(|()| client));
        match &asked {
            Ok(_) => {}
            // The holder is ending, its socket was removed, or no common version exists: a TERM asks holders of every
            // version to stop.
            Err(HolderError::Gone | HolderError::Foreign(_)) => holder.signal(Signal::TERM)?,
            Err(trouble) => {
                tracing::warn!(session = %state.id, "the holder of a session could not be asked to stop and is killed: {trouble}");
                holder.signal(Signal::KILL)?;
            }
        }
        // The connection stays open: the request must not vanish with it.
        if !holder.wait(grace.saturating_add(AFTER_GRACE))? {
            tracing::warn!(session = %state.id, "the holder of a session did not end in time and is killed");
            holder.signal(Signal::KILL)?;
            holder.wait(AFTER_GRACE)?;
        }
        self.how_it_ended(state)
    }

    fn how_it_ended(&self, state: &SessionRecord) -> io::Result<Stopped> {
        let dir = self.dir(&state.id);
        let recorded = files::read_end(&dir, &state.token)?;
        match recorded {
            Some(ended) if ended.undead > 0 => Err(io::Error::other(format!(
                "{} processes do not end",
                ended.undead
            ))),
            Some(ended) if ended.killed => Ok(Stopped::Killed),
            Some(_) => Ok(Stopped::Gracefully),
            None => match remains::end(&dir, Some(state))? {
                remains::Ending {
                    some_live: true, ..
                } => Err(io::Error::other("some of its processes do not end")),
                remains::Ending { .. } => Ok(Stopped::Killed),
            },
        }
    }
}

/// Writes the record of a running session again. First moves its directory back if it was moved.
fn mend(dir: &Path, known: &SessionRecord) {
    let written = sessions_dir::put_back(dir, known.holder.pid)
        .and_then(|()| files::make_own_dir(dir))
        .and_then(|()| files::write(dir, files::STATE, known));
    match written {
        Ok(()) => {
            tracing::warn!(session = %known.id, "the record of a running session was lost; it was written again")
        }
        Err(error) => {
            tracing::warn!(session = %known.id, %error, "the record of a running session was lost and could not be written again")
        }
    }
}

fn fault(id: &SessionId, trouble: &HolderError) -> SessionError {
    match trouble {
        HolderError::Gone => SessionError::Gone(id.clone()),
        other => failed(id, other),
    }
}

fn failed(id: &SessionId, why: impl std::fmt::Display) -> SessionError {
    SessionError::Failed {
        id: id.clone(),
        why: why.to_string(),
    }
}

fn provider(error: io::Error) -> StartError {
    match files::is_unwritable(&error) {
        true => StartError::Unwritable(error.to_string()),
        false => StartError::Provider(error.to_string()),
    }
}

fn started(state: &SessionRecord) -> Started {
    Started {
        handle: SessionHandle {
            id: state.id.clone(),
            token: state.token.clone(),
        },
        agent: state.agent.clone(),
        holder: Some(state.holder.clone()),
        generation: state.generation,
    }
}

/// Returns 128 random bits.
fn new_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
