//! Texts of a prompt about earlier attempts at the same task.

use super::{file_list, quoted};
use crate::domain::ids::Oid;
use crate::domain::merge::{FailureType, MergeRequest};
use crate::domain::message::MergeFailed;
use crate::domain::saved_work::{self, SavedWork};

/// Returns the context for the next raider after an attempt that did not land. `began` is the tip of the target at its
/// start, where known.
#[must_use]
pub fn rework(failed: &MergeFailed, began: Option<&Oid>) -> String {
    let (target, branch) = (&failed.target, &failed.branch);
    let earlier = earlier(&failed.head, branch, began);
    let what = match failed.failure_type {
        FailureType::Conflict => format!("it conflicts with `{target}`"),
        FailureType::Tests => "a gate failed".to_owned(),
        FailureType::Build => "its build failed".to_owned(),
        FailureType::Push => "the push was refused".to_owned(),
        FailureType::Infra => "its gates could not be run".to_owned(),
        FailureType::Unrelated => format!("it shares no history with `{target}`"),
    };
    let mut text = format!(
        "An earlier attempt at this task did not land: {what}.\n\n\
         {earlier} Reuse what is right, on top of the present `{target}`, and fix what was wrong."
    );
    if !failed.conflict_files.is_empty() {
        let files = file_list(&failed.conflict_files);
        text.push_str(&format!("\n\nIn conflict:\n{files}"));
    }
    if !failed.error.trim().is_empty() {
        let error = quoted(&failed.error);
        let what = match failed.failure_type {
            FailureType::Tests | FailureType::Build => "Last output",
            FailureType::Conflict
            | FailureType::Push
            | FailureType::Infra
            | FailureType::Unrelated => "The reason in full",
        };
        text.push_str(&format!("\n\n{what}:\n\n{error}"));
    }
    text
}

/// Returns the context for the next raider after an attempt that a person rejected.
#[must_use]
pub fn rejected(mr: &MergeRequest, note: Option<&str>) -> String {
    let earlier = earlier(&mr.head, &mr.branch, mr.began.as_ref());
    let mut text = format!(
        "A person reviewed an earlier attempt at this task and rejected it.\n\n\
         {earlier} Reuse what is right, and fix what was wrong."
    );
    if let Some(note) = note {
        text.push_str(&format!("\n\nReason given:\n\n{}", quoted(note)));
    }
    text
}

/// Returns the context of work that a person rejected and that its raider goes on with. A later raider may read it, too, on
/// another branch: the raider can be removed before it submits the work again.
#[must_use]
pub fn returned(mr: &MergeRequest, note: &str) -> String {
    let (id, head, branch) = (&mr.id, &mr.head, &mr.branch);
    let log = saved_work::log(mr.began.as_ref(), head);
    format!(
        "A person reviewed the work at commit {head} ({id}, branch {branch}) and rejected it. On that branch, go on from \
         there; on another one, `{log}` shows that work: reuse what is right. Fix what is wrong, commit, and declare the \
         work finished again.\n\nReason given:\n\n{}",
        quoted(note)
    )
}

/// Names the work of an attempt that was queued. Its commits are in the supervisor's repository, which loses none, and
/// whose objects sandboxes borrow.
fn earlier(head: &Oid, branch: &str, began: Option<&Oid>) -> String {
    let log = saved_work::log(began, head);
    format!("The earlier work is commit {head} (branch {branch}); `{log}` shows it.")
}

/// The beginning of the paragraph about salvage; only the last such paragraph is kept.
const SALVAGED: &str = "An earlier attempt at this task was given up, and its work was kept";

/// Returns the context for the next raider after an attempt that was given up and salvaged, appended to the earlier
/// context.
#[must_use]
pub fn salvaged(before: Option<&str>, id: &str, work: Option<&SavedWork>) -> String {
    let unknown = "The version that saved it did not record its contents.";
    let told = work.map_or_else(|| unknown.to_owned(), SavedWork::describe);
    let text = format!("{SALVAGED} as salvage {id}. {told} Reuse what is right.");
    let before = before.map(|text| text.split(SALVAGED).next().unwrap_or(text).trim());
    match before {
        Some(before) if !before.is_empty() => format!("{before}\n\n{text}"),
        _ => text,
    }
}

/// Returns the context of a relic that was reopened with a note for its next raider.
#[must_use]
pub fn reopened(before: Option<&str>, note: &str) -> String {
    let note = format!("It was reopened: {note}");
    match before.map(str::trim).filter(|before| !before.is_empty()) {
        Some(before) => format!("{before}\n\n{note}"),
        None => note,
    }
}
