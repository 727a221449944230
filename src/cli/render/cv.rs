//! `hd cv`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{Chain, Cv, CvForgotten};
use crate::domain::cv::{Break, CvEntry};
use crate::domain::track_record::{Tally, TrackRecord};

use super::table::{Cell, Table};
use super::words::{at, cell, clean, seconds, to_seconds};

/// The number of skills of a kind that are shown.
const SKILLS: usize = 12;

/// Renders one chain with its newest entries, or all chains.
pub(in crate::cli) fn cv(told: &Cv, style: Style) -> String {
    match (&told.name, told.chains.as_slice()) {
        (Some(name), [chain]) => one(name, chain, &told.entries, style),
        (_, []) => style.paint(Tone::Faint, "no work is recorded yet"),
        (_, chains) => all(chains, told.more, style),
    }
}

fn all(chains: &[Chain], is_cut: bool, style: Style) -> String {
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
        let name = match chain.is_slot {
            true => format!("{} (slot)", name(chain)),
            false => name(chain),
        };
        let of = |field: fn(&TrackRecord) -> String| {
            let record = chain.record.as_ref();
            Cell::from(record.map_or_else(|| "-".to_owned(), field))
        };
        table.row(vec![
            Cell(name, Tone::Strong),
            cell(&chain.entries).into(),
            of(|record| rate(&record.all)),
            of(|record| cell(&record.first_pass)),
            of(|record| cell(&record.reworked)),
            of(|record| seconds(record.seconds)),
            of(|record| cell(&record.tokens)),
            of(usd),
            state(chain),
        ]);
    }
    let mut text = table.text(style);
    for chain in chains {
        if let Some(found) = chain.broken {
            text.push('\n');
            text.push_str(&style.paint(Tone::Bad, &broken(chain, found)));
        }
    }
    if is_cut {
        text.push('\n');
        text.push_str(&style.paint(Tone::Faint, "there are more chains than this list has"));
    }
    text
}

/// Returns the name of a chain, with its city where it was imported.
fn name(chain: &Chain) -> String {
    match &chain.city {
        Some(city) => format!("{city}:{}", cell(&chain.name)),
        None => cell(&chain.name),
    }
}

fn state(chain: &Chain) -> Cell {
    match (chain.broken, chain.verified) {
        (Some(_), _) => Cell("broken".to_owned(), Tone::Bad),
        (None, true) => Cell("verified".to_owned(), Tone::Good),
        (None, false) => Cell("not checked".to_owned(), Tone::Faint),
    }
}

/// Names the first entry that does not follow.
fn broken(chain: &Chain, Break { seq, flaw }: Break) -> String {
    clean(&format!("{}: entry {seq} {}", name(chain), flaw.says()))
}

/// Returns `3 of 4 (75 %)`; `-` without results.
fn rate(Tally { successes, results }: &Tally) -> String {
    match results {
        0 => "-".to_owned(),
        results => format!("{successes} of {results} ({} %)", successes * 100 / results),
    }
}

fn usd(record: &TrackRecord) -> String {
    let cents = record.usd_micros / 10_000;
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn one(name: &str, chain: &Chain, entries: &[CvEntry], style: Style) -> String {
    let mut lines = vec![style.paint(Tone::Strong, &clean(name))];
    match &chain.record {
        Some(record) => lines.extend(summed_up(chain.entries, record)),
        None => lines.push(format!("{} entries", chain.entries)),
    }
    if !entries.is_empty() {
        lines.push(history(entries, style));
    }
    lines.push(match (chain.broken, chain.verified) {
        (None, true) => style.paint(Tone::Good, "every entry follows the one before it"),
        (None, false) => style.paint(Tone::Faint, "not checked: --verify checks every hash"),
        (Some(found), _) => style.paint(Tone::Bad, &broken(chain, found)),
    });
    lines.join("\n")
}

/// Renders the sums over a chain: its results, then its most frequent skills.
fn summed_up(entries: u64, record: &TrackRecord) -> Vec<String> {
    let mut lines = vec![format!(
        "{entries} entries, success {}, first pass {}, reworked {}, work {}, {} tokens, {} USD",
        rate(&record.all),
        record.first_pass,
        record.reworked,
        seconds(record.seconds),
        record.tokens,
        usd(record)
    )];
    let by_results = |tally: &Tally| tally.results;
    lines.extend(skills("labels", &record.labels, by_results, rate));
    let count = |count: &u64| count.to_string();
    lines.extend(skills("files", &record.file_types, |count| *count, count));
    lines
}

/// Renders entries. Their data is what the version that sealed them wrote.
fn history(entries: &[CvEntry], style: Style) -> String {
    let mut table = Table::new(&["SEQ", "WHEN", "RESULT", "RELIC", "MR", "LABELS", "HASH"]);
    for entry in entries {
        let data = &entry.data;
        let labels = data["labels"].as_array().into_iter().flatten();
        let labels: Vec<&str> = labels.filter_map(Value::as_str).collect();
        let kind = match data["failure"].as_str() {
            Some(failure) => format!("{} ({failure})", cell(&entry.kind)),
            None => cell(&entry.kind),
        };
        let hash: String = entry.hash.chars().take(12).collect();
        table.row(vec![
            cell(&entry.seq).into(),
            to_seconds(&at(data, "/at")).into(),
            kind.into(),
            at(data, "/relic").into(),
            at(data, "/mr").into(),
            labels.join(", ").into(),
            hash.into(),
        ]);
    }
    table.text(style)
}

/// Renders the most frequent skills of a kind in a line; none without any.
fn skills<T>(
    kind: &str,
    skills: &BTreeMap<String, T>,
    often: impl Fn(&T) -> u64,
    shown: impl Fn(&T) -> String,
) -> Option<String> {
    let mut skills: Vec<_> = skills.iter().collect();
    if skills.is_empty() {
        return None;
    }
    skills.sort_by_key(|(_, value)| Reverse(often(value)));
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

/// Tells what was forgotten.
pub(in crate::cli) fn forgotten(told: &CvForgotten, _: Style) -> String {
    let entries = usize::try_from(told.entries).unwrap_or(usize::MAX);
    format!(
        "the chains of {} are deleted: {} {}",
        cell(&told.city),
        entries,
        if entries == 1 { "entry" } else { "entries" }
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
