//! GitHub Copilot CLI (1.0.102): `~/.copilot/session-state/<session>/events.jsonl`. Its `cost` counts
//! requests of a plan, not money.

use serde_json::Value;

use super::{Cursor, Spent, Tokens, number, text, time};

pub(super) fn line(cursor: &mut Cursor, line: &Value) -> Option<Spent> {
    if text(line, "/type") != Some("session.usage_record") {
        return None;
    }
    let usage = line.pointer("/data/usage")?;
    let (read, written) = (
        number(usage, "/cacheReadTokens"),
        number(usage, "/cacheWriteTokens"),
    );
    let tokens = Tokens {
        input: number(usage, "/inputTokens").saturating_sub(read + written),
        output: number(usage, "/outputTokens"),
        cache_read: read,
        cache_write: written,
    };
    let id = text(usage, "/accounting/usageId").or(text(line, "/id"))?;
    Some(Spent {
        at: time(line),
        model: text(usage, "/model").unwrap_or_default().to_owned(),
        tokens: cursor.count(id, tokens),
        usd: None,
    })
}
