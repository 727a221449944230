//! Looks at the screens of agents for what they ask people (`domain/question.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use super::effects;
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{ChildId, HarnessName, SessionId};
use crate::domain::question::{Pattern, Watch, asked};
use crate::ports::sessions::{SessionError, SessionHandle};

/// How long a screen may take to be seen: a look waits for it.
const GLANCE: Duration = Duration::from_secs(2);

/// So many screens are looked at side by side.
const SIDE_BY_SIDE: usize = 16;

/// What is remembered of screens from look to look.
#[derive(Default)]
pub struct Questions(Mutex<BTreeMap<SessionId, Watch>>);

impl Questions {
    fn watches(&self) -> MutexGuard<'_, BTreeMap<SessionId, Watch>> {
        // At worst a screen is looked at once more.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What that session asks, as far as is known.
    #[must_use]
    pub fn of(&self, handle: &SessionHandle) -> Option<String> {
        let watches = self.watches();
        let watch = watches.get(&handle.id)?;
        watch
            .is_of(&handle.token)
            .then(|| watch.question())?
            .map(str::to_owned)
    }

    /// Whether that session is seen to ask something.
    #[must_use]
    pub fn asks(&self, id: &SessionId) -> bool {
        self.watches().get(id).is_some_and(Watch::asks)
    }

    fn holding(&self) -> BTreeSet<SessionId> {
        let watches = self.watches();
        let holding = watches.iter().filter(|(_, watch)| watch.holds());
        holding.map(|(id, _)| id.clone()).collect()
    }

    /// Has every screen looked at again: other patterns are looked for.
    pub fn look_again(&self) {
        self.watches().values_mut().for_each(Watch::missed);
    }

    /// Whether the screen must be looked at.
    fn is_due(&self, facts: &SessionFacts) -> bool {
        let mut watches = self.watches();
        let watch = watches
            .entry(facts.id.clone())
            .and_modify(|watch| {
                if !watch.is_of(&facts.token) {
                    *watch = Watch::new(&facts.token);
                }
            })
            .or_insert_with(|| Watch::new(&facts.token));
        !watch.is_fresh(facts.last_activity)
    }
}

/// Whose screen may ask something.
pub struct Asker {
    /// Who.
    pub child: ChildId,
    /// What it runs.
    pub harness: HarnessName,
    /// Its session.
    pub facts: SessionFacts,
}

impl Asker {
    /// What is looked for on its screen, if it has one and anything is.
    fn patterns<'a>(&self, world: &'a World) -> Option<&'a [Pattern]> {
        let harness = world.city.harnesses.get(&self.harness)?;
        let runs = self.facts.state == RunState::Running;
        (runs && !harness.needs_input.is_empty()).then_some(&harness.needs_input[..])
    }
}

/// Looks at all of them, and forgets who is not among them.
pub async fn look_at_all(world: &World, askers: Vec<Asker>) -> BTreeSet<SessionId> {
    let asks = |asker: &Asker| asker.patterns(world).is_some();
    let known: BTreeSet<_> = askers
        .iter()
        .filter(|asker| asks(asker))
        .map(|asker| asker.facts.id.clone())
        .collect();
    world
        .directory
        .questions
        .watches()
        .retain(|id, _| known.contains(id));
    look(world, &askers).await
}

/// Looks at the screens on which something was written since the last look, and tells people what is
/// asked there. Answers which sessions are not to be disturbed.
pub async fn look(world: &World, askers: &[Asker]) -> BTreeSet<SessionId> {
    let questions = &world.directory.questions;
    let watched: Vec<_> = askers
        .iter()
        .filter_map(|asker| Some((asker, asker.patterns(world)?)))
        .collect();
    let due = watched
        .iter()
        .filter(|(asker, _)| questions.is_due(&asker.facts));
    stream::iter(due)
        .for_each_concurrent(SIDE_BY_SIDE, |(asker, patterns)| {
            glance(world, asker, patterns)
        })
        .await;
    let holding = questions.holding();
    let ids = watched.iter().map(|(asker, _)| asker.facts.id.clone());
    ids.filter(|id| holding.contains(id)).collect()
}

/// Every session that is not to be disturbed, as far as is known: a person is attached, or it asks
/// something.
///
/// # Errors
/// The sessions cannot be seen.
pub async fn undisturbed(world: &World) -> Result<BTreeSet<SessionId>, SessionError> {
    let sessions = effects::list(world).await?;
    let attached = sessions.into_iter().filter(|facts| facts.attached);
    let asking = world.directory.questions.holding();
    Ok(attached.map(|facts| facts.id).chain(asking).collect())
}

/// Whether words may be typed into that session now: it can be seen that nobody is attached, and that
/// nothing is asked there. What a return would choose in a menu nobody knows.
pub async fn may_type(
    world: &World,
    child: ChildId,
    harness: HarnessName,
    handle: &SessionHandle,
) -> bool {
    let Ok(Some(facts)) = effects::facts(world, &handle.id).await else {
        return false;
    };
    let same = facts.token == handle.token && facts.state == RunState::Running;
    if !same || facts.attached || facts.guessed {
        return false;
    }
    let asker = Asker {
        child,
        harness,
        facts,
    };
    !look(world, &[asker]).await.contains(&handle.id)
}

async fn glance(world: &World, asker: &Asker, patterns: &[Pattern]) {
    let handle = SessionHandle {
        id: asker.facts.id.clone(),
        token: asker.facts.token.clone(),
    };
    let peek = effects::sessions(world, &asker.facts.id, move |provider| {
        provider.peek(&handle)
    });
    let screen = tokio::time::timeout(GLANCE, peek).await;
    let now = world.clock.now();
    let told = {
        let mut watches = world.directory.questions.watches();
        let watch = watches.get_mut(&asker.facts.id);
        let Some(watch) = watch.filter(|watch| watch.is_of(&asker.facts.token)) else {
            return;
        };
        match screen {
            Ok(Ok(screen)) => {
                watch.saw(asked(patterns, &screen), asker.facts.last_activity, now);
            }
            Ok(Err(_)) | Err(_) => watch.missed(),
        }
        watch.tell(now)
    };
    if let Some(question) = told {
        let data = serde_json::json!({ "question": question, "session": asker.facts.id });
        let event = NewEvent::new(EventType::RaiderNeedsInput, &asker.child, Cause::Question);
        world.store.note(vec![event.with(data)]);
    }
}
