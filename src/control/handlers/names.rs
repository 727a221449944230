//! Resolves names of children, rigs, relics and merge requests (`rules.md`, names): `Toast`, `horde/Toast` or
//! `horde/raiders/Toast`; an ambiguous short name is a conflict.

use crate::actors::ask;
use crate::actors::mail::ChildView;
use crate::actors::records::operator_orders;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sandboxes;
use crate::actors::sandboxes::Hookless;
use crate::actors::world::World;
use crate::control::protocol::{ControlError, ErrorKind};
use crate::domain::city::{Agent, Rig};
use crate::domain::facts::Probed;
use crate::domain::ids::{AgentName, ChildId, RaiderId, RelicId, RigName, is_branch_name};
use crate::domain::relic::Hook;
use crate::domain::saga::SagaKind;

/// Checks that a task is not empty.
pub(super) fn require_non_empty(task: &str) -> Result<(), ControlError> {
    match task.trim().is_empty() {
        true => Err(ControlError::bad_request("the task is empty").hint("describe the task")),
        false => Ok(()),
    }
}

/// Returns a title on one line. Only a title with line ends is changed: any other keeps its spaces.
pub(super) fn title(text: &str) -> Result<String, ControlError> {
    require_non_empty(text)?;
    if !text.contains(['\n', '\r']) {
        return Ok(text.trim().to_owned());
    }
    let words: Vec<_> = text.split_whitespace().collect();
    Ok(words.join(" "))
}

/// The most labels of a relic. Labels are compared one by one, within transactions that others wait for.
pub(super) const MOST_LABELS: usize = 100;

/// Refuses more labels than a relic may have.
pub(super) fn few_labels(labels: &[String]) -> Result<(), ControlError> {
    match labels.len() <= MOST_LABELS {
        true => Ok(()),
        false => Err(ControlError::bad_request(format!(
            "a relic has at most {MOST_LABELS} labels, not {}",
            labels.len()
        ))),
    }
}

/// The most relics that one relic waits for. They are stored and journalled together at each change of them.
const MOST_DEPS: usize = 1000;

/// Refuses more dependencies than a relic may have.
pub(super) fn few_deps(count: usize) -> Result<(), ControlError> {
    match count <= MOST_DEPS {
        true => Ok(()),
        false => Err(ControlError::bad_request(format!(
            "a relic waits for at most {MOST_DEPS} others, not {count}"
        ))
        .hint("let it wait for a relic that waits for some of them")),
    }
}

/// Returns the rig of this name; without a name the only rig.
pub(super) fn rig<'a>(world: &'a World, name: Option<&str>) -> Result<&'a Rig, ControlError> {
    let rigs = &world.city.rigs;
    let known = || {
        let names: Vec<_> = rigs.iter().map(|rig| rig.name.as_str()).collect();
        format!("rigs: {}", names.join(", "))
    };
    match name {
        Some(name) => {
            let found = rigs.iter().find(|rig| rig.name.as_str() == name);
            found.ok_or_else(|| {
                ControlError::not_found(format!("no rig named {name}")).hint(known())
            })
        }
        None => match rigs.as_slice() {
            [only] => Ok(only),
            [] => Err(ControlError::not_found("the city has no rigs")),
            _ => Err(ControlError::bad_request(
                "no rig is named, and the city has several: add --rig NAME",
            )
            .hint(known())),
        },
    }
}

/// Returns the rig of a relic, by the prefix of its id.
pub(super) fn rig_of<'a>(world: &'a World, relic: &RelicId) -> Result<&'a Rig, ControlError> {
    let prefix = relic.prefix();
    let rigs = &world.city.rigs;
    let found = rigs.iter().find(|rig| rig.prefix == prefix);
    found.ok_or_else(|| {
        let known = rigs
            .iter()
            .map(|rig| format!("{}- ({})", rig.prefix, rig.name));
        let known: Vec<_> = known.collect();
        let message =
            format!("the rig of {relic} cannot be told: no relics of a rig begin with {prefix}-");
        ControlError::not_found(message).hint(format!("prefixes: {}", known.join(", ")))
    })
}

/// Returns the rig's name as a filter; none without a name.
pub(super) fn rig_filter(
    world: &World,
    name: Option<&str>,
) -> Result<Option<RigName>, ControlError> {
    name.map(|name| rig(world, Some(name)).map(|rig| rig.name.clone()))
        .transpose()
}

/// Checks the name of an existing branch that work begins on; an empty one means none.
pub(super) fn branch(name: Option<&str>) -> Result<Option<String>, ControlError> {
    match name.map(str::trim).filter(|name| !name.is_empty()) {
        None => Ok(None),
        Some(name) if is_branch_name(name) => Ok(Some(name.to_owned())),
        Some(name) => {
            let message = format!("{name:?} is not a valid branch name");
            Err(ControlError::bad_request(message).hint("give its short name, such as `topic/x`"))
        }
    }
}

/// Parses a relic's id; an invalid id counts as not found.
pub(super) fn relic(text: &str) -> Result<RelicId, ControlError> {
    RelicId::new(text).map_err(|_| ControlError::not_found(format!("no such relic: {text}")))
}

pub(super) fn means(raider: &RaiderId, name: &str) -> bool {
    let parts: Vec<_> = name.split('/').collect();
    match parts.as_slice() {
        [short] => raider.name.as_str() == *short,
        [rig, short] | [rig, "raiders", short] => {
            raider.rig.as_str() == *rig && raider.name.as_str() == *short
        }
        _ => false,
    }
}

/// Returns the slots that the name may mean, held or free.
pub(super) fn slots(world: &World, name: &str) -> Vec<RaiderId> {
    let short = name.rsplit('/').next().unwrap_or(name);
    let rigs = world.city.rigs.iter();
    rigs.filter_map(|rig| format!("{}/raiders/{short}", rig.name).parse().ok())
        .filter(|raider| means(raider, name))
        .collect()
}

/// Returns the hooks of all raiders.
pub(super) async fn hooks(world: &World) -> Result<Vec<Hook>, ControlError> {
    Ok(world.store.run(|txn| txn.hooks(None)).await?)
}

/// Returns the hook of the raider of this name.
pub(super) async fn raider(world: &World, name: &str) -> Result<Hook, ControlError> {
    let mut found: Vec<_> = hooks(world)
        .await?
        .into_iter()
        .filter(|hook| means(&hook.raider, name))
        .collect();
    match (found.pop(), found.as_slice()) {
        (Some(hook), []) => Ok(hook),
        (None, _) => Err(ControlError::not_found(format!("no raider named {name}"))
            .hint("`hd raider list` lists them")),
        (Some(last), others) => {
            let names = others
                .iter()
                .chain([&last])
                .map(|hook| hook.raider.to_string());
            let names: Vec<_> = names.collect();
            Err(ControlError::conflict(format!(
                "{name} is ambiguous: {}",
                names.join(" or ")
            )))
        }
    }
}

/// Returns the hook that the sandbox of this name was made for, if no hook is tied to the sandbox now.
///
/// # Errors
/// `missing` when there is no such sandbox; otherwise an error when its owner or a rig's sandboxes cannot be read.
pub(super) async fn hookless(
    world: &World,
    name: &str,
    missing: ControlError,
) -> Result<Hook, ControlError> {
    if missing.kind != ErrorKind::NotFound {
        return Err(missing);
    }
    let (mut found, mut missing) = (Vec::new(), missing);
    let slots = slots(world, name);
    let named = |rig: &&Rig| slots.iter().any(|slot| slot.rig == rig.name);
    for rig in world.city.rigs.iter().filter(named) {
        match sandboxes::hookless(world, rig).await {
            Ok(lone) => found.extend(lone.into_iter().filter(|lone| means(&lone.raider, name))),
            // The sandboxes of other rigs can still be found.
            Err(unreadable) => missing = unreadable.into(),
        }
    }
    match (found.pop(), found.as_slice()) {
        (Some(lone), []) => made_for(world, lone),
        (None, _) => Err(missing),
        (Some(last), others) => {
            let all = others.iter().chain([&last]);
            let names: Vec<_> = all.map(|lone| lone.raider.to_string()).collect();
            let names = names.join(" or ");
            Err(ControlError::conflict(format!(
                "{name} is ambiguous: {names}"
            )))
        }
    }
}

fn made_for(world: &World, lone: Hookless) -> Result<Hook, ControlError> {
    let path = world.city.sandbox(&lone.raider);
    match lone.was {
        Probed::Known(Some(hook)) => Ok(hook),
        Probed::Known(None) => {
            let message = format!("{} is not a sandbox", path.display());
            let hint = "look at its content and move it elsewhere: that frees the slot";
            Err(ControlError::conflict(message).hint(hint))
        }
        Probed::Unknown(why) => {
            let message = format!(
                "the owner of the sandbox {} cannot be read: {why}",
                path.display()
            );
            Err(Refusal::new(RefusalKind::Failed, message).into())
        }
    }
}

/// Refuses an operation that needs the raider's rig, if the rig was removed from the configuration before the work was
/// done.
///
/// # Errors
/// [`ErrorKind::Conflict`], with advice on how to get the work back.
pub(super) fn configured(world: &World, raider: &RaiderId) -> Result<(), ControlError> {
    let rig = &raider.rig;
    if world.city.rig(rig).is_some() {
        return Ok(());
    }
    let path = world.city.sandbox(raider);
    let message = format!(
        "rig {rig} is no longer configured, but {raider} has work there: its sandbox {} is left unchanged",
        path.display()
    );
    let hint = format!("add {rig} to city.toml again, run `hd reload`, then retry");
    Err(ControlError::conflict(message).hint(hint))
}

/// Returns the raider of this name that holds a slot, also by an incomplete charge.
pub(super) async fn holder(world: &World, name: &str) -> Result<RaiderId, ControlError> {
    let unknown = match raider(world, name).await {
        Ok(hook) => return Ok(hook.raider),
        Err(unknown) => unknown,
    };
    let sagas = world.store.run(|txn| txn.sagas(None)).await?;
    let mut charged = sagas
        .iter()
        .filter(|saga| saga.kind == SagaKind::Charge)
        .filter_map(|saga| saga.subject.parse::<RaiderId>().ok())
        .filter(|raider| means(raider, name));
    match (charged.next(), charged.next()) {
        (Some(only), None) => Ok(only),
        _ => Ok(hookless(world, name, unknown).await?.raider),
    }
}

/// Returns the child of this name, raider or agent, as the root sees it.
pub(super) async fn child(world: &World, name: &str) -> Result<ChildView, ControlError> {
    let views = ask::views(world).await?;
    let mut found: Vec<_> = views
        .into_iter()
        .filter(|view| match &view.spec.id {
            ChildId::Raider(raider) => means(raider, name),
            ChildId::Agent(agent) => agent.as_str() == name,
        })
        .collect();
    match (found.pop(), found.as_slice()) {
        (Some(view), []) => Ok(view),
        (None, _) => Err(
            ControlError::not_found(format!("no raider or agent named {name}"))
                .hint("`hd status` lists them"),
        ),
        (Some(last), others) => {
            let names: Vec<_> = others
                .iter()
                .chain([&last])
                .map(|view| view.spec.id.to_string())
                .collect();
            Err(ControlError::conflict(format!(
                "{name} is ambiguous: {}",
                names.join(" or ")
            )))
        }
    }
}

/// As [`child`], but also finds children that the root does not have: an agent of the configuration, a raider that
/// holds a slot, and a resting member of a pool.
pub(super) async fn known(world: &World, name: &str) -> Result<ChildId, ControlError> {
    let missing = match child(world, name).await {
        Ok(view) => return Ok(view.spec.id),
        Err(missing) if missing.kind == ErrorKind::NotFound => missing,
        Err(other) => return Err(other),
    };
    match raider(world, name).await {
        Ok(hook) => return Ok(ChildId::Raider(hook.raider)),
        Err(nobody) if nobody.kind == ErrorKind::NotFound => {}
        Err(other) => return Err(other),
    }
    let Ok(agent) = AgentName::new(name) else {
        return Err(missing);
    };
    let said = world.store.run(|txn| operator_orders::read(txn)).await?;
    let id = ChildId::Agent(agent.clone());
    let laid = said.resting.contains(&agent) || said.suspended.contains(&id);
    let is = |of: &Agent| of.name == agent || laid && of.member_number(&agent).is_some();
    match world.city.agents.iter().any(is) {
        true => Ok(id),
        false => Err(missing),
    }
}

/// As [`known`], but refuses a pool, which is several children.
pub(super) async fn single(world: &World, name: &str) -> Result<ChildId, ControlError> {
    let id = known(world, name).await?;
    let mut pools = world
        .city
        .agents
        .iter()
        .filter(|agent| agent.pool.is_some());
    match pools.any(|pool| ChildId::Agent(pool.name.clone()) == id) {
        true => Err(ControlError::not_found(format!("{name} is a pool"))
            .hint("name one of its members; `hd agent list` lists them")),
        false => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::means;

    #[test]
    fn a_raider_answers_to_three_names() {
        let toast = "horde/raiders/Toast".parse().unwrap();
        for name in ["Toast", "horde/Toast", "horde/raiders/Toast"] {
            assert!(means(&toast, name), "{name}");
        }
        for name in [
            "toast",
            "other/Toast",
            "horde/other/Toast",
            "raiders/Toast/x",
            "",
        ] {
            assert!(!means(&toast, name), "{name}");
        }
    }
}
