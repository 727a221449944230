//! Deaths of raiders and agents and the response to them: restart, back-off, quarantine or rest. A missing sandbox is
//! not a death.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ractor::ActorRef;

use super::children::answer_operators;
use super::slot::Desired;
use super::{Root, RootMsg};
use crate::actors::mail::ChildState;
use crate::actors::mail::Work;
use crate::actors::records::quarantine;
use crate::actors::session::child::ChildExit;
use crate::actors::session::launch::is_crash;
use crate::domain::cause::Cause;
use crate::domain::city::RestartType;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::SessionExit;
use crate::domain::ids::{ChildId, Generation};
use crate::domain::message;
use crate::domain::quarantine::{self as quarantine_report, Deaths};
use crate::domain::restart::Answer;

impl Root {
    /// Handles a death: notes the crash, then restarts the child, quarantines it or leaves it at rest. `planned` is the
    /// cause of an end that the session did not bring about itself.
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
        let Some(last) = self.journal_end(id, exit, planned) else {
            return;
        };
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.crashed |= is_crash(slot.cause);
        let healthy = slot.up_at.take().map(|up_at| mono.saturating_sub(up_at));
        if let (Some(healthy), Some(stable)) = (healthy, policy.stable_after)
            && healthy >= stable
        {
            slot.deaths.clear();
        }
        slot.epoch += 1;
        if last.by_person {
            // No death: an attached person may end the session as often as they like. It restarts at once.
            slot.back_off(now, Duration::ZERO);
            if !self.restart_together(me, id, Duration::ZERO) {
                self.spawn_child(me, id).await;
            }
            return;
        }
        let (mut quarantined, raider) = (None, matches!(id, ChildId::Raider(_)));
        let tried = std::mem::take(&mut slot.on_trial) && raider;
        let relapsed = tried && healthy.is_none_or(|healthy| healthy < policy.window);
        let answer = match relapsed {
            true => slot.deaths.on_relapse(&policy, mono),
            false => slot.deaths.on_death(&policy, mono, (self.world.random)()),
        };
        let delay = match answer {
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
                quarantined = Some(Deaths {
                    count: slot.deaths.count(&policy, mono),
                    within: (!relapsed).then(|| slot.deaths.span(&policy, mono)),
                    last: last.how,
                    output: last.output,
                    until: now.checked_add(wait).unwrap_or(Timestamp::MAX),
                });
                wait
            }
        };
        let epoch = slot.epoch;
        if let Some(deaths) = quarantined {
            self.quarantined(id, deaths);
        }
        if self.restart_together(me, id, delay) {
            return;
        }
        let id = id.clone();
        let _timer = me.send_after(delay, move || RootMsg::Retry { id, epoch });
    }

    /// Journals that a child is quarantined. A raider's relic is blocked until an operator acts or its work is done,
    /// and an escalation is opened; if the store refuses the write, the witness retries at its patrol.
    fn quarantined(&mut self, id: &ChildId, deaths: Deaths) {
        let died_of = deaths.died_of();
        let data = serde_json::json!({
            "until": deaths.until, "deaths": deaths.count, "within_s": deaths.within.map(|within| within.as_secs()),
            "last": died_of,
        });
        let event = NewEvent::new(EventType::AgentQuarantined, id, Cause::TooManyDeaths);
        self.world.store.journal(vec![event.with(data)]);
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.died_of = Some(died_of);
        let hook = match &slot.spec.work {
            Work::Raider { hook, .. } => Arc::clone(hook),
            Work::Agent(_) => return,
        };
        // The write takes its place in the store's queue here, so that an operator's later action is written after it.
        let blocking = (self.world.store).begin(move |txn| quarantine::block(txn, &hook, &deaths));
        let (world, id) = (Arc::clone(&self.world), id.clone());
        tokio::spawn(async move {
            match blocking.await {
                Ok(()) => world.nudge(message::SHAMAN),
                Err(error) => {
                    tracing::warn!(
                        child = %id,
                        %error,
                        "the relic of a quarantined raider could not be blocked; the witness \
                        retries at its patrol"
                    );
                }
            }
        });
    }

    /// Journals the end of a child, and returns its description; none when the child rests after it. An end that the
    /// restart type accepts as good is no crash.
    fn journal_end(
        &mut self,
        id: &ChildId,
        exit: Option<ChildExit>,
        planned: Cause,
    ) -> Option<LastWords> {
        let now = self.world.clock.now();
        let slot = self.slots.get_mut(id)?;
        let (cause, how, mut data) = describe(exit, slot.generation, planned);
        if let Some(tail) = slot.tail.take() {
            data["tail"] = tail.into();
        }
        let last = LastWords::of(how.as_ref(), &data, cause);
        if let Work::Raider { hook, .. } = &slot.spec.work {
            data["relic"] = hook.relic.as_str().into();
            if how.as_ref().is_some_and(|exit| exit.code == Some(0)) {
                data["why"] = "ended without hd done or an outcome".into();
            }
        }
        let restart = slot.spec.restart;
        let by_person = cause == Cause::EndedByPerson;
        let rests = std::mem::take(&mut slot.tried) || rests(restart, how.as_ref());
        // A cycle that counts as a death is over: the next step is the restart of a wanted child.
        slot.desired = Desired::Up;
        let good = how.filter(|how| restart != RestartType::Permanent && is_good(how));
        slot.cause = match &good {
            Some(SessionExit { code: Some(_), .. }) if !by_person => Cause::Completed,
            Some(_) if !by_person => Cause::Signal,
            Some(_) | None => cause,
        };
        let cause = slot.cause;
        if rests {
            slot.become_state(ChildState::Stopped, now);
        }
        let event = |kind| NewEvent::new(kind, id, cause);
        self.world.store.journal(match (good, rests) {
            (_, true) if by_person => vec![event(EventType::AgentStopped).with(data)],
            (_, false) if by_person => vec![event(EventType::AgentRestarted).with(data)],
            (Some(_), _) => vec![event(EventType::AgentStopped).with(data)],
            (None, true) => vec![
                event(EventType::AgentCrashed).with(data),
                event(EventType::AgentStopped),
            ],
            (None, false) => vec![event(EventType::AgentCrashed).with(data)],
        });
        (!rests).then_some(last)
    }

    /// Puts off the start of a child whose sandbox is missing. Not a death: the child waits until the sandbox is there
    /// again, for example after a repair.
    pub(super) fn homeless(&mut self, me: &ActorRef<RootMsg>, id: &ChildId, why: String) {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if !std::mem::replace(&mut slot.homeless, true) {
            let hint = format!("`hd raider repair {id}` rebuilds it");
            let data = serde_json::json!({ "error": why, "hint": hint });
            let event = NewEvent::new(EventType::RaiderHomeless, id, Cause::StartFailed);
            self.world.store.journal(vec![event.with(data)]);
        }
        slot.desired = Desired::Up;
        answer_operators(slot, Some(&ChildExit::Homeless(why)));
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

/// The end and the last output of a session, as the quarantine's escalation reports them.
struct LastWords {
    how: String,
    output: String,
    /// Set when an attached person ended the session.
    by_person: bool,
}

impl LastWords {
    /// Built from the exit and the data of its event. A session that failed to start has no output: the start error is
    /// reported.
    fn of(how: Option<&SessionExit>, data: &serde_json::Value, cause: Cause) -> Self {
        let by_person = cause == Cause::EndedByPerson;
        let word = |key: &str| data.get(key).and_then(serde_json::Value::as_str);
        match word("error") {
            Some(error) => Self {
                how: "a failed start".to_owned(),
                output: error.to_owned(),
                by_person,
            },
            None => Self {
                how: quarantine_report::how(how),
                output: word("tail").unwrap_or_default().to_owned(),
                by_person,
            },
        }
    }
}

/// Returns the cause, the description of the exit, and the data of the event.
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

/// Returns true when this restart type leaves the child at rest after such an end (OTP: a transient child rests after a
/// good end, a temporary one after any).
fn rests(restart: RestartType, exit: Option<&SessionExit>) -> bool {
    match restart {
        RestartType::Permanent => false,
        RestartType::Transient => exit.is_some_and(is_good),
        RestartType::Temporary => true,
    }
}

/// OTP's `normal` and `shutdown`; the latter is a TERM signal here.
fn is_good(exit: &SessionExit) -> bool {
    const TERM: i32 = 15;
    exit.code == Some(0) || exit.signal == Some(TERM)
}
