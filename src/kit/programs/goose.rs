//! goose.

use super::{KEY, MODEL, Pointed, Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["goose"],
    runs_commands: true,
    pointing: Pointing::By(point),
};

fn point(url: &str) -> Pointed {
    Pointed::env([
        ("GOOSE_PROVIDER", "openai".to_owned()),
        ("GOOSE_MODEL", MODEL.to_owned()),
        ("OPENAI_HOST", url.to_owned()),
        ("OPENAI_API_KEY", KEY.to_owned()),
        ("GOOSE_DISABLE_KEYRING", "1".to_owned()),
    ])
}
