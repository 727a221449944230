//! Tokens and money: reads the new parts of session transcripts when a turn has ended, at a patrol, and on request. For
//! a transcript that has not grown, only its length is read.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

mod budgets;

pub use budgets::{afford, every_budget, spent};

use super::claims::ClaimKey;
use super::effects;
use super::refusal::Refusal;
use super::world::World;
use crate::actors::mail::{ChildSpec, Work};
use crate::domain::budget;
use crate::domain::city::Harness;
use crate::domain::facts::RunState;
use crate::domain::harness::fill::{Fill, Placeholder};
use crate::domain::harness::hooks::Hooks;
use crate::domain::ids::{RaiderId, SessionId};
use crate::domain::relic::Hook;
use crate::domain::session_env;
use crate::domain::usage::ledger::{By, Owner, Row, Source, Sum, together};
use crate::domain::usage::{Cursor, Format, Spent, transcript_dirs};
use crate::ports::relics::{StoreError, Txn};
use crate::ports::tasks::Part;

/// The longest path (`PATH_MAX` of Linux).
const LONGEST_PATH: usize = 4096;

/// The size of a part of a transcript that is read at once. Longer lines are skipped.
const PART: usize = 1 << 20;
/// Maximum number of parts of one transcript per read; the rest follows at the next.
const PARTS: usize = 16;
/// Maximum number of active transcripts per session: the newest.
const SOURCES: usize = 16;
/// The highest plausible number of tokens of a message; a line that reports more is ignored.
const MOST_TOKENS: u64 = 3_000_000;
/// The highest plausible cost of a message, in US dollars.
const MOST_USD: f64 = 100.0;
/// A transcript that is new to the supervisor may be older than its session, because a person began it, or another
/// session reported it: usage from longer before the report is not counted.
const EARLIER: SignedDuration = SignedDuration::from_mins(15);
/// The time for which sums are kept, and transcripts that no longer grow are remembered.
const KEPT: SignedDuration = SignedDuration::from_hours(400 * 24);

/// Returns the owner of the tokens that a raider's session uses.
#[must_use]
pub fn of_raider(hook: &Hook) -> Owner {
    Owner {
        session: hook.raider.session_id().to_string(),
        rig: hook.raider.rig.to_string(),
        child: hook.raider.to_string(),
        relic: hook.relic.to_string(),
        harness: hook.harness.to_string(),
    }
}

/// Returns the owner of the tokens that a standing agent's session uses; none when no harness drives it.
#[must_use]
pub fn of_agent(world: &World, session: &SessionId) -> Option<Owner> {
    let harness = world.city.agent_of(session)?.harness.as_ref()?;
    Some(Owner {
        session: session.to_string(),
        rig: String::new(),
        child: world.city.standing(session)?.to_string(),
        relic: String::new(),
        harness: harness.to_string(),
    })
}

/// Notes that a conversation began, or goes on, in a session: its transcript is read from now on.
///
/// # Errors
/// The store's.
pub async fn began(
    world: &World,
    owner: Owner,
    conversation: &str,
    named: Option<&str>,
) -> Result<(), StoreError> {
    let Some((format, root)) = kept_at(world, &owner) else {
        return Ok(());
    };
    match transcript_dirs::transcript(format, &root, conversation, named) {
        Some(path) => open(world, owner, format, &root, &path).await,
        None => Ok(()),
    }
}

/// Returns the format of a session's transcripts, and their directory.
fn kept_at(world: &World, owner: &Owner) -> Option<(Format, std::path::PathBuf)> {
    let harness = harness_of(world, &owner.harness)?;
    let program = harness.command.first().map_or("", String::as_str);
    let format = transcript_dirs::format(harness.hooks, program)?;
    let own = match (owner.rig.is_empty(), owner.session.parse()) {
        (true, Ok(session)) => world.city.agent_dir(&session),
        (true, Err(_)) => return None,
        (false, _) => world.city.tasks_dir(),
    };
    let root = transcript_dirs::root(format, &environment(world, harness), &own);
    Some((format, root))
}

fn harness_of<'a>(world: &'a World, name: &str) -> Option<&'a Harness> {
    let mut all = world.city.harnesses.values();
    all.find(|one| one.name.as_str() == name)
}

fn environment(world: &World, harness: &Harness) -> BTreeMap<String, String> {
    let mut fill = Fill::default();
    fill.set(Placeholder::City, world.city.root.to_string_lossy());
    let mut env = session_env::inherited(&world.env, &harness.env_pass);
    let own = harness.env.iter();
    env.extend(own.map(|(name, value)| (name.clone(), fill.put_in(value))));
    env
}

async fn open(
    world: &World,
    owner: Owner,
    format: Format,
    root: &Path,
    path: &Path,
) -> Result<(), StoreError> {
    if path.as_os_str().len() > LONGEST_PATH {
        return Ok(());
    }
    let (root, path) = (root.to_owned(), path.to_owned());
    let opened = world.store.run(move |txn| {
        let known = txn.source(&path.to_string_lossy())?;
        // A session's report cannot take over the transcript of another session at work.
        if known
            .as_ref()
            .is_some_and(|it| it.active && (it.owner == owner || it.owner.session != owner.session))
        {
            return Ok(());
        }
        // The usage of an earlier session of the conversation was counted.
        let cursor = known.map_or_else(
            || Cursor::since(txn.now().checked_sub(EARLIER).unwrap_or(Timestamp::MIN)),
            |known| known.cursor,
        );
        make_room(txn, &owner)?;
        txn.put_source(&Source {
            path: path.clone(),
            root: root.clone(),
            format,
            owner: owner.clone(),
            cursor,
            active: true,
        })
    });
    opened.await
}

/// Makes room for one more transcript of a session: conversations that were left without the end of the session are no
/// longer read. Transcripts that never had usage are dropped first, the last ones first, and are not remembered: a
/// session may name any path.
fn make_room(txn: &mut dyn Txn, owner: &Owner) -> Result<(), StoreError> {
    let mut own = txn.active_sources()?;
    own.retain(|source| source.owner.session == owner.session);
    let over = (own.len() + 1).saturating_sub(SOURCES);
    let is_unread = |source: &Source| source.cursor.offset == 0;
    let (mut unread, mut read): (Vec<_>, Vec<_>) = own.into_iter().partition(is_unread);
    unread.sort_by_key(|source| Reverse(source.cursor.since));
    read.sort_by_key(|source| source.cursor.since);
    for mut source in unread.into_iter().chain(read).take(over) {
        if source.cursor.offset == 0 {
            txn.forget_source(&source.path.to_string_lossy())?;
            continue;
        }
        source.active = false;
        txn.put_source(&source)?;
    }
    Ok(())
}

/// Reads all transcripts at a patrol, given every child and the running sessions.
pub(super) async fn patrol(world: World, specs: Vec<ChildSpec>, running: BTreeSet<SessionId>) {
    let specs = specs.iter();
    for spec in specs.filter(|spec| running.contains(&spec.session)) {
        or_warn!(find(&world, spec).await, session = %spec.session,
            "the session's transcript could not be searched for; the next patrol retries");
    }
    collect(&world, Some(&running)).await;
    // A budget may have been raised, and a new day may have begun.
    look_at_budgets(&world).await;
}

async fn look_at_budgets(world: &World) {
    or_warn!(
        budgets::report_all(world).await,
        "the budgets could not be checked; the next check retries"
    );
}

/// Finds the transcript of a program that does not report it: the newest of its directory.
async fn find(world: &World, spec: &ChildSpec) -> Result<(), StoreError> {
    let (owner, dir) = match &spec.work {
        Work::Raider { hook, .. } => (Some(of_raider(hook)), world.city.sandbox(&hook.raider)),
        Work::Agent(agent) => (of_agent(world, &spec.session), agent.dir.clone()),
    };
    let Some(owner) = owner else { return Ok(()) };
    // A reported transcript would be found a second time under another name, if a link leads there.
    let silent = harness_of(world, &owner.harness).is_some_and(|it| it.hooks == Hooks::None);
    let Some((Format::Pi, root)) = kept_at(world, &owner).filter(|_| silent) else {
        return Ok(());
    };
    let dir = transcript_dirs::pi(&root, &dir);
    let session = effects::Owner::Session(spec.session.clone());
    let newest = effects::tasks(world, session, move |tasks| tasks.newest(&dir, ".jsonl"));
    match newest.await {
        Ok(Some(path)) => open(world, owner, Format::Pi, &root, &path).await,
        Ok(None) => Ok(()),
        Err(error) => {
            tracing::warn!(
                session = %spec.session,
                %error,
                "the transcripts of a session cannot be listed; the next patrol retries"
            );
            Ok(())
        }
    }
}

/// Reads all transcripts that may have grown. Those of ended sessions are read for the last time, if the running
/// sessions are known. Failures are retried by the next read.
pub async fn collect(world: &World, running: Option<&BTreeSet<SessionId>>) {
    let Some(_one_at_a_time) = world.claims.claim(ClaimKey::Usage) else {
        return;
    };
    let sources = match world.store.run(|txn| txn.active_sources()).await {
        Ok(sources) => sources,
        Err(error) => {
            tracing::warn!(
                %error,
                "the list of transcripts cannot be read from the store; the next read retries"
            );
            return;
        }
    };
    let over = match running {
        Some(running) => ended(world, &sources, running).await,
        None => BTreeSet::new(),
    };
    let mut grown = false;
    for source in sources {
        let over = over.contains(&source.owner.session);
        let path = source.path.display().to_string();
        match read_on(world, source, over).await {
            Ok(more) => grown |= more,
            Err(error) => tracing::warn!(
                path,
                %error,
                "a transcript cannot be read; the next read retries"
            ),
        }
    }
    if grown {
        look_at_budgets(world).await;
    }
}

/// Returns the sessions of these transcripts that have ended. A session that began after `running` was observed has
/// not.
async fn ended(
    world: &World,
    sources: &[Source],
    running: &BTreeSet<SessionId>,
) -> BTreeSet<String> {
    let runs = |running: &BTreeSet<SessionId>, source: &Source| {
        let mut running = running.iter();
        running.any(|session| session.as_str() == source.owner.session)
    };
    let over: Vec<_> = sources.iter().filter(|one| !runs(running, one)).collect();
    if over.is_empty() {
        return BTreeSet::new();
    }
    // The next patrol retries.
    let Ok(now) = effects::list(world).await else {
        return BTreeSet::new();
    };
    let now = now.into_iter().filter(|one| one.state == RunState::Running);
    let now: BTreeSet<_> = now.map(|one| one.id).collect();
    let over = over.into_iter().filter(|one| !runs(&now, one));
    over.map(|one| one.owner.session.clone()).collect()
}

/// Reads one transcript; returns true when it had new usage.
async fn read_on(world: &World, mut source: Source, over: bool) -> Result<bool, Refusal> {
    let mut grown = false;
    // The transcript of an ended session is read to its end, over as many reads as that takes.
    let mut at_end = false;
    for _ in 0..PARTS {
        let (path, root) = (source.path.clone(), source.root.clone());
        let from = source.cursor.offset;
        let session = SessionId::new(&source.owner.session);
        let session = session.map_or(effects::Owner::City, effects::Owner::Session);
        let part = effects::tasks(world, session, move |tasks| {
            tasks.transcript(&path, &root, from, PART)
        });
        let part = match part.await {
            Ok(part) => part,
            Err(error) if !over => return Err(error.into()),
            Err(error) => {
                tracing::warn!(
                    session = source.owner.session,
                    %error,
                    "the transcript of an ended session cannot be read; its remaining usage is \
                    not counted"
                );
                None
            }
        };
        let Some(Part { bytes, length }) = part else {
            at_end = true;
            break;
        };
        let before = source.cursor.clone();
        let spent = match length < from {
            // It was recreated or truncated: what is left of it was counted.
            true => {
                source.cursor.offset = length;
                Vec::new()
            }
            false => source
                .cursor
                .read(source.format, &bytes, bytes.len() == PART),
        };
        if source.cursor == before {
            at_end = true;
            break;
        }
        let rows = spent
            .into_iter()
            .filter_map(|spent| credible(spent, world.clock.now()))
            .map(|spent| row(world, &source.owner, spent));
        grown |= keep(world, source.clone(), before, rows.collect()).await?;
    }
    if over && at_end {
        source.active = false;
        let before = source.cursor.clone();
        keep(world, source, before, Vec::new()).await?;
    }
    Ok(grown)
}

/// Stores the read usage, unless the transcript belongs to another session by now: then it is read again.
async fn keep(
    world: &World,
    source: Source,
    before: Cursor,
    rows: Vec<Row>,
) -> Result<bool, StoreError> {
    let kept = world.store.run(move |txn| {
        let stored = txn.source(&source.path.to_string_lossy())?;
        let same = |stored: &Source| stored.cursor == before && stored.owner == source.owner;
        if !stored.as_ref().is_some_and(same) {
            return Ok(false);
        }
        for row in &rows {
            txn.add_usage(row)?;
        }
        txn.put_source(&source)?;
        Ok(!rows.is_empty())
    });
    kept.await
}

/// Returns the plausible part of a line, because an agent can write to its transcript. Usage dated older than a day, or
/// in the future, counts today.
fn credible(mut spent: Spent, now: Timestamp) -> Option<Spent> {
    let tokens = &spent.tokens;
    let counts = [
        tokens.input,
        tokens.output,
        tokens.cache_read,
        tokens.cache_write,
    ];
    if counts.iter().any(|count| *count > MOST_TOKENS) {
        tracing::warn!(
            model = %spent.model,
            "a line of a transcript reports an implausible number of tokens; it is ignored"
        );
        return None;
    }
    let recent =
        |at: &Timestamp| *at <= now && now.duration_since(*at) < SignedDuration::from_hours(24);
    spent.at = spent.at.filter(recent);
    spent.usd = spent
        .usd
        .filter(|usd| usd.is_finite() && (0.0..=MOST_USD).contains(usd));
    Some(spent)
}

fn row(world: &World, owner: &Owner, spent: Spent) -> Row {
    let harness = harness_of(world, &owner.harness);
    let priced = harness.and_then(|it| it.prices.usd(&spent.model, &spent.tokens));
    let usd = spent.usd.or(priced);
    let tokens = spent.tokens;
    Row {
        day: day(spent.at.unwrap_or(world.clock.now())),
        owner: owner.clone(),
        model: spent.model,
        tokens,
        usd: usd.unwrap_or(0.0),
        unpriced: match usd {
            Some(_) => 0,
            None => tokens.all(),
        },
    }
}

/// Returns the day of a time, as the key of sums.
#[must_use]
pub fn day(at: Timestamp) -> String {
    budget::day(at, &TimeZone::system()).to_string()
}

/// Deletes sums that are too old to be kept.
///
/// # Errors
/// The store's.
pub(super) async fn prune(world: &World) -> Result<(), StoreError> {
    let before = world
        .clock
        .now()
        .checked_sub(KEPT)
        .unwrap_or(Timestamp::MIN);
    let pruned = world
        .store
        .run(move |txn| txn.prune_usage(&day(before), before));
    pruned.await.map(drop)
}

/// The usage that `status` shows: today's sum, and the sums of the work on each hook.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// Today's sum of each harness.
    pub today: BTreeMap<String, Sum>,
    /// The sum of each raider's relic, over all raiders that worked on it.
    pub relics: BTreeMap<RaiderId, Sum>,
    /// The sum of each raider on its relic.
    pub raiders: BTreeMap<RaiderId, Sum>,
    /// Today's sum of each standing agent, by its name.
    pub agents: BTreeMap<String, Sum>,
    /// Today's sum of each rig's raiders.
    pub rigs: BTreeMap<String, Sum>,
}

impl Now {
    /// Returns today's sum of everything.
    #[must_use]
    pub fn sum(&self) -> Sum {
        self.today.values().copied().fold(Sum::default(), Sum::and)
    }
}

/// Reads the usage that `status` shows.
///
/// # Errors
/// The store's.
pub fn now(txn: &mut dyn Txn, hooks: &[Hook]) -> Result<Now, StoreError> {
    let today = txn.usage_since(&day(txn.now()))?;
    let mut now = Now::default();
    for (harness, sum) in together(&today, By::Harness) {
        now.today.insert(harness, sum);
    }
    let (agents, raiders): (Vec<_>, Vec<_>) =
        today.into_iter().partition(|row| row.owner.rig.is_empty());
    now.agents = together(&agents, By::Raider).into_iter().collect();
    now.rigs = together(&raiders, By::Rig).into_iter().collect();
    if hooks.is_empty() {
        return Ok(now);
    }
    let mut of_relic: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in txn.usage_of_hooked()? {
        of_relic
            .entry(row.owner.relic.clone())
            .or_default()
            .push(row);
    }
    for hook in hooks {
        let rows = of_relic.remove(hook.relic.as_str()).unwrap_or_default();
        let child = hook.raider.to_string();
        let own = rows.iter().filter(|row| row.owner.child == child);
        now.raiders.insert(hook.raider.clone(), Sum::of(own));
        now.relics.insert(hook.raider.clone(), Sum::of(&rows));
    }
    Ok(now)
}

#[cfg(test)]
mod tests;
