//! `[[patches.agents]]`: keys of an agent that is defined elsewhere, overridden by its name.

use super::diagnostics::Diagnostic;
use super::document::{Node, Value, overlay};
use super::reader::Report;
use super::sources::{concatenate, take};
use crate::domain::suggest::closest;

/// Adds the patches of a later file to those of the files before it.
pub fn join(below: &mut Node, mut above: Node) {
    let Some(more) = take(&mut above, "agents") else {
        return overlay(below, above);
    };
    match below.table_mut().and_then(|table| table.get_mut("agents")) {
        Some(agents) => concatenate(&mut agents.node, more.node),
        None => {
            if let Some(table) = below.table_mut() {
                table.insert("agents".to_owned(), more);
            }
        }
    }
    overlay(below, above);
}

/// Lays every patch over the agent that it names. A patch for an unknown agent is an error, because it would have no
/// effect.
pub fn apply(root: &mut Node, report: &Report) {
    let Some(mut patches) = take(root, "patches") else {
        return;
    };
    let agents = take(&mut patches.node, "agents");
    for (key, entry) in patches.node.table().into_iter().flatten() {
        let error = Diagnostic::error(format!("`{key}` cannot be patched"));
        report.add(error.at(&entry.key).hint("only [[patches.agents]]"));
    }
    if patches.node.table().is_none() {
        let error = Diagnostic::error("expected tables, [[patches.agents]]");
        report.add(error.at(&patches.node.place));
    }
    let Some(agents) = agents else {
        return;
    };
    let place = agents.node.place.clone();
    match agents.node.value {
        Value::Array(patches) => patches.into_iter().for_each(|p| patch(root, p, report)),
        _ => report.add(Diagnostic::error("expected an array of tables").at(&place)),
    }
}

fn patch(root: &mut Node, mut patch: Node, report: &Report) {
    let place = patch.place.clone();
    let Some(name) = take(&mut patch, "name") else {
        let error = Diagnostic::error("a patch needs the `name` of an agent");
        return report.add(error.at(&place));
    };
    let agents = root.table_mut().and_then(|table| table.get_mut("agents"));
    let agents = match agents.map(|entry| &mut entry.node.value) {
        Some(Value::Array(agents)) => agents.as_mut_slice(),
        _ => &mut [],
    };
    let names: Vec<_> = agents.iter().filter_map(agent_name).collect();
    let wanted = match &name.node.value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    let found = agents
        .iter_mut()
        .find(|agent| agent_name(agent).is_some_and(|own| own == wanted));
    match found {
        Some(agent) => overlay(agent, patch),
        None => {
            let error = Diagnostic::error(format!("there is no agent \"{wanted}\" to patch"));
            let error = error.at(&name.node.place);
            report.add(match closest(&wanted, names.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean \"{near}\"?")),
                None => error,
            });
        }
    }
}

fn agent_name(agent: &Node) -> Option<String> {
    match &agent.table()?.get("name")?.node.value {
        Value::Text(name) => Some(name.clone()),
        _ => None,
    }
}
