//! `hd status`: one screen, what needs a person first.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::output::{Style, Tone};
use crate::domain::ids::verb_group;

use super::lists::{derived, needs_person, state};
use super::table::{Cell, Table};
use super::words::{ago, at, cell, clean_lines, condition, count, git, plural, seconds};

/// Renders the screen as of now.
#[expect(clippy::disallowed_methods, reason = "ages are shown as of now")]
pub(in crate::cli) fn status(result: &Value, style: Style) -> String {
    at_time(result, style, Timestamp::now())
}

pub(super) fn at_time(result: &Value, style: Style, now: Timestamp) -> String {
    let mut screen = vec![head(result, style)];
    if let Some(error) = result
        .get("last_reload_error")
        .filter(|error| !error.is_null())
    {
        // File, line and caret of the configuration.
        let text = clean_lines(error.as_str().unwrap_or_default());
        let gap = if text.contains('\n') { '\n' } else { ' ' };
        let text = format!("the last reload failed:{gap}{text}");
        screen.extend(text.lines().map(|line| style.paint(Tone::Bad, line)));
    }
    for trouble in list(result, "/ground") {
        let (path, says) = (at(trouble, "/path"), at(trouble, "/says"));
        let line = format!("! {path}: {says}; {}", at(trouble, "/hint"));
        screen.push(style.paint(Tone::Bad, &line));
    }
    for rig in list(result, "/rigs") {
        screen.extend(for_person(rig, style));
        screen.extend(blocked(rig, style));
    }
    screen.extend(accounts(result, style));
    screen.extend(budgets(result, style));
    let children = children(result);
    if children.is_empty() {
        screen.push(style.paint(Tone::Faint, "no work in progress"));
    } else {
        screen.push(table(&children, style, now));
    }
    screen.extend(questions(&children, style));
    screen.extend(pools(result, style, now));
    for rig in list(result, "/rigs") {
        screen.extend(relics(rig));
        screen.extend(paused(rig, style));
        screen.extend(queue(rig, style));
    }
    screen.extend(automations(result, style));
    screen.join("\n")
}

/// Lists the parked accounts, and what ends each parking.
fn accounts(result: &Value, style: Style) -> Vec<String> {
    let line = |account: &Value| {
        let (name, harness) = (at(account, "/account"), at(account, "/harness"));
        let detail = at(account, "/detail");
        match account["condition"] == "auth" {
            true => style.paint(
                Tone::Bad,
                &format!(
                    "! account {name}: needs a login: {detail}; after the login: hd harness resume {harness}"
                ),
            ),
            false => style.paint(
                Tone::Waits,
                &format!(
                    "  account {name}: at a limit until {}{}: {detail}",
                    at(account, "/until"),
                    if account["guessed"] == true {
                        " (estimated)"
                    } else {
                        ""
                    },
                ),
            ),
        }
    };
    list(result, "/accounts").iter().map(line).collect()
}

/// Lists the spent budgets and their consequences.
fn budgets(result: &Value, style: Style) -> Vec<String> {
    let line = |budget: &Value| {
        let follows = match at(budget, "/until") {
            until if until != "-" => format!("; new work is charged {until}"),
            _ => String::new(),
        };
        style.paint(Tone::Bad, &format!("! {}{follows}", at(budget, "/detail")))
    };
    list(result, "/budgets").iter().map(line).collect()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let items = value.pointer(pointer).and_then(Value::as_array);
    items.map_or(&[], Vec::as_slice)
}

fn head(result: &Value, style: Style) -> String {
    let raiders: Vec<_> = list(result, "/rigs")
        .iter()
        .flat_map(|rig| list(rig, "/raiders"))
        .collect();
    let mut parts = vec![
        style.paint(Tone::Strong, &at(result, "/city")),
        format!(
            "up {} (pid {})",
            seconds(count(result, "/uptime_s")),
            at(result, "/pid")
        ),
        plural(raiders.len(), "raider"),
        plural(list(result, "/agents").len(), "agent"),
    ];
    let escalations = usize::try_from(count(result, "/escalations")).unwrap_or(usize::MAX);
    if escalations > 0 {
        let text = format!("{} (hd escalations)", plural(escalations, "escalation"));
        parts.push(style.paint(Tone::Waits, &text));
    }
    let drums = usize::try_from(count(result, "/drums")).unwrap_or(usize::MAX);
    if drums > 0 {
        let text = format!("{} (hd drums inbox)", plural(drums, "drum"));
        parts.push(style.paint(Tone::Waits, &text));
    }
    parts.join("  ")
}

/// A raider or an agent.
struct Child<'a> {
    name: String,
    value: &'a Value,
    needs_person: bool,
}

/// Returns every raider and agent: those that need a person first, otherwise in the supervisor's order.
fn children(result: &Value) -> Vec<Child<'_>> {
    let raiders = list(result, "/rigs").iter().flat_map(|rig| {
        let named = |raider| {
            (
                format!("{}/{}", at(rig, "/name"), at(raider, "/name")),
                raider,
            )
        };
        list(rig, "/raiders").iter().map(named)
    });
    let agents = list(result, "/agents");
    let agents = agents.iter().map(|agent| (at(agent, "/name"), agent));
    let mut children: Vec<_> = raiders
        .chain(agents)
        .map(|(name, value)| Child {
            name,
            value,
            needs_person: needs_person(value),
        })
        .collect();
    children.sort_by_key(|child| !child.needs_person);
    children
}

fn table(children: &[Child<'_>], style: Style, now: Timestamp) -> String {
    let headings = [
        "", "NAME", "STATE", "FOR", "HOOK", "GIT", "BRANCH", "DEATHS",
    ];
    let mut table = Table::new(&headings);
    for child in children {
        let (state, tone) = state(child.value);
        let since = child.value.pointer("/session/since");
        let since = since.or_else(|| child.value.get("since"));
        table.row(vec![
            Cell(mark(child.needs_person), Tone::Waits),
            child.name.clone().into(),
            Cell(state, tone),
            ago(since, now).into(),
            at(child.value, "/hook").into(),
            git(child.value).into(),
            at(child.value, "/branch").into(),
            at(child.value, "/restarts").into(),
        ]);
    }
    table.text(style)
}

fn mark(needs_person: bool) -> String {
    let mark = if needs_person { "!" } else { " " };
    mark.to_owned()
}

/// Lists the open questions to a person, quarantines with their end, deferred restarts and other reasons of a child's
/// state.
fn questions(children: &[Child<'_>], style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for child in children {
        let quarantined = child
            .value
            .get("quarantined_until")
            .filter(|until| until.is_string());
        if let Some(until) = quarantined {
            let died_of = at(child.value, "/died_of");
            let died_of = match died_of == "-" {
                true => String::new(),
                false => format!("; last death: {died_of}"),
            };
            let text = format!(
                "! {}: quarantined until {}{died_of}; hd {} unquarantine {}",
                child.name,
                cell(until),
                verb_group(&child.name),
                child.name
            );
            lines.push(style.paint(Tone::Bad, &text));
        }
        if child.value.get("deferred") == Some(&Value::Bool(true)) {
            let until = match condition(child.value) {
                Some((kind, _)) if kind == "needs_input" => "its question is answered",
                _ => "no terminal is attached",
            };
            let text = format!(
                "  {}: deferred: its new configuration takes effect when {until}",
                child.name
            );
            lines.push(style.paint(Tone::Waits, &text));
        }
        if let Some((kind, said)) = condition(child.value).filter(|(_, said)| !said.is_empty()) {
            let mark = if child.needs_person { "!" } else { " " };
            let answers = answers(child);
            let text = format!("{mark} {}: {kind}: {said}{answers}", child.name);
            lines.push(style.paint(Tone::Waits, &text));
            lines.extend(screen(child.value));
        } else if let Some(why) = why(child).filter(|_| quarantined.is_none()) {
            let mark = mark(child.needs_person);
            let text = format!("{mark} {}: {}: {why}", child.name, derived(child.value));
            lines.push(style.paint(Tone::Waits, &text));
        }
        lines.extend(escalation(child, style));
    }
    lines
}

/// Names the escalation about the child's sandbox.
fn escalation(child: &Child<'_>, style: Style) -> Option<String> {
    let open = child.value.get("escalation").filter(|it| it.is_object())?;
    let (id, problem) = (at(open, "/id"), at(open, "/problem"));
    let text = format!("! {}: {problem}: hd relic show {id}", child.name);
    Some(style.paint(Tone::Waits, &text))
}

/// The rows of a screen that are shown below an unrecognised condition.
const SCREEN_SHOWN: usize = 12;

/// Returns the end of a screen whose condition is unrecognised.
fn screen(child: &Value) -> Vec<String> {
    let Some(text) = child.get("screen").and_then(Value::as_str) else {
        return Vec::new();
    };
    let text = clean_lines(text);
    let rows = text.lines().filter(|row| !row.trim().is_empty());
    let rows: Vec<&str> = rows.collect();
    let shown = rows[rows.len().saturating_sub(SCREEN_SHOWN)..].iter();
    shown.map(|row| format!("    | {row}")).collect()
}

/// Returns the choices of a question, as far as they are known, with the command that answers.
fn answers(child: &Child<'_>) -> String {
    let choices = list(child.value, "/choices").iter().enumerate();
    let choices = choices.map(|(at, choice)| format!("{} {}", at + 1, cell(choice)));
    let choices: Vec<_> = choices.collect();
    match choices.is_empty() {
        true => String::new(),
        false => format!(
            "  [{}]  hd answer {} CHOICE",
            choices.join(" | "),
            child.name
        ),
    }
}

/// Returns why a child is in a bad state, unless its condition tells it.
fn why(child: &Child<'_>) -> Option<String> {
    let name = &child.name;
    let told = |key: &str| Some(at(child.value, key)).filter(|text| text != "-");
    Some(match derived(child.value).as_str() {
        "backoff" => format!("it is restarted at {}: hd why {name}", told("/retry_at")?),
        "stalled" => match told("/stalled_since") {
            Some(since) => format!("no progress since {since}: hd peek {name}"),
            None => {
                let why = told("/detail").unwrap_or_else(|| "it has no session".to_owned());
                format!("{why}: hd why {name}")
            }
        },
        "zombie" => told("/detail").unwrap_or_else(|| {
            format!("its work is done, but its session still runs: hd why {name}")
        }),
        "blocked" => "an agent that it depends on is not running".to_owned(),
        _ => return None,
    })
}

/// Lists the merge requests that wait for a person, and the action that each needs.
fn for_person(rig: &Value, style: Style) -> Vec<String> {
    let queue = list(rig, "/forge/queue").iter();
    let line = |mr: &Value| {
        let text = format!(
            "! {} {}: {}",
            at(rig, "/name"),
            at(mr, "/id"),
            at(mr, "/note")
        );
        style.paint(Tone::Waits, &text)
    };
    queue.filter(|mr| waits_for_person(mr)).map(line).collect()
}

/// Blocked relics that are listed one by one; `hd relic list --status blocked` has them all.
const BLOCKED_SHOWN: usize = 10;

/// Lists the relics that wait for a person, with the reason.
fn blocked(rig: &Value, style: Style) -> Vec<String> {
    let relics = list(rig, "/blocked");
    let line = |relic: &Value| {
        let (id, title) = (at(relic, "/id"), at(relic, "/title"));
        let why = match (at(relic, "/problem"), at(relic, "/escalation")) {
            (problem, escalation) if problem != "-" => {
                format!("{problem}; hd relic show {escalation}")
            }
            _ => format!("hd why {id}"),
        };
        let text = format!("! {} {id} ({title}) is blocked: {why}", at(rig, "/name"));
        style.paint(Tone::Waits, &text)
    };
    let mut lines: Vec<_> = relics.iter().take(BLOCKED_SHOWN).map(line).collect();
    if relics.len() > BLOCKED_SHOWN {
        let more = relics.len() - BLOCKED_SHOWN;
        let text = format!(
            "! {} {more} more: hd relic list --status blocked",
            at(rig, "/name")
        );
        lines.push(style.paint(Tone::Waits, &text));
    }
    lines
}

fn waits_for_person(mr: &Value) -> bool {
    mr.get("needs_person") == Some(&Value::Bool(true))
}

/// Returns the open and blocked work of a rig, as `relics horde  9 open, 2 blocked`, and why less of it is done.
fn relics(rig: &Value) -> Option<String> {
    let counted = ["open", "hooked", "blocked", "deferred"].map(|status| {
        let count = count(rig, &format!("/relics/{status}"));
        (count > 0).then(|| format!("{count} {status}"))
    });
    let counted: Vec<_> = counted.into_iter().flatten().collect();
    let line = || format!("relics {}  {}", at(rig, "/name"), counted.join(", "));
    (!counted.is_empty()).then(line)
}

/// Tells a pause of automatic charging, and what ends it.
fn paused(rig: &Value, style: Style) -> Option<String> {
    let pause = rig.get("charge_paused").filter(|it| it.is_object())?;
    let name = at(rig, "/name");
    let resume = match pause.get("city") == Some(&Value::Bool(true)) {
        true => "hd charge resume".to_owned(),
        false => format!("hd charge resume --rig {name}"),
    };
    let (by, since) = (at(pause, "/by"), at(pause, "/since"));
    let text = format!("charge {name}  automatic charging paused by {by} at {since}: {resume}");
    Some(style.paint(Tone::Waits, &text))
}

fn queue(rig: &Value, style: Style) -> Vec<String> {
    let queue = list(rig, "/forge/queue");
    let paused = rig.pointer("/forge/paused") == Some(&Value::Bool(true));
    if queue.is_empty() && !paused {
        return Vec::new();
    }
    let note = if paused { "  paused" } else { "" };
    let heading = format!("queue {}{note}", at(rig, "/name"));
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    let mut table = Table::new(&["", "MR", "RELIC", "STATE", "BRANCH", "NOTE"]);
    let mut queue: Vec<_> = queue.iter().collect();
    queue.sort_by_key(|mr| !waits_for_person(mr));
    for mr in queue {
        let tone = match at(mr, "/state").as_str() {
            "conflict" | "failed" => Tone::Bad,
            "held" | "reviewing" => Tone::Waits,
            _ => Tone::Plain,
        };
        table.row(vec![
            Cell(mark(waits_for_person(mr)), Tone::Waits),
            at(mr, "/id").into(),
            at(mr, "/relic").into(),
            Cell(at(mr, "/state"), tone),
            at(mr, "/branch").into(),
            at(mr, "/note").into(),
        ]);
    }
    if !table.is_empty() {
        lines.push(table.text(style));
    }
    lines
}

/// Lists the pools with the reason of their size.
fn pools(result: &Value, style: Style, now: Timestamp) -> Vec<String> {
    let pools = list(result, "/pools");
    if pools.is_empty() {
        return Vec::new();
    }
    let headings = [
        "POOL", "WANTED", "RUNNING", "DRAINING", "BOUNDS", "CHECKED", "ERROR",
    ];
    let mut table = Table::new(&headings);
    for pool in pools {
        table.row(vec![
            at(pool, "/name").into(),
            wanted(pool).into(),
            at(pool, "/running").into(),
            at(pool, "/draining").into(),
            format!("{}..{}", at(pool, "/min"), at(pool, "/max")).into(),
            ago(pool.get("last_check"), now).into(),
            Cell(at(pool, "/error"), Tone::Bad),
        ]);
    }
    vec![table.text(style)]
}

/// Returns the number of members that a pool should have; adds the requested number when the bounds changed it.
fn wanted(pool: &Value) -> String {
    let wanted = at(pool, "/wanted");
    match at(pool, "/asked") {
        asked if asked == wanted || asked == "-" => wanted,
        asked => format!("{wanted} (asked for {asked})"),
    }
}

fn automations(result: &Value, style: Style) -> Vec<String> {
    let automations = list(result, "/automations");
    if automations.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&["AUTOMATION", "GATE", "LAST", "NEXT"]);
    for automation in automations {
        table.row(vec![
            at(automation, "/name").into(),
            at(automation, "/gate").into(),
            at(automation, "/last").into(),
            at(automation, "/next").into(),
        ]);
    }
    vec![table.text(style)]
}
