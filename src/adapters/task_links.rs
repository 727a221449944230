//! Links in a sandbox that lead to a file of a task.

use std::path::Path;

use crate::domain::task_names::{beside, is_link_target};

/// Returns true for the target of a link that leads to a file of a task now. A `TASK.md` beside the sandbox is one only in another
/// sandbox.
pub(super) fn lead_to_a_task(sandbox: &Path, target: &Path) -> bool {
    let is_sandbox = |dir: &Path| dir.join(".git").symlink_metadata().is_ok();
    is_link_target(sandbox, target) && beside(sandbox, target).is_none_or(|dir| is_sandbox(&dir))
}
