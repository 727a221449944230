//! The relic store: what must survive, and the journal.
//!
//! A [`Relics`] is owned by the store actor alone. Everybody else sends it a closure over
//! [`Txn`]: all calls in it are one transaction, a state change and its event included (the outbox
//! pattern).

use jiff::Timestamp;
use serde_json::Value;

use crate::domain::automation::{AutomationId, Mark, Run};
use crate::domain::cause::Cause;
pub use crate::domain::cv::CvEntry;
use crate::domain::event::{Event, NewEvent};
use crate::domain::ids::{Incarnation, RaiderId, RelicId, RigName, SlotName};
use crate::domain::merge::MergeRequest;
use crate::domain::message::{Address, Body, Message};
use crate::domain::relic::{Hook, Relic, RelicKind, RelicStatus};
use crate::domain::restart::Deaths;
use crate::domain::saga::{Saga, SagaKind};
use crate::domain::saved_work::SavedWork;
use crate::domain::usage::ledger::{Row, Source};
use crate::ports::repo::SalvageRecord;

/// Why the store did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot write at present (disk full, read-only); nothing was changed.
    #[error("the relic store cannot write: {0}")]
    Unavailable(String),
    /// No such row.
    #[error("no such {kind}: {id}")]
    NotFound {
        /// "relic", "merge request", ...
        kind: &'static str,
        /// As asked for.
        id: String,
    },
    /// The present state forbids it.
    #[error("{0}")]
    Conflict(String),
    /// The file is damaged, or a bug.
    #[error("the relic store failed: {0}")]
    Failed(String),
}

/// A relic to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRelic {
    /// Prefix of its id.
    pub prefix: String,
    /// What it is.
    pub kind: RelicKind,
    /// One line.
    pub title: String,
    /// The rest.
    pub body: String,
    /// Larger is more urgent.
    pub priority: i64,
    /// Free words.
    pub labels: Vec<String>,
    /// The relic it is a step of.
    pub parent: Option<RelicId>,
    /// Relics that must be closed first.
    pub deps: Vec<RelicId>,
    /// The caller that asks for it; none for what the supervisor makes for itself.
    pub by: Option<String>,
}

/// Which relics to list.
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
}

/// Which events to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Those after this number.
    pub after: u64,
    /// This type, or `prefix.*`.
    pub kind: Option<String>,
    /// About this subject, or about a relic or merge request bound to it.
    pub subject: Option<String>,
    /// At most so many, the oldest first; 0 is no limit.
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
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// What it worked on.
    pub relic: Option<RelicId>,
    /// Why it was salvaged.
    pub reason: String,
    /// When.
    pub created: Timestamp,
    /// Full ref names in `repo.git`.
    pub refs: Vec<String>,
    /// Bytes of content.
    pub bytes: u64,
    /// Ignored paths that were not salvaged.
    pub ignored: Vec<String>,
    /// The work of the attempt, as commits; none where a version wrote it that did not note them.
    #[serde(default)]
    pub work: Option<SavedWork>,
}

impl SalvageEntry {
    /// Returns what a restoration needs of it.
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

/// One transaction. Every method sees what the ones before it wrote.
#[expect(
    missing_docs,
    reason = "names and types say it; where they do not, a line does"
)]
pub trait Txn {
    /// The time that rows written by this transaction carry.
    fn now(&self) -> Timestamp;

    fn create_relic(&mut self, new: &NewRelic) -> Result<Relic, StoreError>;
    fn relic(&mut self, id: &RelicId) -> Result<Relic, StoreError>;
    /// Overwrites the row of the same id.
    fn put_relic(&mut self, relic: &Relic) -> Result<(), StoreError>;
    /// Ordered by priority, then age, then number.
    fn relics(&mut self, filter: &RelicFilter) -> Result<Vec<Relic>, StoreError>;
    /// Open tasks of this prefix whose dependencies are closed, with this label if one is given, in the same
    /// order: the first `limit`. However many others there are, they are not looked at.
    fn ready(
        &mut self,
        prefix: &str,
        label: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Relic>, StoreError>;
    /// Deletes wisps that were closed before, the oldest first, and says which. One that something
    /// open is a part of, or depends on, stays.
    fn collect_wisps(
        &mut self,
        closed_before: Timestamp,
        limit: usize,
    ) -> Result<Vec<RelicId>, StoreError>;

    /// The slot's last incarnation; 0 when it never had one.
    fn incarnation(&mut self, raider: &RaiderId) -> Result<Incarnation, StoreError>;
    /// The slot's next incarnation, persisted.
    fn next_incarnation(&mut self, raider: &RaiderId) -> Result<Incarnation, StoreError>;

    fn put_hook(&mut self, hook: &Hook) -> Result<(), StoreError>;
    fn hook(&mut self, raider: &RaiderId) -> Result<Option<Hook>, StoreError>;
    fn hook_of_relic(&mut self, relic: &RelicId) -> Result<Option<Hook>, StoreError>;
    fn hooks(&mut self, rig: Option<&RigName>) -> Result<Vec<Hook>, StoreError>;
    /// Removes the hook if it is of this incarnation.
    fn drop_hook(
        &mut self,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<bool, StoreError>;

    /// Stores the message and journals `message.sent`.
    fn send(&mut self, from: &str, to: &str, body: Body) -> Result<u64, StoreError>;
    /// Messages to an address that were not handled, the oldest first.
    fn inbox(&mut self, to: &str) -> Result<Vec<Message>, StoreError>;
    /// Marks it handled; false when it was already.
    fn handled(&mut self, id: u64) -> Result<bool, StoreError>;
    /// All addresses with something in the inbox.
    fn waiting(&mut self) -> Result<Vec<Address>, StoreError>;

    fn put_mr(&mut self, mr: &MergeRequest) -> Result<(), StoreError>;
    fn mr(&mut self, id: &RelicId) -> Result<MergeRequest, StoreError>;
    /// Merge requests of a rig; only unfinished ones when `open`.
    fn mrs(&mut self, rig: Option<&RigName>, open: bool) -> Result<Vec<MergeRequest>, StoreError>;
    /// All merge requests of a relic, the oldest first.
    fn mrs_of(&mut self, relic: &RelicId) -> Result<Vec<MergeRequest>, StoreError>;
    /// The newest merge request of this incarnation of this raider for the relic. The raider is part
    /// of the question, because incarnations are counted per slot.
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
    /// Ends it.
    fn close_saga(&mut self, id: u64) -> Result<(), StoreError>;
    fn saga(&mut self, id: u64) -> Result<Option<Saga>, StoreError>;
    /// Open sagas, the oldest first.
    fn sagas(&mut self, rig: Option<&RigName>) -> Result<Vec<Saga>, StoreError>;
    fn saga_of(&mut self, kind: SagaKind, subject: &str) -> Result<Option<Saga>, StoreError>;

    fn record(&mut self, event: &NewEvent) -> Result<u64, StoreError>;
    /// The number of the newest event, kept or not; 0 when there never was one.
    fn last_seq(&mut self) -> Result<u64, StoreError>;
    /// The number of the oldest event that is kept; where none is, that of the next one.
    fn first_seq(&mut self) -> Result<u64, StoreError>;
    /// Deletes events older than `before` with a number below `seq`, at most so many; says how many.
    fn prune_events(
        &mut self,
        before: Timestamp,
        seq: u64,
        limit: usize,
    ) -> Result<usize, StoreError>;
    /// Deletes messages that were handled before, at most so many; says how many.
    fn prune_messages(&mut self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
    fn events(&mut self, filter: &EventFilter) -> Result<Vec<Event>, StoreError>;

    fn put_salvage(&mut self, entry: &SalvageEntry) -> Result<(), StoreError>;
    fn salvages(&mut self) -> Result<Vec<SalvageEntry>, StoreError>;
    /// Forgets a salvage; false when there is none.
    fn drop_salvage(&mut self, id: &str) -> Result<bool, StoreError>;

    fn append_cv(&mut self, name: &str, kind: &str, data: &Value) -> Result<CvEntry, StoreError>;
    fn cv(&mut self, name: &str) -> Result<Vec<CvEntry>, StoreError>;

    /// What counts against every child that has a history.
    fn deaths(&mut self) -> Result<Vec<Deaths>, StoreError>;
    /// Overwrites the child's row; what says nothing is forgotten.
    fn put_deaths(&mut self, deaths: &Deaths) -> Result<(), StoreError>;

    fn mark(&mut self, automation: &AutomationId) -> Result<Option<Mark>, StoreError>;
    fn put_mark(&mut self, mark: &Mark) -> Result<(), StoreError>;
    /// Forgets the marks of all others, except of those that an operator disabled.
    fn keep_marks(&mut self, of: &[AutomationId]) -> Result<(), StoreError>;
    /// Records a run as started, and forgets the oldest ones.
    fn begin_run(
        &mut self,
        automation: &AutomationId,
        cause: Cause,
        event: Option<u64>,
    ) -> Result<Run, StoreError>;
    /// Records how it stands.
    fn put_run(&mut self, run: &Run) -> Result<(), StoreError>;
    /// Runs, the newest first.
    fn runs(&mut self, of: Option<&AutomationId>, limit: usize) -> Result<Vec<Run>, StoreError>;
    /// Runs that are not over, the oldest first.
    fn open_runs(&mut self) -> Result<Vec<Run>, StoreError>;

    /// Overwrites the transcript of the same path.
    fn put_source(&mut self, source: &Source) -> Result<(), StoreError>;
    fn source(&mut self, path: &str) -> Result<Option<Source>, StoreError>;
    /// Forgets the transcript of this path.
    fn forget_source(&mut self, path: &str) -> Result<(), StoreError>;
    /// Transcripts that may grow.
    fn active_sources(&mut self) -> Result<Vec<Source>, StoreError>;
    /// Adds to the sum of the same day, owner and model.
    fn add_usage(&mut self, row: &Row) -> Result<(), StoreError>;
    /// Sums from a day on, the oldest first.
    fn usage_since(&mut self, day: &str) -> Result<Vec<Row>, StoreError>;
    /// Sums of a relic.
    fn usage_of(&mut self, relic: &RelicId) -> Result<Vec<Row>, StoreError>;
    /// Deletes sums from before that day, and forgets transcripts that have not grown since that time;
    /// says how many sums.
    fn prune_usage(&mut self, day: &str, before: Timestamp) -> Result<usize, StoreError>;

    /// A small fact under a key.
    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError>;
    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), StoreError>;
}

/// A unit of work on the store. `Err` rolls its own writes back and no one else's.
pub type Job<'a> = &'a mut dyn FnMut(&mut dyn Txn) -> Result<(), StoreError>;

/// A commit: the result of each job, and the events that became durable, in order.
pub type Committed = (Vec<Result<(), StoreError>>, Vec<Event>);

/// How sure a commit must be before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On the disk.
    Full,
    /// With the next full one, or a little later.
    Behind,
}

/// The store itself. Blocking; owned by one thread.
pub trait Relics: Send {
    /// Runs the jobs, each in a savepoint of its own, in one commit. The events that became
    /// durable come back in order; the results are per job.
    ///
    /// # Errors
    /// The commit itself failed: then no job took effect.
    fn commit(
        &mut self,
        jobs: &mut [Job<'_>],
        durability: Durability,
    ) -> Result<Committed, StoreError>;
}
