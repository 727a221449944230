//! Class 1: the session is gone, and the root will not start another. The death of a working raider does not count: it
//! is started again (`product.md`, session dead: restart or auto-nuke).

use super::{Facts, Policy, Session, WorkState};
use crate::domain::facts::Probed;

pub(super) fn holds(facts: &Facts, policy: &Policy) -> bool {
    let dead = facts.session == Probed::Known(Session::Dead);
    let left = match facts.work {
        WorkState::Gone | WorkState::Closed => true,
        WorkState::Open => facts.quarantined,
        WorkState::Done { .. } => false,
    };
    let grown = facts.age.is_none_or(|age| age >= policy.spawn_grace);
    dead && left && grown
}
