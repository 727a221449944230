//! A child among others: the restart of its group, and the drain of its pool.

use super::super::cause::Cause;
use super::super::city::RestartType;
use super::super::event::EventType;
use super::step::Step;
use super::{Action, ChildPhase, ChildState, Due, Leave, Presence, Rest, Successor};

impl Step<'_> {
    /// Drains a member of a pool. A member that is being started is told when it is up.
    pub(super) fn drain(&mut self, phase: ChildPhase) -> ChildPhase {
        let rests = matches!(phase, ChildPhase::Resting(Rest::Order(_)));
        if self.memory.drain.is_some() || rests {
            return phase;
        }
        match phase.presence() {
            Presence::Leaving => phase,
            Presence::Coming | Presence::Up => {
                let token = self.facts.token;
                self.memory.drain = Some(token);
                self.push(Action::ArmDrain(token));
                phase
            }
            // It died since the look: there is nothing to finish.
            Presence::Waiting | Presence::Resting => {
                self.memory.drain = Some(self.facts.token);
                self.leave(Leave::Gone(Cause::Drained))
            }
        }
    }

    pub(super) fn await_turn(&mut self, phase: ChildPhase) -> ChildPhase {
        match (&phase, phase.presence()) {
            (ChildPhase::Quarantined { .. }, _) => ChildPhase::Quarantined { due: Due::Group },
            (_, Presence::Waiting) => ChildPhase::Backoff {
                until: None,
                due: Due::Group,
            },
            (ChildPhase::Replacing { by, .. }, _) if *by == Successor::Group => phase,
            (_, Presence::Coming | Presence::Up) => {
                self.push(Action::EndActor);
                phase.replaced(Successor::Group)
            }
            (_, Presence::Leaving | Presence::Resting) => phase,
        }
    }

    pub(super) fn turn(&mut self, phase: ChildPhase) -> ChildPhase {
        if phase.presence() != Presence::Waiting {
            return phase;
        }
        if phase.state() == ChildState::Quarantined {
            let event = Action::Journal(EventType::AgentUnquarantined, Cause::WindowPassed);
            self.push(event);
        }
        if self.facts.restart == RestartType::Temporary {
            return ChildPhase::Resting(Rest::Over);
        }
        self.memory.cause = Cause::Group;
        self.start()
    }

    pub(super) fn alone(&mut self, phase: ChildPhase) -> ChildPhase {
        if phase.presence() != Presence::Waiting {
            return phase;
        }
        if phase.state() != ChildState::Quarantined {
            return self.start();
        }
        let mono = self.facts.mono;
        let until = self.memory.deaths.quarantined_until(mono).unwrap_or(mono);
        let token = self.facts.token;
        let after = until.saturating_sub(mono);
        self.push(Action::Arm { token, after });
        ChildPhase::Quarantined {
            due: Due::Timer(token),
        }
    }
}
