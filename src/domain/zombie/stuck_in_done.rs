//! Class 3: the raider declared itself finished, its completion makes no progress, and its session is still up.

use super::{Facts, Policy, Session, WorkState};
use crate::domain::facts::Probed;

pub(super) fn holds(facts: &Facts, policy: &Policy) -> bool {
    let up = matches!(facts.session, Probed::Known(Session::Up { .. }));
    match facts.work {
        WorkState::Done { silent, excused } => {
            up && !excused && silent > policy.done_intent_timeout
        }
        WorkState::Gone | WorkState::Open | WorkState::Closed => false,
    }
}
