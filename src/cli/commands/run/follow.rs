//! Follows relics by events until each has landed, or needs a person.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::answer;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::render::{event, to_seconds};
use crate::control::client::{Client, Flow};
use crate::control::protocol::answers::{Event, Relic, Shown, Started, StartedRelic};
use crate::control::protocol::args::{Events, RelicRef};
use crate::control::protocol::{Exit, Op};
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
        let (mut asking, stream): (Client, Client) = (context.client()?, context.client()?);
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
        let named = event.data.get("relic").and_then(Value::as_str);
        let ours = |name: &&str| self.ends.contains_key(*name);
        let relic = [Some(subject), named].into_iter().flatten().find(ours);
        let relic = relic.map(str::to_owned);
        if event.kind == "raider.charged" {
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
        let crashed = event.kind == "agent.crashed";
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
    let word = |key| event.data.get(key).and_then(Value::as_str);
    match event.kind.as_str() {
        // With a time the forge retries by itself.
        "mr.held" if word("not_before").is_none() => Some(Some(End::Held(
            shown::line(word("note").unwrap_or_default()).into_owned(),
        ))),
        "raider.rate_limited" => Some(Some(End::Parked(parked("a limit", event)))),
        "raider.auth" => Some(Some(End::Parked(parked("a login", event)))),
        "agent.quarantined" => Some(Some(End::Quarantined(event.subject.clone()))),
        "mr.approved"
        | "mr.rejected"
        | "agent.unquarantined"
        | "agent.started"
        | "raider.resumed" => Some(None),
        _ => None,
    }
}

/// Returns the commit and target of a landed relic, in words.
fn landed(event: &Event) -> Option<String> {
    let word = |key| event.data.get(key).and_then(Value::as_str).map(shown::line);
    let (commit, target) = (word("merge_commit")?, word("target")?);
    Some(match event.data["noop"] == true {
        true => format!("changed nothing: {target} already has its content, at {commit}"),
        false => format!("landed as {commit} on {target}"),
    })
}

/// Returns why an account is parked, and until when.
fn parked(what: &str, event: &Event) -> String {
    let word = |key| event.data.get(key).and_then(Value::as_str);
    // The text of the session's screen.
    let text = shown::line(word("text").unwrap_or_default());
    match word("until") {
        Some(until) => format!("{what} until {}: {text}", to_seconds(until)),
        None => format!("{what}: {text}"),
    }
}

/// Returns whether an event says that no more raiders are started for a relic that could not land.
fn is_given_up(event: &Event) -> bool {
    match event.cause.as_str() {
        "rework_exhausted" => true,
        "merge_failed" => event.data["status"] == "blocked",
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::samples::sample;

    fn started(relics: Value) -> Started {
        sample(json!({ "relics": relics }))
    }

    fn one() -> Follow {
        Follow::of(&started(
            json!([{"relic": "gt-1", "raider": "horde/raiders/Toast"}]),
        ))
    }

    fn event(partial: Value) -> Event {
        sample(partial)
    }

    fn relic(status: &str) -> Relic {
        sample(json!({ "status": status }))
    }

    #[test]
    fn only_what_will_be_worked_on_is_followed() {
        let follow = Follow::of(&started(json!([
            {"relic": "gt-1", "raider": "horde/raiders/Toast"},
            {"relic": "gt-2", "raider": null, "auto_charge": true},
            {"relic": "gt-3", "raider": null, "auto_charge": false},
        ])));
        assert_eq!(follow.ends.keys().collect::<Vec<_>>(), ["gt-1", "gt-2"]);
    }

    #[test]
    fn relics_are_found_in_events_by_subject_or_particulars_or_raider() {
        let mut follow = one();
        let mut found = |partial: Value| follow.about(&event(partial));
        assert_eq!(found(json!({"subject": "gt-1"})), Some("gt-1".into()));
        let named = json!({"subject": "gt-4", "data": {"relic": "gt-1"}});
        assert_eq!(found(named), Some("gt-1".into()));
        assert_eq!(found(json!({"subject": "gt-10", "data": {}})), None);
        let crashed = json!({"type": "agent.crashed", "subject": "horde/raiders/Toast"});
        assert_eq!(found(crashed.clone()), Some("gt-1".into()));
        let other = json!({"type": "raider.charged", "subject": "horde/raiders/Toast",
            "data": {"relic": "gt-9"}});
        assert_eq!(found(other), None);
        assert_eq!(found(crashed), None, "the slot was given out again");
    }

    #[test]
    fn the_worst_end_decides_the_exit_code() {
        let exit = |ends: &[End]| {
            let ends = ends.iter().enumerate();
            let ends = ends.map(|(n, end)| (format!("gt-{n}"), Some(end.clone())));
            let follow = Follow {
                ends: ends.collect(),
                ..Follow::default()
            };
            follow.verdict().err().map_or(Exit::Ok, |error| error.exit)
        };
        let died = End::Quarantined("horde/raiders/Toast".into());
        assert_eq!(exit(&[End::Closed, End::Closed]), Exit::Ok);
        assert_eq!(exit(&[End::Closed, End::Deferred(None)]), Exit::Ok);
        assert_eq!(exit(&[End::Blocked, End::Deferred(None)]), Exit::NeedsHuman);
        assert_eq!(exit(&[End::Blocked, died.clone()]), Exit::Failed);
        assert_eq!(exit(&[died, End::Blocked]), Exit::Failed);
        assert_eq!(exit(&[End::NotMerged, End::Blocked]), Exit::MergeFailed);
        let parked = End::Parked("a limit".into());
        assert_eq!(exit(std::slice::from_ref(&parked)), Exit::Parked);
        assert_eq!(exit(&[End::Closed, parked.clone()]), Exit::Parked);
        assert_eq!(exit(&[parked, End::NotMerged]), Exit::MergeFailed);
    }

    #[test]
    fn commit_that_a_relic_landed_as_is_told_at_the_end() {
        let mut follow = one();
        let merged = json!({"type": "raider.merged", "subject": "horde/raiders/Toast",
            "data": {"relic": "gt-1", "merge_commit": "abc", "target": "main", "noop": false}});
        follow.record("gt-1", &event(merged), &relic("closed"));
        assert_eq!(follow.closed(), ["gt-1 landed as abc on main"]);
        let mut by_hand = one();
        let closed = json!({"type": "relic.closed", "subject": "gt-1", "data": {}});
        by_hand.record("gt-1", &event(closed), &relic("closed"));
        assert_eq!(by_hand.closed(), ["gt-1 was closed without landing"]);
    }

    /// Contract 2.3, exit 9: a limit or a login ends the following, with the time of its end.
    #[test]
    fn parked_relic_ends_the_following_unless_its_session_has_gone_on() {
        let hooked = relic("hooked");
        for (kind, said) in [
            ("raider.rate_limited", "a limit until T: at your limit"),
            ("raider.auth", "a login: at your limit"),
        ] {
            let mut follow = one();
            let until = if kind == "raider.auth" {
                json!(null)
            } else {
                json!("T")
            };
            let limit = json!({"type": kind, "subject": "horde/raiders/Toast",
                "data": {"text": "at your limit", "until": until}});
            follow.record("gt-1", &event(limit), &hooked);
            assert_eq!(follow.ends["gt-1"], Some(End::Parked(said.into())));
            let error = follow.verdict().unwrap_err();
            assert_eq!(error.exit, Exit::Parked);
            assert!(error.message.contains(said), "{}", error.message);
            let resumed = event(json!({"type": "raider.resumed"}));
            follow.record("gt-1", &resumed, &hooked);
            assert_eq!(follow.ends["gt-1"], None);
        }
    }

    #[test]
    fn a_blocked_relic_is_a_failed_merge_only_when_the_queue_gave_it_up() {
        let blocked = relic("blocked");
        assert_eq!(end(&blocked, true), Some(End::NotMerged));
        assert_eq!(end(&blocked, false), Some(End::Blocked));
        assert_eq!(end(&relic("hooked"), false), None);
        let said = |cause: &str, status: &str| {
            is_given_up(&event(json!({"cause": cause, "data": {"status": status}})))
        };
        assert!(said("rework_exhausted", "blocked"));
        assert!(said("merge_failed", "blocked"), "the remote refused it");
        assert!(!said("merge_failed", "open"), "it is reworked");
        assert!(!said("stuck", "blocked"));
    }

    /// The relic stays hooked; only the events tell that nothing moves.
    #[test]
    fn waiting_for_a_person_lasts_until_the_person_acted() {
        let hooked = relic("hooked");
        let mut follow = one();
        let mut saw = |partial: Value| {
            follow.record("gt-1", &event(partial), &hooked);
            follow.ends["gt-1"].clone()
        };
        let parked = json!({"type": "mr.held", "data": {"not_before": "2026-01-31T12:00:00Z"}});
        assert_eq!(saw(parked), None);
        let held = json!({"type": "mr.held", "data": {"note": "hd mq approve gt-2"}});
        let waits = Some(End::Held("hd mq approve gt-2".into()));
        assert_eq!(saw(held), waits);
        assert_eq!(saw(json!({"type": "message.sent"})), waits);
        assert_eq!(saw(json!({"type": "mr.approved"})), None);
        let died = json!({"type": "agent.quarantined", "subject": "horde/raiders/Toast"});
        assert_eq!(
            saw(died),
            Some(End::Quarantined("horde/raiders/Toast".into()))
        );
        assert_eq!(saw(json!({"type": "agent.unquarantined"})), None);
    }
}
