//! The stop, in two passes and in order: children first (all at once, each with its grace, then killed) and every
//! session without a child, then the infrastructure in reverse order of its start, the store last.
//!
//! ```text
//!  Stop ──► children told ──► none left, or deadline ──► whatever runs yet ──► infrastructure ──► stopped
//!              │                     ▲                     (or deadline)
//!              └── a second Stop: no grace ──┘
//! ```

use crate::actors::root::Survivors;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};
use tokio::task::JoinSet;

use super::super::effects;
use super::super::mail::StopMode;
use super::super::world::World;
use super::child_record::ChildRecord;
use super::{Root, RootMsg};
use crate::actors::mail::ChildState;
use crate::actors::mail::DispatcherMsg;
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::ChildId;
use crate::ports::sessions::Stopped;

/// A stop under way.
pub(super) struct Stopping {
    mode: StopMode,
    replies: Vec<RpcReplyPort<()>>,
    pass: Pass,
}

/// The progress of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Children end.
    Children,
    /// Sessions without a child end.
    Strays,
    /// The infrastructure ends.
    Infrastructure,
}

impl Stopping {
    /// Returns true when the sessions run on.
    pub(super) fn keeps_sessions(&self) -> bool {
        self.mode == StopMode::KeepSessions
    }
}

/// Time added to the longest grace for the kill itself, so that a stop cannot hang.
const MARGIN: Duration = Duration::from_secs(10);

impl Root {
    pub(super) fn stop(
        &mut self,
        me: &ActorRef<RootMsg>,
        mode: StopMode,
        reply: Option<RpcReplyPort<()>>,
    ) {
        let first = self.stopping.is_none();
        let stopping = self.stopping.get_or_insert_with(|| Stopping {
            mode,
            replies: Vec::new(),
            pass: Pass::Children,
        });
        stopping.replies.extend(reply);
        self.world.stopping.store(true, Ordering::Relaxed);
        if !first && mode == StopMode::Now && stopping.keeps_sessions() {
            // Some sessions were left running already: only the wait is cut short.
            return self.stop_due(me, Pass::Children);
        }
        let worse = mode == StopMode::Now && stopping.mode != StopMode::Now;
        if !first && !worse {
            return;
        }
        stopping.mode = mode;
        self.world.directory.tell_dispatcher(DispatcherMsg::Stop);
        if mode != StopMode::KeepSessions {
            // A session that is being started ends as soon as it is up, even if its child is gone by then.
            self.world.starts.close();
            self.world.sessions.stopping();
        }
        let graces = self.children.values().map(ChildRecord::grace);
        let longest = match mode {
            // Agents that others depend on end after those.
            StopMode::Graceful => graces.max().unwrap_or_default() * self.depth(),
            StopMode::Now | StopMode::KeepSessions => Duration::ZERO,
        };
        due(me, Pass::Children, longest);
        self.stopped_one(me);
    }

    /// Tells the next children to end: in the reverse order of `depends_on` while there is time for that, else all at
    /// once.
    fn end_next(&mut self, mode: StopMode) {
        let untold = |(id, record): (&ChildId, &ChildRecord)| {
            (record.stop_sent != Some(mode)).then(|| id.clone())
        };
        let mut ids: Vec<_> = self.children.iter().filter_map(untold).collect();
        if mode == StopMode::Graceful && !ids.is_empty() {
            let needed = self.needed();
            ids.retain(|id| !self.is_one_of(id, &needed));
        }
        for id in ids {
            let Some(record) = self.children.get_mut(&id) else {
                continue;
            };
            record.stop_sent = Some(mode);
            record.send(match mode {
                StopMode::KeepSessions => ChildMsg::Detach,
                StopMode::Graceful => ChildMsg::End(record.grace()),
                StopMode::Now => ChildMsg::End(Duration::ZERO),
            });
        }
    }

    /// Goes on when no child's actor is left.
    pub(super) fn stopped_one(&mut self, me: &ActorRef<RootMsg>) {
        let Some(mode) = self.stopping.as_ref().map(|stopping| stopping.mode) else {
            return;
        };
        self.end_next(mode);
        if self.children.values().all(|record| !record.is_tended()) {
            self.end_strays(me, mode);
        }
    }

    /// Ends the sessions that run without a child: their child could not observe them or had just died, or no look has
    /// found them yet.
    fn end_strays(&mut self, me: &ActorRef<RootMsg>, mode: StopMode) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        if stopping.pass == Pass::Infrastructure {
            return;
        }
        if mode == StopMode::KeepSessions {
            return self.finish(me);
        }
        stopping.pass = Pass::Strays;
        let grace = match mode {
            StopMode::Graceful => self.world.city.daemon.shutdown_timeout,
            StopMode::Now | StopMode::KeepSessions => Duration::ZERO,
        };
        due(me, Pass::Strays, grace);
        let (world, left) = (Arc::clone(&self.world), Arc::clone(&self.left));
        let me = me.clone();
        tokio::spawn(async move {
            strays(&world, &left, grace).await;
            // The deadline has passed.
            let _gone = me.cast(RootMsg::StopDue(Pass::Strays));
        });
    }

    /// Ends a pass that is over or whose deadline has passed: logs the children that did not stop, and goes on.
    pub(super) fn stop_due(&mut self, me: &ActorRef<RootMsg>, pass: Pass) {
        let Some(stopping) = self.stopping.as_ref().filter(|now| now.pass == pass) else {
            return;
        };
        let keeps = stopping.keeps_sessions();
        for (id, record) in self
            .children
            .iter()
            .filter(|(_, record)| record.is_tended())
        {
            tracing::error!(
                child = %id,
                "child did not stop before the deadline; its session may run on and is found at \
                the next start"
            );
            record.kill();
        }
        if pass == Pass::Children && !keeps {
            return self.end_strays(me, StopMode::Now);
        }
        self.finish(me);
    }

    fn finish(&mut self, me: &ActorRef<RootMsg>) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        stopping.pass = Pass::Infrastructure;
        let left = self.left.list();
        let data = serde_json::json!({ "mode": format!("{:?}", stopping.mode), "left": left });
        let replies = std::mem::take(&mut stopping.replies);
        let city = self.world.city.name.clone();
        self.journal(NewEvent::new(EventType::ControllerStopped, city, Cause::Shutdown).with(data));
        let infra: Vec<_> = self
            .infra
            .iter_mut()
            .rev()
            .filter_map(super::infra::Infra::take)
            .collect();
        let me = me.clone();
        tokio::spawn(async move {
            for cell in infra {
                // The store flushes its queue when it stops.
                if cell.stop_and_wait(None, Some(MARGIN)).await.is_err() {
                    tracing::error!(
                        actor = ?cell.get_name(),
                        id = %cell.get_id(),
                        "an infrastructure actor did not stop within 10 s; the stop goes on \
                        without it"
                    );
                }
            }
            for reply in replies {
                let _gave_up = reply.send(());
            }
            me.stop(None);
        });
    }
}

/// Arms the deadline of a pass.
fn due(me: &ActorRef<RootMsg>, pass: Pass, grace: Duration) {
    let _timer = me.send_after(grace + MARGIN, move || RootMsg::StopDue(pass));
}

/// The number of sessions that are ended at once in the first round ...
const AT_ONCE: usize = 64;
/// ... and in later rounds: each takes file descriptors, which may be scarce.
const FEW: usize = 4;
/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(250);

/// Ends every running session, in rounds until none is left or the time is up. Sessions that are not known to have
/// ended are noted in `left`.
async fn strays(world: &Arc<World>, left: &Survivors, grace: Duration) {
    let begun = world.clock.mono();
    let mut at_once = AT_ONCE;
    loop {
        let again = match effects::list(world).await {
            Ok(sessions) => {
                left.clear();
                end_all(world, left, sessions, grace, at_once).await
            }
            Err(error) => {
                left.add("all", error);
                true
            }
        };
        let running = left.list();
        let over = world.clock.mono().saturating_sub(begun) >= grace + MARGIN / 2;
        if !again || over {
            if !running.is_empty() {
                tracing::error!(
                    left = ?running,
                    "some sessions could not be ended by the stop; the next start finds them"
                );
            }
            return;
        }
        at_once = FEW;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Ends these sessions; already ended ones cost nothing. Returns true when another round is needed: sessions that could
/// not be observed were not tried.
async fn end_all(
    world: &Arc<World>,
    left: &Survivors,
    sessions: Vec<SessionFacts>,
    grace: Duration,
    at_once: usize,
) -> bool {
    let runs = |facts: &SessionFacts| !matches!(facts.state, RunState::Exited(_));
    let mut tried = Vec::new();
    for facts in sessions.into_iter().filter(runs) {
        match &facts.state {
            RunState::Unknown { why } => left.add(&facts.id, why),
            _ => {
                left.add(&facts.id, "it was not ended in time");
                tried.push(facts);
            }
        }
    }
    let (mut tried, mut failed) = (tried.into_iter(), false);
    let mut ends = JoinSet::new();
    loop {
        while ends.len() < at_once
            && let Some(facts) = tried.next()
        {
            let world = Arc::clone(world);
            ends.spawn(async move {
                let id = facts.id.clone();
                (id, effects::stop_seen(&world, facts, grace).await)
            });
        }
        match ends.join_next().await {
            None => return failed,
            Some(Ok((id, Ok(how)))) => {
                left.ended(id.as_str());
                if how != Stopped::Already {
                    let data = serde_json::json!({ "how": format!("{how:?}") });
                    let event = NewEvent::new(EventType::AgentOrphanStopped, id, Cause::Shutdown);
                    world.store.journal(vec![event.with(data)]);
                }
            }
            Some(Ok((id, Err(error)))) => {
                failed = true;
                left.add(id, error);
            }
            Some(Err(error)) => tracing::error!(
                %error,
                "the task that ends sessions failed; the event of the stop lists those that may run on"
            ),
        }
    }
}

impl ChildRecord {
    /// Returns true when the child still counts as running for a stop.
    pub(super) fn is_tended(&self) -> bool {
        self.has_actor() || self.child.state() == ChildState::Ending
    }
}
