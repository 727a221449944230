//! Follows relics by events until each has landed, or needs a person.

use std::collections::BTreeMap;

use crate::cli::answer;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::render::{event, to_seconds};
use crate::control::client::{Client, Flow};
use crate::control::protocol::answers::{Event, Relic, Shown, Started, StartedRelic};
use crate::control::protocol::args::{Events, RelicRef};
use crate::control::protocol::{Exit, Op};
use crate::domain::cause::Cause;
use crate::domain::condition::Condition;
use crate::domain::event::EventType;
use crate::domain::event_data::{MergeStep, Merged, NotLanded};
use crate::domain::relic::RelicStatus;
use crate::domain::shown;

/// The end of following a relic.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// The relic landed.
    Closed,
    /// A person has to act.
    Blocked,
    /// A person has to look before it lands; says how.
    Held(String),
    /// The raider with this name died too often.
    Quarantined(String),
    /// The account of its harness is at a limit or wants a login; says which.
    Parked(String),
    /// The work could not land.
    NotMerged,
    /// Deferred until a time, if one is given.
    Deferred(Option<String>),
}

/// Relics being followed, by what the events say.
#[derive(Default)]
pub(super) struct Follow {
    ends: BTreeMap<String, Option<End>>,
    /// The relic of each raider: the events of a session name the raider only.
    raiders: BTreeMap<String, String>,
    /// Relics that the merge queue gave up on.
    exhausted: Vec<String>,
    /// The commit and target where each relic landed, in words.
    landed: BTreeMap<String, String>,
}

impl Follow {
    /// Follows the relics of a `run` that a raider works on, or that a later charge will pick up by itself.
    pub fn of(started: &Started) -> Self {
        let mut follow = Self::default();
        for relic in &started.relics {
            let relic = match relic {
                StartedRelic::Charged(charged) => {
                    let (raider, relic) = (&charged.raider, &charged.relic);
                    follow.raiders.insert(raider.to_string(), relic.to_string());
                    relic
                }
                StartedRelic::Waits(waiting) if waiting.auto_charge => &waiting.relic,
                StartedRelic::Waits(_) | StartedRelic::Failed(_) => continue,
            };
            follow.ends.insert(relic.to_string(), None);
        }
        follow
    }

    /// Shows the events of the relics until all have ended; the worst end decides the exit code.
    pub fn finish(mut self, context: &mut Context, since: u64) -> Result<(), CliError> {
        if self.ends.is_empty() {
            return Ok(());
        }
        let (mut asking, mut stream): (Client, Client) = (context.client()?, context.client()?);
        output::message("hd: following; Ctrl-C ends hd, not the work");
        let events = Op::Events(Events {
            follow: true,
            since: Some(since),
            kind: None,
        });
        stream.stream(&events, |item| {
            let event: Event = answer::read(events.name(), &item)?;
            let Some(relic) = self.about(&event) else {
                return Ok(Flow::Continue);
            };
            context.print_raw(events.name(), &item, event::event)?;
            let asked = Op::RelicShow(RelicRef {
                relic: relic.clone(),
            });
            let shown: Shown = answer::read(asked.name(), &asking.call(&asked)?)?;
            self.record(&relic, &event, shown.relic());
            let all = self.ends.values().all(Option::is_some);
            Ok::<_, CliError>(if all { Flow::Stop } else { Flow::Continue })
        })?;
        for said in self.closed() {
            output::message(&format!("hd: {said}"));
        }
        self.verdict()
    }

    /// Returns a sentence for each closed relic.
    fn closed(&self) -> Vec<String> {
        let closed = self
            .ends
            .iter()
            .filter(|(_, end)| **end == Some(End::Closed));
        let said = closed.map(|(relic, _)| match self.landed.get(relic) {
            Some(landed) => format!("{relic} {landed}"),
            None => format!("{relic} was closed without landing"),
        });
        said.collect()
    }

    /// Returns the followed relic that an event is about. Slots are reused: a raider that is charged with another relic
    /// is no longer followed.
    fn about(&mut self, event: &Event) -> Option<String> {
        let subject = event.subject.as_str();
        let ours = |name: &&str| self.ends.contains_key(*name);
        let relic = [Some(subject), event.relic()]
            .into_iter()
            .flatten()
            .find(ours);
        let relic = relic.map(str::to_owned);
        if event.known() == Some(EventType::RaiderCharged) {
            self.raiders.remove(subject);
            if let Some(relic) = &relic {
                self.raiders.insert(subject.to_owned(), relic.clone());
            }
        }
        relic.or_else(|| self.raiders.get(subject).cloned())
    }

    /// Takes in an event together with its relic's present state.
    fn record(&mut self, relic: &str, event: &Event, now: &Relic) {
        if is_given_up(event) {
            self.exhausted.push(relic.to_owned());
        }
        if let Some(landed) = landed(event) {
            self.landed.insert(relic.to_owned(), landed);
        }
        let exhausted = self.exhausted.iter().any(|it| it == relic);
        let before = self.ends.get(relic).cloned().flatten();
        let said = match before {
            Some(End::Held(_) | End::Quarantined(_) | End::Parked(_)) => {
                waits(event).unwrap_or(before)
            }
            _ => waits(event).flatten(),
        };
        let crashed = event.known() == Some(EventType::AgentCrashed);
        let end = match (end(now, exhausted), said) {
            // The event that says why its relic is blocked comes next.
            (Some(End::Blocked), None) if crashed => None,
            // The quarantine is the reason of the block, so it says more.
            (Some(End::Blocked), Some(End::Quarantined(raider))) => Some(End::Quarantined(raider)),
            (end, said) => end.or(said),
        };
        self.ends.insert(relic.to_owned(), end);
    }

    fn verdict(&self) -> Result<(), CliError> {
        let mut worst: Option<CliError> = None;
        for (relic, end) in &self.ends {
            let Some(error) = end.as_ref().and_then(|end| failure(relic, end)) else {
                continue;
            };
            let rank = |error: &CliError| match error.exit {
                Exit::MergeFailed => 3,
                Exit::NeedsHuman | Exit::Parked => 1,
                _ => 2,
            };
            worst = Some(match worst {
                // All are reported; the worst decides.
                Some(mut before) => {
                    let mut worse = error;
                    if rank(&before) >= rank(&worse) {
                        std::mem::swap(&mut before, &mut worse);
                    }
                    worse.message = format!("{}\n{}", worse.message, before.message);
                    let hints = [worse.hint.take(), before.hint];
                    let hints: Vec<_> = hints.into_iter().flatten().collect();
                    worse.hint(hints.join("\n"))
                }
                None => error,
            });
        }
        worst.map_or(Ok(()), Err)
    }
}

/// Returns what an event says of waiting for a person: `Some(Some(_))` begins, `Some(None)` ends, `None` is no
/// statement.
fn waits(event: &Event) -> Option<Option<End>> {
    match event.known()? {
        EventType::MrHeld => {
            let held = event.read::<MergeStep>()?;
            // With a time the forge retries by itself.
            let waits = held.not_before.is_none().then(|| {
                let note = held.note.unwrap_or_default();
                End::Held(shown::line(&note).into_owned())
            });
            waits.map(Some)
        }
        EventType::RaiderRateLimited => Some(Some(End::Parked(parked("a limit", event)))),
        EventType::RaiderAuth => Some(Some(End::Parked(parked("a login", event)))),
        EventType::AgentQuarantined => Some(Some(End::Quarantined(event.subject.clone()))),
        EventType::MrApproved
        | EventType::MrRejected
        | EventType::AgentUnquarantined
        | EventType::AgentStarted
        | EventType::RaiderResumed => Some(None),
        _ => None,
    }
}

/// Returns the commit and target of a landed relic, in words.
fn landed(event: &Event) -> Option<String> {
    let merged = event.read::<Merged>()?;
    let (commit, target) = (
        shown::line(&merged.merge_commit),
        shown::line(&merged.target),
    );
    Some(match merged.noop {
        true => format!("changed nothing: {target} already has its content, at {commit}"),
        false => format!("landed as {commit} on {target}"),
    })
}

/// Returns why an account is parked, and until when.
fn parked(what: &str, event: &Event) -> String {
    let (text, until) = match event.read::<Condition>() {
        Some(Condition::RateLimited { text, until }) => (text, until),
        Some(Condition::Auth { text }) => (text, None),
        // Data of another version.
        _ => return what.to_owned(),
    };
    // The text of the session's screen.
    let text = shown::line(&text);
    match until {
        Some(until) => format!("{what} until {}: {text}", to_seconds(&until.to_string())),
        None => format!("{what}: {text}"),
    }
}

/// Returns whether an event says that no more raiders are started for a relic that could not land.
fn is_given_up(event: &Event) -> bool {
    match event.cause_known() {
        Some(Cause::ReworkExhausted) => true,
        Some(Cause::MergeFailed) => {
            let relic = event.read::<NotLanded>();
            relic.is_some_and(|relic| relic.status == RelicStatus::Blocked)
        }
        _ => false,
    }
}

fn end(relic: &Relic, exhausted: bool) -> Option<End> {
    match relic.status {
        RelicStatus::Closed => Some(End::Closed),
        RelicStatus::Blocked if exhausted => Some(End::NotMerged),
        RelicStatus::Blocked => Some(End::Blocked),
        RelicStatus::Deferred => {
            let until = relic.until.map(|until| to_seconds(&until.to_string()));
            Some(End::Deferred(until))
        }
        RelicStatus::Open | RelicStatus::Hooked => None,
    }
}

/// Returns the error for an end that was not wanted. A deferred relic is no failure: it is only reported.
fn failure(relic: &str, end: &End) -> Option<CliError> {
    let failed = |exit, what: &str| CliError::new(exit, format!("{relic} {what}"));
    let why =
        format!("`hd why {relic}` shows the cause, `hd relic reopen {relic}` makes it ready again");
    match end {
        End::Closed => None,
        End::Deferred(until) => {
            let until = until.as_deref().unwrap_or("`hd relic reopen`");
            output::message(&format!("hd: {relic} is deferred until {until}"));
            None
        }
        End::Blocked => Some(failed(Exit::NeedsHuman, "waits for a person").hint(why)),
        End::Held(note) => Some(failed(Exit::NeedsHuman, "waits for a person").hint(note)),
        End::Quarantined(raider) => Some(
            failed(
                Exit::Failed,
                &format!(
                    "is blocked: {raider} is in quarantine, because it died too often"
                ),
            )
            .hint(format!(
                "`hd logs {raider}` shows its last output, `hd raider unquarantine {raider}` retries it"
            )),
        ),
        End::Parked(why) => Some(
            failed(Exit::Parked, &format!("is parked by {why}"))
                .hint("it continues automatically after that; `hd status` shows when"),
        ),
        End::NotMerged => Some(failed(Exit::MergeFailed, "could not be merged").hint(why)),
    }
}

#[cfg(test)]
mod tests;
