//! Budgets of blocking work: the number of threads that one rig, session or caller may hold with one kind of work.
//!
//! ```text
//!  effects ─► take ─┬─ a place is free ──────────────────────────► a thread, which gives it back when the work ends
//!                   ├─ all are taken, and one ended lately ──────► waits
//!                   └─ all are taken, and none ends any more ────► refused: the disk or a process hangs
//! ```
//!
//! A place belongs to the thread and not to its caller, so that a caller that stops waiting frees nothing. A disk that
//! hangs therefore holds as many threads as its rig's budgets have places, however often it is asked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::domain::ids::{RigName, SessionId};

/// The owner of a budget: if its disk or process hangs, only its own places are used up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A rig: its checkout, repositories, sandboxes and task files.
    Rig(RigName),
    /// A session: its processes, its holder, its log, its transcript.
    Session(SessionId),
    /// A process that calls the supervisor.
    Caller(u32),
    /// The city: all sessions at once, and files of no rig.
    City,
}

/// A kind of blocking work. Each has a budget of its own, so that slow work does not keep short work waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkKind {
    /// Short reading: directories, refs, a `git status`.
    Files,
    /// Reads or writes a whole sandbox: made, measured, saved, removed.
    Sandbox,
    /// Talks to a remote.
    Network,
    /// Merges and moves the target.
    Landing,
    /// Runs configured commands: gates, set-ups, pull requests.
    Commands,
    /// Runs the commands of automations.
    Automations,
    /// Runs commands that answer a question: the conditions of automations, the sizes of pools.
    Checks,
    /// Runs the commands of `[notify]`.
    Notices,
    /// Prepares the rig for a reload.
    Prepare,
    /// Repacks and expires.
    Upkeep,
    /// Reads from a session, or types into it.
    Session,
    /// Starts or ends a session.
    Life,
    /// Finds out which process a caller is.
    Caller,
    /// Does so for all callers together.
    Callers,
    /// Lists sessions and their processes.
    List,
    /// Reads or writes task files.
    Tasks,
    /// Reads the configuration, and prepares the session providers for it.
    Config,
}

impl WorkKind {
    /// Returns the number of places.
    const fn places(self) -> usize {
        match self {
            Self::Caller | Self::Prepare | Self::Config => 1,
            Self::Upkeep => 2,
            Self::Landing | Self::Life => 4,
            Self::Files | Self::Sandbox | Self::Network | Self::Session | Self::List => 8,
            // One notice runs at a time; the other places are for commands that could not be ended.
            Self::Checks | Self::Notices => 16,
            // `gate_concurrency` and `max` of the raiders are the limits of a rig that works.
            Self::Commands => 64,
            // Their commands may wait for each other (`hd auto run --wait`).
            Self::Automations => 64,
            Self::Tasks => 32,
            Self::Callers => 256,
        }
    }

    /// Returns how long no work may have ended, with all places taken, until further work is refused.
    const fn patience(self) -> Duration {
        Duration::from_secs(match self {
            Self::Caller | Self::Callers => 10,
            Self::Files | Self::Session | Self::List => 15,
            Self::Prepare | Self::Config => 30,
            Self::Sandbox | Self::Network | Self::Landing | Self::Life | Self::Tasks => 60,
            Self::Notices => 60,
            Self::Checks => 600,
            Self::Commands | Self::Upkeep => 3600,
            // Their timeouts are configured, and a run that waits holds no thread.
            Self::Automations => 24 * 3600,
        })
    }

    /// Returns the duration after which work hangs. It is longer than the limits that the work sets itself; none for
    /// work whose limit is configured.
    const fn overdue(self) -> Option<Duration> {
        let seconds = match self {
            Self::Files => 150,
            Self::Landing => 15 * 60,
            Self::Sandbox => 3600,
            // A first fetch has an hour.
            Self::Network | Self::Upkeep | Self::Prepare => 2 * 3600,
            Self::Commands | Self::Session | Self::Life | Self::List | Self::Tasks => return None,
            Self::Caller | Self::Callers | Self::Config => return None,
            Self::Automations | Self::Checks | Self::Notices => return None,
        };
        Some(Duration::from_secs(seconds))
    }

    /// Returns true when work of a rig that does not end says that its disk or its git hangs. The commands of automations
    /// and checks may do anything, with timeouts of their own.
    const fn tells_of_the_disk(self) -> bool {
        !matches!(self, Self::Automations | Self::Checks | Self::Notices)
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Files => "reading its files",
            Self::Sandbox => "reading or writing a sandbox",
            Self::Network => "talking to its remote",
            Self::Landing => "merging",
            Self::Commands => "running commands",
            Self::Automations => "running automations",
            Self::Checks => "running checks",
            Self::Notices => "running commands of [notify]",
            Self::Prepare => "preparing it",
            Self::Upkeep => "repacking",
            Self::Session => "asking the session",
            Self::Life => "starting or ending the session",
            Self::Caller | Self::Callers => "reading the caller's process",
            Self::List => "listing the sessions",
            Self::Tasks => "reading task files",
            Self::Config => "reading the configuration",
        }
    }
}

/// The refusal of work whose budget is used up by work that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent(WorkKind);

impl fmt::Display for Spent {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kind) = self;
        let (places, patience) = (kind.places(), kind.patience());
        write!(
            to,
            "no answer: {places} operations are {} and none ended within {patience:?}",
            kind.words()
        )
    }
}

/// The budgets of all work under way.
#[derive(Clone, Default)]
pub struct ThreadBudgets(Arc<Mutex<Table>>);

type Table = BTreeMap<(Owner, WorkKind), Arc<ThreadBudget>>;

struct ThreadBudget {
    places: Arc<Semaphore>,
    progress: Mutex<Progress>,
}

struct Progress {
    /// When a place was last taken or given back.
    moved: Instant,
    last: u64,
    /// When each running operation began.
    running: BTreeMap<u64, Instant>,
}

/// A place of a budget; returned when dropped.
pub struct ThreadPermit {
    budget: Arc<ThreadBudget>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl ThreadBudget {
    fn new(kind: WorkKind) -> Self {
        let progress = Progress {
            moved: Instant::now(),
            last: 0,
            running: BTreeMap::new(),
        };
        Self {
            places: Arc::new(Semaphore::new(kind.places())),
            progress: Mutex::new(progress),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn occupy(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> ThreadPermit {
        let mut progress = self.progress();
        progress.moved = Instant::now();
        progress.last += 1;
        let (number, now) = (progress.last, progress.moved);
        progress.running.insert(number, now);
        drop(progress);
        ThreadPermit {
            budget: Arc::clone(self),
            number,
            _permit: permit,
        }
    }

    fn is_spent(&self, kind: WorkKind) -> bool {
        self.places.available_permits() == 0 && self.progress().moved.elapsed() >= kind.patience()
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        let mut progress = self.budget.progress();
        progress.moved = Instant::now();
        progress.running.remove(&self.number);
    }
}

impl ThreadBudgets {
    fn all(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget(&self, owner: &Owner, kind: WorkKind) -> Arc<ThreadBudget> {
        let key = (owner.clone(), kind);
        let mut all = self.all();
        if let Some(budget) = all.get(&key) {
            return Arc::clone(budget);
        }
        // Sessions and callers come and go: a budget that nothing uses is made again when it is needed.
        all.retain(|_, budget| Arc::strong_count(budget) > 1);
        let budget = Arc::new(ThreadBudget::new(kind));
        all.insert(key, Arc::clone(&budget));
        budget
    }

    /// Takes a place, as soon as one is free.
    ///
    /// # Errors
    /// All places are taken, and no operation has ended for as long as this kind of work may take.
    pub async fn take(&self, owner: &Owner, kind: WorkKind) -> Result<ThreadPermit, Spent> {
        let budget = self.budget(owner, kind);
        loop {
            if let Ok(permit) = Arc::clone(&budget.places).try_acquire_owned() {
                return Ok(budget.occupy(permit));
            }
            let still = budget.progress().moved.elapsed();
            let Some(wait) = kind
                .patience()
                .checked_sub(still)
                .filter(|wait| !wait.is_zero())
            else {
                return Err(Spent(kind));
            };
            let waiting = Arc::clone(&budget.places).acquire_owned();
            if let Ok(Ok(permit)) = tokio::time::timeout(wait, waiting).await {
                return Ok(budget.occupy(permit));
            }
        }
    }

    /// Returns why the rig counts as unseen: work of it has not ended for longer than it may take.
    #[must_use]
    pub fn unseen(&self, rig: &RigName) -> Option<String> {
        let owner = Owner::Rig(rig.clone());
        let all = self.all();
        let mut own = all
            .iter()
            .filter(|((of, kind), _)| *of == owner && kind.tells_of_the_disk());
        own.find_map(|((_, kind), budget)| {
            if budget.is_spent(*kind) {
                return Some(Spent(*kind).to_string());
            }
            let limit = kind.overdue()?;
            let late = |begun: &Instant| begun.elapsed() >= limit;
            let hangs = budget.progress().running.values().any(late);
            hangs.then(|| format!("{} has taken longer than {limit:?}", kind.words()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rig(name: &str) -> (RigName, Owner) {
        let rig = RigName::new(name).unwrap();
        (rig.clone(), Owner::Rig(rig))
    }

    async fn fill(budgets: &ThreadBudgets, owner: &Owner, kind: WorkKind) -> Vec<ThreadPermit> {
        let mut taken = Vec::new();
        for _ in 0..kind.places() {
            taken.push(budgets.take(owner, kind).await.unwrap());
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_uses_up_only_the_budget_of_its_rig_and_kind() {
        let budgets = ThreadBudgets::default();
        let (hung, owner) = rig("hung");
        let (well, other) = rig("well");
        let taken = fill(&budgets, &owner, WorkKind::Files).await;
        assert_eq!(budgets.unseen(&hung), None, "it is only busy");
        let asked = Instant::now();
        let refused = budgets.take(&owner, WorkKind::Files).await.err();
        assert_eq!(refused, Some(Spent(WorkKind::Files)));
        assert_eq!(asked.elapsed(), WorkKind::Files.patience());
        let again = budgets.take(&owner, WorkKind::Files).await;
        assert!(again.is_err());
        assert_eq!(
            asked.elapsed(),
            WorkKind::Files.patience(),
            "known: at once"
        );
        assert!(budgets.unseen(&hung).is_some());
        assert!(budgets.take(&owner, WorkKind::Network).await.is_ok());
        assert!(budgets.take(&other, WorkKind::Files).await.is_ok());
        assert_eq!(budgets.unseen(&well), None);
        drop(taken);
        assert!(budgets.take(&owner, WorkKind::Files).await.is_ok());
        assert_eq!(budgets.unseen(&hung), None);
    }

    #[tokio::test(start_paused = true)]
    async fn work_waits_as_long_as_other_work_of_its_budget_ends() {
        let budgets = ThreadBudgets::default();
        let (_, owner) = rig("busy");
        let mut taken = fill(&budgets, &owner, WorkKind::Files).await;
        let mut waiting = Vec::new();
        for _ in 0..WorkKind::Files.places() {
            let (budgets, owner) = (budgets.clone(), owner.clone());
            waiting.push(tokio::spawn(async move {
                budgets.take(&owner, WorkKind::Files).await
            }));
        }
        let begun = Instant::now();
        let patience = WorkKind::Files.patience();
        while let Some(place) = taken.pop() {
            let nothing = std::future::pending::<()>();
            let _always_over = tokio::time::timeout(patience * 2 / 3, nothing).await;
            drop(place);
        }
        let mut held = Vec::new();
        for one in waiting {
            held.push(one.await.unwrap().expect("a place"));
        }
        assert!(begun.elapsed() > patience * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn single_operation_that_is_overdue_makes_its_rig_unseen() {
        let budgets = ThreadBudgets::default();
        let (name, owner) = rig("hung");
        let place = budgets.take(&owner, WorkKind::Landing).await.unwrap();
        assert_eq!(budgets.unseen(&name), None);
        tokio::time::advance(WorkKind::Landing.overdue().unwrap()).await;
        let why = budgets.unseen(&name).unwrap();
        assert!(why.contains("merging"), "{why}");
        drop(place);
        assert_eq!(budgets.unseen(&name), None);
    }

    #[tokio::test(start_paused = true)]
    async fn budgets_that_nothing_uses_are_forgotten() {
        let budgets = ThreadBudgets::default();
        let held = budgets.take(&Owner::Caller(0), WorkKind::Caller).await;
        for pid in 1..100 {
            drop(budgets.take(&Owner::Caller(pid), WorkKind::Caller).await);
        }
        assert_eq!(budgets.all().len(), 2);
        drop(held);
    }
}
