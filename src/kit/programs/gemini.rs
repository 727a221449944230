//! gemini.

use super::{KEY, Pointed, Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["gemini"],
    runs_commands: true,
    pointing: Pointing::By(point),
};

/// With the setting that a person leaves by choosing a key as the login method.
fn point(url: &str) -> Pointed {
    let settings = r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#;
    Pointed::env([
        ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
        ("GEMINI_API_KEY", KEY.to_owned()),
    ])
    .file(".gemini/settings.json", settings.to_owned())
}
