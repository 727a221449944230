//! `[[groups]]`, and the relations between agents: dependencies and the names of pools' members.

use std::collections::BTreeMap;

use super::agents::ReadAgent;
use crate::config::diagnostics::Diagnostic;
use crate::config::document::SourceSpan;
use crate::config::reader::{Reader, Report};
use crate::config::values::{choice, filled, list, name};
use crate::domain::agents::dependency_cycle;
use crate::domain::city::{Group, Strategy};
use crate::domain::ids::AgentName;
use crate::domain::suggest::closest;

/// `[[groups]]`.
pub fn all(reader: &mut Reader<'_>, agents: &[ReadAgent]) -> Vec<Group> {
    let mut taken = BTreeMap::new();
    let groups = reader.sections("groups", "groups").into_iter();
    groups
        .filter_map(|group| one(group, agents, &mut taken))
        .collect()
}

fn one(
    mut reader: Reader<'_>,
    agents: &[ReadAgent],
    taken: &mut BTreeMap<AgentName, SourceSpan>,
) -> Option<Group> {
    let group_name = reader.get("name", filled);
    let strategy = reader.get(
        "strategy",
        choice(
            &[
                ("one_for_one", Strategy::OneForOne),
                ("one_for_all", Strategy::OneForAll),
                ("rest_for_one", Strategy::RestForOne),
            ],
            &[],
        ),
    );
    let members = reader.get("members", list(name::<AgentName>));
    let places = reader.element_places("members");
    for (member, place) in members.iter().flatten().zip(places) {
        if known(member, &place, agents, reader.report).is_some_and(|agent| agent.is_pool) {
            let error = Diagnostic::error(format!("\"{member}\" is a pool"));
            let hint = "pool members come and go; a group consists of single agents";
            reader.report.add(error.at(&place).hint(hint));
        }
        if let Some(first) = taken.get(member) {
            let message = format!("\"{member}\" is a member of a group already");
            let error = Diagnostic::error(message).at(&place);
            reader.report.add(error.related(first, "here"));
        } else {
            taken.insert(member.clone(), place);
        }
    }
    if strategy.is_some_and(|strategy| strategy != Strategy::OneForOne) {
        check_order(members.iter().flatten(), agents, reader.report);
    }
    reader.finish();
    Some(Group {
        name: group_name?,
        strategy: strategy?,
        members: members?,
    })
}

/// Checks that no member depends on a later one: members start one after the other.
fn check_order<'a>(
    members: impl Iterator<Item = &'a AgentName> + Clone,
    agents: &[ReadAgent],
    report: &Report,
) {
    for (index, member) in members.clone().enumerate() {
        let named = |agent: &&ReadAgent| agent.name.as_ref() == Some(member);
        let needs = agents
            .iter()
            .filter(named)
            .flat_map(|agent| &agent.depends_on);
        for (need, place) in needs {
            if members.clone().skip(index + 1).any(|later| later == need) {
                let message = format!("\"{member}\" comes before \"{need}\" in their group");
                let hint = "the members of a group start in its order: list dependencies first";
                report.add(Diagnostic::error(message).at(place).hint(hint));
            }
        }
    }
}

/// Returns the agent of this name; reports a name that no agent has.
pub fn known<'a>(
    wanted: &AgentName,
    place: &SourceSpan,
    agents: &'a [ReadAgent],
    report: &Report,
) -> Option<&'a ReadAgent> {
    let named = |agent: &&ReadAgent| agent.name.as_ref() == Some(wanted);
    let found = agents.iter().find(named);
    if found.is_none() {
        let names = agents.iter().filter_map(|agent| agent.name.as_ref());
        let error = Diagnostic::error(format!("there is no agent \"{wanted}\"")).at(place);
        report.add(
            match closest(wanted.as_str(), names.map(AgentName::as_str)) {
                Some(near) => error.hint(format!("did you mean \"{near}\"?")),
                None => error,
            },
        );
    }
    found
}

/// Checks `depends_on`, and that no agent has the name of a pool's member.
pub fn check_agents(agents: &[ReadAgent], report: &Report) {
    let mut complete = true;
    for agent in agents {
        for (need, place) in &agent.depends_on {
            complete &= known(need, place, agents, report).is_some();
        }
    }
    let needs: Vec<_> = agents
        .iter()
        .filter_map(|agent| Some((agent.name.as_ref()?, names(&agent.depends_on))))
        .collect();
    let needs: Vec<_> = needs.iter().map(|(name, of)| (*name, &of[..])).collect();
    if let Some(cycle) = complete.then(|| dependency_cycle(&needs)).flatten() {
        let path: Vec<_> = cycle.iter().map(AgentName::as_str).collect();
        let message = format!("agents depend on each other: {}", path.join(" -> "));
        let at = agents
            .iter()
            .find(|agent| agent.name == cycle.first().cloned());
        let error = Diagnostic::error(message);
        report.add(match at.and_then(|agent| agent.depends_on.first()) {
            Some((_, place)) => error.at(place),
            None => error,
        });
    }
    for pool in agents.iter().filter_map(|agent| agent.agent.as_ref()) {
        for other in agents {
            let Some(number) = other.name.as_ref().and_then(|n| pool.member_number(n)) else {
                continue;
            };
            let message = format!(
                "this is the name of member {number} of pool \"{}\"",
                pool.name
            );
            report.add(Diagnostic::error(message).at(&other.name_at));
        }
    }
}

fn names(needs: &[(AgentName, SourceSpan)]) -> Vec<AgentName> {
    needs.iter().map(|(name, _)| name.clone()).collect()
}
