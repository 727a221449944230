//! Claude Code (2.1.197): `~/.claude/projects/<directory>/<session>.jsonl`. Each block of a message is a
//! line with the usage of the whole message, which may grow from line to line.

use serde_json::Value;

use super::{Cursor, Spent, Tokens, number, text, time};

pub(super) fn line(cursor: &mut Cursor, line: &Value) -> Option<Spent> {
    let usage = line.pointer("/message/usage")?;
    let id = text(line, "/message/id").or(text(line, "/uuid"))?;
    let request = text(line, "/requestId").unwrap_or_default();
    let tokens = Tokens {
        input: number(usage, "/input_tokens"),
        output: number(usage, "/output_tokens"),
        cache_read: number(usage, "/cache_read_input_tokens"),
        cache_write: number(usage, "/cache_creation_input_tokens"),
    };
    Some(Spent {
        at: time(line),
        model: text(line, "/message/model").unwrap_or_default().to_owned(),
        tokens: cursor.count(&format!("{id} {request}"), tokens),
        usd: None,
    })
}
