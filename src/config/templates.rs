//! Fills in the built-in defaults of every rig, gate, agent and harness, so that later code sees a complete document
//! and has no defaults of its own.

use super::diagnostics::Diagnostic;
use super::document::{Entry, Node, Table, Value, overlay};
use super::reader::Report;

/// Lays every rig, gate, agent and harness over its template.
pub fn fill(root: &mut Node, templates: &Table, report: &Report) {
    let Some(table) = root.table_mut() else {
        return;
    };
    let workspace = table.get_mut("workspace");
    if let Some(workspace) = workspace {
        budget(templates, &mut workspace.node);
    }
    for rig in items(table, "rigs") {
        lay_over(templates.get("rigs"), rig);
        let raiders = rig.table_mut().and_then(|rig| rig.get_mut("raiders"));
        if let Some(raiders) = raiders {
            budget(templates, &mut raiders.node);
        }
        let forge = rig.table_mut().and_then(|rig| rig.get_mut("forge"));
        if let Some(forge) = forge.and_then(|entry| entry.node.table_mut()) {
            for gate in items(forge, "gates") {
                lay_over(templates.get("gates"), gate);
            }
        }
    }
    for agent in items(table, "agents") {
        lay_over(templates.get("agents"), agent);
        let pool = agent.table_mut().and_then(|agent| agent.get_mut("pool"));
        if let Some(pool) = pool {
            lay_over(templates.get("pool"), &mut pool.node);
        }
    }
    for group in items(table, "groups") {
        lay_over(templates.get("groups"), group);
    }
    let harnesses = table.get_mut("harness");
    let harnesses = harnesses.and_then(|entry| entry.node.table_mut());
    for (name, entry) in harnesses.into_iter().flatten() {
        drop_foreign_reduced(name, &mut entry.node, report);
        drop_foreign_names(&mut entry.node);
        lay_over(templates.get("harness"), &mut entry.node);
        budget(templates, &mut entry.node);
        let harness = entry.node.table_mut();
        let prices = harness.and_then(|harness| harness.get_mut("prices"));
        let prices = prices.and_then(|prices| prices.node.table_mut());
        for (_, price) in prices.into_iter().flatten() {
            lay_over(templates.get("prices"), &mut price.node);
        }
    }
}

/// Fills in the `budget` of a table.
fn budget(templates: &Table, node: &mut Node) {
    let budget = node.table_mut().and_then(|table| table.get_mut("budget"));
    if let Some(budget) = budget {
        lay_over(templates.get("budget"), &mut budget.node);
    }
}

fn items<'a>(table: &'a mut Table, key: &str) -> &'a mut [Node] {
    match table.get_mut(key).map(|entry| &mut entry.node.value) {
        Some(Value::Array(items)) => items,
        _ => &mut [],
    }
}

/// Lays a table over its template.
pub fn lay_over(template: Option<&Entry>, node: &mut Node) {
    if let Some(template) = template
        && node.table().is_some()
    {
        let upper = std::mem::replace(node, template.node.clone());
        overlay(node, upper);
    }
}

/// Removes the preset's names of the agent's processes if the command is another: its processes have other names, so
/// the agent would count as missing.
fn drop_foreign_names(harness: &mut Node) {
    let Some(table) = harness.table_mut() else {
        return;
    };
    let of_preset = |key: &str| table.get(key).is_some_and(|it| it.node.place.is_default());
    if !of_preset("command") && of_preset("process_names") {
        table.remove("process_names");
    }
}

/// Removes the preset's `reduced` if the command is another, for which it means nothing.
fn drop_foreign_reduced(name: &str, harness: &mut Node, report: &Report) {
    let Some(table) = harness.table_mut() else {
        return;
    };
    let (Some(command), Some(reduced)) = (table.get("command"), table.get("reduced")) else {
        return;
    };
    let preset_says = matches!(&reduced.node.value, Value::Array(args) if !args.is_empty());
    if command.node.place.is_default() || !reduced.node.place.is_default() || !preset_says {
        return;
    }
    let message = format!("`{name}` gets another command, but no `reduced` arguments for it");
    let warning = Diagnostic::warning(message).at(&command.key).hint(
        "after a crash it starts with the same arguments as before; set `reduced` to start it \
        with fewer permissions, or to [] to confirm this",
    );
    report.add(warning);
    table.remove("reduced");
}
