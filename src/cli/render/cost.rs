//! `hd cost`.

use serde_json::Value;

use crate::cli::output::{Style, Tone};

use super::table::{Cell, Table};
use super::words::safe;

pub(in crate::cli) fn cost(result: &Value, style: Style) -> String {
    let result = &safe(result);
    let by = result["by"].as_str().unwrap_or_default();
    let since = result["since"].as_str().unwrap_or_default();
    let rows = result["rows"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if rows.is_empty() {
        return style.paint(
            Tone::Faint,
            &format!("no token usage is recorded since {since}"),
        );
    }
    let head = match by {
        "raider" => "RAIDER",
        "relic" => "RELIC",
        "model" => "MODEL",
        "harness" => "HARNESS",
        "session" => "SESSION",
        "rig" => "RIG",
        _ => "DAY",
    };
    let mut table = Table::new(&[head, "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "USD"]);
    let total = &result["total"];
    let all = rows.iter().map(|row| (row["key"].as_str(), row));
    for (key, row) in all.chain([(Some("total"), total)]) {
        let key = key.filter(|key| !key.is_empty()).unwrap_or("-");
        let mut cells = vec![Cell(key.to_owned(), Tone::Strong)];
        for name in ["input", "output", "cache_read", "cache_write"] {
            cells.push(count(row[name].as_u64().unwrap_or(0)).into());
        }
        cells.push(usd(row).into());
        table.row(cells);
    }
    let mut text = table.text(style);
    let unpriced = total["unpriced"].as_u64().unwrap_or(0);
    if unpriced > 0 {
        let says = format!(
            "\n+, ? : {} tokens have no price; set `prices` of the harness",
            count(unpriced)
        );
        text.push_str(&style.paint(Tone::Faint, &says));
    }
    let not_counted = result["not_counted"].as_array().into_iter().flatten();
    for says in not_counted.filter_map(Value::as_str) {
        text.push_str(&style.paint(Tone::Bad, &format!("\n{says}")));
    }
    text
}

/// Dollars; `+` where more was used than is priced, `?` where nothing is.
fn usd(row: &Value) -> String {
    let more = match row["unpriced"].as_u64() {
        Some(0) | None => "",
        Some(_) => "+",
    };
    match row["usd"].as_f64() {
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
