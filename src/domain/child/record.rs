//! A child's record: what the root may read of it, and what an earlier supervisor left.

use jiff::Timestamp;

use super::super::cause::Cause;
use super::super::restart::{DeathWindow, Mono, RestartPolicy};
use super::{Child, ChildPhase, ChildState, Memory, Presence, Rest, Successor, Token};

impl Child {
    /// Makes a child that rests.
    #[must_use]
    pub fn new(rest: Rest, cause: Cause, now: Timestamp) -> Self {
        let memory = Memory {
            cause,
            deaths: DeathWindow::default(),
            brake: Default::default(),
            handoffs: Default::default(),
            unattended: false,
            crashed: false,
            on_trial: false,
            died_of: None,
            parks: 0,
            no_sandbox: false,
            unseen: None,
            tried: None,
            drain: None,
        };
        Self {
            phase: ChildPhase::Resting(rest),
            since: now,
            memory,
        }
    }

    /// Restores what an earlier supervisor stored: its deaths, and whether its last session came to no planned end.
    pub fn restore(&mut self, deaths: DeathWindow, unattended: bool) {
        (self.memory.deaths, self.memory.unattended) = (deaths, unattended);
    }

    /// Keeps it in the quarantine that an earlier supervisor began, until then; after that it is on trial.
    pub fn hold(&mut self, policy: &RestartPolicy, until: Mono, now: Mono, why: Option<String>) {
        self.memory.deaths.hold(policy, until, now);
        (self.memory.on_trial, self.memory.died_of) = (true, why);
    }

    /// Returns its phase.
    #[must_use]
    pub fn phase(&self) -> &ChildPhase {
        &self.phase
    }

    /// Returns its state, as it is shown.
    #[must_use]
    pub fn state(&self) -> ChildState {
        self.phase.state()
    }

    /// Returns when it entered this state.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Returns the cause of its last start, or of what prevents it.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.memory.cause
    }

    /// Returns its deaths; counting them forgets those that have left the window.
    pub fn deaths(&mut self) -> &mut DeathWindow {
        &mut self.memory.deaths
    }

    /// Returns the reason of its quarantine, if it is in one.
    #[must_use]
    pub fn died_of(&self) -> Option<&String> {
        let is_held = self.state() == ChildState::Quarantined;
        self.memory.died_of.as_ref().filter(|_| is_held)
    }

    /// Returns why its start was put off.
    #[must_use]
    pub fn unseen(&self) -> Option<&String> {
        self.memory.unseen.as_ref()
    }

    /// Returns true while it ends in its own time.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.memory.drain.is_some()
    }

    /// Returns true when it has a session or is being given one, is to keep it, and does not end in its own time.
    #[must_use]
    pub fn is_wanted_up(&self) -> bool {
        let is_up = matches!(
            self.phase,
            ChildPhase::Starting { .. } | ChildPhase::Running { .. }
        );
        is_up && !self.is_draining()
    }

    /// Returns true when its session may be replaced, or is being replaced by a fresh one.
    #[must_use]
    pub fn may_cycle(&self) -> bool {
        matches!(
            self.phase,
            ChildPhase::Starting { .. }
                | ChildPhase::Running { .. }
                | ChildPhase::Replacing {
                    by: Successor::Fresh { .. },
                    ..
                }
        )
    }

    /// Returns true while it waits for the sweep with this token.
    #[must_use]
    pub fn is_swept_by(&self, token: Token) -> bool {
        self.is_leaving() && self.phase.token() == Some(token)
    }

    /// Returns true when its session is being ended, and none follows.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.phase.presence() == Presence::Leaving
    }

    /// Returns true when it has no session because of an order or its restart type, or loses it for that.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        matches!(self.phase.presence(), Presence::Leaving | Presence::Resting)
    }

    /// Returns true when a session was to run and has not come to a planned end.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let is_absent = matches!(self.phase.presence(), Presence::Waiting | Presence::Resting);
        !is_absent || self.memory.unattended
    }

    /// Returns true when a session was up and has not come to a planned end.
    #[must_use]
    pub fn was_up(&self) -> bool {
        matches!(self.state(), ChildState::Running | ChildState::Ending) || self.memory.unattended
    }
}

impl Rest {
    /// Returns the cause of the start that ends the rest without an operator, once its account is open or its
    /// suspension is over.
    #[must_use]
    pub fn until(self) -> Option<Cause> {
        match self {
            Self::Order(Cause::Suspended) => Some(Cause::Unsuspended),
            Self::Order(parked @ (Cause::RateLimit | Cause::Login)) => Some(parked),
            Self::Order(_) | Self::Over => None,
        }
    }
}
