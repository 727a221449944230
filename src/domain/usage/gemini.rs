//! Gemini CLI (0.61): `~/.gemini/tmp/<project>/chats/session-*.jsonl`. A message is written again when its
//! tools have run; cached input is part of the input, thoughts are no part of the output.

use serde_json::Value;

use super::{Cursor, Spent, Tokens, number, text, time};

pub(super) fn line(cursor: &mut Cursor, line: &Value) -> Option<Spent> {
    let told = line.pointer("/tokens").filter(|told| told.is_object())?;
    let cached = number(told, "/cached");
    let tokens = Tokens {
        input: (number(told, "/input") + number(told, "/tool")).saturating_sub(cached),
        output: number(told, "/output") + number(told, "/thoughts"),
        cache_read: cached,
        cache_write: 0,
    };
    Some(Spent {
        at: time(line),
        model: text(line, "/model").unwrap_or_default().to_owned(),
        tokens: cursor.count(text(line, "/id")?, tokens),
        usd: None,
    })
}
