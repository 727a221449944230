//! A rig's git in memory: sandboxes, a remote, a target and a merge queue's tools, for tests of the layers above. Every
//! operation succeeds until the test says otherwise; calls are recorded.
//!
//! Operations are named as the methods of the port (`"push_branch"`).

mod branches;
mod diff;
mod merges;
mod port;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::default_branch::Change;
use crate::domain::doctor::BranchFacts;
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Oid, RaiderId, RelicId, SlotName};
use crate::domain::merge::MergeOutcome;
use crate::ports::repo::{GateRun, GateSpec, PinnedStashes, RepoError, SalvageRecord, SandboxSpec};

type Interlude = Arc<dyn Fn() + Send + Sync>;

/// A pretended repository with its remote.
#[derive(Default)]
pub struct FakeRepo {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sandboxes: BTreeMap<SlotName, Sandbox>,
    /// Sandboxes that a test removed.
    lost: BTreeMap<SlotName, Sandbox>,
    remote: BTreeMap<String, Oid>,
    /// The target's first-parent history, the tip last.
    target: Vec<Oid>,
    /// Heads whose work is on the target.
    landed: BTreeSet<Oid>,
    /// The head that each made commit carries.
    made: HashMap<Oid, Oid>,
    /// The path that every merge changes beside those of its head.
    brought: Option<String>,
    /// Heads whose work was reverted on the target.
    reverted: BTreeSet<Oid>,
    /// The paths that heads change.
    changed: HashMap<Oid, Vec<String>>,
    merges: HashMap<(Oid, Oid), Oid>,
    pins: BTreeMap<RelicId, Oid>,
    salvages: Vec<SalvageRecord>,
    pinned: Vec<PinnedStashes>,
    salvaged: BTreeSet<Oid>,
    /// The facts of sandboxes that were salvaged whole.
    saved: Vec<GitFacts>,
    /// Tips of branches whose sandbox a test removed.
    orphans: BTreeMap<String, Oid>,
    /// Branches that no sandbox has checked out.
    spare: Vec<BranchFacts>,
    discarded: Vec<RaiderId>,
    failures: HashMap<&'static str, VecDeque<RepoError>>,
    broken: HashMap<&'static str, RepoError>,
    held: Option<String>,
    broken_for: HashMap<(&'static str, String), RepoError>,
    outcomes: VecDeque<MergeOutcome>,
    gates: HashMap<String, VecDeque<GateRun>>,
    /// Set by a stop of the gate that runs now.
    gate_stopped: bool,
    interludes: HashMap<&'static str, Interlude>,
    calls: Vec<(&'static str, String)>,
    serial: u64,
    answer_lost: bool,
    /// The default branch; `main` while none is set.
    default: Option<String>,
    /// The change of the default branch at the remote.
    default_changed: Option<Change>,
}

struct Sandbox {
    spec: SandboxSpec,
    facts: GitFacts,
    /// Paths that ignore rules hide.
    ignored: Vec<String>,
    /// Set when the owner of the sandbox cannot be read.
    nameless: bool,
    /// Set when git cannot use the sandbox: the reason.
    broken: Option<String>,
}

/// Returns the end of a gate with this exit code.
#[must_use]
pub fn gate_run(code: Option<i32>) -> GateRun {
    GateRun {
        code,
        signal: None,
        timed_out: code.is_none(),
        stopped: false,
        spawn_error: None,
        took: Duration::from_millis(5),
        tail: format!("exit {code:?}"),
        log: Default::default(),
        changed: Vec::new(),
        tree: None,
    }
}

/// The gates.
impl FakeRepo {
    fn gate(&self, commit: &Oid, gate: &GateSpec) -> Result<GateRun, RepoError> {
        self.inner().gate_stopped = false;
        let mut inner = self.enter("run_gate", &format!("{} {commit}", gate.name))?;
        let scripted = inner.gates.get_mut(&gate.name);
        let run = scripted.and_then(VecDeque::pop_front);
        let mut run = run.unwrap_or_else(|| gate_run(Some(0)));
        run.tree.get_or_insert_with(|| commit.clone());
        run.stopped = inner.gate_stopped;
        Ok(run)
    }

    fn stop(&self) {
        self.inner().gate_stopped = true;
        let _counted = self.enter("stop_gate", "");
    }
}

/// Methods that change the repository.
impl FakeRepo {
    /// Lets the test's interlude happen.
    fn pass_by(&self, op: &'static str) {
        let interlude = self.inner().interludes.get(op).cloned();
        if let Some(interlude) = interlude {
            interlude();
        }
    }

    /// Records the call, lets the test's interlude happen, and fails when told to.
    fn enter(&self, op: &'static str, what: &str) -> Result<MutexGuard<'_, Inner>, RepoError> {
        self.inner().calls.push((op, what.to_owned()));
        self.pass_by(op);
        let mut inner = self.inner();
        if let Some(error) = inner.broken_for.get(&(op, what.to_owned())) {
            return Err(error.clone());
        }
        if let Some(error) = inner.broken.get(op) {
            return Err(error.clone());
        }
        if let Some(error) = inner.failures.get_mut(op).and_then(|due| due.pop_front()) {
            return Err(error);
        }
        Ok(inner)
    }
}

impl FakeRepo {
    /// Makes a repository whose target has one commit.
    #[must_use]
    pub fn new() -> Self {
        let repo = Self::default();
        repo.inner().advance();
        repo
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A test that failed in another thread may still look.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the agent commit.
    ///
    /// # Panics
    /// There is no such sandbox.
    pub fn commit(&self, slot: &SlotName) -> Oid {
        let mut inner = self.inner();
        let head = inner.oid();
        let sandbox = inner.sandboxes.get_mut(slot).expect("a sandbox");
        sandbox.facts.head = head.clone();
        sandbox.facts.ahead += 1;
        head
    }

    /// Makes the agent commit a change of this path.
    pub fn commit_path(&self, slot: &SlotName, path: &str) -> Oid {
        let head = self.commit(slot);
        let changed = vec![path.to_owned()];
        self.inner().changed.insert(head.clone(), changed);
        head
    }

    /// Makes every merge change this path, too.
    pub fn merges_bring(&self, path: &str) {
        self.inner().brought = Some(path.to_owned());
    }

    /// Changes the facts of the sandbox.
    ///
    /// # Panics
    /// There is no such sandbox.
    pub fn change(&self, slot: &SlotName, change: impl FnOnce(&mut GitFacts)) {
        let mut inner = self.inner();
        change(&mut inner.sandboxes.get_mut(slot).expect("a sandbox").facts);
    }

    /// Adds a file that no commit holds.
    pub fn dirty(&self, slot: &SlotName, path: &str) {
        self.change(slot, |facts| facts.dirty.push(path.to_owned()));
    }

    /// Adds an ignored file.
    ///
    /// # Panics
    /// There is no such sandbox.
    pub fn ignore(&self, slot: &SlotName, path: &str) {
        let mut inner = self.inner();
        let sandbox = inner.sandboxes.get_mut(slot).expect("a sandbox");
        sandbox.ignored.push(path.to_owned());
    }

    /// Removes the sandbox's directory behind the supervisor's back; its branch stays.
    ///
    /// # Panics
    /// There is no such sandbox.
    pub fn lose(&self, slot: &SlotName) {
        let mut inner = self.inner();
        let lost = inner.sandboxes.remove(slot).expect("a sandbox");
        let (branch, head) = (lost.spec.branch.clone(), lost.facts.head.clone());
        inner.orphans.insert(branch, head);
        inner.lost.insert(slot.clone(), lost);
    }

    /// Moves HEAD off the sandbox's own branch, which alone has this commit.
    ///
    /// # Panics
    /// There is no such sandbox.
    pub fn leave(&self, slot: &SlotName, commit: &Oid) {
        let mut inner = self.inner();
        let branch = inner.sandboxes[slot].spec.branch.clone();
        inner.orphans.insert(branch, commit.clone());
    }

    /// Puts a lost sandbox back.
    ///
    /// # Panics
    /// It was not lost.
    pub fn give_back(&self, slot: &SlotName) {
        let mut inner = self.inner();
        let lost = inner.lost.remove(slot).expect("a lost sandbox");
        inner.sandboxes.insert(slot.clone(), lost);
    }

    /// Destroys git's own files of the sandbox; the work stays.
    ///
    /// # Panics
    /// There is no such sandbox.
    pub fn damage(&self, slot: &SlotName, why: &str) {
        let mut inner = self.inner();
        let sandbox = inner.sandboxes.get_mut(slot).expect("a sandbox");
        sandbox.broken = Some(why.to_owned());
    }

    /// Leaves a branch of a raider behind.
    pub fn leave_branch(&self, name: &str, reachable: bool) {
        let name = name.to_owned();
        self.inner().spare.push(BranchFacts { name, reachable });
    }

    /// Makes the owner of the sandbox unknown.
    ///
    /// # Panics
    /// There is no such sandbox.
    pub fn forget_provenance(&self, slot: &SlotName) {
        let mut inner = self.inner();
        inner.sandboxes.get_mut(slot).expect("a sandbox").nameless = true;
    }

    /// Reuses the name: the sandbox belongs to the next incarnation from now on, and looks the same.
    ///
    /// # Panics
    /// There is no such sandbox.
    pub fn supersede(&self, slot: &SlotName) -> SandboxSpec {
        let mut inner = self.inner();
        let spec = &mut inner.sandboxes.get_mut(slot).expect("a sandbox").spec;
        spec.incarnation.0 += 1;
        spec.branch = spec.raider.branch(&spec.relic, spec.incarnation);
        spec.clone()
    }

    /// Another client pushes to the target.
    pub fn advance_target(&self) -> Oid {
        self.inner().advance()
    }

    /// Merges the head into the target as a host does; with its commits, or squashed.
    pub fn merge_on_host(&self, head: &Oid, is_squashed: bool) {
        let mut inner = self.inner();
        match is_squashed {
            true => drop(inner.landed.insert(head.clone())),
            false => inner.target.push(head.clone()),
        }
        inner.advance();
    }

    /// Reverts the work of the head on the target.
    pub fn revert_on_host(&self, head: &Oid) {
        let mut inner = self.inner();
        inner.landed.remove(head);
        inner.reverted.insert(head.clone());
        inner.advance();
    }

    /// Makes the next call of this operation fail; several failures queue up.
    pub fn fail(&self, op: &'static str, error: RepoError) {
        self.inner()
            .failures
            .entry(op)
            .or_default()
            .push_back(error);
    }

    /// Makes every call of this operation with this main argument fail.
    pub fn fail_for(&self, op: &'static str, what: &str, error: RepoError) {
        self.inner().broken_for.insert((op, what.to_owned()), error);
    }

    /// Cancels the queued failures of this operation.
    pub fn forget_failures(&self, op: &'static str) {
        self.inner().failures.remove(op);
    }

    /// Makes every call of this operation fail, until it is mended.
    pub fn break_op(&self, op: &'static str, error: RepoError) {
        self.inner().broken.insert(op, error);
    }

    /// Holds the rig for this reason, or no longer.
    pub fn hold(&self, why: Option<&str>) {
        self.inner().held = why.map(str::to_owned);
    }

    /// Makes the operation work again.
    pub fn mend(&self, op: &'static str) {
        self.inner().broken.remove(op);
    }

    /// The next landing succeeds, but its answer is lost.
    pub fn lose_answer_of_landing(&self) {
        self.inner().answer_lost = true;
    }

    /// Queues the outcome of a merge.
    pub fn script_merge(&self, outcome: MergeOutcome) {
        self.inner().outcomes.push_back(outcome);
    }

    /// Queues the end of a run of this gate; unscripted runs pass.
    pub fn script_gate(&self, gate: &str, run: GateRun) {
        self.inner()
            .gates
            .entry(gate.to_owned())
            .or_default()
            .push_back(run);
    }

    /// Runs this in the middle of every call of the operation, before it takes effect.
    pub fn interlude(&self, op: &'static str, act: impl Fn() + Send + Sync + 'static) {
        self.inner().interludes.insert(op, Arc::new(act));
    }
}

/// Methods that observe.
impl FakeRepo {
    /// Returns the names of the sandboxes.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names = self.inner();
        names.sandboxes.keys().map(ToString::to_string).collect()
    }

    /// Returns the remote's head of the branch.
    #[must_use]
    pub fn remote(&self, branch: &str) -> Option<Oid> {
        self.inner().remote.get(branch).cloned()
    }

    /// Returns every branch of the remote except for the target.
    #[must_use]
    pub fn remote_branches(&self) -> Vec<String> {
        self.inner().remote.keys().cloned().collect()
    }

    /// Deletes a branch on the remote behind the supervisor's back.
    pub fn drop_remote(&self, branch: &str) {
        self.inner().remote.remove(branch);
    }

    /// Returns the target's tip.
    #[must_use]
    pub fn tip(&self) -> Oid {
        self.inner().tip()
    }

    /// Returns the number of commits that the target got since the repository was made.
    #[must_use]
    pub fn landings(&self) -> usize {
        self.inner().landed.len()
    }

    /// Returns whether the work of this head is on the target.
    #[must_use]
    pub fn has_landed(&self, head: &Oid) -> bool {
        self.inner().landed.contains(head)
    }

    /// Returns the relics with pins.
    #[must_use]
    pub fn pins(&self) -> Vec<RelicId> {
        self.inner().pins.keys().cloned().collect()
    }

    /// Returns the number of calls of the operation.
    #[must_use]
    pub fn count(&self, op: &str) -> usize {
        let inner = self.inner();
        inner.calls.iter().filter(|(name, _)| *name == op).count()
    }

    /// Returns every call, with its main argument.
    #[must_use]
    pub fn calls(&self) -> Vec<(&'static str, String)> {
        self.inner().calls.clone()
    }

    /// Keeps stash entries without a sandbox.
    pub fn pin_stashes(&self, pinned: PinnedStashes) {
        self.inner().pinned.push(pinned);
    }

    /// Returns the salvages that were written.
    #[must_use]
    pub fn salvages(&self) -> Vec<SalvageRecord> {
        self.inner().salvages.clone()
    }

    /// Returns the facts of the sandboxes that were salvaged whole, in order.
    #[must_use]
    pub fn saved(&self) -> Vec<GitFacts> {
        self.inner().saved.clone()
    }

    /// Returns the raiders whose sandboxes were discarded, in order.
    #[must_use]
    pub fn discarded(&self) -> Vec<RaiderId> {
        self.inner().discarded.clone()
    }
}

impl Inner {
    fn oid(&mut self) -> Oid {
        self.serial += 1;
        Oid::new(format!("{:040x}", self.serial)).expect("40 hex digits")
    }

    fn advance(&mut self) -> Oid {
        let tip = self.oid();
        self.target.push(tip.clone());
        tip
    }

    fn tip(&self) -> Oid {
        self.target.last().expect("a target has a tip").clone()
    }

    fn reaches(&self, oid: &Oid) -> bool {
        self.remote.values().any(|head| head == oid) || self.holds(oid)
    }

    fn holds(&self, oid: &Oid) -> bool {
        let pinned = self.pins.values().any(|head| head == oid);
        pinned || self.target.contains(oid) || self.landed.contains(oid)
    }

    fn measured(&self, slot: &SlotName) -> Option<GitFacts> {
        let sandbox = self.sandboxes.get(slot)?;
        let mut facts = sandbox.facts.clone();
        facts.head_reachable = self.reaches(&facts.head);
        facts.fingerprint = format!(
            "{} {:?} {:?} {:?} {:?}",
            facts.head, facts.dirty, facts.untracked, facts.stashes, facts.other_work
        );
        Some(facts)
    }
}

fn moved(name: &str, expected: Option<&Oid>, found: Option<&Oid>) -> RepoError {
    let text = |oid: Option<&Oid>| oid.map_or_else(|| "absent".to_owned(), ToString::to_string);
    RepoError::Moved {
        name: name.to_owned(),
        expected: text(expected),
        found: text(found),
    }
}
