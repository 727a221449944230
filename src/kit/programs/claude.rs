//! claude.

use super::{KEY, Pointed, Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["claude"],
    runs_commands: true,
    pointing: Pointing::By(point),
};

/// The token of a subscription replaces a login: a key in the environment would lead to a question, and has no limit
/// that ends at a time of the day.
fn point(url: &str) -> Pointed {
    Pointed::env([
        ("ANTHROPIC_BASE_URL", url.to_owned()),
        ("CLAUDE_CODE_OAUTH_TOKEN", KEY.to_owned()),
        // It retries refused credentials ten times, for minutes.
        ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
    ])
    .file(
        ".claude.json",
        r#"{"hasCompletedOnboarding":true}"#.to_owned(),
    )
    .login(&["CLAUDE_CODE_OAUTH_TOKEN"])
}
