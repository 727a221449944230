//! An export of beads: one issue a line.
//!
//! ```text
//!   status        open, in_progress, hooked, pinned ► open      blocked ► blocked
//!                 deferred ► deferred      closed ► closed      tombstone: left out, it was deleted there
//!   priority p    4 - p
//!   issue_type    a label, except `task`
//!   dependencies  blocks ► a dependency      parent-child ► the parent      others: left out
//!   design, acceptance_criteria, notes, external_ref ► sections of the body
//! ```

use jiff::Timestamp;
use serde::Deserialize;

use super::{Fault, Item, Parsed, Placed, fault, labels, lines, named, title};
use crate::domain::relic::{RelicStatus, Source};

/// The system of its records.
const BEADS: &str = "beads";
/// The least urgent priority of beads.
const LEAST: i64 = 4;

#[derive(Deserialize)]
struct Issue {
    id: String,
    title: String,
    description: Option<String>,
    design: Option<String>,
    acceptance_criteria: Option<String>,
    notes: Option<String>,
    external_ref: Option<String>,
    status: Option<String>,
    priority: Option<i64>,
    issue_type: Option<String>,
    labels: Option<Vec<String>>,
    assignee: Option<String>,
    dependencies: Option<Vec<Dependency>>,
    created_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Dependency {
    issue_id: Option<String>,
    depends_on_id: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

fn source(id: String) -> Source {
    Source {
        system: BEADS.to_owned(),
        id,
    }
}

/// Returns the relic's status; none for an issue that was deleted.
pub(super) fn status(word: &str) -> Result<Option<RelicStatus>, String> {
    Ok(Some(match word {
        // Work that is under way there has no raider here; its assignee is kept.
        "open" | "in_progress" | "hooked" | "pinned" => RelicStatus::Open,
        "blocked" => RelicStatus::Blocked,
        "deferred" => RelicStatus::Deferred,
        "closed" => RelicStatus::Closed,
        "tombstone" => return Ok(None),
        other => return Err(format!("its status {other:?} is unknown")),
    }))
}

/// Returns the relic's priority.
pub(super) fn priority(theirs: i64) -> Result<i64, String> {
    match (0..=LEAST).contains(&theirs) {
        true => Ok(LEAST - theirs),
        false => Err(format!("its priority is {theirs}, and not 0 to {LEAST}")),
    }
}

pub(super) fn read(text: &str, parsed: &mut Parsed) -> Result<(), Fault> {
    for line in lines::<Issue>(text) {
        let (number, issue) = line?;
        if issue.id.trim().is_empty() {
            return Err(fault(number, "it has no id"));
        }
        let word = issue.status.as_deref().unwrap_or("open");
        match status(word).map_err(|why| fault(number, why))? {
            Some(status) => {
                let item = item(number, issue, status, parsed)?;
                parsed.items.push(Placed { line: number, item });
            }
            None => parsed.skip("deleted"),
        }
    }
    Ok(())
}

fn item(
    line: usize,
    issue: Issue,
    status: RelicStatus,
    parsed: &mut Parsed,
) -> Result<Item, Fault> {
    let body = body(&issue);
    let (mut parent, mut deps) = (None, Vec::new());
    for link in issue.dependencies.into_iter().flatten() {
        // A link of another issue stands on that one's line.
        if link.issue_id.is_some_and(|of| of != issue.id) {
            continue;
        }
        let on = source(link.depends_on_id);
        match link.kind.as_deref().unwrap_or("blocks") {
            "blocks" if !deps.contains(&on) => deps.push(on),
            "blocks" => {}
            "parent-child" if parent.is_none() => parent = Some(on),
            _ => parsed.skip("links"),
        }
    }
    let kind = issue.issue_type.filter(|kind| kind != "task");
    let priority = issue.priority.map(priority).transpose();
    Ok(Item {
        source: source(issue.id),
        id: None,
        title: title(line, &issue.title)?,
        body,
        status,
        priority: priority.map_err(|why| fault(line, why))?,
        labels: labels(issue.labels.into_iter().flatten().chain(kind)),
        assignee: named(issue.assignee),
        parent,
        deps: Some(deps),
        created: issue.created_at,
        closed: issue.closed_at.filter(|_| status == RelicStatus::Closed),
        rest: None,
    })
}

/// Returns the description, with a section for each further text.
fn body(issue: &Issue) -> String {
    let sections = [
        ("Design", &issue.design),
        ("Acceptance criteria", &issue.acceptance_criteria),
        ("Notes", &issue.notes),
        ("External reference", &issue.external_ref),
    ];
    let mut body = issue.description.clone().unwrap_or_default();
    for (heading, text) in sections {
        let Some(text) = text.as_deref().filter(|text| !text.trim().is_empty()) else {
            continue;
        };
        if !body.is_empty() {
            body.push_str("\n\n");
        }
        body.push_str(&format!("## {heading}\n\n{text}"));
    }
    body
}
