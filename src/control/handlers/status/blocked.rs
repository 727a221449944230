//! Blocked relics in `status`: they stand still until a person acts, so they are shown first and with the reason.

use serde_json::{Value, json};

use crate::actors::records::escalations::Entry;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::relic::{Relic, RelicStatus};

/// A blocked relic.
pub(super) struct Blocked {
    /// The relic.
    pub(super) id: RelicId,
    title: String,
    raider: Option<RaiderId>,
    /// The escalation about it and its problem, while one is open.
    escalation: Option<(RelicId, String)>,
}

/// Returns the blocked relics among these tasks, with the first open escalation about each.
pub(super) fn of(tasks: &[Relic], open: &[Entry]) -> Vec<Blocked> {
    let blocked = tasks
        .iter()
        .filter(|relic| relic.status == RelicStatus::Blocked);
    let blocked = blocked.map(|relic| {
        let about = |entry: &&Entry| entry.about().1.as_ref() == Some(&relic.id);
        let escalation = open.iter().find(about);
        Blocked {
            id: relic.id.clone(),
            title: relic.title.clone(),
            raider: relic.raider.clone(),
            escalation: escalation.map(|entry| (entry.relic.id.clone(), entry.relic.title.clone())),
        }
    });
    blocked.collect()
}

/// Returns the blocked relics of a rig.
pub(super) fn json(blocked: &[Blocked], prefix: &str) -> Vec<Value> {
    let own = blocked.iter().filter(|relic| relic.id.prefix() == prefix);
    let row = |relic: &Blocked| {
        let escalation = relic.escalation.as_ref().map(|(id, _)| id);
        let problem = relic.escalation.as_ref().map(|(_, problem)| problem);
        json!({
            "id": relic.id, "title": relic.title, "raider": relic.raider,
            "escalation": escalation, "problem": problem,
        })
    };
    own.map(row).collect()
}
