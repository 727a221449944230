//! `hd cv`.

use serde_json::Value;

use crate::cli::output::{Style, Tone};
use crate::domain::cv::Break;

use super::table::{Cell, Table};
use super::words::{at, clean, count, seconds, to_seconds};

/// The number of skills of a kind that are shown.
const SKILLS: usize = 12;

/// Renders one chain with its newest entries, or all chains.
pub(in crate::cli) fn cv(result: &Value, style: Style) -> String {
    let chains = result.get("chains").and_then(Value::as_array);
    let chains = chains.map(Vec::as_slice).unwrap_or_default();
    match (result.get("name").and_then(Value::as_str), chains) {
        (Some(name), [chain]) => one(name, chain, result, style),
        (_, []) => style.paint(Tone::Faint, "no work is recorded yet"),
        (_, chains) => all(chains, result, style),
    }
}

fn all(chains: &[Value], result: &Value, style: Style) -> String {
    let mut table = Table::new(&[
        "IDENTITY",
        "ENTRIES",
        "SUCCESS",
        "FIRST PASS",
        "REWORKED",
        "WORK",
        "TOKENS",
        "USD",
        "CHAIN",
    ]);
    for chain in chains {
        let name = match chain["is_slot"] == Value::Bool(true) {
            true => format!("{} (slot)", name(chain)),
            false => name(chain),
        };
        let record = chain.get("record").filter(|record| !record.is_null());
        let of =
            |pointer: &str| record.map_or_else(|| "-".to_owned(), |record| at(record, pointer));
        table.row(vec![
            Cell(name, Tone::Strong),
            at(chain, "/entries").into(),
            record
                .map_or_else(|| "-".to_owned(), |record| rate(&record["all"]))
                .into(),
            of("/first_pass").into(),
            of("/reworked").into(),
            record
                .map_or_else(
                    || "-".to_owned(),
                    |record| seconds(count(record, "/seconds")),
                )
                .into(),
            of("/tokens").into(),
            record.map_or_else(|| "-".to_owned(), usd).into(),
            state(chain),
        ]);
    }
    let mut text = table.text(style);
    for chain in chains.iter().filter(|chain| !chain["broken"].is_null()) {
        text.push('\n');
        text.push_str(&style.paint(Tone::Bad, &broken(chain)));
    }
    if result.get("more") == Some(&Value::Bool(true)) {
        text.push('\n');
        text.push_str(&style.paint(Tone::Faint, "there are more chains than this list has"));
    }
    text
}

/// Returns the name of a chain, with its city where it was imported.
fn name(chain: &Value) -> String {
    match chain.get("city").and_then(Value::as_str) {
        Some(city) => format!("{city}:{}", at(chain, "/name")),
        None => at(chain, "/name"),
    }
}

fn state(chain: &Value) -> Cell {
    match (
        chain["broken"].is_null(),
        chain["verified"] == Value::Bool(true),
    ) {
        (false, _) => Cell("broken".to_owned(), Tone::Bad),
        (true, true) => Cell("verified".to_owned(), Tone::Good),
        (true, false) => Cell("not checked".to_owned(), Tone::Faint),
    }
}

/// Names the first entry that does not follow.
fn broken(chain: &Value) -> String {
    let name = name(chain);
    let found: Option<Break> = serde_json::from_value(chain["broken"].clone()).ok();
    match found {
        Some(Break { seq, flaw }) => clean(&format!("{name}: entry {seq} {}", flaw.says())),
        None => clean(&format!("{name}: the chain breaks")),
    }
}

/// Returns `3 of 4 (75 %)`; `-` without results.
fn rate(tally: &Value) -> String {
    let (successes, results) = (count(tally, "/successes"), count(tally, "/results"));
    match results {
        0 => "-".to_owned(),
        results => format!("{successes} of {results} ({} %)", successes * 100 / results),
    }
}

fn usd(record: &Value) -> String {
    let cents = count(record, "/usd_micros") / 10_000;
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn one(name: &str, chain: &Value, result: &Value, style: Style) -> String {
    let mut lines = vec![style.paint(Tone::Strong, &clean(name))];
    let record = &chain["record"];
    lines.push(format!(
        "{} entries, success {}, first pass {}, reworked {}, work {}, {} tokens, {} USD",
        at(chain, "/entries"),
        rate(&record["all"]),
        at(record, "/first_pass"),
        at(record, "/reworked"),
        seconds(count(record, "/seconds")),
        at(record, "/tokens"),
        usd(record)
    ));
    lines.extend(skills("labels", &record["labels"], rate));
    lines.extend(skills("files", &record["file_types"], |count| {
        count.to_string()
    }));
    let mut table = Table::new(&["SEQ", "WHEN", "RESULT", "RELIC", "MR", "LABELS", "HASH"]);
    for entry in result["entries"].as_array().into_iter().flatten() {
        let data = &entry["data"];
        let labels = data["labels"].as_array().into_iter().flatten();
        let labels: Vec<&str> = labels.filter_map(Value::as_str).collect();
        let kind = match data["failure"].as_str() {
            Some(failure) => format!("{} ({failure})", at(entry, "/kind")),
            None => at(entry, "/kind"),
        };
        let hash: String = at(entry, "/hash").chars().take(12).collect();
        table.row(vec![
            at(entry, "/seq").into(),
            to_seconds(&at(data, "/at")).into(),
            kind.into(),
            at(data, "/relic").into(),
            at(data, "/mr").into(),
            labels.join(", ").into(),
            hash.into(),
        ]);
    }
    if !table.is_empty() {
        lines.push(table.text(style));
    }
    let is_verified = chain["verified"] == Value::Bool(true);
    lines.push(match chain["broken"].is_null() {
        true if is_verified => style.paint(Tone::Good, "every entry follows the one before it"),
        true => style.paint(Tone::Faint, "not checked: --verify checks every hash"),
        false => style.paint(Tone::Bad, &broken(chain)),
    });
    lines.join("\n")
}

/// Renders the most frequent skills of a kind in a line; none without any.
fn skills(kind: &str, skills: &Value, shown: impl Fn(&Value) -> String) -> Option<String> {
    let mut skills: Vec<_> = skills.as_object()?.iter().collect();
    if skills.is_empty() {
        return None;
    }
    let often = |value: &Value| match value.as_u64() {
        Some(count) => count,
        None => count(value, "/results"),
    };
    skills.sort_by_key(|(_, value)| std::cmp::Reverse(often(value)));
    let named = skills.iter().take(SKILLS);
    let named: Vec<String> = named
        .map(|(name, value)| format!("{} {}", clean(name), shown(value)))
        .collect();
    Some(format!("{kind}: {}", named.join("; ")))
}

/// Tells where an export is.
pub(in crate::cli) fn exported(told: &Value, _: Style) -> String {
    format!(
        "{} entries are in {}",
        at(told, "/entries"),
        at(told, "/file")
    )
}

/// Tells what an import added.
pub(in crate::cli) fn imported(told: &Value, _: Style) -> String {
    format!(
        "{} entries of {} verified: {} added, {} were there already",
        at(told, "/entries"),
        at(told, "/city"),
        at(told, "/added"),
        at(told, "/known")
    )
}
