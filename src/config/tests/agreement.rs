//! Screens and hook reports of the same moment agree: for each harness with hooks, a recording and the event that the
//! program sends then (in the shape of the recorded version) give the same condition.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;

use super::SampleDir;
use crate::adapters::sessions::holder::view_of;
use crate::domain::condition::{Condition, Report, judge};
use crate::domain::harness::hooks::Hooks;
use crate::domain::ids::HarnessName;

/// The event that each program sends at the moment of a recording. The limit of opencode ends 58 minutes and 56 seconds
/// after the recording is judged.
const MOMENTS: &str = include_str!("../../../tests/data/harness/moments.json");

#[derive(Deserialize)]
struct Moment {
    program: String,
    recording: String,
    event: Value,
}

/// Returns the condition for a report; none for a report that the session goes on.
fn condition(report: &Report) -> Option<Condition> {
    match report.clone() {
        Report::Asks { question, choices } => Some(Condition::NeedsInput { question, choices }),
        Report::Limited { text, until } => Some(Condition::RateLimited { text, until }),
        Report::Auth { text } => Some(Condition::Auth { text }),
        Report::Started { .. }
        | Report::Begins
        | Report::Answered
        | Report::Works
        | Report::Answers
        | Report::Waits
        | Report::Compacts
        | Report::Ended => None,
    }
}

/// Returns whether both questions are the same, with the reported choices among those of the screen. A hook words a
/// permission differently.
fn is_same_question(shown: &Condition, told: &Condition) -> bool {
    let (
        Condition::NeedsInput { question, choices },
        Condition::NeedsInput {
            question: asked,
            choices: labels,
        },
    ) = (shown, told)
    else {
        return false;
    };
    let has = |label: &String| {
        choices
            .iter()
            .any(|choice| choice.starts_with(label.as_str()))
    };
    let same = question.contains(asked.as_str()) || asked.starts_with("Allow ");
    same && labels.iter().all(has)
}

#[test]
fn screens_and_hooks_of_a_moment_come_to_the_same() {
    let place = SampleDir::new();
    let city = place.load("workspace.name = \"c\"").unwrap().city;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/harness");
    let now: Timestamp = "2026-11-23T10:00:00Z".parse().unwrap();
    let (mut wrong, mut met) = (Vec::new(), std::collections::BTreeSet::new());
    for moment in serde_json::from_str::<Vec<Moment>>(MOMENTS).unwrap() {
        let (program, case, event) = (&moment.program, &moment.recording, &moment.event);
        let (name, _version) = program.split_once('-').unwrap();
        let harness = &city.harnesses[&HarnessName::new(name).unwrap()];
        let bytes = fs::read(root.join(program).join(format!("{case}.raw"))).unwrap();
        let sighting = judge(
            &harness.patterns,
            &view_of(&bytes, 50, 200),
            now,
            &TimeZone::UTC,
        );
        let report = harness.hooks.report(event);
        let report = report.unwrap_or_else(|| panic!("{program} {case}: {event} says nothing"));
        let told = condition(&report);
        let agree = match (&sighting.condition, &told) {
            (Some(shown), Some(told)) if shown.word() == told.word() => match (shown, told) {
                (Condition::NeedsInput { .. }, _) => is_same_question(shown, told),
                (
                    Condition::RateLimited { until, .. },
                    Condition::RateLimited { until: end, .. },
                ) => end.is_none() || end == until,
                _ => true,
            },
            (None, None) => {
                let works = matches!(report, Report::Begins | Report::Answered | Report::Works);
                sighting.goes_on && sighting.works == works
            }
            _ => false,
        };
        if !agree {
            wrong.push(format!("{program} {case}: {sighting:?} and {report:?}"));
        }
        met.insert(harness.hooks.as_str());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let kinds = Hooks::WORDS.iter().filter(|(_, kind)| *kind != Hooks::None);
    assert_eq!(met, kinds.map(|(word, _)| *word).collect());
}
