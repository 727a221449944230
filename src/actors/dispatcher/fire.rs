//! Runs of automations: recorded as started before anything starts, carried out in a task of their
//! own, recorded as ended whatever happens.
//!
//! ```text
//!  claim ─► record + event `fired` (durable) ─► attempts ─► record + `completed` | `failed` ─► free
//!                     └─ supervisor killed ─► next start: leftovers ended ─► `failed` (crash)
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::chain;
use super::ritual::{self, Recipe};
use crate::actors::boards::{Busy, Role};
use crate::actors::effects::{self, Owner, WorkKind};
use crate::actors::mail::DispatcherMsg;
use crate::actors::records::automation_chains::{self, Row};
use crate::actors::records::automations::recall;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::asker::Asker;
use crate::domain::automation::{Action, Automation, AutomationId, Mark, Run, RunState};
use crate::domain::cause::Cause;
use crate::domain::city::Rights;
use crate::domain::event::{Event, EventType, NewEvent, Origin};
use crate::domain::event_data::RunEnded;
use crate::domain::gates::condition::CHECK_LIMIT;
use crate::domain::gates::{Gate, cron};
use crate::domain::message;
use crate::domain::shown;
use crate::ports::relics::{StoreError, Txn};
use crate::ports::runner::{Command, Ended};

/// Interval between two attempts to record an end.
const RETRY: Duration = Duration::from_secs(5);

/// The trigger of a run. `last` is the newest known run: if there is a newer one, another task was first, and the gate
/// must be checked again.
#[derive(Debug, Clone)]
pub(super) enum Trigger {
    Cooldown { last: Option<u64> },
    Cron,
    Condition { last: Option<u64> },
    Event,
    Asked(Asker),
}

impl Trigger {
    fn cause(&self) -> Cause {
        match self {
            Self::Cooldown { .. } => Cause::Cooldown,
            Self::Cron => Cause::Cron,
            Self::Condition { .. } => Cause::Condition,
            Self::Event => Cause::Event,
            Self::Asked(asker) => asker.cause,
        }
    }
}

impl Trigger {
    /// Returns the origin of the run's first event.
    fn origin(&self) -> Origin {
        match self {
            Self::Asked(asker) => asker.into(),
            _ => self.cause().into(),
        }
    }
}

/// Begins a run; none when the gate is not open after all, or the automation is busy.
///
/// # Errors
/// [`StoreError::Conflict`] when too many runs brought this one about, and the store's.
pub(super) async fn fire(
    world: &Arc<World>,
    automation: &Automation,
    trigger: Trigger,
) -> Result<Option<(Run, u64)>, StoreError> {
    if world.is_stopping() {
        return Ok(None);
    }
    let Some(busy) = world.directory.automations.claim(&automation.id, Role::Run) else {
        if matches!(trigger, Trigger::Cron) {
            pass_over(world, automation).await?;
            look_again(world);
        }
        return Ok(None);
    };
    let recipe = ritual::recipe(world, automation)?;
    let (begun, made) = (automation.clone(), recipe.clone());
    let begun = world
        .store
        .run(move |txn| begin(txn, &begun, &trigger, made.as_ref()));
    let begun = begun.await?;
    // At a bound of automations that run each other a person was called.
    world.nudge(message::SHAMAN);
    let (run, seq, event) = match begun {
        Begun::Run(recorded) => *recorded,
        Begun::Nothing => return Ok(None),
        Begun::Refused(why) => return Err(StoreError::Conflict(why)),
    };
    let Action::Exec(line) = automation.action.clone() else {
        drop(busy);
        if let Some(recipe) = recipe {
            world.nudge(&message::witness(&recipe.rig().name));
        }
        look_again(world);
        return Ok(Some((run, seq)));
    };
    // A command may print it as it is.
    let text = |event| serde_json::to_string(&event).unwrap_or_default();
    let stdin = event.map(|event| shown::json(&text(event)).into_owned());
    let (world, automation) = (Arc::clone(world), automation.clone());
    let begun = run.clone();
    tokio::spawn(async move { carry_out(&world, &automation, line, run, stdin, busy).await });
    Ok(Some((begun, seq)))
}

/// The result of an attempt to record a run as started.
enum Begun {
    /// The gate is not open after all.
    Nothing,
    /// Too many runs brought it about.
    Refused(String),
    /// It is recorded, with its first event, and the event that it runs for.
    Run(Box<(Run, u64, Option<Event>)>),
}

/// Records a run as started, and what that settles.
fn begin(
    txn: &mut dyn Txn,
    automation: &Automation,
    trigger: &Trigger,
    recipe: Option<&Recipe>,
) -> Result<Begun, StoreError> {
    let mut mark = recall(txn, automation)?;
    if mark.disabled && !matches!(trigger, Trigger::Asked(_)) {
        return Ok(Begun::Nothing);
    }
    if recipe.is_some() && must_wait(txn, automation, &mut mark, trigger)? {
        return Ok(Begun::Nothing);
    }
    let (mut event, mut after) = (None, None);
    match trigger {
        Trigger::Cooldown { last } | Trigger::Condition { last } => {
            let newest = txn.runs(Some(&automation.id), 1)?;
            if newest.first().map(|run| run.id) != *last {
                return Ok(Begun::Nothing);
            }
        }
        Trigger::Cron => mark.slots = txn.now(),
        Trigger::Event => {
            let next = chain::next_event(txn, automation, &mark)?;
            after = next.as_ref().and_then(|(_, after)| *after);
            event = next.map(|(event, _)| event);
            match &event {
                Some(event) => mark.cursor = event.seq,
                // Events that it does not run for: its own, and those about the work of automations.
                None => {
                    mark.cursor = txn.last_seq()?;
                    txn.put_mark(&mark)?;
                    return Ok(Begun::Nothing);
                }
            }
        }
        Trigger::Asked(asker) => match chain::of_asked(txn, automation, asker)? {
            Ok(asked) => after = asked,
            Err(why) => return Ok(Begun::Refused(why)),
        },
    }
    txn.put_mark(&mark)?;
    let seq = event.as_ref().map(|event| event.seq);
    let mut run = txn.begin_run(&automation.id, trigger.cause(), seq)?;
    let chain = automation_chains::begin_run(txn, &run, after)?;
    let data = json!({ "run": run.id, "gate": automation.gate.kind(), "event": seq });
    let fired = NewEvent::new(EventType::AutomationFired, &automation.id, trigger.origin());
    let chain = Some(chain);
    let seq = txn.record(&fired.with(data).and(&Row { chain }))?;
    // Decided before anything is made: a failed run leaves nothing but its record.
    match recipe.map(|recipe| (recipe, recipe.problem(automation))) {
        Some((_, Some(why))) => ritual::fail(txn, &mut run, why)?,
        Some((recipe, None)) => {
            ritual::make(txn, automation, recipe, &mut run, event.as_ref())?;
        }
        None => {}
    }
    Ok(Begun::Run(Box::new((run, seq, event))))
}

/// Returns true when the work of the last run is not finished, so that no more is made. An event waits; a slot of a
/// schedule is skipped; the others are due when the work is finished.
fn must_wait(
    txn: &mut dyn Txn,
    automation: &Automation,
    mark: &mut Mark,
    trigger: &Trigger,
) -> Result<bool, StoreError> {
    if matches!(trigger, Trigger::Asked(_)) {
        return Ok(false);
    }
    let Some(relic) = ritual::unfinished(txn, automation)? else {
        return Ok(false);
    };
    if matches!(trigger, Trigger::Cron) {
        mark.slots = txn.now();
        txn.put_mark(mark)?;
        let kind = EventType::AutomationSkipped;
        let skipped = NewEvent::new(kind, &automation.id, Cause::StillRunning);
        txn.record(&skipped.with(json!({ "slot": txn.now(), "relic": relic })))?;
    }
    Ok(true)
}

/// Skips a slot that came while the last run is not over.
async fn pass_over(world: &World, automation: &Automation) -> Result<(), StoreError> {
    let automation = automation.clone();
    let passed = world.store.run(move |txn| {
        let mut mark = recall(txn, &automation)?;
        let Gate::Cron { schedule, .. } = &automation.gate else {
            return Ok(());
        };
        let slot = schedule.next(mark.slots);
        if cron::when(schedule, mark.slots, txn.now()) == crate::domain::gates::When::Now {
            mark.slots = txn.now();
            txn.put_mark(&mark)?;
            let kind = EventType::AutomationSkipped;
            let skipped = NewEvent::new(kind, &automation.id, Cause::StillRunning);
            txn.record(&skipped.with(json!({ "slot": slot })))?;
        }
        Ok(())
    });
    passed.await
}

/// Runs an automation for `hd auto run`, whatever its gate, and even if it is disabled.
pub(super) async fn by_hand(
    world: &Arc<World>,
    id: &AutomationId,
    asker: Asker,
) -> Result<(Run, u64), Refusal> {
    let Some(automation) = world.city.automation(id).cloned() else {
        return Err(Refusal::not_found(format!("no automation {id}")));
    };
    if world.is_stopping() {
        let kind = RefusalKind::Unavailable;
        return Err(Refusal::new(kind, "the supervisor is stopping"));
    }
    let begun = fire(world, &automation, Trigger::Asked(asker)).await?;
    begun.ok_or_else(|| {
        Refusal::conflict(format!("{id} already runs"))
            .hint(format!("`hd auto history {id}` shows since when"))
    })
}

/// Returns true when the condition holds: only when its command succeeds.
pub(super) async fn check(
    world: &World,
    automation: &Automation,
    line: String,
    busy: &Busy,
) -> bool {
    let limit = CHECK_LIMIT;
    let command = command(world, automation, line, None, limit, Role::Check);
    let place = (owner(&automation.id), WorkKind::Checks);
    let ended = attempt(world, place, command, busy).await;
    if ended.timed_out || ended.why.is_some() {
        let automation = automation.id.to_string();
        tracing::warn!(
            automation,
            ?ended,
            "the check of an automation failed or timed out; the automation is not due"
        );
    }
    ended.cause() == Cause::Completed
}

/// Returns the owner of the budget from which an automation's commands take their places.
fn owner(id: &AutomationId) -> Owner {
    id.rig.clone().map_or(Owner::City, Owner::Rig)
}

async fn attempt(
    world: &World,
    (owner, kind): (Owner, WorkKind),
    command: Command,
    busy: &Busy,
) -> Ended {
    let running = effects::command_noting(world, owner, kind, command, busy.waits());
    busy.stoppable(&running.stop);
    // The stop of all runs may have come before this one was registered.
    if world.is_stopping() {
        (running.stop)();
    }
    running.end.await
}

async fn carry_out(
    world: &Arc<World>,
    automation: &Automation,
    line: String,
    mut run: Run,
    stdin: Option<String>,
    busy: Busy,
) {
    loop {
        let limit = automation.timeout;
        let command = command(
            world,
            automation,
            line.clone(),
            stdin.clone(),
            limit,
            Role::Run,
        );
        let place = (owner(&automation.id), WorkKind::Automations);
        let ended = attempt(world, place, command, &busy).await;
        run.attempts += 1;
        let success = ended.cause() == Cause::Completed;
        let end = ended.cause();
        let over = success || ended.stopped || run.attempts > automation.retries;
        (run.code, run.signal) = (ended.code, ended.signal);
        run.tail = match ended.why {
            Some(why) => format!("{}{why}", ended.tail),
            None => ended.tail,
        };
        if over {
            run.state = if success {
                RunState::Completed
            } else {
                RunState::Failed
            };
            run.end = Some(end);
            break;
        }
    }
    record_end(world, run).await;
    drop(busy);
    look_again(world);
}

/// Ends the leftovers of a run whose supervisor was killed, and journals that once.
pub(super) async fn interrupted(world: Arc<World>, mut run: Run, busy: Busy, ending: Option<Busy>) {
    let record = record(&world, &run.automation, Role::Run);
    let owner = owner(&run.automation);
    let ended = effects::end_leftovers(&world, owner, WorkKind::Automations, record).await;
    if let Err(error) = ended {
        // It goes on record all the same: the next run tries again before it starts.
        tracing::error!(
            automation = %run.automation,
            %error,
            "processes of an interrupted run could not be ended; the next run retries"
        );
    }
    run.state = RunState::Failed;
    run.end = Some(Cause::Crash);
    record_end(&world, run).await;
    drop(busy);
    drop(ending);
    look_again(&world);
}

/// Records an end. A store that cannot write is waited for: the run is not over before.
async fn record_end(world: &World, run: Run) {
    let (automation, id) = (run.automation.clone(), run.id);
    loop {
        let mut run = run.clone();
        let settled = world.store.run(move |txn| {
            let open = txn.open_runs()?.iter().any(|open| open.id == run.id);
            if !open {
                return Ok(());
            }
            let now = txn.now();
            run.ended = Some(now);
            txn.put_run(&run)?;
            let kind = match run.state {
                RunState::Completed => EventType::AutomationCompleted,
                RunState::Running | RunState::Failed => EventType::AutomationFailed,
            };
            let cause = run.end.unwrap_or(Cause::Internal);
            let event = NewEvent::new(kind, &run.automation, cause);
            let chain = automation_chains::of_run(txn, &run)?;
            let event = event.with(attempts(&run)).and(&ended(&run));
            txn.record(&event.and(&Row { chain }))?;
            Ok(())
        });
        match settled.await {
            Ok(()) => return,
            Err(error) if world.is_stopping() => {
                tracing::error!(
                    %automation,
                    run = id,
                    %error,
                    "the end of an automation's run could not be stored before the stop; the next start counts it as \
                    interrupted"
                );
                return;
            }
            Err(error) => tracing::warn!(
                %automation,
                run = id,
                %error,
                "the end of an automation's run could not be stored; it is retried"
            ),
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Returns the fields of a run's last event that programs read.
pub(super) fn ended(run: &Run) -> RunEnded {
    RunEnded {
        run: run.id,
        tail: run.tail.clone(),
    }
}

/// Returns the other fields of the last event of a run that had attempts.
fn attempts(run: &Run) -> Value {
    let took = run.ended.map(|ended| ended.duration_since(run.started));
    json!({
        "event": run.event, "attempts": run.attempts, "code": run.code, "signal": run.signal,
        "ms": took.map(|took| took.as_millis()),
    })
}

/// Has the dispatcher look at the gates.
pub(super) fn look_again(world: &World) {
    world.directory.tell_dispatcher(DispatcherMsg::Look);
}

fn record(world: &World, id: &AutomationId, role: Role) -> PathBuf {
    // Names have no dots, so these differ for all automations and both roles.
    let name = id.to_string().replace('/', ".");
    let file = match role {
        Role::Check => format!("{name}.checking"),
        Role::Run | Role::Interrupted => format!("{name}.run"),
    };
    world.city.automations_dir().join(file)
}

fn command(
    world: &World,
    automation: &Automation,
    line: String,
    stdin: Option<String>,
    limit: Duration,
    role: Role,
) -> Command {
    Command {
        line,
        dir: automation.dir.clone(),
        env: environment(world, automation),
        stdin,
        limit,
        record: record(world, &automation.id, role),
        alone: true,
        // Agents write to the repositories of rigs; the city is its owner's alone.
        rights: match automation.id.rig {
            Some(_) => Rights::Work,
            None => Rights::All,
        },
        name: format!("automation/{}", automation.id),
    }
}

fn environment(world: &World, automation: &Automation) -> BTreeMap<String, String> {
    let mut env = effects::errand_env(world, &[]);
    env.insert("HD_AUTOMATION".into(), automation.id.to_string());
    if let Some(rig) = &automation.id.rig {
        env.insert("HD_RIG".into(), rig.to_string());
    }
    env
}
