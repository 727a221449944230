//! Addresses of drums: a raider, an agent, a pool or one of its members, or people.

use crate::actors::world::World;
use crate::control::handlers::names;
use crate::control::protocol::{ControlError, ErrorKind};
use crate::domain::agents::Agent;
use crate::domain::drum::{Mailbox, PEOPLE};
use crate::domain::ids::AgentName;
use crate::domain::suggest;

/// A receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Receiver {
    /// Its full name.
    pub name: String,
    /// Its mailbox.
    pub mailbox: Mailbox,
}

/// Returns the receiver of this name.
///
/// # Errors
/// `not_found` with the nearest name, or with all; `conflict` for an ambiguous name.
pub(super) async fn resolve(world: &World, name: &str) -> Result<Receiver, ControlError> {
    if name == PEOPLE {
        return Ok(Receiver {
            name: PEOPLE.to_owned(),
            mailbox: Mailbox::People,
        });
    }
    let agent = agent(&world.city.agents, name);
    let raider = match names::raider(world, name).await {
        Ok(hook) => Some(hook),
        Err(missing) if missing.kind == ErrorKind::NotFound => None,
        Err(other) => return Err(other),
    };
    match (raider, agent) {
        (Some(hook), None) => Ok(Receiver {
            name: hook.raider.to_string(),
            mailbox: Mailbox::Work(hook.relic),
        }),
        (None, Some(agent)) => Ok(Receiver {
            name: agent.to_string(),
            mailbox: Mailbox::Agent(agent),
        }),
        (Some(hook), Some(agent)) => Err(ControlError::conflict(format!(
            "{name} is ambiguous: raider {} or agent {agent}",
            hook.raider
        ))
        .hint(format!("`{}` means the raider", hook.raider))),
        (None, None) => Err(unknown(world, name).await?),
    }
}

/// Returns the agent, pool or member of a pool of this name. Members that do not run now are addresses, too.
fn agent(agents: &[Agent], name: &str) -> Option<AgentName> {
    let name = AgentName::new(name).ok()?;
    let is = |agent: &Agent| {
        let max = agent.pool.as_ref().map_or(0, |pool| pool.max);
        agent.name == name
            || agent
                .member_number(&name)
                .is_some_and(|number| number <= max)
    };
    agents.iter().any(is).then_some(name)
}

/// Returns a note about a name that is neither a raider, an agent nor a pool, and so is taken for a person's.
///
/// # Errors
/// The store's.
pub(in crate::control::handlers) async fn unknown_note(
    world: &World,
    name: &str,
) -> Result<Option<String>, ControlError> {
    match resolve(world, name).await {
        Ok(_) => Ok(None),
        Err(error) if error.kind == ErrorKind::NotFound => {
            let known = Known::read(world).await?;
            let near = known.near(name);
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            let note = format!(
                "{}: it is taken for the name of a person{near}",
                error.message
            );
            Ok(Some(note))
        }
        // An ambiguous name exists.
        Err(error) if error.kind == ErrorKind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

async fn unknown(world: &World, name: &str) -> Result<ControlError, ControlError> {
    let known = Known::read(world).await?;
    let hint = match known.near(name) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("addresses: {}", known.full.join(", ")),
    };
    let message = format!("no raider, agent or pool named {name}");
    Ok(ControlError::not_found(message).hint(hint))
}

/// The addresses that exist.
struct Known {
    full: Vec<String>,
    /// Short names of raiders.
    short: Vec<String>,
}

impl Known {
    async fn read(world: &World) -> Result<Self, ControlError> {
        let hooks = names::hooks(world).await?;
        let agents = world.city.agents.iter().map(|agent| agent.name.to_string());
        let full = hooks.iter().map(|hook| hook.raider.to_string());
        Ok(Self {
            full: [PEOPLE.to_owned()]
                .into_iter()
                .chain(agents)
                .chain(full)
                .collect(),
            short: hooks
                .iter()
                .map(|hook| hook.raider.name.to_string())
                .collect(),
        })
    }

    /// Returns the address that is most like the name.
    fn near(&self, name: &str) -> Option<&str> {
        let all = self.full.iter().chain(&self.short).map(String::as_str);
        suggest::closest(name, all)
    }
}
