//! A job's view of the store. Each method calls a function of the file for its subject.

use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::Value;

use crate::domain::automation::{AutomationId, Mark, Run};
use crate::domain::cause::Cause;
use crate::domain::cv::CvEntry;
use crate::domain::event::{Event, NewEvent};
use crate::domain::ids::{Incarnation, RaiderId, RelicId, RigName};
use crate::domain::merge::MergeRequest;
use crate::domain::message::{Address, Body, Message};
use crate::domain::phase::RaiderRecord;
use crate::domain::relic::{Hook, Relic};
use crate::domain::restart::Deaths;
use crate::domain::saga::{Saga, SagaKind};
use crate::domain::usage::ledger::{Row, Source};
use crate::ports::relics::{EventFilter, NewRelic, RelicFilter, SalvageEntry, StoreError, Txn};

use super::{
    automations, cv, deaths, hooks, journal, kv, merge_requests, messages, raiders, ready, relics,
    retention, sagas, salvage, usage,
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
        if let Err(refused @ StoreError::Unavailable(_)) = &result {
            self.refused = Some(refused.clone());
        }
        result
    }
}

impl Txn for SqliteTxn<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn create_relic(&mut self, new: &NewRelic) -> Result<Relic, StoreError> {
        self.act(|txn| relics::create(txn, new))
    }

    fn relic(&mut self, id: &RelicId) -> Result<Relic, StoreError> {
        self.act(|txn| relics::get(txn.conn, id))
    }

    fn put_relic(&mut self, relic: &Relic) -> Result<(), StoreError> {
        self.act(|txn| relics::put(txn.conn, relic))
    }

    fn relics(&mut self, filter: &RelicFilter) -> Result<Vec<Relic>, StoreError> {
        self.act(|txn| relics::list(txn.conn, filter))
    }

    fn ready(
        &mut self,
        prefix: &str,
        label: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Relic>, StoreError> {
        self.act(|txn| ready::ready(txn.conn, prefix, label, limit))
    }

    fn collect_wisps(
        &mut self,
        closed_before: Timestamp,
        limit: usize,
    ) -> Result<Vec<RelicId>, StoreError> {
        self.act(|txn| retention::collect_wisps(txn.conn, closed_before, limit))
    }

    fn incarnation(&mut self, raider: &RaiderId) -> Result<Incarnation, StoreError> {
        self.act(|txn| hooks::incarnation(txn.conn, raider))
    }

    fn next_incarnation(&mut self, raider: &RaiderId) -> Result<Incarnation, StoreError> {
        self.act(|txn| hooks::next_incarnation(txn.conn, raider))
    }

    fn put_hook(&mut self, hook: &Hook) -> Result<(), StoreError> {
        self.act(|txn| hooks::put(txn.conn, hook))
    }

    fn hook(&mut self, raider: &RaiderId) -> Result<Option<Hook>, StoreError> {
        self.act(|txn| hooks::of_raider(txn.conn, raider))
    }

    fn hook_of_relic(&mut self, relic: &RelicId) -> Result<Option<Hook>, StoreError> {
        self.act(|txn| hooks::of_relic(txn.conn, relic))
    }

    fn hooks(&mut self, rig: Option<&RigName>) -> Result<Vec<Hook>, StoreError> {
        self.act(|txn| hooks::list(txn.conn, rig))
    }

    fn raiders(&mut self, rig: Option<&RigName>) -> Result<Vec<RaiderRecord>, StoreError> {
        self.act(|txn| raiders::list(txn.conn, rig))
    }

    fn raider(&mut self, raider: &RaiderId) -> Result<Option<RaiderRecord>, StoreError> {
        self.act(|txn| raiders::one(txn.conn, raider))
    }

    fn drop_hook(
        &mut self,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<bool, StoreError> {
        self.act(|txn| hooks::drop(txn.conn, raider, incarnation))
    }

    fn send(&mut self, from: &str, to: &str, body: Body) -> Result<u64, StoreError> {
        self.act(|txn| messages::send(txn, from, to, &body))
    }

    fn inbox(&mut self, to: &str) -> Result<Vec<Message>, StoreError> {
        self.act(|txn| messages::inbox(txn.conn, to))
    }

    fn handled(&mut self, id: u64) -> Result<bool, StoreError> {
        self.act(|txn| messages::handled(txn.conn, id, txn.now))
    }

    fn waiting(&mut self) -> Result<Vec<Address>, StoreError> {
        self.act(|txn| messages::waiting(txn.conn))
    }

    fn put_mr(&mut self, mr: &MergeRequest) -> Result<(), StoreError> {
        self.act(|txn| merge_requests::put(txn.conn, mr))
    }

    fn mr(&mut self, id: &RelicId) -> Result<MergeRequest, StoreError> {
        self.act(|txn| merge_requests::get(txn.conn, id))
    }

    fn mrs(&mut self, rig: Option<&RigName>, open: bool) -> Result<Vec<MergeRequest>, StoreError> {
        self.act(|txn| merge_requests::list(txn.conn, rig, open))
    }

    fn mrs_of(&mut self, relic: &RelicId) -> Result<Vec<MergeRequest>, StoreError> {
        self.act(|txn| merge_requests::of_relic(txn.conn, relic))
    }

    fn mr_of(
        &mut self,
        relic: &RelicId,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<Option<MergeRequest>, StoreError> {
        self.act(|txn| merge_requests::of(txn.conn, relic, raider, incarnation))
    }

    fn open_saga(
        &mut self,
        kind: SagaKind,
        rig: &RigName,
        subject: &str,
        step: &str,
        data: &Value,
    ) -> Result<Saga, StoreError> {
        self.act(|txn| sagas::open(txn, kind, rig, subject, step, data))
    }

    fn step_saga(&mut self, id: u64, step: &str, data: &Value) -> Result<(), StoreError> {
        self.act(|txn| sagas::step(txn, id, step, data))
    }

    fn close_saga(&mut self, id: u64) -> Result<(), StoreError> {
        self.act(|txn| sagas::close(txn.conn, id))
    }

    fn saga(&mut self, id: u64) -> Result<Option<Saga>, StoreError> {
        self.act(|txn| sagas::get(txn.conn, id))
    }

    fn sagas(&mut self, rig: Option<&RigName>) -> Result<Vec<Saga>, StoreError> {
        self.act(|txn| sagas::list(txn.conn, rig))
    }

    fn saga_of(&mut self, kind: SagaKind, subject: &str) -> Result<Option<Saga>, StoreError> {
        self.act(|txn| sagas::of(txn.conn, kind, subject))
    }

    fn record(&mut self, event: &NewEvent) -> Result<u64, StoreError> {
        self.act(|txn| journal::record(txn, event))
    }

    fn last_seq(&mut self) -> Result<u64, StoreError> {
        self.act(|txn| journal::last_seq(txn.conn))
    }

    fn first_seq(&mut self) -> Result<u64, StoreError> {
        self.act(|txn| journal::first_seq(txn.conn))
    }

    fn prune_events(
        &mut self,
        before: Timestamp,
        seq: u64,
        limit: usize,
    ) -> Result<usize, StoreError> {
        self.act(|txn| retention::prune_events(txn.conn, before, seq, limit))
    }

    fn prune_messages(&mut self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.act(|txn| retention::prune_messages(txn.conn, before, limit))
    }

    fn events(&mut self, filter: &EventFilter) -> Result<Vec<Event>, StoreError> {
        self.act(|txn| journal::list(txn.conn, filter))
    }

    fn put_salvage(&mut self, entry: &SalvageEntry) -> Result<(), StoreError> {
        self.act(|txn| salvage::put(txn.conn, entry))
    }

    fn salvages(&mut self) -> Result<Vec<SalvageEntry>, StoreError> {
        self.act(|txn| salvage::list(txn.conn))
    }

    fn drop_salvage(&mut self, id: &str) -> Result<bool, StoreError> {
        self.act(|txn| salvage::drop(txn.conn, id))
    }

    fn append_cv(&mut self, name: &str, kind: &str, data: &Value) -> Result<CvEntry, StoreError> {
        self.act(|txn| cv::append(txn.conn, name, kind, data))
    }

    fn cv(&mut self, name: &str) -> Result<Vec<CvEntry>, StoreError> {
        self.act(|txn| cv::chain(txn.conn, name))
    }

    fn deaths(&mut self) -> Result<Vec<Deaths>, StoreError> {
        self.act(|txn| deaths::list(txn.conn))
    }

    fn put_deaths(&mut self, deaths: &Deaths) -> Result<(), StoreError> {
        self.act(|txn| deaths::put(txn.conn, deaths))
    }

    fn mark(&mut self, automation: &AutomationId) -> Result<Option<Mark>, StoreError> {
        self.act(|txn| automations::mark(txn.conn, automation))
    }

    fn put_mark(&mut self, mark: &Mark) -> Result<(), StoreError> {
        self.act(|txn| automations::put_mark(txn.conn, mark))
    }

    fn keep_marks(&mut self, of: &[AutomationId]) -> Result<(), StoreError> {
        self.act(|txn| automations::keep_marks(txn.conn, of))
    }

    fn begin_run(
        &mut self,
        automation: &AutomationId,
        cause: Cause,
        event: Option<u64>,
    ) -> Result<Run, StoreError> {
        self.act(|txn| automations::begin(txn, automation, cause, event))
    }

    fn put_run(&mut self, run: &Run) -> Result<(), StoreError> {
        self.act(|txn| automations::put(txn.conn, run))
    }

    fn runs(&mut self, of: Option<&AutomationId>, limit: usize) -> Result<Vec<Run>, StoreError> {
        self.act(|txn| automations::list(txn.conn, of, limit))
    }

    fn open_runs(&mut self) -> Result<Vec<Run>, StoreError> {
        self.act(|txn| automations::open(txn.conn))
    }

    fn put_source(&mut self, source: &Source) -> Result<(), StoreError> {
        self.act(|txn| usage::put_source(txn.conn, source, txn.now))
    }

    fn source(&mut self, path: &str) -> Result<Option<Source>, StoreError> {
        self.act(|txn| usage::source(txn.conn, path))
    }

    fn forget_source(&mut self, path: &str) -> Result<(), StoreError> {
        self.act(|txn| usage::forget_source(txn.conn, path))
    }

    fn active_sources(&mut self) -> Result<Vec<Source>, StoreError> {
        self.act(|txn| usage::active(txn.conn))
    }

    fn add_usage(&mut self, row: &Row) -> Result<(), StoreError> {
        self.act(|txn| usage::add(txn.conn, row))
    }

    fn usage_since(&mut self, day: &str) -> Result<Vec<Row>, StoreError> {
        self.act(|txn| usage::since(txn.conn, day))
    }

    fn usage_of(&mut self, relic: &RelicId) -> Result<Vec<Row>, StoreError> {
        self.act(|txn| usage::of_relic(txn.conn, relic.as_str()))
    }

    fn prune_usage(&mut self, day: &str, before: Timestamp) -> Result<usize, StoreError> {
        self.act(|txn| usage::prune(txn.conn, day, before))
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
        self.act(|txn| kv::get(txn.conn, key))
    }

    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), StoreError> {
        self.act(|txn| kv::set(txn.conn, key, value))
    }
}
