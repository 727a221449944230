//! Stopping, in two passes and in order: children first (all at once, each with its grace, then
//! killed), then the infrastructure in reverse order of its start, the store last.
//!
//! ```text
//!  Stop ──► children told ──► none left, or deadline ──► infrastructure ──► stopped
//!              │                     ▲
//!              └── a second Stop: no grace ──┘
//! ```

use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};

use super::super::child::ChildMsg;
use super::super::dispatcher::DispatcherMsg;
use super::slot::{ChildState, Slot};
use super::{Root, RootMsg};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::ChildId;

/// How the tree is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// End every session within its grace.
    Graceful,
    /// End every session now.
    Now,
    /// Leave the sessions running for the next start to adopt.
    KeepSessions,
}

/// A stop under way.
pub(super) struct Stopping {
    mode: StopMode,
    replies: Vec<RpcReplyPort<()>>,
    finished: bool,
}

impl Stopping {
    /// Whether the sessions run on.
    pub(super) fn keeps_sessions(&self) -> bool {
        self.mode == StopMode::KeepSessions
    }
}

/// What comes on top of the longest grace: killing takes a moment, and must not take for ever.
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
            finished: false,
        });
        stopping.replies.extend(reply);
        self.world.stopping.store(true, Ordering::Relaxed);
        let worse = mode == StopMode::Now && stopping.mode != StopMode::Now;
        if !first && !worse {
            return;
        }
        stopping.mode = mode;
        self.world.directory.tell_dispatcher(DispatcherMsg::Stop);
        if mode != StopMode::KeepSessions {
            // What is being started ends as soon as it is up, even when its child is gone by then.
            self.world.starts.close();
        }
        let graces = self.slots.values().map(Slot::grace);
        let longest = match mode {
            // Those that others depend on end after these.
            StopMode::Graceful => graces.max().unwrap_or_default() * self.depth(),
            StopMode::Now | StopMode::KeepSessions => Duration::ZERO,
        };
        let _timer = me.send_after(longest + MARGIN, || RootMsg::StopDeadline);
        self.stopped_one(me);
    }

    /// Tells those to end whose turn it is: in the reverse order of `depends_on` while there is
    /// time for that, all at once otherwise.
    fn end_next(&mut self, mode: StopMode) {
        let untold = |(id, slot): (&ChildId, &Slot)| (slot.told != Some(mode)).then(|| id.clone());
        let mut ids: Vec<_> = self.slots.iter().filter_map(untold).collect();
        if mode == StopMode::Graceful && !ids.is_empty() {
            let needed = self.needed();
            ids.retain(|id| !self.is_one_of(id, &needed));
        }
        for id in ids {
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            slot.told = Some(mode);
            slot.tell(match mode {
                StopMode::KeepSessions => ChildMsg::Detach,
                StopMode::Graceful => ChildMsg::End(slot.grace()),
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
        let Some(stopping) = &self.stopping else {
            return;
        };
        if !stopping.finished && self.slots.values().all(|slot| !slot.is_tended()) {
            self.finish(me);
        }
    }

    /// Somebody did not make it in time: say who, and go on.
    pub(super) fn stop_deadline(&mut self, me: &ActorRef<RootMsg>) {
        let Some(stopping) = &self.stopping else {
            return;
        };
        if stopping.finished {
            return;
        }
        for (id, slot) in self.slots.iter().filter(|(_, slot)| slot.is_tended()) {
            tracing::error!(child = %id, "it did not stop in time; the next start finds it");
            slot.kill();
        }
        self.finish(me);
    }

    fn finish(&mut self, me: &ActorRef<RootMsg>) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        stopping.finished = true;
        let data = serde_json::json!({ "mode": format!("{:?}", stopping.mode) });
        let replies = std::mem::take(&mut stopping.replies);
        let city = self.world.city.name.clone();
        self.note(NewEvent::new(EventType::ControllerStopped, city, Cause::Shutdown).with(data));
        let infra: Vec<_> = self
            .infra
            .iter_mut()
            .rev()
            .filter_map(super::infra::Infra::take)
            .collect();
        let me = me.clone();
        tokio::spawn(async move {
            for cell in infra {
                // Each gets a moment; the store flushes what it holds when it stops.
                if cell.stop_and_wait(None, Some(MARGIN)).await.is_err() {
                    tracing::error!("an infrastructure actor did not stop in time");
                }
            }
            for reply in replies {
                let _gave_up = reply.send(());
            }
            me.stop(None);
        });
    }
}

impl Slot {
    /// What a view of it would say while stopping.
    pub(super) fn is_tended(&self) -> bool {
        self.has_actor() || self.state_now() == ChildState::Ending
    }
}
