//! Lists: one row per thing.

use serde_json::Value;

use crate::cli::output::{Style, Tone};

use super::table::{Cell, Table};
use super::words::{at, clean, condition, git};

/// A column: its heading, and the place of its cell in an item.
type Column = (&'static str, &'static str);

fn list(result: &Value, columns: &[Column], none: &str, style: Style) -> String {
    let headings: Vec<_> = columns.iter().map(|(heading, _)| *heading).collect();
    let mut table = Table::new(&headings);
    for item in items(result) {
        let cell = |(_, pointer): &Column| Cell::from(at(item, pointer));
        table.row(columns.iter().map(cell).collect());
    }
    or_none(&table, none, style)
}

fn items(result: &Value) -> &[Value] {
    result.as_array().map_or(&[], Vec::as_slice)
}

fn or_none(table: &Table, none: &str, style: Style) -> String {
    if table.is_empty() {
        style.paint(Tone::Faint, none)
    } else {
        table.text(style)
    }
}

pub(in crate::cli) fn relics(result: &Value, style: Style) -> String {
    let columns = [
        ("ID", "/id"),
        ("STATUS", "/status"),
        ("PRIORITY", "/priority"),
        ("ASSIGNEE", "/assignee"),
        ("TITLE", "/title"),
    ];
    list(result, &columns, "no relics", style)
}

pub(in crate::cli) fn rigs(result: &Value, style: Style) -> String {
    let columns = [
        ("NAME", "/name"),
        ("PREFIX", "/prefix"),
        ("HARNESS", "/harness"),
        ("MAX", "/max"),
        ("PATH", "/path"),
        ("REMOTE", "/remote"),
    ];
    list(result, &columns, "no rigs", style)
}

/// Lists ready relics, each with the reason why it is not charged automatically.
pub(in crate::cli) fn ready(result: &Value, style: Style) -> String {
    let columns = [
        ("ID", "/id"),
        ("PRIORITY", "/priority"),
        ("TITLE", "/title"),
        ("WAITS", "/waits"),
    ];
    list(result, &columns, "no relics", style)
}

/// Lists the merge requests that may still land.
pub(in crate::cli) fn merge_requests(result: &Value, style: Style) -> String {
    let over = |mr: &Value| {
        let state = at(mr, "/state");
        matches!(
            state.as_str(),
            "merged" | "conflict" | "failed" | "rejected"
        )
    };
    let (over, going): (Vec<_>, Vec<_>) = items(result).iter().cloned().partition(over);
    let mut text = all_merge_requests(&Value::Array(going), style);
    if !over.is_empty() {
        let more = format!("\n{} finished: hd mq list --all", over.len());
        text.push_str(&style.paint(Tone::Faint, &more));
    }
    text
}

pub(in crate::cli) fn all_merge_requests(result: &Value, style: Style) -> String {
    let columns = [
        ("ID", "/id"),
        ("RELIC", "/relic"),
        ("RAIDER", "/raider"),
        ("STATE", "/state"),
        ("TARGET", "/target"),
        ("ATTEMPTS", "/attempts"),
        ("NOTE", "/note"),
    ];
    list(result, &columns, "the queue is empty", style)
}

pub(in crate::cli) fn salvages(result: &Value, style: Style) -> String {
    let columns = [
        ("ID", "/id"),
        ("RIG", "/rig"),
        ("RELIC", "/relic"),
        ("CREATED", "/created"),
        ("BYTES", "/bytes"),
        ("REASON", "/reason"),
    ];
    list(result, &columns, "nothing was salvaged", style)
}

/// Lists stash entries that no salvage has, a line for each raider.
pub(in crate::cli) fn stashes(result: &Value, style: Style) -> String {
    let columns = [
        ("RIG", "/rig"),
        ("RAIDER", "/raider"),
        ("INCARNATION", "/incarnation"),
        ("IDS", "/ids"),
    ];
    list(
        result,
        &columns,
        "no stash entry is kept beside the salvages",
        style,
    )
}

/// Renders the salvages that `salvage prune` destroyed, and those that it could not.
pub(in crate::cli) fn pruned(result: &Value, style: Style) -> String {
    let none = Value::Null;
    let part = |key: &str| result.get(key).unwrap_or(&none);
    let columns = [("PRUNED", "/id"), ("RELIC", "/relic"), ("BYTES", "/bytes")];
    let pruned = list(part("pruned"), &columns, "nothing was pruned", style);
    if items(part("kept")).is_empty() {
        return pruned;
    }
    let columns = [("KEPT", "/id"), ("WHY", "/why")];
    format!("{pruned}\n{}", list(part("kept"), &columns, "", style))
}

/// Lists escalations. An escalation is a relic: its label names the subject, its priority the severity.
pub(in crate::cli) fn escalations(result: &Value, style: Style) -> String {
    let mut table = Table::new(&["ID", "SEVERITY", "STATE", "ABOUT", "CREATED", "PROBLEM"]);
    for escalation in items(result) {
        let (severity, tone) = severity(escalation);
        table.row(vec![
            at(escalation, "/id").into(),
            Cell(severity, tone),
            answered(escalation).to_owned().into(),
            about(escalation).into(),
            at(escalation, "/created").into(),
            at(escalation, "/title").into(),
        ]);
    }
    let none = or_none(&table, "no open escalations", style);
    match items(result).first() {
        Some(first) => {
            let close = format!(
                "`hd relic show ID` shows details; `hd escalations ack ID` stops repeated \
                notices; `hd relic close ID` closes a resolved one, for example: hd relic close {}",
                at(first, "/id")
            );
            format!("{none}\n{}", style.paint(Tone::Faint, &close))
        }
        None => none,
    }
}

fn severity(escalation: &Value) -> (String, Tone) {
    let priority = escalation.get("priority").and_then(Value::as_i64);
    let (word, tone) = match priority {
        None => ("-", Tone::Plain),
        Some(..=0) => ("low", Tone::Plain),
        Some(1) => ("medium", Tone::Waits),
        Some(2) => ("high", Tone::Bad),
        Some(3..) => ("critical", Tone::Bad),
    };
    (word.to_owned(), tone)
}

/// Returns the state of an escalation: new, acknowledged or raised again.
fn answered(escalation: &Value) -> &'static str {
    let acked = escalation.get("acked").and_then(Value::as_bool);
    let again = escalation.get("again").and_then(Value::as_u64);
    match (acked, again) {
        (Some(true), _) => "acked",
        (_, Some(1..)) => "raised again",
        _ => "new",
    }
}

/// Returns the subject of an escalation from its label, such as `about:horde/raiders/Toast:gt-1`.
fn about(escalation: &Value) -> String {
    let labels = escalation.get("labels").and_then(Value::as_array);
    let labels = labels.into_iter().flatten().filter_map(Value::as_str);
    let about: Vec<_> = labels
        .filter_map(|label| label.strip_prefix("about:"))
        .map(|about| clean(&about.replace(':', " ")))
        .collect();
    match about.is_empty() {
        true => "-".to_owned(),
        false => about.join(", "),
    }
}

pub(in crate::cli) fn automations(result: &Value, style: Style) -> String {
    let columns = [
        ("NAME", "/name"),
        ("GATE", "/gate"),
        ("ENABLED", "/enabled"),
        ("RUNNING", "/running"),
        ("LAST", "/last"),
        ("STATE", "/last_state"),
        ("NEXT", "/next"),
        ("DESCRIPTION", "/description"),
    ];
    list(result, &columns, "no automations", style)
}

pub(in crate::cli) fn runs(result: &Value, style: Style) -> String {
    let columns = [
        ("RUN", "/id"),
        ("AUTOMATION", "/automation"),
        ("CAUSE", "/cause"),
        ("STATE", "/state"),
        ("END", "/end"),
        ("CODE", "/code"),
        ("STARTED", "/started"),
        ("ENDED", "/ended"),
        ("ATTEMPTS", "/attempts"),
    ];
    list(result, &columns, "nothing ran yet", style)
}

pub(in crate::cli) fn agents(result: &Value, style: Style) -> String {
    let columns = [
        ("NAME", "/name"),
        ("STATE", "/state"),
        ("PID", "/pid"),
        ("GENERATION", "/generation"),
        ("DEATHS", "/restarts"),
        ("SINCE", "/since"),
        ("QUARANTINED", "/quarantined_until"),
    ];
    list(result, &columns, "no agents", style)
}

pub(in crate::cli) fn raiders(result: &Value, style: Style) -> String {
    let headings = [
        "RAIDER", "STATE", "HOOK", "BRANCH", "GIT", "SESSION", "DEATHS",
    ];
    let mut table = Table::new(&headings);
    for raider in items(result) {
        let (state, tone) = state(raider);
        table.row(vec![
            at(raider, "/id").into(),
            Cell(state, tone),
            at(raider, "/hook").into(),
            at(raider, "/branch").into(),
            git(raider).into(),
            at(raider, "/session/id").into(),
            at(raider, "/restarts").into(),
        ]);
    }
    or_none(&table, "no raiders: no work in progress", style)
}

/// Returns a child's state with its condition, and the tone for it.
pub(super) fn state(child: &Value) -> (String, Tone) {
    let state = derived(child);
    let condition = condition(child);
    let tone = match (state.as_str(), &condition) {
        (_, Some(_)) => Tone::Waits,
        ("working" | "running", None) => Tone::Good,
        ("stalled" | "zombie" | "quarantined" | "blocked", None) => Tone::Bad,
        _ => Tone::Plain,
    };
    let text = condition.map_or(state.clone(), |(kind, _)| format!("{state} {kind}"));
    (text, tone)
}

/// Returns the state to show. A raider without a session is `stalled` for every reason; the reason is shown instead.
pub(super) fn derived(child: &Value) -> String {
    let is = |key| {
        child
            .get(key)
            .is_some_and(|value| value.is_string() || *value == true)
    };
    match at(child, "/state").as_str() {
        "stalled" if is("suspended") => "suspended".into(),
        "stalled" if is("quarantined_until") => "quarantined".into(),
        "stalled" if is("retry_at") => "backoff".into(),
        state => state.into(),
    }
}

/// Returns whether the child is stuck until a person acts.
pub(super) fn needs_person(child: &Value) -> bool {
    let stuck = matches!(
        derived(child).as_str(),
        "stalled" | "zombie" | "quarantined" | "blocked"
    );
    let asks = condition(child).is_some_and(|(kind, _)| {
        matches!(
            kind.as_str(),
            "needs_input"
                | "auth"
                | "unrecognised"
                | "spins"
                | "push_blocked"
                | "sandbox_gone"
                | "sandbox_broken"
        )
    });
    let is_blocked = child.get("blocked") == Some(&Value::Bool(true));
    let has_call = child.get("escalation").is_some_and(Value::is_object);
    stuck
        || asks
        || is_blocked
        || has_call
        || child.get("quarantined_until").is_some_and(Value::is_string)
}
