//! Codex: `~/.codex/sessions/<date>/rollout-*.jsonl`. `token_count` tells the sum of the conversation, in
//! which cached input is part of the input; the model is named when a turn begins.

use serde_json::Value;

use super::{Cursor, Spent, Tokens, number, text, time};

pub(super) fn line(cursor: &mut Cursor, line: &Value) -> Option<Spent> {
    if text(line, "/type") == Some("turn_context") {
        let model = text(line, "/payload/model");
        cursor.model = cursor.named(model.unwrap_or_default());
        return None;
    }
    if text(line, "/payload/type") != Some("token_count") {
        return None;
    }
    let sum = line.pointer("/payload/info/total_token_usage")?;
    let cached = number(sum, "/cached_input_tokens");
    let sum = Tokens {
        input: number(sum, "/input_tokens").saturating_sub(cached),
        output: number(sum, "/output_tokens"),
        cache_read: cached,
        cache_write: 0,
    };
    // A sum that is smaller began anew.
    let anew = sum.input < cursor.sum.input || sum.output < cursor.sum.output;
    let tokens = match anew {
        true => sum,
        false => sum.beyond(&cursor.sum),
    };
    cursor.sum = sum;
    Some(Spent {
        at: time(line),
        model: cursor.model.clone(),
        tokens,
        usd: None,
    })
}
