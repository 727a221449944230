//! The report about a raider that died too often: the number of deaths and their time span, the end of the last
//! session, its last output, and the remedy.

use std::time::Duration;

use jiff::Timestamp;

use super::facts::SessionExit;
use super::ids::{RaiderId, RelicId};

/// The number of characters of the last line that are quoted.
const LINE: usize = 200;
/// The number of lines of the last output that are quoted: a stack trace and the error above it.
const QUOTED: usize = 20;

/// The deaths that put a raider into quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineReport {
    /// The number of deaths that count.
    pub count: u32,
    /// Time from the oldest death that counts to the last; none when it died after a try that followed its quarantine.
    pub within: Option<Duration>,
    /// Description of the last session's end.
    pub last: String,
    /// The last output, as text.
    pub output: String,
    /// When the quarantine ends.
    pub until: Timestamp,
}

impl QuarantineReport {
    /// Makes a report; an end of the last session that was not recorded is reported as such.
    #[must_use]
    pub fn new(
        count: u32,
        within: Option<Duration>,
        last: Option<String>,
        output: String,
        until: Timestamp,
    ) -> Self {
        Self {
            count,
            within,
            last: last.unwrap_or_else(|| "an end that was not recorded".to_owned()),
            output,
            until,
        }
    }

    /// Returns the reason why the relic is blocked, in one line.
    #[must_use]
    pub fn reason(&self, raider: &RaiderId) -> String {
        let (count, last) = (self.count, self.died_of());
        match self.within.map(in_words) {
            Some(within) => {
                format!("{count} sessions of {raider} died within {within}, the last with {last}")
            }
            None => format!("{raider} was retried after its quarantine and died with {last}"),
        }
    }

    /// Returns the end of the last session, with the last line that it wrote.
    #[must_use]
    pub fn died_of(&self) -> String {
        let mut lines = self.output.lines().rev().map(str::trim);
        let line: String = match lines.find(|line| !line.is_empty()) {
            Some(line) => line.chars().take(LINE).collect(),
            None => return self.last.clone(),
        };
        // The description of the end may contain that line already.
        match self.last.ends_with(&line) {
            true => self.last.clone(),
            false => format!("{}: {line}", self.last),
        }
    }

    /// Returns the evidence for the escalation.
    #[must_use]
    pub fn evidence(&self, raider: &RaiderId, relic: &RelicId, title: &str) -> String {
        let rig = &raider.rig;
        format!(
            "{relic} ({title}): {}.\n\
             No session starts before {:.0}; then one more session is tried. {relic} stays blocked \
             until a person acts or the work is done.\n\
             `hd logs {raider}` shows all output, `hd raider unquarantine {raider}` retries now,\n\
             `hd raider nuke {raider} --salvage` saves its work and frees its slot; after that\n\
             `hd charge {relic} {rig}` gives the relic to a fresh raider, `hd relic close {relic}` abandons it.\n\
             Last output:\n{}",
            self.reason(raider),
            self.until,
            quoted(&self.output),
        )
    }
}

/// Describes the end of a session.
#[must_use]
pub fn how(exit: Option<&SessionExit>) -> String {
    match exit.map(|exit| (exit.code, exit.signal)) {
        Some((Some(code), _)) => format!("exit code {code}"),
        Some((None, Some(signal))) => format!("signal {signal}"),
        Some((None, None)) | None => "no exit on record".to_owned(),
    }
}

fn quoted(output: &str) -> String {
    let lines: Vec<_> = output.lines().map(str::trim_end).collect();
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "(no output)".to_owned();
    }
    let newest = &lines[lines.len().saturating_sub(QUOTED)..];
    let quoted: Vec<_> = newest.iter().map(|line| format!("| {line}")).collect();
    quoted.join("\n")
}

/// Formats whole seconds, and at least one: a death takes time.
fn in_words(within: Duration) -> String {
    let seconds = within.as_secs().max(1);
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deaths(output: &str) -> QuarantineReport {
        QuarantineReport {
            count: 6,
            within: Some(Duration::from_millis(17_200)),
            last: how(Some(&SessionExit {
                code: Some(1),
                signal: None,
                at: Timestamp::UNIX_EPOCH,
                by_person: false,
                stopped: false,
            })),
            output: output.into(),
            until: Timestamp::from_second(3600).unwrap(),
        }
    }

    fn raider() -> RaiderId {
        "horde/raiders/Toast".parse().unwrap()
    }

    #[test]
    fn evidence_names_deaths_window_end_and_remedy() {
        let relic = RelicId::new("gt-1").unwrap();
        let told = deaths("").evidence(&raider(), &relic, "port the parser");
        for part in [
            "gt-1 (port the parser)",
            "6 sessions of horde/raiders/Toast died within 17s, the last with exit code 1",
            "1970-01-01T01:00:00Z",
            "hd raider unquarantine horde/raiders/Toast",
            "hd charge gt-1 horde`",
            "(no output)",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
    }

    #[test]
    fn the_end_of_the_output_is_quoted_without_empty_lines() {
        let output: String = (1..=50).map(|line| format!("line {line}\n\n")).collect();
        let relic = RelicId::new("gt-1").unwrap();
        let told = deaths(&output).evidence(&raider(), &relic, "a");
        assert!(told.ends_with("| line 49\n| line 50"), "{told}");
        assert!(told.contains("| line 31\n") && !told.contains("line 30"));
    }

    #[test]
    fn reason_names_the_last_death() {
        let reason = deaths("starting\nError: no such model\n\n").reason(&raider());
        assert!(
            reason.ends_with("the last with exit code 1: Error: no such model"),
            "{reason}"
        );
        let long = deaths(&"x".repeat(900)).died_of();
        assert_eq!(long.len(), "exit code 1: ".len() + LINE);
    }

    #[test]
    fn an_end_without_a_record_is_told_as_that() {
        assert_eq!(how(None), "no exit on record");
        let killed = SessionExit {
            code: None,
            signal: Some(9),
            at: Timestamp::UNIX_EPOCH,
            by_person: false,
            stopped: false,
        };
        assert_eq!(how(Some(&killed)), "signal 9");
    }
}
