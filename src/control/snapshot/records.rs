//! The records of the store in a snapshot, read in one transaction. Closed work is not read: what is shown of it is
//! counted by the store.

use std::collections::{BTreeMap, BTreeSet};

use crate::actors::records::agent_hooks;
use crate::actors::records::auto_charge;
use crate::actors::records::escalations::{self, Entry};
use crate::actors::records::operator_orders::{self, OperatorOrders};
use crate::actors::records::stalls;
use crate::actors::usage;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::domain::auto_charge::Pauses;
use crate::domain::drum::Mailbox;
use crate::domain::ids::{AgentName, Incarnation, RaiderId, RelicId};
use crate::domain::merge::MergeRequest;
use crate::domain::phase::WorkPhase;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Hook, Relic, RelicKind, RelicStatus};
use crate::domain::saga::{Saga, SagaKind};
use crate::domain::stall::{Steps, Wait};
use crate::ports::relics::{RelicFilter, StoreError, Txn};

/// Everything in the store that is shown.
pub(in crate::control) struct Records {
    pub(in crate::control) hooks: Vec<Hook>,
    sagas: BTreeMap<String, Vec<Saga>>,
    /// Unfinished merge requests.
    pub(in crate::control) queue: Vec<MergeRequest>,
    /// The number of tasks by prefix and status.
    pub(in crate::control) relics: BTreeMap<(String, RelicStatus), u64>,
    pub(in crate::control) escalations: usize,
    /// The open escalations without acknowledgement, except those whose problem `status` shows by itself.
    pub(in crate::control) calls: Vec<Call>,
    /// The number of drums to people that are not acknowledged.
    pub(in crate::control) drums: u64,
    /// The open escalations about sandboxes, by raider.
    sandboxes: BTreeMap<RaiderId, Vec<SandboxCall>>,
    pub(in crate::control) blocked: Vec<Blocked>,
    /// The number of the newest event.
    pub(in crate::control) seq: u64,
    /// The steps taken against stalled raiders.
    pub(in crate::control) stalled: BTreeMap<RaiderId, Steps>,
    /// The last wait of each raider.
    pub(in crate::control) waits: BTreeMap<RaiderId, Wait>,
    pub(in crate::control) orders: OperatorOrders,
    /// The relics on the hooks of standing agents.
    pub(in crate::control) agent_hooks: BTreeMap<AgentName, RelicId>,
    /// The pauses of automatic charging.
    pub(in crate::control) pauses: Pauses,
    /// Tokens and money.
    pub(in crate::control) usage: usage::Now,
    held: BTreeSet<RaiderId>,
    phases: BTreeMap<RaiderId, WorkPhase>,
}

/// An open escalation without acknowledgement.
pub(in crate::control) struct Call {
    pub(in crate::control) id: RelicId,
    /// The subject.
    pub(in crate::control) about: String,
    pub(in crate::control) problem: String,
}

/// An open escalation about the sandbox of one incarnation.
struct SandboxCall {
    incarnation: Incarnation,
    id: RelicId,
    problem: String,
}

/// A blocked task: it stands still until a person acts.
pub(in crate::control) struct Blocked {
    /// The relic.
    pub(in crate::control) id: RelicId,
    pub(in crate::control) title: String,
    pub(in crate::control) raider: Option<RaiderId>,
    /// The escalation about it and its problem, while one is open.
    pub(in crate::control) escalation: Option<(RelicId, String)>,
}

impl Records {
    /// Returns the open saga of this kind about this subject.
    pub(in crate::control) fn saga(&self, kind: SagaKind, subject: &str) -> Option<&Saga> {
        let mut sagas = self.sagas.get(subject)?.iter();
        sagas.find(|saga| saga.kind == kind)
    }

    /// Returns whether the raider holds a slot, by a hook or an open saga.
    pub(super) fn is_held(&self, raider: &RaiderId) -> bool {
        self.held.contains(raider)
    }

    /// Returns the phase of the work of a raider with a hook.
    pub(in crate::control) fn phase(&self, raider: &RaiderId) -> Option<WorkPhase> {
        self.phases.get(raider).copied()
    }

    /// Returns whether the raider has work, and is neither being charged nor removed.
    pub(super) fn is_at_work(&self, raider: &RaiderId) -> bool {
        self.phase(raider).is_some_and(WorkPhase::is_open)
    }

    /// Returns the id and problem of the first open escalation about the raider's sandbox.
    pub(in crate::control) fn sandbox_call(&self, hook: &Hook) -> Option<(&RelicId, &str)> {
        let mut calls = self.sandboxes.get(&hook.raider)?.iter();
        let call = calls.find(|call| call.incarnation == hook.incarnation)?;
        Some((&call.id, &call.problem))
    }

    /// Returns whether this relic is blocked.
    pub(in crate::control) fn is_blocked(&self, relic: &RelicId) -> bool {
        self.blocked.iter().any(|blocked| blocked.id == *relic)
    }
}

/// Reads them.
pub(super) async fn read(world: &World) -> Result<Records, ControlError> {
    Ok(world.store.run(read_in).await?)
}

fn read_in(txn: &mut dyn Txn) -> Result<Records, StoreError> {
    let blocked = txn.relics(&RelicFilter {
        kind: Some(RelicKind::Task),
        status: Some(RelicStatus::Blocked),
        ..RelicFilter::default()
    })?;
    let open = escalations::open(txn)?;
    let counts = txn.task_counts()?.into_iter();
    let raiders = txn.raiders(None)?;
    let phases = raiders.iter();
    let phases = phases.map(|one| (one.hook.raider.clone(), WorkPhase::of(one)));
    let phases = phases.collect();
    let hooks: Vec<Hook> = raiders.into_iter().map(|one| one.hook).collect();
    let mut sagas: BTreeMap<String, Vec<Saga>> = BTreeMap::new();
    for saga in txn.sagas(None)? {
        sagas.entry(saga.subject.clone()).or_default().push(saga);
    }
    let busy = sagas.keys().filter_map(|subject| subject.parse().ok());
    let hooked = hooks.iter().map(|hook| hook.raider.clone());
    Ok(Records {
        relics: counts
            .map(|(prefix, status, count)| ((prefix, status), count))
            .collect(),
        held: hooked.chain(busy).collect(),
        phases,
        usage: usage::now(txn, &hooks)?,
        stalled: stalls::all_steps(txn, &hooks)?,
        waits: stalls::all_waits(txn)?,
        queue: txn.mrs(None, true)?,
        escalations: open.len(),
        calls: unanswered(&open),
        drums: txn.count_drums(&Mailbox::People, "")?.all,
        sandboxes: about_sandboxes(&open),
        blocked: described(&blocked, &open),
        seq: txn.last_seq()?,
        orders: operator_orders::read(txn)?,
        agent_hooks: agent_hooks::all(txn)?,
        pauses: auto_charge::pauses(txn)?,
        hooks,
        sagas,
    })
}

/// Problems that have a row of their own in `status`: parked accounts, spent budgets, faults of own files.
const WITH_ROW: &[ProblemKind] = &[
    ProblemKind::LoginWanted,
    ProblemKind::BudgetSpent,
    ProblemKind::Ground,
];

/// Returns the escalations without acknowledgement that no other record shows.
fn unanswered(open: &[Entry]) -> Vec<Call> {
    let waits =
        |entry: &&Entry| !entry.standing.acked && !WITH_ROW.contains(&entry.problem().kind());
    let call = |entry: &Entry| Call {
        id: entry.relic.id.clone(),
        about: entry.about().0.to_owned(),
        problem: entry.relic.title.clone(),
    };
    open.iter().filter(waits).map(call).collect()
}

/// Returns the escalations that are about a sandbox.
fn about_sandboxes(open: &[Entry]) -> BTreeMap<RaiderId, Vec<SandboxCall>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in open {
        let (subject, _) = entry.about();
        if let (Some(incarnation), Ok(raider)) = (entry.standing.sandbox, subject.parse()) {
            found.entry(raider).or_default().push(SandboxCall {
                incarnation,
                id: entry.relic.id.clone(),
                problem: entry.relic.title.clone(),
            });
        }
    }
    found
}

/// Returns the blocked tasks, each with the open escalation that blocks it: the newest of those whose problem blocks a
/// relic. Without one, as for a task that a person imported, it is the first about the relic.
fn described(tasks: &[Relic], open: &[Entry]) -> Vec<Blocked> {
    let mut about: BTreeMap<_, &Entry> = BTreeMap::new();
    let blocks = |entry: &Entry| {
        let blocks = entry.problem().kind().blocks_relic();
        blocks.then_some(entry.relic.created)
    };
    for entry in open {
        if let Some(relic) = entry.about().1 {
            let known = about.entry(relic).or_insert(entry);
            if blocks(entry) > blocks(known) {
                *known = entry;
            }
        }
    }
    let blocked = tasks.iter().map(|relic| Blocked {
        id: relic.id.clone(),
        title: relic.title.clone(),
        raider: relic.raider.clone(),
        escalation: about
            .get(&relic.id)
            .map(|entry| (entry.relic.id.clone(), entry.relic.title.clone())),
    });
    blocked.collect()
}
