//! `[notify]`: whom events are told besides the journal. Which are, and which of too many wait.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::Event;

/// So many notices wait for a slow command. Of more the oldest are left out, but no critical one.
pub const WAITING_MAX: usize = 32;

/// `[notify]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyPolicy {
    /// What is told.
    pub on: Vec<Notice>,
    /// The command, for the shell; none tells nobody.
    pub command: Option<String>,
    /// How long an escalation waits for an acknowledgement before it is raised again.
    pub reraise: Option<Duration>,
}

/// A kind of notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// A person is called, or called again.
    Escalation,
    /// An agent asks something, or its work waits to be looked at.
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
    /// Each with its word in the configuration.
    pub const WORDS: &[(&str, Self)] = &[
        ("escalation", Self::Escalation),
        ("needs_input", Self::NeedsInput),
        ("merge_failed", Self::MergeFailed),
        ("quarantined", Self::Quarantined),
        ("rate_limited", Self::RateLimited),
        ("auth", Self::Auth),
    ];

    /// The type of the event that is told.
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
    /// Whether events of this type are told.
    #[must_use]
    pub fn tells(&self, kind: &str) -> bool {
        self.command.is_some() && self.on.iter().any(|notice| notice.event() == kind)
    }
}

/// How far people were told. The journal is the queue; this is its cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The newest event that was told, or left out, or is of no kind that is told.
    pub cursor: u64,
    /// What was told then.
    pub on: Vec<String>,
    /// Kinds that are told since then only, and the newest event of that time.
    #[serde(default)]
    pub since: BTreeMap<String, u64>,
    /// The last command failed: that was said once.
    pub failing: bool,
}

impl Mark {
    /// Begins to tell now.
    #[must_use]
    pub fn new(on: Vec<String>, newest: u64) -> Self {
        Self {
            cursor: newest,
            on,
            since: BTreeMap::new(),
            failing: false,
        }
    }

    /// Other kinds are told from now on: of those that were told before, what waits still waits.
    pub fn turn_to(&mut self, on: Vec<String>, newest: u64) {
        let new = on.iter().filter(|kind| !self.on.contains(kind));
        self.since.extend(new.map(|kind| (kind.clone(), newest)));
        let cursor = self.cursor;
        self.since
            .retain(|kind, since| on.contains(kind) && *since > cursor);
        self.on = on;
    }

    /// Of this kind, what comes after this event waits.
    #[must_use]
    pub fn after(&self, kind: &str) -> u64 {
        let since = self.since.get(kind).copied();
        self.cursor.max(since.unwrap_or_default())
    }
}

/// Of what waits, the oldest first: what is left out, and what is told next.
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

    /// How many wait, which of them are critical; how many are left out, which is next.
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
    fn nobody_is_told_without_a_command() {
        let mut policy = NotifyPolicy {
            on: vec![Notice::Escalation],
            command: None,
            reraise: None,
        };
        assert!(!policy.tells("escalation.raised"));
        policy.command = Some("true".into());
        assert!(policy.tells("escalation.raised") && !policy.tells("agent.quarantined"));
    }

    /// Also of a mark that an older version wrote.
    #[test]
    fn other_kinds_are_told_from_now_on_and_of_the_old_ones_what_waits() {
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
