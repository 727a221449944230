//! `budget` and `prices`.

use crate::config::document::Node;
use crate::config::reader::{Reader, Report};
use crate::config::values::{choice, number, optional};
use crate::domain::budget::{Budget, OnExceed};
use crate::domain::usage::price::Price;

/// The largest amount in dollars.
const USD_MAX: f64 = 1e9;

const WORDS: &[(&str, OnExceed)] = &[("park", OnExceed::Park), ("warn", OnExceed::Warn)];

/// Reads `budget = { ... }`; an empty string, the default, is no budget.
pub fn budget(reader: &mut Reader<'_>) -> Option<Option<Budget>> {
    let Some(mut reader) = reader.optional_section("budget", "budget")? else {
        return Some(None);
    };
    let usd_per_day = reader.get("usd_per_day", number(0.0, USD_MAX));
    let on_exceed = reader.get("on_exceed", choice(WORDS, &[]));
    reader.finish();
    Some(Some(Budget {
        usd_per_day: usd_per_day?,
        on_exceed: on_exceed?,
    }))
}

/// Reads the price of a model.
pub fn price(node: &Node, report: &Report) -> Option<Price> {
    let mut reader = Reader::open("prices", node, report)?;
    let usd = || number(0.0, USD_MAX);
    let input = reader.get("input", usd());
    let output = reader.get("output", usd());
    let cache_read = reader.get("cache_read", optional(usd()));
    let cache_write = reader.get("cache_write", optional(usd()));
    reader.finish();
    let input = input?;
    Some(Price {
        input,
        output: output?,
        cache_read: cache_read?.unwrap_or(input),
        cache_write: cache_write?.unwrap_or(input),
    })
}
