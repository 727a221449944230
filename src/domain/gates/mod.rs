//! The gates of automations, a file each, which decide when an automation may run (`contract.md`, 2.2).
//!
//! | gate | opens |
//! |---|---|
//! | [`cooldown`] | `interval` after the start of the last run; at once when it never ran |
//! | [`cron`] | at the slots of a schedule |
//! | [`condition`] | when a check succeeds, at most once per `interval` |
//! | [`event`] | for each event of a type, in order |
//! | [`manual`] | never by itself |

pub mod condition;
pub mod cooldown;
pub mod cron;
pub mod event;
pub mod manual;

use std::time::Duration;

use jiff::Timestamp;

words! {
    /// The kind of a gate, as `automation.toml` names it.
    GateKind {
        /// See [`cooldown`].
        Cooldown => "cooldown",
        /// See [`cron`].
        Cron => "cron",
        /// See [`condition`].
        Condition => "condition",
        /// See [`event`].
        Event => "event",
        /// See [`manual`].
        Manual => "manual",
    }
}

/// A gate as configured.
#[derive(Debug, Clone, PartialEq)]
pub enum Gate {
    /// See [`cooldown`].
    Cooldown {
        /// Minimum time between two starts.
        interval: Duration,
    },
    /// See [`cron`].
    Cron {
        /// Its slots.
        schedule: cron::Schedule,
        /// The treatment of missed slots.
        catch_up: cron::CatchUp,
    },
    /// See [`condition`].
    Condition {
        /// Shell command; success opens the gate.
        check: String,
        /// Minimum time between two runs.
        interval: Duration,
        /// Interval of checks while they fail.
        every: Duration,
    },
    /// See [`event`].
    Event {
        /// The type of event.
        on: event::Pattern,
    },
    /// See [`manual`].
    Manual,
}

impl Gate {
    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> GateKind {
        match self {
            Self::Cooldown { .. } => GateKind::Cooldown,
            Self::Cron { .. } => GateKind::Cron,
            Self::Condition { .. } => GateKind::Condition,
            Self::Event { .. } => GateKind::Event,
            Self::Manual => GateKind::Manual,
        }
    }

    /// Returns the identity that the marks of a gate belong to: a changed schedule or pattern counts as a new gate.
    #[must_use]
    pub fn identity(&self) -> String {
        match self {
            Self::Cron { schedule, .. } => format!("cron {schedule}"),
            Self::Event { on } => format!("event {on}"),
            Self::Cooldown { .. } | Self::Condition { .. } | Self::Manual => {
                self.kind().to_string()
            }
        }
    }
}

/// The time at which a gate opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// It is open.
    Now,
    /// Not before this time.
    At(Timestamp),
    /// Never by time.
    Never,
}

impl When {
    /// Opens at this time, which may have come.
    fn at(time: Timestamp, now: Timestamp) -> Self {
        if time <= now {
            Self::Now
        } else {
            Self::At(time)
        }
    }
}

/// Returns the time this long after an earlier time. An earlier time in the future was recorded before the clock was
/// set back, and is ignored.
fn after(earlier: Option<Timestamp>, wait: Duration, now: Timestamp) -> Option<Timestamp> {
    let earlier = earlier.filter(|earlier| *earlier <= now)?;
    Some(earlier.checked_add(wait).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod testing {
    use jiff::Timestamp;
    use proptest::prelude::{Strategy, any};

    /// A time within some centuries of now.
    pub(super) fn times() -> impl Strategy<Value = Timestamp> {
        (0_i64..10_000_000_000, any::<u16>()).prop_map(|(seconds, more)| {
            Timestamp::new(seconds, i32::from(more)).expect("a time of this age")
        })
    }

    pub(super) fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }
}
