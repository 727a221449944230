//! The names of a task's files, in its directory and in the sandbox (`agent-lifecycle.md`, section 1; `contract.md`,
//! 2.7).

use std::path::{Path, PathBuf};

use super::plain_path::plain;

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

/// Returns true for the target of a link in a sandbox that leads to a file of a task,
/// `.../.horde/tasks/<rig>/<relic>/<slot>-<incarnation>/<file>`: of any incarnation, and of the city's former place. So does a
/// link to such a link in another sandbox, of a `TASK.md` only in one beside this, and a link below `/proc`, which leads
/// elsewhere for each process. A link to a file of the sandbox itself is the project's.
#[must_use]
pub fn is_link_target(sandbox: &Path, target: &Path) -> bool {
    if target.starts_with("/proc") {
        return true;
    }
    let target = plain(&sandbox.join(target));
    if !target.is_absolute() || target.starts_with(sandbox) {
        return false;
    }
    let name = target.file_name().unwrap_or_default();
    let above = |levels: usize| target.ancestors().nth(levels);
    let is_in_tasks = above(4).is_some_and(|tasks| tasks.ends_with(".horde/tasks"));
    let is_task = (name == TASK || name == OUTCOME) && is_in_tasks;
    let is_beside = above(2).is_some() && above(2) == sandbox.parent();
    let is_in_raiders = above(2).is_some_and(|raiders| raiders.ends_with("raiders"));
    // A project may have a TASK.md in a directory of any name.
    let is_link =
        name == TASK && is_beside || name.to_str().is_some_and(is_reserved) && is_in_raiders;
    is_task || is_link
}

/// Returns the directory beside the sandbox whose `TASK.md` a link leads to. A project may have such a link to a place of its own.
#[must_use]
pub fn beside(sandbox: &Path, target: &Path) -> Option<PathBuf> {
    let target = plain(&sandbox.join(target));
    let dir = target.parent()?;
    let is_beside = target.ends_with(TASK) && dir.parent() == sandbox.parent();
    (is_beside && dir != sandbox).then(|| dir.to_owned())
}

/// Returns true for the name of a link to the outcome, or to the task beside a `TASK.md` of the repository: no project has
/// such a file.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    name == TASK_ELSE || OUTCOMES.contains(&name)
}

/// Returns the commands that make the commits of a branch since a commit anew as one, without these names.
#[must_use]
pub fn anew_without(base: &str, names: &str) -> [String; 3] {
    [
        format!("git reset --soft {base}"),
        format!("git reset -q {base} -- {names}"),
        "git commit".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_to_a_task_is_known_by_where_it_leads_and_not_by_how_it_is_written() {
        let sandbox = Path::new("/city/horde/raiders/Toast");
        for (target, leads) in [
            ("/city/.horde/tasks/horde/gt-1/Toast-1/outcome", true),
            ("/former/.horde/tasks/horde/gt-1/Toast-1/TASK.md", true),
            ("../../../.horde/tasks/horde/gt-1/Toast-1/outcome", true),
            (
                "./../../../.horde//tasks/horde/gt-1/../gt-1/Toast-1/./outcome",
                true,
            ),
            ("../Nux/.horde-outcome", true),
            ("/city/horde/raiders/Nux/TASK.md", true),
            ("../Toast/.horde-outcome", false),
            ("/proc/self/cwd/../../../Nux/.horde-outcome", true),
            ("../Nux/TASK.md", true),
            ("../Nux/docs/TASK.md", false),
            ("/data/raiders/2026/TASK.md", false),
            ("/data/tasks/2026/q4/current/TASK.md", false),
            ("/city/.horde/tasks/horde/gt-1/Toast-1/key", false),
            ("/city/.horde/tasks/horde/gt-1/Toast-1/../outcome", false),
            ("tasks/2026/q4/current/TASK.md", false),
            ("../../../tasks/horde/gt-1/outcome", false),
            ("docs/outcome", false),
            ("", false),
        ] {
            assert_eq!(
                is_link_target(sandbox, Path::new(target)),
                leads,
                "{target}"
            );
        }
    }

    #[test]
    fn directory_beside_the_sandbox_whose_task_a_link_leads_to_is_known() {
        let sandbox = Path::new("/city/horde/raiders/Toast");
        let beside = |target: &str| beside(sandbox, Path::new(target));
        let nux = Some(PathBuf::from("/city/horde/raiders/Nux"));
        assert_eq!(beside("../Nux/TASK.md"), nux);
        assert_eq!(beside("/city/horde/raiders/Nux/./TASK.md"), nux);
        for other in [
            "../Toast/TASK.md",
            "../Nux/.horde-outcome",
            "../Nux/docs/TASK.md",
            "TASK.md",
            "",
        ] {
            assert_eq!(beside(other), None, "{other}");
        }
    }
}
