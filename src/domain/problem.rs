//! Problems that people are called for. The kind of a problem and its subject identify the escalation, and are stored
//! with it. The text is for people, and may be reworded at any time.
//!
//! ```text
//!   label of the escalation:  problem:CODE[:OF]      fields of its message:  problem (the text), code, of
//! ```

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::escalation::gist;

/// Prefix of the label that names the problem of an escalation.
const LABEL: &str = "problem:";

/// Makes the kinds: variant, stored code, text for people.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident => $code:literal, $text:literal;)+) => {
        /// A kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProblemKind {
            $($(#[$doc])* $kind,)+
        }

        impl ProblemKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Returns the code that is stored. It never changes (`tests/golden/problems.txt`).
            #[must_use]
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$kind => $code,)+
                }
            }

            /// Returns the default text for people.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)+
                }
            }
        }
    };
}

kinds! {
    /// Reported by an agent or an operator: two such problems differ by their words.
    Said => "said", "a person is needed";
    /// An agent ended its work with `escalated`.
    AgentStuck => "agent_stuck", "the agent is stuck";
    /// Automations bring each other about. The subject is the automation that does not run any more.
    AutomationsEndless => "automations_endless", "automations bring each other about without end";
    /// Finished work no longer has commits.
    BranchLostCommits => "branch_lost_commits", "the branch lost its commits after done";
    /// A budget is spent. The subject is its scope.
    BudgetSpent => "budget_spent", "a budget is spent";
    /// A budget covers tokens without a price. The subject is its scope.
    BudgetUnpriced => "budget_unpriced", "a budget is incomplete: some of the used tokens have no price";
    /// A relic was charged too often without success.
    ChargedInVain => "charged_in_vain", "its charges failed";
    /// Waiting work of a rig cannot be charged.
    ChargesStuck => "charges_stuck", "waiting work cannot be charged";
    /// Work that was declared to need no change has commits.
    CommitsAfterDone => "commits_after_done", "commits were made after done declared that no change was needed";
    /// The remote of a rig names another default branch. The subject has both names.
    DefaultBranch => "default_branch", "the default branch of the remote changed";
    /// A finished sandbox cannot be measured.
    FinishedUnmeasured => "finished_unmeasured", "the sandbox cannot be inspected after done";
    /// A finished sandbox holds unsaved work.
    FinishedUnsaved => "finished_unsaved", "a finished sandbox holds unsaved work";
    /// A file of the supervisor was changed by another program. The subject is its path.
    Ground => "ground", "one of the supervisor's own files was changed by another program";
    /// A child hands off in a loop.
    HandoffLoop => "handoff_loop", "its sessions hand off repeatedly without progress";
    /// A sandbox without hook holds work.
    Hookless => "hookless", "its hook is gone, and its sandbox holds work";
    /// A merge request was tried too often. The subject is the merge request.
    LandingHeld => "landing_parked", "it could not be landed in repeated attempts";
    /// The remote or the target refuses a merge request for good. The subject is the merge request.
    LandingRefused => "landing_refused", "it cannot be landed";
    /// Each session of a child ends at a limit or a login.
    LimitLoop => "limit_loop", "each of its sessions ends at a limit or a login soon after its start";
    /// A session could not be told that its limit is over.
    LimitUntold => "limit_untold", "its limit is over, but the session could not be told to continue";
    /// An account wants a login. The subject is the account.
    LoginWanted => "login_wanted", "its account needs a login";
    /// The witness's look at the raiders hangs.
    LookHangs => "look_hangs", "its patrol of the raiders hangs";
    /// A merge was announced, and the target does not have it.
    MergeNotOnTarget => "merge_not_on_target", "its merge was announced, but the commit is not on the target";
    /// A message to a witness cannot be handled. The subject is the relic, or the message.
    MessageStuck => "message_stuck", "a message cannot be handled";
    /// A directory without owner holds a slot.
    Nameless => "nameless", "its slot is taken by a directory that is not a sandbox";
    /// A nuke fails again and again.
    NukeStuck => "nuke_stuck", "its nuke fails repeatedly";
    /// Another branch is checked out in a finished sandbox.
    OtherBranch => "other_branch", "another branch is checked out after done";
    /// A declared outcome cannot be accepted.
    OutcomeRefused => "outcome_refused", "its declared outcome cannot be accepted";
    /// The first prompt of a session cannot be typed.
    PromptUntyped => "prompt_untyped", "its first prompt cannot be typed";
    /// The remote does not take a finished branch.
    PushBlocked => "push_blocked", "the remote refuses the finished branch";
    /// A raider died too often. The text holds, too, when the raider is gone and its relic still blocked.
    Quarantined => "quarantined", "its sessions died too often, and its relic waits for a person";
    /// Finished work cannot be queued.
    QueueRefused => "queue_refused", "its finished work cannot be queued";
    /// The relic of a raider was closed elsewhere, and its sandbox holds work.
    RelicClosed => "relic_closed", "its relic was closed, and its sandbox holds work";
    /// A raider without work cannot be removed.
    ReleaseStuck => "release_stuck", "it has no work left and cannot be removed";
    /// A relic was reworked too often.
    ReworkExhausted => "rework_exhausted", "it could not be landed after all its reworks";
    /// A saga was begun by another version. The subject is the kind of saga.
    SagaForeign => "saga_foreign", "it was started by another version and cannot continue";
    /// A saga cannot go on. The subject is the kind of saga, with the saga's subject where a witness reports it.
    SagaStuck => "saga_stuck", "it cannot continue";
    /// There is no room for salvage.
    SalvageFull => "salvage_full", "its sandbox is larger than the space left for salvage";
    /// The sandbox of a working raider cannot be used.
    SandboxBroken => "sandbox_broken", "its sandbox is broken";
    /// A finished sandbox was changed.
    SandboxChanged => "sandbox_changed", "the sandbox is not clean after done";
    /// The sandbox of a working raider is missing.
    SandboxGone => "sandbox_gone", "its sandbox is gone";
    /// A finished sandbox is missing, and its branch has more than the remote.
    SandboxGoneUnpushed => "sandbox_gone_unpushed", "the sandbox is gone after done, and its branch holds more than was pushed";
    /// The sandboxes of a rig cannot be seen.
    SandboxesUnseen => "sandboxes_unseen", "the sandboxes of its rig cannot be listed";
    /// A stalled session has text in its input that a person began.
    StalledBegun => "stalled_begun", "it is stalled, and its input holds a line that a person began";
    /// All steps were tried with a stalled session.
    StalledHelpless => "stalled_helpless", "it is stalled, and neither nudges nor a fresh session helped";
    /// A stalled session is not replaced.
    StalledKept => "stalled_kept", "it is stalled, and is not restarted";
    /// A stalled session shows only a spinner.
    StalledSpins => "stalled_spins", "it shows a spinner and makes no other progress";
    /// The screen of a stalled session is not recognised.
    StalledUnrecognised => "stalled_unrecognised", "it is stalled, and its screen is not recognised";
    /// The terminal of a stalled session takes no input.
    StalledUntold => "stalled_untold", "it is stalled, and its terminal accepts no nudge";
    /// A target moves faster than a merge request can be landed. The subject is the merge request.
    TargetMoves => "target_moves", "it cannot be landed: its target keeps moving";
    /// A session outlives every signal. The subject is its token.
    Unkillable => "unkillable", "its session could not be ended";
    /// A finished branch cannot be pushed again.
    Unpushed => "unpushed", "the finished branch cannot be pushed as it is";
    /// The owner of a sandbox without hook cannot be read.
    Unread => "unread", "the owner of its sandbox cannot be read";
    /// The result of work cannot be appended to the chain of its identity. The subject is the identity.
    Unrecorded => "unrecorded", "the result of its work cannot be recorded";
    /// A session cannot be seen.
    Unseen => "unseen", "its progress cannot be observed";
    /// A zombie cannot be removed.
    ZombieStuck => "zombie_stuck", "it is a zombie that cannot be removed";
}

impl ProblemKind {
    /// Returns the kind of a code; none for a code that this version does not know.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// Returns true for a kind of which a problem about a relic leaves that blocked until a person acts.
    #[must_use]
    pub fn blocks_relic(self) -> bool {
        matches!(
            self,
            Self::AgentStuck
                | Self::ChargedInVain
                | Self::LandingRefused
                | Self::Quarantined
                | Self::ReworkExhausted
        )
    }

    /// Returns a problem of this kind with a text of its own.
    #[must_use]
    pub fn in_words(self, text: impl Into<String>) -> Problem {
        Problem {
            text: text.into(),
            kind: self,
            of: None,
        }
    }

    /// Returns a problem of this kind about a subject, which tells it apart from others of the kind.
    #[must_use]
    pub fn of(self, of: impl fmt::Display, text: impl Into<String>) -> Problem {
        Problem {
            of: Some(of.to_string()),
            ..self.in_words(text)
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for ProblemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for ProblemKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        // A problem of a later version is reported with its text only.
        Ok(Self::from_code(&code).unwrap_or(Self::Said))
    }
}

/// The identity of a problem about one subject.
pub type Identity = (ProblemKind, Option<String>);

/// A problem that a person is called for. Equality compares the text as well; [`Problem::is_same`] does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    #[serde(rename = "problem")]
    text: String,
    #[serde(rename = "code", default = "default_kind")]
    kind: ProblemKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<String>,
}

/// Messages of older versions have no code for a problem in a reporter's own words.
fn default_kind() -> ProblemKind {
    ProblemKind::Said
}

impl Problem {
    /// Returns a problem in the reporter's own words.
    #[must_use]
    pub fn in_own_words(text: impl Into<String>) -> Self {
        ProblemKind::Said.in_words(text)
    }

    /// Returns the problem of an escalation, from its labels and its title.
    #[must_use]
    pub fn stored(labels: &[String], title: &str) -> Self {
        let mut labels = labels.iter();
        let label = labels.find_map(|label| label.strip_prefix(LABEL));
        let (code, of) = match label.map(|label| label.split_once(':')) {
            Some(Some((code, of))) => (code, Some(of.to_owned())),
            Some(None) => (label.unwrap_or_default(), None),
            None => return Self::in_own_words(title),
        };
        match ProblemKind::from_code(code) {
            Some(kind) => Self {
                of,
                ..kind.in_words(title)
            },
            None => Self::in_own_words(title),
        }
    }

    /// Returns the label of an escalation about it; none for a problem in the reporter's own words.
    #[must_use]
    pub fn label(&self) -> Option<String> {
        let code = self.kind.code();
        match (self.kind, &self.of) {
            (ProblemKind::Said, _) => None,
            (_, Some(of)) => Some(format!("{LABEL}{code}:{of}")),
            (_, None) => Some(format!("{LABEL}{code}")),
        }
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Returns its subject.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.of.as_deref()
    }

    /// Returns its text, on one line, for people.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the identity that tells it apart from other problems.
    #[must_use]
    pub fn identity(&self) -> Identity {
        match self.kind {
            ProblemKind::Said => (self.kind, Some(gist(&self.text))),
            kind => (kind, self.of.clone()),
        }
    }

    /// Returns true when both are the same problem of the same subject, whatever the text.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl From<ProblemKind> for Problem {
    fn from(kind: ProblemKind) -> Self {
        kind.in_words(kind.text())
    }
}

#[cfg(test)]
mod tests {
    //! Codes, labels and identities of problems.

    use std::collections::BTreeSet;

    use super::*;

    /// Adding a code adds a line. An existing line never changes, because stores hold it.
    #[test]
    fn stored_codes_are_those_of_the_golden_file() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/problems.txt");
        let golden = std::fs::read_to_string(path).unwrap();
        let lines = ProblemKind::ALL
            .iter()
            .map(|kind| format!("{kind:?} {}\n", kind.code()));
        assert_eq!(lines.collect::<String>(), golden);
    }

    #[test]
    fn each_kind_has_a_code_of_its_own_and_is_found_by_it() {
        let codes: BTreeSet<_> = ProblemKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), ProblemKind::ALL.len());
        for kind in ProblemKind::ALL {
            let code = kind.code();
            assert_eq!(ProblemKind::from_code(code), Some(*kind));
            assert!(code.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        }
        assert_eq!(ProblemKind::from_code("of_a_later_version"), None);
    }

    #[test]
    fn label_and_title_give_the_problem_back_in_whatever_words() {
        for kind in ProblemKind::ALL {
            for problem in [kind.in_words("once"), kind.of("/a/b: c", "once")] {
                let labels: Vec<_> = problem.label().into_iter().collect();
                let said = *kind == ProblemKind::Said;
                assert_eq!(labels.is_empty(), said);
                let stored = Problem::stored(&labels, "reworded");
                assert_eq!(stored.kind(), *kind);
                assert_eq!(stored.is_same(&problem), !said, "{problem:?}");
                assert_eq!(stored.text(), "reworded");
            }
        }
        let later = ["problem:of_a_later_version:x".to_owned()];
        assert_eq!(Problem::stored(&later, "new"), Problem::in_own_words("new"));
    }

    #[test]
    fn problems_differ_by_kind_and_object_and_own_words_by_their_gist() {
        let landing = |of| ProblemKind::LandingHeld.of(of, "tried 5 times");
        let of_none = Problem::from(ProblemKind::LandingHeld);
        for (one, other, same) in [
            (landing("gt-1"), landing("gt-1"), true),
            (landing("gt-1"), landing("gt-2"), false),
            (landing("gt-1"), of_none, false),
            (
                ProblemKind::Unread.in_words("a"),
                ProblemKind::Unread.in_words("b"),
                true,
            ),
            (
                ProblemKind::Unread.into(),
                Problem::in_own_words(ProblemKind::Unread.text()),
                false,
            ),
            (
                Problem::in_own_words("attempt 1"),
                Problem::in_own_words("Attempt 2"),
                true,
            ),
            (
                Problem::in_own_words("no key"),
                Problem::in_own_words("no disk"),
                false,
            ),
        ] {
            assert_eq!(one.is_same(&other), same, "{one:?} {other:?}");
            assert_eq!(other.is_same(&one), same);
        }
    }

    #[test]
    fn fields_of_a_message_are_read_with_and_without_a_code() {
        let unkillable = ProblemKind::Unkillable.of("t-1", "it lives");
        let json = serde_json::json!({ "problem": "it lives", "code": "unkillable", "of": "t-1" });
        assert_eq!(serde_json::to_value(&unkillable).unwrap(), json);
        for (json, problem) in [
            (json, unkillable),
            (
                serde_json::json!({ "problem": "no key" }),
                Problem::in_own_words("no key"),
            ),
            (
                serde_json::json!({ "problem": "no key", "code": "of_a_later_version" }),
                Problem::in_own_words("no key"),
            ),
        ] {
            assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
        }
    }
}
