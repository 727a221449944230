//! `[harness.<name>]`: how a coding agent is driven.

use std::collections::BTreeMap;

use crate::domain::budget::Budget;
use crate::domain::condition::Patterns;
use crate::domain::harness::hooks::Hooks;
use crate::domain::ids::HarnessName;
use crate::domain::usage::price::Prices;

/// The configuration of a coding agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Harness {
    /// Its name.
    pub name: HarnessName,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The way in which it gets its prompt.
    pub prompt: PromptMode,
    /// Programs that count as the agent; empty means the process that was started.
    pub process_names: Vec<String>,
    /// Arguments that replace the full-permission ones after a crash; empty means that none differ.
    pub reduced: Vec<String>,
    /// Set when, with reduced arguments, it asks a person before steps that finish its work: commits, and calls of
    /// `hd`.
    pub reduced_asks: bool,
    /// Arguments that make it continue the conversation `{session_id}`; empty means that it cannot.
    pub resume: Vec<String>,
    /// The account that its sessions share with those of other harnesses of the same name: one login, one limit.
    pub account: String,
    /// Part of the choice that waits for the end of a limit, or tries again, in the dialog that the program opens at a
    /// limit; empty when it opens none.
    pub limit_answer: String,
    /// Its reports of state.
    pub hooks: Hooks,
    /// Set when exit code 0 means that its work is finished, because it cannot declare that itself.
    pub done_on_exit: bool,
    /// Patterns of files that it leaves in a work tree and that are no work.
    pub exclude: Vec<String>,
    /// The means of self-review that the prompt names.
    pub review: String,
    /// Configured environment.
    pub env: BTreeMap<String, String>,
    /// Names of variables taken from the supervisor's own environment.
    pub env_pass: Vec<String>,
    /// Patterns of its screens.
    pub patterns: Patterns,
    /// Prices of its models.
    pub prices: Prices,
    /// The daily budget of its sessions.
    pub budget: Option<Budget>,
}

/// The message to a session whose conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCompact {
    /// The state of its task.
    Rally,
    /// The request to hand off.
    Handoff,
    /// None.
    Nothing,
}

impl OnCompact {
    /// The words of the configuration.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("rally", Self::Rally),
        ("handoff", Self::Handoff),
        ("nothing", Self::Nothing),
    ];
}

/// The way in which a prompt reaches a harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptMode {
    /// As `{prompt}` in the command, or as its last argument.
    Arg,
    /// Typed into its terminal as lines, once it waits for text, followed by the end of input.
    Stdin,
    /// As a file whose path replaces `{prompt}`, or is the last argument.
    File,
    /// Pasted into its terminal and submitted, once it waits for text.
    Paste,
}
