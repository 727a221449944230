//! Rituals and totems: their steps, one below the other.

use serde_json::Value;

use crate::cli::output::{Style, Tone};

use super::table::{Cell, Table};
use super::words::{at, clean_lines};

/// Lists rituals.
pub(in crate::cli) fn rituals(result: &Value, style: Style) -> String {
    let mut table = Table::new(&["RITUAL", "STEPS", "FROM", "VARIABLES", "DESCRIPTION"]);
    for ritual in result.as_array().into_iter().flatten() {
        let from = match ritual["built_in"] == true {
            true => "built in".to_owned(),
            false => at(ritual, "/file"),
        };
        let row = [
            at(ritual, "/name"),
            at(ritual, "/steps"),
            from,
            variables(ritual),
            at(ritual, "/description"),
        ];
        table.row(row.into_iter().map(Cell::from).collect());
    }
    table.text(style)
}

/// Returns the variables of a ritual; one without a default is marked.
fn variables(ritual: &Value) -> String {
    let vars = ritual.get("vars").and_then(Value::as_object);
    let vars = vars.into_iter().flatten().map(|(name, value)| match value {
        Value::Null => format!("{name} (required)"),
        _ => name.clone(),
    });
    let vars: Vec<_> = vars.collect();
    clean_lines(&vars.join(", "))
}

/// Renders a ritual: its variables, then each step with its instructions.
pub(in crate::cli) fn ritual(result: &Value, style: Style) -> String {
    let heading = format!("{}: {}", at(result, "/name"), at(result, "/description"));
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    let vars = result.get("vars").and_then(Value::as_object);
    for name in vars.into_iter().flatten().map(|(name, _)| name) {
        let value = match at(result, &format!("/vars/{name}")).as_str() {
            "-" => "(required)".to_owned(),
            value => format!("= {value}"),
        };
        lines.push(format!("  --var {} {value}", clean_lines(name)));
    }
    let steps = result.get("steps").and_then(Value::as_array);
    for step in steps.into_iter().flatten() {
        let needs = match words(step, "needs") {
            none if none.is_empty() => String::new(),
            needs => format!("  after {needs}"),
        };
        let fresh = fresh(step);
        let head = format!("{}: {}", at(step, "/id"), at(step, "/title"));
        lines.push(String::new());
        lines.push(style.paint(Tone::Strong, &head) + &style.paint(Tone::Faint, &(needs + fresh)));
        let body = step.get("body").and_then(Value::as_str).unwrap_or_default();
        let body = clean_lines(body.trim_end());
        lines.extend(body.lines().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

fn words(of: &Value, key: &str) -> String {
    let items = of.get(key).and_then(Value::as_array);
    let items = items.into_iter().flatten().filter_map(Value::as_str);
    clean_lines(&items.collect::<Vec<_>>().join(", "))
}

fn fresh(step: &Value) -> &'static str {
    match step["fresh_session"] == true {
        true => "  fresh session",
        false => "",
    }
}

/// Renders a totem: a line for each step, with its state.
pub(in crate::cli) fn totem(result: &Value, style: Style) -> String {
    let steps = result.get("steps").and_then(Value::as_array);
    let steps = steps.map_or(&[][..], Vec::as_slice);
    let heading = format!(
        "{}: {}  (ritual {}, {} of {} steps done)",
        at(result, "/relic"),
        at(result, "/title"),
        at(result, "/ritual"),
        at(result, "/done"),
        steps.len()
    );
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    for step in steps {
        let is_present = result.get("present") == step.get("id");
        let (mark, tone) = match () {
            () if step["status"] == "closed" => ("done ", Tone::Good),
            () if is_present => ("now  ", Tone::Strong),
            () if step["ready"] == true => ("ready", Tone::Plain),
            () => ("waits", Tone::Faint),
        };
        let after = match words(step, "deps") {
            deps if mark == "waits" && !deps.is_empty() => format!("  after {deps}"),
            _ => String::new(),
        };
        let text = format!("{} {} {}", mark, at(step, "/id"), at(step, "/title"));
        let more = style.paint(Tone::Faint, &(after + fresh(step)));
        lines.push(format!("  {}{more}", style.paint(tone, &text)));
    }
    lines.join("\n")
}

/// Tells what follows after a step.
pub(in crate::cli) fn step_done(result: &Value, _: Style) -> String {
    let text = result.get("text").and_then(Value::as_str);
    clean_lines(text.unwrap_or_default())
}
