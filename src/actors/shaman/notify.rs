//! Notifications: runs one command per event that `[notify]` names, which reads the event as JSON.
//!
//! ```text
//!  journal ─► cursor ─► the next that is told ─► command (30 s at most) ─► cursor moves
//!                └─ too many wait: the oldest are left out, and an event says so
//! ```
//!
//! The journal is the queue and the cursor is a row, so nothing waits in memory, and a slow command delays nothing: one
//! runs at a time, in a task of its own. The cursor moves when the command has ended, with any result; not when it
//! could not run at all. A command that cannot be ended counts as timed out, and the next event is notified; its thread
//! stays in the budget of notices, which bounds the number of such threads.
//!
//! A supervisor that is killed meanwhile notifies of that one event twice; none is lost, because two notifications are
//! better than none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;

use super::ShamanArgs;
use crate::actors::claims::ClaimKey;
use crate::actors::effects::{self, Owner, WorkKind};
use crate::actors::records::key_values;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Rights;
use crate::domain::event::{Event, EventType, NewEvent};
use crate::domain::notify::{Mark, NotifyPolicy, choose};
use crate::domain::shown;
use crate::ports::relics::{EventFilter, StoreError, Txn};
use crate::ports::runner::{Command, Ended, Stop};

/// Timeout of a command; then everything that it started is ended.
const LIMIT: Duration = Duration::from_secs(30);
/// Timeout of a command at the stop of the supervisor; it is killed well before.
const LAST: Duration = Duration::from_secs(9);
/// Number of events of one kind that are read at once.
const PAGE: usize = 500;
/// Without waiting events the cursor follows the journal in such strides, so that other events are not read again and
/// again.
const STRIDE: u64 = 1000;

/// The state of notifications that outlives the actor.
#[derive(Default)]
pub struct Notices {
    /// Stops the running command.
    running: watch::Sender<Option<Stop>>,
    /// The newest event that was notified, even if the store could not record that.
    told: AtomicU64,
}

impl Notices {
    /// Ends the command that runs, and waits for its end.
    pub(super) async fn stop(&self) {
        let mut running = self.running.subscribe();
        if let Some(stop) = running.borrow_and_update().clone() {
            stop();
        }
        // The sender is our own, so it is not dropped.
        let ended = tokio::time::timeout(LAST, running.wait_for(Option::is_none)).await;
        if ended.is_err() {
            tracing::error!(
                "the command of [notify] did not end before the stop; the next start ends it"
            );
        }
    }
}

/// Sends all waiting notifications; a task that is already at it repeats its work.
pub(super) fn send_waiting(args: &ShamanArgs) {
    let Some(mut claim) = args.world.claims.claim_or_repeat(ClaimKey::Notify) else {
        return;
    };
    let args = args.clone();
    tokio::spawn(async move {
        loop {
            or_warn!(
                send_all(&args).await,
                "notices could not be sent; the next look of the shaman retries"
            );
            match claim.give_back() {
                Some(again) => claim = again,
                None => return,
            }
        }
    });
}

/// Ends the leftovers of a command whose supervisor was killed.
pub(super) fn end_leftovers(args: &ShamanArgs) {
    let world = &args.world;
    let Some(claim) = world.claims.claim(ClaimKey::Notify) else {
        return;
    };
    let args = args.clone();
    tokio::spawn(async move {
        let world = &args.world;
        let record = record(world);
        let ended = effects::end_leftovers(world, Owner::City, WorkKind::Notices, record).await;
        if let Err(error) = ended {
            // The next command tries again before it starts.
            tracing::error!(
                %error,
                "leftovers of the command of [notify] could not be ended; the next command retries"
            );
        }
        drop(claim);
        send_waiting(&args);
    });
}

async fn send_all(args: &ShamanArgs) -> Result<(), StoreError> {
    let notices = &args.notices;
    loop {
        let world = args.world.newest();
        if world.is_stopping() {
            return Ok(());
        }
        let policy = world.city.notify.clone();
        let subject = world.city.name.clone();
        let next = world.store.run(move |txn| next(txn, &policy, &subject));
        let Some(event) = next.await? else {
            return Ok(());
        };
        let ended = match &world.city.notify.command {
            // Notified before, when the store could not record it.
            _ if notices.told.load(Ordering::Relaxed) >= event.seq => None,
            Some(line) => Some(run(&world, notices, line.clone(), &event).await),
            None => None,
        };
        if ended.as_ref().is_some_and(|ended| ended.stopped) {
            // Cut short by the stop: the next start repeats it.
            return Ok(());
        }
        // A command that could not be run, for lack of space or processes, notified no one. The next look retries.
        let ran = ended.as_ref().is_none_or(Ended::has_run);
        if ran {
            notices.told.fetch_max(event.seq, Ordering::Relaxed);
        }
        let failed = ended.as_ref().and_then(failure);
        let subject = world.city.name.clone();
        let noted = world
            .store
            .run(move |txn| advance_cursor(txn, event.seq, ran, failed.as_ref(), &subject));
        noted.await?;
        if !ran {
            return Ok(());
        }
    }
}

const KEY: &str = "notify";

/// Returns the next event to notify. A kind that was not notified before counts from now on.
fn next(
    txn: &mut dyn Txn,
    policy: &NotifyPolicy,
    subject: &str,
) -> Result<Option<Event>, StoreError> {
    let known = key_values::read::<Mark>(txn, KEY)?;
    if policy.command.is_none() {
        if known.is_some() {
            txn.set(KEY, None)?;
        }
        return Ok(None);
    }
    let on: Vec<_> = policy.on.iter().map(|on| on.event().to_owned()).collect();
    let newest = txn.last_seq()?;
    let Some(mut mark) = known else {
        key_values::write(txn, KEY, &Mark::new(on, newest))?;
        return Ok(None);
    };
    if mark.on != on {
        mark.turn_to(on, newest);
        key_values::write(txn, KEY, &mark)?;
    }
    let (mut waiting, mut read_to) = (Vec::new(), u64::MAX);
    for kind in &mark.on {
        let page = txn.events(&EventFilter {
            after: mark.after(kind),
            kind: Some(kind.clone()),
            subject: None,
            limit: PAGE,
        })?;
        if let Some(last) = page.last().filter(|_| page.len() == PAGE) {
            read_to = read_to.min(last.seq);
        }
        waiting.extend(page);
    }
    // Beyond the end of a full page there may be others of its kind, which are not to be passed over.
    waiting.retain(|event| event.seq <= read_to);
    waiting.sort_by_key(|event| event.seq);
    waiting.dedup_by_key(|event| event.seq);
    let (left_out, next) = choose(waiting);
    if let (Some(first), Some(last)) = (left_out.first(), left_out.last()) {
        let data = json!({ "events": left_out.len(), "first": first.seq, "last": last.seq });
        let skipped = NewEvent::new(EventType::NotifySkipped, subject, Cause::QueueFull);
        txn.record(&skipped.with(data))?;
        mark.cursor = last.seq;
        key_values::write(txn, KEY, &mark)?;
    } else if next.is_none() && newest > mark.cursor + STRIDE {
        mark.cursor = newest;
        key_values::write(txn, KEY, &mark)?;
    }
    Ok(next)
}

/// Moves the cursor over a notified event. Journals the first failure of the command, until one succeeds.
fn advance_cursor(
    txn: &mut dyn Txn,
    seq: u64,
    told: bool,
    failed: Option<&(Cause, String)>,
    subject: &str,
) -> Result<(), StoreError> {
    let Some(mut mark) = key_values::read::<Mark>(txn, KEY)? else {
        return Ok(());
    };
    if told {
        mark.cursor = mark.cursor.max(seq);
    }
    if let Some((cause, tail)) = failed.filter(|_| !mark.failing) {
        let data = json!({ "event": seq, "tail": tail });
        let event = NewEvent::new(EventType::NotifyFailed, subject, *cause);
        txn.record(&event.with(data))?;
    }
    mark.failing = failed.is_some();
    key_values::write(txn, KEY, &mark)
}

async fn run(world: &World, notices: &Notices, line: String, event: &Event) -> Ended {
    let text = serde_json::to_string(event).unwrap_or_default();
    // A command may print it as it is.
    let stdin = shown::json(&text).into_owned() + "\n";
    let command = Command {
        // The city's owner has it run.
        rights: Rights::All,
        line,
        dir: world.city.root.clone(),
        env: effects::errand_env(world, &[]),
        stdin: Some(stdin),
        limit: LIMIT,
        record: record(world),
        // What cannot be ended must not keep people from being called.
        alone: false,
        name: "notify".to_owned(),
    };
    let running = effects::command(world, Owner::City, WorkKind::Notices, command);
    let stop = Arc::clone(&running.stop);
    notices.running.send_replace(Some(stop));
    // The stop of all commands may have come before this one was registered.
    if world.is_stopping() {
        (running.stop)();
    }
    let ended = running.end.await;
    notices.running.send_replace(None);
    ended
}

/// Returns how the command failed, if it did.
fn failure(ended: &Ended) -> Option<(Cause, String)> {
    let cause = Some(ended.cause()).filter(|cause| *cause != Cause::Completed)?;
    let tail = format!("{}{}", ended.tail, ended.why.as_deref().unwrap_or_default());
    Some((cause, tail))
}

fn record(world: &World) -> std::path::PathBuf {
    world.city.state_dir().join("notify")
}

#[cfg(test)]
mod tests;
