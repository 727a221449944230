//! The caller of a verb of drums: its name, its mailboxes, and its rights on those of others. It is recognised by its
//! process.

use crate::actors::world::World;
use crate::control::handlers::caller::{self, own_hook, own_member};
use crate::control::protocol::ControlError;
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::asker::{Asker, AskerKind};
use crate::domain::city::City;
use crate::domain::drum::{Mailbox, PEOPLE};
use crate::domain::ids::AgentName;

/// A caller.
pub(super) struct Party {
    /// Its name as a sender.
    pub name: String,
    /// Its mailboxes, its own one first; none for a command of the supervisor.
    pub mailboxes: Vec<Mailbox>,
    /// Set when it may see the mailboxes of others.
    pub sees_all: bool,
    /// The caller as events name it.
    pub asker: Asker,
}

impl Party {
    /// Returns the caller of a request.
    ///
    /// # Errors
    /// `forbidden` when the process does not belong to the session that it was recognised in; `not_found` when a raider
    /// has no work.
    pub(super) async fn of(world: &World, caller: &Caller) -> Result<Self, ControlError> {
        let (name, mailboxes) = match &caller.who {
            CallerRole::Raider(_) => {
                let hook = own_hook(world, caller).await?;
                (hook.raider.to_string(), vec![Mailbox::Work(hook.relic)])
            }
            CallerRole::Agent(_) => of_agent(world, caller).await?,
            CallerRole::Operator | CallerRole::OwnCommand(_) | CallerRole::Unrecognised => {
                let asker = caller::asker(world, caller).await;
                match asker.kind() {
                    AskerKind::Person => (PEOPLE.to_owned(), vec![Mailbox::People]),
                    AskerKind::Agent | AskerKind::Automation => (asker.name, Vec::new()),
                }
            }
        };
        Ok(Self {
            name,
            mailboxes,
            sees_all: caller::speaks_for_person(world, caller),
            asker: caller::asker(world, caller).await,
        })
    }

    /// Returns whether the mailbox is the caller's own.
    pub(super) fn owns(&self, mailbox: &Mailbox) -> bool {
        self.mailboxes.contains(mailbox)
    }

    /// Checks that the caller may see a mailbox.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn may_see(&self, mailbox: &Mailbox, what: &str) -> Result<(), ControlError> {
        if self.sees_all || self.owns(mailbox) {
            return Ok(());
        }
        let message = format!("{what} is not addressed to {}", self.name);
        Err(ControlError::forbidden(message).hint("`hd drums inbox` lists your own drums"))
    }
}

/// Returns the name and mailboxes of the standing agent in whose session the caller runs: a pool member reads those of
/// its pool, too.
async fn of_agent(world: &World, caller: &Caller) -> Result<(String, Vec<Mailbox>), ControlError> {
    let session = own_member(world, caller).await?.session;
    let unknown = || ControlError::not_found(format!("no agent has session {session}"));
    let name = world.city.standing(&session).ok_or_else(unknown)?;
    let mailboxes = mailboxes_of(&world.city, &name);
    Ok((name.to_string(), mailboxes))
}

/// Returns the mailboxes that an agent reads.
pub(in crate::control::handlers) fn mailboxes_of(city: &City, name: &AgentName) -> Vec<Mailbox> {
    let mut agents = city.agents.iter();
    let pool = agents.find(|agent| agent.member_number(name).is_some());
    let pool = pool.map(|pool| Mailbox::Agent(pool.name.clone()));
    [Some(Mailbox::Agent(name.clone())), pool]
        .into_iter()
        .flatten()
        .collect()
}
