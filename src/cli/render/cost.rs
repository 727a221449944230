//! `hd cost`.

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{Cost, Usage};
use crate::domain::usage::ledger::By;

use super::table::{Cell, Table};
use super::words::{cell, clean};

pub(in crate::cli) fn cost(told: &Cost, style: Style) -> String {
    if told.rows.is_empty() {
        let since = clean(&told.since);
        return style.paint(
            Tone::Faint,
            &format!("no token usage is recorded since {since}"),
        );
    }
    let head = match told.by {
        By::Raider => "RAIDER",
        By::Relic => "RELIC",
        By::Model => "MODEL",
        By::Harness => "HARNESS",
        By::Session => "SESSION",
        By::Rig => "RIG",
        By::Day => "DAY",
    };
    let mut table = Table::new(&[head, "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "USD"]);
    let rows = told.rows.iter().map(|row| (row.key.as_str(), &row.usage));
    for (key, usage) in rows.chain([("total", &told.total)]) {
        let mut cells = vec![Cell(cell(&key), Tone::Strong)];
        let counts = [
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
        ];
        cells.extend(counts.map(|tokens| count(tokens).into()));
        cells.push(usd(usage).into());
        table.row(cells);
    }
    let mut text = table.text(style);
    if told.total.unpriced > 0 {
        let says = format!(
            "\n+, ? : {} tokens have no price; set `prices` of the harness",
            count(told.total.unpriced)
        );
        text.push_str(&style.paint(Tone::Faint, &says));
    }
    for says in &told.not_counted {
        text.push_str(&style.paint(Tone::Bad, &format!("\n{}", clean(says))));
    }
    text
}

/// Dollars; `+` where more was used than is priced, `?` where nothing is.
fn usd(usage: &Usage) -> String {
    let more = match usage.unpriced {
        0 => "",
        _ => "+",
    };
    match usage.usd {
        Some(usd) => format!("{usd:.2}{more}"),
        None => "?".to_owned(),
    }
}

/// 1234567 as 1.2M.
fn count(tokens: u64) -> String {
    let shown = |of: f64, unit: &str| format!("{:.1}{unit}", tokens as f64 / of);
    match tokens {
        0..10_000 => tokens.to_string(),
        10_000..1_000_000 => shown(1e3, "k"),
        1_000_000..1_000_000_000 => shown(1e6, "M"),
        _ => shown(1e9, "G"),
    }
}
