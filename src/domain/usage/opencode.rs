//! opencode (1.18.33), whose messages are in a database: the plugin of the session writes what each used into
//! `opencode-usage.jsonl` beside itself. Thoughts are no part of the output, cached input none of the input.

use serde_json::Value;

use super::{Cursor, Spent, Tokens, number, text, time};

pub(super) fn line(cursor: &mut Cursor, line: &Value) -> Option<Spent> {
    let told = line.pointer("/tokens").filter(|told| told.is_object())?;
    let tokens = Tokens {
        input: number(told, "/input"),
        output: number(told, "/output") + number(told, "/reasoning"),
        cache_read: number(told, "/cache/read"),
        cache_write: number(told, "/cache/write"),
    };
    // The price of a model that opencode does not know is 0.
    let usd = line.pointer("/cost").and_then(Value::as_f64);
    Some(Spent {
        at: time(line),
        model: text(line, "/model").unwrap_or_default().to_owned(),
        tokens: cursor.count(text(line, "/id")?, tokens),
        usd: usd.filter(|usd| *usd > 0.0),
    })
}
