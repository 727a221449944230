//! Class 2: the session is up and the agent is not among its processes: an empty shell. Of one that said
//! that it is finished there is nothing to replace: class 3 ends it, and where that waits for a remote or a
//! person, the shell waits as well. A program that starts its agent anew looks so for a moment: only what
//! two patrols running have seen is acted on.

use super::{Bond, Facts, Policy, Session};
use crate::domain::facts::Probed;

pub(super) fn holds(facts: &Facts, policy: &Policy) -> bool {
    // A harness may take its time until the agent runs.
    let shell = |age| age >= policy.spawn_grace;
    match facts.session {
        Probed::Known(Session::Up { age, agent }) => {
            facts.bond == Bond::Open && agent == Some(false) && shell(age)
        }
        Probed::Known(Session::Dead) | Probed::Unknown(_) => false,
    }
}
