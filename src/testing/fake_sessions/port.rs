//! The port, method by method.

use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::super::PATIENCE;
use super::terminal::Silence;
use super::{Fake, FakeSessions, Inner, is_there};
use crate::domain::city::Provider;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::SessionId;
use crate::domain::screen::ScreenView;
use crate::ports::sessions::{
    AttachPoint, CallerPlace, Input, Listener, Member, Membership, ScreenListener, SessionError,
    SessionHandle, SessionSpec, Sessions, StartError, Started, Stopped,
};

impl Sessions for FakeSessions {
    fn listen(&self, listener: Listener) {
        assert!(self.ear.set(listener).is_ok(), "called once");
    }

    fn listen_to_screens(&self, listener: ScreenListener) {
        assert!(self.eye.set(listener).is_ok(), "called once");
    }

    fn start(&self, spec: &SessionSpec) -> Result<Started, StartError> {
        self.enter("start");
        let started = {
            let stuck = |inner: &Inner| inner.stuck_starts.contains(&spec.id);
            let mut inner = self.wait_while(self.inner(), stuck);
            inner.admit(spec)?;
            let fake = self.make(&mut inner, spec);
            let started = started(&fake);
            inner.starts.push(spec.clone());
            inner.history.push((fake.handle(), true));
            let member = Membership::Of(Member {
                session: spec.id.clone(),
                incarnation: spec.incarnation,
            });
            inner.processes.insert(started.agent.pid, member);
            inner.sessions.insert(spec.id.clone(), fake);
            started
        };
        self.run(&started.handle);
        Ok(started)
    }

    fn adopt(&self, id: &SessionId) -> Result<Started, SessionError> {
        let mut inner = self.inner();
        let fake = inner.sessions.get_mut(id).filter(|fake| fake.runs());
        let fake = fake.ok_or_else(|| SessionError::Gone(id.clone()))?;
        fake.ear = Arc::clone(&self.ear);
        Ok(started(fake))
    }

    fn list(&self) -> Result<Vec<SessionFacts>, SessionError> {
        self.enter("list");
        let mut inner = self.inner();
        inner.lists_begun += 1;
        let turn = inner.lists_begun;
        inner.lists_held.push_back(turn);
        // In their order, because a test releases the call that it has seen waiting.
        let held = |inner: &Inner| {
            let first = inner.lists_held.front() == Some(&turn);
            inner.holds_lists && !(first && inner.lists_released > 0)
        };
        let mut inner = self.wait_while(inner, held);
        inner.lists_held.retain(|other| *other != turn);
        inner.lists_released = inner.lists_released.saturating_sub(1);
        self.world.released.notify_all();
        if let Some(why) = &inner.blind {
            return Err(SessionError::Failed {
                id: SessionId::new("all").expect("a valid id"),
                why: why.clone(),
            });
        }
        Ok(inner.sessions.values().map(Fake::facts).collect())
    }

    fn facts(&self, id: &SessionId) -> Result<Option<SessionFacts>, SessionError> {
        self.enter("facts");
        let mut inner = self.inner();
        *inner.looks.entry(id.clone()).or_default() += 1;
        if let Some(why) = &inner.blind {
            return Err(failed(id, why));
        }
        Ok(inner.sessions.get(id).map(Fake::facts))
    }

    fn interrupt(&self, handle: &SessionHandle) -> Result<(), SessionError> {
        self.enter("interrupt");
        let mut inner = self.inner();
        let notes = inner.living(handle)?.task() == Some(("notes-interrupts", ""));
        inner.interrupts.push(handle.clone());
        if notes {
            inner.print(&handle.id, "interrupted");
        }
        Ok(())
    }

    fn stop(&self, handle: &SessionHandle, grace: Duration) -> Result<Stopped, SessionError> {
        self.enter("stop");
        let mut inner = self.inner();
        inner.stops.push((handle.clone(), grace));
        let stuck = |inner: &Inner| inner.stuck_stops.contains(&handle.id);
        let inner = self.wait_while(inner, stuck);
        let stubborn = |inner: &Inner| {
            let stubborn = inner.stubborn.contains(&handle.id);
            !grace.is_zero() && stubborn && inner.living(handle).is_ok()
        };
        let inner = self.wait_while(inner, stubborn);
        let Some(fake) = inner.sessions.get(&handle.id) else {
            return Ok(Stopped::Already);
        };
        if fake.facts.token != handle.token {
            return Err(SessionError::Gone(handle.id.clone()));
        }
        if let Some(why) = &fake.hidden {
            return Err(failed(&handle.id, why));
        }
        if inner.undead.contains(&handle.id) {
            return Err(failed(&handle.id, "it will not end"));
        }
        if !fake.runs() {
            return Ok(Stopped::Already);
        }
        let deaf = fake.ignores_term || fake.task() == Some(("ignores-term", ""));
        drop(inner);
        if deaf || grace.is_zero() {
            self.end_stopped(&handle.id, 9);
            self.world.released.notify_all();
            return Ok(Stopped::Killed);
        }
        self.end_stopped(&handle.id, 15);
        Ok(Stopped::Gracefully)
    }

    fn send(&self, handle: &SessionHandle, input: &Input) -> Result<(), SessionError> {
        self.enter("send");
        let mut inner = self.inner();
        inner.living(handle)?;
        if inner.deaf.contains(&handle.id) {
            return Err(failed(&handle.id, "its terminal takes nothing"));
        }
        if inner.stuffed.contains(&handle.id) {
            return Err(failed(&handle.id, "its holder does not answer"));
        }
        let is_clogged = inner.clogged.contains(&handle.id);
        inner.draining.extend(is_clogged.then(|| handle.id.clone()));
        let silence = inner.silent.get(&handle.id).copied();
        let is_part = is_clogged || silence == Some(Silence::TakesAPart);
        let inputs = inner.inputs.entry(handle.id.clone()).or_default();
        inputs.begun += 1;
        inputs.taken += u64::from(!is_part);
        drop(inner);
        self.take(handle, input);
        match is_clogged || silence.is_some() {
            true => Err(failed(&handle.id, "its holder does not answer")),
            false => Ok(()),
        }
    }

    fn peek(&self, handle: &SessionHandle) -> Result<String, SessionError> {
        if self.inner().hung_up.contains(&handle.id) {
            return Err(SessionError::Gone(handle.id.clone()));
        }
        let screen = self.inner().living(handle)?.screen.clone();
        screen.ok_or_else(|| SessionError::Failed {
            id: handle.id.clone(),
            why: "its screen cannot be read".into(),
        })
    }

    fn view(&self, handle: &SessionHandle) -> Result<ScreenView, SessionError> {
        let mut view = ScreenView::of_text(&self.peek(handle)?);
        let inner = self.inner();
        let fake = inner.sessions.get(&handle.id);
        (view.begun, view.touched) = fake.map_or((None, None), |fake| (fake.begun, fake.touched));
        let queues = inner.draining.iter().chain(&inner.stuffed);
        view.queued = Some(u64::from(queues.into_iter().any(|id| *id == handle.id)));
        if !inner.olds.contains(&handle.id) {
            view.inputs = Some(inner.inputs.get(&handle.id).copied().unwrap_or_default());
        }
        if inner.pasters.contains(&handle.id) {
            (view.bracketed_paste, view.reads_lines) = (Some(true), Some(false));
        }
        Ok(view)
    }

    fn logs(&self, id: &SessionId, bytes: u64) -> Result<Vec<u8>, SessionError> {
        self.enter("logs");
        let inner = self.inner();
        let log = inner.logs.get(id).map_or(&[][..], Vec::as_slice);
        let from = log
            .len()
            .saturating_sub(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(log[from..].to_vec())
    }

    fn attach(&self, handle: &SessionHandle) -> Result<AttachPoint, SessionError> {
        self.inner().living(handle)?;
        let socket = Path::new("/is-not-there").join(handle.id.as_str());
        Ok(AttachPoint::Holder(socket))
    }

    fn set_meta(&self, handle: &SessionHandle, key: &str, value: &str) -> Result<(), SessionError> {
        let mut inner = self.inner();
        let named = inner.sessions.get_mut(&handle.id);
        let named = named.filter(|fake| fake.facts.token == handle.token);
        let fake = named.ok_or_else(|| SessionError::Gone(handle.id.clone()))?;
        if fake.meta_refused {
            return Err(failed(&handle.id, "No space left on device"));
        }
        fake.meta.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn get_meta(&self, id: &SessionId, key: &str) -> Result<Option<String>, SessionError> {
        let inner = self.inner();
        let fake = inner.sessions.get(id);
        if fake.is_some_and(|fake| fake.meta_hidden) {
            let (id, why) = (id.clone(), "Too many open files".to_owned());
            return Err(SessionError::Failed { id, why });
        }
        Ok(fake.and_then(|fake| fake.meta.get(key).cloned()))
    }

    fn check(&self, provider: Provider) -> Result<(), String> {
        self.enter("check");
        match &self.inner().lacking {
            Some((lacking, why)) if *lacking == provider => Err(why.clone()),
            _ => Ok(()),
        }
    }

    fn finds(&self, program: &str, _path: &str) -> Result<bool, String> {
        let path = Path::new(program);
        match path.iter().any(|part| part == "is-not-seen") {
            true => Err(format!("{program}: input/output error")),
            false => Ok(is_there(path)),
        }
    }

    fn cpu(&self, id: &SessionId) -> Option<Duration> {
        self.enter("cpu");
        let inner = self.inner();
        let fake = inner.sessions.get(id).filter(|fake| fake.runs())?;
        Some(fake.cpu)
    }

    fn runs_command(&self, id: &SessionId, within: Duration) -> Option<bool> {
        let inner = self.inner();
        let fake = inner.sessions.get(id).filter(|fake| fake.runs())?;
        Some(!within.is_zero() && fake.runs_command)
    }

    fn agents_live(&self, of: &[(SessionId, Vec<String>)]) -> Vec<Option<bool>> {
        self.enter("agents_live");
        let inner = self.inner();
        let lives = |(id, names): &(SessionId, Vec<String>)| {
            let fake = inner.sessions.get(id).filter(|fake| fake.runs())?;
            Some(match fake.task() {
                // Only this program is told by its name.
                Some(("wraps", _)) if names.is_empty() => true,
                Some(("wraps", _)) => !fake.hollow && names.iter().any(|name| name == "the-agent"),
                _ => !fake.hollow,
            })
        };
        of.iter().map(lives).collect()
    }

    fn make_ready(&self, provider: Provider) -> Result<(), String> {
        self.check(provider)
    }

    fn prefer(&self, provider: Provider) {
        self.inner().preferred = Some(provider);
    }

    fn membership(&self, pid: u32) -> Membership {
        self.enter("membership");
        let found = self.inner().processes.get(&pid).cloned();
        found.unwrap_or(Membership::Unowned)
    }

    fn standing(&self, pid: u32, of: &Path) -> Result<CallerPlace, String> {
        self.inner().standing(pid, of)
    }

    fn prune_logs(&self, ended_before: Timestamp) -> Result<usize, SessionError> {
        let mut inner = self.inner();
        let over = |fake: &Fake| {
            let state = fake.facts().state;
            matches!(state, RunState::Exited(exit) if exit.at < ended_before)
        };
        let kept = inner.sessions.iter().filter(|(_, fake)| !over(fake));
        let kept: Vec<SessionId> = kept.map(|(id, _)| id.clone()).collect();
        let before = inner.logs.len();
        inner.logs.retain(|id, _| kept.contains(id));
        Ok(before - inner.logs.len())
    }

    fn forget(&self, id: &SessionId) -> Result<(), SessionError> {
        self.enter("forget");
        let mut inner = self.inner();
        if inner
            .sessions
            .get(id)
            .is_some_and(|fake| fake.runs() || fake.hidden.is_some())
        {
            return Err(failed(id, "it may still be running"));
        }
        inner.sessions.remove(id);
        Ok(())
    }
}

impl FakeSessions {
    /// Waits until the test releases this call.
    ///
    /// # Panics
    /// The test does not release it: it has failed, and its runtime would wait for this call for ever.
    fn wait_while<'a>(
        &self,
        inner: MutexGuard<'a, Inner>,
        held: impl Fn(&Inner) -> bool,
    ) -> MutexGuard<'a, Inner> {
        let released = &self.world.released;
        let waited = released.wait_timeout_while(inner, 2 * PATIENCE, |inner| held(inner));
        let (inner, limit) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!limit.timed_out(), "a held call was never released");
        inner
    }

    pub(super) fn make(&self, inner: &mut Inner, spec: &SessionSpec) -> Fake {
        let (agent, holder) = (inner.process(), inner.process());
        Fake {
            facts: SessionFacts {
                id: spec.id.clone(),
                token: format!("token-{}", holder.pid),
                generation: spec.generation,
                incarnation: spec.incarnation,
                state: RunState::Running,
                agent: Some(agent),
                holder: Some(holder),
                started_at: inner.now(),
                last_activity: None,
                last_output: None,
                attached: false,
                guessed: false,
            },
            hidden: None,
            meta_hidden: false,
            meta_refused: false,
            hollow: false,
            cpu: Duration::ZERO,
            runs_command: false,
            ignores_term: false,
            screen: Some(inner.at_start.clone()),
            begun: None,
            touched: None,
            meta: spec.meta.clone(),
            ear: Arc::clone(&self.ear),
            spec: spec.clone(),
        }
    }

    /// Does at once what the real program does by itself.
    fn run(&self, handle: &SessionHandle) {
        let id = &handle.id;
        let (task, env) = {
            let inner = self.inner();
            let Some(fake) = inner.sessions.get(id) else {
                return;
            };
            let task = fake
                .task()
                .map(|(verb, more)| (verb.to_owned(), more.to_owned()));
            (task, fake.spec.env.clone())
        };
        let Some((verb, more)) = task else {
            return;
        };
        match verb.as_str() {
            "prints" => self.print(id, &more),
            "exits" => self.exit(id, more.parse().unwrap_or(0)),
            "dies-of" => self.crash(id, more.parse().unwrap_or(9)),
            "prints-environment" => {
                for (key, value) in env {
                    self.print(id, &format!("{key}={value}"));
                }
                self.exit(id, 0);
            }
            "ignores-term" | "notes-interrupts" => self.print(id, "ready"),
            _ => {}
        }
    }

    fn take(&self, handle: &SessionHandle, input: &Input) {
        let mut inner = self.inner();
        inner.sent.push((handle.clone(), input.clone()));
        let text = match input {
            Input::Submit(text) | Input::Paste(text) => text.clone(),
            Input::Raw(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Input::EndOfInput => String::new(),
        };
        let hides = matches!(input, Input::Paste(_)) && inner.hiders.contains(&handle.id);
        let Some(fake) = inner.sessions.get_mut(&handle.id) else {
            return;
        };
        if hides {
            fake.screen = Some("Loading".to_owned());
        }
        match fake.task() {
            Some(("echoes", _)) => inner.print(&handle.id, &format!("got {}", text.trim_end())),
            Some(("wraps", _)) => {
                fake.hollow = true;
                inner.print(&handle.id, "hollow");
            }
            _ => {}
        }
    }
}

impl Inner {
    /// Checks that this session may be started now.
    fn admit(&mut self, spec: &SessionSpec) -> Result<(), StartError> {
        if self.sessions.get(&spec.id).is_some_and(Fake::runs) {
            self.doubles += 1;
            return Err(StartError::Exists(spec.id.clone()));
        }
        let refusal = self.refusals.get_mut(&spec.id);
        if let Some(error) = refusal.and_then(std::collections::VecDeque::pop_front) {
            return Err(error);
        }
        if !is_there(&spec.cwd) {
            return Err(StartError::NoCwd(spec.cwd.clone()));
        }
        let program = spec.argv.first().cloned().unwrap_or_default();
        if program.is_empty() || !is_there(Path::new(&program)) {
            let why = "no such file".to_owned();
            return Err(StartError::NoProgram { program, why });
        }
        Ok(())
    }

    fn living(&self, handle: &SessionHandle) -> Result<&Fake, SessionError> {
        let named = self.sessions.get(&handle.id);
        let fake = named
            .filter(|fake| fake.facts.token == handle.token && fake.runs())
            .ok_or_else(|| SessionError::Gone(handle.id.clone()))?;
        match &fake.hidden {
            Some(why) => Err(failed(&handle.id, why)),
            None => Ok(fake),
        }
    }
}

fn started(fake: &Fake) -> Started {
    Started {
        handle: fake.handle(),
        agent: fake.facts.agent.clone().expect("a fake has processes"),
        holder: fake.facts.holder.clone(),
        generation: fake.facts.generation,
    }
}

fn failed(id: &SessionId, why: &str) -> SessionError {
    SessionError::Failed {
        id: id.clone(),
        why: why.to_owned(),
    }
}
