//! Children of an account that is parked (`actors/accounts.rs`): none is started, and one that ended of
//! the limit or the login did not die of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ractor::ActorRef;
use serde_json::json;

use super::super::accounts;
use super::super::child::ChildExit;
use super::slot::{ChildState, Desired, answer};
use super::{Root, RootMsg, SessionView};
use crate::domain::account::{Told, Trouble};
use crate::domain::cause::Cause;
use crate::domain::city::RestartType;
use crate::domain::condition;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::ChildId;

/// So often in a row an end is taken for that of a limit or a login by its last words. Then it is a death: people are
/// called when there are too many.
const MOST_PARKS: u32 = 3;
/// Ends that are further apart are not in a row.
const IN_A_ROW: Duration = Duration::from_secs(2 * 3600);

impl Root {
    /// Does what is due of the accounts, in a task of its own, and again when something is due next.
    pub(super) fn look_at_accounts(&mut self, me: &ActorRef<RootMsg>) {
        if self.stopping.is_some() {
            return;
        }
        let world = Arc::clone(&self.world);
        let Some(mut claim) = world.claims.claim_or_repeat("accounts") else {
            return;
        };
        let me = me.clone();
        tokio::spawn(async move {
            let next = loop {
                let next = accounts::advance(&world.newest()).await;
                match claim.give_back() {
                    Some(again) => claim = again,
                    None => break next,
                }
            };
            // The root only goes with the process.
            let _gone = me.cast(RootMsg::AccountsDue(next));
        });
    }

    /// Arms the timer of what is due next.
    pub(super) fn arm_accounts(&mut self, me: &ActorRef<RootMsg>, next: Option<Timestamp>) {
        if let Some(before) = self.accounts.take() {
            before.abort();
        }
        let Some(next) = next else { return };
        let wait = Duration::try_from(next - self.world.clock.now()).unwrap_or_default();
        let wait = wait + Duration::from_millis(1);
        self.accounts = Some(me.send_after(wait, || RootMsg::Accounts).abort_handle());
    }

    /// Lays a child to rest that is to be started while its account is parked; false when it may be
    /// started. A session that runs is adopted, and a person may try.
    pub(super) fn park(&mut self, id: &ChildId) -> bool {
        let now = self.world.clock.now();
        let Some(slot) = self.slots.get_mut(id) else {
            return false;
        };
        if matches!(slot.cause, Cause::Adopted | Cause::Operator) {
            return false;
        }
        let accounts = &self.world.directory.accounts;
        let harness = slot.spec.harness();
        let Some(why) = harness.and_then(|harness| accounts.held(&self.world, harness, id)) else {
            return false;
        };
        slot.epoch += 1;
        slot.desired = Desired::Resting(why.cause());
        slot.become_state(ChildState::Stopped, now);
        // It is started by itself, as one that is suspended is when it is resumed.
        answer(&mut slot.for_up, &Ok(()));
        slot.no_session("its account is parked");
        true
    }

    /// Whether the session ended of a limit or a login: the child rests then until its account is open,
    /// and it is no death.
    pub(super) fn ended_of_account(
        &mut self,
        id: &ChildId,
        session: Option<&SessionView>,
        exit: Option<&ChildExit>,
    ) -> bool {
        let now = self.world.clock.now();
        let Some(ChildExit::Died { tail, exit, .. }) = exit else {
            return false;
        };
        let Some(slot) = self.slots.get(id) else {
            return false;
        };
        let Some(harness) = slot.spec.harness().cloned() else {
            return false;
        };
        let is_up = matches!(slot.desired, Desired::Up) && !slot.draining;
        if !is_up || slot.spec.restart == RestartType::Temporary {
            return false;
        }
        let directory = &self.world.directory;
        let shown = session.and_then(|session| directory.conditions.of(&session.handle));
        let trouble = shown.as_ref().and_then(Trouble::of).or_else(|| {
            let looks = &self.world.city.harnesses.get(&harness)?.looks;
            condition::last_words(looks, tail, now, &TimeZone::system())
        });
        let Some(trouble) = trouble else {
            return false;
        };
        // A program that says so at each of its ends, and has done its work, would be started for ever.
        let mono = self.world.clock.mono();
        let (times, last) = slot.parked;
        let times = match mono.saturating_sub(last) < IN_A_ROW {
            true => times + 1,
            false => 1,
        };
        if times > MOST_PARKS {
            return false;
        }
        let (cause, text) = (trouble.why.cause(), trouble.text.clone());
        // Its account stays open then: without an end that is waited for it would be started again at once, for
        // ever. So it is a death.
        if accounts::told(&self.world, id, &harness, trouble) == Told::Old {
            return false;
        }
        let Some(slot) = self.slots.get_mut(id) else {
            return false;
        };
        slot.parked = (times, mono);
        slot.cause = cause;
        slot.epoch += 1;
        slot.desired = Desired::Resting(cause);
        slot.become_state(ChildState::Stopped, now);
        answer(&mut slot.for_up, &Ok(()));
        slot.no_session("its account is parked");
        let data = json!({
            "text": text, "tail": tail,
            "code": exit.as_ref().and_then(|exit| exit.code),
            "signal": exit.as_ref().and_then(|exit| exit.signal),
        });
        self.note(NewEvent::new(EventType::AgentStopped, id, cause).with(data));
        true
    }
}
