//! Self-review: a raider reviews its own work, at most `max_reviews` times, and then says that it is stuck
//! (`agent-lifecycle.md`, section 4).

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{Incarnation, RaiderId, RelicId};

words! {
    /// The result of a round of self-review.
    #[derive(JsonSchema)]
    Verdict {
        /// The review found nothing.
        Passed => "passed",
        /// The review found something to repair.
        Failed => "failed",
        /// The work cannot go on without a person.
        Stuck => "stuck",
    }
}

/// A recorded round of self-review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// The relic whose work was reviewed.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The raider that did the work.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// The incarnation that did the work.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// 1 for the first of the incarnation.
    pub round: u32,
    /// Its result.
    pub verdict: Verdict,
    /// The raider's note.
    pub note: Option<String>,
    /// When it was recorded.
    pub at: Timestamp,
}

/// Returns the number of failed rounds that an incarnation has left, of `max`, after these.
#[must_use]
pub fn left(rounds: &[Round], max: u32) -> u32 {
    let failed = rounds.iter().filter(|it| it.verdict == Verdict::Failed);
    max.saturating_sub(u32::try_from(failed.count()).unwrap_or(u32::MAX))
}

/// Returns true if the only outcome left is `stuck`: the last allowed round failed.
#[must_use]
pub fn is_over(rounds: &[Round], max: u32) -> bool {
    left(rounds, max) == 0
}

/// Returns true if a round with this result may follow.
#[must_use]
pub fn may_follow(rounds: &[Round], max: u32, verdict: Verdict) -> bool {
    verdict == Verdict::Stuck || !is_over(rounds, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(verdicts: &[Verdict]) -> Vec<Round> {
        let round = |(index, verdict): (usize, &Verdict)| Round {
            relic: RelicId::new("gt-1").unwrap(),
            raider: "horde/raiders/Toast".parse().unwrap(),
            incarnation: Incarnation(1),
            round: u32::try_from(index).unwrap() + 1,
            verdict: *verdict,
            note: None,
            at: Timestamp::UNIX_EPOCH,
        };
        verdicts.iter().enumerate().map(round).collect()
    }

    #[test]
    fn after_the_last_failed_round_only_stuck_may_follow() {
        use Verdict::{Failed, Passed, Stuck};
        for (verdicts, over) in [
            (&[][..], false),
            (&[Failed], false),
            (&[Failed, Passed], false),
            (&[Failed, Passed, Passed], false),
            (&[Failed, Failed], true),
            (&[Failed, Passed, Failed], true),
        ] {
            let rounds = rounds(verdicts);
            assert_eq!(is_over(&rounds, 2), over, "{verdicts:?}");
            assert!(may_follow(&rounds, 2, Stuck));
            for verdict in [Passed, Failed] {
                assert_eq!(may_follow(&rounds, 2, verdict), !over, "{verdicts:?}");
            }
        }
        assert_eq!(left(&rounds(&[Failed, Failed, Failed]), 2), 0);
    }
}
