//! The end of a child's session or actor, and what follows it: a restart, a back-off, a quarantine, a rest, or nothing.

use std::time::Duration;

use jiff::Timestamp;

use super::super::cause::Cause;
use super::super::city::RestartType;
use super::super::event::EventType;
use super::super::facts::SessionExit;
use super::super::handoff::{Pace, Progress};
use super::super::ids::ChildId;
use super::super::quarantine_report::{self, QuarantineReport};
use super::super::restart::{Answer, Mono};
use super::exit::{ChildExit, EndRefused, is_crash, is_good, rests};
use super::step::Step;
use super::{
    Action, ChildPhase, Death, Due, Leave, MOST_PARKS, PUT_OFF, Rest, SOON, Successor, Token, Turn,
};

impl Step<'_> {
    /// Answers the end of its actor.
    pub(super) fn exited(&mut self, phase: ChildPhase, exit: Option<ChildExit>) -> ChildPhase {
        let (by, up_at) = match phase {
            ChildPhase::Starting { .. } => (None, None),
            ChildPhase::Running { up_at } => (None, Some(up_at)),
            ChildPhase::Replacing { by, up_at, .. } => (Some(by), up_at),
            ChildPhase::Leaving { to, .. } => {
                self.memory.unseen = None;
                return self.left(to, exit);
            }
            // This is the end of an earlier actor.
            absent => return absent,
        };
        self.memory.unseen = None;
        // A start that is put off does not count the death of the session before it: the next start does. So it does for a session
        // whose end could not be judged, if none was to replace it.
        let is_lone = by.is_none() && up_at.is_some();
        let is_unjudged = is_lone && matches!(exit, Some(ChildExit::Unseen(_)));
        self.memory.unattended |= is_unjudged;
        self.memory.unattended &= exit.as_ref().is_some_and(ChildExit::is_put_off);
        let is_draining = self.memory.drain.is_some();
        match by {
            Some(Successor::Group) => self.ended_for_group(up_at, exit),
            // A draining member ended by itself: it gets no fresh session.
            Some(Successor::Fresh { .. }) | None if is_draining => {
                self.left(Leave::Gone(Cause::Drained), exit)
            }
            Some(Successor::Fresh {
                cause,
                tail,
                progress,
            }) => match exit {
                Some(exit) if exit.is_put_off() => self.put_off(&exit),
                exit => self.cycled(up_at, exit, cause, (tail, progress)),
            },
            None => self.fell(up_at, exit),
        }
    }

    /// Answers the end of a session after which none is to follow.
    fn left(&mut self, to: Leave, exit: Option<ChildExit>) -> ChildPhase {
        match exit {
            Some(ChildExit::NotEnded(why)) => {
                let id = self.facts.id.clone();
                self.not_ended(to, EndRefused::NotEnded { id, why })
            }
            // The actor ended without having seen its session end, so the session may still run.
            Some(
                ChildExit::Unseen(_)
                | ChildExit::Unwritable(_)
                | ChildExit::StartFailed(_)
                | ChildExit::NoSandbox(_)
                | ChildExit::Broken(_),
            ) => self.leave(to),
            Some(ChildExit::Died { .. } | ChildExit::Finished | ChildExit::Ended(_)) | None => {
                self.has_left(to)
            }
        }
    }

    pub(super) fn swept(
        &mut self,
        phase: ChildPhase,
        token: Token,
        result: Result<(), EndRefused>,
    ) -> ChildPhase {
        match phase {
            ChildPhase::Leaving { to, sweep } if sweep == token => match result {
                Ok(()) => self.has_left(to),
                Err(refused) => self.not_ended(to, refused),
            },
            // A sweep of an earlier end.
            late => late,
        }
    }

    /// The journal comes first: a caller that is answered finds the end in it.
    fn has_left(&mut self, to: Leave) -> ChildPhase {
        let (kind, cause) = match to {
            Leave::Rest(cause @ Cause::Suspended) => (EventType::AgentSuspended, cause),
            Leave::Gone(cause @ Cause::Drained) => (EventType::AgentDrained, cause),
            Leave::Rest(cause) | Leave::Gone(cause) => (EventType::AgentStopped, cause),
        };
        self.memory.unattended = false;
        self.push(Action::JournalEnd(kind, cause));
        self.push(Action::AnswerEnd(Ok(())));
        match to {
            Leave::Rest(_) => {
                self.no_session("it was suspended or stopped");
                self.push(Action::Look);
                ChildPhase::Resting(Rest::Order(cause))
            }
            Leave::Gone(_) => {
                self.no_session("it was ended");
                self.push(Action::Leave);
                if matches!(cause, Cause::Removed | Cause::Drained) {
                    self.push(Action::Look);
                }
                ChildPhase::Gone
            }
        }
    }

    /// Refuses to the waiting callers: the session would not end, or is not the one that was meant. A child that should
    /// be gone is forgotten all the same: the next look finds what still runs and whether it is wanted.
    fn not_ended(&mut self, to: Leave, refused: EndRefused) -> ChildPhase {
        self.no_session(&refused.to_string());
        self.push(Action::AnswerEnd(Err(refused)));
        match to {
            Leave::Rest(cause) => ChildPhase::Resting(Rest::Order(cause)),
            Leave::Gone(_) => ChildPhase::Gone,
        }
    }

    /// Answers the end of a session that was ended for the restart of its group.
    fn ended_for_group(&mut self, up_at: Option<Mono>, exit: Option<ChildExit>) -> ChildPhase {
        if let Some(ChildExit::NotEnded(_) | ChildExit::Broken(_)) = exit {
            return self.died(up_at, exit, Cause::Group, None);
        }
        self.push(Action::JournalEnd(EventType::AgentStopped, Cause::Group));
        match self.facts.turn {
            Turn::Culprit | Turn::Member => {
                self.push(Action::AdvanceGroup);
                ChildPhase::Backoff {
                    until: None,
                    due: Due::Group,
                }
            }
            // The group was changed meanwhile.
            Turn::None => self.start(),
        }
    }

    /// Answers the end of a session that was replaced as planned.
    fn cycled(
        &mut self,
        up_at: Option<Mono>,
        exit: Option<ChildExit>,
        cause: Cause,
        (tail, progress): (Option<String>, Progress),
    ) -> ChildPhase {
        let not_ended = matches!(exit, Some(ChildExit::NotEnded(_)));
        if cause == Cause::Handoff && !not_ended {
            return self.handed_off(up_at, progress);
        }
        // Replacing a shell whose agent died is the response to a death, so it counts as one.
        let is_death = not_ended || cause == Cause::AgentDead;
        if is_death || self.memory.brake.on_cycle(self.facts.mono) {
            return self.died(up_at, exit, cause, tail);
        }
        self.memory.cause = cause;
        self.push(Action::Journal(EventType::AgentRestarted, cause));
        self.start()
    }

    /// Starts the successor of a session that handed off, at once or after a wait.
    fn handed_off(&mut self, up_at: Option<Mono>, progress: Progress) -> ChildPhase {
        let mono = self.facts.mono;
        let lived = up_at.map_or_else(Default::default, |up| mono.saturating_sub(up));
        let memory = &mut *self.memory;
        let crowded = memory.brake.on_cycle(mono);
        let pace = (memory.handoffs).on_handoff(mono, lived, progress, crowded);
        memory.cause = Cause::Handoff;
        self.push(Action::HandedOff(pace, self.facts.now));
        match pace {
            Pace::Free { .. } => self.start(),
            Pace::Braked { wait, .. } => self.back_off(wait),
        }
    }

    /// Returns the next phase after an end that the supervisor did not order.
    fn fell(&mut self, up_at: Option<Mono>, exit: Option<ChildExit>) -> ChildPhase {
        match exit {
            // The caller unwinds.
            Some(exit) if exit.is_failed_start() && self.facts.is_awaited => {
                self.no_session(exit.error().unwrap_or_default());
                ChildPhase::Gone
            }
            Some(exit) if exit.is_put_off() => self.put_off(&exit),
            Some(ChildExit::Finished) => {
                // Callers that wait for it get success and need not unwind.
                self.push(Action::AnswerUp(Ok(())));
                self.push(Action::AnswerWake(Ok(())));
                self.push(Action::Finished);
                ChildPhase::Finished
            }
            exit => {
                self.answer_operators(exit.as_ref());
                self.died(up_at, exit, Cause::Internal, None)
            }
        }
    }

    /// Tells the operators that asked for the session why there is none. A child that rested before rests again, unless
    /// every caller has stopped waiting: then the start goes on.
    fn answer_operators(&mut self, exit: Option<&ChildExit>) {
        let failed = exit.is_some_and(ChildExit::is_failed_start);
        self.memory
            .tried
            .take_if(|_| !self.facts.operator_waits || !failed);
        if let Some(exit) = exit {
            self.push(Action::AnswerWake(Err(exit.to_string())));
        }
    }

    /// Retries a start later when the session's state is unknown, the store cannot be written, or the sandbox is missing
    /// and may be repaired. Not a death, and no reason to start a second session; retried without limit.
    fn put_off(&mut self, exit: &ChildExit) -> ChildPhase {
        let why = exit.to_string();
        let wait = match exit {
            ChildExit::NoSandbox(_) => {
                if !std::mem::replace(&mut self.memory.no_sandbox, true) {
                    self.push(Action::NoSandbox(why));
                }
                self.facts.patrol
            }
            ChildExit::Unseen(_)
            | ChildExit::Unwritable(_)
            | ChildExit::Died { .. }
            | ChildExit::StartFailed(_)
            | ChildExit::Finished
            | ChildExit::Ended(_)
            | ChildExit::NotEnded(_)
            | ChildExit::Broken(_) => {
                self.push(Action::PutOff(why.clone()));
                self.memory.unseen = Some(why);
                PUT_OFF
            }
        };
        self.answer_operators(Some(exit));
        match self.memory.tried.take() {
            Some(rest) => ChildPhase::Resting(rest),
            None => self.back_off(wait),
        }
    }

    /// Answers a death: notes the crash, then restarts the child, quarantines it or leaves it at rest. `planned` is the
    /// cause of an end that the session did not bring about itself.
    fn died(
        &mut self,
        up_at: Option<Mono>,
        exit: Option<ChildExit>,
        planned: Cause,
        tail: Option<String>,
    ) -> ChildPhase {
        let restart = self.facts.restart;
        let (cause, how) = ChildExit::judge(exit.as_ref(), planned);
        let by_person = cause == Cause::EndedByPerson;
        let over = rests(restart, how.as_ref()).then_some(Rest::Over);
        let rest = self.memory.tried.take().or(over);
        let good = how.as_ref();
        let good = good.filter(|how| restart != RestartType::Permanent && is_good(how));
        let cause = match good {
            Some(SessionExit { code: Some(_), .. }) if !by_person => Cause::Completed,
            Some(_) if !by_person => Cause::Signal,
            Some(_) | None => cause,
        };
        let is_good = good.is_some();
        self.memory.cause = cause;
        let death = Box::new(Death {
            exit,
            tail,
            how,
            cause,
            by_person,
            is_good,
            rests: rest.is_some(),
            quarantine: None,
        });
        match rest {
            Some(rest) => {
                self.push(Action::Died(death));
                ChildPhase::Resting(rest)
            }
            None => self.answer_death(up_at, death),
        }
    }

    /// Answers a death after which the child does not rest.
    fn answer_death(&mut self, up_at: Option<Mono>, mut death: Box<Death>) -> ChildPhase {
        let (mono, policy) = (self.facts.mono, self.facts.policy);
        let memory = &mut *self.memory;
        memory.crashed |= is_crash(death.cause);
        let healthy = up_at.map(|up_at| mono.saturating_sub(up_at));
        if let (Some(healthy), Some(stable)) = (healthy, policy.stable_after)
            && healthy >= stable
        {
            memory.deaths.clear();
        }
        if death.by_person {
            // No death: an attached person may end the session as often as they like. It restarts at once.
            self.push(Action::Died(death));
            return self.restart(Duration::ZERO);
        }
        let is_raider = matches!(self.facts.id, ChildId::Raider(_));
        let tried = std::mem::take(&mut memory.on_trial) && is_raider;
        let relapsed = tried && healthy.is_none_or(|healthy| healthy < policy.window);
        let answer = match relapsed {
            true => memory.deaths.on_relapse(policy, mono),
            false => memory.deaths.on_death(policy, mono, self.facts.random),
        };
        match answer {
            Answer::Restart { after } => {
                self.push(Action::Died(death));
                self.restart(after)
            }
            Answer::Quarantine { until } => {
                let wait = until.saturating_sub(mono);
                let (last, output) = end_and_output(&death);
                let count = memory.deaths.count(policy, mono);
                let within = (!relapsed).then(|| memory.deaths.span(policy, mono));
                let until = self.facts.now.checked_add(wait).unwrap_or(Timestamp::MAX);
                let deaths = QuarantineReport::new(count, within, Some(last), output, until);
                memory.died_of = Some(deaths.died_of());
                death.quarantine = Some(deaths);
                self.push(Action::Died(death));
                let due = self.wait(wait);
                ChildPhase::Quarantined { due }
            }
        }
    }

    /// Restarts after this delay, with its group if its death concerns that.
    fn restart(&mut self, after: Duration) -> ChildPhase {
        if after.is_zero() && !self.facts.concerns_others {
            return self.start();
        }
        ChildPhase::Backoff {
            until: self.facts.now.checked_add(after).ok(),
            due: self.wait(after),
        }
    }

    /// Answers an end of its account's limit or login: it rests until the account is open again, and no death is
    /// counted.
    pub(super) fn out_of_account(
        &mut self,
        phase: ChildPhase,
        cause: Cause,
        text: String,
    ) -> ChildPhase {
        let up_at = match phase {
            ChildPhase::Starting { .. } => None,
            ChildPhase::Running { up_at } => Some(up_at),
            phase => return phase,
        };
        let mono = self.facts.mono;
        let soon = up_at.is_none_or(|up| mono.saturating_sub(up) < SOON);
        let memory = &mut *self.memory;
        let before = memory.parks;
        memory.parks = if soon { before + 1 } else { 0 };
        let parks = memory.parks;
        memory.cause = cause;
        (memory.unattended, memory.tried, memory.unseen) = (false, None, None);
        self.push(Action::AnswerUp(Ok(())));
        self.no_session("its account is parked");
        if parks == MOST_PARKS {
            self.push(Action::CallAboutParks(text));
        } else if parks == 0 && before >= MOST_PARKS {
            self.push(Action::SettleParks);
        }
        ChildPhase::Resting(Rest::Order(cause))
    }

    /// Answers the end of its actor during the supervisor's stop: the session ended, or was left running on purpose.
    pub(super) fn shut_down(
        &mut self,
        phase: ChildPhase,
        was_up: bool,
        is_kept: bool,
    ) -> ChildPhase {
        self.memory.unseen = None;
        if was_up && !is_kept {
            self.push(Action::JournalEnd(EventType::AgentStopped, Cause::Shutdown));
        }
        self.push(Action::AnswerEnd(match is_kept {
            true => Err(EndRefused::NotEnded {
                id: self.facts.id.clone(),
                why: "the supervisor is stopping and keeps its sessions".into(),
            }),
            false => Ok(()),
        }));
        match phase {
            ChildPhase::Leaving {
                to: Leave::Rest(cause),
                ..
            } => ChildPhase::Resting(Rest::Order(cause)),
            ChildPhase::Resting(_) | ChildPhase::Gone => phase,
            ChildPhase::Leaving {
                to: Leave::Gone(_), ..
            }
            | ChildPhase::Blocked
            | ChildPhase::Starting { .. }
            | ChildPhase::Running { .. }
            | ChildPhase::Replacing { .. }
            | ChildPhase::Backoff { .. }
            | ChildPhase::Quarantined { .. }
            | ChildPhase::Finished => ChildPhase::Resting(Rest::Over),
        }
    }
}

/// Returns the end and the last output of a session, as the quarantine's escalation reports them. A session that failed
/// to start has no output: the error is reported.
fn end_and_output(death: &Death) -> (String, String) {
    let tail = match &death.exit {
        Some(ChildExit::Died { tail, .. }) => Some(tail),
        _ => None,
    };
    match death.exit.as_ref().and_then(ChildExit::error) {
        Some(error) => ("a failed start".to_owned(), error.to_owned()),
        None => (
            quarantine_report::how(death.how.as_ref()),
            (death.tail.as_ref().or(tail)).cloned().unwrap_or_default(),
        ),
    }
}
