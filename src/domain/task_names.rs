//! The names of a task's files, in its directory and in the sandbox (`agent-lifecycle.md`, section 1; `contract.md`,
//! 2.7).

use std::path::Path;

/// The task, in its directory and in a sandbox.
pub const TASK: &str = "TASK.md";
/// The task in a sandbox whose repository has a `TASK.md` of its own.
pub const TASK_ELSE: &str = ".horde-task.md";
/// The outcome file in the task's directory.
pub const OUTCOME: &str = "outcome";
/// The outcome file in a sandbox: the first name is the one that agents are told, the second one the seed's other name.
pub const OUTCOMES: [&str; 2] = [".horde-outcome", ".orange-outcome"];
/// The files of a task that took the place of a link in the sandbox have this in their names.
pub const REPLACED: &str = ".replaced-";

/// Returns true for the target of a link that the supervisor made in a sandbox,
/// `.../tasks/<rig>/<relic>/<slot>-<incarnation>/<file>`: of any incarnation, and of the city's former place.
#[must_use]
pub fn is_link_target(target: &Path) -> bool {
    let name = target.file_name().unwrap_or_default();
    let tasks = target.ancestors().nth(4).and_then(Path::file_name);
    target.is_absolute() && (name == TASK || name == OUTCOME) && tasks == Some("tasks".as_ref())
}
