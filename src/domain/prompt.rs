//! The messages to agents: the first prompt, the prompts of later sessions of the same raider, the task file, and
//! messages typed into a session that did not finish properly.
//!
//! Source of the points: `agent-lifecycle.md`, sections 2 to 5. A prompt begins with a letter, so that no harness takes
//! it for an option.

mod context;
mod standing;

use std::time::Duration;

use jiff::SignedDuration;
use jiff::fmt::friendly::SpanPrinter;

use super::cause::Cause;
use super::ids::{Oid, RaiderId, RelicId};
use super::task_names::OUTCOMES;
use super::totem::orders;

pub use self::context::{rejected, reopened, returned, rework, salvaged};
pub use self::standing::{agent_outcome, agent_rules};

/// The maximum length of a task in a prompt, for command lines are limited; the rest is left to the task file.
const BODY_MAX: usize = 8_000;
/// The maximum number of files that a message names.
const FILES_MAX: usize = 20;
/// The name of the outcome file that agents are told.
const OUTCOME_FILE: &str = OUTCOMES[0];

/// Typed into the session of a pool member when the desired size of the pool changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolNotice {
    /// The member is no longer needed.
    Leave,
    /// The member was told to leave, and is needed after all.
    Stay,
}

impl PoolNotice {
    /// Returns the text; `hd` is the command as a shell finds it.
    #[must_use]
    pub fn text(self, hd: &str) -> String {
        match self {
            Self::Leave => format!(
                "The pool needs fewer members. Finish your current work, start nothing new, then \
                run `{hd} done`: it ends this session."
            ),
            Self::Stay => format!(
                "The pool needs you after all. Continue your work, and do not run `{hd} done` \
                until you are asked again."
            ),
        }
    }
}

/// Returns the message after the end of a limit, for a session whose work it interrupted.
#[must_use]
pub fn limit_over(hd: &str) -> String {
    format!(
        "From the supervisor: the limit of your account is over. Continue your task where it was \
        interrupted; `{hd} rally` prints it."
    )
}

/// Returns the message for a session whose conversation was compacted.
#[must_use]
pub fn compacted(hd: &str) -> String {
    format!(
        "From the supervisor: your conversation was compacted. `{hd} rally` prints your task, \
        your branch and your progress; read it before you continue."
    )
}

/// Returns the message for a session that is to hand off because its conversation is compacted.
#[must_use]
pub fn compacts(hd: &str) -> String {
    format!(
        "From the supervisor: your conversation is being compacted. Commit your finished work, and hand off to a \
         fresh session with `{hd} handoff -m \"what is done, what is left\"`."
    )
}

/// Returns the message for a standing agent whose conversation was compacted.
#[must_use]
pub fn agent_compacted(hd: &str) -> String {
    format!(
        "From the supervisor: your conversation was compacted. `{hd} rally` prints your name, your work and \
         your drums; read it before you continue."
    )
}

/// Returns the message for a standing agent that is to hand off because its conversation is compacted.
#[must_use]
pub fn agent_compacts(hd: &str) -> String {
    format!(
        "From the supervisor: your conversation is being compacted. Hand off to a fresh session with \
         `{hd} handoff -m \"what is done, what is left\"`."
    )
}

/// The data of a prompt.
#[derive(Debug, Clone, Copy)]
pub struct Brief<'a> {
    /// The recipient.
    pub raider: &'a RaiderId,
    /// Its relic.
    pub relic: &'a RelicId,
    /// The title of the relic.
    pub title: &'a str,
    /// The body of the relic; may be empty.
    pub body: &'a str,
    /// The reason why an earlier attempt did not land (see [`rework`]).
    pub context: Option<&'a str>,
    /// Set when what was submitted for the relic last was rejected or withdrawn.
    pub is_rejected: bool,
    /// The state of its totem, for a task that is done in steps ([`orders`](super::totem::orders::orders)).
    pub steps: Option<&'a str>,
    /// The branch of the sandbox.
    pub branch: &'a str,
    /// The existing branch that a person had it begin on, if any.
    pub starts_on: Option<&'a str>,
    /// The commit at which the branch started.
    pub base: &'a Oid,
    /// The branch that the work lands on.
    pub target: &'a str,
    /// `TASK.md`, or `.horde-task.md` where the repository has a `TASK.md` of its own.
    pub task_file: &'a str,
    /// The harness's means of self-review; may be empty.
    pub review: &'a str,
    /// Self-review rounds before the outcome must be `stuck`.
    pub max_reviews: u32,
    /// The command `hd` as any shell finds it: its absolute path, quoted where needed.
    pub hd: &'a str,
}

/// The reason why a declared outcome was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// This would be lost: it is not committed, or not pushed.
    Dirty(Vec<String>),
    /// The branch has no commit of its own.
    NoCommits,
    /// The declaration was refused for another reason, which the session can mend.
    Refused {
        /// The reason, a lowercase fragment.
        why: String,
        /// The way out.
        hint: Option<String>,
    },
    /// The outcome file cannot be understood, for this reason.
    Unclear(String),
}

/// Returns the prompt for the first session on a task.
#[must_use]
pub fn first(brief: &Brief<'_>) -> String {
    let who = introduction(brief);
    let task = task(brief);
    let workflow = workflow(brief);
    let outcome = outcome(brief.relic, brief.hd);
    let rules = rules(brief.target, brief.hd);
    format!("{who}\n\n{task}\n\n{workflow}\n\n{outcome}\n\n{rules}\n")
}

/// The end of the session before, and what it leaves to the next one.
#[derive(Debug, Clone, Copy)]
pub struct After<'a> {
    /// The cause of that end.
    pub cause: Cause,
    /// The problem with its outcome, which is told first.
    pub problem: Option<&'a Problem>,
    /// The note of an earlier handoff that no session was given yet.
    pub note: Option<&'a str>,
    /// Set when this session has fewer permissions than the last.
    pub reduced: bool,
}

/// Returns the prompt for a fresh session on a sandbox whose last session died, or was ended for that cause.
#[must_use]
pub fn respawn(brief: &Brief<'_>, after: After<'_>) -> String {
    let After {
        cause,
        problem,
        note,
        reduced,
    } = after;
    let who = introduction(brief);
    let last = match cause {
        Cause::Stalled => {
            "The supervisor ended your last session on this task: it made no progress for a long \
            time and did not react to messages. Find out what blocked it, and avoid that."
        }
        Cause::EndedByPerson => {
            "A person ended your last session on this task before it was finished."
        }
        Cause::RateLimit => {
            "Your last session on this task was ended while your account was at a limit, which is over."
        }
        _ => "Your last session on this task ended before it was finished.",
    };
    let left = match cause {
        Cause::Repair => {
            "The worktree was broken and has been repaired: its commits are there, but \
            uncommitted files may be lost."
        }
        _ => {
            "The worktree is unchanged since then: its commits and its uncommitted files are there."
        }
    };
    let problem = problem.map_or_else(String::new, |problem| {
        format!("First fix this: {}\n\n", explain(brief, problem))
    });
    let less = if reduced {
        "\n\nYou have fewer permissions than before: you may edit files, but other actions may \
        need approval. If you cannot continue without approval, write the outcome `stuck`."
    } else {
        ""
    };
    let note = note.map_or_else(String::new, |note| {
        format!(
            "This note was left for a handoff, and no session has been given it yet:\n\n{}\n\n",
            quoted(note)
        )
    });
    let goes_on = goes_on(brief);
    let task = task(brief);
    let workflow = workflow(brief);
    let outcome = outcome(brief.relic, brief.hd);
    let rules = rules(brief.target, brief.hd);
    format!(
        "{who}\n\n\
         {last} {left}{less}\n\n\
         {problem}{note}\
         {goes_on}\n\n\
         {task}\n\n{workflow}\n\n{outcome}\n\n{rules}\n"
    )
}

/// Returns how a fresh session goes on. After a rejection the outcome file may still say what was declared before it.
fn goes_on(brief: &Brief<'_>) -> String {
    let (relic, task_file, base) = (brief.relic, brief.task_file, brief.base.short());
    let progress = format!(
        "continue the work. Read {task_file}, `git status` and `git log {base}..HEAD` to see its progress; do not start \
         over, and do not discard anything."
    );
    if brief.is_rejected {
        return format!(
            "The work on {relic} is not finished, whatever {OUTCOME_FILE} says: what was submitted before was not taken. \
             Write the outcome again when you have made the changes. Now {progress}"
        );
    }
    format!(
        "Read {OUTCOME_FILE} before you do anything else:\n\
         - It says `passed` for {relic}: write {{\"id\":\"{relic}\",\"outcome\":\"reviewing\"}} \
         to it and stop. The work is finished.\n\
         - It says `stuck`, or it is empty or missing: {progress}"
    )
}

/// Returns the prompt for the session after a handoff.
#[must_use]
pub fn handoff(brief: &Brief<'_>, note: Option<&str>) -> String {
    let who = introduction(brief);
    let note = match note {
        Some(note) => format!("It left you this note:\n\n{}", quoted(note)),
        None => "It left no note.".to_owned(),
    };
    let (task_file, base) = (brief.task_file, brief.base.short());
    let task = task(brief);
    let workflow = workflow(brief);
    let outcome = outcome(brief.relic, brief.hd);
    let rules = rules(brief.target, brief.hd);
    format!(
        "{who}\n\n\
         Your last session on this task handed off to you. The worktree is unchanged since then. {note}\n\n\
         Read {task_file}, `git status` and `git log {base}..HEAD`, and continue where it stopped.\n\n\
         {task}\n\n{workflow}\n\n{outcome}\n\n{rules}\n"
    )
}

/// Returns the message for a session whose outcome was not accepted.
#[must_use]
pub fn nudge(brief: &Brief<'_>, problem: &Problem) -> String {
    format!("From the supervisor: {}", explain(brief, problem))
}

/// Returns the message for a session without progress for this long. `hd` is as in [`Brief::hd`].
#[must_use]
pub fn silent(relic: &RelicId, silence: Duration, hd: &str) -> String {
    let silence = SignedDuration::try_from(silence).unwrap_or(SignedDuration::MAX);
    let silence = SpanPrinter::new().duration_to_string(&silence);
    format!(
        "From the supervisor: your work on {relic} has shown no progress for {silence}. Continue \
        if you can. If you wait for something, declare it: `{hd} wait 30m --reason \"what for\"`. If you are \
        finished, or cannot continue, write the outcome to {OUTCOME_FILE}, or run `{hd} done` or `{hd} done \
        --status escalated --reason \"why\"`. Without progress, this session is replaced by a fresh one."
    )
}

/// Returns the task file of a sandbox.
#[must_use]
pub fn task_file(brief: &Brief<'_>) -> String {
    let (relic, title, branch, target) = (brief.relic, brief.title, brief.branch, brief.target);
    let mut text = format!("# {relic}: {title}\n\nBranch: {branch}\nLands on: {target}\n");
    if let Some(start) = brief.starts_on {
        let base = brief.base.short();
        text.push_str(&format!(
            "\nIt began on the branch {start}, or on later work of this task ({base}): continue that work, which lands \
             together with yours."
        ));
    }
    let body = brief.body.trim();
    if !body.is_empty() {
        text.push_str(&format!("\n{body}\n"));
    }
    if let Some(context) = brief.context {
        text.push_str(&format!(
            "\n## What happened before\n\n{}\n",
            context.trim()
        ));
    }
    if let Some(steps) = brief.steps {
        text.push_str(&format!("\n## Steps\n\n{}\n", steps.trim()));
    }
    text.push_str(&format!(
        "\n## How to finish\n\n{}\n",
        outcome(brief.relic, brief.hd)
    ));
    text
}

fn introduction(brief: &Brief<'_>) -> String {
    format!(
        "You are {}, an autonomous coding agent with one task, in a git worktree of your own. \
         No person watches your terminal: make decisions yourself, and do not wait for an answer.",
        brief.raider
    )
}

fn task(brief: &Brief<'_>) -> String {
    let (relic, title, branch, target) = (brief.relic, brief.title, brief.branch, brief.target);
    let task_file = brief.task_file;
    let mut text = format!(
        "Task {relic}: {title}\n\
         Branch: {branch} (you are on it; the work will land on {target})"
    );
    let body = brief.body.trim();
    if !body.is_empty() {
        let shown = cut(body, BODY_MAX);
        text.push_str(&format!("\n\n{shown}"));
        if shown.len() < body.len() {
            text.push_str(&format!("\n[... the rest is in {task_file}]"));
        }
    }
    let steps = brief.steps.map(|steps| orders::shortened(steps, task_file));
    for more in [brief.context, steps.as_deref()].into_iter().flatten() {
        text.push_str(&format!("\n\n{}", more.trim()));
    }
    text
}

fn workflow(brief: &Brief<'_>) -> String {
    let review = match brief.review {
        "" => format!(
            "read all of `git diff {}` as a strict reviewer would",
            brief.base.short()
        ),
        review => format!("run {review}"),
    };
    let (task_file, max, hd) = (brief.task_file, brief.max_reviews, brief.hd);
    if brief.steps.is_some() {
        return orders::workflow(task_file, hd, &review, max);
    }
    let times = if max == 1 { "time" } else { "times" };
    format!(
        "Work in this order:\n\
         1. Read {task_file}: the whole task.\n\
         2. Read CLAUDE.md and AGENTS.md, where the repository has them, and keep to them.\n\
         3. Implement the task.\n\
         4. Test it: run the existing tests, and add the missing ones.\n\
         5. Commit everything to your branch. Uncommitted files do not count.\n\
         6. Review your own work: {review}. Record each review: `{hd} review passed`, or `{hd} review failed \
         -m \"what it found\"`. When the review finds nothing, the outcome is `passed`. When it finds something, fix \
         it, commit, and review again. After it has failed {max} {times}, stop with the outcome `stuck`.\n\
         7. Write the outcome, and stop."
    )
}

/// Returns how a session finishes its work (`agent-lifecycle.md`, outcome file).
#[must_use]
pub fn outcome(relic: &RelicId, hd: &str) -> String {
    format!(
        "Before you stop, you must write the outcome to {OUTCOME_FILE}, as one line of JSON:\n\
         - finished: {{\"id\":\"{relic}\",\"outcome\":\"passed\"}}\n\
         - finished, but a person should look: {{\"id\":\"{relic}\",\"outcome\":\"reviewing\"}}\n\
         - you cannot continue: {{\"id\":\"{relic}\",\"outcome\":\"stuck\",\"reason\":\"...\"}}\n\
         - no change was needed: {{\"id\":\"{relic}\",\"outcome\":\"passed\",\"no_change\":true,\
         \"reason\":\"...\"}}\n\
         Instead of writing the file you may run `{hd} done`, `{hd} done --status escalated --reason \
         \"...\"`, or `{hd} done --no-change --reason \"...\"`. Use the path exactly as written \
         here, and run it in this worktree: in a shell, `hd` may be another program. `horde` is the same program."
    )
}

/// Returns the rules of a session that works on a target.
#[must_use]
pub fn rules(target: &str, hd: &str) -> String {
    format!(
        "Rules:\n\
         - Do not push, merge, open a pull request or change branches: the supervisor pushes your \
         branch and lands it on {}.\n\
         - Do not use `git stash`: worktrees share it. Commit instead.\n\
         - Stay in this worktree.\n\
         - When you have to wait for something external, declare it: `{hd} wait 30m --reason \
         \"what for\"`. A session without progress is restarted after a while.\n\
         - When your context is nearly full, commit and run `{hd} handoff -m \"where you are\"`: \
         a fresh session continues. `{hd} rally` prints your identity and your task again.",
        target,
    )
}

fn explain(brief: &Brief<'_>, problem: &Problem) -> String {
    let relic = brief.relic;
    match problem {
        Problem::Dirty(files) => format!(
            "the outcome of {relic} was not accepted, because this would be lost:\n{}\n\
             Commit what belongs to the work, remove what does not, then declare it again.",
            file_list(files)
        ),
        Problem::NoCommits => format!(
            "the outcome of {relic} was not accepted, because {} has no commit of its own. Commit \
             your work and declare it again; or, if no change was needed, declare it with \
             \"no_change\":true and a reason.",
            brief.branch
        ),
        Problem::Refused { why, hint } => {
            let hint = hint.as_ref().map(|hint| format!("What to do: {hint}.\n"));
            format!(
                "the outcome of {relic} was not accepted: {why}.\n{}Then declare it again.",
                hint.unwrap_or_default()
            )
        }
        Problem::Unclear(why) => format!(
            "{OUTCOME_FILE} could not be understood: {why}.\n{}",
            outcome(brief.relic, brief.hd)
        ),
    }
}

fn file_list(files: &[String]) -> String {
    let shown = files.iter().take(FILES_MAX);
    let mut lines: Vec<String> = shown.map(|file| format!("- {file}")).collect();
    if files.len() > FILES_MAX {
        lines.push(format!("- and {} more", files.len() - FILES_MAX));
    }
    lines.join("\n")
}

fn quoted(text: &str) -> String {
    let lines = text.trim_end().lines();
    lines
        .map(|line| format!("> {line}").trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the longest prefix of a text within `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests;
