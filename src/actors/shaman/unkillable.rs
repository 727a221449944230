//! Sessions that outlive every signal: they are in the kernel's hands, and a person's.

use crate::actors::effects;
use crate::actors::records::escalations::{self, Entry, find, read_inbox};
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::RunState;
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId, SlotName};
use crate::domain::message::{self, Body, Escalation, Severity};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Relic;
use crate::ports::relics::Txn;
use crate::ports::sessions::SessionError;
use std::sync::Arc;

/// Calls a person, once, about a session that outlives every signal: it is in the kernel's hands, and
/// neither a restart nor waiting helps. One that cannot be seen was not tried.
pub(super) async fn call(world: Arc<World>, session: SessionId, why: String) {
    let seen = effects::facts(&world, &session).await;
    let Some(facts) = seen.ok().flatten() else {
        return;
    };
    if matches!(facts.state, RunState::Unknown { .. }) {
        return;
    }
    if let Err(error) = over(&world).await {
        tracing::warn!(%error, "a call about a session that has ended may stay open");
    }
    let subject = subject(&world, &session).await;
    let hint =
        "look for its processes (state D) and for what they wait for: a disk, a network mount";
    let body = Escalation {
        agent: subject,
        relic: None,
        problem: ProblemKind::Unkillable.of(&facts.token, ProblemKind::Unkillable.text()),
        severity: Severity::High,
        evidence: format!("{session} ({}): {why}\n{hint}", facts.token),
    };
    let told = world.store.run(move |txn| {
        if find(txn, &body)?.is_some() {
            return Ok(());
        }
        let data = serde_json::json!({ "session": session, "error": why });
        let event = NewEvent::new(EventType::AgentUnkillable, &body.agent, Cause::Internal);
        txn.record(&event.with(data))?;
        escalations::send(txn, "root", Body::Escalation(body.clone()))?;
        // Here and now: the next attempt finds it in the book.
        read_inbox(txn)
    });
    match told.await {
        Ok(()) => world.nudge(message::SHAMAN),
        Err(error) => {
            tracing::error!(%error, "nobody could be told of a session that does not end")
        }
    }
}

/// Closes the calls whose sessions have ended after all: when another hangs, people are called anew.
///
/// # Errors
/// Neither sessions nor store can be read.
pub(super) async fn over(world: &World) -> Result<(), Refusal> {
    let calls = world.store.run(|txn| {
        let mut open = escalations::open(txn)?;
        open.retain(|entry| entry.problem().kind() == ProblemKind::Unkillable);
        Ok(open)
    });
    let over = ended(world, calls.await?).await?;
    if over.is_empty() {
        return Ok(());
    }
    let settle = move |txn: &mut dyn Txn| escalations::settle(txn, over.clone(), Cause::Vanished);
    Ok(world.store.run(settle).await?)
}

/// Which of these calls are over: of the session that was meant nothing runs any more.
///
/// # Errors
/// The sessions cannot be listed.
async fn ended(world: &World, calls: Vec<Entry>) -> Result<Vec<Relic>, SessionError> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let sessions = effects::list(world).await?;
    let still = |entry: &Entry| {
        let (own, problem) = (session_of(world, entry.about().0), entry.problem());
        sessions.iter().any(|facts| {
            let lives = !matches!(facts.state, RunState::Exited(_));
            lives && facts.id.as_str() == own && problem.subject() == Some(facts.token.as_str())
        })
    };
    let over = calls.into_iter().filter(|entry| !still(entry));
    Ok(over.map(|entry| entry.relic).collect())
}

/// The id of the session of whom a call is about; an orphan goes by that.
fn session_of(world: &World, who: &str) -> String {
    if let Ok(raider) = who.parse::<RaiderId>() {
        return raider.session_id().to_string();
    }
    let agent = AgentName::new(who).ok().map(ChildId::Agent);
    let known = agent.filter(|agent| {
        let session = agent.session_id(&world.city.name);
        world.city.standing(&session).is_some()
    });
    known.map_or(who.to_owned(), |agent| {
        agent.session_id(&world.city.name).to_string()
    })
}

/// Whose session it is. Where the name of one rig begins that of another, several raiders may have
/// sessions of that id: it is the one's that has work.
async fn subject(world: &World, session: &SessionId) -> String {
    if let Some(agent) = world.city.standing(session) {
        return agent.to_string();
    }
    let raider = |rig: &Rig| {
        let name = session
            .as_str()
            .strip_prefix(&format!("gt-{}-", rig.name))?;
        Some(RaiderId::new(rig.name.clone(), SlotName::new(name).ok()?))
    };
    let mut raiders: Vec<_> = world.city.rigs.iter().filter_map(raider).collect();
    // The longest name of a rig, where nobody has work.
    raiders.sort_by_key(|raider| std::cmp::Reverse(raider.rig.as_str().len()));
    let asked = raiders.clone();
    let working = world.store.run(move |txn| {
        for raider in &asked {
            if txn.hook(raider)?.is_some() {
                return Ok(Some(raider.clone()));
            }
        }
        Ok(None)
    });
    let known = working.await.ok().flatten();
    let raider = known.or_else(|| raiders.into_iter().next());
    raider.map_or(session.to_string(), |raider| raider.to_string())
}
