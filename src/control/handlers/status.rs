//! `status`: everything on one page (`contract.md`, 2.4), from the published snapshot. States are derived here, from
//! its facts, for each request.

mod agents;
mod raiders;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

pub(super) use self::agents::agents;
use self::agents::pools;
pub(super) use self::raiders::{of_rig, raider_state};
use super::{accounts, auto};
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::{self, Blocked, Budget, Call, MrRow, Status, Today};
use crate::control::server::Items;
use crate::control::snapshot::{self, Published, Snapshot};
use crate::domain::budget::OnExceed;
use crate::domain::city::Rig;
use crate::domain::merge;
use crate::domain::relic::RelicStatus;

/// The interval of items without a change: the ages on the screen grow.
const IDLE: Duration = Duration::from_secs(5);

/// Returns the status as JSON.
pub(super) async fn status(
    published: &Published,
    world: &World,
    started: Duration,
) -> Result<String, ControlError> {
    let snapshot = published.now(world).await?;
    text(world, &snapshot, started)
}

/// Streams the status: now, and after each change, at a pace that costs little. A client that does not read holds up
/// itself alone.
pub(super) fn watch(published: &Arc<Published>, world: &Arc<World>, started: Duration) -> Items {
    let (send, receive) = mpsc::channel(1);
    let (published, mut world) = (Arc::clone(published), Arc::clone(world));
    tokio::spawn(async move {
        let mut next = published.now(&world).await;
        loop {
            world = world.newest();
            let begun = Instant::now();
            let seen = next.as_ref().map_or(0, |snapshot| snapshot.generation);
            let item = next.and_then(|snapshot| text(&world, &snapshot, started));
            published.shown(begun.elapsed());
            let failed = item.is_err();
            if send.send(item).await.is_err() || failed {
                return;
            }
            next = tokio::select! {
                () = send.closed() => return,
                next = published.next(&world, seen, IDLE) => next,
            };
        }
    });
    receive
}

fn text(world: &World, snapshot: &Snapshot, started: Duration) -> Result<String, ControlError> {
    let status = of(world, snapshot, started);
    serde_json::to_string(&status).map_err(|error| ControlError::internal(error.to_string()))
}

/// Returns the status of a snapshot, with what the boards know now.
pub(super) fn of(world: &World, snapshot: &Snapshot, started: Duration) -> Status {
    let records = &snapshot.records;
    let children = snapshot.children();
    let rigs = world.city.rigs.iter().map(|rig| {
        let raiders = of_rig(world, snapshot, &children, rig);
        rig_row(world, snapshot, rig, raiders)
    });
    let rigs: Vec<_> = rigs.collect();
    let uptime = world.clock.mono().saturating_sub(started);
    Status {
        city: world.city.name.to_string(),
        pid: std::process::id(),
        uptime_s: uptime.as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config_revision: world.city.revision.clone(),
        last_reload_error: world.directory.reload_error(),
        ground: world.directory.ground.troubles(),
        agents: agents(
            world,
            &snapshot.views,
            &records.orders,
            &records.agent_hooks,
            &records.usage.agents,
        ),
        pools: pools(world, snapshot),
        calls: calls(snapshot, &rigs),
        rigs,
        accounts: accounts::list(world),
        budgets: budgets(snapshot),
        automations: auto::rows(world, &snapshot.automations),
        escalations: records.escalations,
        drums: records.drums,
        usage: Today {
            today: (&records.usage.sum()).into(),
        },
        seq: records.seq,
        socket: world.socket.clone(),
    }
}

/// Returns the unanswered escalations that no row of a raider or a blocked relic names.
fn calls(snapshot: &Snapshot, rigs: &[answers::Rig]) -> Vec<Call> {
    let of_raiders = rigs.iter().flat_map(|rig| &rig.raiders);
    let of_raiders = of_raiders.filter_map(|raider| raider.escalation.as_ref().map(|it| &it.id));
    let of_relics = rigs.iter().flat_map(|rig| &rig.blocked);
    let of_relics = of_relics.filter_map(|relic| relic.escalation.as_ref());
    let named: BTreeSet<_> = of_raiders.chain(of_relics).collect();
    let calls = snapshot.records.calls.iter();
    let calls = calls.filter(|call| !named.contains(&call.id));
    let row = |call: &snapshot::Call| Call {
        id: call.id.clone(),
        about: call.about.clone(),
        problem: call.problem.clone(),
    };
    calls.map(row).collect()
}

fn budgets(snapshot: &Snapshot) -> Vec<Budget> {
    let budgets = snapshot.budgets.iter().map(|(over, until)| {
        let parks = over.budget.on_exceed == OnExceed::Park;
        Budget {
            of: over.scope.to_string(),
            usd_per_day: over.budget.usd_per_day,
            spent: over.spent,
            detail: over.says(),
            parks,
            until: parks.then(|| until.clone()),
        }
    });
    budgets.collect()
}

fn rig_row(
    world: &World,
    snapshot: &Snapshot,
    rig: &Rig,
    raiders: Vec<answers::Raider>,
) -> answers::Rig {
    let (records, now) = (&snapshot.records, world.clock.now());
    let queue = records.queue.iter().filter(|mr| mr.rig == rig.name);
    let mut queue: Vec<_> = queue.collect();
    queue.sort_by(|a, b| merge::order(a).cmp(&merge::order(b)));
    let relics = |status| {
        let count = records.relics.get(&(rig.prefix.clone(), status));
        count.copied().unwrap_or_default()
    };
    let blocked = records.blocked.iter();
    let blocked = blocked.filter(|relic| relic.id.prefix() == rig.prefix);
    let suspended = rig.suspended || world.city.suspended;
    answers::Rig {
        name: rig.name.clone(),
        raiders,
        draining: rig.draining,
        suspended,
        relics: answers::RelicCounts {
            open: relics(RelicStatus::Open),
            hooked: relics(RelicStatus::Hooked),
            blocked: relics(RelicStatus::Blocked),
            deferred: relics(RelicStatus::Deferred),
        },
        charge_paused: records.pauses.of(&rig.name),
        blocked: blocked.map(blocked_row).collect(),
        forge: answers::ForgeRow {
            paused: suspended,
            queue: queue.into_iter().map(|mr| MrRow::of(mr, now)).collect(),
        },
        witness: answers::WitnessRow {
            last_patrol: world.directory.last_patrol(&rig.name),
        },
    }
}

fn blocked_row(relic: &snapshot::Blocked) -> Blocked {
    let (escalation, problem) = relic.escalation.clone().unzip();
    Blocked {
        id: relic.id.clone(),
        title: relic.title.clone(),
        raider: relic.raider.clone(),
        escalation,
        problem,
    }
}
