//! Cleanup wisps (`witness-patrol.md`): records of a witness while a raider cannot be removed.
//!
//! ```text
//!  (none) ── MERGE_READY sent ──────► merge-requested ── the queue is through with it ──► closed
//!  (none) ── holds unsaved work ────► pending ─────────┐
//!  (none) ── cannot be looked into ─► zombie-detected ─┴─ gone, back at work, known ────► closed
//!  closed ── end of the patrol's cycle ──► squashed into the cycle's digest
//! ```
//!
//! They are for people to read. The only decision based on them is how long a sandbox has been kept: every look starts
//! from ground truth, and closes wisps that it does not confirm.

use super::ids::{Incarnation, RaiderId, RelicId, RigName};
use super::relic::Relic;

/// Prefix of the ids of wisps and digests.
pub const PREFIX: &str = "wisp";

words! {
    /// The reason why a raider is tracked, as a label of its wisp.
    Cleanup {
        /// It holds work that a removal would lose.
        Pending => "pending",
        /// The merge queue has its work.
        MergeRequested => "merge-requested",
        /// Its session is dead, and its work cannot be inspected.
        ZombieDetected => "zombie-detected",
    }
}

impl Cleanup {
    /// Returns the state of a wisp.
    #[must_use]
    pub fn of(wisp: &Relic) -> Option<Self> {
        let has = |state: &Self| wisp.labels.iter().any(|label| label == state.as_str());
        Self::ALL.iter().copied().find(has)
    }
}

/// The raider and the work that a wisp is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The raider.
    pub raider: RaiderId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The relic that it works on, where known.
    pub relic: Option<RelicId>,
}

impl About {
    /// Identifies a sandbox of that name without a known owner. No raider has incarnation 0.
    #[must_use]
    pub fn unowned(raider: &RaiderId) -> Self {
        Self {
            raider: raider.clone(),
            incarnation: Incarnation(0),
            relic: None,
        }
    }

    /// Returns true for a sandbox without a known owner.
    #[must_use]
    pub fn is_unowned(&self) -> bool {
        self.incarnation == Incarnation(0)
    }

    /// Returns the labels of a wisp in that state: its witness, its subject, and the state.
    #[must_use]
    pub fn labels(&self, state: Cleanup) -> Vec<String> {
        vec![
            cycle(&self.raider.rig),
            self.label(),
            state.as_str().to_owned(),
        ]
    }

    /// Returns the label by which it is found again.
    #[must_use]
    pub fn label(&self) -> String {
        let relic = self.relic.as_ref().map_or("", RelicId::as_str);
        format!("{ABOUT}{}:{}:{relic}", self.raider, self.incarnation.0)
    }

    /// Returns the subject of a wisp.
    #[must_use]
    pub fn of(wisp: &Relic) -> Option<Self> {
        let mut labels = wisp.labels.iter();
        let label = labels.find_map(|label| label.strip_prefix(ABOUT))?;
        let mut parts = label.split(':');
        let (raider, incarnation, relic) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            raider: raider.parse().ok()?,
            incarnation: Incarnation(incarnation.parse().ok()?),
            relic: RelicId::new(relic).ok(),
        })
    }
}

const ABOUT: &str = "about:";

/// Returns the label of wisps in the present cycle of a rig's witness.
#[must_use]
pub fn cycle(rig: &RigName) -> String {
    format!("cleanup:{rig}")
}

/// Returns the label of the digests of a rig's witness.
#[must_use]
pub fn digest(rig: &RigName) -> String {
    format!("digest:{rig}")
}

/// Returns the line of a wisp in a digest.
#[must_use]
pub fn line(wisp: &Relic) -> String {
    let state = Cleanup::of(wisp).map_or("", Cleanup::as_str);
    let about = About::of(wisp);
    let who = about
        .as_ref()
        .map_or_else(String::new, |about| about.raider.to_string());
    let relic = about.and_then(|about| about.relic);
    let relic = relic.map_or_else(String::new, |relic| format!(" with {relic}"));
    let seconds = wisp
        .closed
        .map_or(0, |closed| closed.duration_since(wisp.created).as_secs());
    let end = wisp.context.as_deref().unwrap_or_default();
    format!(
        "{}: {who}{relic} was {state} for {seconds} s: {end}",
        wisp.id
    )
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::domain::relic::{RelicKind, RelicStatus};

    fn wisp(labels: Vec<String>) -> Relic {
        Relic {
            id: RelicId::new("wisp-1").unwrap(),
            kind: RelicKind::Wisp,
            title: String::new(),
            body: String::new(),
            status: RelicStatus::Closed,
            priority: 0,
            labels,
            assignee: None,
            parent: None,
            deps: Vec::new(),
            created: Timestamp::from_second(100).unwrap(),
            closed: Timestamp::from_second(190).ok(),
            raider: None,
            until: None,
            branch: None,
            starts_on: None,
            reworks: 0,
            charge_failures: 0,
            context: Some("merged".to_owned()),
            target: None,
            harness: None,
            by: None,
            source: None,
        }
    }

    #[test]
    fn subject_of_a_wisp_is_read_from_its_labels() {
        for relic in [None, RelicId::new("gt-7").ok()] {
            for &state in Cleanup::ALL {
                let about = About {
                    raider: "horde/raiders/Toast".parse().unwrap(),
                    incarnation: Incarnation(3),
                    relic: relic.clone(),
                };
                let wisp = wisp(about.labels(state));
                assert_eq!(Cleanup::of(&wisp), Some(state));
                assert_eq!(About::of(&wisp), Some(about));
            }
        }
        let torn = wisp(vec!["about:horde".to_owned(), "other".to_owned()]);
        assert_eq!((About::of(&torn), Cleanup::of(&torn)), (None, None));
    }

    #[test]
    fn line_of_a_digest_names_raider_reason_duration_and_end() {
        let about = About {
            raider: "horde/raiders/Toast".parse().unwrap(),
            incarnation: Incarnation(3),
            relic: RelicId::new("gt-7").ok(),
        };
        assert_eq!(
            line(&wisp(about.labels(Cleanup::MergeRequested))),
            "wisp-1: horde/raiders/Toast with gt-7 was merge-requested for 90 s: merged"
        );
    }
}
