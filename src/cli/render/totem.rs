//! Rituals and totems: their steps, one below the other.

use std::fmt::Display;

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{Ritual, RitualRow, StepDone, Totem};
use crate::domain::relic::RelicStatus;

use super::table::{Cell, Table};
use super::words::{cell, clean, clean_lines};

/// Lists rituals.
pub(in crate::cli) fn rituals(rituals: &[RitualRow], style: Style) -> String {
    let mut table = Table::new(&["RITUAL", "STEPS", "FROM", "VARIABLES", "DESCRIPTION"]);
    for ritual in rituals {
        let from = match ritual.built_in {
            true => "built in".to_owned(),
            false => cell(&ritual.file),
        };
        let row = [
            cell(&ritual.name),
            cell(&ritual.steps),
            from,
            variables(ritual),
            cell(&ritual.description),
        ];
        table.row(row.into_iter().map(Cell::from).collect());
    }
    table.text(style)
}

/// Returns the variables of a ritual; one without a default is marked.
fn variables(ritual: &RitualRow) -> String {
    let vars = ritual.vars.iter().map(|(name, value)| match value {
        None => format!("{name} (required)"),
        Some(_) => name.clone(),
    });
    let vars: Vec<_> = vars.collect();
    clean_lines(&vars.join(", "))
}

/// Renders a ritual: its variables, then each step with its instructions.
pub(in crate::cli) fn ritual(ritual: &Ritual, style: Style) -> String {
    let heading = format!("{}: {}", ritual.name, cell(&ritual.description));
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    for (name, value) in &ritual.vars {
        let value = match cell(value).as_str() {
            "-" => "(required)".to_owned(),
            value => format!("= {value}"),
        };
        lines.push(format!("  --var {} {value}", clean(name)));
    }
    for step in &ritual.steps {
        let needs = match step.needs.is_empty() {
            true => String::new(),
            false => format!("  after {}", listed(&step.needs)),
        };
        let fresh = fresh(step.fresh_session);
        let head = format!("{}: {}", step.id, cell(&step.title));
        lines.push(String::new());
        lines.push(style.paint(Tone::Strong, &head) + &style.paint(Tone::Faint, &(needs + fresh)));
        let body = clean_lines(step.body.trim_end());
        lines.extend(body.lines().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

fn listed(ids: &[impl Display]) -> String {
    let ids = ids.iter().map(ToString::to_string);
    ids.collect::<Vec<_>>().join(", ")
}

fn fresh(is_fresh: bool) -> &'static str {
    match is_fresh {
        true => "  fresh session",
        false => "",
    }
}

/// Renders a totem: a line for each step, with its state.
pub(in crate::cli) fn totem(totem: &Totem, style: Style) -> String {
    let heading = format!(
        "{}: {}  (ritual {}, {} of {} steps done)",
        totem.relic,
        cell(&totem.title),
        totem.ritual,
        totem.done,
        totem.steps.len()
    );
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    for step in &totem.steps {
        let is_present = totem.present.as_ref() == Some(&step.id);
        let (mark, tone) = match () {
            () if step.done => ("done ", Tone::Good),
            () if step.status == RelicStatus::Closed => ("ended", Tone::Faint),
            () if is_present => ("now  ", Tone::Strong),
            () if step.ready => ("ready", Tone::Plain),
            () => ("waits", Tone::Faint),
        };
        let after = match mark == "waits" && !step.deps.is_empty() {
            true => format!("  after {}", listed(&step.deps)),
            false => String::new(),
        };
        let text = format!("{} {} {}", mark, step.id, cell(&step.title));
        let more = style.paint(Tone::Faint, &(after + fresh(step.fresh_session)));
        lines.push(format!("  {}{more}", style.paint(tone, &text)));
    }
    lines.join("\n")
}

/// Tells what follows after a step.
pub(in crate::cli) fn step_done(told: &StepDone, _: Style) -> String {
    clean_lines(&told.progress.text)
}
