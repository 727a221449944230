//! Checks that span sections: names that must differ, and settings that leave another without effect.

use std::collections::BTreeMap;

use super::agents::ReadAgent;
use super::rigs::ReadRig;
use crate::config::diagnostics::Diagnostic;
use crate::config::document::SourceSpan;
use crate::config::reader::Report;
use crate::domain::city::Rig;
use crate::domain::ids::{ChildId, RaiderId, SessionId};

/// Reports every collision.
pub fn check(workspace: Option<&str>, rigs: &[ReadRig], agents: &[ReadAgent], report: &Report) {
    let rig_names = rigs
        .iter()
        .filter_map(|rig| Some((rig.name.as_ref()?.to_string(), rig.name_at.clone())));
    different("rig", rig_names, report);
    let agent_names = agents
        .iter()
        .filter_map(|agent| Some((agent.name.as_ref()?.to_string(), agent.name_at.clone())));
    different("agent", agent_names, report);
    for rig in rigs {
        let names = rig.names.iter();
        let names = names.map(|(name, place)| (name.to_string(), place.clone()));
        different("raider name", names, report);
    }
    prefixes(rigs, report);
    sessions(workspace, rigs, agents, report);
}

/// Warns of settings without effect.
pub fn check_idle(rigs: &[Rig], report: &Report) {
    for rig in rigs {
        if rig.raiders.idle_timeout.is_some() && rig.raiders.stall_after.is_some() {
            let name = &rig.name;
            let says = format!(
                "`idle_timeout` of the raiders of \"{name}\" has no effect beside `stall_after`"
            );
            let hint =
                "with `stall_after = \"\"` silent raiders are restarted without a nudge first";
            report.add(Diagnostic::warning(says).hint(hint));
        }
    }
}

/// Reports equal names. Names compare without case: each becomes a folder, and file systems may not tell them apart.
fn different(what: &str, names: impl Iterator<Item = (String, SourceSpan)>, report: &Report) {
    let mut seen: BTreeMap<String, SourceSpan> = BTreeMap::new();
    for (name, place) in names {
        if let Some(first) = seen.get(&name.to_lowercase()) {
            let error = Diagnostic::error(format!("{what} \"{name}\" is defined twice"));
            report.add(error.at(&place).related(first, "the first one"));
            continue;
        }
        seen.insert(name.to_lowercase(), place);
    }
}

fn prefixes(rigs: &[ReadRig], report: &Report) {
    let mut seen: BTreeMap<String, &SourceSpan> = BTreeMap::new();
    for (prefix, place) in rigs.iter().filter_map(|rig| rig.prefix.as_ref()) {
        if let Some(first) = seen.get(&prefix.to_lowercase()) {
            let message = format!("two rigs have the prefix \"{prefix}\"");
            let error = Diagnostic::error(message)
                .at(place)
                .related(first, "the first one")
                .hint("relic ids must be unique per rig: give one of them another `prefix`");
            report.add(error);
            continue;
        }
        seen.insert(prefix.to_lowercase(), place);
    }
}

/// Reports children that would share a session: raider `b-c` of rig `a` and raider `c` of rig `a-b` would, and an agent
/// could if the workspace's name equals the beginning of raiders' sessions.
fn sessions(workspace: Option<&str>, rigs: &[ReadRig], agents: &[ReadAgent], report: &Report) {
    let mut seen: BTreeMap<SessionId, (ChildId, &SourceSpan)> = BTreeMap::new();
    let mut claim = |child: ChildId, place| {
        let Some(workspace) = workspace else {
            return;
        };
        let session = child.session_id(workspace);
        match seen.get(&session) {
            Some((other, first)) if *other != child => {
                let message = format!("{child} and {other} would share the session {session}");
                let error = Diagnostic::error(message).at(place);
                report.add(error.related(first, "the other one"));
            }
            Some(_) => {}
            None => {
                seen.insert(session, (child, place));
            }
        }
    };
    for rig in rigs {
        for (name, place) in &rig.names {
            if let Some(rig) = &rig.name {
                claim(
                    ChildId::Raider(RaiderId::new(rig.clone(), name.clone())),
                    place,
                );
            }
        }
    }
    for agent in agents {
        if let Some(name) = &agent.name {
            claim(ChildId::Agent(name.clone()), &agent.name_at);
        }
    }
}
