//! Escalations: one open per subject and cause, raised again while no person answers.
//!
//! ```text
//!   raised ──silence──► one severity up ──silence──► one up again ──► waits, silent
//!     │  ▲                                                              │
//!     │  └── a repeat that is worse (also after acked)                  │
//!     ├──────────────► acked: stays open, is not raised again ──────────┤
//!     └──────────────► closed: by a person, or because it has vanished ◄┘
//! ```

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{AgentName, Incarnation};
use super::message::{Escalation, Severity};
use super::problem::Problem;
use super::relic::RelicStatus;

/// The maximum number of times an escalation is raised again (`rules.md`, escalations).
pub const RERAISES: u8 = 2;
/// The maximum number of open problems per subject. Further reports are added to the newest, so that a subject that
/// keeps finding new words does not call people all the time.
pub const OPEN_MAX: usize = 8;
/// Longer evidence is cut in the middle: its beginning and its end are kept.
pub const EVIDENCE_MAX: usize = 16 * 1024;
/// The part of it that is kept of the beginning.
const BEGINNING: usize = 4 * 1024;
/// The maximum length of a single report: the last report is then always kept whole, and is recognised when it is
/// repeated.
const SAID_MAX: usize = EVIDENCE_MAX - BEGINNING - 128;

/// The state of an escalation beside its relic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationState {
    /// When people were last told.
    pub told: Timestamp,
    /// The number of times it was raised again.
    pub again: u8,
    /// Set when a person has acknowledged it.
    pub acked: bool,
    /// The incarnation whose sandbox it is about: the escalation vanishes with that sandbox.
    pub sandbox: Option<Incarnation>,
    /// Status of its relic when it was raised.
    pub relic: Option<RelicStatus>,
    /// The agents that have mail about it as it was last told, and that time.
    #[serde(default)]
    pub mailed: Option<Mailed>,
}

/// The mail about an escalation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailed {
    /// The time of the report that was mailed, as [`EscalationState::told`] had it.
    pub told: Timestamp,
    /// The agents that it was mailed to.
    pub to: Vec<AgentName>,
}

impl EscalationState {
    /// Starts the state of an escalation that is raised now.
    #[must_use]
    pub fn raised(now: Timestamp) -> Self {
        Self {
            told: now,
            again: 0,
            acked: false,
            sandbox: None,
            relic: None,
            mailed: None,
        }
    }

    /// Returns the agents of these that have no mail yet about the escalation as it was last told. None of an acknowledged
    /// one: a person knows it.
    #[must_use]
    pub fn unmailed(&self, to: &[AgentName]) -> Vec<AgentName> {
        let done = self
            .mailed
            .as_ref()
            .filter(|mailed| mailed.told == self.told);
        let has = |agent: &&AgentName| done.is_some_and(|mailed| mailed.to.contains(agent));
        match self.acked {
            true => Vec::new(),
            false => to.iter().filter(|agent| !has(agent)).cloned().collect(),
        }
    }

    /// Notes that an agent has mail about the escalation as it was last told.
    pub fn mailed_to(&mut self, agent: AgentName) {
        let told = self.told;
        let mailed = self.mailed.take().filter(|mailed| mailed.told == told);
        let mut to = mailed.map_or_else(Vec::new, |mailed| mailed.to);
        to.push(agent);
        self.mailed = Some(Mailed { told, to });
    }

    /// Returns the time until it is raised again, where `age` is the time since people were told; none when a person
    /// has acknowledged it, or when it was raised often enough in vain.
    #[must_use]
    pub fn due(&self, after: Option<Duration>, age: Duration) -> Option<Duration> {
        let silent = self.acked || self.again >= RERAISES;
        let after = after.filter(|_| !silent)?;
        Some(after.saturating_sub(age))
    }

    /// Raises it again and returns the new severity.
    pub fn raise_again(&mut self, severity: Severity, now: Timestamp) -> Severity {
        self.told = now;
        self.again += 1;
        match severity {
            Severity::Low => Severity::Medium,
            Severity::Medium => Severity::High,
            Severity::High | Severity::Critical => Severity::Critical,
        }
    }
}

/// Returns the severity that a relic's priority stands for.
#[must_use]
pub fn severity(priority: i64) -> Severity {
    match priority {
        ..=0 => Severity::Low,
        1 => Severity::Medium,
        2 => Severity::High,
        3.. => Severity::Critical,
    }
}

/// Returns the label of the subject. Slots are reused: the same name with other work is another subject.
#[must_use]
pub fn subject(about: &Escalation) -> String {
    match &about.relic {
        Some(relic) => format!("about:{}:{relic}", about.agent),
        None => format!("about:{}", about.agent),
    }
}

/// Returns the words that tell causes apart, without numbers, hashes, counters and times: `failed, attempt 17` equals
/// `failed, attempt 16`. Names keep their digits: `s3` is not `k8s`.
#[must_use]
pub fn gist(text: &str) -> String {
    let words = text.split_whitespace().map(|word| {
        let parts = word.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
        parts.map(without_numbers).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Replaces a part of a word by `#` if it is a number; at most its last character is neither letter nor digit.
fn without_numbers(part: &str) -> String {
    /// The minimum number of digits of a hash; a number in a name has fewer.
    const HASH: usize = 7;
    let name = part.trim_end_matches(|c: char| !c.is_alphanumeric());
    let end = &part[name.len()..];
    let digits = name.chars().filter(char::is_ascii_digit).count();
    let hex = name.len() >= HASH && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let counts = name.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    match digits > 0 && (counts || hex || digits >= HASH) {
        true => format!("#{end}"),
        false => part.to_lowercase(),
    }
}

/// The effect of a repeated report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It adds nothing.
    Known,
    /// It adds evidence; no person is called.
    More,
    /// It is more severe: people are told again, acknowledged or not.
    Louder,
}

/// The parts of an open escalation that a repeat may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The severity.
    pub severity: Severity,
    /// The problem, in the words with which people were called.
    pub problem: Problem,
    /// The evidence so far.
    pub evidence: String,
    /// The state.
    pub standing: EscalationState,
}

impl Open {
    /// Merges a repeated report: the severity never falls, and new evidence is kept.
    pub fn repeat(&mut self, repeat: &Escalation, now: Timestamp) -> Repeat {
        let said = bounded(
            &match gist(repeat.problem.text()) == gist(self.problem.text()) {
                true => repeat.evidence.clone(),
                false => format!("{}\n{}", repeat.problem.text(), repeat.evidence),
            },
        );
        let news = !gist(&self.evidence).contains(&gist(&said));
        if news {
            self.evidence = cut(&format!("{}\n\n{now}: {said}", self.evidence), EVIDENCE_MAX);
        }
        if repeat.severity > self.severity {
            self.severity = repeat.severity;
            self.standing.acked = false;
            self.standing.told = now;
            return Repeat::Louder;
        }
        if news { Repeat::More } else { Repeat::Known }
    }
}

/// Returns a single report, cut in the middle when it is too long.
#[must_use]
pub fn bounded(text: &str) -> String {
    cut(text, SAID_MAX)
}

/// Cuts a text in the middle when it is too long; between two lines where possible, so that a counter that grows by a
/// digit changes nothing else.
fn cut(text: &str, most: usize) -> String {
    const CUT: &str = "\n[...]\n";
    let text = text.trim();
    if text.len() <= most {
        return text.to_owned();
    }
    let begin = &text[..text.floor_char_boundary(BEGINNING)];
    let begin = begin.rsplit_once('\n').map_or(begin, |(lines, _)| lines);
    let end = &text[text.ceil_char_boundary(text.len() - (most - BEGINNING - CUT.len()))..];
    let end = end.split_once('\n').map_or(end, |(_, lines)| lines);
    format!("{begin}{CUT}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::records;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * 3600).unwrap()
    }

    fn call(problem: &str, severity: Severity, evidence: &str) -> Escalation {
        Escalation {
            evidence: evidence.into(),
            ..records::call("horde/raiders/Toast", problem, severity)
        }
    }

    fn open() -> Open {
        Open {
            severity: Severity::Medium,
            problem: Problem::in_own_words("no key"),
            evidence: "401 from the API".into(),
            standing: EscalationState::raised(at(0)),
        }
    }

    #[test]
    fn subject_names_the_agent_and_its_work() {
        let mut body = call("no key", Severity::Low, "");
        assert_eq!(subject(&body), "about:horde/raiders/Toast");
        body.relic = Some("gt-1".parse().unwrap());
        assert_eq!(subject(&body), "about:horde/raiders/Toast:gt-1");
    }

    #[test]
    fn numbers_make_no_other_cause_and_words_do() {
        for (one, other, same) in [
            ("tests fail (attempt 16)", "Tests  fail (attempt 17)", true),
            ("push of 0a1b2c failed", "push of 9f8e7d failed", true),
            ("after 10.5s: pid=4312", "after 3.25s: pid=77", true),
            ("at 2026-05-01T10:00:00Z", "at 2026-06-02T11:30:00Z", true),
            ("head a1b2c3d, (errno:28)", "head d4e5f6a, (errno:5)", true),
            ("no access to s3", "no access to k8s", false),
            ("db1 is down", "db2 is down", false),
            ("waits for gt-4", "waits for gt-9", false),
            ("no key", "no disk", false),
            ("no key", "no key here", false),
        ] {
            assert_eq!(gist(one) == gist(other), same, "{one} / {other}");
        }
    }

    /// Problem, severity, evidence of the repeat; what it comes to, the severity then, what is kept.
    #[test]
    fn a_repeat_never_lowers_and_loses_nothing() {
        use Severity::{Critical, High, Low, Medium};
        for (problem, severity, evidence, comes_to, then, kept) in [
            (
                "no key",
                Medium,
                "401 from the API",
                Repeat::Known,
                Medium,
                "401",
            ),
            (
                "no key",
                Low,
                "403 from the API",
                Repeat::Known,
                Medium,
                "401",
            ),
            ("no key", Low, "", Repeat::Known, Medium, "401"),
            (
                "No key",
                Low,
                "the key expired",
                Repeat::More,
                Medium,
                "expired",
            ),
            (
                "no key",
                High,
                "401 from the API",
                Repeat::Louder,
                High,
                "401",
            ),
            (
                "no key",
                Critical,
                "all stop",
                Repeat::Louder,
                Critical,
                "all stop",
            ),
            (
                "no disk",
                Medium,
                "full",
                Repeat::More,
                Medium,
                "no disk\nfull",
            ),
        ] {
            let mut open = open();
            let repeat = call(problem, severity, evidence);
            assert_eq!(
                open.repeat(&repeat, at(1)),
                comes_to,
                "{problem} {evidence}"
            );
            assert_eq!(open.severity, then);
            assert!(open.evidence.starts_with("401 from the API"));
            assert!(open.evidence.contains(kept), "{}", open.evidence);
            assert_eq!(open.repeat(&repeat, at(2)), Repeat::Known, "told before");
        }
    }

    #[test]
    fn only_higher_severity_undoes_an_acknowledgement() {
        for (severity, evidence, acked, told) in [
            (Severity::Medium, "more", true, at(0)),
            (Severity::High, "more", false, at(1)),
        ] {
            let mut open = open();
            open.standing.acked = true;
            open.repeat(&call("no key", severity, evidence), at(1));
            assert_eq!((open.standing.acked, open.standing.told), (acked, told));
        }
    }

    #[test]
    fn evidence_is_bounded_and_keeps_both_ends() {
        let mut open = open();
        let words = |n: u32| {
            char::from_u32('a' as u32 + n % 26)
                .unwrap()
                .to_string()
                .repeat(999)
        };
        for n in 0..100 {
            open.repeat(
                &call("no key", Severity::Low, &format!("ä{}", words(n))),
                at(1),
            );
            assert!(open.evidence.len() <= EVIDENCE_MAX);
        }
        assert!(open.evidence.starts_with("401 from the API"));
        assert!(open.evidence.ends_with(&words(99)));
        assert!(open.evidence.contains("[...]"));
    }

    #[test]
    fn truncated_evidence_is_recognised_when_repeated() {
        let mut open = open();
        let line = |n: u32| format!("{} of it\n", "ab".repeat(n as usize));
        for (said, news) in [(200, true), (200, false), (199, true), (199, false)] {
            let lines: String = (1..said).rev().map(line).collect();
            assert!(lines.len() > EVIDENCE_MAX);
            let call = call("no key", Severity::Low, &lines);
            assert_eq!(open.repeat(&call, at(1)) == Repeat::More, news, "{said}");
        }
        assert!(open.evidence.len() <= EVIDENCE_MAX);
    }

    /// After the silence, one up, twice at most.
    #[test]
    fn an_unanswered_escalation_climbs_twice() {
        use Severity::{Critical, High, Low, Medium};
        for ladder in [
            [Low, Medium, High],
            [Medium, High, Critical],
            [High, Critical, Critical],
        ] {
            let mut standing = EscalationState::raised(at(0));
            let mut now = ladder[0];
            for (n, next) in (1_i64..).zip(&ladder[1..]) {
                assert_eq!(standing.due(Some(HOUR), HOUR / 3), Some(HOUR * 2 / 3));
                assert_eq!(standing.due(Some(HOUR), HOUR * 2), Some(Duration::ZERO));
                now = standing.raise_again(now, at(n));
                assert_eq!(now, *next);
            }
            assert_eq!(standing.due(Some(HOUR), HOUR), None, "twice at most");
        }
    }

    #[test]
    fn acknowledged_or_unlimited_escalation_is_never_due() {
        let mut standing = EscalationState::raised(at(0));
        assert_eq!(standing.due(None, HOUR), None);
        standing.acked = true;
        assert_eq!(standing.due(Some(HOUR), HOUR), None);
    }

    #[test]
    fn a_priority_is_a_severity() {
        for word in [
            Severity::Low,
            Severity::Medium,
            Severity::High,
            Severity::Critical,
        ] {
            assert_eq!(severity(word as i64), word);
        }
        assert_eq!(
            (severity(-5), severity(99)),
            (Severity::Low, Severity::Critical)
        );
    }
}
