//! Limits and wrong credentials, in the form of each provider.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{Given, Model, Step};
use super::{Answered, playing, post, run};

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";
const GEMINI: &str = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse";

fn ask(model: &Model, path: &str) -> Answered {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let user = json!({"role": "user", "content": "Do marker"});
    let body = match path {
        MESSAGES => json!({
            "model": "m", "max_tokens": 1000, "messages": [user], "stream": true,
            "tools": [{"name": "Bash", "input_schema": parameters}],
        }),
        RESPONSES => json!({
            "model": "m", "input": [user], "stream": true,
            "tools": [{"type": "function", "name": "bash", "parameters": parameters}],
        }),
        CHAT => json!({
            "model": "m", "messages": [user], "stream": true,
            "tools": [{"type": "function", "function": {"name": "bash", "parameters": parameters}}],
        }),
        _ => json!({
            "contents": [{"role": "user", "parts": [{"text": "Do marker"}]}],
            "tools": [{"functionDeclarations": [{"name": "bash", "parameters": parameters}]}],
        }),
    };
    post(model, path, &body)
}

fn limit(resets_at: Option<Timestamp>) -> Step {
    let retry_after = Duration::from_secs(90);
    Step::Limit {
        retry_after,
        resets_at,
    }
}

fn error(answer: &Answered) -> Value {
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()["error"].clone()
}

#[test]
fn limit_is_told_by_each_provider_in_its_own_way() {
    let model = playing(vec![limit(None)]);
    for path in [MESSAGES, RESPONSES, CHAT, GEMINI] {
        let answer = ask(&model, path);
        assert_eq!(answer.status, 429, "{path}");
        assert_eq!(answer.header("retry-after"), Some("90"), "{path}");
    }
    assert_eq!(error(&ask(&model, MESSAGES))["type"], "rate_limit_error");
    assert_eq!(error(&ask(&model, CHAT))["code"], "rate_limit_exceeded");
    let gemini = error(&ask(&model, GEMINI));
    assert_eq!(gemini["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(gemini["details"][1]["retryDelay"], "90s");
    assert!(gemini["details"][0].to_string().contains("PerMinute"));
    assert!(
        model
            .heard()
            .iter()
            .all(|heard| heard.given == Given::Refused(429))
    );
}

#[test]
fn limit_of_a_subscription_says_when_it_is_over() {
    let resets_at = Timestamp::from_second(4_000_000_000).unwrap();
    let model = playing(vec![limit(Some(resets_at))]);
    let anthropic = ask(&model, MESSAGES);
    let reset = anthropic.header("anthropic-ratelimit-unified-reset");
    assert_eq!(reset, Some("4000000000"));
    let openai = ask(&model, RESPONSES);
    assert_eq!(
        openai.header("x-codex-primary-reset-at"),
        Some("4000000000")
    );
    let told = error(&openai);
    assert_eq!(told["type"], "usage_limit_reached");
    assert_eq!(told["resets_at"], 4_000_000_000_i64);
    assert!(told["resets_in_seconds"].as_i64() > Some(0));
    let chat = ask(&model, CHAT);
    let told = error(&chat)["message"].to_string();
    let again = told
        .split_once("Please try again in ")
        .map(|(_, again)| again);
    let again = again.and_then(|again| again.strip_suffix(".\"")).unwrap();
    assert!(told.contains("requests per day"), "{told}");
    assert!(again.contains('h') && again.ends_with('s'), "{again}");
    let now = Timestamp::now();
    let gemini = error(&ask(&model, GEMINI));
    assert!(gemini["details"][0].to_string().contains("PerDay"));
    let delay = gemini["details"][1]["retryDelay"].as_str().unwrap();
    let delay: i64 = delay.trim_end_matches('s').parse().unwrap();
    assert!(
        (4_000_000_000 - now.as_second() - delay).abs() < 60,
        "{delay}"
    );
}

#[test]
fn wrong_credentials_are_refused_until_the_gate_is_released() {
    let model = playing(vec![Step::Unauthorised, run("ls")]);
    for (path, told) in [
        (MESSAGES, "authentication_error"),
        (RESPONSES, "invalid_api_key"),
        (CHAT, "invalid_api_key"),
        (GEMINI, "UNAUTHENTICATED"),
    ] {
        let answer = ask(&model, path);
        assert_eq!(answer.status, 401, "{path}");
        assert!(error(&answer).to_string().contains(told), "{path}");
    }
    model.release("marker");
    for path in [MESSAGES, RESPONSES, CHAT, GEMINI] {
        let answer = ask(&model, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.contains("ls"), "{path}");
    }
}
