//! pi.

use serde_json::json;

use super::{KEY, MODEL, Pointed, Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["pi"],
    runs_commands: true,
    pointing: Pointing::By(point),
};

/// A provider of the user's own, chosen as the default.
fn point(url: &str) -> Pointed {
    let provider = json!({
        "baseUrl": format!("{url}/v1"), "api": "openai-completions", "apiKey": KEY,
        "models": [{"id": MODEL}],
    });
    let models = json!({"providers": {"kit": provider}});
    let settings = json!({"defaultProvider": "kit", "defaultModel": MODEL});
    Pointed::default()
        .file(".pi/agent/models.json", models.to_string())
        .file(".pi/agent/settings.json", settings.to_string())
}
