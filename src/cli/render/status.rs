//! `hd status`: one screen, what needs a person first.

use jiff::Timestamp;

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{
    Account, Automation, Blocked, Budget, Call, MrRow, Pool, Rig, Status,
};
use crate::domain::ids::verb_group;
use crate::domain::merge::MrState;

use super::child::Child;
use super::table::{Cell, Table};
use super::words::{ago, cell, clean_lines, git, plural, seconds};

/// Renders the screen as of now.
#[expect(clippy::disallowed_methods, reason = "ages are shown as of now")]
pub(in crate::cli) fn status(result: &Status, style: Style) -> String {
    at_time(result, style, Timestamp::now())
}

pub(super) fn at_time(result: &Status, style: Style, now: Timestamp) -> String {
    let mut screen = vec![head(result, style)];
    if let Some(error) = &result.last_reload_error {
        // File, line and caret of the configuration.
        let text = clean_lines(error);
        let gap = if text.contains('\n') { '\n' } else { ' ' };
        let text = format!("the last reload failed:{gap}{text}");
        screen.extend(text.lines().map(|line| style.paint(Tone::Bad, line)));
    }
    for fault in &result.ground {
        let (path, says) = (cell(&fault.path), cell(&fault.says));
        let line = format!("! {path}: {says}; {}", cell(&fault.hint));
        screen.push(style.paint(Tone::Bad, &line));
    }
    for rig in &result.rigs {
        screen.extend(for_person(rig, style));
        screen.extend(blocked(rig, style));
    }
    screen.extend(calls(&result.calls, style));
    screen.extend(accounts(&result.accounts, style));
    screen.extend(budgets(&result.budgets, style));
    let children = children(result);
    if children.is_empty() {
        screen.push(style.paint(Tone::Faint, "no work in progress"));
    } else {
        screen.push(table(&children, style, now));
    }
    screen.extend(questions(&children, style));
    screen.extend(pools(&result.pools, style, now));
    for rig in &result.rigs {
        screen.extend(relics(rig));
        screen.extend(paused(rig, style));
        screen.extend(queue(rig, style));
    }
    screen.extend(automations(&result.automations, style));
    screen.join("\n")
}

/// Lists the parked accounts, and what ends each parking.
fn accounts(accounts: &[Account], style: Style) -> Vec<String> {
    let line = |account: &Account| {
        let (name, harness) = (cell(&account.account), cell(&account.harness));
        let detail = cell(&account.detail);
        match account.condition == "auth" {
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
                    cell(&account.until),
                    if account.guessed {
                        " (estimated)"
                    } else {
                        ""
                    },
                ),
            ),
        }
    };
    accounts.iter().map(line).collect()
}

/// Lists the spent budgets and their consequences.
fn budgets(budgets: &[Budget], style: Style) -> Vec<String> {
    let line = |budget: &Budget| {
        let follows = match &budget.until {
            Some(until) => format!("; new work is charged {}", cell(until)),
            None => String::new(),
        };
        style.paint(Tone::Bad, &format!("! {}{follows}", cell(&budget.detail)))
    };
    budgets.iter().map(line).collect()
}

fn head(result: &Status, style: Style) -> String {
    let raiders = result.rigs.iter().map(|rig| rig.raiders.len());
    let mut parts = vec![
        style.paint(Tone::Strong, &cell(&result.city)),
        format!("up {} (pid {})", seconds(result.uptime_s), result.pid),
        plural(raiders.sum(), "raider"),
        plural(result.agents.len(), "agent"),
    ];
    if result.escalations > 0 {
        let counted = plural(result.escalations, "escalation");
        parts.push(style.paint(Tone::Waits, &format!("{counted} (hd escalations)")));
    }
    let drums = usize::try_from(result.drums).unwrap_or(usize::MAX);
    if drums > 0 {
        let text = format!("{} (hd drums inbox)", plural(drums, "drum"));
        parts.push(style.paint(Tone::Waits, &text));
    }
    parts.join("  ")
}

/// A raider or an agent with the name that the verbs take.
struct Row<'a> {
    name: String,
    child: Child<'a>,
    needs_person: bool,
}

/// Returns every raider and agent: those that need a person first, otherwise in the supervisor's order.
fn children(result: &Status) -> Vec<Row<'_>> {
    let raiders = result.rigs.iter().flat_map(|rig| {
        let raiders = rig.raiders.iter();
        raiders.map(move |it| (format!("{}/{}", rig.name, it.name), Child::from(it)))
    });
    let agents = result.agents.iter();
    let agents = agents.map(|it| (it.name.to_string(), Child::from(it)));
    let mut children: Vec<_> = raiders
        .chain(agents)
        .map(|(name, child)| Row {
            name,
            needs_person: child.needs_person,
            child,
        })
        .collect();
    children.sort_by_key(|row| !row.needs_person);
    children
}

fn table(children: &[Row<'_>], style: Style, now: Timestamp) -> String {
    let headings = [
        "", "NAME", "STATE", "FOR", "HOOK", "GIT", "BRANCH", "DEATHS",
    ];
    let mut table = Table::new(&headings);
    for row in children {
        let child = &row.child;
        let (state, tone) = child.state();
        table.row(vec![
            Cell(mark(row.needs_person), Tone::Waits),
            row.name.clone().into(),
            Cell(state, tone),
            ago(child.since, now).into(),
            cell(&child.hook).into(),
            git(child.git).into(),
            cell(&child.branch).into(),
            cell(&child.restarts).into(),
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
fn questions(children: &[Row<'_>], style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for row in children {
        let (name, child) = (&row.name, &row.child);
        if let Some(until) = child.quarantined_until {
            let died_of = child
                .died_of
                .map(|it| format!("; last death: {}", cell(&it)));
            let text = format!(
                "! {name}: quarantined until {}{}; hd {} unquarantine {name}",
                cell(&until),
                died_of.unwrap_or_default(),
                verb_group(name),
            );
            lines.push(style.paint(Tone::Bad, &text));
        }
        if child.is_deferred {
            let until = match child.condition() {
                Some((kind, _)) if kind == "needs_input" => "its question is answered",
                _ => "no terminal is attached",
            };
            let text =
                format!("  {name}: deferred: its new configuration takes effect when {until}");
            lines.push(style.paint(Tone::Waits, &text));
        }
        let mark = mark(row.needs_person);
        if let Some((kind, said)) = child.condition().filter(|(_, said)| !said.is_empty()) {
            let text = format!("{mark} {name}: {kind}: {said}{}", answers(row));
            lines.push(style.paint(Tone::Waits, &text));
            lines.extend(screen(child));
        } else if let Some(why) = why(row).filter(|_| child.quarantined_until.is_none()) {
            let text = format!("{mark} {name}: {}: {why}", child.derived());
            lines.push(style.paint(Tone::Waits, &text));
        }
        lines.extend(escalation(row, style));
    }
    lines
}

/// Names the escalation about the child's sandbox.
fn escalation(row: &Row<'_>, style: Style) -> Option<String> {
    let open = row.child.escalation?;
    let (id, problem) = (&open.id, cell(&open.problem));
    let text = format!("! {}: {problem}: hd relic show {id}", row.name);
    Some(style.paint(Tone::Waits, &text))
}

/// The rows of a screen that are shown below an unrecognised condition.
const SCREEN_SHOWN: usize = 12;

/// Returns the end of a screen whose condition is unrecognised.
fn screen(child: &Child<'_>) -> Vec<String> {
    let text = clean_lines(child.screen.unwrap_or_default());
    let rows = text.lines().filter(|row| !row.trim().is_empty());
    let rows: Vec<&str> = rows.collect();
    let shown = rows[rows.len().saturating_sub(SCREEN_SHOWN)..].iter();
    shown.map(|row| format!("    | {row}")).collect()
}

/// Returns the choices of a question, as far as they are known, with the command that answers.
fn answers(row: &Row<'_>) -> String {
    let choices = row.child.choices.iter().enumerate();
    let choices = choices.map(|(at, choice)| format!("{} {}", at + 1, cell(choice)));
    let choices: Vec<_> = choices.collect();
    match choices.is_empty() {
        true => String::new(),
        false => format!("  [{}]  hd answer {} CHOICE", choices.join(" | "), row.name),
    }
}

/// Returns why a child is in a bad state, unless its condition tells it.
fn why(row: &Row<'_>) -> Option<String> {
    let (name, child) = (&row.name, &row.child);
    let detail = || child.detail.map(|detail| cell(&detail));
    Some(match child.derived() {
        "backoff" => match child.retry_at {
            Some(at) => format!("it is restarted at {}: hd why {name}", cell(&at)),
            None => format!("{}: hd why {name}", detail()?),
        },
        "stalled" => match child.stalled_since {
            Some(since) => format!("no progress since {}: hd peek {name}", cell(&since)),
            None => {
                let why = detail().unwrap_or_else(|| "it has no session".to_owned());
                format!("{why}: hd why {name}")
            }
        },
        "zombie" => detail().unwrap_or_else(|| {
            format!("its work is done, but its session still runs: hd why {name}")
        }),
        "blocked" => "an agent that it depends on is not running".to_owned(),
        _ => return None,
    })
}

/// Lists the merge requests that wait for a person, and the action that each needs.
fn for_person(rig: &Rig, style: Style) -> Vec<String> {
    let line = |mr: &MrRow| {
        let text = format!("! {} {}: {}", rig.name, mr.id, cell(&mr.note));
        style.paint(Tone::Waits, &text)
    };
    let queue = rig.forge.queue.iter();
    queue.filter(|mr| mr.needs_person).map(line).collect()
}

/// Blocked relics that are listed one by one; `hd relic list --status blocked` has them all.
const BLOCKED_SHOWN: usize = 10;

/// Lists the relics that wait for a person, with the reason.
fn blocked(rig: &Rig, style: Style) -> Vec<String> {
    let line = |relic: &Blocked| {
        let (id, title) = (&relic.id, cell(&relic.title));
        let why = match &relic.problem {
            Some(problem) => {
                let escalation = cell(&relic.escalation);
                format!("{}; hd relic show {escalation}", cell(problem))
            }
            None => format!("hd why {id}"),
        };
        let text = format!("! {} {id} ({title}) is blocked: {why}", rig.name);
        style.paint(Tone::Waits, &text)
    };
    let relics = &rig.blocked;
    let mut lines: Vec<_> = relics.iter().take(BLOCKED_SHOWN).map(line).collect();
    if relics.len() > BLOCKED_SHOWN {
        let more = relics.len() - BLOCKED_SHOWN;
        let text = format!("! {} {more} more: hd relic list --status blocked", rig.name);
        lines.push(style.paint(Tone::Waits, &text));
    }
    lines
}

/// Escalations that are listed one by one; `hd escalations` has them all.
const CALLS_SHOWN: usize = 10;

/// Lists the escalations without acknowledgement that no other row names.
fn calls(calls: &[Call], style: Style) -> Vec<String> {
    let line = |call: &Call| {
        let (about, problem) = (cell(&call.about), cell(&call.problem));
        format!("! {about}: {problem}: hd relic show {}", call.id)
    };
    let mut lines: Vec<_> = calls.iter().take(CALLS_SHOWN).map(line).collect();
    if calls.len() > CALLS_SHOWN {
        let more = plural(calls.len() - CALLS_SHOWN, "more escalation");
        lines.push(format!("! {more}: hd escalations"));
    }
    let painted = lines.iter().map(|line| style.paint(Tone::Waits, line));
    painted.collect()
}

/// Returns the open and blocked work of a rig, as `relics horde  9 open, 2 blocked`, and why less of it is done.
fn relics(rig: &Rig) -> Option<String> {
    let counts = &rig.relics;
    let counted = [
        (counts.open, "open"),
        (counts.hooked, "hooked"),
        (counts.blocked, "blocked"),
        (counts.deferred, "deferred"),
    ];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let counted: Vec<_> = counted.map(|(n, status)| format!("{n} {status}")).collect();
    let line = || format!("relics {}  {}", rig.name, counted.join(", "));
    (!counted.is_empty()).then(line)
}

/// Tells a pause of automatic charging, and what ends it.
fn paused(rig: &Rig, style: Style) -> Option<String> {
    let pause = rig.charge_paused.as_ref()?;
    let name = &rig.name;
    let resume = match pause.city {
        true => "hd charge resume".to_owned(),
        false => format!("hd charge resume --rig {name}"),
    };
    let (by, since) = (cell(&pause.pause.by), cell(&pause.pause.since));
    let text = format!("charge {name}  automatic charging paused by {by} at {since}: {resume}");
    Some(style.paint(Tone::Waits, &text))
}

fn queue(rig: &Rig, style: Style) -> Vec<String> {
    let forge = &rig.forge;
    if forge.queue.is_empty() && !forge.paused {
        return Vec::new();
    }
    let note = if forge.paused { "  paused" } else { "" };
    let heading = format!("queue {}{note}", rig.name);
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    let mut table = Table::new(&["", "MR", "RELIC", "STATE", "BRANCH", "NOTE"]);
    let mut queue: Vec<_> = forge.queue.iter().collect();
    queue.sort_by_key(|mr| !mr.needs_person);
    for mr in queue {
        let tone = match mr.state {
            MrState::Conflict | MrState::Failed => Tone::Bad,
            MrState::Held | MrState::Reviewing => Tone::Waits,
            _ => Tone::Plain,
        };
        table.row(vec![
            Cell(mark(mr.needs_person), Tone::Waits),
            cell(&mr.id).into(),
            cell(&mr.relic).into(),
            Cell(cell(&mr.state), tone),
            cell(&mr.branch).into(),
            cell(&mr.note).into(),
        ]);
    }
    if !table.is_empty() {
        lines.push(table.text(style));
    }
    lines
}

/// Lists the pools with the reason of their size.
fn pools(pools: &[Pool], style: Style, now: Timestamp) -> Vec<String> {
    if pools.is_empty() {
        return Vec::new();
    }
    let headings = [
        "POOL", "WANTED", "RUNNING", "DRAINING", "BOUNDS", "CHECKED", "ERROR",
    ];
    let mut table = Table::new(&headings);
    for pool in pools {
        table.row(vec![
            cell(&pool.name).into(),
            wanted(pool).into(),
            cell(&pool.running).into(),
            cell(&pool.draining).into(),
            format!("{}..{}", pool.min, pool.max).into(),
            ago(pool.last_check, now).into(),
            Cell(cell(&pool.error), Tone::Bad),
        ]);
    }
    vec![table.text(style)]
}

/// Returns the number of members that a pool should have; adds the requested number when the bounds changed it.
fn wanted(pool: &Pool) -> String {
    let wanted = cell(&pool.wanted);
    match pool.asked {
        Some(asked) if Some(asked) != pool.wanted => format!("{wanted} (asked for {asked})"),
        _ => wanted,
    }
}

fn automations(automations: &[Automation], style: Style) -> Vec<String> {
    if automations.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&["AUTOMATION", "GATE", "LAST", "NEXT"]);
    for automation in automations {
        table.row(vec![
            cell(&automation.name).into(),
            cell(&automation.gate).into(),
            cell(&automation.last).into(),
            cell(&automation.next).into(),
        ]);
    }
    vec![table.text(style)]
}
