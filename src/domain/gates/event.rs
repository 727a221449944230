//! The gate `event`: each event of a type once, in order. The journal is the queue, with a durable cursor; an
//! automation never waits for its own events.

use std::collections::VecDeque;
use std::fmt;

use jiff::Timestamp;

use crate::domain::automation::AutomationId;
use crate::domain::event::{Event, EventType};
use crate::domain::suggest::closest;

/// The maximum number of waiting events; beyond it, the oldest are skipped.
pub const QUEUE: usize = 1000;

/// A type of event, or `prefix.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// No event matches; the error is the type that may be meant.
    pub fn parse(text: &str) -> Result<Self, Option<&'static str>> {
        let pattern = Self(text.to_owned());
        let mut known = EventType::ALL.iter().map(|kind| kind.as_str());
        if known.clone().any(|kind| pattern.matches(kind)) {
            return Ok(pattern);
        }
        Err(closest(text, known.by_ref()))
    }

    /// Returns the pattern for a query of the journal.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true when events of this type match.
    #[must_use]
    pub fn matches(&self, kind: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('.') => kind.starts_with(prefix),
            _ => kind == self.0,
        }
    }
}

/// Returns true when an event is about this very automation.
#[must_use]
pub fn is_own(event: &Event, automation: &AutomationId) -> bool {
    event.kind.starts_with("automation.") && event.subject == automation.to_string()
}

/// The waiting events, the oldest first, and the number that was skipped.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Event>,
    /// The number of skipped events.
    pub skipped: usize,
}

impl Queue {
    /// Adds the next event of the journal that matches.
    pub fn push(&mut self, event: Event, automation: &AutomationId) {
        if is_own(&event, automation) {
            return;
        }
        self.waiting.push_back(event);
        if self.waiting.len() > QUEUE {
            self.waiting.pop_front();
            self.skipped += 1;
        }
    }

    /// Returns the number of waiting events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true when no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of the event to run for.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.waiting.front().map(|event| event.seq)
    }

    /// Returns the numbers of the waiting events from before that time.
    #[must_use]
    pub fn older(&self, before: Timestamp) -> Vec<u64> {
        let old = self.waiting.iter().filter(|event| event.ts < before);
        old.map(|event| event.seq).collect()
    }

    /// Takes the event to run for.
    pub fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::at;
    use super::*;

    fn event(seq: u64, kind: &str, subject: &str) -> Event {
        Event {
            seq,
            ts: at("2026-03-01T12:00:00Z"),
            kind: kind.to_owned(),
            subject: subject.to_owned(),
            cause: "operator".to_owned(),
            data: serde_json::Value::Null,
        }
    }

    fn own() -> AutomationId {
        "tidy".parse().unwrap()
    }

    #[test]
    fn a_pattern_is_a_type_or_a_prefix() {
        let cases = [
            ("raider.merged", "raider.merged", true),
            ("raider.merged", "raider.merge_failed", false),
            ("raider.*", "raider.merged", true),
            ("raider.*", "raiders.merged", false),
            ("relic.*", "raider.merged", false),
        ];
        for (pattern, kind, expected) in cases {
            let pattern = Pattern::parse(pattern).unwrap();
            assert_eq!(pattern.matches(kind), expected, "{pattern} {kind}");
        }
    }

    #[test]
    fn pattern_without_a_matching_event_is_refused_with_a_suggestion() {
        assert_eq!(Pattern::parse("raider.mergd"), Err(Some("raider.merged")));
        for bad in ["", "*", "raider", "raider*", "nothing.*"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn its_own_events_are_not_for_it_those_of_others_are() {
        let mut queue = Queue::default();
        for (seq, subject) in [(1, "tidy"), (2, "other"), (3, "horde/tidy")] {
            queue.push(event(seq, "automation.completed", subject), &own());
        }
        // An agent of the same name is a different subject.
        queue.push(event(4, "agent.crashed", "tidy"), &own());
        let mut seqs = Vec::new();
        while let Some(event) = queue.pop() {
            seqs.push(event.seq);
        }
        assert_eq!(seqs, [2, 3, 4]);
    }

    proptest! {
        #[test]
        fn the_newest_are_kept_in_order_and_the_rest_counted(count in 0_u64..2500) {
            let mut queue = Queue::default();
            for seq in 0..count {
                queue.push(event(seq, "relic.created", "gt-1"), &own());
            }
            let kept = count.min(1000);
            prop_assert_eq!(queue.skipped as u64, count - kept);
            for seq in count - kept..count {
                prop_assert_eq!(queue.pop().map(|event| event.seq), Some(seq));
            }
            prop_assert!(queue.pop().is_none());
        }
    }
}
