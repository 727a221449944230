//! Values derived from a rig's settings: environments, the target branch, and the identity that commits landings.

use crate::actors::effects;
use crate::actors::refusal::Refusal;
use crate::ports::repo::{RepoError, Signature};
use std::collections::BTreeMap;

use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::ids::ChildId;
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
