//! Conditions of sessions (`domain/condition.rs`): reads the screens of agents, handles the reports of their harnesses,
//! and notifies people once.
//!
//! ```text
//!  a screen changed (hint of its holder) ──┐
//!  a patrol, a look before something is typed ──► look ──► Watch ──► event, status
//!  hd hook-event ──► report ──────────────────────────────┘
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use jiff::tz::TimeZone;

use super::boards::{Entry, Moment};
use super::claims::ClaimKey;
use super::world::World;
use super::{accounts, compaction, effects};
use crate::domain::account::ReportEffect;
use crate::domain::cause::Cause;
use crate::domain::condition::{AccountNews, Condition, Patterns, Report, Watch, judge};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{ChildId, HarnessName, RigName, SessionId};
use crate::ports::sessions::{SessionError, SessionHandle};

/// Timeout for reading a screen: a look waits for it.
const GLANCE: Duration = Duration::from_secs(2);

/// Number of screens read in parallel.
const SIDE_BY_SIDE: usize = 16;

/// A session whose screen is read.
pub struct Observed {
    /// Its child.
    pub child: ChildId,
    /// Its harness.
    pub harness: HarnessName,
    /// Its known facts.
    pub facts: SessionFacts,
}

impl Observed {
    fn patterns<'a>(&self, world: &'a World) -> Option<&'a Patterns> {
        let harness = world.city.harnesses.get(&self.harness)?;
        (self.facts.state == RunState::Running).then_some(&harness.patterns)
    }

    fn handle(&self) -> SessionHandle {
        SessionHandle {
            id: self.facts.id.clone(),
            token: self.facts.token.clone(),
        }
    }
}

/// Has changed screens read as soon as their holders report them.
pub fn connect(world: &Arc<World>) {
    let (world, runtime) = (Arc::clone(world), tokio::runtime::Handle::current());
    let sessions = Arc::clone(&world.sessions);
    sessions.listen_to_screens(Box::new(move |handle| {
        let world = Arc::clone(&world);
        runtime.spawn(async move { changed(&world, handle).await });
    }));
}

/// Reads a screen that has changed. Changes meanwhile cause one more reading.
async fn changed(world: &Arc<World>, handle: SessionHandle) {
    let key = ClaimKey::Screen(handle.token.clone());
    let Some(mut claim) = world.claims.claim_or_repeat(key) else {
        return;
    };
    loop {
        let world = world.newest();
        let known = {
            let entries = world.directory.conditions.entries();
            let entry = entries.get(&handle.id);
            let entry = entry.filter(|entry| entry.watch.is_of(&handle.token));
            entry.map(|entry| entry.harness.clone())
        };
        let patterns = known.and_then(|harness| world.city.harnesses.get(&harness));
        if let (Some(harness), false) = (patterns, world.is_stopping()) {
            glance(&world, &handle, &harness.patterns, None).await;
        }
        match claim.give_back() {
            Some(again) => claim = again,
            None => return,
        }
    }
}

/// Reads a screen once more without a change, when a reported condition may have ended unseen.
fn look_later(world: &World, handle: &SessionHandle) {
    let wait = {
        let entries = world.directory.conditions.entries();
        let entry = entries.get(&handle.id);
        let entry = entry.filter(|entry| entry.watch.is_of(&handle.token));
        entry.and_then(|entry| entry.watch.look_again(world.clock.now()))
    };
    let (Some(wait), Some(world)) = (wait, world.directory.newest()) else {
        return;
    };
    let handle = handle.clone();
    tokio::spawn(async move {
        tokio::time::sleep(wait + Duration::from_millis(1)).await;
        changed(&world, handle).await;
    });
}

/// Sets the fault that the supervisor found on a screen, or clears it.
pub fn set_odd(world: &World, handle: &SessionHandle, odd: Option<Condition>) {
    change_odd(world, handle, |watch| watch.set_odd(odd));
}

/// Sets why the first prompt of a session is held back, or clears it.
pub fn set_untyped(world: &World, handle: &SessionHandle, untyped: Option<Condition>) {
    change_odd(world, handle, |watch| watch.set_untyped(untyped));
}

/// Notes progress in a session that its screen does not show.
pub fn moves(world: &World, handle: &SessionHandle) {
    change_odd(world, handle, Watch::moves);
}

/// Stops the check for spinners in this rig.
pub fn rest(world: &World, rig: &RigName) {
    let handles: Vec<SessionHandle> = {
        let entries = world.directory.conditions.entries();
        let its = entries.iter().filter(|(_, entry)| match &entry.child {
            ChildId::Raider(raider) => raider.rig == *rig,
            ChildId::Agent(_) => false,
        });
        let handle = |(id, entry): (&SessionId, &Entry)| SessionHandle {
            id: id.clone(),
            token: entry.watch.token().to_owned(),
        };
        its.map(handle).collect()
    };
    for handle in &handles {
        moves(world, handle);
    }
}

fn change_odd(world: &World, handle: &SessionHandle, change: impl FnOnce(&mut Watch)) {
    let told = {
        let mut entries = world.directory.conditions.entries();
        let entry = entries.get_mut(&handle.id);
        let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) else {
            return;
        };
        change(&mut entry.watch);
        news(entry, world.clock.now())
    };
    publish(world, &handle.id, told);
}

/// Handles a harness's report about its session; returns false when that session is not watched.
pub fn report(world: &World, handle: &SessionHandle, report: &Report) -> bool {
    let now = world.clock.now();
    let told = {
        let mut entries = world.directory.conditions.entries();
        let entry = entries.get_mut(&handle.id);
        let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) else {
            return false;
        };
        entry.watch.reported(report, now);
        if *report == Report::Begins {
            entry.begins();
        }
        news(entry, now)
    };
    if *report == Report::Compacts {
        compaction::begins(world, &told.child, &told.harness, handle);
    }
    publish(world, &handle.id, told);
    look_later(world, handle);
    true
}

/// Reads the screens of all these sessions, which were listed after `moment`, and drops every other session that was
/// watched then.
pub async fn look_at_all(
    world: &World,
    moment: Moment,
    observed: Vec<Observed>,
) -> BTreeSet<SessionId> {
    // A session that cannot be observed for a moment keeps its known state.
    let stays = |one: &&Observed| {
        let unseen = matches!(one.facts.state, RunState::Unknown { .. });
        unseen || one.patterns(world).is_some()
    };
    let known = observed.iter().filter(stays);
    let known: BTreeSet<_> = known.map(|one| one.facts.id.clone()).collect();
    let conditions = &world.directory.conditions;
    conditions.forget_others(&known, moment);
    observe_screens(world, moment, &observed).await
}

/// Reads the screens that have changed since the last look, and notifies people of their conditions. Returns the
/// sessions that must not be disturbed. They were listed after `moment`.
pub async fn observe_screens(
    world: &World,
    moment: Moment,
    observed: &[Observed],
) -> BTreeSet<SessionId> {
    let conditions = &world.directory.conditions;
    let watched: Vec<_> = observed
        .iter()
        .filter_map(|one| Some((one, one.patterns(world)?)))
        .collect();
    let unseen = |one: &&Observed| matches!(one.facts.state, RunState::Unknown { .. });
    for one in observed.iter().filter(unseen) {
        conditions.missed(&one.handle());
    }
    for (one, _) in &watched {
        conditions.enroll_seen(&one.child, &one.harness, &one.handle(), moment);
    }
    let due = watched
        .iter()
        .filter(|(one, _)| conditions.is_due(&one.facts));
    stream::iter(due)
        .for_each_concurrent(SIDE_BY_SIDE, |(one, patterns)| async move {
            glance(world, &one.handle(), patterns, one.facts.last_activity).await;
        })
        .await;
    let holding = conditions.holding();
    let accounts = &world.directory.accounts;
    let left_alone = watched.iter().filter(|(one, _)| {
        holding.contains(&one.facts.id)
            || accounts
                .held(&world.city, &one.harness, &one.child)
                .is_some()
    });
    left_alone.map(|(one, _)| one.facts.id.clone()).collect()
}

/// Returns every session that must not be disturbed, as far as known: a person is attached, or it has a condition.
///
/// # Errors
/// The sessions cannot be listed.
pub async fn undisturbed(world: &World) -> Result<BTreeSet<SessionId>, SessionError> {
    let sessions = effects::list(world).await?;
    let attached = sessions.into_iter().filter(|facts| facts.attached);
    let asking = world.directory.conditions.holding();
    Ok(attached.map(|facts| facts.id).chain(asking).collect())
}

async fn glance(
    world: &World,
    handle: &SessionHandle,
    patterns: &Patterns,
    activity: Option<jiff::Timestamp>,
) {
    let of = handle.clone();
    let view = effects::sessions(world, &handle.id, move |provider| provider.view(&of));
    let view = tokio::time::timeout(GLANCE, view).await;
    let now = world.clock.now();
    let told = {
        let mut entries = world.directory.conditions.entries();
        let entry = entries.get_mut(&handle.id);
        let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) else {
            return;
        };
        match view {
            Ok(Ok(view)) => {
                let sighting = judge(patterns, &view, now, &TimeZone::system());
                entry.watch.observe(sighting, activity, now);
                entry.saw_prompt(&view, None);
            }
            Ok(Err(_)) | Err(_) => entry.watch.missed(),
        }
        entry.looked.notify_one();
        news(entry, now)
    };
    publish(world, &handle.id, told);
}

/// The conditions of a session that began or ended, for people.
struct News {
    child: ChildId,
    harness: HarnessName,
    over: Option<Condition>,
    begun: Option<Condition>,
    account: Option<AccountNews>,
}

fn news(entry: &mut Entry, now: jiff::Timestamp) -> News {
    News {
        child: entry.child.clone(),
        harness: entry.harness.clone(),
        over: entry.watch.end_notice(),
        begun: entry.watch.due_notice(now),
        account: entry.watch.account_news(),
    }
}

fn publish(world: &World, session: &SessionId, news: News) {
    match news.account {
        Some(AccountNews::Told(trouble)) => {
            let told = accounts::report_trouble(world, &news.child, &news.harness, trouble);
            let mut entries = world.directory.conditions.entries();
            let entry = entries.get_mut(session);
            match (entry, told) {
                (Some(entry), ReportEffect::Old) => entry.watch.pass(),
                (Some(entry), ReportEffect::Hasty) => entry.watch.forget_account(),
                _ => {}
            }
        }
        Some(AccountNews::Over) => accounts::went_on(world, &news.child, &news.harness),
        None => {}
    }
    let mut events = Vec::new();
    if let Some(over) = news.over {
        let data = serde_json::json!({ "condition": over.word(), "session": session });
        let event = NewEvent::new(EventType::RaiderResumed, &news.child, Cause::Progress);
        events.push(event.with(data));
    }
    if let Some(begun) = news.begun {
        let (kind, cause) = match &begun {
            Condition::NeedsInput { .. } => (EventType::RaiderNeedsInput, Cause::Question),
            Condition::RateLimited { .. } => (EventType::RaiderRateLimited, Cause::RateLimit),
            Condition::Auth { .. } => (EventType::RaiderAuth, Cause::Login),
            Condition::Unrecognised { .. } => (EventType::RaiderUnclear, Cause::UnknownScreen),
            Condition::Spins { .. } => (EventType::RaiderUnclear, Cause::Stalled),
        };
        let data = serde_json::json!({ "session": session });
        let event = NewEvent::new(kind, &news.child, cause);
        events.push(event.with(data).and(&begun));
    }
    if !events.is_empty() {
        world.store.journal(events);
    }
}
