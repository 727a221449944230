//! The harnesses that do the work of a relic, and the identities that they have.

use super::{City, RaiderPolicy};
use crate::domain::ids::HarnessName;

impl City {
    /// The identity of work with this harness.
    #[must_use]
    pub fn identity(&self, harness: &HarnessName) -> String {
        let command = self.harnesses.get(harness);
        let command = command.map_or(&[][..], |harness| harness.command.as_slice());
        self.identities.of(harness, command)
    }
}

impl RaiderPolicy {
    /// Returns the label that decides on the harness of a relic with these labels, and its harnesses; none when the usual
    /// harness does the work.
    #[must_use]
    pub fn route(&self, labels: &[String]) -> Option<(&str, &[HarnessName])> {
        labels.iter().find_map(|label| {
            let (label, harnesses) = self.routes.get_key_value(label)?;
            Some((label.as_str(), harnesses.as_slice()))
        })
    }

    /// Returns the harness that goes on with a relic with these labels: the present one, if it is among those of the
    /// label, else the first of them; the usual one for a relic without a route.
    #[must_use]
    pub fn continues(&self, labels: &[String], present: &HarnessName) -> &HarnessName {
        let Some((_, routed)) = self.route(labels) else {
            return &self.harness;
        };
        let same = routed.iter().find(|harness| *harness == present);
        same.or(routed.first()).unwrap_or(&self.harness)
    }
}
