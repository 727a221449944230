//! The names of a task's files, in its directory and in the sandbox (`agent-lifecycle.md`, section 1; `contract.md`,
//! 2.7).

/// The task, in its directory and in a sandbox.
pub const TASK: &str = "TASK.md";
/// The task in a sandbox whose repository has a `TASK.md` of its own.
pub const TASK_ELSE: &str = ".horde-task.md";
/// The outcome file in the task's directory.
pub const OUTCOME: &str = "outcome";
/// The outcome file in a sandbox: the first name is the one that agents are told, the second one the seed's other name.
pub const OUTCOMES: [&str; 2] = [".horde-outcome", ".orange-outcome"];
