//! Codex (0.169): `~/.codex/sessions/<date>/rollout-*.jsonl`. A `token_usage_record` gives the usage of one answer at
//! once. Older versions only write `token_count`, the sum of the conversation, after the answer's tools: too late for
//! the last answer. Input from and into a cache is part of the input; the model is named when a turn begins.

use serde_json::Value;

use super::{Cursor, Spent, Tokens, number, text, time};

pub(super) fn line(cursor: &mut Cursor, line: &Value) -> Option<Spent> {
    if text(line, "/type") == Some("turn_context") {
        let model = text(line, "/payload/model");
        cursor.model = cursor.named(model.unwrap_or_default());
        return None;
    }
    let tokens = if text(line, "/type") == Some("token_usage_record") {
        cursor.has_records = true;
        let id = text(line, "/payload/response_id")?;
        cursor.count(id, tokens(line.pointer("/payload/usage")?))
    } else if text(line, "/payload/type") == Some("token_count") && !cursor.has_records {
        more(
            cursor,
            tokens(line.pointer("/payload/info/total_token_usage")?),
        )
    } else {
        return None;
    };
    Some(Spent {
        at: time(line),
        model: cursor.model.clone(),
        tokens,
        usd: None,
    })
}

fn tokens(usage: &Value) -> Tokens {
    let read = number(usage, "/cached_input_tokens");
    let written = number(usage, "/cache_write_input_tokens");
    Tokens {
        input: number(usage, "/input_tokens").saturating_sub(read.saturating_add(written)),
        output: number(usage, "/output_tokens"),
        cache_read: read,
        cache_write: written,
    }
}

/// Returns the increase of a sum over the previous one. A smaller sum began anew.
fn more(cursor: &mut Cursor, sum: Tokens) -> Tokens {
    let anew = sum.input < cursor.sum.input || sum.output < cursor.sum.output;
    let more = match anew {
        true => sum,
        false => sum.beyond(&cursor.sum),
    };
    cursor.sum = sum;
    more
}
