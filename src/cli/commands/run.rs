//! `hd run`: makes a relic of each task and charges it; on a terminal it follows them until they
//! have landed, or wait for a person.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::args::Run;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::render::{event, show};
use crate::control::client::{Client, Flow};
use crate::control::protocol::args::{Events, Nothing, RelicRef};
use crate::control::protocol::{ControlError, Exit, Op};

pub(super) fn run(args: Run, context: &mut Context) -> Result<(), CliError> {
    let follow = context.on_terminal() && !args.detach;
    // Before the relics are made, so that no event of theirs is missed.
    let since = match follow {
        true => Some(last_event(context)?),
        false => None,
    };
    let result = context.ask(&Op::Run(args.run))?;
    context.print(&result, show::charged)?;
    uncharged(&result)?;
    let relics = relics(&result);
    match since {
        Some(since) if !relics.is_empty() => Follow::new(context, relics)?.finish(since),
        Some(_) => {
            output::say("hd: nobody works on it yet; `hd charge RELIC RIG` charges it");
            Ok(())
        }
        None => Ok(()),
    }
}

/// The relics were made whether they could be charged or not: what went wrong is the end of it, and
/// saying `run` again would make them twice.
fn uncharged(result: &Value) -> Result<(), CliError> {
    let relics = result.get("relics").and_then(Value::as_array);
    let failed = relics.into_iter().flatten().find_map(|relic| {
        let error = serde_json::from_value::<ControlError>(relic.get("error")?.clone()).ok()?;
        Some((relic.get("relic")?.as_str()?, error))
    });
    let Some((relic, mut error)) = failed else {
        return Ok(());
    };
    error.message = format!(
        "{relic} was made and could not be charged: {}",
        error.message
    );
    let again = format!("`hd charge {relic} RIG` charges it");
    error.hint = Some(
        error
            .hint
            .map_or(again.clone(), |hint| format!("{hint}; {again}")),
    );
    Err(error.into())
}

/// The number of the newest event, which `status` tells.
pub(super) fn last_event(context: &mut Context) -> Result<u64, CliError> {
    let status = context.ask(&Op::Status(Nothing {}))?;
    Ok(status.get("seq").and_then(Value::as_u64).unwrap_or(0))
}

/// The ids of the relics that `run` made and that somebody works on, or will without being told.
fn relics(result: &Value) -> Vec<String> {
    let relics = result.get("relics").and_then(Value::as_array);
    let id = |relic: &Value| {
        let id = relic.get("relic").or_else(|| relic.get("id"));
        id.and_then(Value::as_str).map(str::to_owned)
    };
    let goes_on = |relic: &&Value| {
        let raider = relic.get("raider").is_some_and(|raider| !raider.is_null());
        raider || relic.get("auto_charge").and_then(Value::as_bool) == Some(true)
    };
    relics
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter(goes_on)
        .filter_map(id)
        .collect()
}

/// How a relic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It landed.
    Closed,
    /// A person has to act.
    Blocked,
    /// It could not land.
    NotMerged,
    /// Put off.
    Deferred,
}

/// Relics being followed.
struct Follow<'a> {
    context: &'a Context,
    asking: Client,
    stream: Client,
    ends: BTreeMap<String, Option<End>>,
    /// Relics that the merge queue gave up on.
    exhausted: Vec<String>,
}

impl<'a> Follow<'a> {
    fn new(context: &'a mut Context, relics: Vec<String>) -> Result<Self, CliError> {
        let (asking, stream) = (context.client()?, context.client()?);
        Ok(Self {
            context,
            asking,
            stream,
            ends: relics.into_iter().map(|relic| (relic, None)).collect(),
            exhausted: Vec::new(),
        })
    }

    fn finish(self, since: u64) -> Result<(), CliError> {
        let Self {
            context,
            mut asking,
            stream,
            mut ends,
            mut exhausted,
        } = self;
        output::say("hd: following; Ctrl-C ends the watching and not the work");
        let events = Op::Events(Events {
            follow: true,
            since: Some(since),
            kind: None,
        });
        stream.stream(&events, |item| {
            let Some(relic) = about(&item, &ends) else {
                return Ok(Flow::Continue);
            };
            context.print(&item, event::event)?;
            if is_given_up(&item) {
                exhausted.push(relic.clone());
            }
            let asked = Op::RelicShow(RelicRef {
                relic: relic.clone(),
            });
            let shown = asking.call(&asked)?;
            ends.insert(relic.clone(), end(&shown, exhausted.contains(&relic)));
            let all = ends.values().all(Option::is_some);
            Ok::<_, CliError>(if all { Flow::Stop } else { Flow::Continue })
        })?;
        verdict(&ends)
    }
}

/// Which of the followed relics an event is about.
fn about(event: &Value, ends: &BTreeMap<String, Option<End>>) -> Option<String> {
    let named = [event.get("subject"), event.pointer("/data/relic")];
    let mut named = named.into_iter().flatten().filter_map(Value::as_str);
    named
        .find(|name| ends.contains_key(*name))
        .map(str::to_owned)
}

/// Whether an event says that no more raiders are mustered for a relic that could not land.
fn is_given_up(event: &Value) -> bool {
    let word = |at| event.pointer(at).and_then(Value::as_str);
    match word("/cause") {
        Some("rework_exhausted") => true,
        Some("merge_failed") => word("/data/status") == Some("blocked"),
        _ => false,
    }
}

fn end(relic: &Value, exhausted: bool) -> Option<End> {
    match relic.get("status").and_then(Value::as_str)? {
        "closed" => Some(End::Closed),
        "blocked" if exhausted => Some(End::NotMerged),
        "blocked" => Some(End::Blocked),
        "deferred" => Some(End::Deferred),
        _ => None,
    }
}

/// The worst end decides the exit code.
fn verdict(ends: &BTreeMap<String, Option<End>>) -> Result<(), CliError> {
    let with = |end| {
        let of = ends.iter().filter(move |(_, at)| **at == Some(end));
        of.map(|(relic, _)| relic.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let ends = [
        (End::NotMerged, Exit::MergeFailed, "could not be merged"),
        (End::Blocked, Exit::NeedsHuman, "waits for a person"),
        (End::Deferred, Exit::Parked, "was put off"),
    ];
    for (end, exit, what) in ends {
        let relics = with(end);
        if !relics.is_empty() {
            return Err(CliError::new(exit, format!("{relics} {what}")).hint(
                "`hd why RELIC` tells how it came to that, `hd relic reopen` lets it go on",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control::protocol::ErrorKind;

    #[test]
    fn relics_are_found_in_events_by_subject_or_particulars() {
        let ends = BTreeMap::from([("gt-1".to_owned(), None)]);
        let found = |event: Value| about(&event, &ends);
        assert_eq!(found(json!({"subject": "gt-1"})), Some("gt-1".into()));
        let charged = json!({"subject": "horde/raiders/Toast", "data": {"relic": "gt-1"}});
        assert_eq!(found(charged), Some("gt-1".into()));
        assert_eq!(found(json!({"subject": "gt-10", "data": {}})), None);
    }

    #[test]
    fn a_relic_that_nobody_will_charge_is_not_followed() {
        let result = json!({"relics": [
            {"relic": "gt-1", "raider": "horde/raiders/Toast"},
            {"relic": "gt-2", "raider": null, "note": "no free slot", "auto_charge": false},
            {"relic": "gt-3", "raider": null, "note": "no free slot", "auto_charge": true},
        ]});
        assert_eq!(relics(&result), ["gt-1", "gt-3"]);
    }

    #[test]
    fn a_charge_that_failed_is_told_with_its_relic() {
        let error = ControlError::new(ErrorKind::Timeout, "no answer");
        let result = json!({"relics": [
            {"relic": "gt-1", "raider": "horde/raiders/Toast"},
            {"relic": "gt-2", "raider": null, "note": "no free slot"},
            {"relic": "gt-3", "raider": null, "note": "no answer", "error": error},
        ]});
        let error = uncharged(&result).unwrap_err();
        assert_eq!(error.exit, Exit::TimedOut);
        assert!(error.message.contains("gt-3") && error.message.contains("no answer"));
        assert!(uncharged(&json!({"relics": []})).is_ok());
    }

    #[test]
    fn the_worst_end_decides_the_exit_code() {
        let exit = |ends: &[End]| {
            let ends = ends.iter().enumerate();
            let ends = ends
                .map(|(n, end)| (format!("gt-{n}"), Some(*end)))
                .collect();
            verdict(&ends).err().map_or(Exit::Ok, |error| error.exit)
        };
        assert_eq!(exit(&[End::Closed, End::Closed]), Exit::Ok);
        assert_eq!(exit(&[End::Closed, End::Deferred]), Exit::Parked);
        assert_eq!(exit(&[End::Blocked, End::Deferred]), Exit::NeedsHuman);
        assert_eq!(exit(&[End::Blocked, End::NotMerged]), Exit::MergeFailed);
    }

    #[test]
    fn a_blocked_relic_is_a_failed_merge_only_when_the_queue_gave_it_up() {
        let blocked = json!({"status": "blocked"});
        assert_eq!(end(&blocked, true), Some(End::NotMerged));
        assert_eq!(end(&blocked, false), Some(End::Blocked));
        assert_eq!(end(&json!({"status": "hooked"}), false), None);
        let said = |cause: &str, status: &str| {
            is_given_up(&json!({"cause": cause, "data": {"status": status}}))
        };
        assert!(said("rework_exhausted", "blocked"));
        assert!(said("merge_failed", "blocked"), "the remote refused it");
        assert!(!said("merge_failed", "open"), "it is reworked");
        assert!(!said("stuck", "blocked"));
    }
}
