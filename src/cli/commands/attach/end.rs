//! The reason of a session's end, from the supervisor's events about that raider or agent since this terminal was
//! attached.

use std::thread;
use std::time::{Duration, Instant};

use super::how;
use crate::cli::answer;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::to_seconds;
use crate::control::client::Flow;
use crate::control::protocol::answers::{Attached, Event};
use crate::control::protocol::{Op, args::Events};
use crate::domain::cause::Cause;
use crate::domain::event::EventType;
use crate::domain::event_data::{Done, HandedOff, NextSession};
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
    let mut client = context.client()?;
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
        let find = |kind: EventType| {
            let mut latest_first = events.iter().rev();
            latest_first.find(|event| event.known() == Some(kind))
        };
        if let Some(done) = find(EventType::RaiderDone) {
            return final_(match done.read::<Done>() {
                Some(Done { relic, exit }) => format!("NAME is done: {relic} is {exit}"),
                None => "NAME is done".to_owned(),
            });
        }
        if find(EventType::RaiderNuked).is_some() {
            return final_("NAME was nuked".to_owned());
        }
        let ends = events.iter().rev().find_map(|event| {
            let kind = event.known().filter(|kind| ENDS.contains(kind))?;
            Some((kind, event))
        });
        let Some((kind, end)) = ends else {
            // The note comes before the end of the session.
            let handoff = find(EventType::RaiderHandoff)?;
            let note = handoff.read::<HandedOff>().and_then(|handoff| handoff.note);
            let note = match shown::line(&note.unwrap_or_default()) {
                empty if empty.is_empty() => String::new(),
                note => format!(" ({note})"),
            };
            return final_(format!(
                "NAME handed off{note}; `hd attach NAME` shows its next session"
            ));
        };
        let group = verb_group(&end.subject);
        let is_asked = end.cause_known().is_some_and(Cause::is_asked);
        Some(Self {
            said: sentence(kind, end).replace("GROUP", group),
            // A nuke ends the session first.
            more: group == "raider" && kind == EventType::AgentStopped && is_asked,
        })
    }

    fn text(&self, name: &str, how: &str) -> String {
        self.said.replace("NAME", name).replace("HOW", how)
    }
}

/// The events of the end of a session.
const ENDS: &[EventType] = &[
    EventType::AgentStopped,
    EventType::AgentRestarted,
    EventType::AgentCrashed,
    EventType::AgentSuspended,
    EventType::AgentDrained,
    EventType::AgentOrphanStopped,
];

fn sentence(kind: EventType, end: &Event) -> String {
    const AGAIN: &str = "`hd attach NAME` shows its next session";
    let cause = end.cause.as_str();
    match (kind, end.cause_known()) {
        (EventType::AgentCrashed, _) => {
            "NAME crashed: its session HOW; `hd why NAME` shows what follows".to_owned()
        }
        (EventType::AgentRestarted | EventType::AgentStopped, Some(Cause::EndedByPerson)) => {
            format!("a key ended the program of NAME, which does not count as a crash; {AGAIN}")
        }
        (EventType::AgentRestarted, Some(Cause::Handoff)) => format!("NAME handed off; {AGAIN}"),
        (EventType::AgentRestarted, Some(Cause::HandoffLoop)) => {
            let said = "NAME handed off too often in a row: its next session starts";
            match end.read::<NextSession>() {
                Some(next) => format!("{said} at {}", to_seconds(&next.until.to_string())),
                None => format!("{said} later"),
            }
        }
        (EventType::AgentRestarted, Some(Cause::Operator)) => {
            format!("NAME was restarted by an operator; {AGAIN}")
        }
        (EventType::AgentRestarted, Some(Cause::Agent | Cause::Automation)) => {
            format!("an {cause} restarted NAME; {AGAIN}")
        }
        (EventType::AgentRestarted, _) => format!("NAME gets a fresh session ({cause}); {AGAIN}"),
        (EventType::AgentStopped, Some(Cause::Agent | Cause::Automation)) => {
            format!("an {cause} stopped NAME; `hd agent start NAME` starts it")
        }
        (EventType::AgentStopped, Some(Cause::Operator)) => {
            "NAME was stopped by an operator; `hd agent start NAME` starts it".to_owned()
        }
        (EventType::AgentStopped, Some(Cause::Shutdown)) => {
            "the supervisor stops, and ended the session".to_owned()
        }
        (EventType::AgentStopped, Some(Cause::RelicClosed)) => {
            "NAME was ended: its relic was closed".to_owned()
        }
        (EventType::AgentSuspended, _) => {
            "NAME was suspended; `hd GROUP resume NAME` ends that".to_owned()
        }
        (EventType::AgentDrained, _) => "NAME was ended: its pool needs fewer members".to_owned(),
        _ => format!("NAME was ended ({cause}); its session HOW"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::domain::event::NewEvent;
    use crate::domain::ids::RelicId;
    use crate::domain::relic::Completion;
    use crate::testing::samples::sample;

    fn journalled(event: NewEvent) -> Event {
        sample(json!({
            "type": event.kind, "cause": event.cause, "subject": event.subject, "data": event.data,
        }))
    }

    fn new(kind: EventType, cause: Cause) -> NewEvent {
        NewEvent::new(kind, "horde/raiders/Toast", cause)
    }

    fn reason_text(events: &[Event]) -> Option<String> {
        Reason::of(events).map(|reason| reason.text("Toast", "ended with exit code 143"))
    }

    #[test]
    fn the_reason_of_the_supervisor_is_told_and_not_the_exit_code() {
        let done = Done {
            relic: RelicId::new("gt-1").unwrap(),
            exit: Completion::Completed,
        };
        let done = journalled(new(EventType::RaiderDone, Cause::Done).and(&done));
        let ended = |cause| journalled(new(EventType::AgentStopped, cause));
        let again = |cause| journalled(new(EventType::AgentRestarted, cause));
        let until = Timestamp::UNIX_EPOCH;
        let braked = new(EventType::AgentRestarted, Cause::HandoffLoop);
        let braked = journalled(braked.and(&NextSession { until }));
        let note = Some("half way".to_owned());
        let handoff = new(EventType::RaiderHandoff, Cause::Handoff).and(&HandedOff { note });
        for (events, expected) in [
            (vec![done.clone()], "Toast is done: gt-1 is completed"),
            (
                vec![done, ended(Cause::Done)],
                "Toast is done: gt-1 is completed",
            ),
            (vec![ended(Cause::Operator)], "stopped by an operator"),
            (
                vec![
                    ended(Cause::Operator),
                    journalled(new(EventType::RaiderNuked, Cause::Operator)),
                ],
                "Toast was nuked",
            ),
            (vec![ended(Cause::Shutdown)], "the supervisor stops"),
            (vec![again(Cause::Handoff)], "Toast handed off; "),
            (vec![braked], "starts at 1970-01-01T00:00:00Z"),
            (vec![again(Cause::HandoffLoop)], "starts later"),
            (
                vec![again(Cause::EndedByPerson)],
                "does not count as a crash",
            ),
            (vec![again(Cause::Drift)], "fresh session (drift)"),
            (vec![journalled(handoff)], "handed off (half way)"),
        ] {
            let told = reason_text(&events).unwrap();
            assert!(told.contains(expected), "{told}");
            assert!(!told.contains("143"), "{told}");
        }
        let crashed = journalled(new(EventType::AgentCrashed, Cause::SessionDied));
        assert!(
            reason_text(&[crashed])
                .unwrap()
                .contains("ended with exit code 143")
        );
        let other = journalled(new(EventType::RaiderNudged, Cause::Stalled));
        assert_eq!(reason_text(&[other]), None);
    }

    #[test]
    fn a_nuke_is_waited_for_when_an_operator_ended_a_raider() {
        let ended = journalled(new(EventType::AgentStopped, Cause::Operator));
        assert!(Reason::of(std::slice::from_ref(&ended)).unwrap().more);
        let mut agent = ended;
        agent.subject = "mayor".to_owned();
        assert!(!Reason::of(&[agent]).unwrap().more);
    }
}
