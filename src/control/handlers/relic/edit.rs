//! `relic.edit`: changes what a relic says.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::guard::{self, Speaker, Verdict};
use super::{joined, nudge_all, priority_note, to_json};
use crate::actors::world::World;
use crate::control::handlers::{caller, drums, names};
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::NotedRelic;
use crate::control::protocol::args::RelicEdit;
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RelicId;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// Changes a task. The witnesses look at once: its priority, assignee and labels decide about automatic charges.
pub(in crate::control::handlers) async fn edit(
    world: &World,
    caller: &Caller,
    mut args: RelicEdit,
) -> Result<Value, ControlError> {
    let id = names::relic(&args.relic)?;
    args.title = args.title.as_deref().map(names::title).transpose()?;
    names::few_labels(&args.label)?;
    let unchanged = RelicEdit {
        relic: args.relic.clone(),
        ..RelicEdit::default()
    };
    if args == unchanged {
        let hint = "give --title, --body, --body-file, --priority, --label, --unlabel, --assignee, --parent or --branch";
        return Err(ControlError::bad_request("nothing is to be changed").hint(hint));
    }
    let parent = args.parent.as_deref().filter(|parent| !parent.is_empty());
    let parent = parent.map(names::relic).transpose()?;
    let branch = names::branch(args.branch.as_deref())?;
    let asker = caller::asker(world, caller).await;
    let speaker = caller::speaker(world, caller);
    let note = match args.assignee.as_deref().map(str::trim) {
        Some(name) if !name.is_empty() => drums::unknown_note(world, name).await?,
        Some(_) | None => None,
    };
    let note = joined(note, args.priority.and_then(priority_note));
    let edited = world.store.run(move |txn| {
        let mut relic = txn.relic(&id)?;
        if let Err(refused) = may_edit(txn, &relic, &args, &speaker)? {
            return Ok(Err(refused));
        }
        let before = relic.clone();
        apply(&mut relic, &args, parent.as_ref());
        // A relic of an earlier version may have more, and loses them one edit after the other.
        if relic.labels.len() > before.labels.len()
            && let Err(refused) = names::few_labels(&relic.labels)
        {
            return Ok(Err(refused));
        }
        if args.branch.is_some() {
            begin_on(&mut relic, branch.clone());
        }
        store(txn, &before, &relic, &asker)?;
        Ok(Ok(relic))
    });
    let relic = edited.await??;
    nudge_all(world);
    to_json(&NotedRelic { relic, note })
}

fn may_edit(txn: &mut dyn Txn, relic: &Relic, args: &RelicEdit, speaker: &Speaker) -> Verdict {
    if relic.kind != RelicKind::Step
        || args.parent.is_some()
        || args.assignee.is_some()
        || args.branch.is_some()
    {
        require_task(relic)?;
    }
    if [&args.title, &args.body, &args.parent, &args.branch]
        .iter()
        .any(|it| it.is_some())
        && let Err(refused) = guard::may_rewrite(txn, relic, speaker)?
    {
        return Ok(Err(refused));
    }
    match args.assignee {
        Some(_) => guard::may_assign(txn, relic, speaker.for_person),
        None => Ok(Ok(())),
    }
}

/// Checks that the relic is a task: the others are records of the supervisor.
pub(super) fn require_task(relic: &Relic) -> Result<(), StoreError> {
    if relic.kind == RelicKind::Task {
        return Ok(());
    }
    let kind = json!(relic.kind);
    let kind = kind.as_str().unwrap_or_default();
    Err(StoreError::Conflict(format!(
        "{} is no task: it is a record of the supervisor ({kind})",
        relic.id
    )))
}

fn apply(relic: &mut Relic, args: &RelicEdit, parent: Option<&RelicId>) {
    if let Some(title) = &args.title {
        relic.title.clone_from(title);
    }
    if let Some(body) = &args.body {
        relic.body.clone_from(body);
    }
    if let Some(priority) = args.priority {
        relic.priority = priority;
    }
    let unwanted: BTreeSet<&String> = args.unlabel.iter().collect();
    relic.labels.retain(|label| !unwanted.contains(label));
    for label in &args.label {
        if !relic.labels.contains(label) {
            relic.labels.push(label.clone());
        }
    }
    if let Some(assignee) = &args.assignee {
        relic.assignee = Some(assignee.trim().to_owned()).filter(|name| !name.is_empty());
    }
    if args.parent.is_some() {
        relic.parent = parent.cloned();
    }
}

/// Has the next raider begin on this branch. Work that an earlier raider pushed stays at the remote, and is not continued.
fn begin_on(relic: &mut Relic, branch: Option<String>) {
    if branch.is_some() && matches!(relic.status, RelicStatus::Open | RelicStatus::Deferred) {
        relic.branch = None;
    }
    relic.starts_on = branch;
}

/// Stores an edited relic, and journals what changed, if anything did.
fn store(
    txn: &mut dyn Txn,
    before: &Relic,
    relic: &Relic,
    asker: &Asker,
) -> Result<(), StoreError> {
    let changed = changes(before, relic);
    if changed.is_empty() {
        return Ok(());
    }
    txn.put_relic(relic)?;
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, asker);
    txn.record(&event.with(Value::Object(changed)))?;
    Ok(())
}

/// Returns the fields that differ, with their new values, under `changed` and each by its name; a body only by its
/// name.
pub(super) fn changes(before: &Relic, after: &Relic) -> Map<String, Value> {
    let fields = |relic: &Relic| {
        [
            ("title", json!(relic.title)),
            ("body", json!(relic.body)),
            ("status", json!(relic.status)),
            ("priority", json!(relic.priority)),
            ("labels", json!(relic.labels)),
            ("assignee", json!(relic.assignee)),
            ("parent", json!(relic.parent)),
            ("deps", json!(relic.deps)),
            ("branch", json!(relic.branch)),
            ("starts_on", json!(relic.starts_on)),
        ]
    };
    let mut data = Map::new();
    let mut names = Vec::new();
    for ((name, old), (_, new)) in fields(before).into_iter().zip(fields(after)) {
        if old == new {
            continue;
        }
        names.push(name);
        if name != "body" {
            data.insert(name.to_owned(), new);
        }
    }
    if !names.is_empty() {
        data.insert("changed".to_owned(), json!(names));
    }
    data
}
