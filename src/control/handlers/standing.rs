//! Verbs of a standing agent about itself: `hook`, `done`, the note of `handoff`, `rally`. The agent is recognised by the
//! session of its process.

use std::sync::Arc;

use serde_json::{Value, json};

use super::caller::{self, own_member};
use super::relic::guard;
use super::{drums, to_json, totem};
use crate::actors::ask;
use crate::actors::declared;
use crate::actors::last_end;
use crate::actors::mail::{ChildView, RootMail, Work};
use crate::actors::records::{agent_hooks, agent_work, escalations, handoffs, totems};
use crate::actors::sagas::closing;
use crate::actors::world::World;
use crate::control::protocol::{ControlError, answers, args};
use crate::control::server::Caller;
use crate::domain::agent_hook::AgentHook;
use crate::domain::asker::Asker;
use crate::domain::attempt::Outcome;
use crate::domain::city::City;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::handoff;
use crate::domain::ids::{AgentName, ChildId, SessionId};
use crate::domain::message::{self, Body, Escalation, Handoff};
use crate::domain::problem::ProblemKind;
use crate::domain::prompt;
use crate::domain::relic::{Completion, Relic, RelicStatus};
use crate::domain::totem::{Totem, orders};
use crate::ports::relics::{StoreError, Txn};

/// A standing agent that speaks for itself.
struct Own {
    name: AgentName,
    view: ChildView,
    /// The pool that it is a member of.
    pool: Option<AgentName>,
    asker: Asker,
}

impl Own {
    async fn of(world: &World, caller: &Caller, session: &SessionId) -> Result<Self, ControlError> {
        own_member(world, caller).await?;
        let views = ask::views(world).await?;
        let view = views.into_iter().find(|view| view.spec.session == *session);
        let unknown = || ControlError::not_found(format!("no agent has session {session}"));
        let view = view.ok_or_else(unknown)?;
        let ChildId::Agent(name) = view.spec.id.clone() else {
            return Err(unknown());
        };
        Ok(Self {
            pool: pool_of(&world.city, &name),
            asker: caller::asker(world, caller).await,
            name,
            view,
        })
    }
}

fn pool_of(city: &City, name: &AgentName) -> Option<AgentName> {
    let mut agents = city.agents.iter();
    let pool = agents.find(|agent| agent.member_number(name).is_some());
    pool.map(|pool| pool.name.clone())
}

/// `hook`: the relic on the agent's hook; without one, the oldest ready relic that is assigned to it or to its pool is
/// put there.
pub(super) async fn hook(
    world: &World,
    caller: &Caller,
    session: &SessionId,
) -> Result<Value, ControlError> {
    let own = Own::of(world, caller, session).await?;
    let (name, pool) = (own.name.clone(), own.pool.clone());
    let (is_draining, city) = (own.view.draining, Arc::clone(&world.city));
    let taken = world.store.run(move |txn| {
        let relic = match is_draining {
            // A member that leaves takes no further work.
            true => agent_hooks::held(txn, &own.name)?.map(|(_, relic)| relic),
            false => agent_hooks::take(txn, &own.name, own.pool.as_ref(), &own.asker)?,
        };
        if let Work::Agent(agent) = &own.view.spec.work {
            agent_work::begin(txn, &city, (&own.name, agent))?;
        }
        let totem = totem_of(txn, relic.as_ref())?;
        Ok(relic.map(|relic| (relic, totem)))
    });
    match taken.await? {
        Some((relic, totem)) => to_json(&answers::Hooked::Agent {
            agent: name,
            relic: Box::new(relic),
            totem: progress(world, totem),
        }),
        None => {
            let (message, to) = match pool {
                Some(pool) => (
                    format!("no ready relic is assigned to {name} or its pool {pool}"),
                    pool,
                ),
                None => (format!("no ready relic is assigned to {name}"), name),
            };
            let hint = format!("`hd relic edit RELIC --assignee {to}` assigns one");
            Err(ControlError::not_found(message).hint(hint))
        }
    }
}

/// Returns the totem of the relic on a hook.
fn totem_of(txn: &mut dyn Txn, relic: Option<&Relic>) -> Result<Option<Totem>, StoreError> {
    let totem = relic
        .map(|relic| totems::read(txn, &relic.id))
        .transpose()?;
    Ok(totem.flatten())
}

/// Returns the state of the totem as `hook` and `rally` tell it; none without one.
fn progress(world: &World, totem: Option<Totem>) -> Option<answers::Progress> {
    totem.map(|totem| totem::progress(&totem, &world.hd()))
}

/// `done`: closes the relic on the agent's hook, or puts it off. A member that was asked to leave its pool leaves.
pub(super) async fn done(
    world: &World,
    caller: &Caller,
    session: &SessionId,
    args: &args::Done,
) -> Result<Value, ControlError> {
    let own = Own::of(world, caller, session).await?;
    if args.no_change || args.cleanup_status.is_some() {
        let message = "`--no-change` and `--cleanup-status` are about the sandbox of a raider";
        return Err(ControlError::bad_request(message).hint("omit them"));
    }
    let end = End::parse(world, args)?;
    let (name, draining) = (own.name.clone(), own.view.draining);
    let (asker, hd) = (own.asker.clone(), world.hd());
    let ended = world
        .store
        .run(move |txn| finish(txn, &own.name, &end, (&asker, &hd)));
    let ended = ended.await??;
    if ended.is_none() && !draining {
        let message = format!("{name} has no relic on its hook, and was not asked to leave a pool");
        return Err(ControlError::conflict(message).hint("`hd hook` takes the next relic"));
    }
    world.nudge(message::SHAMAN);
    for rig in &world.city.rigs {
        world.nudge(&message::witness(&rig.name));
    }
    if draining {
        let id = ChildId::Agent(name.clone());
        let due = RootMail::DrainDue { id, drain: None };
        world.directory.tell_root(due);
    }
    let (relic, status) = ended.map(|relic| (relic.id, relic.status)).unzip();
    to_json(&answers::Done::Agent(answers::AgentDone {
        name,
        state: draining.then_some(answers::Leaves::Draining),
        relic,
        status,
    }))
}

/// The end of an agent's work on a relic, as it declares it.
struct End {
    exit: Completion,
    until: Option<jiff::Timestamp>,
    reason: Option<String>,
}

impl End {
    fn parse(world: &World, args: &args::Done) -> Result<Self, ControlError> {
        let now = world.clock.now();
        let until = args.until.as_deref().map(|text| declared::time(text, now));
        Ok(Self {
            exit: args.status,
            until: until.transpose()?,
            reason: args.reason.clone(),
        })
    }
}

/// Ends the work on the relic of an agent's hook. Returns the relic; none when the hook is empty. Completed work whose
/// totem has open steps is refused.
fn finish(
    txn: &mut dyn Txn,
    agent: &AgentName,
    end: &End,
    (asker, hd): (&Asker, &str),
) -> Result<Result<Option<Relic>, ControlError>, StoreError> {
    let Some((hook, relic)) = agent_hooks::held(txn, agent)? else {
        return Ok(Ok(None));
    };
    if let Err(refused) = guard::may_finish(txn, &relic)? {
        return Ok(Err(refused));
    }
    let totem = totems::read(txn, &relic.id)?;
    if let (Completion::Completed, Some((_, open))) =
        (end.exit, totem.as_ref().and_then(orders::open))
    {
        let hint = format!(
            "`{hd} step done STEP` closes a step; if it cannot be done: {hd} done --status escalated --reason WHY"
        );
        return Ok(Err(ControlError::bad_request(open).hint(hint)));
    }
    let outcome = match end.exit {
        Completion::Completed => Outcome::Closed,
        Completion::Escalated => Outcome::Escalated,
        Completion::Deferred => Outcome::Deferred,
    };
    agent_work::end(txn, agent, (&hook, &relic), outcome, None)?;
    // What closes the relic finds no work of the agent on it any more.
    agent_hooks::drop(txn, agent)?;
    let relic = match end.exit {
        Completion::Completed => {
            let reason = end.reason.as_deref();
            closing::close(txn, relic, reason, asker)?.relic
        }
        Completion::Escalated | Completion::Deferred => {
            put_off(txn, agent, &hook, relic, end, asker)?
        }
    };
    Ok(Ok(Some(relic)))
}

/// Blocks or defers a relic, and calls a person about a blocked one.
fn put_off(
    txn: &mut dyn Txn,
    agent: &AgentName,
    hook: &AgentHook,
    mut relic: Relic,
    end: &End,
    asker: &Asker,
) -> Result<Relic, StoreError> {
    let is_stuck = end.exit == Completion::Escalated;
    relic.status = match is_stuck {
        true => RelicStatus::Blocked,
        false => RelicStatus::Deferred,
    };
    relic.until = end.until.filter(|_| !is_stuck);
    relic.assignee = Some(hook.assignee(agent));
    txn.put_relic(&relic)?;
    let data = json!({
        "status": relic.status, "assignee": relic.assignee, "until": relic.until, "reason": end.reason,
    });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, asker);
    txn.record(&event.with(data))?;
    if is_stuck {
        let evidence = end.reason.clone().unwrap_or_default();
        let call = Escalation::high(agent, ProblemKind::AgentStuck, evidence);
        let call = call.on(relic.id.clone()).medium();
        escalations::send(txn, agent.as_str(), Body::Help(call))?;
    }
    Ok(relic)
}

/// Checks the note of a handoff.
pub(super) fn check_note(note: Option<&str>) -> Result<(), ControlError> {
    if note.is_none_or(|note| note.len() <= handoff::NOTE_MAX) {
        return Ok(());
    }
    let message = format!("the note is longer than {} KiB", handoff::NOTE_MAX / 1024);
    Err(ControlError::bad_request(message).hint("write it into a file, and name the file"))
}

/// Stores the note of a handoff for the next session of an agent; it replaces the last one. `from` is the token of the
/// session that hands off.
pub(super) async fn leave_note(
    world: &World,
    agent: &AgentName,
    from: Option<String>,
    note: Option<String>,
    resume: bool,
) -> Result<(), ControlError> {
    let note = note.filter(|note| !note.is_empty());
    let agent = agent.clone();
    let left = world.store.run(move |txn| {
        let address = message::agent(&agent);
        let hook = agent_hooks::held(txn, &agent)?.map(|(hook, _)| hook);
        if note.is_none() {
            // The note of a step is for the session that begins it, which another one than that of the step before does.
            let handed = hook.and_then(|hook| hook.handed);
            let waits = handed.is_some_and(|handed| Some(&handed.closed_by) == from.as_ref());
            return match waits && handoffs::next_step(txn, &address)?.is_some() {
                true => Ok(()),
                false => handoffs::take(txn, &address),
            };
        }
        let note = Handoff {
            note: note.clone(),
            relic: hook.map(|hook| hook.relic),
            incarnation: None,
            totem_step: None,
            resume,
        };
        put_note(txn, &agent, note)
    });
    Ok(left.await?)
}

/// Stores a note for the next session of an agent; it replaces the last one.
pub(super) fn put_note(
    txn: &mut dyn Txn,
    agent: &AgentName,
    note: Handoff,
) -> Result<(), StoreError> {
    let address = message::agent(agent);
    handoffs::take(txn, &address)?;
    txn.send(&address, &address, Body::Handoff(note)).map(drop)
}

/// `rally`: the agent's name, its work and how it ends, how its last session ended, with the note of the last handoff, and
/// its drums.
pub(super) async fn rally(
    world: &World,
    caller: &Caller,
    session: &SessionId,
) -> Result<Value, ControlError> {
    let own = Own::of(world, caller, session).await?;
    let hd = world.hd();
    let mailboxes = drums::mailboxes_of(&world.city, &own.name);
    let (name, pool, of) = (own.name.clone(), own.pool.clone(), hd.clone());
    let read = world.store.run(move |txn| {
        let held = agent_hooks::held(txn, &name)?.map(|(_, relic)| relic);
        let next = match held {
            Some(_) => None,
            None => agent_hooks::next(txn, &name, pool.as_ref())?,
        };
        let notes = txn.inbox(&message::agent(&name))?.into_iter().rev();
        let mut notes = notes.filter_map(|message| match message.body {
            Body::Handoff(handoff) => Some((handoff.note?, message.sent_at)),
            _ => None,
        });
        let (note, totem) = (notes.next(), totem_of(txn, held.as_ref())?);
        let drums = drums::rallied(txn, &mailboxes, &of)?;
        Ok((held, next, note, drums, totem))
    });
    let (held, next, note, drums, totem) = read.await?;
    let session = own.view.spec.session;
    let last_end = last_end::read(world, &session).await;
    let finish = held
        .as_ref()
        .map(|relic| prompt::agent_outcome(&relic.id, &hd));
    let totem = progress(world, totem);
    let (note, note_at) = note.unzip();
    let next = next.map(|relic| format!("`{hd} hook` takes {}, which is ready", relic.id));
    to_json(&answers::Rally::Agent(Box::new(answers::AgentRally {
        agent: own.name,
        pool: own.pool,
        session,
        draining: own.view.draining,
        rules: finish.is_some().then(|| prompt::agent_rules(&hd)),
        finish,
        hd,
        relic: held,
        next,
        last_end,
        note,
        note_at,
        drums,
        totem,
    })))
}
