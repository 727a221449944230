//! `relic.export` and `relic.import`: relics as JSON.
//!
//! An import comes in batches, each stored whole or not at all, in a transaction of its own: the store's writer is free
//! between them. A client orders the records so that each comes after its dependencies, and reads the whole file before
//! it sends the first batch.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::edit::changes;
use super::guard::Speaker;
use super::{guard, nudge_all, to_json};
use crate::actors::records::identities::STORE_ID;
use crate::actors::records::{agent_hooks, automation_chains};
use crate::actors::sagas::closing;
use crate::actors::world::World;
use crate::control::handlers::{caller, names};
use crate::control::protocol::answers::{Change, Imported};
use crate::control::protocol::args::RelicImport;
use crate::control::protocol::{BATCH_MAX, ControlError};
use crate::control::server::{Caller, Items};
use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RelicId;
use crate::domain::import::{self, CITY, Item, RELIC, Rest};
use crate::domain::relic::{REWORK, Relic, RelicKind, RelicStatus, Source};
use crate::ports::relics::{NewRelic, StoreError, Txn};

/// The number of relics that are read from the store at once.
const PAGE: usize = 500;
/// The number of relics that a slow reader may hold up.
const BUFFER: usize = 64;

/// Returns the system of the records that this city exports.
fn own_system(txn: &mut dyn Txn) -> Result<String, StoreError> {
    let id = txn.get(STORE_ID)?.unwrap_or_default();
    Ok(format!("{CITY}{id}"))
}

/// Streams every task, each with the record that it came from, or itself as such a record. The store is read page by
/// page: a change during the export may be in it or not.
pub(in crate::control::handlers) async fn export(
    world: &Arc<World>,
) -> Result<Items, ControlError> {
    let (send, receive) = mpsc::channel(BUFFER);
    let own = world.store.run(own_system).await?;
    let world = Arc::clone(world);
    tokio::spawn(async move {
        if let Err(error) = pages(&world, &own, &send).await {
            // The reader may be gone already.
            let _gone = send.send(Err(error)).await;
        }
    });
    Ok(receive)
}

async fn pages(
    world: &World,
    own: &str,
    send: &mpsc::Sender<Result<String, ControlError>>,
) -> Result<(), ControlError> {
    let mut last = String::new();
    loop {
        let after = last.clone();
        let read = move |txn: &mut dyn Txn| txn.tasks_after(&after, PAGE);
        let page = world.store.run(read).await?;
        let is_last = page.len() < PAGE;
        for mut relic in page {
            relic.id.as_str().clone_into(&mut last);
            let id = relic.id.to_string();
            relic.source.get_or_insert_with(|| Source {
                system: own.to_owned(),
                id,
            });
            let item = serde_json::to_string(&relic);
            let item = item.map_err(|error| ControlError::internal(error.to_string()))?;
            if send.send(Ok(item)).await.is_err() {
                return Ok(());
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Stores a batch of records. A caller with the right to work rewrites no relic that others work on.
pub(in crate::control::handlers) async fn import(
    world: &World,
    caller: &Caller,
    args: RelicImport,
) -> Result<Value, ControlError> {
    if args.relics.len() > BATCH_MAX {
        let message = format!("a batch has at most {BATCH_MAX} records");
        return Err(ControlError::bad_request(message));
    }
    let mut batch = Vec::with_capacity(args.relics.len());
    for item in args.relics {
        let prefix = prefix(world, args.rig.as_deref(), &item)?;
        names::require_non_empty(&item.title)?;
        names::few_labels(&item.labels)?;
        names::few_deps(item.deps.as_ref().map_or(0, Vec::len))?;
        if item.title.contains(['\n', '\r']) {
            let message = format!("the title of {} has several lines", item.source.id);
            return Err(ControlError::bad_request(message));
        }
        if let Some(Err(why)) = item.rest.as_ref().map(|rest| rest.check()) {
            let message = format!("{}: {why}", item.source.id);
            return Err(ControlError::bad_request(message));
        }
        batch.push((prefix, item));
    }
    if args.check {
        return to_json(
            &batch
                .iter()
                .map(|(_, item)| checked(item))
                .collect::<Vec<_>>(),
        );
    }
    let asker = caller::asker(world, caller).await;
    let speaker = caller::speaker(world, caller);
    let refused = Arc::new(OnceLock::new());
    let refusal = Arc::clone(&refused);
    let stored = world.store.run(move |txn| {
        let own = own_system(txn)?;
        let mut import = Import {
            txn,
            own,
            asker: &asker,
            speaker: &speaker,
            refusal: &refusal,
        };
        let one = |(prefix, item): &(String, Item)| import.one(prefix, item);
        batch.iter().map(one).collect::<Result<Vec<_>, _>>()
    });
    let told = |error: StoreError| refused.get().cloned().unwrap_or_else(|| error.into());
    let stored = stored.await.map_err(told)?;
    nudge_all(world);
    to_json(&stored)
}

fn checked(item: &Item) -> Imported {
    Imported {
        source: item.source.clone(),
        relic: None,
        change: Change::Unchanged,
        unresolved: Vec::new(),
    }
}

/// Returns the prefix that the record's relic gets: of the rig that is named, of the rig that it came from, or of the
/// only one.
fn prefix(world: &World, rig: Option<&str>, item: &Item) -> Result<String, ControlError> {
    let theirs = item.id.as_ref().map(RelicId::prefix);
    let kept = world
        .city
        .rigs
        .iter()
        .find(|rig| theirs == Some(rig.prefix.as_str()));
    match (rig, kept) {
        (None, Some(rig)) => Ok(rig.prefix.clone()),
        (rig, _) => Ok(names::rig(world, rig)?.prefix.clone()),
    }
}

/// An import inside a transaction.
struct Import<'a> {
    txn: &'a mut dyn Txn,
    /// The system of this city's own records.
    own: String,
    asker: &'a Asker,
    /// The caller.
    speaker: &'a Speaker,
    /// The refusal that undid the batch.
    refusal: &'a OnceLock<ControlError>,
}

/// The links of a record, as far as they lead to relics.
struct Links {
    parent: Option<RelicId>,
    deps: Option<Vec<RelicId>>,
    unresolved: Vec<String>,
}

impl Import<'_> {
    fn one(&mut self, prefix: &str, item: &Item) -> Result<Imported, StoreError> {
        let links = self.links(prefix, item)?;
        let (relic, change) = match self.find(prefix, &item.source)? {
            Some(id) => {
                let relic = self.txn.relic(&id)?;
                let change = self.update(relic, item, &links)?;
                (id, change)
            }
            None => (self.create(prefix, item, &links)?, Change::Created),
        };
        Ok(Imported {
            source: item.source.clone(),
            relic: Some(relic),
            change,
            unresolved: links.unresolved,
        })
    }

    /// Returns the relic of a record. Records of other systems are known within their rig: two rigs may import from two
    /// repositories whose ids are the same.
    fn find(&mut self, prefix: &str, source: &Source) -> Result<Option<RelicId>, StoreError> {
        if source.system == self.own || source.system == RELIC {
            let id = RelicId::new(&*source.id).ok();
            let Some(id) = id else { return Ok(None) };
            return match self.txn.relic(&id) {
                Ok(relic) => Ok((relic.kind == RelicKind::Task).then_some(relic.id)),
                Err(StoreError::NotFound { .. }) => Ok(None),
                Err(other) => Err(other),
            };
        }
        let anywhere = source.system.starts_with(CITY);
        self.txn
            .relic_of_source(source, (!anywhere).then_some(prefix))
    }

    fn links(&mut self, prefix: &str, item: &Item) -> Result<Links, StoreError> {
        let mut links = Links {
            parent: None,
            deps: None,
            unresolved: Vec::new(),
        };
        if let Some(parent) = &item.parent {
            links.parent = self.find(prefix, parent)?;
            if links.parent.is_none() {
                links.unresolved.push(parent.id.clone());
            }
        }
        if let Some(deps) = &item.deps {
            let mut found = Vec::new();
            for dep in deps {
                match self.find(prefix, dep)? {
                    Some(id) => found.push(id),
                    None => links.unresolved.push(dep.id.clone()),
                }
            }
            links.deps = Some(found);
        }
        Ok(links)
    }

    fn create(&mut self, prefix: &str, item: &Item, links: &Links) -> Result<RelicId, StoreError> {
        let rest = item.rest.clone().map(|rest| *rest).unwrap_or_default();
        let by = rest.by.clone().filter(|_| self.speaker.for_person);
        let by = by.unwrap_or_else(|| self.asker.name.clone());
        let new = NewRelic {
            prefix: prefix.to_owned(),
            kind: RelicKind::Task,
            title: item.title.clone(),
            body: item.body.clone(),
            priority: item.priority.unwrap_or_default(),
            labels: item.labels.clone(),
            parent: links.parent.clone(),
            deps: links.deps.clone().unwrap_or_default(),
            by: Some(by),
        };
        let mut relic = match self.free_id(prefix, item, links)? {
            Some(id) => self.txn.create_relic_as(&id, &new)?,
            None => self.txn.create_relic(&new)?,
        };
        relic.status = import::status_at_first(item.status);
        relic.assignee.clone_from(&item.assignee);
        relic.created = item.created.unwrap_or(relic.created);
        if relic.status == RelicStatus::Closed {
            relic.closed = Some(item.closed.unwrap_or_else(|| self.txn.now()));
        }
        restore(&mut relic, rest, self.speaker.for_person);
        relic.source = Some(item.source.clone());
        self.txn.put_relic(&relic)?;
        let data = json!({
            "title": relic.title, "status": relic.status, "priority": relic.priority,
            "deps": relic.deps, "source": relic.source,
        });
        automation_chains::note_made(self.txn, &relic, self.asker)?;
        let event = NewEvent::new(EventType::RelicCreated, &relic.id, self.asker);
        self.txn.record(&event.with(data))?;
        Ok(relic.id)
    }

    /// Returns the id that the record had, if it is of this rig and free. A step keeps its id only below its own parent.
    fn free_id(
        &mut self,
        prefix: &str,
        item: &Item,
        links: &Links,
    ) -> Result<Option<RelicId>, StoreError> {
        let Some(id) = item.id.clone().filter(|id| id.prefix() == prefix) else {
            return Ok(None);
        };
        if self.exists(&id)? {
            return Ok(None);
        }
        if let Some((stem, _)) = id.as_str().rsplit_once('.') {
            let is_own = links
                .parent
                .as_ref()
                .is_some_and(|parent| parent.as_str() == stem);
            let taken = match RelicId::new(stem) {
                Ok(stem) => self.exists(&stem)?,
                Err(_) => true,
            };
            if taken && !is_own {
                return Ok(None);
            }
        }
        Ok(Some(id))
    }

    fn exists(&mut self, id: &RelicId) -> Result<bool, StoreError> {
        match self.txn.relic(id) {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Brings a relic up to its record.
    fn update(&mut self, before: Relic, item: &Item, links: &Links) -> Result<Change, StoreError> {
        let mut relic = before.clone();
        relic.title.clone_from(&item.title);
        relic.body.clone_from(&item.body);
        relic.priority = item.priority.unwrap_or(relic.priority);
        relic.labels.clone_from(&item.labels);
        let rework = |label: &String| label == REWORK;
        if before.labels.iter().any(rework) && !relic.labels.iter().any(rework) {
            // It is the supervisor's.
            relic.labels.push(REWORK.to_owned());
        }
        if let Some(parent) = &links.parent {
            relic.parent = Some(parent.clone());
        }
        if let Some(deps) = &links.deps {
            relic.deps = self.deps(&before, item, deps)?;
        }
        let hooked = self.hooked(&before)?;
        let queued = self.txn.mrs_of(&relic.id)?.iter().any(|mr| !mr.is_final());
        if !hooked && before.status != RelicStatus::Hooked && before.status != RelicStatus::Closed {
            // An assignment that was made here stays where the record has none.
            relic.assignee = item.assignee.clone().or(relic.assignee);
        }
        self.may_rewrite(&before, &relic)?;
        relic.status = import::status_after(before.status, hooked || queued, item.status);
        let changed = changes(&before, &relic);
        if changed.is_empty() {
            return Ok(Change::Unchanged);
        }
        if relic.status == RelicStatus::Closed && before.status != RelicStatus::Closed {
            relic.status = before.status;
            self.txn.put_relic(&relic)?;
            let reason = "it is closed where it was imported from";
            let mut closed = closing::close(self.txn, relic, Some(reason), self.asker)?.relic;
            closed.closed = item.closed.or(closed.closed);
            self.txn.put_relic(&closed)?;
            return Ok(Change::Updated);
        }
        self.txn.put_relic(&relic)?;
        let event = NewEvent::new(EventType::RelicUpdated, &relic.id, self.asker);
        self.txn.record(&event.with(Value::Object(changed)))?;
        Ok(Change::Updated)
    }

    /// Returns whether the status and assignee of a relic are those of the work on a hook. A person may take a relic off
    /// the hook of a standing agent.
    fn hooked(&mut self, relic: &Relic) -> Result<bool, StoreError> {
        let by_agent = !self.speaker.for_person && agent_hooks::holder(self.txn, relic)?.is_some();
        Ok(by_agent || self.txn.hook_of_relic(&relic.id)?.is_some())
    }

    /// Checks that the caller may make these changes. A refusal is an error, so that the whole batch is undone.
    fn may_rewrite(&mut self, before: &Relic, after: &Relic) -> Result<(), StoreError> {
        let same = before.title == after.title
            && before.body == after.body
            && before.parent == after.parent
            && before.deps == after.deps
            && before.starts_on == after.starts_on;
        if same {
            return Ok(());
        }
        let verdict = guard::may_rewrite(self.txn, before, self.speaker)?;
        verdict.map_err(|refused| {
            let error = StoreError::Conflict(refused.message.clone());
            self.refusal.get_or_init(|| refused);
            error
        })
    }

    /// Returns the dependencies of the record, and those that were added here to relics that are not of its system.
    fn deps(
        &mut self,
        before: &Relic,
        item: &Item,
        theirs: &[RelicId],
    ) -> Result<Vec<RelicId>, StoreError> {
        let mut deps = theirs.to_vec();
        for dep in &before.deps {
            let of = self.txn.relic(dep)?.source;
            let system = of.map_or_else(|| self.own.clone(), |source| source.system);
            if system != item.source.system && !deps.contains(dep) {
                deps.push(dep.clone());
            }
        }
        Ok(deps)
    }
}

/// Restores the fields that only an export of a city has. Fields that a raider takes for the supervisor's word (the
/// context of earlier work, the branch, the target) are restored only for a person.
fn restore(relic: &mut Relic, rest: Rest, for_person: bool) {
    relic.until = rest.until;
    relic.charge_failures = rest.charge_failures;
    relic.harness = rest.harness;
    relic.starts_on = rest.starts_on;
    if for_person {
        relic.raider = rest.raider;
        relic.branch = rest.branch;
        relic.reworks = rest.reworks;
        relic.context = rest.context;
        relic.target = rest.target;
    }
}
