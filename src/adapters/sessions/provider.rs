//! The port's methods.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use super::files::{self, Meta, RecordRead};
use super::holder::log_tail;
use super::launch::candidates;
use super::observe::ObservedSession;
use super::tmux;
use super::{
    Client, LocalSessions, by_handle, failed, fault, logs, provider, remains, sessions_dir, started,
};
use jiff::Timestamp;

use crate::adapters::proc;
use crate::domain::city::Provider;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::holder_wire::{Answer, MAX_INPUT, Request};
use crate::domain::ids::SessionId;
use crate::domain::screen::ScreenView;
use crate::ports::sessions::{
    AttachPoint, CallerPlace, Input, Listener, Membership, ScreenListener, SessionError,
    SessionHandle, SessionSpec, Sessions, StartError, Started, Stopped,
};

/// The shortest run time of a command; hooks and status lines are shorter.
const BRIEF: Duration = Duration::from_secs(20);
/// The time after an agent's start within which its child processes count as parts of the agent.
const STARTS: Duration = Duration::from_secs(30);

impl Sessions for LocalSessions {
    fn listen(&self, listener: Listener) {
        self.monitor.listen(listener);
    }

    fn listen_to_screens(&self, listener: ScreenListener) {
        self.changes.listen(listener);
    }

    fn start(&self, spec: &SessionSpec) -> Result<Started, StartError> {
        let Some(_under_way) = self.members.start_begins() else {
            let why = "the supervisor ends all sessions, because the city's directory is gone";
            return Err(StartError::Provider(why.to_owned()));
        };
        let gate = self.gate(&spec.id);
        let _one_at_a_time = gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.place.check().map_err(provider)?;
        let _pass = self.few_descriptors.pass();
        self.few_descriptors.check().map_err(provider)?;
        if self.preferred() == Provider::Tmux {
            self.tmux.check_descriptors().map_err(provider)?;
        }
        let dir = self.dir(&spec.id);
        sessions_dir::set_aside(&dir).map_err(provider)?;
        files::make_own_dir(&dir).map_err(provider)?;
        self.clear(&spec.id, &dir)?;
        let before = self.observe(&spec.id).and_then(|sight| sight.state);
        let state = self.launch(spec, &dir)?;
        if let Some(before) = before.filter(|_| state.pane.is_none()) {
            // The session moved out of tmux. (Within tmux, its new pane has taken the name.)
            self.remove_pane(&before);
        }
        match self.monitor.watch(dir.clone(), state.clone()) {
            Ok(true) => self.changes.watch(dir, &state),
            // The session ended during this call: its end is on disk, and this call must send the event.
            Ok(false) => self.monitor.announce(&self.dir(&spec.id), &state),
            Err(error) => {
                tracing::warn!(session = %spec.id, %error, "the holder of a session cannot be watched; only a patrol will notice its end");
            }
        }
        Ok(started(&state))
    }

    fn adopt(&self, id: &SessionId) -> Result<Started, SessionError> {
        let sight = self.observe(id);
        let running = sight.filter(|sight| sight.facts.state == RunState::Running);
        let Some(state) = running.and_then(|sight| sight.state) else {
            return Err(SessionError::Gone(id.clone()));
        };
        match self.monitor.watch(self.dir(id), state.clone()) {
            Ok(true) => {}
            Ok(false) => return Err(SessionError::Gone(id.clone())),
            Err(error) => {
                tracing::warn!(session = %id, %error, "the holder of a session cannot be watched; only a patrol will notice its end");
            }
        }
        self.members.add(&state);
        self.changes.watch(self.dir(id), &state);
        Ok(started(&state))
    }

    fn list(&self) -> Result<Vec<SessionFacts>, SessionError> {
        let seen = self.look_at_all();
        let seen = seen.map_err(|error| failed(&everything(), error))?;
        Ok(ask_tmux(seen))
    }

    fn facts(&self, id: &SessionId) -> Result<Option<SessionFacts>, SessionError> {
        Ok(ask_tmux(self.observe(id).into_iter().collect()).pop())
    }

    fn interrupt(&self, handle: &SessionHandle) -> Result<(), SessionError> {
        Client::hurried(&self.dir(&handle.id), &handle.token)
            .and_then(|mut client| client.ask(&Request::Interrupt))
            .map_err(|trouble| fault(&handle.id, &trouble))
            .map(drop)
    }

    fn stop(&self, handle: &SessionHandle, grace: Duration) -> Result<Stopped, SessionError> {
        let _pass = self.few_descriptors.pass();
        let id = &handle.id;
        let Some(sight) = self.observe(id) else {
            return Ok(Stopped::Already);
        };
        if sight.facts.token != handle.token {
            return Err(SessionError::Gone(id.clone()));
        }
        let stopped = match (sight.facts.state, sight.state) {
            (RunState::Running, Some(state)) => self.stop_running(&state, grace),
            (RunState::Exited(_), _) => Ok(Stopped::Already),
            (RunState::Lost { .. }, state) => {
                let gate = self.gate(id);
                let _one_at_a_time = gate.lock().unwrap_or_else(PoisonError::into_inner);
                // A successor may have been started during the wait.
                self.named(handle)?;
                state.iter().for_each(|state| self.remove_pane(state));
                remains::end(&self.dir(id), self.members.state(id).as_ref()).and_then(|ending| {
                    match ending {
                        remains::Ending {
                            some_live: true, ..
                        } => Err(std::io::Error::other("some of its processes do not end")),
                        remains::Ending { killed: 0, .. } => Ok(Stopped::Already),
                        remains::Ending { .. } => Ok(Stopped::Killed),
                    }
                })
            }
            (RunState::Unknown { why }, _) => return Err(failed(id, why)),
            (RunState::Running, None) => return Err(failed(id, "its record cannot be read")),
        };
        stopped.map_err(|error| failed(id, error))
    }

    fn send(&self, handle: &SessionHandle, input: &Input) -> Result<(), SessionError> {
        match input {
            Input::Submit(text) | Input::Paste(text) if text.len() > MAX_INPUT => Err(failed(
                &handle.id,
                format!("a text of {} bytes is too long to type", text.len()),
            )),
            Input::Paste(text) => self.ask(handle, &Request::Paste(text.clone())).map(drop),
            Input::Submit(text) => self.ask(handle, &Request::Submit(text.clone())).map(drop),
            Input::EndOfInput => self.ask(handle, &Request::EndOfInput).map(drop),
            Input::Raw(bytes) => bytes
                .chunks(MAX_INPUT)
                .try_for_each(|part| self.ask(handle, &Request::Type(part.to_vec())).map(drop)),
        }
    }

    fn peek(&self, handle: &SessionHandle) -> Result<String, SessionError> {
        match self.ask(handle, &Request::Peek)? {
            Answer::Screen(text) => Ok(text),
            other => Err(failed(&handle.id, format!("unexpected answer {other:?}"))),
        }
    }

    fn view(&self, handle: &SessionHandle) -> Result<ScreenView, SessionError> {
        match self.ask(handle, &Request::Look)? {
            Answer::View(view) => Ok(*view),
            other => Err(failed(&handle.id, format!("unexpected answer {other:?}"))),
        }
    }

    fn logs(&self, id: &SessionId, bytes: u64) -> Result<Vec<u8>, SessionError> {
        let dir = self.dir(id);
        self.tell_odd_log(id, logs::odd(&dir));
        log_tail(&dir, bytes).map_err(|error| failed(id, error))
    }

    fn attach(&self, handle: &SessionHandle) -> Result<AttachPoint, SessionError> {
        let sight = self.named(handle)?;
        let socket = self.dir(&handle.id).join(files::SOCK);
        let pane = sight.state.and_then(|state| state.pane);
        match sight.facts.state {
            RunState::Running => Ok(match pane {
                None => AttachPoint::Holder(socket),
                Some(pane) => AttachPoint::Tmux {
                    server: pane.socket,
                    pane: pane.id,
                    watch: socket,
                },
            }),
            RunState::Exited(_) | RunState::Lost { .. } => {
                Err(SessionError::Gone(handle.id.clone()))
            }
            RunState::Unknown { why } => Err(failed(&handle.id, why)),
        }
    }

    fn set_meta(&self, handle: &SessionHandle, key: &str, value: &str) -> Result<(), SessionError> {
        let gate = self.gate(&handle.id);
        let _one_at_a_time = gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.named(handle)?;
        let mut facts = self.meta(&handle.id, &handle.token)?;
        facts.insert(key.to_owned(), value.to_owned());
        let token = handle.token.clone();
        files::write(&self.dir(&handle.id), files::META, &Meta { token, facts })
            .map_err(|error| failed(&handle.id, error))
    }

    fn get_meta(&self, id: &SessionId, key: &str) -> Result<Option<String>, SessionError> {
        let Some(sight) = self.observe(id) else {
            return Ok(None);
        };
        Ok(self.meta(id, &sight.facts.token)?.remove(key))
    }

    fn check(&self, provider: Provider) -> Result<(), String> {
        match provider {
            Provider::Tmux => tmux::check().map_err(|error| error.to_string()),
            Provider::Holder => Ok(()),
        }
    }

    fn finds(&self, program: &str, path: &str) -> Result<bool, String> {
        let mut unseen = None;
        for file in candidates(program, Some(path)) {
            match fs::metadata(&file) {
                Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => {
                    return Ok(true);
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), NotFound | NotADirectory) => {}
                Err(error) => {
                    unseen.get_or_insert_with(|| format!("{}: {error}", file.display()));
                }
            }
        }
        unseen.map_or(Ok(false), Err)
    }

    fn cpu(&self, id: &SessionId) -> Option<Duration> {
        let sight = self.observe(id)?;
        let state = sight
            .state
            .filter(|_| sight.facts.state == RunState::Running)?;
        proc::cpu_below(&state.holder)
            .inspect_err(|error| {
                tracing::warn!(session = %id, %error, "the processor time of a session cannot be read; it is not used to judge whether its agent works");
            })
            .ok()?
    }

    fn runs_command(&self, id: &SessionId, within: Duration) -> Option<bool> {
        let sight = self.observe(id)?;
        let state = sight
            .state
            .filter(|_| sight.facts.state == RunState::Running)?;
        let ages = proc::ages(&state.agent).inspect_err(|error| {
            tracing::warn!(session = %id, %error, "the running commands of a session cannot be listed; it is unknown whether its agent runs one");
        });
        let (own, below) = ages.ok()??;
        let is_command = |age: &Duration| (BRIEF..=within).contains(age) && *age + STARTS <= own;
        Some(below.iter().any(is_command))
    }

    fn agents_live(&self, of: &[(SessionId, Vec<String>)]) -> Vec<Option<bool>> {
        let mut listed = None;
        let lives = of.iter().map(|(id, names)| {
            let sight = self.observe(id)?;
            let state = sight
                .state
                .filter(|_| sight.facts.state == RunState::Running)?;
            proc::agent_lives(&state.agent, &state.holder, names, &mut listed)
                .inspect_err(|error| {
                    tracing::warn!(
                        session = %id,
                        %error,
                        "the processes of a session cannot be listed; it is unknown whether its agent runs"
                    );
                })
                .ok()
        });
        lives.collect()
    }

    fn make_ready(&self, provider: Provider) -> Result<(), String> {
        match provider {
            Provider::Tmux => self.tmux.prepare().map_err(|error| error.to_string()),
            Provider::Holder => Ok(()),
        }
    }

    fn prefer(&self, provider: Provider) {
        *self
            .preferred
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = provider;
    }

    fn membership(&self, pid: u32) -> Membership {
        self.members.membership(pid)
    }

    fn standing(&self, pid: u32, of: &Path) -> Result<CallerPlace, String> {
        let place = proc::place(pid, of).map_err(|error| error.to_string())?;
        Ok(CallerPlace {
            dir: place.dir,
            inside: place.inside,
            claims: proc::environment_text(pid, "HD_SESSION"),
        })
    }

    fn stopping(&self) {
        self.changes.let_go();
    }

    fn end_known(&self) -> Vec<String> {
        by_handle::end_all(&self.members)
    }

    fn prune_logs(&self, ended_before: Timestamp) -> Result<usize, SessionError> {
        let ids = self.ids().map_err(|error| failed(&everything(), error))?;
        let (mut pruned, mut first) = (0, None);
        for id in ids {
            let gate = self.gate(&id);
            let _one_at_a_time = gate.lock().unwrap_or_else(PoisonError::into_inner);
            let sight = self.observe(&id);
            match logs::prune(&self.dir(&id), sight.as_ref(), ended_before) {
                Ok(had) => pruned += usize::from(had),
                Err(error) => first = first.or(Some(failed(&id, error))),
            }
        }
        first.map_or(Ok(pruned), Err)
    }

    fn forget(&self, id: &SessionId) -> Result<(), SessionError> {
        let gate = self.gate(id);
        let _one_at_a_time = gate.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = self.dir(id);
        if !dir.exists() {
            return Ok(());
        }
        let sight = self.observe(id);
        if let Some(sight) = &sight
            && matches!(
                sight.facts.state,
                RunState::Running | RunState::Unknown { .. }
            )
        {
            return Err(failed(id, "it may still be running"));
        }
        if files::is_locked(&dir).map_err(|error| failed(id, error))? {
            return Err(failed(id, "some of its processes still run"));
        }
        self.members.remove(id);
        self.tell_odd_log(id, None);
        if let Some(state) = sight.and_then(|sight| sight.state) {
            self.remove_pane(&state);
        }
        // The state record is removed first: a half-removed session then counts as removed.
        [
            files::STATE,
            files::EXIT,
            files::META,
            files::SPEC,
            files::SOCK,
            files::ATTACHED,
            files::COMPLAINT,
        ]
        .iter()
        .try_for_each(|name| files::remove(&dir, name))
        .map_err(|error| failed(id, error))
    }
}

impl LocalSessions {
    /// Returns the facts kept with the session of this token.
    fn meta(&self, id: &SessionId, token: &str) -> Result<BTreeMap<String, String>, SessionError> {
        let found = files::read::<Meta>(&self.dir(id), files::META);
        match found.map_err(|error| failed(id, error))? {
            RecordRead::Record(meta) if meta.token == token => Ok(meta.facts),
            RecordRead::Record(_) | RecordRead::Nothing => Ok(BTreeMap::new()),
            RecordRead::Garbage(why) => Err(failed(id, why)),
        }
    }
}

/// The id in errors that concern all sessions.
fn everything() -> SessionId {
    SessionId::new("all").expect("a valid id")
}

/// Adds facts that only tmux knows: one query per server, and none if no session runs in tmux. If a server does not
/// answer, the activity of its sessions is unknown.
fn ask_tmux(seen: Vec<ObservedSession>) -> Vec<SessionFacts> {
    let mut servers = HashMap::new();
    let add = |ObservedSession { mut facts, state }| {
        let pane = state.as_ref().and_then(|state| state.pane.as_ref());
        if let (RunState::Running, Some(state), Some(pane)) = (&facts.state, &state, pane) {
            let panes = servers
                .entry(pane.socket.clone())
                .or_insert_with_key(|socket| {
                    tmux::sweep(socket).inspect_err(|error| {
                        tracing::warn!(%error, "tmux did not answer; the activity of its sessions is unknown, and they count as attached");
                    })
                });
            match panes {
                Ok(panes) => {
                    if let Some(glance) = panes.get(&state.holder.pid) {
                        facts.attached |= glance.attached;
                        let newer = Some(glance.activity).filter(|at| *at >= facts.started_at);
                        facts.last_activity = facts.last_activity.max(newer);
                    }
                }
                Err(_) => {
                    facts.last_activity = None;
                    // A person may be attached: nothing that would disturb them is done on a guess.
                    (facts.attached, facts.guessed) = (true, true);
                }
            }
        }
        facts
    };
    seen.into_iter().map(add).collect()
}
