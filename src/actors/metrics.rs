//! Counters since the start of the process, for `hd metrics`. Values that can be derived on request are not here
//! (`control::handlers::metrics`); these can only be counted as they happen: how often, and how long.
//!
//! Events are counted when the store's writer commits them, so that no journalled event is counted twice. Labels are
//! names from the configuration, slots, operations and types; never a relic, a session or an incarnation.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

use crate::domain::event::{Event, EventType};
use crate::domain::event_data::Merged;
use crate::domain::ids::{RaiderId, RigName};

/// Buckets in seconds, from an answer out of memory to a session that is waited for.
const REQUESTS: &[f64] = &[0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];
/// Buckets in seconds of a look at everything.
const PATROLS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
/// Buckets in seconds of a test run.
const GATES: &[f64] = &[
    1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0,
];

/// Counters and histograms.
pub struct Metrics {
    registry: Registry,
    events: IntCounterVec,
    starts: IntCounterVec,
    adoptions: IntCounterVec,
    deaths: IntCounterVec,
    restarts: IntCounterVec,
    landings: IntCounterVec,
    automations: IntCounterVec,
    gates: HistogramVec,
    patrols: Histogram,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    store_refused: IntCounter,
    /// Children whose next start is a restart.
    due: Mutex<BTreeSet<String>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates all counters at zero. Known labels exist from the start, because a rate cannot be computed from a
    /// counter that first appears as one.
    #[must_use]
    pub fn new() -> Self {
        let registry = Registry::new();
        let of = |name: &str, help: &str, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels);
            enter(
                &registry,
                counters.expect("a name and labels that are right"),
            )
        };
        let timed = |name: &str, help: &str, buckets: &[f64]| {
            HistogramOpts::new(name, help).buckets(buckets.to_vec())
        };
        let per = |opts: HistogramOpts, labels: &[&str]| {
            let histograms = HistogramVec::new(opts, labels);
            enter(
                &registry,
                histograms.expect("a name and labels that are right"),
            )
        };
        let gates = timed(
            "horde_gate_run_seconds",
            "Runs of gates, by verdict.",
            GATES,
        );
        let patrols = timed("horde_patrol_seconds", "Checks of all sessions.", PATROLS);
        let patrols = Histogram::with_opts(patrols).expect("a name that is right");
        let request_help = "Time from a request over the control socket to its answer.";
        let request_seconds = timed("horde_control_request_seconds", request_help, REQUESTS);
        let refused_help = "Transactions that the relic store could not write.";
        let refused = IntCounter::new("horde_store_refused_commits_total", refused_help);
        let metrics = Self {
            events: of("horde_events_total", "Events of the journal.", &["type"]),
            starts: of("horde_session_starts_total", "Sessions started.", &["name"]),
            adoptions: of(
                "horde_session_adoptions_total",
                "Sessions that were found running and adopted.",
                &["name"],
            ),
            deaths: of(
                "horde_session_deaths_total",
                "Unplanned ends of sessions, and starts that failed.",
                &["name"],
            ),
            restarts: of(
                "horde_session_restarts_total",
                "Sessions started after a death or a planned cycle.",
                &["name"],
            ),
            landings: of("horde_landings_total", "Branches that landed.", &["rig"]),
            automations: of(
                "horde_automation_runs_total",
                "Finished or skipped runs of automations.",
                &["automation", "result"],
            ),
            gates: per(gates, &["rig", "verdict"]),
            patrols: enter(&registry, patrols),
            requests: of(
                "horde_control_requests_total",
                "Requests over the control socket, by operation and result.",
                &["op", "result"],
            ),
            request_seconds: per(request_seconds, &["op"]),
            store_refused: enter(&registry, refused.expect("a name that is right")),
            due: Mutex::default(),
            registry,
        };
        metrics.begin_at_zero();
        metrics
    }

    fn begin_at_zero(&self) {
        for kind in EventType::ALL {
            self.events.with_label_values(&[kind.as_str()]);
        }
    }

    /// Returns everything that was counted.
    #[must_use]
    pub fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }

    /// Counts an event of the journal.
    pub(super) fn count(&self, event: &Event) {
        self.events.with_label_values(&[&event.kind]).inc();
        let Some(kind) = event.known() else {
            return;
        };
        let of_subject = |counters: &IntCounterVec| {
            counters.with_label_values(&[&event.subject]).inc();
        };
        match kind {
            EventType::AgentStarted => {
                of_subject(&self.starts);
                if self.no_longer_due(&event.subject) {
                    of_subject(&self.restarts);
                }
            }
            EventType::AgentAdopted => of_subject(&self.adoptions),
            EventType::AgentCrashed => {
                of_subject(&self.deaths);
                self.due(&event.subject);
            }
            EventType::AgentRestarted => self.due(&event.subject),
            EventType::AgentStopped | EventType::AgentDrained => {
                self.no_longer_due(&event.subject);
            }
            EventType::RaiderMerged => {
                let noop = event.read::<Merged>().is_some_and(|merged| merged.noop);
                if !noop && let Ok(raider) = event.subject.parse::<RaiderId>() {
                    let rig = raider.rig.as_str();
                    self.landings.with_label_values(&[rig]).inc();
                }
            }
            EventType::AutomationCompleted
            | EventType::AutomationFailed
            | EventType::AutomationSkipped => {
                let result = event.kind.trim_start_matches("automation.");
                let labels = [event.subject.as_str(), result];
                self.automations.with_label_values(&labels).inc();
            }
            _ => {}
        }
    }

    fn due(&self, name: &str) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.insert(name.to_owned());
    }

    fn no_longer_due(&self, name: &str) -> bool {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.remove(name)
    }

    /// Counts a commit that the store could not write.
    pub(super) fn store_refused(&self) {
        self.store_refused.inc();
    }

    /// Counts a run of a gate.
    pub(super) fn gate_ran(&self, rig: &RigName, verdict: &str, took: Duration) {
        let labels = [rig.as_str(), verdict];
        self.gates
            .with_label_values(&labels)
            .observe(took.as_secs_f64());
    }

    /// Counts a look at everything.
    pub(super) fn patrolled(&self, took: Duration) {
        self.patrols.observe(took.as_secs_f64());
    }

    /// Counts a request over the control socket. `op` and `result` are words of the protocol.
    pub fn answered(&self, op: &str, result: &str, took: Duration) {
        self.requests.with_label_values(&[op, result]).inc();
        self.request_seconds
            .with_label_values(&[op])
            .observe(took.as_secs_f64());
    }
}

fn enter<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> C {
    let entered = registry.register(Box::new(collector.clone()));
    entered.expect("each name is entered once");
    collector
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::ids::RelicId;

    fn happens(metrics: &Metrics, kind: EventType, subject: &str, data: Value) {
        metrics.count(&Event {
            seq: 1,
            ts: "2026-01-01T00:00:00Z".parse().unwrap(),
            kind: kind.as_str().into(),
            subject: subject.into(),
            cause: "internal".into(),
            data,
        });
    }

    #[test]
    fn a_start_after_a_death_or_a_cycle_is_a_restart() {
        let metrics = Metrics::new();
        let happen = |kinds: &[EventType]| {
            for kind in kinds {
                happens(&metrics, *kind, "cook", Value::Null);
            }
        };
        let counts = || {
            [&metrics.starts, &metrics.deaths, &metrics.restarts]
                .map(|counters| counters.with_label_values(&["cook"]).get())
        };
        happen(&[EventType::AgentStarted]);
        assert_eq!(counts(), [1, 0, 0]);
        // A failed start is a death, too; the start after them all is one restart.
        happen(&[
            EventType::AgentCrashed,
            EventType::AgentCrashed,
            EventType::AgentStarted,
        ]);
        assert_eq!(counts(), [2, 2, 1]);
        happen(&[EventType::AgentRestarted, EventType::AgentStarted]);
        assert_eq!(counts(), [3, 2, 2]);
        happen(&[
            EventType::AgentCrashed,
            EventType::AgentStopped,
            EventType::AgentStarted,
        ]);
        assert_eq!(counts(), [4, 3, 2], "it was stopped in between");
    }

    #[test]
    fn landings_are_counted_by_rig_and_runs_by_result() {
        let metrics = Metrics::new();
        let raider = "horde/raiders/Toast";
        for noop in [false, true, false] {
            let data = json!(Merged {
                relic: RelicId::new("gt-1").unwrap(),
                target: "main".to_owned(),
                merge_commit: "abc".to_owned(),
                noop,
            });
            happens(&metrics, EventType::RaiderMerged, raider, data);
        }
        assert_eq!(metrics.landings.with_label_values(&["horde"]).get(), 2);
        happens(&metrics, EventType::AutomationFailed, "greet", Value::Null);
        let failed = metrics.automations.with_label_values(&["greet", "failed"]);
        assert_eq!(failed.get(), 1);
    }

    #[test]
    fn every_type_of_event_is_there_before_it_happens() {
        let families = Metrics::new().families();
        let events = families.iter().find(|f| f.name() == "horde_events_total");
        assert_eq!(events.unwrap().get_metric().len(), EventType::ALL.len());
    }
}
