//! The work of an automation: a command, or a ritual.

use std::collections::BTreeMap;

use super::Earlier;
use crate::config::diagnostics::Diagnostic;
use crate::config::reader::Reader;
use crate::config::shape::Shape;
use crate::config::values::{name, optional, text};
use crate::domain::automation::{Action, RitualAction};
use crate::domain::ids::{AgentName, RigName, RitualName};
use crate::domain::ritual::Ritual;
use crate::domain::suggest::closest;

/// Keys that only a ritual uses.
const OF_RITUAL: &[&str] = &["rig", "pool", "vars"];
/// Keys that only a command uses.
const OF_EXEC: &[&str] = &["timeout", "retries"];

/// Reads the work of an automation. `own` is the rig whose repository carries it; the outer `None` of `exec` means an
/// error.
pub(super) fn of(
    reader: &mut Reader<'_>,
    exec: Option<Option<String>>,
    own: Option<&RigName>,
    earlier: &Earlier<'_>,
) -> Option<Action> {
    let ritual = reader.get("ritual", optional(name::<RitualName>));
    let rig = reader.get("rig", optional(name::<RigName>));
    let pool = reader.get("pool", optional(name::<AgentName>));
    let vars = vars(reader);
    match (exec?, ritual?) {
        (Some(_), Some(_)) => {
            reader.complain("ritual", "either `exec` or `ritual`, not both");
            None
        }
        (None, None) => {
            reader.complain("", "either `exec` or `ritual` is required");
            None
        }
        (Some(exec), None) => {
            let right = are_absent(reader, OF_RITUAL, "ritual");
            right.then_some(Action::Exec(exec))
        }
        (None, Some(ritual)) => {
            let right = are_absent(reader, OF_EXEC, "exec");
            let rig = the_rig(reader, rig?, own, earlier);
            let pool = the_pool(reader, pool?, earlier);
            let vars = the_vars(reader, &ritual, vars?, earlier);
            let action = RitualAction {
                ritual,
                rig: rig?,
                pool: pool?,
                vars: vars?,
            };
            right.then_some(Action::Ritual(action))
        }
    }
}

/// Complains about keys that the other kind of work uses.
fn are_absent(reader: &Reader<'_>, keys: &[&str], of: &str) -> bool {
    let mut right = true;
    for key in keys {
        if !reader.place(key).is_default() {
            reader.complain(key, format!("`{key}` is for `{of}` only"));
            right = false;
        }
    }
    right
}

fn vars(reader: &mut Reader<'_>) -> Option<BTreeMap<String, String>> {
    let mut vars = BTreeMap::new();
    let mut right = true;
    for (name, _, node) in reader.named("vars", Shape::Text) {
        match text(node) {
            Ok(value) => {
                vars.insert(name.to_owned(), value);
            }
            Err(errors) => {
                errors
                    .into_iter()
                    .for_each(|error| reader.report.add(error));
                right = false;
            }
        }
    }
    right.then_some(vars)
}

/// Returns the rig that the work belongs to.
fn the_rig(
    reader: &Reader<'_>,
    named: Option<RigName>,
    own: Option<&RigName>,
    earlier: &Earlier<'_>,
) -> Option<RigName> {
    let rigs = earlier.rigs.iter();
    let known: Vec<&RigName> = rigs.filter_map(|rig| rig.name.as_ref()).collect();
    match (named, own) {
        (Some(named), Some(own)) if named != *own => {
            let message = format!("the repository of {own} makes work for {own} only");
            reader.complain("rig", message);
            None
        }
        (_, Some(own)) => Some(own.clone()),
        (Some(named), None) if known.contains(&&named) => Some(named),
        (Some(named), None) => {
            let error = Diagnostic::error(format!("there is no rig \"{named}\""));
            let error = error.at(&reader.place("rig"));
            let names = known.iter().map(|rig| rig.as_str());
            reader.report.add(match closest(named.as_str(), names) {
                Some(near) => error.hint(format!("did you mean \"{near}\"?")),
                None => error,
            });
            None
        }
        (None, None) => match known.as_slice() {
            [only] => Some((*only).clone()),
            [] => {
                reader.complain("ritual", "a ritual needs a rig, and the city has none");
                None
            }
            _ => {
                reader.complain("ritual", "the city has several rigs: `rig` says which one");
                None
            }
        },
    }
}

/// Returns the pool that gets the work. The outer `None` means an error.
fn the_pool(
    reader: &Reader<'_>,
    named: Option<AgentName>,
    earlier: &Earlier<'_>,
) -> Option<Option<AgentName>> {
    let Some(named) = named else {
        return Some(None);
    };
    let pools = || {
        let pools = earlier.agents.iter().filter(|agent| agent.is_pool);
        pools.filter_map(|agent| agent.name.as_ref())
    };
    if pools().any(|pool| *pool == named) {
        return Some(Some(named));
    }
    let error = Diagnostic::error(format!("there is no pool \"{named}\""));
    let error = error.at(&reader.place("pool"));
    let names = pools().map(AgentName::as_str);
    reader.report.add(match closest(named.as_str(), names) {
        Some(near) => error.hint(format!("did you mean \"{near}\"?")),
        None => error.hint("an agent with `pool = { ... }`"),
    });
    None
}

/// Checks the ritual and the values of its variables.
fn the_vars(
    reader: &Reader<'_>,
    ritual: &RitualName,
    vars: BTreeMap<String, String>,
    earlier: &Earlier<'_>,
) -> Option<BTreeMap<String, String>> {
    let Some(found) = earlier.rituals.get(ritual) else {
        let error = Diagnostic::error(format!("there is no ritual \"{ritual}\""));
        let error = error.at(&reader.place("ritual"));
        let names = earlier.rituals.keys().map(RitualName::as_str);
        reader.report.add(match closest(ritual.as_str(), names) {
            Some(near) => error.hint(format!("did you mean \"{near}\"?")),
            None => error.hint("rituals are files: rituals/<name>.toml"),
        });
        return None;
    };
    check_values(reader, found, &vars).then_some(vars)
}

fn check_values(reader: &Reader<'_>, ritual: &Ritual, vars: &BTreeMap<String, String>) -> bool {
    let Err(wrong) = ritual.values(vars) else {
        return true;
    };
    let is_absent = reader.place("vars").is_default();
    let place = reader.place(if is_absent { "ritual" } else { "vars" });
    let error = Diagnostic::error(wrong.why).at(&place);
    // The advice names an option of `hd`, which is no help here.
    let hint = wrong.hint.replace("give --var ", "vars: ");
    reader.report.add(error.hint(hint));
    false
}
