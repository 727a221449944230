//! A raider or an agent, as lists and `hd status` show both.

use jiff::Timestamp;

use crate::cli::output::Tone;
use crate::control::protocol::answers::{Agent, Git, OpenEscalation, Raider};
use crate::domain::ids::RelicId;

use super::words::{cell, clean};

/// The parts of a raider or an agent that are shown in the same way.
pub(super) struct Child<'a> {
    /// The word for its state.
    state: String,
    condition: Option<&'a str>,
    pub detail: Option<&'a str>,
    pub choices: &'a [String],
    pub screen: Option<&'a str>,
    pub stalled_since: Option<Timestamp>,
    /// Set when it is stuck until a person acts.
    pub needs_person: bool,
    pub escalation: Option<&'a OpenEscalation>,
    pub hook: Option<&'a RelicId>,
    pub branch: Option<&'a str>,
    pub git: Option<&'a Git>,
    pub restarts: u32,
    pub quarantined_until: Option<Timestamp>,
    pub died_of: Option<&'a str>,
    /// Since when its session runs, or else since when it is in its state.
    pub since: Option<Timestamp>,
    pub retry_at: Option<Timestamp>,
    is_suspended: bool,
    pub is_deferred: bool,
}

impl<'a> From<&'a Raider> for Child<'a> {
    fn from(raider: &'a Raider) -> Self {
        let session = raider.session.as_ref();
        Self {
            state: cell(&raider.state),
            condition: raider.condition.as_deref(),
            detail: raider.detail.as_deref(),
            choices: &raider.choices,
            screen: raider.screen.as_deref(),
            stalled_since: raider.stalled_since,
            needs_person: raider.needs_person,
            escalation: raider.escalation.as_ref(),
            hook: raider.hook.as_ref(),
            branch: raider.branch.as_deref(),
            git: raider.git.as_ref(),
            restarts: raider.restarts,
            quarantined_until: raider.quarantined_until,
            died_of: raider.died_of.as_deref(),
            since: session.map(|session| session.since).or(raider.since),
            retry_at: raider.retry_at,
            is_suspended: raider.suspended,
            is_deferred: false,
        }
    }
}

impl<'a> From<&'a Agent> for Child<'a> {
    fn from(agent: &'a Agent) -> Self {
        Self {
            state: cell(&agent.state),
            condition: agent.condition.as_deref(),
            detail: agent.detail.as_deref(),
            choices: &agent.choices,
            screen: agent.screen.as_deref(),
            stalled_since: None,
            needs_person: agent.needs_person,
            escalation: None,
            hook: agent.hook.as_ref(),
            branch: None,
            git: None,
            restarts: agent.restarts,
            quarantined_until: agent.quarantined_until,
            died_of: agent.died_of.as_deref(),
            since: agent.since,
            retry_at: agent.retry_at,
            is_suspended: false,
            is_deferred: agent.deferred,
        }
    }
}

impl Child<'_> {
    /// Returns the name of its condition, and the condition in words.
    pub fn condition(&self) -> Option<(String, String)> {
        let said = self.detail.map(|detail| cell(&detail));
        Some((clean(self.condition?), said.unwrap_or_default()))
    }

    /// Returns its state with its condition, and the tone for it.
    pub fn state(&self) -> (String, Tone) {
        let state = self.derived();
        let condition = self.condition();
        let tone = match (state, &condition) {
            (_, Some(_)) => Tone::Waits,
            ("working" | "running", None) => Tone::Good,
            ("stalled" | "zombie" | "quarantined" | "blocked", None) => Tone::Bad,
            _ => Tone::Plain,
        };
        let text = condition.map_or(state.to_owned(), |(kind, _)| format!("{state} {kind}"));
        (text, tone)
    }

    /// Returns the state to show. A raider without a session is `stalled` for every reason; the reason is shown instead.
    pub fn derived(&self) -> &str {
        match self.state.as_str() {
            "stalled" if self.is_suspended => "suspended",
            "stalled" if self.quarantined_until.is_some() => "quarantined",
            "stalled" if self.retry_at.is_some() => "backoff",
            state => state,
        }
    }
}
