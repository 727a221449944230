//! amp.

use super::{Pointing, Program};

pub(super) const PROGRAM: Program = Program {
    names: &["amp"],
    runs_commands: true,
    pointing: Pointing::Impossible("amp speaks to its own servers only"),
};
