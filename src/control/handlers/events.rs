//! `events` and `why`: the journal.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

use super::{auto_charge, escalation, names, to_json};
use crate::actors::records::escalations::Entry;
use crate::actors::world::World;
use crate::control::protocol::answers::Story;
use crate::control::protocol::args::Events;
use crate::control::protocol::{ControlError, ErrorKind};
use crate::control::server::Items;
use crate::domain::cause::Cause;
use crate::domain::event::{Event, EventType};
use crate::domain::event_data::Raised;
use crate::domain::gates::event::Pattern;
use crate::domain::ids::RelicId;
use crate::domain::relic::RelicKind;
use crate::ports::relics::{EventFilter, StoreError, Txn};

/// The number of events that are read from the store at once.
const PAGE: usize = 500;
/// The type of the item that stands in for deleted events. It is in no journal.
const PRUNED: &str = "events.pruned";
/// The number of events that a slow reader may hold up; beyond that it only delays itself.
const BUFFER: usize = 64;

/// Streams the events after `since` (without it all, or only new ones when followed), then, when followed, new ones as
/// they come. A follower that falls behind is served from the store: no event is left out or comes twice. Deleted
/// events are replaced by an item that says so.
pub(super) async fn events(world: &Arc<World>, args: Events) -> Result<Items, ControlError> {
    if let Some(kind) = &args.kind {
        Pattern::parse(kind).map_err(|meant| no_such(kind, meant))?;
    }
    let (send, receive) = mpsc::channel(BUFFER);
    let world = Arc::clone(world);
    // Subscribed before the store is read, so that no event falls between.
    let live = args.follow.then(|| world.store.subscribe());
    let since = args.since;
    let last = match since {
        Some(since) => since,
        None if args.follow => world.store.run(|txn| txn.last_seq()).await?,
        None => 0,
    };
    let mut reader = Reader {
        world,
        kind: args.kind,
        last,
        gap: None,
        send,
    };
    tokio::spawn(async move {
        if let Err(Over::Failed(error)) = reader.read(since, live).await {
            // The reader may be gone already.
            let _gone = reader.send.send(Err(error)).await;
        }
    });
    Ok(receive)
}

fn no_such(kind: &str, meant: Option<&str>) -> ControlError {
    let error = ControlError::bad_request(format!("no event has the type {kind}"));
    match meant {
        Some(meant) => error.hint(format!("did you mean {meant}?")),
        None => error.hint("`raider.*`, `agent.*` and so on match all types of a kind"),
    }
}

struct Reader {
    world: Arc<World>,
    kind: Option<String>,
    last: u64,
    /// The item for deleted events, until it was sent.
    gap: Option<Event>,
    send: mpsc::Sender<Result<String, ControlError>>,
}

/// The reason why a stream ends early.
enum Over {
    /// The reader went away.
    Unread,
    /// The journal could not be read.
    Failed(ControlError),
}

impl From<StoreError> for Over {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Reader {
    async fn read(
        &mut self,
        since: Option<u64>,
        live: Option<broadcast::Receiver<Arc<Event>>>,
    ) -> Result<(), Over> {
        if let Some(since) = since {
            self.gap = self.gap(since).await?;
        }
        self.catch_up().await?;
        let Some(mut live) = live else { return Ok(()) };
        loop {
            tokio::select! {
                () = self.send.closed() => return Err(Over::Unread),
                next = live.recv() => match next {
                    Ok(event) if event.seq <= self.last => {}
                    Ok(event) => {
                        self.last = event.seq;
                        if self.wanted(&event) {
                            self.pass(&event).await?;
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.catch_up().await?,
                    Err(RecvError::Closed) => return Ok(()),
                },
            }
        }
    }

    /// Returns the item that stands in for deleted events after `since`. It has the number of the last of them.
    async fn gap(&self, since: u64) -> Result<Option<Event>, Over> {
        let first = self.world.store.run(|txn| txn.first_seq()).await?;
        if since.saturating_add(1) >= first {
            return Ok(None);
        }
        Ok(Some(Event {
            seq: first - 1,
            ts: self.world.clock.now(),
            kind: PRUNED.to_owned(),
            subject: self.world.city.name.clone(),
            cause: Cause::Expired.to_string(),
            data: json!({ "since": since, "first_kept": first }),
        }))
    }

    /// Sends the item for deleted events, behind the events among them that were kept: numbers only grow.
    async fn tell_gap(&mut self, next: u64) -> Result<(), Over> {
        if let Some(gap) = self.gap.take_if(|gap| gap.seq < next) {
            self.pass(&gap).await?;
        }
        Ok(())
    }

    fn wanted(&self, event: &Event) -> bool {
        match self.kind.as_deref() {
            None => true,
            Some(kind) => match kind.strip_suffix(".*") {
                Some(prefix) => event
                    .kind
                    .strip_prefix(prefix)
                    .is_some_and(|rest| rest.starts_with('.')),
                None => event.kind == kind,
            },
        }
    }

    async fn catch_up(&mut self) -> Result<(), Over> {
        loop {
            let filter = EventFilter {
                after: self.last,
                kind: self.kind.clone(),
                subject: None,
                limit: PAGE,
            };
            let page = self.world.store.run(move |txn| txn.events(&filter)).await?;
            for event in &page {
                self.tell_gap(event.seq).await?;
                self.last = event.seq;
                self.pass(event).await?;
            }
            if page.len() < PAGE {
                return self.tell_gap(u64::MAX).await;
            }
        }
    }

    async fn pass(&self, event: &Event) -> Result<(), Over> {
        let item = serde_json::to_string(event);
        let item = item.map_err(|error| Over::Failed(ControlError::internal(error.to_string())))?;
        self.send.send(Ok(item)).await.map_err(|_| Over::Unread)
    }
}

/// `why NAME`: returns the events of a raider, agent, relic or rig, oldest first.
pub(super) async fn why(world: &World, name: &str) -> Result<Value, ControlError> {
    let subject = match names::raider(world, name).await {
        Ok(hook) => hook.raider.to_string(),
        Err(error) if error.kind == ErrorKind::NotFound => name.to_owned(),
        Err(error) => return Err(error),
    };
    let (subject, events) = match story(world, &subject).await? {
        events if events.is_empty() => former(world, name).await?,
        events => (subject, events),
    };
    let first = world.store.run(|txn| txn.first_seq()).await?;
    if events.is_empty() {
        let mut hint = "name a raider, an agent, a relic, a merge request or a rig".to_owned();
        if first > 1 {
            hint.push_str(&format!(
                "; events before {first} were deleted by retention"
            ));
        }
        return Err(ControlError::not_found(format!("no events about {name}")).hint(hint));
    }
    let waits = waits(world, &subject).await?;
    to_json(&Story {
        subject,
        waits,
        events,
        first_kept: (first > 1).then_some(first),
    })
}

/// Returns why a relic is not charged automatically, or what is to be done about an escalation; none for other subjects.
async fn waits(world: &World, subject: &str) -> Result<Option<String>, ControlError> {
    let Ok(id) = RelicId::new(subject) else {
        return Ok(None);
    };
    let city = Arc::clone(&world.city);
    let read = move |txn: &mut dyn Txn| match txn.relic(&id) {
        Ok(relic) if relic.kind == RelicKind::Escalation => {
            let entry = Entry::read(txn, relic)?;
            escalation::next(txn, &city, &entry)
        }
        Ok(relic) => auto_charge::told(txn, &city, &relic),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    Ok(world.store.run(read).await?)
}

/// Returns the events of a removed raider by its short name.
async fn former(world: &World, name: &str) -> Result<(String, Vec<Event>), ControlError> {
    let short = name.rsplit('/').next().unwrap_or(name);
    for rig in &world.city.rigs {
        let subject = format!("{}/raiders/{short}", rig.name);
        let events = story(world, &subject).await?;
        if !events.is_empty() {
            return Ok((subject, events));
        }
    }
    Ok((name.to_owned(), Vec::new()))
}

/// Returns the events about a subject; for an escalation also those that raised it, which are about the escalated
/// subject.
async fn story(world: &World, subject: &str) -> Result<Vec<Event>, ControlError> {
    let own = EventFilter {
        subject: Some(subject.to_owned()),
        ..EventFilter::default()
    };
    let calls = EventFilter {
        kind: Some(EventType::EscalationRaised.as_str().to_owned()),
        ..EventFilter::default()
    };
    let id = RelicId::new(subject).ok();
    let read = move |txn: &mut dyn Txn| {
        let mut events = txn.events(&own)?;
        let relic = id.as_ref().and_then(|id| txn.relic(id).ok());
        if let Some(call) = relic.filter(|relic| relic.kind == RelicKind::Escalation) {
            let raised = txn.events(&calls)?.into_iter();
            let is_its = |event: &Event| event.read::<Raised>().is_some_and(|it| it.id == call.id);
            events.extend(raised.filter(is_its));
            events.sort_by_key(|event| event.seq);
        }
        Ok(events)
    };
    Ok(world.store.run(read).await?)
}
