//! cursor-agent.

use super::{Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["cursor", "cursor-agent"],
    runs_commands: true,
    pointing: Pointing::Impossible("cursor-agent speaks to its own servers only"),
};
