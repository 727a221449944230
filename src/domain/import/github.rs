//! Issues of GitHub, as `gh issue list --json number,title,body,labels,state,assignees,createdAt,closedAt,url` and the
//! REST API write them: arrays of objects.
//!
//! ```text
//!   a label, in any case, with or without `priority` before or behind it                   priority
//!   P0, critical, urgent, blocker                                                           4
//!   P1, high    (`high` and the words below only beside `priority`)                         3
//!   P2, medium, normal                                                                      2
//!   P3, low                                                                                 1
//!   P4, lowest, trivial                                                                     0
//!   none of these                                                                           none: 0 for a new relic
//! ```
//!
//! The most urgent label counts. Issues have no dependencies: those of the relic stay as they are.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Deserializer, Value};

use super::{Fault, Item, Parsed, Placed, fault, labels, title, without_place};
use crate::domain::relic::{RelicStatus, Source};

/// The system of its records.
const GITHUB: &str = "github";

#[derive(Deserialize)]
struct Issue {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    #[serde(default)]
    labels: Vec<Label>,
    #[serde(default)]
    assignees: Vec<Assignee>,
    #[serde(alias = "createdAt")]
    created_at: Option<Timestamp>,
    #[serde(alias = "closedAt")]
    closed_at: Option<Timestamp>,
    html_url: Option<String>,
    url: Option<String>,
    pull_request: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Label {
    Named { name: String },
    Name(String),
}

#[derive(Deserialize)]
struct Assignee {
    login: String,
}

/// Returns the priority that a label stands for.
pub(super) fn priority(label: &str) -> Option<i64> {
    let label = label.to_lowercase();
    let mut words: Vec<&str> = label
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let all = words.len();
    words.retain(|word| !matches!(*word, "priority" | "prio"));
    let is_marked = words.len() < all;
    let [word] = words.as_slice() else {
        return None;
    };
    match *word {
        "p0" | "critical" | "urgent" | "blocker" => Some(4),
        "p1" => Some(3),
        "p2" => Some(2),
        "p3" => Some(1),
        "p4" => Some(0),
        "high" if is_marked => Some(3),
        "medium" | "normal" if is_marked => Some(2),
        "low" if is_marked => Some(1),
        "lowest" | "trivial" if is_marked => Some(0),
        _ => None,
    }
}

pub(super) fn read(text: &str, parsed: &mut Parsed) -> Result<(), Fault> {
    // `gh api --paginate` writes an array for each page, one behind the other.
    let mut pages = Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let begins = line_of(text, pages.byte_offset());
        match pages.next() {
            None => return Ok(()),
            Some(Ok(Value::Array(issues))) => {
                for (index, issue) in issues.into_iter().enumerate() {
                    one(begins, Some(index + 1), issue, parsed)?;
                }
            }
            Some(Ok(issue)) => one(begins, None, issue, parsed)?,
            Some(Err(error)) => return Err(fault(error.line(), without_place(&error))),
        }
    }
}

/// Returns the number of the line on which the value behind this offset begins.
fn line_of(text: &str, offset: usize) -> usize {
    let (before, rest) = text.split_at(offset);
    let blank = rest.len() - rest.trim_start().len();
    let breaks = |text: &str| text.matches('\n').count();
    1 + breaks(before) + breaks(&rest[..blank])
}

fn one(line: usize, place: Option<usize>, issue: Value, parsed: &mut Parsed) -> Result<(), Fault> {
    let of_array = place.map_or_else(String::new, |place| format!("issue {place} of the array: "));
    let issue: Issue = serde_json::from_value(issue)
        .map_err(|error| fault(line, format!("{of_array}{}", without_place(&error))))?;
    if issue
        .pull_request
        .as_ref()
        .is_some_and(|pull| !pull.is_null())
    {
        parsed.skip("pull_requests");
        return Ok(());
    }
    let item = item(line, issue).map_err(|bad| fault(line, format!("{of_array}{}", bad.why)))?;
    parsed.items.push(Placed { line, item });
    Ok(())
}

fn item(line: usize, issue: Issue) -> Result<Item, Fault> {
    let status = match issue.state.to_lowercase().as_str() {
        "open" => RelicStatus::Open,
        "closed" => RelicStatus::Closed,
        other => return Err(fault(line, format!("its state {other:?} is unknown"))),
    };
    let names = issue.labels.into_iter().map(|label| match label {
        Label::Named { name } | Label::Name(name) => name,
    });
    let labels = labels(names);
    let assignees: Vec<_> = issue.assignees.into_iter().map(|one| one.login).collect();
    let url = issue.html_url.or(issue.url);
    Ok(Item {
        source: Source {
            system: GITHUB.to_owned(),
            id: url.unwrap_or_else(|| format!("#{}", issue.number)),
        },
        id: None,
        title: title(line, &issue.title)?,
        body: issue.body.unwrap_or_default(),
        status,
        priority: labels.iter().filter_map(|label| priority(label)).max(),
        labels,
        assignee: (!assignees.is_empty()).then(|| assignees.join(", ")),
        parent: None,
        deps: None,
        created: issue.created_at,
        closed: issue.closed_at.filter(|_| status == RelicStatus::Closed),
        rest: None,
    })
}
