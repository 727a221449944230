//! Values derived from a rig's settings: environments, the target branch, and the identity that commits landings.

use crate::actors::effects;
use crate::actors::records::{escalations, key_values};
use crate::actors::refusal::Refusal;
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::{RepoError, Signature};
use std::collections::BTreeMap;

use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::default_branch::Change;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, RigName};
use crate::domain::message::{self, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Hook;
use crate::domain::session_env::SessionEnv;

/// Returns the environment of a raider's sessions, and of the set-up commands of its sandbox.
///
/// # Errors
/// The rig does not answer.
pub async fn raider_env(
    world: &World,
    rig: &Rig,
    hook: &Hook,
) -> Result<BTreeMap<String, String>, RepoError> {
    let child = ChildId::Raider(hook.raider.clone());
    let harness = world.city.harnesses.get(&hook.harness);
    let email = effects::user_email(world, &rig.name).await?;
    let nothing = BTreeMap::new();
    Ok(SessionEnv {
        own: &world.env,
        bin: &world.bin_dir,
        city: &world.city.root,
        workspace: &world.city.name,
        socket: &world.socket,
        child: &child,
        session: &hook.raider.session_id(),
        hook: Some((&hook.relic, hook.incarnation)),
        email: email.as_deref(),
        pass: harness.map_or(&[], |harness| harness.env_pass.as_slice()),
        configured: harness.map_or(&nothing, |harness| &harness.env),
    }
    .build())
}

/// Returns the environment of gates: neither `SSH_AUTH_SOCK` nor harness keys unless named (`contract.md`,
/// `gate_env_pass`).
#[must_use]
pub fn gate_env(world: &World, rig: &Rig) -> BTreeMap<String, String> {
    const INHERITED: &[&str] = &["PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TMPDIR"];
    let passed = |name: &str| {
        let named = rig.forge.gate_env_pass.iter().any(|pass| pass == name);
        INHERITED.contains(&name) || name.starts_with("LC_") || named
    };
    let own = world.env.iter().filter(|(name, _)| passed(name));
    own.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the committer of landings.
///
/// # Errors
/// The rig does not answer.
pub async fn forge_signature(world: &World, rig: &Rig) -> Result<Signature, RepoError> {
    let email = effects::user_email(world, &rig.name).await?;
    Ok(Signature {
        name: format!("{}/forge", rig.name),
        email: email.unwrap_or_else(|| format!("forge@{}.invalid", world.city.name)),
    })
}

/// Returns the target branch of a new charge that names none. Where the default branch is discovered, a change of it at the
/// remote is noticed here, told to people, and followed if no commit of the former one would be missing.
///
/// # Errors
/// The branch is not configured and cannot be discovered, or the store cannot be used.
pub async fn target_of_charge(world: &World, rig: &Rig) -> Result<String, Refusal> {
    if rig.forge.target.is_some() || rig.default_branch.is_some() {
        return target(world, rig).await;
    }
    let changed = effects::repo_for(world, &rig.name, effects::WorkKind::Network, |repo| {
        repo.default_change()
    });
    match changed.await {
        Ok(Some(change)) => {
            tell_change(world, rig, change.clone()).await?;
            if change.is_followed() {
                let to = change.to;
                effects::repo(world, &rig.name, move |repo| repo.follow_default(&to)).await?;
            }
        }
        Ok(None) => forget_change(world, rig).await?,
        Err(why) => tracing::warn!(
            rig = %rig.name,
            %why,
            "the default branch of the remote cannot be read; the charge uses the known one"
        ),
    }
    target(world, rig).await
}

/// Journals the change and calls a person, once for each change. This comes before the change is followed: a crash in
/// between has it followed at the next charge.
async fn tell_change(world: &World, rig: &Rig, change: Change) -> Result<(), Refusal> {
    let name = rig.name.clone();
    let told = world.store.run(move |txn| {
        let key = key(&name);
        if key_values::read::<Change>(txn, &key)?.as_ref() == Some(&change) {
            return Ok(());
        }
        key_values::write(txn, &key, &change)?;
        // The earlier change is history.
        close_told(txn, &name)?;
        let text = change.text(&name);
        let data = serde_json::json!({
            "from": change.from, "to": change.to, "followed": change.is_followed(), "detail": text,
        });
        let event = NewEvent::new(EventType::RigDefaultBranch, &name, Cause::Remote);
        txn.record(&event.with(data))?;
        let of = format!("{name}:{}:{}", change.from, change.to);
        let title = format!(
            "the default branch of {name} changed from {} to {}",
            change.from, change.to
        );
        let witness = message::witness(&name);
        let problem = ProblemKind::DefaultBranch.of(of, title);
        escalations::report(
            txn,
            &witness,
            &Escalation::high(&witness, problem, text).medium(),
        )
    });
    told.await?;
    world.nudge(message::SHAMAN);
    Ok(())
}

/// Prefix of the keys under which the store keeps the last change that was told of each rig.
const KEY: &str = "default-branch/";

fn key(rig: &RigName) -> String {
    format!("{KEY}{rig}")
}

/// Closes what was told of changes of the rig's default branch.
fn close_told(txn: &mut dyn Txn, rig: &RigName) -> Result<(), StoreError> {
    let witness = message::witness(rig);
    escalations::close_matching(txn, &[ProblemKind::DefaultBranch], |about, _| {
        about == witness
    })
}

/// Forgets the change that was told, when the remote names the branch of new charges: the same change is told again. The
/// escalation about one that was not followed is over then. That about one that was followed stays until a person has
/// read it: see [`close_decided`].
async fn forget_change(world: &World, rig: &Rig) -> Result<(), Refusal> {
    let name = rig.name.clone();
    let forget = move |txn: &mut dyn Txn| {
        let key = key(&name);
        let Some(told) = key_values::read::<Change>(txn, &key)? else {
            return Ok(());
        };
        txn.set(&key, None)?;
        match told.is_followed() {
            true => Ok(()),
            false => close_told(txn, &name),
        }
    };
    Ok(world.store.run(forget).await?)
}

/// Closes the escalations about default branches of rigs for which a person has decided: the branch is configured now, or
/// the rig no longer is. Called at each start, and after each reload.
///
/// # Errors
/// The store's.
pub fn close_configured(txn: &mut dyn Txn, rigs: &[Rig]) -> Result<(), StoreError> {
    for rig in rigs {
        if rig.forge.target.is_some() || rig.default_branch.is_some() {
            close_told(txn, &rig.name)?;
            txn.set(&key(&rig.name), None)?;
        }
    }
    for (rig, _) in key_values::read_under::<Change>(txn, KEY)? {
        if rigs.iter().all(|known| known.name.as_str() != rig) {
            txn.set(&format!("{KEY}{rig}"), None)?;
        }
    }
    let witnesses: Vec<_> = rigs.iter().map(|rig| message::witness(&rig.name)).collect();
    escalations::close_matching(txn, &[ProblemKind::DefaultBranch], |about, _| {
        witnesses.iter().all(|witness| about != witness)
    })
}

/// Closes the same as [`close_configured`], and the escalations about changes that were followed. Called after each reload: a
/// person has looked at the configuration since.
///
/// # Errors
/// The store's.
pub fn close_decided(txn: &mut dyn Txn, rigs: &[Rig]) -> Result<(), StoreError> {
    for rig in rigs {
        let pending = key_values::read::<Change>(txn, &key(&rig.name))?;
        if pending.is_none_or(|change| change.is_followed()) {
            close_told(txn, &rig.name)?;
        }
    }
    close_configured(txn, rigs)
}

/// Returns the target branch of a rig.
///
/// # Errors
/// The branch is not configured and cannot be discovered.
pub async fn target(world: &World, rig: &Rig) -> Result<String, Refusal> {
    if let Some(target) = rig
        .forge
        .target
        .clone()
        .or_else(|| rig.default_branch.clone())
    {
        return Ok(target);
    }
    Ok(effects::repo(world, &rig.name, |repo| repo.default_branch()).await?)
}
