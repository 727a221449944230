//! Class 2: the session is up and the agent is not among its processes: an empty shell. A raider that declared itself
//! finished needs no replacement: class 3 ends its session, and while that waits for a remote or a person, the shell
//! waits too. A program that restarts its agent looks like this for a moment, so the witness acts only on what two
//! consecutive patrols have seen.

use super::{Facts, Policy, Session, WorkState};
use crate::domain::facts::Probed;

pub(super) fn holds(facts: &Facts, policy: &Policy) -> bool {
    // A harness may take some time until the agent runs.
    let shell = |age| age >= policy.spawn_grace;
    match facts.session {
        Probed::Known(Session::Up { age, agent }) => {
            facts.work == WorkState::Open && agent == Some(false) && shell(age)
        }
        Probed::Known(Session::Dead) | Probed::Unknown(_) => false,
    }
}
