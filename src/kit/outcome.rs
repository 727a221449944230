//! The outcome of a case.

use std::time::Duration;

use serde_json::{Value, json};

/// The reason why a case ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The harness did not do what the case requires.
    Failed {
        /// The missing behaviour.
        why: String,
        /// The screen at that moment, if there was one.
        screen: Option<String>,
        /// Set when the case hit its timeout.
        late: bool,
    },
    /// The case cannot be tried with this harness.
    Untried(String),
}

impl Ended {
    /// Returns a failure without a screen.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            screen: None,
            late: false,
        }
    }
}

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The name of the case.
    pub case: &'static str,
    /// Duration.
    pub took: Duration,
    /// The result. A case that held may have a remark.
    pub result: Result<Option<String>, Ended>,
}

impl Outcome {
    /// Returns true when the harness must not be used because of this.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.result, Err(Ended::Failed { .. }))
    }

    /// Returns the word for the result.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.result {
            Ok(_) => "held",
            Err(Ended::Failed { .. }) => "did not hold",
            Err(Ended::Untried(_)) => "cannot be tried",
        }
    }

    /// Returns the reason or the remark.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match &self.result {
            Ok(remark) => remark.as_deref(),
            Err(Ended::Failed { why, .. } | Ended::Untried(why)) => Some(why),
        }
    }

    /// Returns the screen of a failure.
    #[must_use]
    pub fn screen(&self) -> Option<&str> {
        match &self.result {
            Err(Ended::Failed { screen, .. }) => screen.as_deref(),
            Ok(_) | Err(Ended::Untried(_)) => None,
        }
    }

    /// Returns the JSON for `--json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "case": self.case, "result": self.word(), "why": self.why(),
            "screen": self.screen(), "seconds": self.took.as_secs_f64(),
        })
    }
}
