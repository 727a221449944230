//! Children of a parked account (`actors/accounts.rs`): they are not started, and an end caused by the limit or the
//! login is not a death.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ractor::ActorRef;
use serde_json::json;

use super::super::accounts;
use super::super::claims::ClaimKey;
use super::super::look_timer::{self, watched};
use super::super::mail::RootMail;
use super::child_record::ChildRecord;
use super::{Root, RootMsg};
use crate::actors::mail::SessionView;
use crate::actors::records::escalations::{self, Ends};
use crate::domain::account::{AccountReport, ReportEffect};
use crate::domain::child::{ChildExit, Event, MOST_PARKS, SOON};
use crate::domain::city::RestartType;
use crate::domain::condition;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::ChildId;
use crate::domain::message::{Escalation, Severity};
use crate::domain::problem::ProblemKind;

impl Root {
    /// Handles what is due for the accounts, in a task of its own, and arms the timer of what is due next.
    pub(super) fn look_at_accounts(&mut self, me: &ActorRef<RootMsg>) {
        // Until the first look is applied the list of children is empty, and a release would give no child its turn.
        if self.stopping.is_some() || !self.seen {
            return;
        }
        let world = Arc::clone(&self.world);
        let Some(mut claim) = world.claims.claim_or_repeat(ClaimKey::Accounts) else {
            return;
        };
        let me = me.clone();
        tokio::spawn(async move {
            let next = loop {
                let world = world.newest();
                let own = Arc::clone(&world);
                let advance = async move { accounts::advance(&own).await };
                // One that panics or hangs must not be the last one.
                let next = watched(&world, "accounts", advance).await;
                let next = next.unwrap_or_else(|_| look_timer::retry(&world));
                match claim.give_back() {
                    Some(again) => claim = again,
                    None => break next,
                }
            };
            // The root lives as long as the process.
            let _gone = me.cast(RootMsg::AccountsDue(next));
        });
    }

    /// Arms the timer of what is due for the accounts next.
    pub(super) fn arm_accounts(&mut self, me: &ActorRef<RootMsg>, next: Option<Timestamp>) {
        if let Some(before) = self.accounts.take() {
            before.abort();
        }
        let Some(next) = next else { return };
        let wait = Duration::try_from(next - self.world.clock.now()).unwrap_or_default();
        let wait = wait + Duration::from_millis(1);
        self.accounts = Some(
            me.send_after(wait, || RootMail::Accounts.into())
                .abort_handle(),
        );
    }

    /// Returns true when the session ended of a limit or a login: the child rests until its account is open again, and
    /// no death is counted.
    pub(super) async fn ended_of_account(
        &mut self,
        me: &ActorRef<RootMsg>,
        id: &ChildId,
        session: Option<&SessionView>,
        exit: Option<&ChildExit>,
    ) -> bool {
        let now = self.world.clock.now();
        let Some(ChildExit::Died { tail, exit, .. }) = exit else {
            return false;
        };
        let Some(record) = self.children.get(id) else {
            return false;
        };
        let Some(harness) = record.spec.harness().cloned() else {
            return false;
        };
        if !record.child.is_wanted_up() || record.spec.restart == RestartType::Temporary {
            return false;
        }
        let directory = &self.world.directory;
        let shown = session.and_then(|session| directory.conditions.of(&session.handle));
        let trouble = shown.as_ref().and_then(AccountReport::of).or_else(|| {
            let looks = &self.world.city.harnesses.get(&harness)?.patterns;
            condition::last_words(looks, tail, now, &TimeZone::system())
        });
        let Some(trouble) = trouble else {
            return false;
        };
        let (cause, text) = (trouble.why.cause(), trouble.text.clone());
        // The account was not parked, so nothing would delay the next start: count a death, or it would restart at once
        // for ever.
        let told = accounts::report_trouble(&self.world, id, &harness, trouble);
        if matches!(told, ReportEffect::Old | ReportEffect::Hasty) {
            return false;
        }
        let data = json!({
            "text": text, "tail": tail,
            "code": exit.as_ref().and_then(|exit| exit.code),
            "signal": exit.as_ref().and_then(|exit| exit.signal),
        });
        self.journal(NewEvent::new(EventType::AgentStopped, id, cause).with(data));
        self.step(me, id, Event::OutOfAccount { cause, text }).await;
        true
    }

    pub(super) fn call_about_parks(&self, id: &ChildId, text: &str) {
        let relic = self.children.get(id).and_then(ChildRecord::relic);
        let body = Escalation {
            agent: id.to_string(),
            relic,
            problem: ProblemKind::LimitLoop.into(),
            severity: Severity::Medium,
            evidence: format!(
                "{MOST_PARKS} sessions in a row ended within {} minutes of their start. The last \
                one reported: {text}\n\
                 It is restarted whenever its account is open. `hd logs {id}` shows the output of \
                 its sessions, `hd agent stop {id}` ends them.",
                SOON.as_secs() / 60
            ),
        };
        let (world, id) = (Arc::clone(&self.world), id.clone());
        tokio::spawn(async move {
            if let Err(error) = escalations::call(&world, "root", Ends::WithWork, body).await {
                tracing::warn!(
                    child = %id,
                    %error,
                    "the escalation about repeated limits could not be stored; no person is \
                    called"
                );
            }
        });
    }

    pub(super) fn settle_parks(&self, id: &ChildId) {
        let child = id.to_string();
        let settled = (self.world.store).begin(move |txn| {
            escalations::close_matching(txn, &[ProblemKind::LimitLoop], |agent, _| agent == child)
        });
        let id = id.clone();
        tokio::spawn(async move {
            if let Err(error) = settled.await {
                tracing::warn!(
                    child = %id,
                    %error,
                    "the escalation about repeated limits could not be closed; it stays open"
                );
            }
        });
    }
}
