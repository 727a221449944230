//! The key of an API in the environment of sessions whose user is logged in. Claude would use the key, and its account
//! would be billed for what a subscription pays: a key that only happens to be exported is not used then.

use std::collections::BTreeMap;

use super::programs::{CLAUDE_STATE, Setting, Trace, known};
use crate::domain::harness::hooks::Hooks;

/// The variable.
pub const KEY: &str = "ANTHROPIC_API_KEY";
/// The user's own command that tells a key.
const HELPER: Setting = Setting::Json("apiKeyHelper");

/// What becomes of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    /// The configuration gives it to the sessions: it is used, whatever else is there.
    Configured,
    /// It is the only login: it is used.
    Only,
    /// Sessions do not get it: their user has a login.
    Spared,
}

/// Returns what becomes of the key in an environment; none where there is none, or it is another program's.
/// `configured` is what the configuration sets, `logged_in` says whether one of [`logins`] is there.
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

/// What shows that the user of claude has a login besides the key.
#[must_use]
pub fn logins(env: &BTreeMap<String, String>) -> Vec<Trace> {
    let claude = known("claude").map(|known| known.login.traces_in(env));
    let mut traces = claude.unwrap_or_default();
    traces.retain(|trace| *trace != Trace::Variable(KEY));
    // A login that a key chain of the system holds leaves no file.
    let state = CLAUDE_STATE.of(env).join(".claude.json");
    traces.push(Trace::Setting(state, Setting::Json("oauthAccount")));
    traces
}

/// Whether this is the user's own command that tells a key: a helper of ours would stand in front of it.
#[must_use]
pub fn is_helper(trace: &Trace) -> bool {
    matches!(trace, Trace::Setting(_, setting) if *setting == HELPER)
}
