//! Sessions whose run state is unknown. They are left alone; when that lasts, an operator is called.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::world::World;
use super::Root;
use crate::actors::effects;
use crate::actors::records::escalations::{self, Ends};
use crate::domain::ids::ChildId;
use crate::domain::message::{Escalation, Severity};
use crate::domain::problem::ProblemKind;
use crate::domain::restart::Mono;
use crate::ports::relics::Txn;

/// The time for which the state may be unknown: the default of the time that a session may be silent.
const LONG: Duration = Duration::from_secs(600);

impl Root {
    /// Notes the children that a look could not observe, and those whose start was put off for that reason. The
    /// escalation is opened once; none while a start waits for a held rig, about which a person was called: that time
    /// does not count either.
    pub(super) fn note_unseen(&mut self, mut unseen: BTreeMap<ChildId, String>) {
        let is_held = |id: &ChildId| match id {
            ChildId::Raider(raider) => effects::is_held(&self.world, &raider.rig),
            ChildId::Agent(_) => false,
        };
        let mut waits = BTreeSet::new();
        let records = self.children.iter();
        let starts = records.filter_map(|(id, record)| Some((id, record.child.unseen()?)));
        for (id, why) in starts {
            if let Entry::Vacant(new) = unseen.entry(id.clone()) {
                new.insert(why.clone());
                if is_held(id) {
                    waits.insert(id.clone());
                }
            }
        }
        let mono = self.world.clock.mono();
        let before = std::mem::take(&mut self.unseen);
        for (id, why) in &unseen {
            let waits = waits.contains(id);
            // A call that was made before the hold stays open.
            let counts = |since: &Mono| !waits || mono.saturating_sub(*since) >= LONG;
            let since = before.get(id).copied().filter(counts).unwrap_or(mono);
            self.unseen.insert(id.clone(), since);
            if mono.saturating_sub(since) >= LONG && !waits {
                tokio::spawn(call(Arc::clone(&self.world), id.clone(), why.clone()));
            }
        }
        for (id, since) in before {
            if !unseen.contains_key(&id) && mono.saturating_sub(since) >= LONG {
                tokio::spawn(close_escalation(Arc::clone(&self.world), id));
            }
        }
    }
}

async fn call(world: Arc<World>, id: ChildId, why: String) {
    let hint = "until its state can be read, it is left alone and no session starts in its place";
    let body = Escalation {
        agent: id.to_string(),
        relic: None,
        problem: ProblemKind::Unseen.into(),
        severity: Severity::High,
        evidence: format!("{why}\n{hint}"),
    };
    if let Err(error) = escalations::call(&world, "root", Ends::WithSandbox, body).await {
        tracing::warn!(
            child = %id,
            %error,
            "the escalation about a session whose state is unknown could not be stored; no \
            person is called"
        );
    }
}

/// Closes the escalation about a session that can be observed again. An earlier supervisor may have opened it.
pub(super) async fn close_escalation(world: Arc<World>, id: ChildId) {
    let who = id.to_string();
    let seen = move |txn: &mut dyn Txn| {
        escalations::close_matching(txn, &[ProblemKind::Unseen], |it, _| it == who)
    };
    match world.store.run(seen).await {
        Ok(()) => {}
        Err(error) => tracing::warn!(
            child = %id,
            %error,
            "the escalation about a session that can be observed again could not be closed; it \
            stays open"
        ),
    }
}
