//! The reason of a session's end, from the supervisor's events about that raider or agent since this terminal was
//! attached.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::how;
use crate::cli::answer;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::to_seconds;
use crate::control::client::Flow;
use crate::control::protocol::answers::{Attached, Event};
use crate::control::protocol::{Op, args::Events};
use crate::domain::holder_wire::Ended;
use crate::domain::ids::verb_group;
use crate::domain::shown;

/// The limit of asking the supervisor for the reason: the supervisor sees the end no earlier than this terminal.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the message about a session's end. `point` is the supervisor's answer when this terminal was attached.
#[expect(
    clippy::disallowed_methods,
    reason = "the supervisor is waited for, in real time"
)]
pub(super) fn end_message(
    context: &mut Context,
    name: &str,
    point: &Attached,
    ended: &Ended,
) -> String {
    let unknown = || format!("the session {}", how(ended));
    let Some(since) = point.seq else {
        return unknown();
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A supervisor that does not answer is stopping, or gone.
        let Ok(events) = events(context, &point.name, since) else {
            return format!("{}; the supervisor does not answer", unknown());
        };
        let reason = Reason::of(&events);
        if reason.as_ref().is_some_and(|reason| !reason.more) || Instant::now() >= deadline {
            let reason = reason.map(|reason| reason.text(name, &how(ended)));
            return reason.unwrap_or_else(unknown);
        }
        thread::sleep(PAUSE);
    }
}

fn events(context: &mut Context, id: &str, since: u64) -> Result<Vec<Event>, CliError> {
    let op = Op::Events(Events {
        follow: false,
        since: Some(since),
        kind: None,
    });
    let client = context.client()?;
    let mut events = Vec::new();
    client.stream(&op, |item| {
        let event: Event = answer::read(op.name(), &item)?;
        if event.subject == id {
            events.push(event);
        }
        Ok::<_, CliError>(Flow::Continue)
    })?;
    Ok(events)
}

/// The reason of an end, according to the events.
#[derive(Debug, PartialEq, Eq)]
struct Reason {
    /// The message, with `NAME` for the name and `HOW` for the end of the process.
    said: String,
    /// Set when an event with more detail may follow at once.
    more: bool,
}

impl Reason {
    /// Returns the reason among the events of a raider or agent, in order. None while no event tells of an end.
    fn of(events: &[Event]) -> Option<Self> {
        let final_ = |said: String| Some(Self { said, more: false });
        let word = |event: &Event, key: &str| {
            let word = event.data.get(key).and_then(Value::as_str);
            word.unwrap_or_default().to_owned()
        };
        let find = |kind: &str| events.iter().rev().find(|event| event.kind == kind);
        if let Some(done) = find("raider.done") {
            let (relic, exit) = (word(done, "relic"), word(done, "exit"));
            return final_(format!("NAME is done: {relic} is {exit}"));
        }
        if find("raider.nuked").is_some() {
            return final_("NAME was nuked".to_owned());
        }
        let is_end = |event: &&Event| {
            matches!(
                event.kind.as_str(),
                "agent.stopped"
                    | "agent.restarted"
                    | "agent.crashed"
                    | "agent.suspended"
                    | "agent.drained"
                    | "agent.orphan_stopped"
            )
        };
        let Some(end) = events.iter().rev().find(is_end) else {
            // The note comes before the end of the session.
            let handoff = find("raider.handoff")?;
            let note = word(handoff, "note");
            let note = match shown::line(&note) {
                empty if empty.is_empty() => String::new(),
                note => format!(" ({note})"),
            };
            return final_(format!(
                "NAME handed off{note}; `hd attach NAME` shows its next session"
            ));
        };
        let (kind, cause) = (end.kind.as_str(), end.cause.as_str());
        let group = verb_group(&end.subject);
        let until = to_seconds(&word(end, "until"));
        Some(Self {
            said: sentence(kind, cause, &until).replace("GROUP", group),
            // A nuke ends the session first.
            more: group == "raider" && kind == "agent.stopped" && is_asked(cause),
        })
    }

    fn text(&self, name: &str, how: &str) -> String {
        self.said.replace("NAME", name).replace("HOW", how)
    }
}

/// Returns true when a caller of the socket asked for it.
fn is_asked(cause: &str) -> bool {
    matches!(cause, "operator" | "agent" | "automation")
}

fn sentence(kind: &str, cause: &str, until: &str) -> String {
    const AGAIN: &str = "`hd attach NAME` shows its next session";
    match (kind, cause) {
        ("agent.crashed", _) => {
            "NAME crashed: its session HOW; `hd why NAME` shows what follows".to_owned()
        }
        ("agent.restarted" | "agent.stopped", "ended_by_person") => {
            format!("a key ended the program of NAME, which does not count as a crash; {AGAIN}")
        }
        ("agent.restarted", "handoff") => format!("NAME handed off; {AGAIN}"),
        ("agent.restarted", "handoff_loop") => {
            format!("NAME handed off too often in a row: its next session starts at {until}")
        }
        ("agent.restarted", "operator") => format!("NAME was restarted by an operator; {AGAIN}"),
        ("agent.restarted", "agent" | "automation") => {
            format!("an {cause} restarted NAME; {AGAIN}")
        }
        ("agent.restarted", cause) => format!("NAME gets a fresh session ({cause}); {AGAIN}"),
        ("agent.stopped", "agent" | "automation") => {
            format!("an {cause} stopped NAME; `hd agent start NAME` starts it")
        }
        ("agent.stopped", "operator") => {
            "NAME was stopped by an operator; `hd agent start NAME` starts it".to_owned()
        }
        ("agent.stopped", "shutdown") => "the supervisor stops, and ended the session".to_owned(),
        ("agent.stopped", "relic_closed") => "NAME was ended: its relic was closed".to_owned(),
        ("agent.suspended", _) => "NAME was suspended; `hd GROUP resume NAME` ends that".to_owned(),
        ("agent.drained", _) => "NAME was ended: its pool needs fewer members".to_owned(),
        (_, cause) => format!("NAME was ended ({cause}); its session HOW"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::samples::sample;

    fn event(kind: &str, cause: &str, data: Value) -> Event {
        let subject = "horde/raiders/Toast";
        sample(json!({"type": kind, "cause": cause, "subject": subject, "data": data}))
    }

    fn reason_text(events: &[Event]) -> Option<String> {
        Reason::of(events).map(|reason| reason.text("Toast", "ended with exit code 143"))
    }

    #[test]
    fn the_reason_of_the_supervisor_is_told_and_not_the_exit_code() {
        let done = event(
            "raider.done",
            "done",
            json!({"relic": "gt-1", "exit": "completed"}),
        );
        let ended = |cause| event("agent.stopped", cause, json!({}));
        let again = |cause| event("agent.restarted", cause, json!({"until": "T"}));
        for (events, expected) in [
            (vec![done.clone()], "Toast is done: gt-1 is completed"),
            (
                vec![done, ended("done")],
                "Toast is done: gt-1 is completed",
            ),
            (vec![ended("operator")], "stopped by an operator"),
            (
                vec![
                    ended("operator"),
                    event("raider.nuked", "operator", json!({})),
                ],
                "Toast was nuked",
            ),
            (vec![ended("shutdown")], "the supervisor stops"),
            (vec![again("handoff")], "Toast handed off; "),
            (vec![again("handoff_loop")], "starts at T"),
            (vec![again("ended_by_person")], "does not count as a crash"),
            (vec![again("drift")], "fresh session (drift)"),
            (
                vec![event(
                    "raider.handoff",
                    "handoff",
                    json!({"note": "half way"}),
                )],
                "handed off (half way)",
            ),
        ] {
            let told = reason_text(&events).unwrap();
            assert!(told.contains(expected), "{told}");
            assert!(!told.contains("143"), "{told}");
        }
        let crashed = event("agent.crashed", "session_died", json!({}));
        assert!(
            reason_text(&[crashed])
                .unwrap()
                .contains("ended with exit code 143")
        );
        let other = event("raider.nudged", "stalled", json!({}));
        assert_eq!(reason_text(&[other]), None);
    }

    #[test]
    fn a_nuke_is_waited_for_when_an_operator_ended_a_raider() {
        let ended = event("agent.stopped", "operator", json!({}));
        assert!(Reason::of(std::slice::from_ref(&ended)).unwrap().more);
        let mut agent = ended;
        agent.subject = "mayor".to_owned();
        assert!(!Reason::of(&[agent]).unwrap().more);
    }
}
