//! Lists: one row per thing.

use serde_json::Value;

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{
    Agent, Automation, Escalation, Kept, MrRow, PastRun, Pruned, Raider, ReadyRelic, Relic,
    Salvage, Stashes,
};
use crate::domain::problem::ProblemKind;

use super::child::Child;
use super::table::{Cell, Table};
use super::words::{at, cell, clean, git};

/// A column: its heading, and its cell of an item.
type Column<T> = (&'static str, fn(&T) -> String);

fn list<'a, T: 'a>(
    items: impl IntoIterator<Item = &'a T>,
    columns: &[Column<T>],
    none: &str,
    style: Style,
) -> String {
    let headings: Vec<_> = columns.iter().map(|(heading, _)| *heading).collect();
    let mut table = Table::new(&headings);
    for item in items {
        let cell = |(_, of): &Column<T>| Cell::from(of(item));
        table.row(columns.iter().map(cell).collect());
    }
    or_none(&table, none, style)
}

fn or_none(table: &Table, none: &str, style: Style) -> String {
    if table.is_empty() {
        style.paint(Tone::Faint, none)
    } else {
        table.text(style)
    }
}

pub(in crate::cli) fn relics(relics: &[Relic], style: Style) -> String {
    let columns: [Column<Relic>; 5] = [
        ("ID", |it| cell(&it.id)),
        ("STATUS", |it| cell(&it.status)),
        ("PRIORITY", |it| cell(&it.priority)),
        ("ASSIGNEE", |it| cell(&it.assignee)),
        ("TITLE", |it| cell(&it.title)),
    ];
    list(relics, &columns, "no relics", style)
}

/// Tells that a list is longer than what is shown of it.
pub(in crate::cli) fn more(shown: u64, style: Style) -> String {
    let more = format!("there are more than these {shown}: --limit N shows more");
    style.paint(Tone::Faint, &more)
}

/// Lists the rigs of `city.toml`.
pub(in crate::cli) fn rigs(rigs: &[Value], style: Style) -> String {
    let columns: [Column<Value>; 6] = [
        ("NAME", |it| at(it, "/name")),
        ("PREFIX", |it| at(it, "/prefix")),
        ("HARNESS", |it| at(it, "/harness")),
        ("MAX", |it| at(it, "/max")),
        ("PATH", |it| at(it, "/path")),
        ("REMOTE", |it| at(it, "/remote")),
    ];
    list(rigs, &columns, "no rigs", style)
}

/// Lists ready relics, each with the reason why it is not charged automatically.
pub(in crate::cli) fn ready(relics: &[ReadyRelic], style: Style) -> String {
    let columns: [Column<ReadyRelic>; 4] = [
        ("ID", |it| cell(&it.relic.id)),
        ("PRIORITY", |it| cell(&it.relic.priority)),
        ("TITLE", |it| cell(&it.relic.title)),
        ("WAITS", |it| cell(&it.waits)),
    ];
    list(relics, &columns, "no relics", style)
}

/// Lists the merge requests that may still land.
pub(in crate::cli) fn merge_requests(queue: &[MrRow], style: Style) -> String {
    let (over, going): (Vec<_>, Vec<_>) = queue.iter().partition(|mr| mr.state.is_final());
    let mut text = queue_of(going, style);
    if !over.is_empty() {
        let more = format!("\n{} finished: hd mq list --all", over.len());
        text.push_str(&style.paint(Tone::Faint, &more));
    }
    text
}

pub(in crate::cli) fn all_merge_requests(queue: &[MrRow], style: Style) -> String {
    queue_of(queue, style)
}

fn queue_of<'a>(queue: impl IntoIterator<Item = &'a MrRow>, style: Style) -> String {
    let columns: [Column<MrRow>; 7] = [
        ("ID", |it| cell(&it.id)),
        ("RELIC", |it| cell(&it.relic)),
        ("RAIDER", |it| cell(&it.raider)),
        ("STATE", |it| cell(&it.state)),
        ("TARGET", |it| cell(&it.target)),
        ("ATTEMPTS", |it| cell(&it.attempts)),
        ("NOTE", |it| cell(&it.note)),
    ];
    list(queue, &columns, "the queue is empty", style)
}

pub(in crate::cli) fn salvages(salvages: &[Salvage], style: Style) -> String {
    let state = |it: &Salvage| match it.present {
        Some(true) => "kept".to_owned(),
        Some(false) => "LOST".to_owned(),
        None => "unknown".to_owned(),
    };
    let columns: [Column<Salvage>; 7] = [
        ("ID", |it| cell(&it.id)),
        ("RIG", |it| cell(&it.rig)),
        ("RELIC", |it| cell(&it.relic)),
        ("CREATED", |it| cell(&it.created)),
        ("BYTES", |it| cell(&it.bytes)),
        ("STATE", state),
        ("REASON", |it| cell(&it.reason)),
    ];
    list(salvages, &columns, "nothing was salvaged", style)
}

/// Lists stash entries that no salvage has, a line for each raider.
pub(in crate::cli) fn stashes(stashes: &[Stashes], style: Style) -> String {
    let columns: [Column<Stashes>; 4] = [
        ("RIG", |it| cell(&it.rig)),
        ("RAIDER", |it| cell(&it.raider)),
        ("INCARNATION", |it| cell(&it.incarnation)),
        ("IDS", |it| cell(&it.ids)),
    ];
    let none = "no stash entry is kept beside the salvages";
    list(stashes, &columns, none, style)
}

/// Renders the salvages that `salvage prune` destroyed, and those that it could not.
pub(in crate::cli) fn pruned(told: &Pruned, style: Style) -> String {
    let columns: [Column<Salvage>; 3] = [
        ("PRUNED", |it| cell(&it.id)),
        ("RELIC", |it| cell(&it.relic)),
        ("BYTES", |it| cell(&it.bytes)),
    ];
    let pruned = list(&told.pruned, &columns, "nothing was pruned", style);
    if told.kept.is_empty() {
        return pruned;
    }
    let columns: [Column<Kept>; 2] = [("KEPT", |it| cell(&it.id)), ("WHY", |it| cell(&it.why))];
    format!("{pruned}\n{}", list(&told.kept, &columns, "", style))
}

/// Lists escalations. An escalation is a relic: its label names the subject, its priority the severity.
pub(in crate::cli) fn escalations(open: &[Escalation], style: Style) -> String {
    let mut table = Table::new(&["ID", "SEVERITY", "STATE", "ABOUT", "CREATED", "PROBLEM"]);
    for escalation in open {
        let relic = &escalation.relic;
        let (severity, tone) = severity(relic.priority);
        table.row(vec![
            cell(&relic.id).into(),
            Cell(severity.to_owned(), tone),
            answered(escalation).to_owned().into(),
            about(&relic.labels).into(),
            cell(&relic.created).into(),
            cell(&relic.title).into(),
        ]);
    }
    let none = or_none(&table, "no open escalations", style);
    // The last line tells how a report in words is closed.
    let next = open.iter().filter(|it| it.code != ProblemKind::Said.code());
    let next = next.filter_map(|it| Some((&it.relic.id, it.next.as_ref()?)));
    let next = next.map(|(id, next)| style.paint(Tone::Waits, &format!("{id}: {}", cell(next))));
    let none = std::iter::once(none)
        .chain(next)
        .collect::<Vec<_>>()
        .join("\n");
    match open.first() {
        Some(first) => {
            let close = format!(
                "`hd relic show ID` shows details; `hd escalations ack ID` stops repeated \
                notices; `hd relic close ID` closes a resolved one, for example: hd relic close {}",
                first.relic.id
            );
            format!("{none}\n{}", style.paint(Tone::Faint, &close))
        }
        None => none,
    }
}

fn severity(priority: i64) -> (&'static str, Tone) {
    match priority {
        ..=0 => ("low", Tone::Plain),
        1 => ("medium", Tone::Waits),
        2 => ("high", Tone::Bad),
        3.. => ("critical", Tone::Bad),
    }
}

/// Returns the state of an escalation: new, acknowledged or raised again.
fn answered(escalation: &Escalation) -> &'static str {
    match (escalation.acked, escalation.again) {
        (true, _) => "acked",
        (false, 1..) => "raised again",
        (false, 0) => "new",
    }
}

/// Returns the subject of an escalation from its label, such as `about:horde/raiders/Toast:gt-1`.
fn about(labels: &[String]) -> String {
    let about: Vec<_> = labels
        .iter()
        .filter_map(|label| label.strip_prefix("about:"))
        .map(|about| clean(&about.replace(':', " ")))
        .collect();
    cell(&about)
}

pub(in crate::cli) fn automations(automations: &[Automation], style: Style) -> String {
    let columns: [Column<Automation>; 9] = [
        ("NAME", |it| cell(&it.name)),
        ("GATE", |it| cell(&it.gate)),
        ("ENABLED", |it| cell(&it.enabled)),
        ("RUNNING", |it| running(it)),
        ("EVENTS", |it| cell(&it.waiting_events)),
        ("LAST", |it| cell(&it.last)),
        ("STATE", |it| cell(&it.last_state)),
        ("NEXT", |it| cell(&it.next)),
        ("DESCRIPTION", |it| cell(&it.description)),
    ];
    list(automations, &columns, "no automations", style)
}

/// Returns whether an automation runs, or what its run waits for.
fn running(automation: &Automation) -> String {
    match automation.waits_for_place {
        true => "waits for a place".to_owned(),
        false => cell(&automation.running),
    }
}

pub(in crate::cli) fn runs(runs: &[PastRun], style: Style) -> String {
    let columns: [Column<PastRun>; 9] = [
        ("RUN", |it| cell(&it.id)),
        ("AUTOMATION", |it| cell(&it.automation)),
        ("CAUSE", |it| cell(&it.cause)),
        ("STATE", |it| cell(&it.state)),
        ("END", |it| cell(&it.end)),
        ("CODE", |it| cell(&it.code)),
        ("STARTED", |it| cell(&it.started)),
        ("ENDED", |it| cell(&it.ended)),
        ("ATTEMPTS", |it| cell(&it.attempts)),
    ];
    list(runs, &columns, "nothing ran yet", style)
}

pub(in crate::cli) fn agents(agents: &[Agent], style: Style) -> String {
    let columns: [Column<Agent>; 8] = [
        ("NAME", |it| cell(&it.name)),
        ("STATE", |it| cell(&it.state)),
        ("HOOK", |it| cell(&it.hook)),
        ("PID", |it| cell(&it.pid)),
        ("GENERATION", |it| cell(&it.generation)),
        ("DEATHS", |it| cell(&it.restarts)),
        ("SINCE", |it| cell(&it.since)),
        ("QUARANTINED", |it| cell(&it.quarantined_until)),
    ];
    list(agents, &columns, "no agents", style)
}

pub(in crate::cli) fn raiders(raiders: &[Raider], style: Style) -> String {
    let headings = [
        "RAIDER", "STATE", "HOOK", "BRANCH", "GIT", "SESSION", "DEATHS",
    ];
    let mut table = Table::new(&headings);
    for raider in raiders {
        let (state, tone) = Child::from(raider).state();
        table.row(vec![
            cell(&raider.id).into(),
            Cell(state, tone),
            cell(&raider.hook).into(),
            cell(&raider.branch).into(),
            git(raider.git.as_ref()).into(),
            cell(&raider.session.as_ref().map(|session| &session.id)).into(),
            cell(&raider.restarts).into(),
        ]);
    }
    or_none(&table, "no raiders: no work in progress", style)
}
