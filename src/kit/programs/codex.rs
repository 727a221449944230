//! codex.

use super::{KEY, Pointed, Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["codex"],
    runs_commands: true,
    pointing: Pointing::By(point),
};

/// A provider of its own: the built-in provider wants a login, whatever the environment holds.
fn point(url: &str) -> Pointed {
    let settings = format!(
        "model_provider = \"kit\"\n\n[model_providers.kit]\nname = \"Kit\"\n\
         base_url = \"{url}/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n"
    );
    Pointed::env([("OPENAI_API_KEY", KEY.to_owned())]).file(".codex/config.toml", settings)
}
