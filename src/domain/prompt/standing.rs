//! The texts for a standing agent about the work on its hook. It works in its own directory: no branch of it is landed.

use super::RelicId;

/// Returns the rules of a standing agent that has a relic on its hook.
#[must_use]
pub fn agent_rules(hd: &str) -> String {
    format!(
        "Rules:\n\
         - Do not push to a branch that a rig lands on, and do not merge into it: the supervisor lands work there. \
         Raiders make changes in repositories: `{hd} run \"TASK\"` has one made.\n\
         - Do not close the relic with `{hd} relic close`, and take no relic that is on the hook of another agent.\n\
         - When the relic has steps, close each with `{hd} step done`.\n\
         - When you need a decision of a person, ask for it: `{hd} escalate`.\n\
         - When your context is nearly full, run `{hd} handoff -m \"where you are\"`: a fresh session continues. \
         `{hd} rally` prints your identity and your relic again."
    )
}

/// Returns how a standing agent ends its work on the relic on its hook.
#[must_use]
pub fn agent_outcome(relic: &RelicId, hd: &str) -> String {
    format!(
        "When you stop working on {relic}, say so, and then take the next one with `{hd} hook`:\n\
         - finished: `{hd} done` closes it\n\
         - you cannot continue: `{hd} done --status escalated --reason \"...\"` blocks it and calls a person\n\
         - it has to wait: `{hd} done --status deferred --until TIME --reason \"...\"` puts it off\n\
         The supervisor does not look at your files: {relic} stays on your hook until you run one of these."
    )
}
