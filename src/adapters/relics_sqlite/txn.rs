//! A job's view of the store. Each method calls a function of the file for its subject.

use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::Value;

use crate::domain::attempt::{Attempt, Outcome, Work};
use crate::domain::automation::{AutomationId, Mark, Run};
use crate::domain::cause::Cause;
use crate::domain::cv::{CvEntry, Head};
use crate::domain::drum::{Drum, DrumHead, Mailbox, NewDrum, Waiting};
use crate::domain::event::{Event, NewEvent};
use crate::domain::federation::Line;
use crate::domain::ids::{Incarnation, RaiderId, RelicId, RigName};
use crate::domain::merge::MergeRequest;
use crate::domain::message::{Address, Body, Message};
use crate::domain::phase::RaiderRecord;
use crate::domain::relic::{self, Hook, Relic, RelicStatus};
use crate::domain::restart::DeathRecord;
use crate::domain::saga::{Saga, SagaKind};
use crate::domain::self_review::Round;
use crate::domain::totem::TotemRow;
use crate::domain::usage::ledger::{Row, Source};
use crate::ports::relics::{
    ChainOf, EventFilter, ForeignCity, NewRelic, RelicFilter, SalvageEntry, StoreError,
    StoredEntry, Txn,
};

use super::{
    automations, deaths, drums, hooks, identities, journal, key_values, merge_requests, messages,
    raiders, ready, relics, retention, sagas, salvage, self_reviews, totems, usage,
};

/// A job's transaction: the connection inside the job's savepoint.
pub(super) struct SqliteTxn<'c> {
    /// The connection.
    pub conn: &'c Connection,
    /// The commit's time.
    pub now: Timestamp,
    /// The events that the job journalled so far.
    pub events: Vec<Event>,
    refused: Option<StoreError>,
}

impl<'c> SqliteTxn<'c> {
    pub(super) fn new(conn: &'c Connection, now: Timestamp) -> Self {
        Self {
            conn,
            now,
            events: Vec::new(),
            refused: None,
        }
    }

    /// Returns the journalled events, or the reason why the whole commit must fail.
    pub(super) fn into_events(self) -> Result<Vec<Event>, StoreError> {
        match self.refused {
            Some(refused) => Err(refused),
            None => Ok(self.events),
        }
    }

    /// Runs one operation. If SQLite cannot write, it may roll the whole transaction back by itself, and later
    /// operations would be committed alone: therefore every operation fails after a refusal, even if the job ignored
    /// it.
    fn act<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let result = act(self);
        if let Err(refused @ (StoreError::Unavailable(_) | StoreError::Locked(_))) = &result {
            self.refused = Some(refused.clone());
        }
        result
    }
}

/// Writes methods of one operation each, `name(arguments) -> result = function;`: the function gets the connection, or
/// the whole transaction where it needs the time or journals events.
macro_rules! operations {
    ($of:ident => $first:expr; $($name:ident($($arg:ident: $kind:ty),*) -> $result:ty = $function:path;)+) => {
        $(fn $name(&mut self, $($arg: $kind),*) -> Result<$result, StoreError> {
            self.act(|$of| $function($first, $($arg),*))
        })+
    };
}

impl Txn for SqliteTxn<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    operations! { txn => txn.conn;
        relic(id: &RelicId) -> Relic = relics::get;
        put_relic(relic: &Relic) -> () = relics::put;
        relics(filter: &RelicFilter) -> Vec<Relic> = relics::list;
        dependents(id: &RelicId) -> Vec<RelicId> = relics::dependents;
        children(id: &RelicId) -> Vec<RelicId> = relics::children;
        relic_of_source(source: &relic::Source, prefix: Option<&str>) -> Option<RelicId> = relics::of_source;
        tasks_after(after: &str, limit: usize) -> Vec<Relic> = relics::tasks_after;
        task_counts() -> Vec<(String, RelicStatus, u64)> = relics::task_counts;
        chargeable(prefix: &str, label: Option<&str>, limit: usize) -> Vec<Relic> = ready::chargeable;
        ready(prefix: &str, limit: Option<u64>) -> Vec<Relic> = ready::ready;
        ready_of(assignee: &str) -> Option<Relic> = ready::ready_of;
        collect_wisps(closed_before: Timestamp, limit: usize) -> Vec<RelicId> = retention::collect_wisps;
        incarnation(raider: &RaiderId) -> Incarnation = hooks::incarnation;
        next_incarnation(raider: &RaiderId) -> Incarnation = hooks::next_incarnation;
        put_hook(hook: &Hook) -> () = hooks::put;
        hook(raider: &RaiderId) -> Option<Hook> = hooks::of_raider;
        hook_of_relic(relic: &RelicId) -> Option<Hook> = hooks::of_relic;
        hooks(rig: Option<&RigName>) -> Vec<Hook> = hooks::list;
        raiders(rig: Option<&RigName>) -> Vec<RaiderRecord> = raiders::list;
        raider(raider: &RaiderId) -> Option<RaiderRecord> = raiders::one;
        drop_hook(raider: &RaiderId, incarnation: Incarnation) -> bool = hooks::drop;
        inbox(to: &str) -> Vec<Message> = messages::inbox;
        waiting() -> Vec<Address> = messages::waiting;
        put_mr(mr: &MergeRequest) -> () = merge_requests::put;
        mr(id: &RelicId) -> MergeRequest = merge_requests::get;
        mrs(rig: Option<&RigName>, open: bool) -> Vec<MergeRequest> = merge_requests::list;
        mrs_of(relic: &RelicId) -> Vec<MergeRequest> = merge_requests::of_relic;
        mr_of(relic: &RelicId, raider: &RaiderId, incarnation: Incarnation) -> Option<MergeRequest> = merge_requests::of;
        close_saga(id: u64) -> () = sagas::close;
        saga(id: u64) -> Option<Saga> = sagas::get;
        sagas(rig: Option<&RigName>) -> Vec<Saga> = sagas::list;
        saga_of(kind: SagaKind, subject: &str) -> Option<Saga> = sagas::of;
        last_seq() -> u64 = journal::last_seq;
        first_seq() -> u64 = journal::first_seq;
        prune_events(before: Timestamp, seq: u64, keep: &[u64], limit: usize) -> usize = retention::prune_events;
        prune_messages(before: Timestamp, limit: usize) -> usize = retention::prune_messages;
        events(filter: &EventFilter) -> Vec<Event> = journal::list;
        put_salvage(entry: &SalvageEntry) -> () = salvage::put;
        salvages() -> Vec<SalvageEntry> = salvage::list;
        drop_salvage(id: &str) -> bool = salvage::drop;
        drum(id: u64) -> Drum = drums::get;
        put_drum(drum: &DrumHead) -> () = drums::put;
        waiting_drums(mailbox: &Mailbox, limit: usize) -> Vec<DrumHead> = drums::waiting;
        acked_drums(mailbox: &Mailbox, limit: usize) -> Vec<DrumHead> = drums::acked;
        count_drums(mailbox: &Mailbox, sender: &str) -> Waiting = drums::count;
        trim_drums(mailbox: &Mailbox, keep: u64) -> usize = drums::trim;
        prune_drums(before: Timestamp, limit: usize) -> usize = drums::prune;
        add_self_review(round: &Round) -> () = self_reviews::add;
        self_reviews(relic: &RelicId, raider: &RaiderId, incarnation: Incarnation) -> Vec<Round> = self_reviews::list;
        prune_self_reviews(before: Timestamp, limit: usize) -> usize = self_reviews::prune;
        add_totem(totem: &TotemRow) -> () = totems::add;
        totem(relic: &RelicId) -> Option<TotemRow> = totems::get;
        totem_of_step(step: &RelicId) -> Option<RelicId> = totems::of_step;
        put_attempt(attempt: &Attempt) -> () = identities::put_attempt;
        attempt(raider: &RaiderId, incarnation: Incarnation) -> Option<Attempt> = identities::attempt;
        attempts_of(relic: &RelicId, raider: &RaiderId) -> Vec<Attempt> = identities::attempts_of;
        prune_attempts(before: Timestamp, limit: usize) -> usize = identities::prune_attempts;
        append_entry(name: &str, outcome: Outcome, work: &Work) -> Option<CvEntry> = identities::append;
        chains(of: &ChainOf, after: &str, limit: usize) -> Vec<(String, Head)> = identities::chains;
        chain_head(of: &ChainOf, name: &str) -> Option<Head> = identities::chain_head;
        chain_entries(of: &ChainOf, name: &str, after: u64, limit: usize) -> Vec<StoredEntry> = identities::entries;
        newest_entries(name: &str, label: &str, limit: usize) -> Vec<CvEntry> = identities::newest;
        unnoted_chains(of: &ChainOf) -> Vec<String> = identities::unnoted;
        has_failed_before(relic: &RelicId) -> bool = identities::failed_before;
        foreign_cities() -> Vec<ForeignCity> = identities::cities;
        put_foreign_city(city: &ForeignCity) -> () = identities::put_city;
        add_foreign_entry(city: &str, line: &Line) -> () = identities::add_foreign;
        forget_foreign_city(city: &str) -> Option<u64> = identities::forget_city;
        deaths() -> Vec<DeathRecord> = deaths::list;
        put_deaths(deaths: &DeathRecord) -> () = deaths::put;
        mark(automation: &AutomationId) -> Option<Mark> = automations::mark;
        put_mark(mark: &Mark) -> () = automations::put_mark;
        keep_marks(of: &[AutomationId]) -> () = automations::keep_marks;
        put_run(run: &Run) -> () = automations::put;
        runs(of: Option<&AutomationId>, limit: usize) -> Vec<Run> = automations::list;
        open_runs() -> Vec<Run> = automations::open;
        source(path: &str) -> Option<Source> = usage::source;
        forget_source(path: &str) -> () = usage::forget_source;
        active_sources() -> Vec<Source> = usage::active;
        add_usage(row: &Row) -> () = usage::add;
        usage_since(day: &str) -> Vec<Row> = usage::since;
        usage_of_work(relic: &RelicId, child: &str) -> Vec<Row> = usage::of_work;
        usage_of_hooked() -> Vec<Row> = usage::of_hooked;
        prune_usage(day: &str, before: Timestamp) -> usize = usage::prune;
        get(key: &str) -> Option<String> = key_values::get;
        set(key: &str, value: Option<&str>) -> () = key_values::set;
        key_values_under(prefix: &str) -> Vec<(String, String)> = key_values::under;
    }

    operations! { txn => txn;
        create_relic(new: &NewRelic) -> Relic = relics::create;
        add_drum(new: &NewDrum) -> Drum = drums::add;
        create_relic_as(id: &RelicId, new: &NewRelic) -> Relic = relics::create_as;
        open_saga(kind: SagaKind, rig: &RigName, subject: &str, step: &str, data: &Value) -> Saga = sagas::open;
        step_saga(id: u64, step: &str, data: &Value) -> () = sagas::step;
        record(event: &NewEvent) -> u64 = journal::record;
        begin_run(automation: &AutomationId, cause: Cause, event: Option<u64>) -> Run = automations::begin;
    }

    #[cfg(any(test, feature = "testing"))]
    fn reword(&mut self) -> Result<(), StoreError> {
        self.act(super::reword::reword)
    }

    fn send(&mut self, from: &str, to: &str, body: Body) -> Result<u64, StoreError> {
        self.act(|txn| messages::send(txn, from, to, &body))
    }

    fn handled(&mut self, id: u64) -> Result<bool, StoreError> {
        self.act(|txn| messages::handled(txn.conn, id, txn.now))
    }

    fn put_source(&mut self, source: &Source) -> Result<(), StoreError> {
        self.act(|txn| usage::put_source(txn.conn, source, txn.now))
    }
}
