//! The children of a released account: their order, and the text for sessions that were kept.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::super::boards::Conditions;
use super::super::claims::ClaimKey;
use super::super::refusal::Refusal;
use super::super::typing::{self, Typing};
use super::super::world::World;
use super::super::{ask, effects};
use crate::actors::mail::{ChildState, ChildView, Work};
use crate::actors::records::escalations::{self, Ends};
use crate::domain::account::{AccountReport, Why};
use crate::domain::cause::Cause;
use crate::domain::dialog::Dialog;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, HarnessName, RelicId};
use crate::domain::message::Escalation;
use crate::domain::problem::ProblemKind;
use crate::domain::prompt;
use crate::ports::sessions::SessionHandle;

/// Interval between two tries to tell a session.
const PAUSE: Duration = Duration::from_secs(5);
/// Time after which a person is called.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Returns the children that wait for the account, the most urgent first: standing agents, then raiders by the priority
/// and the age of their work.
///
/// # Errors
/// The children cannot be listed now.
pub(super) async fn order(world: &World, account: &str) -> Result<Vec<ChildId>, Refusal> {
    let views = ask::views(world).await?;
    let waits = |view: &&ChildView| {
        let of = view
            .spec
            .harness()
            .and_then(|name| world.city.account(name));
        let waits = match trouble(&world.directory.conditions, view) {
            Some(shown) => shown.is_some(),
            // A child that rests for another reason, or is finished, would take a turn and try nothing.
            None => {
                let starts = matches!(view.state, ChildState::Starting | ChildState::Backoff);
                view.parked.is_some() || starts
            }
        };
        of == Some(account) && waits
    };
    let waiting: Vec<_> = views.iter().filter(waits).collect();
    let relics = waiting.iter().filter_map(|view| match &view.spec.work {
        Work::Raider { hook, .. } => Some(hook.relic.clone()),
        Work::Agent(_) => None,
    });
    let relics: Vec<RelicId> = relics.collect();
    let priorities = world.store.run(move |txn| {
        let mut priorities = BTreeMap::new();
        for relic in &relics {
            priorities.insert(relic.clone(), txn.relic(relic)?.priority);
        }
        Ok(priorities)
    });
    let priorities = priorities.await.unwrap_or_default();
    let mut waiting: Vec<_> = waiting
        .into_iter()
        .map(|view| {
            let rank = match &view.spec.work {
                Work::Agent(_) => None,
                Work::Raider { hook, .. } => {
                    let priority = priorities.get(&hook.relic).copied();
                    Some((Reverse(priority), hook.charged_at))
                }
            };
            (rank, view.spec.id.clone())
        })
        .collect();
    waiting.sort();
    Ok(waiting.into_iter().map(|(_, id)| id).collect())
}

/// Returns the limit or login that a child's session shows; the outer none is a child without a session.
fn trouble(conditions: &Conditions, view: &ChildView) -> Option<Option<AccountReport>> {
    let session = view.session.as_ref()?;
    Some(conditions.trouble(&session.handle))
}

/// Lets these children go on. One without a session is started by the look that follows.
pub(super) fn wake(world: &Arc<World>, children: Vec<ChildId>) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        // Their turn has come, and no other follows.
        let views = loop {
            match ask::views(&world).await {
                Ok(views) => break views,
                Err(_) if world.is_stopping() => return,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        wake_each(&world, &views, &children);
    });
}

fn wake_each(world: &Arc<World>, views: &[ChildView], children: &[ChildId]) {
    for view in views.iter().filter(|view| children.contains(&view.spec.id)) {
        let found = trouble(&world.directory.conditions, view).flatten();
        let (Some(trouble), Some(session), Some(harness)) =
            (found, &view.session, view.spec.harness())
        else {
            continue;
        };
        let kept = ParkedSession {
            world: Arc::clone(world),
            child: view.spec.id.clone(),
            harness: harness.clone(),
            handle: session.handle.clone(),
        };
        tokio::spawn(kept.goes_on(trouble.why));
    }
}

/// A session that was kept while its account was parked.
struct ParkedSession {
    world: Arc<World>,
    child: ChildId,
    harness: HarnessName,
    handle: SessionHandle,
}

impl ParkedSession {
    async fn goes_on(self, why: Why) {
        match why {
            // It has the old login in its memory.
            Why::Auth => {
                let cycled = ask::cycle(&self.world, self.child.clone(), Cause::Login).await;
                or_warn!(cycled, child = %self.child,
                    "a session could not be restarted after a login; it keeps the old login until a person restarts it");
            }
            Why::RateLimited => self.restore_prompt().await,
        }
    }

    /// Restores the prompt that the limit interrupted, as soon as that can be typed: nothing else tells a standing
    /// agent to go on.
    async fn restore_prompt(self) {
        let world = &self.world;
        // One that waits since an earlier park tells it.
        let Some(_claim) = world
            .claims
            .claim(ClaimKey::GoesOn(self.handle.token.clone()))
        else {
            return;
        };
        let mut deadline = world.clock.mono() + PATIENCE;
        while !world.is_stopping() {
            let accounts = &world.directory.accounts;
            if accounts
                .held(&world.city, &self.harness, &self.child)
                .is_some()
            {
                // Another session told of a limit meanwhile.
                deadline = world.clock.mono() + PATIENCE;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            match self.try_to_tell().await {
                Ok(()) => return,
                Err(why) if world.clock.mono() >= deadline => {
                    return self.call(&why).await;
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Calls a person for a session that could not be told.
    async fn call(&self, why: &str) {
        let body = Escalation::high(
            &self.child,
            ProblemKind::LimitUntold,
            format!("{why}\n`hd attach {}` shows its terminal.", self.child),
        )
        .medium();
        or_warn!(escalations::call(&self.world, "root", Ends::WithWork, body).await, child = %self.child,
            "the escalation about a session that could not be told that its limit is over could not be stored; no person is called");
    }

    /// The answer that makes the program try again, or a text that tells it to go on.
    ///
    /// # Errors
    /// Why it cannot be told now.
    async fn try_to_tell(&self) -> Result<(), String> {
        let (world, handle) = (&self.world, &self.handle);
        let mut typing = typing::may_type(world, &self.harness, handle).await;
        if let Typing::Asks(dialog) = &typing
            && let Some(choice) = self.choice(dialog)
        {
            self.answer(&choice).await;
            typing = typing::may_type(world, &self.harness, handle).await;
        }
        if !matches!(typing, Typing::Unseen(_)) {
            // Until here the dialog was the limit's, and no question that a person is called for.
            world.directory.conditions.pass(handle);
        }
        match typing {
            Typing::Unseen(why) => return Err(format!("its session cannot be read: {why}")),
            // It is gone, and the next session is told when it starts; or its dialog calls a person.
            Typing::Gone | Typing::Asks(_) => return Ok(()),
            // It tries again by itself.
            _ if self.works().await => return Ok(()),
            Typing::Attended => return Err("a person is attached".to_owned()),
            Typing::Begun(_) => {
                return Err("its input holds a line that a person began".to_owned());
            }
            Typing::Unrecognised(_) => {
                return Err("its screen shows no input line".to_owned());
            }
            Typing::Free => {}
        }
        let text = prompt::limit_over(&world.hd());
        let told = typing::submit(world, &self.child, Some(&self.harness), handle, &text).await;
        told.map_err(|refusal| refusal.to_string())
    }

    /// Answers the dialog of the limit, and says so to people.
    async fn answer(&self, choice: &str) {
        let (world, handle) = (&self.world, &self.handle);
        let answered = typing::answer(world, Some(&self.harness), handle, choice).await;
        match answered {
            Ok(answered) => {
                let event = NewEvent::new(EventType::RaiderAnswered, &self.child, Cause::RateLimit);
                let data = json!({
                    "question": answered.question, "answer": answered.answer, "session": handle.id,
                });
                world.store.journal(vec![event.with(data)]);
            }
            Err(error) => {
                tracing::warn!(child = %self.child, %error, "the dialog of a limit that is over could not be answered; a person must answer it");
            }
        }
    }

    /// The choice of the dialog that waits for the end of the limit, or tries again.
    fn choice(&self, dialog: &Dialog) -> Option<String> {
        let harness = self.world.city.harnesses.get(&self.harness)?;
        let choices = dialog.choices().iter();
        let labels: Vec<_> = choices.map(|choice| choice.label.as_str()).collect();
        let found = preferred(&harness.limit_answer, &labels).map(str::to_owned);
        if found.is_none() && !harness.limit_answer.is_empty() {
            tracing::warn!(
                child = %self.child, ?labels, limit_answer = harness.limit_answer,
                "no choice of the dialog matches limit_answer of the harness; a person must answer it"
            );
        }
        found
    }

    async fn works(&self) -> bool {
        let Some(harness) = self.world.city.harnesses.get(&self.harness) else {
            return false;
        };
        let of = self.handle.clone();
        let view = effects::sessions(&self.world, &self.handle.id, move |p| p.view(&of)).await;
        view.is_ok_and(|view| harness.patterns.works(&view.text()))
    }
}

/// The choice that has the first of these parts; case does not matter.
fn preferred<'a>(wanted: &str, labels: &[&'a str]) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let parts = wanted.split('|').map(str::trim);
    let mut parts = parts.filter(|part| !part.is_empty());
    parts.find_map(|part| {
        // One word may begin the choice of any dialog.
        let is_it = |label: &&str| match part.contains(' ') {
            true => label.to_lowercase().starts_with(part),
            false => label.trim().to_lowercase() == part,
        };
        labels.iter().copied().find(is_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_of_a_limit_is_the_first_wanted_one_that_the_dialog_has() {
        let wanted = "Keep trying|Stop";
        let menu = ["Switch to flash", "Stop", "Keep trying"];
        assert_eq!(preferred(wanted, &menu), Some("Keep trying"));
        assert_eq!(preferred(wanted, &menu[..2]), Some("Stop"));
        assert_eq!(preferred(wanted, &menu[..1]), None);
        // A question of the model is none of a limit.
        let other = ["Leave it", "Stop production and wipe its data"];
        assert_eq!(preferred(wanted, &other), None);
        assert_eq!(
            preferred("stop and wait", &["Stop and wait for it"]),
            Some("Stop and wait for it")
        );
        assert_eq!(preferred("", &menu), None);
        assert_eq!(preferred("|", &menu), None);
    }
}
