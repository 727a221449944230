//! Sessions that no signal ends: a person is called.

use crate::actors::effects;
use crate::actors::records::escalations::{self, Entry, find, read_inbox};
use crate::actors::refusal::Refusal;
use crate::actors::store::about;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::RunState;
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId, SlotName};
use crate::domain::message::{self, Body, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Relic;
use crate::ports::relics::Txn;
use crate::ports::sessions::SessionError;
use std::sync::Arc;

/// Calls a person, once, about a session that survives every signal: it hangs in the kernel, and neither a restart nor
/// waiting helps. A session that cannot be observed was not tried.
pub(super) async fn call(world: Arc<World>, session: SessionId, why: String) {
    let seen = effects::facts(&world, &session).await;
    let Some(facts) = seen.ok().flatten() else {
        return;
    };
    if matches!(facts.state, RunState::Unknown { .. }) {
        return;
    }
    or_warn!(
        close_ended(&world).await,
        "the escalations about sessions that have ended could not be closed; they may stay open"
    );
    let subject = subject(&world, &session).await;
    let hint = "check its processes: state D waits for a disk or a network mount";
    let body = Escalation::high(
        subject,
        ProblemKind::Unkillable.of(&facts.token, ProblemKind::Unkillable.text()),
        format!("{session} ({}): {why}\n{hint}", facts.token),
    );
    let hung = session.clone();
    let told = world.store.run(move |txn| {
        if find(txn, &body)?.is_some() {
            return Ok(());
        }
        let data = serde_json::json!({ "session": hung, "error": why });
        let event = NewEvent::new(EventType::AgentUnkillable, &body.agent, Cause::Internal);
        about::record(txn, &event.with(data))?;
        escalations::send(txn, "root", Body::Escalation(body.clone()))?;
        // Handled here, so that the next attempt finds the open escalation.
        read_inbox(txn)
    });
    match told.await {
        Ok(()) => world.nudge(message::SHAMAN),
        Err(error) => {
            tracing::error!(
                %session,
                %error,
                "the escalation about a session that does not end could not be stored; no person is called"
            )
        }
    }
}

/// Closes the escalations whose sessions have ended after all: when another session hangs, people are called again.
///
/// # Errors
/// Neither sessions nor store can be read.
pub(super) async fn close_ended(world: &World) -> Result<(), Refusal> {
    let calls = world.store.run(|txn| {
        let mut open = escalations::open(txn)?;
        open.retain(|entry| entry.problem().kind() == ProblemKind::Unkillable);
        Ok(open)
    });
    let over = ended(world, calls.await?).await?;
    if over.is_empty() {
        return Ok(());
    }
    let settle = move |txn: &mut dyn Txn| escalations::close(txn, over.clone(), Cause::Vanished);
    Ok(world.store.run(settle).await?)
}

/// Returns the escalations that are over: the session that they were about does not run any more.
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

/// Returns the id of the session that an escalation is about; an orphan's subject is that id.
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

/// Returns the owner of a session. If one rig's name is a prefix of another's, several raiders may have sessions of
/// that id: then the raider with work is the owner.
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
    // Without work, the raider of the rig with the longest name.
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
