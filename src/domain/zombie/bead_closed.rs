//! Class 4: its relic was closed elsewhere, and it did not notice. Whether its session can be seen
//! changes nothing: it is to end.

use super::{Bond, Facts, Policy};

pub(super) fn holds(facts: &Facts, _: &Policy) -> bool {
    facts.bond == Bond::Closed
}
