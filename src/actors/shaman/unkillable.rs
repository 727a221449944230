//! Sessions that outlive every signal: they are in the kernel's hands, and a person's.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::settle::{self, UNKILLABLE};
use super::{book, find, read_inbox};
use crate::actors::effects;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::RunState;
use crate::domain::ids::{RaiderId, SessionId, SlotName};
use crate::domain::message::{self, Body, Escalation, Severity};
use crate::ports::relics::Txn;

/// Sessions that could not be ended since this process began.
#[derive(Default)]
pub struct Undead(Mutex<BTreeSet<SessionId>>);

impl Undead {
    fn sessions(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It could not be ended.
    pub fn insert(&self, session: SessionId) {
        self.sessions().insert(session);
    }

    /// Whether it was one of them; it is none any more.
    pub fn remove(&self, session: &SessionId) -> bool {
        self.sessions().remove(session)
    }
}

/// Calls a person, once, about a session that outlives every signal: it is in the kernel's hands, and
/// neither a restart nor waiting helps. One that cannot be seen was not tried.
pub async fn call(world: World, session: SessionId, why: String) {
    let seen = effects::facts(&world, &session).await;
    let Some(facts) = seen.ok().flatten() else {
        return;
    };
    if matches!(facts.state, RunState::Unknown { .. }) {
        return;
    }
    let subject = subject(&world, &session).await;
    let hint =
        "look for its processes (state D) and for what they wait for: a disk, a network mount";
    let body = Escalation {
        agent: subject,
        relic: None,
        problem: UNKILLABLE.to_owned(),
        severity: Severity::High,
        evidence: format!("{session}: {why}\n{hint}"),
    };
    let told = world.store.run(move |txn| {
        settle::vanished(txn)?;
        if find(txn, &body)?.is_some() {
            return Ok(());
        }
        let data = serde_json::json!({ "session": session, "error": why });
        let event = NewEvent::new(EventType::AgentUnkillable, &body.agent, Cause::Internal);
        txn.record(&event.with(data))?;
        book::send(txn, "root", Body::Escalation(body.clone()))?;
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

/// It has ended after all: when another hangs, people are called anew.
pub async fn over(world: World, session: SessionId) {
    let subject = subject(&world, &session).await;
    let over = move |txn: &mut dyn Txn| settle::over(txn, &[UNKILLABLE], |who, _| who == subject);
    if let Err(error) = world.store.run(over).await {
        tracing::warn!(%error, "a call about a session that has ended stays open");
        world.directory.undead.insert(session);
    }
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
