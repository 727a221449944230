//! A step of a child: orders, starts and timers. Ends are in `ended.rs`.

use std::time::Duration;

use super::super::cause::Cause;
use super::super::city::RestartType;
use super::super::event::EventType;
use super::super::restart::Mono;
use super::{
    Action, Child, ChildExit, ChildPhase, ChildState, Due, Event, Facts, Leave, Memory, Presence,
    Rest, Successor, Token, Turn,
};

/// A step under way.
pub(super) struct Step<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) facts: &'a Facts<'a>,
    pub(super) actions: Vec<Action>,
}

impl Child {
    /// Takes a step, and returns the actions that follow from it, in order.
    #[must_use = "the actions are to be carried out"]
    pub fn step(&mut self, event: Event, facts: &Facts<'_>) -> Vec<Action> {
        let phase = std::mem::replace(&mut self.phase, ChildPhase::Gone);
        if phase == ChildPhase::Gone {
            return Vec::new();
        }
        let before = phase.state();
        let was_put_off = self.memory.unseen.is_some();
        let mut step = Step {
            memory: &mut self.memory,
            facts,
            actions: Vec::new(),
        };
        self.phase = step.after(phase, event);
        let actions = step.actions;
        if !matches!(
            self.phase.state(),
            ChildState::Backoff | ChildState::Starting
        ) {
            self.memory.unseen = None;
        }
        let begins = |action: &Action| matches!(action, Action::Spawn { .. });
        // A start that stays put off is no change, however often it is tried.
        let stays_put_off = was_put_off && self.memory.unseen.is_some();
        let changes = self.phase.state() != before || actions.iter().any(begins);
        if changes && !stays_put_off {
            self.since = facts.now;
        }
        actions
    }
}

impl Step<'_> {
    /// Returns the phase that follows.
    fn after(&mut self, phase: ChildPhase, event: Event) -> ChildPhase {
        match event {
            Event::Wanted(cause) => self.wanted(phase, cause),
            Event::Woken(cause) => self.woken(phase, cause),
            Event::Resumed => self.resumed(phase),
            Event::Respecified => self.respecified(phase),
            Event::Ready => match phase {
                ChildPhase::Blocked => self.start(),
                phase => phase,
            },
            Event::Due(token) => self.due(phase, token),
            Event::Unspawned(token, why) => {
                let is_own = phase.token() == Some(token);
                match is_own && phase.presence() == Presence::Coming {
                    true => self.exited(phase, Some(ChildExit::Broken(why))),
                    false => phase,
                }
            }
            Event::Up(at) => self.up(phase, at),
            Event::Exited(exit) => self.exited(phase, exit),
            Event::OutOfAccount { cause, text } => self.out_of_account(phase, cause, text),
            Event::ShutDown { was_up, is_kept } => self.shut_down(phase, was_up, is_kept),
            Event::Swept(token, result) => self.swept(phase, token, result),
            Event::End(cause) => self.leave(Leave::Gone(cause)),
            Event::Remove(cause) => self.remove(phase, cause),
            Event::Rest(cause) => self.rest(phase, cause),
            Event::Cycle {
                cause,
                tail,
                progress,
            } => {
                let fresh = Successor::Fresh {
                    cause,
                    tail,
                    progress,
                };
                self.cycle(phase, fresh, cause)
            }
            Event::Drain => self.drain(phase),
            Event::KeepOn => {
                if self.memory.drain.take().is_some() {
                    self.push(Action::KeepOn);
                }
                phase
            }
            Event::DrainDue(due) => {
                let is_due = |drain: Token| due.is_none_or(|due| due == drain);
                match self.memory.drain.is_some_and(is_due) {
                    true => self.remove(phase, Cause::Drained),
                    false => phase,
                }
            }
            Event::AwaitTurn => self.await_turn(phase),
            Event::Turn => self.turn(phase),
            Event::Alone => self.alone(phase),
        }
    }

    pub(super) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Tells the callers that wait for the session that there will be none.
    pub(super) fn no_session(&mut self, why: &str) {
        self.push(Action::AnswerUp(Err(why.to_owned())));
        self.push(Action::AnswerWake(Err(why.to_owned())));
    }

    /// Starts the session of a child that has none, unless its account is parked or it depends on others.
    pub(super) fn start(&mut self) -> ChildPhase {
        let cause = self.memory.cause;
        // A running session is adopted, and an operator may try.
        let may_try = matches!(cause, Cause::Adopted | Cause::Operator);
        if let Some(parked) = self.facts.parked.filter(|_| !may_try) {
            // It starts automatically later, as a suspended child does when it is resumed.
            self.push(Action::AnswerUp(Ok(())));
            self.no_session("its account is parked");
            return ChildPhase::Resting(Rest::Order(parked));
        }
        if !self.facts.may_start && cause != Cause::Adopted {
            self.push(Action::AnswerWake(Ok(())));
            return ChildPhase::Blocked;
        }
        let token = self.facts.token;
        self.push(Action::Spawn {
            token,
            unattended: self.memory.unattended,
            crashed: self.memory.crashed,
        });
        ChildPhase::Starting { token }
    }

    /// Starts a child whose wait is over. A member that its group waits for starts in its turn.
    fn start_now(&mut self, phase: &ChildPhase) -> ChildPhase {
        if phase.state() == ChildState::Quarantined {
            let cause = self.memory.cause;
            self.push(Action::Journal(EventType::AgentUnquarantined, cause));
        }
        match self.facts.turn {
            Turn::Culprit => {
                self.push(Action::EndGroupDelay);
                ChildPhase::Backoff {
                    until: None,
                    due: Due::Group,
                }
            }
            Turn::None | Turn::Member => self.start(),
        }
    }

    /// Backs off for this time.
    pub(super) fn back_off(&mut self, wait: Duration) -> ChildPhase {
        let token = self.facts.token;
        self.push(Action::Arm { token, after: wait });
        ChildPhase::Backoff {
            until: self.facts.now.checked_add(wait).ok(),
            due: Due::Timer(token),
        }
    }

    /// Arms the timer of a wait that follows a death; where that restarts the group, the group has the timer.
    pub(super) fn wait(&mut self, wait: Duration) -> Due {
        if self.facts.concerns_others {
            self.push(Action::RestartGroup(wait));
            return Due::Group;
        }
        let token = self.facts.token;
        self.push(Action::Arm { token, after: wait });
        Due::Timer(token)
    }

    fn wanted(&mut self, phase: ChildPhase, cause: Cause) -> ChildPhase {
        match phase.presence() {
            Presence::Leaving => return phase,
            Presence::Coming => {
                self.memory.cause = cause;
                return phase;
            }
            Presence::Up => {
                self.memory.cause = cause;
                self.push(Action::AnswerUp(Ok(())));
                return phase;
            }
            Presence::Waiting | Presence::Resting => self.memory.cause = cause,
        }
        let held = self.memory.deaths.quarantined_until(self.facts.mono);
        let is_new = phase == ChildPhase::Resting(Rest::Over);
        if is_new && self.memory.on_trial && cause == Cause::Recovered && held.is_none() {
            // Its quarantine ended while no supervisor ran: this start is the promised trial.
            self.memory.cause = Cause::WindowPassed;
            let event = Action::Journal(EventType::AgentUnquarantined, Cause::WindowPassed);
            self.push(event);
        }
        if self.facts.is_suspended && cause != Cause::Adopted {
            // It rests until it is resumed, and then starts from this spec.
            self.push(Action::AnswerUp(Ok(())));
            return ChildPhase::Resting(Rest::Order(Cause::Suspended));
        }
        match held.filter(|_| is_new && cause != Cause::Adopted) {
            Some(until) => {
                self.no_session("it died too often, and is in quarantine");
                let due = self.wait(until.saturating_sub(self.facts.mono));
                ChildPhase::Quarantined { due }
            }
            None => self.start(),
        }
    }

    fn woken(&mut self, phase: ChildPhase, cause: Cause) -> ChildPhase {
        match phase.presence() {
            Presence::Leaving | Presence::Coming => return phase,
            Presence::Up => {
                self.push(Action::AnswerWake(Ok(())));
                return phase;
            }
            Presence::Waiting | Presence::Resting => {}
        }
        let memory = &mut *self.memory;
        memory.tried = match phase {
            ChildPhase::Resting(rest) => Some(rest),
            _ => None,
        };
        memory.deaths.clear();
        (memory.unattended, memory.on_trial, memory.crashed) = (false, false, false);
        memory.cause = cause;
        self.push(Action::Unblock);
        self.start_now(&phase)
    }

    fn resumed(&mut self, phase: ChildPhase) -> ChildPhase {
        let ChildPhase::Resting(rest) = phase else {
            return phase;
        };
        let Some(cause) = rest.until() else {
            return phase;
        };
        self.memory.cause = cause;
        self.push(Action::Journal(EventType::AgentResumed, cause));
        self.start()
    }

    /// Releases a child whose spec changed from quarantine (`rules.md`, restart).
    fn respecified(&mut self, phase: ChildPhase) -> ChildPhase {
        self.memory.deaths.clear();
        self.memory.unattended = false;
        let waits = match &phase {
            ChildPhase::Backoff { .. } | ChildPhase::Quarantined { .. } => true,
            // It came to rest by its earlier restart type.
            ChildPhase::Resting(Rest::Over) => self.facts.restart == RestartType::Permanent,
            ChildPhase::Resting(Rest::Order(_))
            | ChildPhase::Blocked
            | ChildPhase::Starting { .. }
            | ChildPhase::Running { .. }
            | ChildPhase::Replacing { .. }
            | ChildPhase::Leaving { .. }
            | ChildPhase::Finished
            | ChildPhase::Gone => false,
        };
        if !waits || self.facts.turn == Turn::Member {
            return phase;
        }
        self.memory.cause = Cause::Config;
        self.start_now(&phase)
    }

    fn due(&mut self, phase: ChildPhase, token: Token) -> ChildPhase {
        match phase {
            ChildPhase::Backoff {
                due: Due::Timer(own),
                ..
            } if own == token => self.start(),
            ChildPhase::Quarantined {
                due: Due::Timer(own),
            } if own == token => {
                self.memory.cause = Cause::WindowPassed;
                self.memory.on_trial = true;
                let event = Action::Journal(EventType::AgentUnquarantined, Cause::WindowPassed);
                self.push(event);
                self.start()
            }
            // A timer of an earlier wait.
            late => late,
        }
    }

    fn up(&mut self, phase: ChildPhase, at: Mono) -> ChildPhase {
        let phase = match phase {
            ChildPhase::Starting { .. } | ChildPhase::Running { .. } => {
                ChildPhase::Running { up_at: at }
            }
            ChildPhase::Replacing { by, .. } => ChildPhase::Replacing {
                by,
                up_at: Some(at),
                start: None,
            },
            ChildPhase::Leaving { .. } => phase,
            absent => return absent,
        };
        let memory = &mut *self.memory;
        (memory.unattended, memory.crashed, memory.no_sandbox) = (false, false, false);
        (memory.tried, memory.unseen) = (None, None);
        self.push(Action::AnswerUp(Ok(())));
        self.push(Action::AnswerWake(Ok(())));
        phase
    }

    /// Ends a session that may run in any phase; none follows.
    pub(super) fn leave(&mut self, to: Leave) -> ChildPhase {
        self.memory.tried = None;
        let sweep = self.facts.token;
        self.push(Action::EndSession(sweep));
        ChildPhase::Leaving { to, sweep }
    }

    pub(super) fn remove(&mut self, phase: ChildPhase, cause: Cause) -> ChildPhase {
        match phase {
            ChildPhase::Leaving {
                to: Leave::Gone(_), ..
            } => phase,
            ChildPhase::Leaving {
                to: Leave::Rest(_), ..
            }
            | ChildPhase::Blocked
            | ChildPhase::Starting { .. }
            | ChildPhase::Running { .. }
            | ChildPhase::Replacing { .. }
            | ChildPhase::Backoff { .. }
            | ChildPhase::Quarantined { .. }
            | ChildPhase::Finished
            | ChildPhase::Resting(_)
            | ChildPhase::Gone => self.leave(Leave::Gone(cause)),
        }
    }

    /// Lays it to rest. An order of an operator replaces an earlier one; a suspension does not.
    fn rest(&mut self, phase: ChildPhase, cause: Cause) -> ChildPhase {
        match phase {
            ChildPhase::Leaving {
                to: Leave::Gone(_), ..
            } => phase,
            ChildPhase::Leaving {
                to: Leave::Rest(_), ..
            }
            | ChildPhase::Resting(Rest::Order(_))
                if cause != Cause::Operator =>
            {
                phase
            }
            ChildPhase::Leaving {
                to: Leave::Rest(_), ..
            }
            | ChildPhase::Blocked
            | ChildPhase::Starting { .. }
            | ChildPhase::Running { .. }
            | ChildPhase::Replacing { .. }
            | ChildPhase::Backoff { .. }
            | ChildPhase::Quarantined { .. }
            | ChildPhase::Finished
            | ChildPhase::Resting(_)
            | ChildPhase::Gone => {
                self.memory.drain = None;
                self.leave(Leave::Rest(cause))
            }
        }
    }

    fn cycle(&mut self, phase: ChildPhase, by: Successor, cause: Cause) -> ChildPhase {
        if !matches!(
            phase,
            ChildPhase::Starting { .. } | ChildPhase::Running { .. }
        ) {
            return phase;
        }
        self.push(Action::EndActor);
        if let Some(kind) = event_of_cycle(cause) {
            self.push(Action::Journal(kind, cause));
        }
        phase.replaced(by)
    }
}

/// Returns the event that tells why a session is replaced, beside the end of the session; none where that end tells all.
#[rustfmt::skip]
fn event_of_cycle(cause: Cause) -> Option<EventType> {
    use Cause as C;
    match cause {
        C::Idle => Some(EventType::AgentIdleKilled),
        C::Drift => Some(EventType::AgentDrifted),
        C::Operator | C::Agent | C::Automation | C::Config | C::Charged | C::Recovered | C::Adopted
        | C::SessionDied | C::SessionLost | C::EndedByPerson | C::StartFailed | C::TooManyDeaths
        | C::WindowPassed | C::Done | C::Handoff | C::HandoffLoop | C::DoneCleanPushed | C::Approved
        | C::ReviewHold | C::Merged | C::Superseded | C::MergeFailed | C::Salvaged | C::WorkAtRisk
        | C::ChargeFailed | C::Shutdown | C::Resumed | C::OutcomeFile | C::ReportMismatch | C::DoneTimeout
        | C::KeptLongEnough | C::RelicClosed | C::HookLost | C::AgentDead | C::Stuck | C::Stalled | C::Question
        | C::UnknownScreen | C::LineLeft | C::RateLimit | C::Login | C::SessionAge | C::Progress | C::Wait
        | C::Deferred | C::ReworkExhausted | C::Removed | C::Remote | C::Internal | C::Forbidden | C::Patrol
        | C::Repair | C::Suspended | C::Unsuspended | C::Drained | C::Group | C::Cooldown | C::Cron
        | C::Condition | C::Event | C::Completed | C::ExitCode | C::Signal | C::Timeout | C::Crash
        | C::StillRunning | C::QueueFull | C::EndlessChain | C::Missed | C::Expired | C::Unanswered
        | C::Vanished => None,
    }
}
