//! Stopping, in two passes and in order: children first (all at once, each with its grace, then
//! killed) together with what automations run, then the infrastructure in reverse order of its
//! start, the store last.
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
        if mode != StopMode::KeepSessions {
            // What is being started ends as soon as it is up, even when its child is gone by then.
            self.world.starts.close();
        }
        self.world.directory.tell_dispatcher(DispatcherMsg::Stop);
        let mut longest = Duration::ZERO;
        for slot in self.slots.values() {
            let grace = match mode {
                StopMode::Graceful => slot.grace(),
                StopMode::Now | StopMode::KeepSessions => Duration::ZERO,
            };
            longest = longest.max(grace);
            slot.tell(match mode {
                StopMode::KeepSessions => ChildMsg::Detach,
                StopMode::Graceful | StopMode::Now => ChildMsg::End(grace),
            });
        }
        let _timer = me.send_after(longest + MARGIN, || RootMsg::StopDeadline);
        self.stopped_one(me);
    }

    /// Goes on when no child's actor is left.
    pub(super) fn stopped_one(&mut self, me: &ActorRef<RootMsg>) {
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
