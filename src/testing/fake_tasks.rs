//! Task files and outbox in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;

use crate::actors::mail::Charged;
use crate::domain::intent::{Intent, Secret};
use crate::domain::unattended::Trace;
use crate::ports::tasks::{
    Expired, Leftovers, OutboxFile, OutcomeText, Part, Repaired, TaskError, TaskEvent, TaskFiles,
    TaskListener,
};

/// Pretended task files.
#[derive(Default)]
pub struct FakeTasks {
    inner: Arc<Mutex<Inner>>,
    ear: OnceLock<TaskListener>,
}

#[derive(Default)]
struct Inner {
    tasks: BTreeMap<PathBuf, String>,
    outcomes: BTreeMap<PathBuf, String>,
    written: BTreeMap<PathBuf, Timestamp>,
    keeps_outcomes: bool,
    prompts: Vec<(PathBuf, String)>,
    beside: BTreeMap<PathBuf, String>,
    watched: BTreeSet<PathBuf>,
    outbox: BTreeMap<PathBuf, Result<Intent, TaskError>>,
    aside: Vec<Intent>,
    leftovers: Leftovers,
    set_ups: Vec<PathBuf>,
    broken: Option<String>,
    set_up_fails: Option<String>,
    hidden: Option<String>,
    unsettled: bool,
    serial: u64,
    emptied: usize,
    on_empty: Option<Interlude>,
    pruned: Vec<Pruned>,
    repaired: Vec<PathBuf>,
    replaced: Vec<PathBuf>,
}

/// A call of `prune`: the directory, the age limit, and the exceptions.
type Pruned = (PathBuf, Expired, Vec<PathBuf>);

type Interlude = Arc<dyn Fn() + Send + Sync>;

/// Returns the intent that `hd done` leaves in the outbox when a raider's session calls it.
#[must_use]
pub fn done_intent(charged: &Charged) -> Intent {
    let intent = Intent {
        v: 1,
        op: "done".into(),
        args: serde_json::Map::new(),
        raider: Some(charged.raider.to_string()),
        rig: None,
        incarnation: Some(charged.incarnation.0),
        relic: Some(charged.relic.to_string()),
        session: Some(charged.session.to_string()),
        cwd: charged.sandbox.clone(),
        pid: 4711,
        at: Timestamp::UNIX_EPOCH,
        mac: None,
    };
    sign(charged, intent)
}

/// Returns the intent as signed by the raider's own session.
#[must_use]
pub fn sign(charged: &Charged, intent: Intent) -> Intent {
    let key = secret().key(&charged.session, charged.incarnation);
    intent.signed(&key).expect("a JSON form")
}

/// Returns the secret of a city in tests.
#[must_use]
pub fn secret() -> Secret {
    Secret::new([7; 32])
}

/// Methods for tests: actions and observations.
impl FakeTasks {
    /// Has the next repair of links find a file in the place of one, which it keeps under this name.
    pub fn replaces(&self, kept: &Path) {
        self.inner().replaced.push(kept.to_owned());
    }

    /// Makes an empty fake.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the same files as a new daemon finds them, without a listener and watches.
    #[must_use]
    pub fn successor(&self) -> Self {
        self.inner().watched.clear();
        Self {
            inner: Arc::clone(&self.inner),
            ear: OnceLock::new(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A test that failed in another thread may still look.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, event: TaskEvent) {
        if let Some(listener) = self.ear.get() {
            listener(event);
        }
    }

    /// Writes the agent's outcome file, and notifies the listener if its directory is watched.
    pub fn write_outcome(&self, dir: &Path, text: &str) {
        self.write_outcome_unwatched(dir, text);
        if self.is_watched(dir) {
            self.notify(TaskEvent::Outcome(dir.to_owned()));
        }
    }

    /// Writes the agent's outcome file while it is not watched.
    pub fn write_outcome_unwatched(&self, dir: &Path, text: &str) {
        self.inner()
            .outcomes
            .insert(dir.to_owned(), text.to_owned());
    }

    /// Makes outcome files unreadable for this reason, or readable again.
    pub fn hide(&self, why: Option<&str>) {
        self.inner().hidden = why.map(str::to_owned);
    }

    /// Makes git work in the sandboxes, so that no outcome can be told from a file of git, or ends that.
    pub fn unsettle(&self, is_unsettled: bool) {
        self.inner().unsettled = is_unsettled;
    }

    /// Leaves outcomes that count no longer in their places, as if the supervisor were killed before.
    pub fn keep_outcomes(&self) {
        self.inner().keeps_outcomes = true;
    }

    /// Sets the time stamp of the outcome file.
    pub fn stamp(&self, dir: &Path, at: Timestamp) {
        self.inner().written.insert(dir.to_owned(), at);
    }

    /// Leaves an intent, as `hd` does.
    pub fn leave(&self, intent: Intent) {
        self.leave_unheard(intent);
        self.notify(TaskEvent::Outbox);
    }

    /// Leaves an intent, as `hd` does, while the outbox is not watched.
    pub fn leave_unheard(&self, intent: Intent) {
        self.leave_file(|_| Ok(intent));
    }

    /// Leaves a file in the outbox that is no intent.
    pub fn leave_garbage(&self, why: &str) {
        let why = why.to_owned();
        self.leave_file(|path| Err(TaskError { path, why }));
        self.notify(TaskEvent::Outbox);
    }

    fn leave_file(&self, holds: impl FnOnce(PathBuf) -> Result<Intent, TaskError>) {
        let mut inner = self.inner();
        inner.serial += 1;
        let file = PathBuf::from(format!("/outbox/{}.json", inner.serial));
        inner.outbox.insert(file.clone(), holds(file));
    }

    /// Makes task files unwritable (`Some(why)`), or writable again.
    pub fn break_files(&self, why: Option<&str>) {
        self.inner().broken = why.map(ToOwned::to_owned);
    }

    /// Sets the leftovers that are found.
    pub fn litter(&self, leftovers: Leftovers) {
        self.inner().leftovers = leftovers;
    }

    /// Makes set-up commands fail (`Some(why)`), or work again.
    pub fn break_set_up(&self, why: Option<&str>) {
        self.inner().set_up_fails = why.map(ToOwned::to_owned);
    }

    /// Runs this before each emptying of the trash.
    pub fn when_emptied(&self, act: impl Fn() + Send + Sync + 'static) {
        self.inner().on_empty = Some(Arc::new(act));
    }

    /// Returns the calls of `prune`, in order.
    #[must_use]
    pub fn pruned(&self) -> Vec<Pruned> {
        self.inner().pruned.clone()
    }

    /// Returns the number of times that the trash was emptied.
    #[must_use]
    pub fn emptied(&self) -> usize {
        self.inner().emptied
    }

    /// Returns the prompts that were written, in order.
    #[must_use]
    pub fn prompts(&self) -> Vec<String> {
        let inner = self.inner();
        inner.prompts.iter().map(|(_, text)| text.clone()).collect()
    }

    /// Returns the text of a file that was written beside tasks; none if it is missing.
    pub fn beside(&self, path: &Path) -> Option<String> {
        self.inner().beside.get(path).cloned()
    }

    /// Returns the number of intents in the outbox.
    #[must_use]
    pub fn intents(&self) -> usize {
        self.inner().outbox.len()
    }

    /// Returns the intents that were kept for a person.
    #[must_use]
    pub fn aside(&self) -> Vec<Intent> {
        self.inner().aside.clone()
    }

    /// Returns how often the links to this task directory were put back.
    #[must_use]
    pub fn repairs(&self, dir: &Path) -> usize {
        let inner = self.inner();
        inner.repaired.iter().filter(|known| *known == dir).count()
    }

    /// Returns whether the directory is watched.
    #[must_use]
    pub fn is_watched(&self, dir: &Path) -> bool {
        self.inner().watched.contains(dir)
    }
}

impl Inner {
    fn check(&self, path: &Path) -> Result<(), TaskError> {
        match &self.broken {
            None => Ok(()),
            Some(why) => Err(TaskError {
                path: path.to_owned(),
                why: why.clone(),
            }),
        }
    }
}

impl TaskFiles for FakeTasks {
    fn listen(&self, listener: TaskListener) {
        assert!(self.ear.set(listener).is_ok(), "called once");
    }

    fn write_task(&self, dir: &Path, text: &str) -> Result<(), TaskError> {
        let mut inner = self.inner();
        inner.check(dir)?;
        inner.tasks.insert(dir.to_owned(), text.to_owned());
        inner.outcomes.insert(dir.to_owned(), String::new());
        inner.watched.insert(dir.to_owned());
        Ok(())
    }

    fn task_file(&self, _sandbox: &Path) -> &'static str {
        "TASK.md"
    }

    fn watch(&self, dir: &Path, _sandbox: &Path) {
        self.inner().watched.insert(dir.to_owned());
    }

    fn repair_links(&self, dir: &Path, _sandbox: &Path) -> Repaired {
        let mut inner = self.inner();
        let failed = inner.check(dir).err();
        if failed.is_none() {
            inner.repaired.push(dir.to_owned());
        }
        Repaired {
            failed,
            moved: std::mem::take(&mut inner.replaced),
        }
    }

    fn unwatch(&self, dir: &Path) {
        self.inner().watched.remove(dir);
    }

    fn write_prompt(&self, dir: &Path, text: &str) -> Result<PathBuf, TaskError> {
        let mut inner = self.inner();
        inner.check(dir)?;
        inner.prompts.push((dir.to_owned(), text.to_owned()));
        Ok(dir.join("prompt.md"))
    }

    fn write_beside(&self, dir: &Path, name: &str, text: &str) -> Result<PathBuf, TaskError> {
        let mut inner = self.inner();
        inner.check(dir)?;
        inner.beside.insert(dir.join(name), text.to_owned());
        Ok(dir.join(name))
    }

    fn write_unless_there(
        &self,
        sandbox: &Path,
        path: &str,
        text: &str,
    ) -> Result<bool, TaskError> {
        let mut inner = self.inner();
        inner.beside.insert(sandbox.join(path), text.to_owned());
        Ok(true)
    }

    fn exclude(&self, sandbox: &Path, _patterns: &[String]) -> Result<(), TaskError> {
        self.inner().check(sandbox)
    }

    fn write_outcome(&self, dir: &Path, text: &str) -> Result<(), TaskError> {
        self.inner().check(dir)?;
        self.write_outcome_unwatched(dir, text);
        Ok(())
    }

    fn git_dirs(&self, sandbox: &Path) -> Option<(PathBuf, PathBuf)> {
        Some((sandbox.join(".git"), sandbox.join(".git")))
    }

    fn transcript(
        &self,
        path: &Path,
        root: &Path,
        from: u64,
        limit: usize,
    ) -> Result<Option<Part>, TaskError> {
        let inner = self.inner();
        let text = inner.beside.get(path).filter(|_| path.starts_with(root));
        Ok(text.map(|text| {
            let from = usize::try_from(from).unwrap_or(usize::MAX).min(text.len());
            let bytes = text.as_bytes()[from..].iter().take(limit);
            Part {
                bytes: bytes.copied().collect(),
                length: text.len() as u64,
            }
        }))
    }

    fn newest(&self, dir: &Path, ending: &str) -> Result<Option<PathBuf>, TaskError> {
        let inner = self.inner();
        let mut paths = inner.beside.keys().rev();
        let found = paths
            .find(|path| path.parent() == Some(dir) && path.to_string_lossy().ends_with(ending));
        Ok(found.cloned())
    }

    fn shows(&self, trace: &Trace) -> bool {
        let text = |path: &Path| self.inner().beside.get(path).cloned();
        match trace {
            Trace::Variable(_) => true,
            Trace::File(path) => text(path).is_some(),
            Trace::Setting(path, setting) => text(path).is_some_and(|text| setting.is_in(&text)),
        }
    }

    fn is_file(&self, path: &Path) -> bool {
        self.inner().beside.contains_key(path)
    }

    fn outcome(&self, dir: &Path, _sandbox: &Path) -> Result<OutcomeText, TaskError> {
        let inner = self.inner();
        if let Some(why) = &inner.hidden {
            return Err(TaskError {
                path: dir.to_owned(),
                why: why.clone(),
            });
        }
        Ok(OutcomeText {
            text: inner.outcomes.get(dir).cloned().unwrap_or_default(),
            written: inner.written.get(dir).copied(),
            unsettled: inner.unsettled,
            ..OutcomeText::default()
        })
    }

    fn set_outcome_aside(
        &self,
        dir: &Path,
        _sandbox: &Path,
        written: Option<Timestamp>,
    ) -> Result<(), TaskError> {
        let mut inner = self.inner();
        inner.check(dir)?;
        if !inner.keeps_outcomes && inner.written.get(dir).copied() <= written {
            inner.outcomes.insert(dir.to_owned(), String::new());
        }
        Ok(())
    }

    fn set_up(
        &self,
        sandbox: &Path,
        _commands: &[String],
        _env: &BTreeMap<String, String>,
    ) -> Result<(), TaskError> {
        let mut inner = self.inner();
        inner.set_ups.push(sandbox.to_owned());
        match &inner.set_up_fails {
            None => Ok(()),
            Some(why) => Err(TaskError {
                path: sandbox.to_owned(),
                why: why.clone(),
            }),
        }
    }

    fn outbox(&self) -> Result<Vec<OutboxFile>, TaskError> {
        let inner = self.inner();
        let all = inner.outbox.iter();
        Ok(all.map(|(f, i)| (f.clone(), i.clone())).collect())
    }

    fn remove_intent(&self, file: &Path) -> Result<(), TaskError> {
        let mut inner = self.inner();
        inner.outbox.remove(file);
        inner.leftovers.outbox.retain(|(left, _)| left != file);
        Ok(())
    }

    fn set_aside(&self, file: &Path) -> Result<(), TaskError> {
        let mut inner = self.inner();
        let intent = inner.outbox.remove(file);
        inner.aside.extend(intent.and_then(Result::ok));
        Ok(())
    }

    fn is_within(&self, dir: &Path, of: &Path) -> bool {
        dir.starts_with(of)
    }

    fn prune(&self, dir: &Path, expired: Expired, but: &[PathBuf]) -> Result<usize, TaskError> {
        let mut inner = self.inner();
        inner.check(dir)?;
        inner.pruned.push((dir.to_owned(), expired, but.to_vec()));
        Ok(0)
    }

    fn leftovers(&self) -> Result<Leftovers, TaskError> {
        let inner = self.inner();
        inner.check(Path::new("/outbox"))?;
        Ok(inner.leftovers.clone())
    }

    fn empty_trash(&self) -> Result<(), TaskError> {
        let act = self.inner().on_empty.clone();
        if let Some(act) = act {
            act();
        }
        let mut inner = self.inner();
        inner.emptied += 1;
        inner.leftovers.trash.clear();
        Ok(())
    }
}
