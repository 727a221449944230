//! pi (0.73.1): `~/.pi/agent/sessions/<directory>/<time>_<session>.jsonl`. It tells what a message cost,
//! and 0 for a model whose price it does not know.

use serde_json::Value;

use super::{Cursor, Spent, Tokens, number, text, time};

pub(super) fn line(cursor: &mut Cursor, line: &Value) -> Option<Spent> {
    let usage = line.pointer("/message/usage")?;
    let tokens = Tokens {
        input: number(usage, "/input"),
        output: number(usage, "/output"),
        cache_read: number(usage, "/cacheRead"),
        cache_write: number(usage, "/cacheWrite"),
    };
    let usd = usage.pointer("/cost/total").and_then(Value::as_f64);
    Some(Spent {
        at: time(line),
        model: text(line, "/message/model").unwrap_or_default().to_owned(),
        tokens: cursor.count(text(line, "/id")?, tokens),
        usd: usd.filter(|usd| *usd > 0.0),
    })
}
