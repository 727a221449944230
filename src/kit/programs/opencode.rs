//! opencode.

use serde_json::json;

use super::{KEY, MODEL, Pointed, Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["opencode"],
    runs_commands: true,
    pointing: Pointing::By(point),
};

/// A provider of the user's own. The list of models is not fetched, and the files of its plugins seem to exist, so that
/// nothing is downloaded.
fn point(url: &str) -> Pointed {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "Kit",
        "options": {"baseURL": format!("{url}/v1"), "apiKey": KEY},
        "models": {MODEL: {}},
    });
    let settings = json!({
        "provider": {"kit": provider}, "model": format!("kit/{MODEL}"),
        "small_model": format!("kit/{MODEL}"), "enabled_providers": ["kit"],
    });
    Pointed::env([("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned())])
        .file(".config/opencode/opencode.json", settings.to_string())
}
