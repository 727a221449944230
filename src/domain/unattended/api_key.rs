//! An API key in the environment of sessions whose user is logged in. Claude would use the key, and its account would
//! be billed for usage that a subscription covers: a key that only happens to be exported is therefore not used.

use std::collections::BTreeMap;

use super::programs::{CLAUDE_STATE, Setting, Trace, known};
use crate::domain::harness::hooks::Hooks;

/// The variable.
pub const KEY: &str = "ANTHROPIC_API_KEY";
/// The user's own command that prints a key.
const HELPER: Setting = Setting::Json("apiKeyHelper");

/// The use of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    /// The configuration gives it to the sessions: it is used in any case.
    Configured,
    /// It is the only login: it is used.
    Only,
    /// Sessions do not get it: their user has a login.
    Spared,
}

/// Returns the use of the key in an environment; none where there is no key, or it is for another program. `configured`
/// holds the configured variables, `logged_in` is true when one of [`logins`] exists.
#[must_use]
pub fn key_use(
    hooks: Hooks,
    configured: &BTreeMap<String, String>,
    env: &BTreeMap<String, String>,
    logged_in: bool,
) -> Option<KeyUse> {
    let is_there = env.get(KEY).is_some_and(|key| !key.is_empty());
    if hooks != Hooks::Claude || !is_there {
        return None;
    }
    Some(match (configured.contains_key(KEY), logged_in) {
        (true, _) => KeyUse::Configured,
        (false, true) => KeyUse::Spared,
        (false, false) => KeyUse::Only,
    })
}

/// Returns the traces of a login of claude's user other than the key.
#[must_use]
pub fn logins(env: &BTreeMap<String, String>) -> Vec<Trace> {
    let claude = known("claude").map(|known| known.login.traces_in(env));
    let mut traces = claude.unwrap_or_default();
    traces.retain(|trace| *trace != Trace::Variable(KEY));
    // A login in a key chain of the system leaves no file.
    let state = CLAUDE_STATE.of(env).join(".claude.json");
    traces.push(Trace::Setting(state, Setting::Json("oauthAccount")));
    traces
}

/// Returns true for the user's own command that prints a key: a helper of the supervisor would override it.
#[must_use]
pub fn is_helper(trace: &Trace) -> bool {
    matches!(trace, Trace::Setting(_, setting) if *setting == HELPER)
}
