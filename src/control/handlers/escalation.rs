//! `escalate`, `escalations`: calls for people, and their answers.

use std::sync::Arc;

use serde_json::Value;

use super::{auto_charge, caller, names, to_json, word};
use crate::actors::ask;
use crate::actors::records::escalations::{self, Entry};
use crate::actors::world::World;
use crate::control::protocol::{ControlError, answers, args};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::city::City;
use crate::domain::escalation::{bounded, severity};
use crate::domain::message::{self, Body, Escalation};
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{StoreError, Txn};

/// The limit of a problem in characters, as one line; the rest of it becomes evidence.
const LINE: usize = 200;

/// `escalate`: HELP from a session or errand about itself, ESCALATION from an operator. The answer names the
/// escalation: the shaman's book is written in the same transaction.
pub(super) async fn escalate(
    world: &World,
    caller: &Caller,
    args: args::Escalate,
) -> Result<Value, ControlError> {
    let (agent, relic) = match &caller.who {
        CallerRole::Raider(_) => {
            let hook = caller::own_hook(world, caller).await?;
            (hook.raider.to_string(), Some(hook.relic))
        }
        CallerRole::Agent(_) => (agent(world, caller).await?, None),
        CallerRole::OwnCommand(_) | CallerRole::Unrecognised => {
            (caller.who.name().to_owned(), None)
        }
        CallerRole::Operator => match &args.about {
            Some(name) => (names::known(world, name).await?.to_string(), None),
            None => ("operator".to_owned(), None),
        },
    };
    let of_itself = caller.who != CallerRole::Operator;
    if of_itself && args.about.is_some() {
        let message = format!("{agent} may escalate only about itself");
        return Err(ControlError::forbidden(message).hint("omit --about"));
    }
    let (problem, evidence) = in_one_line(&args.problem, &args.evidence)?;
    let call = Escalation {
        agent: agent.clone(),
        relic,
        problem: Problem::in_own_words(problem),
        severity: args.severity,
        evidence,
    };
    let (from, body) = match of_itself {
        true => (agent, Body::Help(call.clone())),
        false => ("operator".to_owned(), Body::Escalation(call.clone())),
    };
    let taken = world.store.run(move |txn| {
        let before = escalations::find(txn, &call)?;
        escalations::send(txn, &from, body.clone())?;
        escalations::read_inbox(txn)?;
        let lost = || StoreError::Failed("the shaman did not store the escalation".to_owned());
        Ok((before, escalations::find(txn, &call)?.ok_or_else(lost)?))
    });
    let (before, entry) = taken.await?;
    // The shaman raises it again after a while.
    world.nudge(message::SHAMAN);
    let worse = |before: &Entry| before.relic.priority < entry.relic.priority;
    to_json(&answers::Raised {
        escalation: shown(&entry),
        known: before.is_some(),
        called: before.as_ref().is_none_or(worse),
    })
}

/// Returns the standing agent in whose session the caller runs.
async fn agent(world: &World, caller: &Caller) -> Result<String, ControlError> {
    let session = caller::own_member(world, caller).await?.session;
    let views = ask::views(world).await?;
    let mut views = views.into_iter();
    let view = views.find(|view| view.spec.session == session);
    let view = view.ok_or_else(|| {
        ControlError::not_found(format!("no raider or agent has session {session}"))
    })?;
    Ok(view.spec.id.to_string())
}

fn in_one_line(problem: &str, evidence: &str) -> Result<(String, String), ControlError> {
    let problem = problem.trim();
    let line: String = problem
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(LINE)
        .collect();
    if line.is_empty() {
        let error = ControlError::bad_request("the problem text is empty");
        return Err(error.hint("describe what a person must know"));
    }
    let evidence = match line == problem {
        true => evidence.to_owned(),
        false => format!("{problem}\n{evidence}"),
    };
    Ok((line, bounded(&evidence)))
}

/// Returns the open escalations, the most urgent first.
pub(super) async fn list(world: &World) -> Result<Value, ControlError> {
    let city = Arc::clone(&world.city);
    let open = world.store.run(move |txn| {
        let open = escalations::open(txn)?.into_iter();
        let shown = open.map(|entry| with_next(txn, &city, &entry));
        shown.collect::<Result<Vec<_>, StoreError>>()
    });
    to_json(&open.await?)
}

/// `escalations.ack`: marks the escalation as known.
pub(super) async fn ack(world: &World, asker: Asker, id: &str) -> Result<Value, ControlError> {
    let id = names::relic(id)?;
    let acked = world
        .store
        .run(move |txn| escalations::acknowledge(txn, &id, &asker));
    let entry = acked.await?;
    world.nudge(message::SHAMAN);
    to_json(&shown(&entry))
}

/// Returns an escalation as its relic, with its state.
pub(super) fn shown(entry: &Entry) -> answers::Escalation {
    let standing = &entry.standing;
    answers::Escalation {
        relic: entry.relic.clone(),
        severity: severity(entry.relic.priority),
        code: word(&entry.problem().kind()),
        acked: standing.acked,
        again: standing.again,
        told: standing.told,
        next: None,
    }
}

/// Does the same as [`shown`], with what a person can do about it.
pub(super) fn with_next(
    txn: &mut dyn Txn,
    city: &City,
    entry: &Entry,
) -> Result<answers::Escalation, StoreError> {
    Ok(answers::Escalation {
        next: next(txn, city, entry)?,
        ..shown(entry)
    })
}

/// Returns what a person can do about an open escalation: about the relic that it blocks, or, of a report in words, to
/// close it.
pub(super) fn next(
    txn: &mut dyn Txn,
    city: &City,
    entry: &Entry,
) -> Result<Option<String>, StoreError> {
    let (id, kind) = (&entry.relic.id, entry.problem().kind());
    if entry.relic.status == RelicStatus::Closed {
        return Ok(None);
    }
    if kind == ProblemKind::Said {
        let close = format!("`hd relic close {id}` closes it when it is resolved");
        return Ok(Some(close));
    }
    let relic = match entry.about().1.filter(|_| kind.blocks_relic()) {
        Some(about) => txn.relic(&about),
        None => return Ok(None),
    };
    match relic {
        Ok(relic) if relic.status == RelicStatus::Blocked => auto_charge::told(txn, city, &relic),
        Ok(_) | Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control::handlers::relic;
    use crate::control::protocol::ErrorKind;
    use crate::domain::city::{RestartType, Rights};
    use crate::domain::event::EventType;
    use crate::domain::ids::SessionId;
    use crate::domain::message::Severity;
    use crate::testing::world::{Scenario, TestCity};

    const PID: u32 = 4242;

    fn call(problem: &str) -> args::Escalate {
        args::Escalate {
            problem: problem.into(),
            severity: Severity::Medium,
            evidence: String::new(),
            about: None,
        }
    }

    async fn close(city: &TestCity, caller: &Caller, id: &str) -> Result<Value, ControlError> {
        let relic = id.to_owned();
        let args = args::RelicClose {
            relic,
            reason: None,
            yes: true,
        };
        relic::close(&city.world, caller, args).await
    }

    fn caller(who: CallerRole) -> Caller {
        Caller::stand_in(PID, who)
    }

    #[tokio::test(start_paused = true)]
    async fn a_raider_calls_for_help_as_itself_with_its_work() {
        let (city, charged) = Scenario::at_work().await;
        city.parts.sessions.place(PID, &charged.session);
        let raider = caller(CallerRole::Raider(charged.session.clone()));
        let shown = escalate(&city.world, &raider, call("no key"))
            .await
            .unwrap();
        let toast = charged.raider.to_string();
        assert_eq!(
            shown["labels"][0],
            format!("about:{toast}:{}", charged.relic)
        );
        assert_eq!(
            (&shown["severity"], &shown["acked"]),
            (&json!("medium"), &json!(false))
        );
        let sent = city.events(EventType::MessageSent).await.pop().unwrap();
        let fields = [
            "type", "from", "to", "agent", "relic", "problem", "severity", "evidence",
        ];
        let sent: Vec<_> = fields
            .iter()
            .map(|field| sent.data[*field].clone())
            .collect();
        let relic = charged.relic.as_str();
        let expected = [
            "HELP", &toast, "shaman", &toast, relic, "no key", "medium", "",
        ];
        assert_eq!(sent, expected.map(Value::from));
        // A repeated call in the same words is the same escalation.
        for _ in 0..4 {
            let again = escalate(&city.world, &raider, call("no key"));
            assert_eq!(again.await.unwrap()["id"], shown["id"]);
        }
        assert_eq!(city.events(EventType::EscalationRaised).await.len(), 1);
        assert_eq!(city.events(EventType::MessageSent).await.len(), 1);
        assert_eq!([&shown["known"], &shown["called"]], [false, true]);
        for (severity, called) in [(Severity::Low, false), (Severity::High, true)] {
            let again = args::Escalate {
                severity,
                ..call("no key")
            };
            let again = escalate(&city.world, &raider, again).await.unwrap();
            assert_eq!([&again["known"], &again["called"]], [true, called]);
        }
        assert_eq!(city.events(EventType::EscalationRaised).await.len(), 2);
        let other = args::Escalate {
            about: Some("Shadow".into()),
            ..call("it is slow")
        };
        let refused = escalate(&city.world, &raider, other).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        // A raider must not close its own escalation.
        let id = shown["id"].as_str().unwrap();
        let refused = close(&city, &raider, id).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        let operator = caller(CallerRole::Operator);
        close(&city, &operator, id).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_is_known_by_its_session_and_an_operator_names_whom_it_is_about() {
        let city = Scenario::new()
            .agent("mayor", RestartType::Permanent)
            .start()
            .await;
        let session = SessionId::new("city-mayor").unwrap();
        city.parts.sessions.place(PID, &session);
        let mayor = caller(CallerRole::Agent(session));
        let shown = escalate(&city.world, &mayor, call("no key")).await.unwrap();
        assert_eq!(shown["labels"], json!(["about:mayor"]));
        let operator = caller(CallerRole::Operator);
        for (about, label) in [(None, "about:operator"), (Some("mayor"), "about:mayor")] {
            let about = about.map(str::to_owned);
            let args = args::Escalate {
                about,
                ..call("it is slow")
            };
            let shown = escalate(&city.world, &operator, args).await.unwrap();
            assert_eq!(shown["labels"], json!([label]));
        }
        let about = Some("nobody".to_owned());
        let args = args::Escalate {
            about,
            ..call("it is slow")
        };
        let unknown = escalate(&city.world, &operator, args).await.unwrap_err();
        assert_eq!(unknown.kind, ErrorKind::NotFound);
    }

    /// An automation of a rig does not count as a person, whatever rights it has to work.
    #[tokio::test(start_paused = true)]
    async fn errand_escalates_as_itself_and_not_for_others() {
        let (city, charged) = Scenario::at_work().await;
        let errand = caller(CallerRole::OwnCommand(Rights::Work));
        let about = args::Escalate {
            about: Some(charged.raider.to_string()),
            ..call("no key")
        };
        let refused = escalate(&city.world, &errand, about).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        let shown = escalate(&city.world, &errand, call("no key"));
        let shown = shown.await.unwrap();
        assert_eq!(shown["labels"], json!(["about:errand"]));
        let sent = city.events(EventType::MessageSent).await;
        assert_eq!(sent.last().unwrap().data["from"], "errand");
        let id = shown["id"].as_str().unwrap();
        let refused = close(&city, &errand, id).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        let work = city.relic("b").await;
        close(&city, &errand, work.as_str()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_may_do_everything_may_close_an_escalation_and_no_other_may() {
        for (rights, may) in [(Rights::Work, false), (Rights::All, true)] {
            let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
            let city = scenario.with(|city| city.agents[0].rights = rights);
            let city = city.start().await;
            let operator = caller(CallerRole::Operator);
            let shown = escalate(&city.world, &operator, call("no key"));
            let shown = shown.await.unwrap();
            let mayor = caller(CallerRole::Agent(SessionId::new("city-mayor").unwrap()));
            let id = shown["id"].as_str().unwrap();
            assert_eq!(close(&city, &mayor, id).await.is_ok(), may);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_acknowledged_escalation_is_listed_as_such() {
        let city = Scenario::new().start().await;
        let operator = caller(CallerRole::Operator);
        let shown = escalate(&city.world, &operator, call("no key"))
            .await
            .unwrap();
        let id = shown["id"].as_str().unwrap();
        ack(&city.world, Asker::person(), id).await.unwrap();
        let listed = list(&city.world).await.unwrap();
        assert_eq!(
            (&listed[0]["id"], &listed[0]["acked"]),
            (&shown["id"], &json!(true))
        );
        for (id, kind) in [
            ("esc-9", ErrorKind::NotFound),
            ("what", ErrorKind::NotFound),
        ] {
            assert_eq!(
                ack(&city.world, Asker::person(), id)
                    .await
                    .unwrap_err()
                    .kind,
                kind
            );
        }
    }

    #[test]
    fn problem_is_one_line_and_further_lines_are_evidence() {
        let long = "x".repeat(LINE + 1);
        for (problem, evidence, line, rest) in [
            ("no key", "401", "no key", "401"),
            (
                " no key\nsee below ",
                "401",
                "no key",
                "no key\nsee below\n401",
            ),
            (&long, "", &long[..LINE], &long),
        ] {
            let said = in_one_line(problem, evidence).unwrap();
            assert_eq!(said, (line.to_owned(), rest.to_owned()));
        }
        assert!(in_one_line(" \n ", "x").is_err());
    }
}
