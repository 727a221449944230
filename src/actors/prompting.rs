//! The first prompt of a program that takes it in its terminal (`prompt = "paste"` and `"stdin"`): typed by the same
//! rules as any other text. A login or a menu at the start holds it back, is reported as such, and receives no Enter.
//! `domain/first_prompt` decides the next step; here are observation, typing and escalation.
//!
//! The prompt and its progress are stored with the session, so that a supervisor that adopts the session continues. A
//! prompt that was being typed when a supervisor died is typed twice, which is better than never.

mod guard;

use std::sync::Arc;
use std::time::Duration;

use super::claims::ClaimKey;
use super::typing::{self, By, Typing, Unanswered, Undelivered};
use super::world::World;
use super::{conditions, effects};
use crate::actors::directory::Directory;
use crate::actors::mail::{ChildSpec, Work};
use crate::actors::records::escalations::{self, Ends};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::domain::condition::Condition;
use crate::domain::first_prompt::{
    COURSE, Delay, Look, Next, Pasted, Reason, Screen, Stage, Takes, Tell, next,
};
use crate::domain::harness::{END_OF_INPUT, in_short_lines};
use crate::domain::ids::{ChildId, HarnessName, RelicId};
use crate::domain::message::Escalation;
use crate::domain::problem::ProblemKind;
use crate::domain::restart::Mono;
use crate::domain::screen::{Fate, Reads, ScreenView};
use crate::domain::unsubmitted::Unsubmitted;
use crate::ports::sessions::{SessionError, SessionHandle};

pub(super) use crate::domain::first_prompt::OWED;

/// Interval between two observations of a program that draws; an unchanged screen is quiet.
const QUIET: Duration = Duration::from_millis(300);
/// A screen that never gets quiet gets the prompt after this.
const NEVER_QUIET: Duration = Duration::from_secs(10);
/// Interval between two tries to read the stored prompt.
const AGAIN: Duration = Duration::from_secs(2);

/// The time of the next step.
enum Wait {
    /// Never: nothing is left to do.
    Over,
    /// At once.
    None,
    /// After this delay.
    For(Duration),
    /// When the screen was observed again, or at the next patrol.
    Patrol,
}

/// The first prompt of a session.
#[derive(Clone)]
struct FirstPrompt {
    child: ChildId,
    relic: Option<RelicId>,
    harness: HarnessName,
    handle: SessionHandle,
    /// The text, with an end of input if it needs one.
    text: String,
    /// None until it could be read.
    stage: Option<Stage>,
    /// The stage in the session's facts.
    written: Option<Stage>,
    /// Set when a failure to write the facts was logged.
    is_unwritten_told: bool,
    began: Mono,
    view: Option<ScreenView>,
    /// Since when the screen has changed at each observation.
    moves: Option<Mono>,
    delay: Delay,
    /// Set when the escalation about it was seen open.
    is_call_open: bool,
}

/// Types the first prompt of a session, if one is pending, in a task of its own.
pub fn begin(world: &Arc<World>, spec: &ChildSpec, harness: &HarnessName, handle: &SessionHandle) {
    // A child's actor that panicked may have left a task that still runs.
    let Some(claim) = world.claims.claim(ClaimKey::Prompt(handle.token.clone())) else {
        return;
    };
    let relic = match &spec.work {
        Work::Raider { hook, .. } => Some(hook.relic.clone()),
        Work::Agent(_) => None,
    };
    let prompt = FirstPrompt {
        child: spec.id.clone(),
        relic,
        harness: harness.clone(),
        handle: handle.clone(),
        text: String::new(),
        stage: None,
        written: None,
        is_unwritten_told: false,
        began: world.clock.mono(),
        view: None,
        moves: None,
        delay: Delay::default(),
        is_call_open: false,
    };
    let directory = Arc::clone(&world.directory);
    tokio::spawn(async move {
        prompt.run_guarded(&directory).await;
        drop(claim);
    });
}

impl FirstPrompt {
    async fn run(mut self, directory: &Directory) {
        // A supervisor that stops leaves the prompt to the next one.
        while let Some(world) = directory.newest().filter(|world| !world.is_stopping()) {
            let patrol = world.city.daemon.patrol_interval;
            let wait = self.step(&world).await;
            let changed = world.directory.conditions.looked(&self.handle);
            drop(world);
            match (wait, changed) {
                (Wait::Over, _) => return,
                (Wait::None, _) => {}
                (Wait::For(time), _) => tokio::time::sleep(time).await,
                // At the next observation, or at the patrol.
                (Wait::Patrol, Some(changed)) => {
                    drop(tokio::time::timeout(patrol, changed.notified()).await);
                }
                (Wait::Patrol, None) => tokio::time::sleep(patrol).await,
            }
        }
    }

    async fn step(&mut self, world: &World) -> Wait {
        let stage = match self.stage.clone() {
            Some(stage) => stage,
            None => match self.read(world).await {
                Ok(stage) => stage,
                Err(_) if self.is_gone(world).await => return self.finish(world).await,
                Err(error) => {
                    let why = Reason::Unread(error.to_string());
                    self.kept_back(world, &why, "").await;
                    return Wait::For(AGAIN);
                }
            },
        };
        let is_written = self.write(world).await;
        if stage == Stage::Paid {
            let over = self.finish(world).await;
            // The next supervisor would type a prompt that the facts still show as pending.
            return match is_written || self.is_gone(world).await {
                true => over,
                false => Wait::Patrol,
            };
        }
        let now = world.clock.mono();
        let (look, screen) = self.observe(world, now).await;
        let age = now.saturating_sub(self.began);
        let stage = self.updated(world, stage);
        match next(&stage, &self.text, &look, age) {
            Next::Over => self.finish(world).await,
            Next::Soon => Wait::For(QUIET),
            Next::Rest => {
                self.delay.ends();
                conditions::set_untyped(world, &self.handle, None);
                Wait::Patrol
            }
            Next::KeptBack(reason) => self.kept_back(world, &reason, &screen).await,
            Next::Becomes(stage) => self.becomes(world, stage),
            Next::Type => self.type_it(world, &screen).await,
            Next::End => self.end(world, &screen, None).await,
        }
    }

    /// Reads the pending prompt and its stage.
    async fn read(&mut self, world: &World) -> Result<Stage, SessionError> {
        let id = self.handle.id.clone();
        let facts = effects::sessions(world, &self.handle.id, move |provider| {
            let owed = provider.get_meta(&id, OWED)?;
            Ok((owed, provider.get_meta(&id, COURSE)?))
        });
        let (owed, course) = facts.await?;
        let stage = Stage::read(owed.as_deref(), course.as_deref());
        self.text = owed.unwrap_or_default();
        self.written = Some(stage.clone());
        self.becomes(world, stage.clone());
        Ok(stage)
    }

    /// Updates the stage of a pasted prompt by what was observed since.
    fn updated(&mut self, world: &World, stage: Stage) -> Stage {
        let Stage::Pasted(pasted) = stage else {
            return stage;
        };
        let conditions = &world.directory.conditions;
        let now = conditions.pasted(&self.handle).unwrap_or_else(|| {
            conditions.set_pasted(&self.handle, &pasted);
            pasted
        });
        let stage = Stage::Pasted(now);
        self.stage = Some(stage.clone());
        stage
    }

    /// Returns true when the session has ended. A lost connection does not prove that.
    async fn is_gone(&self, world: &World) -> bool {
        typing::may_type(world, &self.harness, &self.handle).await == Typing::Gone
    }

    /// Stores the stage with the session; returns false while that fails.
    async fn write(&mut self, world: &World) -> bool {
        let Some(stage) = self.stage.clone().filter(|_| self.stage != self.written) else {
            return true;
        };
        let (of, (key, text)) = (self.handle.clone(), stage.fact());
        let kept = effects::sessions(world, &self.handle.id, move |provider| {
            provider.set_meta(&of, key, &text)
        });
        match kept.await {
            // Nothing is typed into a session that is gone.
            Ok(()) | Err(SessionError::Gone(_)) => self.written = Some(stage),
            Err(error) => {
                if !std::mem::replace(&mut self.is_unwritten_told, true) {
                    let session = &self.handle.id;
                    tracing::warn!(
                        %session,
                        %error,
                        "the store does not accept how much of the first prompt was typed; \
                        no more of it is typed until it does"
                    );
                }
                return false;
            }
        }
        true
    }

    fn becomes(&mut self, world: &World, stage: Stage) -> Wait {
        match &stage {
            Stage::Pasted(pasted) => world.directory.conditions.set_pasted(&self.handle, pasted),
            Stage::End | Stage::Paid => self.delay.ends(),
            Stage::Untyped | Stage::Sent { .. } => {}
        }
        self.stage = Some(stage);
        Wait::None
    }

    /// Observes the session. Returns its state, and its screen as text.
    async fn observe(&mut self, world: &World, now: Mono) -> (Look, String) {
        let (typing, view) = typing::observe(world, &self.harness, &self.handle).await;
        let screen = view.as_ref().map(ScreenView::text).unwrap_or_default();
        let parked = (world.directory.accounts).held(&world.city, &self.harness, &self.child);
        let has_condition = world.directory.conditions.has(&self.handle);
        let takes = match &typing {
            Typing::Gone => return (Look::Gone, screen),
            Typing::Unseen(why) => return (Look::Unseen(why.clone()), screen),
            // Text that an attached person has begun would be submitted with the prompt.
            Typing::Asks(_) | Typing::Attended => Takes::Known,
            _ if parked.is_some() || has_condition => Takes::Known,
            Typing::Begun(_) => Takes::Begun,
            Typing::Unrecognised(_) => Takes::Unknown,
            Typing::Free => Takes::Text,
        };
        let Some(view) = view else {
            return (Look::Unseen(String::new()), screen);
        };
        let look = Screen {
            takes,
            reads_keys: view.reads() == Reads::Keys,
            is_blank: screen.trim().is_empty(),
            moves: self.moves(&view, now),
            is_full: view.is_full(),
            inputs: view.inputs,
        };
        (Look::Screen(look), screen)
    }

    /// Returns true while the screen is not quiet.
    fn moves(&mut self, view: &ScreenView, now: Mono) -> bool {
        if self.view.replace(view.clone()).as_ref() == Some(view) {
            self.moves = None;
            return false;
        }
        let since = *self.moves.get_or_insert(now);
        now.saturating_sub(since) < NEVER_QUIET
    }

    fn reads_keys(&self) -> bool {
        let view = self.view.as_ref();
        view.is_some_and(|view| view.reads() == Reads::Keys)
    }

    /// Types the prompt, with the end of input for a program that reads lines only.
    async fn type_it(&mut self, world: &World, screen: &str) -> Wait {
        let text = self.text.strip_suffix(END_OF_INPUT);
        let text = text.map_or(self.text.as_str(), str::trim_end);
        let text = match self.reads_keys() {
            true => text.to_owned(),
            false => in_short_lines(text),
        };
        let (harness, by) = (Some(&self.harness), By::Supervisor);
        let sent = typing::deliver(world, &self.child, harness, &self.handle, &text, by).await;
        match sent {
            Ok(()) => {
                self.becomes(world, Stage::after(&self.text));
                // It was observed just now, and its echo may look like a dialog.
                match self.stage == Some(Stage::End) && self.write(world).await {
                    true => self.end(world, screen, Some(&text)).await,
                    false => Wait::None,
                }
            }
            Err(Undelivered::Refused(why)) => self.refused(world, why, screen).await,
            Err(Undelivered::Unanswered { stands, anew, sent }) => {
                let pasted = stands.map(|stands| self.pasted(stands, anew));
                self.unanswered(world, sent, pasted, screen).await
            }
            Err(Undelivered::Pasted { stands, anew, why }) => {
                // Without a new paste the observations of the earlier one stay valid.
                if anew || !matches!(self.stage, Some(Stage::Pasted(_))) {
                    let pasted = self.pasted(stands, anew);
                    self.becomes(world, Stage::Pasted(pasted));
                    let _again = self.write(world).await;
                }
                self.refused(world, why, screen).await
            }
        }
    }

    /// Returns the prompt as it stands in the input line now.
    fn pasted(&self, stands: Unsubmitted, anew: bool) -> Pasted {
        let before = match &self.stage {
            Some(Stage::Pasted(pasted)) => pasted.times(),
            _ => 0,
        };
        Pasted::new(stands, before + u32::from(anew))
    }

    /// Handles an input that the holder did not confirm: the next observation shows whether it was taken. It is typed
    /// again at the next patrol at the earliest, because a stuck holder may go on.
    async fn unanswered(
        &mut self,
        world: &World,
        sent: Unanswered,
        pasted: Option<Pasted>,
        screen: &str,
    ) -> Wait {
        let before = sent.before;
        let wait = self.becomes(world, Stage::Sent { before, pasted });
        let _again = self.write(world).await;
        if sent.fate == Fate::Untouched {
            let _not_so_soon = self.refused(world, sent.why, screen).await;
            return Wait::Patrol;
        }
        wait
    }

    async fn refused(&mut self, world: &World, why: Refusal, screen: &str) -> Wait {
        let reason = match why.kind {
            // Only this connection failed. The next observation shows whether the session has ended.
            RefusalKind::NotFound => Reason::Unseen(why.to_string()),
            _ if why.is_later() => {
                // The screen, which may change, follows below the first line.
                let text = why.message.lines().next().unwrap_or_default();
                Reason::Refused(text.to_owned(), why.hint.unwrap_or_default())
            }
            // A line that is too long for the terminal, or a terminal that takes nothing.
            _ => Reason::Untaken(why.to_string()),
        };
        self.kept_back(world, &reason, screen).await
    }

    /// Sends the end of input to a program that reads lines, after this text if it was typed just now.
    async fn end(&mut self, world: &World, screen: &str, typed: Option<&str>) -> Wait {
        match typing::end_input(world, &self.harness, &self.handle, typed).await {
            Ok(()) => self.becomes(world, Stage::Paid),
            Err(why) if why.is_later() || why.kind == RefusalKind::NotFound => {
                self.refused(world, why, screen).await
            }
            Err(error) => {
                let reason = Reason::EndUntaken(error.to_string());
                self.kept_back(world, &reason, screen).await
            }
        }
    }

    /// Waits while the prompt may not be typed and no condition explains why. The program may still be starting, or the
    /// person may submit their line; a person is called when it lasts.
    async fn kept_back(&mut self, world: &World, reason: &Reason, screen: &str) -> Wait {
        let asks = reason.is_for_a_person() && self.delay.has_called_for(reason);
        if asks && self.is_answered(world).await {
            return self.becomes(world, Stage::Paid);
        }
        let now = world.clock.mono();
        let tell = self.delay.goes_on(reason, now);
        if tell == Tell::Nothing {
            return match reason.is_slow() {
                true => Wait::Patrol,
                false => Wait::For(QUIET),
            };
        }
        let condition = Condition::Unrecognised {
            text: format!("its first prompt waits: {}", reason.text()),
            screen: screen.to_owned(),
        };
        conditions::set_untyped(world, &self.handle, Some(condition));
        if tell == Tell::Call {
            self.call(world, reason, screen).await;
        }
        Wait::Patrol
    }

    /// Returns true when a person has answered the escalation about it.
    async fn is_answered(&mut self, world: &World) -> bool {
        let child = self.child.to_string();
        let standing = world
            .store
            .run(move |txn| escalations::standing(txn, ProblemKind::PromptUntyped, &child));
        match standing.await {
            Ok(Some(standing)) => {
                self.is_call_open = true;
                standing.acked
            }
            // An escalation that was never open was not closed.
            Ok(None) => self.is_call_open,
            Err(_) => false,
        }
    }

    async fn call(&mut self, world: &World, reason: &Reason, screen: &str) {
        // A new reason is reported only after the escalation for the last one is closed: an answer to that is none to
        // this.
        if self.delay.has_called() || reason.is_for_a_person() {
            self.close_call(world).await;
            self.is_call_open = false;
        }
        let name = self.child.to_string();
        let mut evidence = format!("{}. {}", reason.text(), reason.advice(&name));
        if !screen.is_empty() {
            evidence.push_str(&format!(" The screen of {name}:\n{screen}"));
        }
        let body =
            Escalation::high(name, ProblemKind::PromptUntyped, evidence).on(self.relic.clone());
        match escalations::call(world, "root", Ends::WithSandbox, body).await {
            Ok(()) => self.delay.called(reason),
            Err(error) => {
                tracing::warn!(
                    child = %self.child,
                    %error,
                    "the escalation about a first prompt could not be stored; it is retried"
                );
            }
        }
    }

    /// Ends the task: nothing is pending, or the session has ended. Closes the escalation.
    async fn finish(&mut self, world: &World) -> Wait {
        conditions::set_untyped(world, &self.handle, None);
        // The escalation belongs to the next session by now, if there is one.
        if !world.directory.conditions.is_followed(&self.handle) {
            self.close_call(world).await;
        }
        Wait::Over
    }

    /// Closes the escalation about this child's first prompt. An earlier supervisor may have opened it.
    async fn close_call(&self, world: &World) {
        let who = self.child.to_string();
        let untyped = [ProblemKind::PromptUntyped];
        let over = world
            .store
            .run(move |txn| escalations::close_matching(txn, &untyped, |of, _| of == who));
        or_warn!(over.await, child = %self.child,
            "the escalation about a first prompt could not be closed; it may stay open");
    }
}

#[cfg(test)]
mod tests;
