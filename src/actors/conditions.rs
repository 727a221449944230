//! Conditions of sessions (`domain/condition.rs`): looks at the screens of agents, takes in what their
//! harnesses report, and tells people once.
//!
//! ```text
//!  a screen changed (hint of its holder) ──┐
//!  a patrol, a look before something is typed ──► look ──► Watch ──► event, status
//!  hd hook-event ──► report ──────────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use jiff::tz::TimeZone;
use tokio::sync::Notify;

use super::typing::Unsubmitted;
use super::world::World;
use super::{accounts, compaction, effects};
use crate::domain::account::Told;
use crate::domain::cause::Cause;
use crate::domain::condition::{AccountNews, Condition, Patterns, Report, Watch, judge};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{ChildId, HarnessName, RigName, SessionId};
use crate::ports::sessions::{SessionError, SessionHandle};

/// How long a screen may take to be seen: a look waits for it.
const GLANCE: Duration = Duration::from_secs(2);

/// So many screens are looked at side by side.
const SIDE_BY_SIDE: usize = 16;

/// The conditions of all watched sessions, kept between two looks.
#[derive(Default)]
pub struct Conditions(Mutex<BTreeMap<SessionId, Entry>>);

/// A session that is watched.
struct Entry {
    watch: Watch,
    child: ChildId,
    harness: HarnessName,
    /// A text that was typed and not submitted: it stands in the program's input line.
    unsubmitted: Option<Unsubmitted>,
    /// Wakes what waits for another screen.
    looked: Arc<Notify>,
}

impl Conditions {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<SessionId, Entry>> {
        // At worst a screen is looked at once more.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the condition of that session, as far as it is known.
    #[must_use]
    pub fn of(&self, handle: &SessionHandle) -> Option<Condition> {
        let entries = self.entries();
        let watch = &entries.get(&handle.id)?.watch;
        watch.is_of(&handle.token).then(|| watch.shown())?.cloned()
    }

    /// The limit or login that this session shows is over, whatever stays on its screen.
    pub fn pass(&self, handle: &SessionHandle) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        if let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            entry.watch.pass();
        }
    }

    /// Returns the question that the session's harness reports, which its screen may not show yet.
    #[must_use]
    pub fn reported_question(&self, handle: &SessionHandle) -> Option<String> {
        let entries = self.entries();
        let watch = &entries.get(&handle.id)?.watch;
        let question = watch
            .is_of(&handle.token)
            .then(|| watch.reported_question());
        question?.map(str::to_owned)
    }

    /// The question that the session's harness reported was answered.
    pub fn answered(&self, handle: &SessionHandle) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id);
        if let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) {
            entry.watch.answered();
        }
    }

    /// Returns what stands for the screen of that session, without spinners and clocks, if it could be seen.
    #[must_use]
    pub fn picture(&self, id: &SessionId) -> Option<u64> {
        self.entries().get(id)?.watch.picture()
    }

    /// Returns the text that was typed into that session and not submitted, and remembers another one in its place.
    pub fn set_unsubmitted(
        &self,
        handle: &SessionHandle,
        text: Option<Unsubmitted>,
    ) -> Option<Unsubmitted> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&handle.id)?;
        let entry = entry.watch.is_of(&handle.token).then_some(entry)?;
        std::mem::replace(&mut entry.unsubmitted, text)
    }

    /// Returns what is woken each time the screen of that session was looked at.
    #[must_use]
    pub fn looked(&self, handle: &SessionHandle) -> Option<Arc<Notify>> {
        let entries = self.entries();
        let entry = entries.get(&handle.id)?;
        let is_it = entry.watch.is_of(&handle.token);
        is_it.then(|| Arc::clone(&entry.looked))
    }

    /// Whether that session is known to have a condition.
    #[must_use]
    pub fn is_known(&self, id: &SessionId) -> bool {
        let entries = self.entries();
        entries.get(id).is_some_and(|entry| entry.watch.is_known())
    }

    fn holding(&self) -> BTreeSet<SessionId> {
        let entries = self.entries();
        let holding = entries.iter().filter(|(_, entry)| entry.watch.holds());
        holding.map(|(id, _)| id.clone()).collect()
    }

    /// Has the account told again of what stands on the screens of these harnesses.
    pub fn tell_again(&self, of: impl Fn(&HarnessName) -> bool) {
        let mut entries = self.entries();
        let its = entries.values_mut().filter(|entry| of(&entry.harness));
        its.for_each(|entry| entry.watch.forget_account());
    }

    /// Has every screen looked at again: other patterns are looked for.
    pub fn look_again(&self) {
        let mut entries = self.entries();
        entries.values_mut().for_each(|entry| entry.watch.missed());
    }

    /// Begins to watch a session, so that what its holder and its harness say of it is heard.
    pub fn enroll(&self, child: &ChildId, harness: &HarnessName, handle: &SessionHandle) {
        let fresh = || Entry {
            watch: Watch::new(&handle.token),
            child: child.clone(),
            harness: harness.clone(),
            unsubmitted: None,
            looked: Arc::default(),
        };
        let mut entries = self.entries();
        let entry = entries.entry(handle.id.clone()).or_insert_with(fresh);
        if !entry.watch.is_of(&handle.token) || entry.harness != *harness {
            *entry = fresh();
        }
    }

    /// Whether the screen must be looked at.
    fn is_due(&self, facts: &SessionFacts) -> bool {
        let entries = self.entries();
        let entry = entries.get(&facts.id);
        entry.is_some_and(|entry| !entry.watch.is_fresh(facts.last_activity))
    }
}

/// A session whose screen is looked at.
pub struct Observed {
    /// The child that it belongs to.
    pub child: ChildId,
    /// The program that it runs.
    pub harness: HarnessName,
    /// The facts that are known of it.
    pub facts: SessionFacts,
}

impl Observed {
    fn patterns<'a>(&self, world: &'a World) -> Option<&'a Patterns> {
        let harness = world.city.harnesses.get(&self.harness)?;
        (self.facts.state == RunState::Running).then_some(&harness.looks)
    }

    fn handle(&self) -> SessionHandle {
        SessionHandle {
            id: self.facts.id.clone(),
            token: self.facts.token.clone(),
        }
    }
}

/// Has changed screens looked at as soon as their holders tell of them.
pub fn connect(world: &Arc<World>) {
    let (world, runtime) = (Arc::clone(world), tokio::runtime::Handle::current());
    let sessions = Arc::clone(&world.sessions);
    sessions.listen_to_screens(Box::new(move |handle| {
        let world = Arc::clone(&world);
        runtime.spawn(async move { changed(&world, handle).await });
    }));
}

/// Looks at a screen that has changed. Changes that come meanwhile are one more look.
async fn changed(world: &Arc<World>, handle: SessionHandle) {
    let key = format!("screen/{}", handle.token);
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
            glance(&world, &handle, &harness.looks, None).await;
        }
        match claim.give_back() {
            Some(again) => claim = again,
            None => return,
        }
    }
}

/// Looks at a screen once more although nothing is written to it, when what was reported of it may be over unseen.
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

/// Takes in what the supervisor found wrong with a screen, or that this is over.
pub fn set_odd(world: &World, handle: &SessionHandle, odd: Option<Condition>) {
    change_odd(world, handle, |watch| watch.set_odd(odd));
}

/// Something happens in a session that its screen does not show.
pub fn moves(world: &World, handle: &SessionHandle) {
    change_odd(world, handle, Watch::moves);
}

/// No session of this rig is looked after for its spinner any more.
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
    tell(world, &handle.id, told);
}

/// Takes in what a harness reports of its session; false when that session is not watched.
pub fn report(world: &World, handle: &SessionHandle, report: &Report) -> bool {
    let now = world.clock.now();
    let told = {
        let mut entries = world.directory.conditions.entries();
        let entry = entries.get_mut(&handle.id);
        let Some(entry) = entry.filter(|entry| entry.watch.is_of(&handle.token)) else {
            return false;
        };
        entry.watch.reported(report, now);
        news(entry, now)
    };
    if *report == Report::Compacts {
        compaction::begins(world, &told.child, &told.harness, handle);
    }
    tell(world, &handle.id, told);
    look_later(world, handle);
    true
}

/// Looks at all of them, and forgets every other session.
pub async fn look_at_all(world: &World, observed: Vec<Observed>) -> BTreeSet<SessionId> {
    let known: BTreeSet<_> = observed
        .iter()
        .filter(|one| one.patterns(world).is_some())
        .map(|one| one.facts.id.clone())
        .collect();
    let conditions = &world.directory.conditions;
    conditions.entries().retain(|id, _| known.contains(id));
    look(world, &observed).await
}

/// Looks at the screens on which something was written since the last look, and tells people what
/// they show. Returns the sessions that are not to be disturbed.
pub async fn look(world: &World, observed: &[Observed]) -> BTreeSet<SessionId> {
    let conditions = &world.directory.conditions;
    let watched: Vec<_> = observed
        .iter()
        .filter_map(|one| Some((one, one.patterns(world)?)))
        .collect();
    for (one, _) in &watched {
        conditions.enroll(&one.child, &one.harness, &one.handle());
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
        holding.contains(&one.facts.id) || accounts.held(world, &one.harness, &one.child).is_some()
    });
    left_alone.map(|(one, _)| one.facts.id.clone()).collect()
}

/// Returns every session that is not to be disturbed, as far as is known: a person is attached, or it
/// has a condition.
///
/// # Errors
/// The sessions cannot be seen.
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
                entry.watch.saw(sighting, activity, now);
            }
            Ok(Err(_)) | Err(_) => entry.watch.missed(),
        }
        entry.looked.notify_one();
        news(entry, now)
    };
    tell(world, &handle.id, told);
}

/// The news of a session for people: conditions that began or ended.
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
        over: entry.watch.tell_end(),
        begun: entry.watch.tell(now),
        account: entry.watch.tell_account(),
    }
}

fn tell(world: &World, session: &SessionId, news: News) {
    match news.account {
        Some(AccountNews::Told(trouble)) => {
            let told = accounts::told(world, &news.child, &news.harness, trouble);
            let mut entries = world.directory.conditions.entries();
            let entry = entries.get_mut(session);
            match (entry, told) {
                (Some(entry), Told::Old) => entry.watch.pass(),
                (Some(entry), Told::Hasty) => entry.watch.forget_account(),
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
        let mut data = serde_json::json!(begun);
        data["session"] = serde_json::json!(session);
        events.push(NewEvent::new(kind, &news.child, cause).with(data));
    }
    if !events.is_empty() {
        world.store.note(events);
    }
}
