//! The port, method by method.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::diff::{diff_of, diff_of_head};
use super::{FakeRepo, Sandbox, moved};
use crate::domain::default_branch::Change;
use crate::domain::doctor::BranchFacts;
use crate::domain::existing_branch::BranchAt;
use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId, SlotName};
use crate::domain::ignored::Ignored;
use crate::domain::merge::MergeOutcome;
use crate::domain::nuke::NukePermit;
use crate::domain::sandbox_fault::SandboxFault;
use crate::domain::saved_work::SavedWork;
use crate::domain::work_diff::{Diff, DiffSum};
use crate::ports::repo::{
    Committed, GateRun, GateSpec, LandRequest, Measurement, PendingWork, PinnedStashes, Provenance,
    Repo, RepoError, SalvageRecord, SandboxSpec, TargetState,
};
use crate::testing::records;

pub(super) fn slot_of(path: &Path) -> Option<SlotName> {
    SlotName::new(path.file_name()?.to_str()?).ok()
}

fn no_sandbox(path: &Path) -> RepoError {
    RepoError::NotFound(format!("sandbox {}", path.display()))
}

impl Repo for FakeRepo {
    fn prepare(&self) -> Result<(), RepoError> {
        self.enter("prepare", "").map(drop)
    }

    fn held(&self) -> Option<String> {
        self.inner().held.clone()
    }

    fn ready(&self) -> Result<(), RepoError> {
        self.pass_by("ready");
        self.held().map_or(Ok(()), |why| Err(RepoError::Held(why)))
    }

    fn program(&self) -> Result<String, RepoError> {
        let version = |_| "git version 2.47.3".to_owned();
        self.enter("program", "").map(version)
    }

    fn default_branch(&self) -> Result<String, RepoError> {
        self.known_default()
    }

    fn default_change(&self) -> Result<Option<Change>, RepoError> {
        self.changed_default()
    }

    fn follow_default(&self, branch: &str) -> Result<(), RepoError> {
        self.enter("follow_default", branch)?.default = Some(branch.to_owned());
        Ok(())
    }

    fn user_email(&self) -> Option<String> {
        None
    }

    fn fetch_target(&self, branch: &str) -> Result<TargetState, RepoError> {
        let inner = self.enter("fetch_target", branch)?;
        Ok(TargetState {
            tip: inner.tip(),
            tree: inner.tip(),
        })
    }

    fn fetch_branch(&self, branch: &str) -> Result<Option<Oid>, RepoError> {
        let inner = self.enter("fetch_branch", branch)?;
        Ok(inner.remote.get(branch).cloned())
    }

    fn find_branch(&self, branch: &str) -> Result<BranchAt, RepoError> {
        self.branch_at(branch)
    }

    fn fork_point(&self, head: &Oid, _target: &str) -> Result<Option<Oid>, RepoError> {
        self.forked(head)
    }

    fn make_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError> {
        let mut inner = self.enter("make_sandbox", &spec.branch)?;
        if let Some(there) = inner.sandboxes.get(&spec.raider.name) {
            return match there.spec == *spec {
                true => Ok(()),
                false => Err(RepoError::Failed("another sandbox is there".into())),
            };
        }
        let facts = GitFacts {
            branch: Some(spec.branch.clone()),
            merge_base: Some(spec.base.clone()),
            ..records::clean(spec.base.clone())
        };
        let (name, spec) = (spec.raider.name.clone(), spec.clone());
        let made = Sandbox {
            spec,
            facts,
            ignored: Vec::new(),
            nameless: false,
            broken: None,
        };
        inner.sandboxes.insert(name, made);
        Ok(())
    }

    fn fit(&self, _: &Path, head: &Oid, _: &str) -> Result<(), RepoError> {
        self.enter("fit", head.as_str()).map(drop)
    }

    fn sandboxes(&self) -> Result<Vec<(SlotName, PathBuf)>, RepoError> {
        let inner = self.enter("sandboxes", "")?;
        let all = inner.sandboxes.iter();
        Ok(all.map(|(n, s)| (n.clone(), s.spec.path.clone())).collect())
    }

    fn sandbox_fault(&self, sandbox: &Path) -> Result<Option<SandboxFault>, RepoError> {
        let inner = self.enter("ailment", &sandbox.display().to_string())?;
        let found = slot_of(sandbox).and_then(|slot| inner.sandboxes.get(&slot));
        Ok(match found {
            None => Some(SandboxFault::Gone),
            Some(found) => found.broken.clone().map(SandboxFault::Broken),
        })
    }

    fn committed(&self, sandbox: &Path, _: &str, _: Option<&[u8]>) -> Result<Committed, RepoError> {
        self.enter("committed", &sandbox.display().to_string())
            .map(|_| Committed::No)
    }

    fn leave_out(&self, _: &[String]) -> Result<(), RepoError> {
        self.enter("leave_out", "").map(|_| ())
    }

    fn provenance(&self, sandbox: &Path) -> Result<Option<Provenance>, RepoError> {
        self.provenance_of(sandbox)
    }

    fn measure(&self, sandbox: &Path, _target: &str) -> Result<Measurement, RepoError> {
        let inner = self.enter("measure", &sandbox.display().to_string())?;
        let slot = slot_of(sandbox).ok_or_else(|| no_sandbox(sandbox))?;
        let found = inner.sandboxes.get(&slot);
        if let Some(why) = found.and_then(|it| it.broken.clone()) {
            let sandbox = sandbox.to_owned();
            return Err(RepoError::Broken { sandbox, why });
        }
        let ignored = found.map(|it| it.ignored.clone()).unwrap_or_default();
        let facts = inner.measured(&slot).ok_or_else(|| no_sandbox(sandbox))?;
        let ignored = Ignored::known(ignored.into_iter());
        Ok(Measurement { facts, ignored })
    }

    fn diff_of_sandbox(&self, sandbox: &Path, _target: &str) -> Result<Diff, RepoError> {
        let inner = self.enter("diff", &sandbox.display().to_string())?;
        let measured = slot_of(sandbox).and_then(|slot| inner.measured(&slot));
        Ok(diff_of(&measured.ok_or_else(|| no_sandbox(sandbox))?))
    }

    fn diff_of_landing(&self, work: &PendingWork) -> Result<Diff, RepoError> {
        (self.enter("diff", work.head.as_str())).map(|_| diff_of_head(&work.head))
    }

    fn sum_of_landing(&self, work: &PendingWork) -> Result<DiffSum, RepoError> {
        self.enter("sum", work.head.as_str())
            .map(|_| DiffSum::default())
    }

    fn changed_paths(&self, head: &Oid, _target: &str) -> Result<Vec<String>, RepoError> {
        Ok(self.enter("changed_paths", head.as_str())?.changed_by(head))
    }

    fn glance(&self, sandbox: &Path, _target: &str) -> Result<(u64, u64, u64), RepoError> {
        let inner = self.enter("glance", &sandbox.display().to_string())?;
        let measured = slot_of(sandbox).and_then(|slot| inner.measured(&slot));
        let facts = measured.ok_or_else(|| no_sandbox(sandbox))?;
        Ok((
            facts.ahead,
            facts.dirty.len() as u64,
            facts.untracked.len() as u64,
        ))
    }

    fn progress(&self, sandbox: &Path) -> Result<String, RepoError> {
        let slot = slot_of(sandbox).ok_or_else(|| no_sandbox(sandbox))?;
        let inner = self.enter("progress", slot.as_str())?;
        let facts = inner.measured(&slot).ok_or_else(|| no_sandbox(sandbox))?;
        Ok(facts.head.to_string())
    }

    fn changes(&self, sandbox: &Path) -> Result<String, RepoError> {
        let slot = slot_of(sandbox).ok_or_else(|| no_sandbox(sandbox))?;
        let inner = self.enter("changes", slot.as_str())?;
        let facts = inner.measured(&slot).ok_or_else(|| no_sandbox(sandbox))?;
        Ok(facts.fingerprint)
    }

    fn push_branch(
        &self,
        branch: &str,
        head: &Oid,
        expected: Option<&Oid>,
    ) -> Result<(), RepoError> {
        self.take_branch(branch, head, expected)
    }

    fn remote_head(&self, branch: &str) -> Result<Option<Oid>, RepoError> {
        let inner = self.enter("remote_head", branch)?;
        let default = inner.default.as_deref().unwrap_or("main");
        let target = (branch == default).then(|| inner.tip());
        Ok(inner.remote.get(branch).cloned().or(target))
    }

    fn delete_branch(&self, branch: &str, head: &Oid) -> Result<(), RepoError> {
        let mut inner = self.enter("delete_branch", branch)?;
        match inner.remote.get(branch).cloned() {
            None => Ok(()),
            Some(found) if &found == head => {
                inner.remote.remove(branch);
                Ok(())
            }
            Some(found) => Err(moved(branch, Some(head), Some(&found))),
        }
    }

    fn spare_branches(&self) -> Result<Vec<BranchFacts>, RepoError> {
        Ok(self.enter("spare_branches", "")?.spare.clone())
    }

    fn raider_branches(&self) -> Result<Vec<String>, RepoError> {
        let inner = self.enter("raider_branches", "")?;
        Ok(inner.spare.iter().map(|spare| spare.name.clone()).collect())
    }

    fn drop_branch(&self, branch: &str) -> Result<bool, RepoError> {
        let mut inner = self.enter("drop_branch", branch)?;
        let stays = |spare: &BranchFacts| spare.name != branch || !spare.reachable;
        inner.spare.retain(stays);
        Ok(inner.spare.iter().all(|spare| spare.name != branch))
    }

    fn maintain(&self) -> Result<bool, RepoError> {
        self.enter("maintain", "").map(|_| false)
    }

    fn expire_retired(&self, _before: Timestamp) -> Result<usize, RepoError> {
        self.enter("expire_retired", "").map(|_| 0)
    }

    fn expire_stash(&self, _before: Timestamp) -> Result<usize, RepoError> {
        self.enter("expire_stash", "").map(|_| 0)
    }

    fn salvage_size(&self, sandbox: &Path) -> Result<u64, RepoError> {
        self.enter("salvage_size", &sandbox.display().to_string())
            .map(|_| 1)
    }

    fn salvage(
        &self,
        sandbox: &Path,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<SalvageRecord, RepoError> {
        let mut inner = self.enter("salvage", &raider.to_string())?;
        let facts = slot_of(sandbox).and_then(|slot| inner.measured(&slot));
        let lost = inner.lost.get(&raider.name).map(|lost| lost.facts.clone());
        let facts = facts.or(lost).ok_or_else(|| no_sandbox(sandbox))?;
        let own = inner.sandboxes.get(&raider.name);
        let ignored = own.map(|own| own.ignored.clone()).unwrap_or_default();
        inner.salvaged.insert(facts.head.clone());
        let fingerprint = Some(facts.fingerprint.clone());
        inner.saved.push(facts);
        let id = format!("{}-{}-{incarnation}", raider.rig, raider.name);
        let record = SalvageRecord {
            refs: vec![format!("refs/horde/salvage/{raider}/{incarnation}/head")],
            id,
            bytes: 1,
            ignored,
            fingerprint,
            work: SavedWork::default(),
        };
        inner.salvages.push(record.clone());
        Ok(record)
    }

    fn salvage_head(
        &self,
        head: &Oid,
        raider: &RaiderId,
        incarnation: Incarnation,
    ) -> Result<SalvageRecord, RepoError> {
        let mut inner = self.enter("salvage_head", head.as_str())?;
        let record = SalvageRecord {
            id: format!("{}-{}-{incarnation}", raider.rig, raider.name),
            refs: vec![format!("refs/horde/salvage/{raider}/{incarnation}/{head}")],
            bytes: 0,
            ignored: Vec::new(),
            fingerprint: None,
            work: SavedWork {
                head: Some(head.clone()),
                ..SavedWork::default()
            },
        };
        if inner.salvaged.insert(head.clone()) {
            inner.salvages.push(record.clone());
        }
        Ok(record)
    }

    fn holds(&self, commit: &Oid, _target: &str) -> Result<bool, RepoError> {
        let inner = self.enter("holds", commit.as_str())?;
        Ok(inner.holds(commit) || inner.salvaged.contains(commit))
    }

    fn strays(&self, _sandbox: &Path, branch: &str, _target: &str) -> Result<Vec<Oid>, RepoError> {
        let inner = self.enter("strays", branch)?;
        let head = inner.orphans.get(branch);
        let stray = head.filter(|head| !inner.reaches(head) && !inner.salvaged.contains(head));
        Ok(stray.cloned().into_iter().collect())
    }

    fn remains(&self, sandbox: &Path, _target: &str) -> Result<Option<GitFacts>, RepoError> {
        let inner = self.enter("remains", &sandbox.display().to_string())?;
        let slot = slot_of(sandbox).filter(|slot| !inner.sandboxes.contains_key(slot));
        let lost = slot.and_then(|slot| inner.lost.get(&slot));
        // The files went with the directory; staged changes, as all of `dirty` are here, did not.
        Ok(lost.map(|lost| GitFacts {
            untracked: Vec::new(),
            ..lost.facts.clone()
        }))
    }

    fn pinned_stashes(&self) -> Result<Vec<PinnedStashes>, RepoError> {
        Ok(self.inner().pinned.clone())
    }

    fn tips(&self, names: &[String]) -> Result<Vec<(String, Oid)>, RepoError> {
        let inner = self.enter("tips", &names.join(" "))?;
        let known = |name: &&String| inner.salvages.iter().any(|kept| kept.refs.contains(name));
        let tip = |name: &String| (name.clone(), Oid::new("f".repeat(40)).expect("an id"));
        Ok(names.iter().filter(known).map(tip).collect())
    }

    fn present_tips(&self, names: &[String]) -> Result<Vec<(String, Oid)>, RepoError> {
        self.tips(names)
    }

    fn delete_refs(&self, refs: &[(String, Oid)]) -> Result<(), RepoError> {
        let names: Vec<&String> = refs.iter().map(|(name, _)| name).collect();
        let mut inner = self.enter("delete_refs", &format!("{names:?}"))?;
        let kept = |salvage: &SalvageRecord| !salvage.refs.iter().any(|name| names.contains(&name));
        inner.salvages.retain(kept);
        Ok(())
    }

    fn restore(&self, record: &SalvageRecord, _to: &Path) -> Result<(), RepoError> {
        self.enter("restore", &record.id).map(drop)
    }

    fn discard_sandbox(
        &self,
        permit: &NukePermit,
        _trash: &Path,
        still: &dyn Fn() -> Result<(), RepoError>,
    ) -> Result<(), RepoError> {
        let raider = permit.raider().clone();
        drop(self.enter("discard_sandbox", &raider.to_string())?);
        // Outside the lock: the callback may look at the sandboxes.
        still()?;
        let mut inner = self.inner();
        let Some(now) = inner.measured(&raider.name) else {
            return Ok(());
        };
        let own = inner.sandboxes.get(&raider.name);
        if own.is_some_and(|own| own.spec.incarnation != permit.incarnation()) {
            return Err(RepoError::PermitStale("it is another's now".into()));
        }
        if now != *permit.git() {
            return Err(RepoError::PermitStale("it is not as it was".into()));
        }
        inner.sandboxes.remove(&raider.name);
        inner.discarded.push(raider);
        Ok(())
    }

    fn forget_sandbox(
        &self,
        _sandbox: &Path,
        raider: &RaiderId,
        _incarnation: Incarnation,
    ) -> Result<(), RepoError> {
        let inner = self.enter("forget_sandbox", &raider.to_string())?;
        match inner.sandboxes.contains_key(&raider.name) {
            true => Err(RepoError::PermitStale("it is there".into())),
            false => Ok(()),
        }
    }

    fn repair_sandbox(&self, spec: &SandboxSpec) -> Result<(), RepoError> {
        let mut inner = self.enter("repair_sandbox", &spec.branch)?;
        if let Some(found) = inner.sandboxes.get_mut(&spec.raider.name) {
            found.broken = None;
        }
        let (lost, head) = (
            !inner.sandboxes.contains_key(&spec.raider.name),
            inner.orphans.get(&spec.branch).cloned(),
        );
        drop(inner);
        if lost {
            self.make_sandbox(spec)?;
            let head = head.unwrap_or_else(|| spec.base.clone());
            self.change(&spec.raider.name, |facts| facts.head = head);
        }
        Ok(())
    }

    fn pin(&self, mr: &RelicId, head: &Oid) -> Result<(), RepoError> {
        let mut inner = self.enter("pin", mr.as_str())?;
        inner.pins.insert(mr.clone(), head.clone());
        Ok(())
    }

    fn unpin(&self, mr: &RelicId) -> Result<(), RepoError> {
        self.enter("unpin", mr.as_str())?.pins.remove(mr);
        Ok(())
    }

    fn merge(&self, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
        self.merged(request)
    }

    fn run_gate(&self, commit: &Oid, gate: &GateSpec) -> Result<GateRun, RepoError> {
        self.gate(commit, gate)
    }

    fn stop_gate(&self) {
        self.stop();
    }

    fn checkout_free(&self, target: &str, _landing: Option<(&Oid, &Oid)>) -> Result<(), RepoError> {
        self.enter("checkout_free", target).map(drop)
    }

    fn recover_landing(&self) -> Result<(), RepoError> {
        self.enter("recover_landing", "").map(drop)
    }

    fn land(&self, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError> {
        let mut inner = self.enter("land", new.as_str())?;
        if inner.target.contains(new) {
            return Ok(());
        }
        let tip = inner.tip();
        if tip != *old {
            return Err(moved(target, Some(old), Some(&tip)));
        }
        inner.target.push(new.clone());
        if let Some(head) = inner.made.get(new).cloned() {
            inner.landed.insert(head);
        }
        if std::mem::take(&mut inner.answer_lost) {
            return Err(RepoError::Timeout {
                what: "the push".to_owned(),
                limit: std::time::Duration::from_secs(120),
            });
        }
        Ok(())
    }

    fn landed(&self, _target: &str, commit: &Oid) -> Result<bool, RepoError> {
        self.on_target("landed", commit)
    }

    fn has(&self, _tip: &Oid, commit: &Oid) -> Result<bool, RepoError> {
        self.on_target("has", commit)
    }

    fn is_reverted(&self, _began: &Oid, head: &Oid, _tip: &Oid) -> Result<Option<bool>, RepoError> {
        let inner = self.enter("is_reverted", head.as_str())?;
        Ok(Some(inner.reverted.contains(head)))
    }

    fn on_main(&self, head: &Oid, _target: &str) -> Result<bool, RepoError> {
        self.on_default_branch(head)
    }
}
