//! Class 4: its relic was closed elsewhere, and the raider did not notice. It makes no difference if its session can be
//! observed: it is to end.

use super::{Facts, Policy, WorkState};

pub(super) fn holds(facts: &Facts, _: &Policy) -> bool {
    facts.work == WorkState::Closed
}
