//! aider.

use super::{KEY, MODEL, Pointed, Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["aider"],
    runs_commands: false,
    pointing: Pointing::By(point),
};

fn point(url: &str) -> Pointed {
    Pointed::env([
        ("OPENAI_API_BASE", format!("{url}/v1")),
        ("OPENAI_API_KEY", KEY.to_owned()),
        ("AIDER_MODEL", format!("openai/{MODEL}")),
        ("AIDER_SHOW_MODEL_WARNINGS", "false".to_owned()),
    ])
}
