//! The relic store: durable state, and the journal.
//!
//! The store actor is the only owner of a [`Relics`]. All other code sends it a closure over [`Txn`]: all calls in the
//! closure are one transaction, which includes a state change and its event (the outbox pattern).

mod error;

pub use self::error::StoreError;

use jiff::Timestamp;
use serde_json::Value;

use crate::domain::attempt::{Attempt, Outcome, Work};
use crate::domain::automation::{AutomationId, Mark, Run};
use crate::domain::cause::Cause;
pub use crate::domain::cv::CvEntry;
use crate::domain::cv::Head;
use crate::domain::drum::{Drum, DrumHead, Mailbox, NewDrum, Waiting};
use crate::domain::event::{Event, NewEvent};
use crate::domain::federation::Line;
use crate::domain::ids::{Incarnation, RaiderId, RelicId, RigName, SlotName};
use crate::domain::merge::MergeRequest;
use crate::domain::message::{Address, Body, Message};
use crate::domain::phase::RaiderRecord;
use crate::domain::relic::{self, Hook, Relic, RelicKind, RelicStatus};
use crate::domain::restart::DeathRecord;
use crate::domain::saga::{Saga, SagaKind};
use crate::domain::saved_work::SavedWork;
use crate::domain::self_review::Round;
use crate::domain::totem::TotemRow;
use crate::domain::usage::ledger::{Row, Source};
use crate::ports::repo::SalvageRecord;

/// A relic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRelic {
    /// Prefix of its id.
    pub prefix: String,
    /// The kind.
    pub kind: RelicKind,
    /// The title, on one line.
    pub title: String,
    /// The description.
    pub body: String,
    /// Larger is more urgent.
    pub priority: i64,
    /// Free words.
    pub labels: Vec<String>,
    /// The relic that it is a step of.
    pub parent: Option<RelicId>,
    /// Relics that must be closed first.
    pub deps: Vec<RelicId>,
    /// The caller that creates it; none for the supervisor itself.
    pub by: Option<String>,
}

/// Selects relics to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelicFilter {
    /// Only this kind.
    pub kind: Option<RelicKind>,
    /// Only this status.
    pub status: Option<RelicStatus>,
    /// Only this prefix (a rig's relics).
    pub prefix: Option<String>,
    /// Only with this label.
    pub label: Option<String>,
    /// Only so many, the first ones.
    pub limit: Option<u64>,
}

/// Selects events to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The events after this number.
    pub after: u64,
    /// This type, or `prefix.*`.
    pub kind: Option<String>,
    /// About this subject, or about a relic or merge request bound to it.
    pub subject: Option<String>,
    /// The maximum number, the oldest first; 0 is no limit.
    pub limit: usize,
}

/// A salvage as recorded.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SalvageEntry {
    /// `<rig>-<raider>-<incarnation>[.n]`.
    pub id: String,
    /// The rig.
    pub rig: RigName,
    /// The raider.
    pub raider: SlotName,
    /// The raider's incarnation.
    pub incarnation: Incarnation,
    /// The relic that it worked on.
    pub relic: Option<RelicId>,
    /// The reason of the salvage.
    pub reason: String,
    /// When it was made.
    pub created: Timestamp,
    /// Full ref names in our repository (`.horde/custody/RIG.git`).
    pub refs: Vec<String>,
    /// Bytes of content.
    pub bytes: u64,
    /// Ignored paths that were not salvaged.
    pub ignored: Vec<String>,
    /// The work of the attempt, as commits; none where an older version wrote the entry without it.
    #[serde(default)]
    pub work: Option<SavedWork>,
}

impl SalvageEntry {
    /// Returns the record for a restoration.
    #[must_use]
    pub fn record(&self) -> SalvageRecord {
        SalvageRecord {
            id: self.id.clone(),
            refs: self.refs.clone(),
            bytes: self.bytes,
            ignored: self.ignored.clone(),
            work: self.work.clone().unwrap_or_default(),
            fingerprint: None,
        }
    }
}

/// The owner of chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainOf {
    /// This city's identities.
    Own,
    /// Another city of this name.
    City(String),
    /// A slot: an older version kept a chain for each, and nothing is appended any more.
    Slot,
}

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntry {
    /// The entry.
    pub entry: CvEntry,
    /// Unset when columns that copy its data differ from it.
    pub columns_fit: bool,
}

/// A city whose chains were imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignCity {
    /// Its name.
    pub name: String,
    /// The id of its store.
    pub id: String,
    /// The last import.
    pub imported_at: Timestamp,
    /// The size of its entries. The store counts those that it adds.
    pub bytes: u64,
}

/// A transaction. Every method sees the writes of the methods before it.
#[expect(
    missing_docs,
    reason = "names and types say it; where they do not, a line does"
)]
pub trait Txn {
    /// Returns the time that rows written by this transaction carry.
    fn now(&self) -> Timestamp;

    fn create_relic(&mut self, new: &NewRelic) -> Result<Relic, StoreError>;
    /// Creates a relic under an id that it had elsewhere, or under the next number when a number of the id is more than a
    /// million ahead of the last one here. `Conflict` when the id is taken.
    fn create_relic_as(&mut self, id: &RelicId, new: &NewRelic) -> Result<Relic, StoreError>;
    fn relic(&mut self, id: &RelicId) -> Result<Relic, StoreError>;
    /// Overwrites the row of the same id. `Conflict` when it would depend on itself or be a step of itself; the cycle is
    /// named.
    fn put_relic(&mut self, relic: &Relic) -> Result<(), StoreError>;
    /// Lists relics, ordered by priority, then age, then number.
    fn relics(&mut self, filter: &RelicFilter) -> Result<Vec<Relic>, StoreError>;
    /// Returns the number of tasks of each prefix and status. Reads counters, whatever the number of tasks.
    fn task_counts(&mut self) -> Result<Vec<(String, RelicStatus, u64)>, StoreError>;
    /// Lists the relics that depend on this one.
    fn dependents(&mut self, id: &RelicId) -> Result<Vec<RelicId>, StoreError>;
    /// Lists the relics whose parent is this one.
    fn children(&mut self, id: &RelicId) -> Result<Vec<RelicId>, StoreError>;
    /// Returns the relic that was imported from this record; where a prefix is given, only one with that prefix.
    fn relic_of_source(
        &mut self,
        source: &relic::Source,
        prefix: Option<&str>,
    ) -> Result<Option<RelicId>, StoreError>;
    /// Lists the first `limit` tasks whose ids come after this text, in the order of texts.
    fn tasks_after(&mut self, after: &str, limit: usize) -> Result<Vec<Relic>, StoreError>;
    /// Lists the first `limit` open tasks of this prefix that may be charged without a request: their dependencies are
    /// closed, and they are assigned to no one. With this label if one is given; by priority, then age. Does not read
    /// the others, whatever their number.
    fn chargeable(
        &mut self,
        prefix: &str,
        label: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Relic>, StoreError>;
    /// Lists the open tasks of this prefix whose dependencies are closed, by priority, then age; only the first ones with a limit.
    fn ready(&mut self, prefix: &str, limit: Option<u64>) -> Result<Vec<Relic>, StoreError>;
    /// Returns the oldest open task whose dependencies are closed and that is assigned to this one.
    fn ready_of(&mut self, assignee: &str) -> Result<Option<Relic>, StoreError>;
    /// Deletes wisps that were closed before that time, the oldest first, and returns them. A wisp that an open relic
    /// belongs to, or depends on, stays.
    fn collect_wisps(
        &mut self,
        closed_before: Timestamp,
        limit: usize,
    ) -> Result<Vec<RelicId>, StoreError>;

    /// Returns the slot's last incarnation; 0 when it never had one.
    fn incarnation(&mut self, raider: &RaiderId) -> Result<Incarnation, StoreError>;
    /// Stores and returns the slot's next incarnation.
    fn next_incarnation(&mut self, raider: &RaiderId) -> Result<Incarnation, StoreError>;

    fn put_hook(&mut self, hook: &Hook) -> Result<(), StoreError>;
    fn hook(&mut self, raider: &RaiderId) -> Result<Option<Hook>, StoreError>;
    fn hook_of_relic(&mut self, relic: &RelicId) -> Result<Option<Hook>, StoreError>;
    fn hooks(&mut self, rig: Option<&RigName>) -> Result<Vec<Hook>, StoreError>;
    /// Returns what is known of the raiders with a hook, in the order of their names.
    fn raiders(&mut self, rig: Option<&RigName>) -> Result<Vec<RaiderRecord>, StoreError>;
    /// Returns what is known of a raider; none without a hook.
    fn raider(&mut self, raider: &RaiderId) -> Result<Option<RaiderRecord>, StoreError>;
    /// Removes the hook if it is of this incarnation.
    fn drop_hook(
        &mut self,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<bool, StoreError>;

    /// Stores the message and journals `message.sent`.
    fn send(&mut self, from: &str, to: &str, body: Body) -> Result<u64, StoreError>;
    /// Lists the unhandled messages to an address, the oldest first.
    fn inbox(&mut self, to: &str) -> Result<Vec<Message>, StoreError>;
    /// Marks a message handled; returns false when it was already.
    fn handled(&mut self, id: u64) -> Result<bool, StoreError>;
    /// Lists the addresses with unhandled messages.
    fn waiting(&mut self) -> Result<Vec<Address>, StoreError>;

    fn put_mr(&mut self, mr: &MergeRequest) -> Result<(), StoreError>;
    fn mr(&mut self, id: &RelicId) -> Result<MergeRequest, StoreError>;
    /// Lists the merge requests of a rig; only unfinished ones when `open`.
    fn mrs(&mut self, rig: Option<&RigName>, open: bool) -> Result<Vec<MergeRequest>, StoreError>;
    /// Lists the merge requests of a relic, the oldest first.
    fn mrs_of(&mut self, relic: &RelicId) -> Result<Vec<MergeRequest>, StoreError>;
    /// Returns the newest merge request of this incarnation of this raider for the relic. The raider is given because
    /// incarnations are counted per slot.
    fn mr_of(
        &mut self,
        relic: &RelicId,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<Option<MergeRequest>, StoreError>;

    /// Opens a saga. `Conflict` when one of this kind and subject is open.
    fn open_saga(
        &mut self,
        kind: SagaKind,
        rig: &RigName,
        subject: &str,
        step: &str,
        data: &Value,
    ) -> Result<Saga, StoreError>;
    /// Journals that the saga reached a step.
    fn step_saga(&mut self, id: u64, step: &str, data: &Value) -> Result<(), StoreError>;
    /// Closes the saga.
    fn close_saga(&mut self, id: u64) -> Result<(), StoreError>;
    fn saga(&mut self, id: u64) -> Result<Option<Saga>, StoreError>;
    /// Lists the open sagas, the oldest first.
    fn sagas(&mut self, rig: Option<&RigName>) -> Result<Vec<Saga>, StoreError>;
    fn saga_of(&mut self, kind: SagaKind, subject: &str) -> Result<Option<Saga>, StoreError>;

    fn record(&mut self, event: &NewEvent) -> Result<u64, StoreError>;
    /// Returns the number of the newest event ever recorded; 0 when there was none.
    fn last_seq(&mut self) -> Result<u64, StoreError>;
    /// Returns the number from which on every event is stored: earlier ones were deleted, except for some.
    fn first_seq(&mut self) -> Result<u64, StoreError>;
    /// Deletes at most `limit` events that are older than `before`, have a number below `seq` and are not in `keep`;
    /// returns their number.
    fn prune_events(
        &mut self,
        before: Timestamp,
        seq: u64,
        keep: &[u64],
        limit: usize,
    ) -> Result<usize, StoreError>;
    /// Deletes at most `limit` messages that were handled before that time; returns their number.
    fn prune_messages(&mut self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
    fn events(&mut self, filter: &EventFilter) -> Result<Vec<Event>, StoreError>;

    fn put_salvage(&mut self, entry: &SalvageEntry) -> Result<(), StoreError>;
    fn salvages(&mut self) -> Result<Vec<SalvageEntry>, StoreError>;
    /// Deletes the entry of a salvage; returns false when there is none.
    fn drop_salvage(&mut self, id: &str) -> Result<bool, StoreError>;

    fn add_drum(&mut self, new: &NewDrum) -> Result<Drum, StoreError>;
    fn drum(&mut self, id: u64) -> Result<Drum, StoreError>;
    /// Overwrites the times of a drum.
    fn put_drum(&mut self, drum: &DrumHead) -> Result<(), StoreError>;
    /// Lists the first drums that wait in a mailbox, the oldest first.
    fn waiting_drums(
        &mut self,
        mailbox: &Mailbox,
        limit: usize,
    ) -> Result<Vec<DrumHead>, StoreError>;
    /// Lists the last acknowledged drums of a mailbox, the newest first.
    fn acked_drums(&mut self, mailbox: &Mailbox, limit: usize)
    -> Result<Vec<DrumHead>, StoreError>;
    /// Counts the drums that wait in a mailbox, all and those of this sender.
    fn count_drums(&mut self, mailbox: &Mailbox, sender: &str) -> Result<Waiting, StoreError>;
    /// Deletes the acknowledged drums of a mailbox except for the newest; returns the number deleted.
    fn trim_drums(&mut self, mailbox: &Mailbox, keep: u64) -> Result<usize, StoreError>;
    /// Deletes at most `limit` drums that were acknowledged before that time, or that were sent before it to work that is
    /// closed; returns their number.
    fn prune_drums(&mut self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    fn add_self_review(&mut self, round: &Round) -> Result<(), StoreError>;
    /// Lists the rounds of self-review of one incarnation of a raider on a relic, the first one first.
    fn self_reviews(
        &mut self,
        relic: &RelicId,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<Vec<Round>, StoreError>;
    /// Deletes at most `limit` rounds that were recorded before that time by raiders that are gone, and whose merge
    /// requests are settled; returns their number.
    fn prune_self_reviews(&mut self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Stores a new totem, whose steps are stored relics. `Conflict` when the relic has a totem.
    fn add_totem(&mut self, totem: &TotemRow) -> Result<(), StoreError>;
    fn totem(&mut self, relic: &RelicId) -> Result<Option<TotemRow>, StoreError>;
    /// Returns the relic whose totem has this step.
    fn totem_of_step(&mut self, step: &RelicId) -> Result<Option<RelicId>, StoreError>;

    /// Stores an attempt, in place of an earlier state of it.
    fn put_attempt(&mut self, attempt: &Attempt) -> Result<(), StoreError>;
    fn attempt(
        &mut self,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<Option<Attempt>, StoreError>;
    /// Lists the attempts of all incarnations of a raider at a relic; those that cannot be read are left out.
    fn attempts_of(
        &mut self,
        relic: &RelicId,
        raider: &RaiderId,
    ) -> Result<Vec<Attempt>, StoreError>;
    /// Deletes at most `limit` attempts at relics that were closed before that time; returns their number.
    fn prune_attempts(&mut self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
    /// Appends a result to the chain of an identity; none when this result of the work is in a chain already.
    fn append_entry(
        &mut self,
        name: &str,
        outcome: Outcome,
        work: &Work,
    ) -> Result<Option<CvEntry>, StoreError>;
    /// Lists the first chains whose names come after this text, each with its end.
    fn chains(
        &mut self,
        of: &ChainOf,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Head)>, StoreError>;
    /// Returns the end of a chain; none without such a chain.
    fn chain_head(&mut self, of: &ChainOf, name: &str) -> Result<Option<Head>, StoreError>;
    /// Lists the first entries of a chain after this number. Reads entries that were changed from outside, too.
    fn chain_entries(
        &mut self,
        of: &ChainOf,
        name: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEntry>, StoreError>;
    /// Lists the last entries with a label of an identity's chain, the newest first.
    fn newest_entries(
        &mut self,
        name: &str,
        label: &str,
        limit: usize,
    ) -> Result<Vec<CvEntry>, StoreError>;
    /// Names chains that have entries and no noted end: they were changed from outside.
    fn unnoted_chains(&mut self, of: &ChainOf) -> Result<Vec<String>, StoreError>;
    /// Returns true when a merge request of the relic failed by its own fault, or was rejected.
    fn has_failed_before(&mut self, relic: &RelicId) -> Result<bool, StoreError>;
    /// Lists the cities whose chains were imported.
    fn foreign_cities(&mut self) -> Result<Vec<ForeignCity>, StoreError>;
    /// Adds a city, or notes a later import of it.
    fn put_foreign_city(&mut self, city: &ForeignCity) -> Result<(), StoreError>;
    fn add_foreign_entry(&mut self, city: &str, line: &Line) -> Result<(), StoreError>;
    /// Deletes a city with all its chains; returns the number of entries, and none when it was not imported.
    fn forget_foreign_city(&mut self, city: &str) -> Result<Option<u64>, StoreError>;

    /// Lists the counted deaths of every child that has any.
    fn deaths(&mut self) -> Result<Vec<DeathRecord>, StoreError>;
    /// Overwrites the child's row; an empty history is deleted.
    fn put_deaths(&mut self, deaths: &DeathRecord) -> Result<(), StoreError>;

    fn mark(&mut self, automation: &AutomationId) -> Result<Option<Mark>, StoreError>;
    fn put_mark(&mut self, mark: &Mark) -> Result<(), StoreError>;
    /// Deletes the marks of all other automations, except those that an operator disabled.
    fn keep_marks(&mut self, of: &[AutomationId]) -> Result<(), StoreError>;
    /// Records a run as started, and deletes the oldest runs.
    fn begin_run(
        &mut self,
        automation: &AutomationId,
        cause: Cause,
        event: Option<u64>,
    ) -> Result<Run, StoreError>;
    /// Records the state of a run.
    fn put_run(&mut self, run: &Run) -> Result<(), StoreError>;
    /// Lists runs, the newest first.
    fn runs(&mut self, of: Option<&AutomationId>, limit: usize) -> Result<Vec<Run>, StoreError>;
    /// Lists unfinished runs, the oldest first.
    fn open_runs(&mut self) -> Result<Vec<Run>, StoreError>;

    /// Overwrites the transcript of the same path.
    fn put_source(&mut self, source: &Source) -> Result<(), StoreError>;
    fn source(&mut self, path: &str) -> Result<Option<Source>, StoreError>;
    /// Deletes the transcript of this path.
    fn forget_source(&mut self, path: &str) -> Result<(), StoreError>;
    /// Lists the transcripts that may grow.
    fn active_sources(&mut self) -> Result<Vec<Source>, StoreError>;
    /// Adds to the sum of the same day, owner and model.
    fn add_usage(&mut self, row: &Row) -> Result<(), StoreError>;
    /// Lists sums from a day on, the oldest first.
    fn usage_since(&mut self, day: &str) -> Result<Vec<Row>, StoreError>;
    /// Lists the sums of a raider on a relic.
    fn usage_of_work(&mut self, relic: &RelicId, child: &str) -> Result<Vec<Row>, StoreError>;
    /// Lists the sums of all relics that are on a hook.
    fn usage_of_hooked(&mut self) -> Result<Vec<Row>, StoreError>;
    /// Deletes sums from before that day, and transcripts that have not grown since that time; returns the number of
    /// sums.
    fn prune_usage(&mut self, day: &str, before: Timestamp) -> Result<usize, StoreError>;

    /// Returns a small fact by its key.
    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError>;
    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), StoreError>;
    /// Lists the small facts whose keys begin with this.
    fn key_values_under(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError>;

    /// Rewords every stored text, as another version of the supervisor would.
    #[cfg(any(test, feature = "testing"))]
    fn reword(&mut self) -> Result<(), StoreError>;
}

/// A unit of work on the store. `Err` rolls back only its own writes.
pub type Job<'a> = &'a mut dyn FnMut(&mut dyn Txn) -> Result<(), StoreError>;

/// A commit.
#[derive(Debug)]
pub struct Committed {
    /// The result of each job.
    pub results: Vec<Result<(), StoreError>>,
    /// The events that became durable, in order.
    pub events: Vec<Event>,
    /// Set when a row was written; unset when all jobs only read.
    pub wrote: bool,
}

/// The durability of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk before the commit returns.
    Full,
    /// On disk with the next full commit, or a little later.
    Behind,
}

/// The store. Blocking; owned by one thread.
pub trait Relics: Send {
    /// Runs the jobs in one commit, each in a savepoint of its own.
    ///
    /// # Errors
    /// The commit itself failed: then no job took effect.
    fn commit(
        &mut self,
        jobs: &mut [Job<'_>],
        durability: Durability,
    ) -> Result<Committed, StoreError>;
}
