//! JSON lines as `hd relic export` writes them, or as a person or program writes them by hand: only `id` and `title` are
//! needed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::{Fault, Item, JSONL, Parsed, Placed, RELIC, Rest, fault, labels, lines, named, title};
use crate::domain::ids::{HarnessName, RaiderId, RelicId};
use crate::domain::relic::{RelicKind, RelicStatus, Source};

/// A line. Fields of later versions are ignored.
#[derive(Deserialize)]
struct Line {
    id: String,
    kind: Option<RelicKind>,
    title: String,
    #[serde(default)]
    body: String,
    status: Option<RelicStatus>,
    priority: Option<i64>,
    #[serde(default)]
    labels: Vec<String>,
    assignee: Option<String>,
    parent: Option<String>,
    #[serde(default)]
    deps: Vec<String>,
    created: Option<Timestamp>,
    closed: Option<Timestamp>,
    until: Option<Timestamp>,
    raider: Option<RaiderId>,
    branch: Option<String>,
    starts_on: Option<String>,
    #[serde(default)]
    reworks: u32,
    #[serde(default)]
    charge_failures: u32,
    context: Option<String>,
    target: Option<String>,
    harness: Option<HarnessName>,
    by: Option<String>,
    source: Option<Source>,
}

impl Line {
    fn source(&self) -> Source {
        self.source.clone().unwrap_or_else(|| Source {
            system: JSONL.to_owned(),
            id: self.id.clone(),
        })
    }

    fn item(self, line: usize, known: &BTreeMap<String, Source>) -> Result<Item, Fault> {
        let link = |id: String| match known.get(&id) {
            Some(source) => source.clone(),
            None => Source {
                system: RELIC.to_owned(),
                id,
            },
        };
        let status = self.status.unwrap_or(RelicStatus::Open);
        // The raider of a hooked relic is another city's.
        let assignee = named(self.assignee).filter(|_| status != RelicStatus::Hooked);
        let rest = Rest {
            until: self.until,
            raider: self.raider,
            branch: self.branch,
            starts_on: self.starts_on,
            reworks: self.reworks,
            charge_failures: self.charge_failures,
            context: self.context,
            target: self.target,
            harness: self.harness,
            by: self.by,
        };
        rest.check().map_err(|why| fault(line, why))?;
        Ok(Item {
            source: match self.source {
                Some(source) => source,
                None => link(self.id.clone()),
            },
            id: RelicId::new(&*self.id).ok(),
            title: title(line, &self.title)?,
            body: self.body,
            status,
            priority: self.priority,
            labels: labels(self.labels),
            assignee,
            parent: self.parent.map(link),
            deps: Some(self.deps.into_iter().map(link).collect()),
            created: self.created,
            closed: self.closed,
            rest: Some(Box::new(rest)),
        })
    }
}

pub(super) fn read(text: &str, parsed: &mut Parsed) -> Result<(), Fault> {
    let mut read: Vec<(usize, Line)> = Vec::new();
    for line in lines::<Line>(text) {
        let (number, line) = line?;
        if line.id.trim().is_empty() {
            return Err(fault(number, "it has no id"));
        }
        match line.kind {
            None | Some(RelicKind::Task) => read.push((number, line)),
            // Records of the supervisor are not work.
            Some(_) => parsed.skip("other_kinds"),
        }
    }
    let known: BTreeMap<_, _> = read
        .iter()
        .map(|(_, line)| (line.id.clone(), line.source()))
        .collect();
    for (number, line) in read {
        let item = line.item(number, &known)?;
        parsed.items.push(Placed { line: number, item });
    }
    Ok(())
}
