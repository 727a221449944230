//! copilot.

use super::{KEY, MODEL, Pointed, Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["copilot"],
    runs_commands: true,
    pointing: Pointing::By(point),
};

/// A provider of the user's own, which needs no login at GitHub. The city is trusted, as `hd harness setup copilot`
/// sets it up: the reduced form would ask otherwise.
fn point(url: &str) -> Pointed {
    Pointed::env([
        ("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")),
        ("COPILOT_PROVIDER_API_KEY", KEY.to_owned()),
        ("COPILOT_MODEL", MODEL.to_owned()),
        ("COPILOT_OFFLINE", "true".to_owned()),
    ])
    .file(
        ".copilot/config.json",
        r#"{"trustedFolders":["{city}"]}"#.to_owned(),
    )
}
