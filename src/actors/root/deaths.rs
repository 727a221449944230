//! Deaths of raiders and agents, and what answers them: restart, back-off, quarantine or rest. What has
//! no sandbox to start in does not die of that.

use jiff::Timestamp;
use ractor::ActorRef;

use super::super::child::ChildExit;
use super::children::tell_operators;
use super::slot::{ChildState, Desired};
use super::{Root, RootMsg, Work};
use crate::domain::cause::Cause;
use crate::domain::city::RestartType;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::SessionExit;
use crate::domain::ids::{ChildId, Generation};
use crate::domain::restart::Answer;

impl Root {
    /// A death: crashed, then restarted, quarantined or left at rest. `planned` is the cause of an
    /// end that was none of the session's own.
    pub(super) async fn died(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        exit: Option<ChildExit>,
        planned: Cause,
    ) {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let policy = self.world.city.daemon.restart.clone();
        let together = self.concerns_others(id);
        let rests = self.tell_end(id, exit, planned);
        let Some(slot) = self.slots.get_mut(id).filter(|_| !rests) else {
            return;
        };
        let healthy = slot.up_at.take().map(|up_at| mono.saturating_sub(up_at));
        if let (Some(healthy), Some(stable)) = (healthy, policy.stable_after)
            && healthy >= stable
        {
            slot.deaths.clear();
        }
        slot.epoch += 1;
        let delay = match slot.deaths.on_death(&policy, mono, (self.world.random)()) {
            Answer::Restart { after } if after.is_zero() && !together => {
                return self.spawn_child(me, id).await;
            }
            Answer::Restart { after } => {
                slot.back_off(now, after);
                after
            }
            Answer::Quarantine { until } => {
                slot.become_state(ChildState::Quarantined, now);
                let wait = until.saturating_sub(mono);
                let data = serde_json::json!({
                    "until": now.checked_add(wait).unwrap_or(Timestamp::MAX),
                    "deaths": slot.deaths.count(&policy, mono),
                });
                let event = NewEvent::new(EventType::AgentQuarantined, id, Cause::TooManyDeaths);
                self.world.store.note(vec![event.with(data)]);
                wait
            }
        };
        let epoch = slot.epoch;
        if self.restart_together(me, id, delay) {
            return;
        }
        let id = id.clone();
        let _timer = me.send_after(delay, move || RootMsg::Retry { id, epoch });
    }

    /// Says how a child came to its end; true when it rests after that. What its restart type takes for
    /// a good end is no crash.
    fn tell_end(&mut self, id: &ChildId, exit: Option<ChildExit>, planned: Cause) -> bool {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return true;
        };
        let (cause, how, mut data) = describe(exit, slot.generation, planned);
        if let Some(tail) = slot.tail.take() {
            data["tail"] = tail.into();
        }
        if let Work::Raider { hook, .. } = &slot.spec.work {
            data["relic"] = hook.relic.as_str().into();
            if how.as_ref().is_some_and(|exit| exit.code == Some(0)) {
                data["why"] = "ended without hd done or an outcome".into();
            }
        }
        let restart = slot.spec.restart;
        let rests = std::mem::take(&mut slot.tried) || rests(restart, how.as_ref());
        // A cycle that counts as a death is over: what follows is the restart of a wanted child.
        slot.desired = Desired::Up;
        let good = how.filter(|how| restart != RestartType::Permanent && is_good(how));
        slot.cause = match &good {
            Some(SessionExit { code: Some(_), .. }) => Cause::Completed,
            Some(_) => Cause::Signal,
            None => cause,
        };
        let cause = slot.cause;
        if rests {
            slot.become_state(ChildState::Stopped, now);
        }
        let event = |kind| NewEvent::new(kind, id, cause);
        self.world.store.note(match (good, rests) {
            (Some(_), _) => vec![event(EventType::AgentStopped).with(data)],
            (None, true) => vec![
                event(EventType::AgentCrashed).with(data),
                event(EventType::AgentStopped),
            ],
            (None, false) => vec![event(EventType::AgentCrashed).with(data)],
        });
        rests
    }

    /// There is nothing to start it in, which is no death of it: nothing is made of that but known, until
    /// the sandbox is there again, be it by a repair.
    pub(super) fn homeless(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, why: String) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if !std::mem::replace(&mut slot.homeless, true) {
            let hint = format!("`hd raider repair {id}` makes it whole");
            let data = serde_json::json!({ "error": why, "hint": hint });
            let event = NewEvent::new(EventType::RaiderHomeless, id, Cause::StartFailed);
            self.world.store.note(vec![event.with(data)]);
        }
        slot.desired = Desired::Up;
        tell_operators(slot, Some(&ChildExit::Homeless(why)));
        if std::mem::take(&mut slot.tried) {
            return slot.become_state(ChildState::Stopped, now);
        }
        let pause = self.world.city.daemon.patrol_interval;
        slot.back_off(now, pause);
        slot.epoch += 1;
        let (id, epoch) = (id.clone(), slot.epoch);
        let _timer = me.send_after(pause, move || RootMsg::Retry { id, epoch });
    }
}

/// Cause, how the session ended, and particulars of the event.
fn describe(
    exit: Option<ChildExit>,
    generation: Generation,
    planned: Cause,
) -> (Cause, Option<SessionExit>, serde_json::Value) {
    let generation = generation.0.saturating_sub(1);
    match exit {
        Some(ChildExit::Died { cause, exit, tail }) => {
            let data = serde_json::json!({
                "code": exit.as_ref().and_then(|exit| exit.code),
                "signal": exit.as_ref().and_then(|exit| exit.signal),
                "generation": generation, "tail": tail,
            });
            (cause, exit, data)
        }
        Some(
            ChildExit::StartFailed(why)
            | ChildExit::Homeless(why)
            | ChildExit::Unseen(why)
            | ChildExit::Unwritable(why),
        ) => (
            Cause::StartFailed,
            None,
            serde_json::json!({ "error": why }),
        ),
        Some(ChildExit::Undead(why) | ChildExit::Broken(why)) => {
            (Cause::Internal, None, serde_json::json!({ "error": why }))
        }
        Some(ChildExit::Finished | ChildExit::Ended(_)) | None => (
            planned,
            None,
            serde_json::json!({ "generation": generation }),
        ),
    }
}

/// Whether this restart type answers such an end with rest (OTP's meaning: a transient child rests
/// after a good end, a temporary one after any).
fn rests(restart: RestartType, exit: Option<&SessionExit>) -> bool {
    match restart {
        RestartType::Permanent => false,
        RestartType::Transient => exit.is_some_and(is_good),
        RestartType::Temporary => true,
    }
}

/// OTP's `normal` and `shutdown`; to an operating system the latter is a TERM.
fn is_good(exit: &SessionExit) -> bool {
    const TERM: i32 = 15;
    exit.code == Some(0) || exit.signal == Some(TERM)
}
