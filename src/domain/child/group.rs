//! A child among others: the restart of its group, and the drain of its pool.

use super::super::cause::Cause;
use super::super::city::RestartType;
use super::super::event::EventType;
use super::step::Step;
use super::{Action, Due, Leave, Phase, Presence, Rest, Successor};

impl Step<'_> {
    /// Drains a member of a pool. A member that is being started is told when it is up.
    pub(super) fn drain(&mut self, phase: Phase) -> Phase {
        let rests = matches!(phase, Phase::Resting(Rest::Order(_)));
        if self.memory.drain.is_some() || rests {
            return phase;
        }
        match phase.presence() {
            Presence::Leaving => phase,
            Presence::Coming | Presence::Up => {
                let token = self.token();
                self.memory.drain = Some(token);
                self.push(Action::ArmDrain(token));
                phase
            }
            // It died since the look: there is nothing to finish.
            Presence::Absent => {
                self.memory.drain = Some(self.token());
                self.leave(Leave::Gone(Cause::Drained))
            }
        }
    }

    pub(super) fn await_turn(&mut self, phase: Phase) -> Phase {
        let by = Successor::Group;
        let phase = match phase {
            Phase::Starting { token } => Phase::Replacing {
                by,
                up_at: None,
                start: Some(token),
            },
            Phase::Running { up_at } => Phase::Replacing {
                by,
                up_at: Some(up_at),
                start: None,
            },
            Phase::Replacing {
                by: Successor::Fresh { .. },
                up_at,
                start,
            } => Phase::Replacing { by, up_at, start },
            Phase::New | Phase::Blocked | Phase::Backoff { .. } | Phase::Finished => {
                return Phase::Backoff {
                    until: None,
                    due: Due::Group,
                };
            }
            Phase::Quarantined { .. } => return Phase::Quarantined { due: Due::Group },
            Phase::Replacing {
                by: Successor::Group,
                ..
            }
            | Phase::Leaving { .. }
            | Phase::Resting(_)
            | Phase::Gone => return phase,
        };
        self.push(Action::EndActor);
        phase
    }

    pub(super) fn turn(&mut self, phase: Phase) -> Phase {
        match phase {
            Phase::New | Phase::Blocked | Phase::Backoff { .. } | Phase::Finished => {}
            Phase::Quarantined { .. } => {
                let event = Action::Journal(EventType::AgentUnquarantined, Cause::WindowPassed);
                self.push(event);
            }
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Replacing { .. }
            | Phase::Leaving { .. }
            | Phase::Resting(_)
            | Phase::Gone => return phase,
        }
        if self.facts.restart == RestartType::Temporary {
            return Phase::Resting(Rest::Over);
        }
        self.memory.cause = Cause::Group;
        self.start()
    }

    pub(super) fn alone(&mut self, phase: Phase) -> Phase {
        match phase {
            Phase::Quarantined { .. } => {
                let mono = self.facts.mono;
                let until = self.memory.deaths.quarantined_until(mono).unwrap_or(mono);
                let token = self.token();
                let after = until.saturating_sub(mono);
                self.push(Action::Arm { token, after });
                Phase::Quarantined {
                    due: Due::Timer(token),
                }
            }
            Phase::New | Phase::Blocked | Phase::Backoff { .. } | Phase::Finished => self.start(),
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Replacing { .. }
            | Phase::Leaving { .. }
            | Phase::Resting(_)
            | Phase::Gone => phase,
        }
    }
}
