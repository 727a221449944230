//! What came of a case.

use std::time::Duration;

use serde_json::{Value, json};

/// Why a case ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The harness did not do what it has to.
    Failed {
        /// What was missing.
        why: String,
        /// The screen at that moment, where there was one.
        screen: Option<String>,
        /// Nothing happened until the time was over.
        late: bool,
    },
    /// The case says nothing about this harness.
    Untried(String),
}

impl Ended {
    /// A failure without a screen.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            screen: None,
            late: false,
        }
    }
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The name of the case.
    pub case: &'static str,
    /// How long it took.
    pub took: Duration,
    /// What it showed. A case that held may have something to remark.
    pub result: Result<Option<String>, Ended>,
}

impl Outcome {
    /// Whether this stands in the way of using the harness.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.result, Err(Ended::Failed { .. }))
    }

    /// The result in one word of the output.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.result {
            Ok(_) => "held",
            Err(Ended::Failed { .. }) => "did not hold",
            Err(Ended::Untried(_)) => "cannot be tried",
        }
    }

    /// The reason or the remark.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match &self.result {
            Ok(remark) => remark.as_deref(),
            Err(Ended::Failed { why, .. } | Ended::Untried(why)) => Some(why),
        }
    }

    /// The screen of a failure.
    #[must_use]
    pub fn screen(&self) -> Option<&str> {
        match &self.result {
            Err(Ended::Failed { screen, .. }) => screen.as_deref(),
            Ok(_) | Err(Ended::Untried(_)) => None,
        }
    }

    /// As `--json` prints it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "case": self.case, "result": self.word(), "why": self.why(),
            "screen": self.screen(), "seconds": self.took.as_secs_f64(),
        })
    }
}
