//! `[harness.<name>]`: how a coding agent is driven, and what becomes of its conversations.

use std::collections::BTreeMap;

use crate::domain::budget::Budget;
use crate::domain::condition::Patterns;
use crate::domain::harness::hooks::Hooks;
use crate::domain::ids::HarnessName;
use crate::domain::usage::price::Prices;

/// How a coding agent is driven.
#[derive(Debug, Clone, PartialEq)]
pub struct Harness {
    /// Its name.
    pub name: HarnessName,
    /// Program and arguments.
    pub command: Vec<String>,
    /// How it gets its prompt.
    pub prompt: PromptMode,
    /// The programs that are the agent; empty means the process that was started.
    pub process_names: Vec<String>,
    /// Arguments instead of the full-permission ones, after a crash; empty means none differ.
    pub reduced: Vec<String>,
    /// Started so, it asks a person for what finishes its work: commits, and calls of `hd`.
    pub reduced_asks: bool,
    /// Arguments that make it go on with the conversation `{session_id}`; empty means it cannot.
    pub resume: Vec<String>,
    /// What its sessions share with those of other harnesses of the same name: one login, one limit.
    pub account: String,
    /// Part of the choice that waits for the end of a limit, or tries again, in the dialog that the
    /// program opens at one; empty when it opens none.
    pub limit_answer: String,
    /// How it reports its state.
    pub hooks: Hooks,
    /// Its end with exit code 0 is the end of its work: it cannot say so itself.
    pub done_on_exit: bool,
    /// Patterns of files that it leaves in a work tree and that are no work.
    pub exclude: Vec<String>,
    /// What the prompt tells it to review itself with.
    pub review: String,
    /// Configured environment.
    pub env: BTreeMap<String, String>,
    /// Names taken from the supervisor's own environment.
    pub env_pass: Vec<String>,
    /// How its screens look.
    pub looks: Patterns,
    /// What its models cost.
    pub prices: Prices,
    /// What its sessions may cost a day.
    pub budget: Option<Budget>,
}

/// What a session is told whose harness shortens its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCompact {
    /// Where its task stands.
    Rally,
    /// To hand off.
    Handoff,
    /// Nothing.
    Nothing,
}

/// How a prompt reaches a harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptMode {
    /// As `{prompt}` in the command, or as its last argument.
    Arg,
    /// Typed into its terminal as lines, once it waits for text, then end of input.
    Stdin,
    /// As a file whose path replaces `{prompt}`, or is the last argument.
    File,
    /// Pasted into its terminal and submitted, once it waits for text.
    Paste,
}
