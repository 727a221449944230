//! `metrics`: the text format of Prometheus, version 0.0.4. Values that can be derived are derived here, at the moment
//! of asking, into families that live as long as the answer; counts of past occurrences come from `actors::metrics`.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::{Counter, GaugeVec, Opts, Registry, TextEncoder};
use serde_json::Value;

use super::{status, to_json, word};
use crate::actors::mail::{ChildState, ChildView};
use crate::actors::world::World;
use crate::control::protocol::{ControlError, answers};
use crate::control::snapshot::{Published, Records, Snapshot};
use crate::domain::facts::Usage;
use crate::domain::ids::ChildId;

/// The number of occurrences of each row of labels.
type Counts = BTreeMap<Vec<String>, f64>;

pub(super) async fn metrics(
    published: &Published,
    world: &World,
    started: Duration,
) -> Result<Value, ControlError> {
    let snapshot = published.now(world).await?;
    let uptime = world.clock.mono().saturating_sub(started);
    let text = text(world, &snapshot, uptime).map_err(|error| {
        let message = format!("the metrics cannot be encoded: {error}");
        ControlError::internal(message)
    })?;
    to_json(&answers::Metrics {
        content_type: prometheus::TEXT_FORMAT.to_owned(),
        text,
    })
}

fn text(world: &World, snapshot: &Snapshot, uptime: Duration) -> prometheus::Result<String> {
    let now = Registry::new();
    city(&now, world, &snapshot.records, uptime)?;
    children(&now, world, snapshot)?;
    queues(&now, world, &snapshot.records)?;
    tokens(&now, &snapshot.records)?;
    let mut families = now.gather();
    families.extend(world.store.metrics().families());
    families.sort_by(|a, b| a.name().cmp(b.name()));
    TextEncoder::new().encode_to_string(&families)
}

fn gauge(
    now: &Registry,
    (name, help): (&str, &str),
    labels: &[&str],
    rows: impl IntoIterator<Item = (Vec<String>, f64)>,
) -> prometheus::Result<()> {
    let gauges = GaugeVec::new(Opts::new(name, help), labels)?;
    for (row, value) in rows {
        gauges.get_metric_with_label_values(&row)?.set(value);
    }
    now.register(Box::new(gauges))
}

/// Registers a gauge without labels.
fn plain(now: &Registry, name: &str, help: &str, value: f64) -> prometheus::Result<()> {
    gauge(now, (name, help), &[], [(Vec::new(), value)])
}

fn city(
    now: &Registry,
    world: &World,
    stored: &Records,
    uptime: Duration,
) -> prometheus::Result<()> {
    let build = ("horde_build_info", "The running version; always 1.");
    let version = vec![env!("CARGO_PKG_VERSION").to_owned()];
    gauge(now, build, &["version"], [(version, 1.0)])?;
    let up = uptime.as_secs_f64();
    plain(
        now,
        "horde_uptime_seconds",
        "Seconds since the socket answers.",
        up,
    )?;
    let rejected = f64::from(u8::from(world.directory.reload_error().is_some()));
    let help = "1 when the configuration on disk is not in force (see last_reload_error).";
    plain(now, "horde_config_not_in_force", help, rejected)?;
    let degraded = f64::from(u8::from(world.store.is_degraded()));
    let help = "1 when the relic store cannot write.";
    plain(now, "horde_store_degraded", help, degraded)?;
    let escalations = number(stored.escalations);
    let help = "Open escalations.";
    plain(now, "horde_escalations_open", help, escalations)?;
    match (world.usage)() {
        Some(used) => process(now, used),
        None => Ok(()),
    }
}

/// Adds the tokens that today has used so far.
fn tokens(now: &Registry, stored: &Records) -> prometheus::Result<()> {
    let today = &stored.usage.today;
    let rows = today.iter().flat_map(|(harness, sum)| {
        let tokens = sum.tokens;
        [
            ("input", tokens.input),
            ("output", tokens.output),
            ("cache_read", tokens.cache_read),
            ("cache_write", tokens.cache_write),
        ]
        .map(|(kind, count)| (vec![harness.clone(), kind.to_owned()], count as f64))
    });
    let help = "Tokens used since midnight, from transcripts.";
    gauge(
        now,
        ("horde_tokens_today", help),
        &["harness", "kind"],
        rows,
    )?;
    let rows = today
        .iter()
        .map(|(harness, sum)| (vec![harness.clone()], sum.usd));
    let help = "Cost since midnight in USD, as far as prices are known.";
    gauge(now, ("horde_cost_today_usd", help), &["harness"], rows)?;
    let unpriced = today.iter();
    let unpriced = unpriced.map(|(harness, sum)| (vec![harness.clone()], sum.unpriced as f64));
    let help = "Tokens used today without a known price; budgets do not count them.";
    let name = "horde_unpriced_tokens_today";
    gauge(now, (name, help), &["harness"], unpriced)?;
    let rigs = || stored.usage.rigs.iter();
    let rows = rigs().map(|(rig, sum)| (vec![rig.clone()], sum.usd));
    let help = "Cost of the raiders of a rig since midnight in USD, as far as prices are known.";
    gauge(now, ("horde_rig_cost_today_usd", help), &["rig"], rows)?;
    let rows = rigs().map(|(rig, sum)| (vec![rig.clone()], sum.tokens.all() as f64));
    let help = "Tokens that the raiders of a rig used since midnight.";
    gauge(now, ("horde_rig_tokens_today", help), &["rig"], rows)
}

/// Registers metrics of this process, under the names that every Prometheus client uses.
fn process(now: &Registry, used: Usage) -> prometheus::Result<()> {
    let help = "Processor time of the supervisor, without its sessions.";
    let cpu = Counter::new("process_cpu_seconds_total", help)?;
    cpu.inc_by(used.cpu_seconds);
    now.register(Box::new(cpu))?;
    let help = "Memory that the supervisor holds, without its sessions.";
    #[expect(clippy::cast_precision_loss, reason = "no process holds 2^53 bytes")]
    let bytes = used.resident_bytes as f64;
    plain(now, "process_resident_memory_bytes", help, bytes)
}

fn children(now: &Registry, world: &World, snapshot: &Snapshot) -> prometheus::Result<()> {
    let (views, stored) = (&snapshot.views, &snapshot.records);
    let (orders, hooks) = (&stored.orders, &stored.agent_hooks);
    let agents = status::agents(world, views, orders, hooks, &stored.usage.agents);
    let states = agents.iter().map(|agent| word(&agent.state));
    let agents = count(states.map(|state| vec![state]));
    let about = ("horde_agents", "Standing agents, by state.");
    gauge(now, about, &["state"], agents)?;
    let by_id = snapshot.children();
    let hooked = stored.hooks.iter().map(|hook| {
        let view = by_id.get(&ChildId::Raider(hook.raider.clone())).copied();
        let state = status::raider_state(world, hook, view, stored);
        vec![hook.raider.rig.to_string(), word(&state)]
    });
    let hookless = snapshot.hookless.values().flatten();
    let hookless = hookless.map(|lone| vec![lone.raider.rig.to_string(), "hookless".to_owned()]);
    let raiders = count(hooked.chain(hookless));
    let help = "Raiders, by rig and state; hookless is a sandbox without a hook.";
    let about = ("horde_raiders", help);
    gauge(now, about, &["rig", "state"], raiders)?;
    let running = views.iter().filter(|view| view.session.is_some()).count();
    let help = "Running sessions.";
    plain(now, "horde_sessions_running", help, number(running))?;
    let quarantined = |view: &&ChildView| view.state == ChildState::Quarantined;
    let quarantined = number(views.iter().filter(quarantined).count());
    let help = "Raiders and agents in quarantine.";
    plain(now, "horde_quarantined", help, quarantined)
}

fn queues(now: &Registry, world: &World, stored: &Records) -> prometheus::Result<()> {
    let mrs = stored.queue.iter();
    let mrs = count(mrs.map(|mr| vec![mr.rig.to_string(), word(&mr.state)]));
    let about = ("horde_merge_requests", "Open merge requests, by state.");
    gauge(now, about, &["rig", "state"], mrs)?;
    let relics = world.city.rigs.iter().flat_map(|rig| {
        let of = stored
            .relics
            .iter()
            .filter(|((prefix, _), _)| *prefix == rig.prefix);
        of.map(|((_, status), n)| (vec![rig.name.to_string(), word(status)], large(*n)))
    });
    let about = ("horde_relics", "Tasks, by status.");
    gauge(now, about, &["rig", "status"], relics)
}

fn count(rows: impl Iterator<Item = Vec<String>>) -> Counts {
    let mut counts = Counts::new();
    for row in rows {
        *counts.entry(row).or_default() += 1.0;
    }
    counts
}

#[expect(clippy::cast_precision_loss, reason = "no city has 2^53 tasks")]
fn large(count: u64) -> f64 {
    count as f64
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
