//! `[notify]`: the events that people are told of besides the journal, and the limit on waiting notices.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::ids::AgentName;

/// The maximum number of notices that wait for a slow command. Beyond it the oldest are dropped, but no critical
/// notice.
pub const WAITING_MAX: usize = 32;

/// `[notify]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyPolicy {
    /// The kinds that are told.
    pub on: Vec<Notice>,
    /// The shell command; none disables notices.
    pub command: Option<String>,
    /// The time without acknowledgement after which an escalation is raised again.
    pub reraise: Option<Duration>,
    /// The agents and pools that get a drum about each escalation.
    pub mail_to: Vec<AgentName>,
}

/// A kind of notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// A person is called, or called again.
    Escalation,
    /// An agent asks a question, or its work waits for review.
    NeedsInput,
    /// Work could not land.
    MergeFailed,
    /// A child died too often.
    Quarantined,
    /// The account of a harness is at a limit.
    RateLimited,
    /// The account of a harness wants a login.
    Auth,
}

impl Notice {
    /// Each kind with its word in the configuration.
    pub const WORDS: &[(&str, Self)] = &[
        ("escalation", Self::Escalation),
        ("needs_input", Self::NeedsInput),
        ("merge_failed", Self::MergeFailed),
        ("quarantined", Self::Quarantined),
        ("rate_limited", Self::RateLimited),
        ("auth", Self::Auth),
    ];

    /// Returns the type of its event.
    #[must_use]
    pub fn event(self) -> &'static str {
        match self {
            Self::Escalation => "escalation.raised",
            Self::NeedsInput => "raider.needs_input",
            Self::MergeFailed => "raider.merge_failed",
            Self::Quarantined => "agent.quarantined",
            Self::RateLimited => "raider.rate_limited",
            Self::Auth => "raider.auth",
        }
    }
}

impl NotifyPolicy {
    /// Returns true when events of this type are told.
    #[must_use]
    pub fn tells(&self, kind: &str) -> bool {
        self.command.is_some() && self.on.iter().any(|notice| notice.event() == kind)
    }
}

/// The progress of notices. The journal is the queue; this is its cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The newest event that was told, dropped, or of no kind that is told.
    pub cursor: u64,
    /// The kinds that were told then.
    pub on: Vec<String>,
    /// Kinds that were added later, and the newest event at that time.
    #[serde(default)]
    pub since: BTreeMap<String, u64>,
    /// Set when the last command failed and that was reported.
    pub failing: bool,
}

impl Mark {
    /// Starts to tell from now on.
    #[must_use]
    pub fn new(on: Vec<String>, newest: u64) -> Self {
        Self {
            cursor: newest,
            on,
            since: BTreeMap::new(),
            failing: false,
        }
    }

    /// Changes the kinds from now on; waiting events of the kinds that stay still wait.
    pub fn turn_to(&mut self, on: Vec<String>, newest: u64) {
        let new = on.iter().filter(|kind| !self.on.contains(kind));
        self.since.extend(new.map(|kind| (kind.clone(), newest)));
        let cursor = self.cursor;
        self.since
            .retain(|kind, since| on.contains(kind) && *since > cursor);
        self.on = on;
    }

    /// Returns the number after which events of this kind wait.
    #[must_use]
    pub fn after(&self, kind: &str) -> u64 {
        let since = self.since.get(kind).copied();
        self.cursor.max(since.unwrap_or_default())
    }
}

/// Takes the waiting events, the oldest first; returns the dropped ones and the next to tell.
#[must_use]
pub fn choose(waiting: Vec<Event>) -> (Vec<Event>, Option<Event>) {
    let excess = waiting.len().saturating_sub(WAITING_MAX);
    let mut waiting = waiting.into_iter().peekable();
    let mut left_out = Vec::new();
    while left_out.len() < excess
        && let Some(event) = waiting.next_if(|event| !is_critical(event))
    {
        left_out.push(event);
    }
    (left_out, waiting.next())
}

fn is_critical(event: &Event) -> bool {
    event.data["severity"] == "critical"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::event::EventType;

    fn waiting(count: u64, critical: &[u64]) -> Vec<Event> {
        let event = |seq| Event {
            seq,
            ts: jiff::Timestamp::UNIX_EPOCH,
            kind: "escalation.raised".into(),
            subject: "x".into(),
            cause: "stuck".into(),
            data: json!({ "severity": if critical.contains(&seq) { "critical" } else { "high" } }),
        };
        (1..=count).map(event).collect()
    }

    /// Number of waiting events and the critical ones among them; then the number dropped, and the next.
    #[test]
    fn the_oldest_are_left_out_but_no_critical_one() {
        let most = WAITING_MAX as u64;
        for (count, critical, left_out, next) in [
            (0, &[][..], 0, None),
            (1, &[], 0, Some(1)),
            (most, &[], 0, Some(1)),
            (most + 3, &[], 3, Some(4)),
            (most + 3, &[2], 1, Some(2)),
            (most + 3, &[1], 0, Some(1)),
        ] {
            let (left, told) = choose(waiting(count, critical));
            assert_eq!((left.len(), told.map(|event| event.seq)), (left_out, next));
        }
    }

    #[test]
    fn notices_are_events_that_exist() {
        let known: Vec<_> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
        for (word, notice) in Notice::WORDS {
            assert!(known.contains(&notice.event()), "{word}");
        }
    }

    #[test]
    fn no_notification_without_a_command() {
        let mut policy = NotifyPolicy {
            on: vec![Notice::Escalation],
            command: None,
            reraise: None,
            mail_to: Vec::new(),
        };
        assert!(!policy.tells("escalation.raised"));
        policy.command = Some("true".into());
        assert!(policy.tells("escalation.raised") && !policy.tells("agent.quarantined"));
    }

    /// Also for a mark that an older version wrote.
    #[test]
    fn new_kinds_are_notified_from_now_on_and_waiting_events_of_old_kinds_too() {
        let mark = r#"{"cursor":3,"on":["a","b"],"failing":false}"#;
        let mut mark: Mark = serde_json::from_str(mark).unwrap();
        mark.turn_to(vec!["b".into(), "c".into()], 9);
        assert_eq!((mark.after("b"), mark.after("c")), (3, 9));
        mark.cursor = 12;
        assert_eq!(mark.after("c"), 12);
        mark.turn_to(vec!["c".into()], 20);
        assert_eq!(mark.after("c"), 12, "it was told before");
        assert!(mark.since.is_empty(), "{mark:?}");
    }
}
