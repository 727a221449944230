//! Facts about harnesses that need no session.

use std::thread;

use serde_json::{Map, Value, json};

use crate::config::{self, Loaded};
use crate::domain::city::Harness;
use crate::domain::harness::fill::PLACEHOLDERS;
use crate::domain::harness::hooks::Hooks;
use crate::domain::unattended::{KeyUse, ProgramFacts};
use crate::kit::programs;

use super::inspect::{Machine, inspect, users};

/// Lists every harness in a line.
pub(super) fn all(loaded: &Loaded) -> Value {
    let machine = Machine::here();
    thread::scope(|scope| {
        // Programs are asked for their versions in parallel.
        let asked: Vec<_> = loaded
            .city
            .harnesses
            .values()
            .map(|harness| scope.spawn(|| brief(loaded, harness, &machine)))
            .collect();
        let rows = asked.into_iter().filter_map(|asked| asked.join().ok());
        rows.collect()
    })
}

/// Returns a harness with all of its settings.
pub(super) fn one(loaded: &Loaded, harness: &Harness) -> Value {
    let all = settings(loaded);
    let mut row = brief(loaded, harness, &Machine::here());
    let own = all.get(harness.name.as_str()).cloned().unwrap_or_default();
    let text = own.to_string();
    let used = PLACEHOLDERS
        .iter()
        .filter(|(placeholder, _)| text.contains(placeholder));
    let used: Map<_, _> = used
        .map(|(placeholder, meaning)| ((*placeholder).to_owned(), json!(meaning)))
        .collect();
    row["placeholders"] = Value::Object(used);
    row["settings"] = own;
    row
}

/// `[harness]` with all defaults filled in.
pub(super) fn settings(loaded: &Loaded) -> Map<String, Value> {
    let effective = config::show_json(loaded);
    let harnesses = effective.get("harness").and_then(Value::as_object);
    harnesses.cloned().unwrap_or_default()
}

fn brief(loaded: &Loaded, harness: &Harness, machine: &Machine) -> Value {
    let looked = inspect(loaded, harness, machine);
    let (version, unknown) = match &looked.version {
        Some(Ok(version)) => (Some(version), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    let seen = looked.seen.as_ref();
    json!({
        "name": harness.name, "program": looked.program, "command": harness.command,
        "found": looked.found, "file": looked.file, "version": version, "version_unknown": unknown,
        "proven": looked.known.and_then(|known| known.proven),
        "unproven": is_unproven(harness, looked.known),
        "logged_in": seen.map(|seen| seen.login.is_some()),
        "login": seen.and_then(|seen| seen.login.clone()),
        "api_key": looked.key.map(api_key),
        "asks": seen.map(|seen| seen.asks.iter().map(|ask| &ask.what).collect::<Vec<_>>()),
        "refuses_root": seen.map(|_| looked.refuses_root),
        "findings": looked.findings,
        "hooks": word(harness.hooks),
        "patterns": {
            "needs_input": harness.patterns.asks.len(), "rate_limited": harness.patterns.limit.len(),
            "auth": harness.patterns.auth.len(),
        },
        "reduced": !harness.reduced.is_empty(),
        "reduced_asks": !harness.reduced.is_empty() && harness.reduced_asks,
        "resume": !harness.resume.is_empty(),
        "used_by": users(loaded, harness),
    })
}

/// Returns whether a preset exists for the program that was never tried against the program.
fn is_unproven(harness: &Harness, known: Option<&ProgramFacts>) -> bool {
    programs::of(harness).is_known() && known.is_none_or(|known| known.proven.is_none())
}

/// Returns, in a word, what happens to an API key of the harness in the environment.
fn api_key(key: KeyUse) -> &'static str {
    match key {
        KeyUse::Configured => "configured",
        KeyUse::Only => "used",
        KeyUse::Spared => "not_used",
    }
}

/// Returns the kind of its hooks as the configuration has it; none if it reports nothing.
fn word(hooks: Hooks) -> Option<&'static str> {
    let mut words = Hooks::WORDS.iter();
    let (word, _) = words.find(|(_, kind)| *kind == hooks && hooks != Hooks::None)?;
    Some(word)
}
