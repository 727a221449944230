//! The options of `done` that belong to one outcome.

use super::Done;
use crate::domain::handoff::NOTE_MAX;
use crate::domain::relic::Completion;

impl Done {
    /// Returns the option that does not fit the outcome, and would be ignored, or that is too long.
    #[must_use]
    pub fn misfit(&self) -> Option<&'static str> {
        if self.reason.as_ref().is_some_and(|why| why.len() > NOTE_MAX) {
            const { assert!(NOTE_MAX == 16 * 1024) }
            return Some(
                "the reason is longer than 16 KiB: write it into a file, and name the file",
            );
        }
        match self.status {
            Completion::Completed | Completion::Escalated if self.until.is_some() => {
                Some("`--until` is for deferred work: --status deferred")
            }
            Completion::Escalated | Completion::Deferred if self.no_change => {
                Some("`--no-change` is for completed work")
            }
            Completion::Completed | Completion::Escalated | Completion::Deferred => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Done, NOTE_MAX};

    /// An option that has no effect would be taken for one that has.
    #[test]
    fn option_of_another_outcome_is_a_misfit() {
        for (args, fits) in [
            (json!({}), true),
            (json!({ "no_change": true, "reason": "it is right" }), true),
            (json!({ "status": "deferred", "until": "in 2h" }), true),
            (json!({ "status": "deferred", "no_change": true }), false),
            (json!({ "status": "escalated", "no_change": true }), false),
            (json!({ "status": "escalated", "until": "in 2h" }), false),
            (json!({ "until": "in 2h" }), false),
        ] {
            let done: Done = serde_json::from_value(args.clone()).unwrap();
            assert_eq!(done.misfit().is_none(), fits, "{args}");
        }
        let reason = "x".repeat(NOTE_MAX + 1);
        let long: Done = serde_json::from_value(json!({ "reason": reason })).unwrap();
        assert!(long.misfit().is_some());
    }
}
