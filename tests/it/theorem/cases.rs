//! The life of a sandbox, from its charge to its end, with the acts in between.

mod beside;
mod remuster;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use git2::{ObjectType, Oid};

use self::beside::Collector;
use super::ends::{
    BREAKS, Case, DELETED, DONE, Dice, End, NUKE, Tally, forms, is_at_risk, is_dirty,
};
use super::forms::{Agent, Form, is_there};
use super::lab::{CRLF, HELD, Lab};
use super::look::SandboxState;
use super::reach::Reach;
use horde_supervisor::actors::mail::Charged;
use horde_supervisor::actors::refusal::{Refusal, RefusalKind};
use horde_supervisor::actors::sagas::repair;
use horde_supervisor::domain::ids::RelicId;
use horde_supervisor::domain::nuke::CleanupStatus;
use horde_supervisor::domain::relic::RelicStatus;
use horde_supervisor::domain::saga::FaultPoint;
use horde_supervisor::ports::relics::SalvageEntry;
use horde_supervisor::ports::repo::{Repo, SalvageRecord};
use horde_supervisor::testing::world::rig;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A running case.
struct Run<'a> {
    lab: &'a mut Lab,
    tally: &'a mut Tally,
    charged: Charged,
    dir: PathBuf,
    /// The work that must not be lost.
    seen: SandboxState,
    /// The stash entries of other sandboxes.
    before: Vec<Oid>,
    /// Set when HEAD or index were lost, and with them the reason for which some forms were precious.
    poorer: bool,
    /// Set when its directory was deleted and filled again.
    refilled: bool,
}

/// Runs a case.
pub async fn run(lab: &mut Lab, case: Case, tally: &mut Tally) {
    let mut dice = Dice::new(case.seed);
    let other = beside::arrange(lab, case).await;
    let relic = lab.city().relic("a").await;
    let charged = lab.city().charge(&relic).await.unwrap();
    let dir = charged.sandbox.clone();
    let before = SandboxState::of(&dir).stashes;
    let forms = forms(case, &mut dice);
    let at_risk = forms.iter().any(|form| is_at_risk(*form));
    let dirty = forms.iter().any(|form| is_dirty(*form));
    let text = dice.text();
    let take = other.as_ref();
    let take = take.map(|other| beside::taker(lab, case, other, &before));
    let work = worker(lab, case, (dir.clone(), text), forms, take);
    let mut run = if case.end == End::Remuster {
        Run::remustered(lab, tally, case, charged, work, before).await
    } else {
        let seen = work();
        Run {
            lab,
            tally,
            charged,
            dir,
            seen,
            before,
            poorer: false,
            refilled: false,
        }
    };
    let mut collector = Collector::of(run.lab, case);
    if matches!(case.end, End::Nuke | End::Done | End::Repair) {
        run.refused(at_risk, dirty).await;
        // git removes an entry of a worktree that lacks a file, and no repair brings that back.
        drop(collector.take());
        // A ruin that an agent made is no accident to be mended.
        if !case.form.is_ruin() {
            run.repairs(case, &mut dice).await;
        }
    }
    collector = collector.or_else(|| Collector::of(run.lab, case));
    let mut needed = at_risk && run.is_precious();
    match case.end {
        End::Done if !dirty => run.done().await,
        End::Nuke => run.dying(case.end, NUKE).await,
        End::Kept => run.unhook().await,
        End::Closed => run.close(&relic).await,
        _ => {}
    }
    if case.end.is_patrols() {
        run.patrols().await;
    } else {
        needed &= case.end == End::Nuke || run.is_held().await;
        run.nuke().await;
    }
    drop(collector);
    run.verify();
    run.tally.count();
    run.tally.end((case.form, case.end));
    run.settle(needed).await;
    beside::tidy(lab, case, other).await;
}

/// Returns the work of the agent in this sandbox, with this text, and the act of a second raider after it.
fn worker<F: FnOnce(&Path) + Send + 'static>(
    lab: &Lab,
    case: Case,
    (dir, text): (PathBuf, Vec<u8>),
    forms: Vec<Form>,
    take: Option<F>,
) -> impl FnOnce() -> SandboxState + Send + 'static + use<F> {
    let library = lab.path("library");
    move || {
        let agent = Agent {
            dir: &dir,
            text,
            library: &library,
        };
        forms.iter().for_each(|form| agent.make(*form));
        if let Some(take) = take {
            take(&dir);
        }
        let seen = SandboxState::of(&dir);
        assert!(
            is_there(case.form, &dir, &seen),
            "{forms:?}: not {:?}",
            case.form
        );
        seen
    }
}

impl Run<'_> {
    /// Asserts that nothing changed.
    fn unchanged(&self, what: &str) {
        let differs = self.seen.differs(&SandboxState::of(&self.dir));
        assert!(differs.is_empty(), "{what} changed {differs:?}");
    }

    async fn is_held(&self) -> bool {
        let hook = self.lab.city().hook(&self.charged.raider).await;
        hook.is_some_and(|hook| hook.incarnation == self.charged.incarnation)
    }

    /// Waits for automatic actions. Returns whether the slot is free by then.
    async fn gone(&self) -> bool {
        for _ in 0..20 {
            self.lab.city().pass(SECOND).await;
            if !self.is_held().await && self.lab.city().sagas().await == 0 {
                return true;
            }
        }
        false
    }

    /// Returns whether it still has to be salvaged after the repairs.
    fn is_precious(&self) -> bool {
        let facts = || self.lab.repo.facts(&self.dir, "main").unwrap();
        !self.poorer || CleanupStatus::measured(&facts()) != CleanupStatus::Clean
    }

    async fn refused(&mut self, at_risk: bool, dirty: bool) {
        if at_risk {
            self.refused_nuke().await;
        }
        if dirty {
            self.refused_done().await;
        }
    }

    async fn refused_nuke(&mut self) {
        let refused = self
            .lab
            .city()
            .nuke(&self.charged.raider, false)
            .await
            .unwrap_err();
        assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
        assert!(self.lab.city().runs(&self.charged.session));
        self.unchanged("a refused nuke");
    }

    async fn refused_done(&mut self) {
        let refused = self
            .lab
            .city()
            .completed(&self.charged.raider)
            .await
            .unwrap_err();
        let kinds = [RefusalKind::WorkAtRisk, RefusalKind::BadRequest];
        assert!(kinds.contains(&refused.kind), "{refused}");
        self.unchanged("a refused completion");
    }

    /// Asks for the end, unless a saga is already at it.
    async fn ask(&self, end: End) -> Result<(), Refusal> {
        let (city, raider) = (self.lab.city(), &self.charged.raider);
        match city.hook(raider).await.filter(|_| end == End::Done) {
            Some(hook) if hook.done.is_none() => return city.completed(raider).await.map(drop),
            Some(_) => return Ok(()),
            None => {}
        }
        if end == End::Nuke && self.is_held().await && city.sagas().await == 0 {
            return city.nuke(raider, true).await.map(drop);
        }
        Ok(())
    }

    /// Asks for the end with a daemon that dies at each of the steps, one after the other.
    async fn dying(&mut self, end: End, mut steps: &[FaultPoint]) {
        self.lab.fate.die(steps);
        loop {
            // The answer dies with the daemon.
            drop(self.ask(end).await);
            for _ in 0..20 {
                let over = !self.is_held().await && self.lab.city().sagas().await == 0;
                if over || self.lab.fate.dead().is_some() {
                    break;
                }
                self.lab.city().pass(SECOND).await;
            }
            let Some(at) = self.lab.fate.dead() else {
                return self.lab.fate.spare();
            };
            self.tally.died(end, at);
            if self.dir.exists() {
                self.unchanged(at.as_str());
            }
            self.tally.count();
            let index = steps.iter().position(|step| *step == at).expect("a step");
            steps = &steps[index + 1..];
            self.lab.restart(steps).await;
        }
    }

    /// Completes the work; stash entries keep the sandbox.
    async fn done(&mut self) {
        self.dying(End::Done, DONE).await;
        if let Err(refused) = self.ask(End::Done).await {
            // A recreated index does not know which files are the output of a filter.
            let refilled = self.poorer && refused.kind == RefusalKind::WorkAtRisk;
            assert!(
                refilled || refused.kind == RefusalKind::BadRequest,
                "{refused}: {:?}",
                refused.losses
            );
        }
        if !self.gone().await {
            self.unchanged("a completion");
        }
    }

    /// Breaks and mends things; all of them if repairs are under test.
    async fn repairs(&mut self, case: Case, dice: &mut Dice) {
        let all = case.end == End::Repair;
        let times = if all { BREAKS } else { 2 };
        let first = dice.below(BREAKS);
        for what in (first..first + times).map(|what| what % BREAKS) {
            self.repair(what).await;
        }
        if all && case.seed.is_multiple_of(2) {
            self.repair(DELETED).await;
        }
    }

    /// Breaks something besides the work, and mends it.
    async fn repair(&mut self, what: usize) {
        let (dir, admin) = (self.dir.clone(), SandboxState::admin(&self.dir));
        let mut wanted = self.seen.clone();
        let write = |path: PathBuf, text: &str| fs::write(path, text).expect("written");
        match what {
            0 => fs::remove_file(dir.join(".git")).expect("removed"),
            1 => write(dir.join(".git"), "gitdi"),
            2 => write(dir.join(".git"), "gitdir: /none\n"),
            3 => fs::remove_file(admin.join("gitdir")).expect("removed"),
            4 => write(admin.join("locked"), "by nobody"),
            5 => write(admin.join("HEAD"), ""),
            6 => fs::remove_file(admin.join("index")).expect("removed"),
            _ => {
                fs::remove_dir_all(&dir).expect("removed");
                self.die_filling().await;
            }
        }
        let world = Arc::clone(&self.lab.city().world);
        repair::run(&world, self.charged.raider.clone())
            .await
            .unwrap();
        let now = SandboxState::of(&dir);
        match what {
            // The reflog still names the commit that was checked out.
            5 => {
                (wanted.head, wanted.head_line) = (now.head, now.head_line.clone());
                if wanted.index.is_empty() {
                    // Lost before, when there was no commit to make it from.
                    wanted.index = now.index.clone();
                }
            }
            6 => wanted.index = now.index.clone(),
            // git cannot use an index with entries without names, so it is made anew.
            _ if wanted.index.iter().any(|entry| entry.path.is_empty()) => {
                wanted.index = now.index.clone();
                self.poorer = true;
            }
            // The contents of the index are written anew.
            DELETED => {
                let lost = wanted.index.iter().filter(|entry| !now.has_file_of(entry));
                let lost: Vec<_> = lost.collect();
                assert!(lost.is_empty(), "not written anew: {lost:?}");
                (wanted.files, wanted.inner) = (now.files.clone(), now.inner.clone());
            }
            _ => {}
        }
        self.poorer |= what >= 5;
        self.refilled |= what == DELETED;
        wanted.reflog.extend(&now.reflog);
        let differs = wanted.differs(&now);
        assert!(differs.is_empty(), "repair {what} changed {differs:?}");
        assert!(
            wanted == now || what == 4,
            "repair {what} changed the sandbox"
        );
        self.seen = now;
        self.seen.reflog.extend(wanted.reflog);
        self.tally.count();
    }

    /// The daemon dies while a repair fills the work tree: no session starts in half a work tree.
    async fn die_filling(&mut self) {
        if !self
            .seen
            .index
            .iter()
            .any(|entry| entry.path == HELD.as_bytes())
        {
            return;
        }
        self.lab.hold(true);
        let world = Arc::clone(&self.lab.city().world);
        let raider = self.charged.raider.clone();
        repair::run(&world, raider).await.unwrap_err();
        self.lab.restart(&[]).await;
        self.lab.hold(false);
        assert!(self.lab.repo.sandbox_fault(&self.dir).unwrap().is_some());
        self.lab.city().pass(HOUR).await;
        assert!(!self.lab.city().runs(&self.charged.session));
        self.tally.count();
    }

    /// Removes its hook.
    async fn unhook(&self) {
        let (raider, incarnation) = (self.charged.raider.clone(), self.charged.incarnation);
        let city = self.lab.city();
        assert!(
            city.store(move |txn| txn.drop_hook(&raider, incarnation))
                .await
        );
    }

    /// Closes the sandbox's relic, as an operator would.
    async fn close(&self, relic: &RelicId) {
        let id = relic.clone();
        let close = self.lab.city().store(move |txn| {
            let mut relic = txn.relic(&id)?;
            relic.status = RelicStatus::Closed;
            txn.put_relic(&relic)
        });
        close.await;
        self.lab.city().world.nudge(&format!("{}/witness", rig()));
    }

    /// Waits until patrols have removed the sandbox.
    async fn patrols(&self) {
        for _ in 0..10 {
            self.lab.city().pass(HOUR).await;
            if self.is_removed().await && self.lab.city().sagas().await == 0 {
                return;
            }
        }
        panic!(
            "it lingers: there {}, {} sagas, {:?}, {:?}, {:?}",
            self.dir.exists(),
            self.lab.city().sagas().await,
            self.lab.city().hook(&self.charged.raider).await,
            self.lab.repo.facts(&self.dir, "main"),
            self.lab.city().escalations().await
        );
    }

    /// Returns whether the sandbox is gone. Work of an earlier case that is merged only now may conflict; then its next
    /// raider has a sandbox in the same place.
    async fn is_removed(&self) -> bool {
        let (raider, incarnation) = (&self.charged.raider, self.charged.incarnation);
        let hook = self.lab.city().hook(raider).await;
        !self.dir.exists() || hook.is_some_and(|hook| hook.incarnation > incarnation)
    }

    async fn nuke(&mut self) {
        if let Err(refused) = self.ask(End::Nuke).await {
            panic!("{refused}: {:?}", refused.losses);
        }
        assert!(self.gone().await);
    }

    /// Asserts that everything is reached, and comes back.
    fn verify(&mut self) {
        let (raider, incarnation) = (&self.charged.raider, self.charged.incarnation);
        let prefix = format!(
            "refs/horde/salvage/{}/{}/{incarnation}",
            raider.rig, raider.name
        );
        let own = |name: &str| {
            let rest = name.strip_prefix(&prefix);
            rest.is_some_and(|rest| rest.starts_with(['/', '.']))
        };
        let bare = self.lab.repo.repo_dir();
        // A checkout's conversion is not in git, and need not be.
        let mut reach = Reach::of([Oid::hash_object(ObjectType::Blob, CRLF).expect("a hash")]);
        let kept =
            |name: &str| name.starts_with("refs/remotes/") || name.starts_with("refs/horde/mq/");
        reach.add(bare, |name| own(name) || kept(name));
        reach.add(&self.lab.path("origin.git"), |_| true);
        for id in self.seen.contents() {
            assert!(reach.has(&id), "{id} is lost: {}", self.whose(id));
        }
        let taken = self.lab.taken();
        let stashed = self
            .seen
            .stashes
            .iter()
            .filter(|id| !self.before.contains(id));
        let commits = self
            .seen
            .reflog
            .iter()
            .chain(&self.seen.head)
            .chain(stashed)
            .chain(&taken);
        for id in commits {
            assert!(reach.has_work(bare, *id), "commit {id} is lost");
        }
    }

    fn whose(&self, id: Oid) -> String {
        let files = self.seen.files.iter().filter(|(_, file)| file.id() == id);
        let files = files.map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        let inner = self.seen.inner.values().flat_map(|inner| &inner.index);
        let entries = self
            .seen
            .index
            .iter()
            .chain(inner)
            .filter(|entry| entry.id == id);
        let staged = entries.map(|entry| format!("index {}", String::from_utf8_lossy(&entry.path)));
        files.chain(staged).collect::<Vec<_>>().join(", ")
    }

    /// Returns its salvages, the newest first: a repair may have saved a broken state.
    async fn salvages(&self) -> Vec<SalvageRecord> {
        let (name, incarnation) = (self.charged.raider.name.clone(), self.charged.incarnation);
        let mut all = self.lab.city().store(|txn| txn.salvages()).await;
        all.retain(|entry| entry.raider == name && entry.incarnation == incarnation);
        all.iter().rev().map(SalvageEntry::record).collect()
    }

    /// Restores it and compares; leaves nothing to the next case. Pushed and clean work needs no salvage.
    async fn settle(&mut self, needed: bool) {
        let (mut back, mut differs) = (false, Vec::new());
        for record in self.salvages().await {
            let to = self.lab.path("restored");
            self.lab.repo.restore(&record, &to).unwrap();
            let mut other = self.seen.differs(&self.seen.restored(&to));
            // The same work was saved before. This file holds none: the commit gives both of its forms.
            other.retain(|what| !self.refilled || what != "file crlf.eol");
            fs::remove_dir_all(SandboxState::admin(&to)).expect("removed");
            fs::remove_dir_all(&to).expect("removed");
            back = other.is_empty();
            if back {
                break;
            }
            differs.push((record.id, other));
        }
        assert!(!needed || back, "did not come back: {differs:?}");
        self.lab.untell();
        drop(fs::remove_file(self.lab.path("taken")));
        if self.seen.stashes != self.before {
            let bare = self.lab.repo.theirs();
            crate::support::git::git(bare, &["update-ref", "-d", "refs/stash"]);
        }
    }
}
