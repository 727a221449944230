//! `hd doctor`: finds faults of a city by rules over facts. A rule never guesses: a fact that could not be observed is
//! a finding of its own, and its subject is left alone.
//!
//! ```text
//!   facts ─► rules ─► findings, each with the remedy that `--fix` may try
//! ```
//!
//! A session, sandbox or branch is unowned when no hook, no open saga and no configured agent asks for it. A remedy
//! never destroys work: the safety protocol decides about a sandbox, and a branch is deleted only while another ref
//! reaches it.

mod finding;
pub mod local;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

pub use self::finding::{Finding, Kind};

use super::facts::{Probed, RunState, SessionFacts};
use super::ids::{RaiderId, RelicId, RigName, SessionId, SlotName};
use super::sandbox_fault::SandboxFault;

/// The action that `--fix` tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// End the session.
    End(SessionFacts),
    /// Remove the sandbox, if the safety protocol permits.
    Nuke(RaiderId),
    /// Delete the branch, if another ref reaches it.
    Drop(RigName, String),
    /// Open the relic again, if its raider is still missing.
    Reopen(RelicId, RaiderId),
    /// Empty the trash.
    Empty,
    /// Carry out the intent.
    CarryOut(PathBuf),
    /// Remove the file.
    Remove(PathBuf),
}

/// A finding and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The fault.
    pub finding: Finding,
    /// The remedy, if there is one.
    pub remedy: Option<Remedy>,
}

impl From<Finding> for Diagnosis {
    fn from(finding: Finding) -> Self {
        Self {
            finding,
            remedy: None,
        }
    }
}

impl Diagnosis {
    fn mended_by(mut finding: Finding, remedy: Remedy) -> Self {
        finding.fixable = true;
        Self {
            finding,
            remedy: Some(remedy),
        }
    }
}

/// The observations of a city.
#[derive(Debug, Clone)]
pub struct Facts {
    /// All sessions of this city that the provider knows.
    pub sessions: Probed<Vec<SessionFacts>>,
    /// The sessions that have an owner.
    pub wanted: BTreeSet<SessionId>,
    /// Relics that name a raider that has no hook, no sandbox and no queued work of theirs.
    pub lost: Vec<(RelicId, RaiderId)>,
    /// Work of raiders whose rig is not configured: the rig was taken out, and the supervisor stopped before the
    /// raiders ended.
    pub stranded: Vec<(RelicId, RaiderId)>,
    /// Every rig.
    pub rigs: Vec<RigFacts>,
    /// Entries of the trash; none while it is being emptied.
    pub trash: Probed<Vec<PathBuf>>,
    /// Files of the outbox, and when they were written.
    pub outbox: Probed<Vec<(PathBuf, Option<Timestamp>)>>,
    /// Programs that sessions do not find.
    pub lacking: Probed<Vec<Lacking>>,
    /// Time of the observation.
    pub now: Timestamp,
}

/// A program that sessions do not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// The owner of the program: a harness, or an agent with a command of its own.
    pub of: String,
    /// The program as configured.
    pub program: String,
    /// Rigs, agents and raiders that use it.
    pub users: Vec<String>,
    /// The reason why the look-up failed, if it did.
    pub unseen: Option<String>,
}

/// The observations of a rig.
#[derive(Debug, Clone)]
pub struct RigFacts {
    /// Name of the rig.
    pub rig: RigName,
    /// Set while the rig is held: nothing below can be read.
    pub is_held: bool,
    /// Slots that a hook or an open saga holds.
    pub held: BTreeSet<SlotName>,
    /// Sandboxes on disk that no slot holds.
    pub strays: Probed<Vec<(SlotName, Stray)>>,
    /// Raiders that have work and no usable sandbox.
    pub ailing: Probed<Vec<(RaiderId, Probed<SandboxFault>)>>,
    /// Branches of raiders that no worktree has checked out.
    pub branches: Probed<Vec<BranchFacts>>,
    /// Branches of merge requests that are not final.
    pub queued: BTreeSet<String>,
    /// Relics that are not closed.
    pub open: BTreeSet<RelicId>,
}

/// The state of a sandbox that no slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stray {
    /// It holds nothing that would be lost.
    Spare,
    /// The safety protocol keeps it, for this reason.
    Kept(String),
    /// Its owner is unknown: no nuke removes it.
    Unowned,
    /// Its owner cannot be read, for this reason.
    Unreadable(String),
}

/// A raider's branch in `repo.git` that no worktree has checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchFacts {
    /// `raider/Toast/gt-1-1`.
    pub name: String,
    /// Set when another ref reaches its tip.
    pub reachable: bool,
}

/// An intent is carried out at once; an older intent is stuck.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// The advice for facts that could not be observed.
const AGAIN: &str = "run `hd doctor` again; the supervisor's log may have more";

/// The advice for the facts of a held rig.
const ONCE_PREPARED: &str = "run `hd doctor` again once the rig is prepared";

/// Returns all faults, in a stable order.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    let mut unseen = |what: &str, why: &str, hint: &str| {
        found.push(Finding::new(Kind::Unseen, what, why, hint).into());
    };
    let mut of_city = |what: &str, why: &str| unseen(what, why, AGAIN);
    let sessions = known_or_unseen(&facts.sessions, "sessions", &mut of_city);
    let trash = known_or_unseen(&facts.trash, "trash", &mut of_city);
    let outbox = known_or_unseen(&facts.outbox, "outbox", &mut of_city);
    let lacking = known_or_unseen(&facts.lacking, "programs", &mut of_city);
    for rig in &facts.rigs {
        if rig.is_held {
            let says = "its sandboxes and branches cannot be read while the rig is held";
            unseen(&format!("rig {}", rig.rig), says, ONCE_PREPARED);
            continue;
        }
        let mut unseen = |what: &str, why: &str| unseen(what, why, AGAIN);
        known_or_unseen(
            &rig.strays,
            &format!("sandboxes of {}", rig.rig),
            &mut unseen,
        );
        known_or_unseen(
            &rig.branches,
            &format!("branches of {}", rig.rig),
            &mut unseen,
        );
        known_or_unseen(
            &rig.ailing,
            &format!("work without a sandbox in {}", rig.rig),
            &mut unseen,
        );
    }
    let orphans = sessions.iter().filter(|it| !facts.wanted.contains(&it.id));
    found.extend(orphans.filter_map(orphan));
    let wanted = sessions.iter().filter(|it| facts.wanted.contains(&it.id));
    found.extend(wanted.filter_map(unseen_session));
    for rig in &facts.rigs {
        let strays = rig.strays.known().into_iter().flatten();
        found.extend(strays.map(|(name, stray)| stray_sandbox(rig, name, stray)));
        let ailing = rig.ailing.known().into_iter().flatten();
        found.extend(ailing.map(|(raider, what)| lost_sandbox(raider, what)));
        let branches = rig.branches.known().into_iter().flatten();
        found.extend(branches.filter_map(|branch| stray_branch(rig, branch)));
    }
    found.extend(facts.lost.iter().map(lost_relic));
    found.extend(facts.stranded.iter().map(lost_rig));
    found.extend(lacking.iter().map(no_program));
    if !trash.is_empty() {
        found.push(trashed(trash));
    }
    found.extend(
        outbox
            .iter()
            .filter_map(|(file, at)| waiting(file, *at, facts.now)),
    );
    found
}

fn known_or_unseen<'a, T>(
    probed: &'a Probed<Vec<T>>,
    what: &str,
    unseen: &mut impl FnMut(&str, &str),
) -> &'a [T] {
    match probed {
        Probed::Known(all) => all,
        Probed::Unknown(why) => {
            unseen(what, why);
            &[]
        }
    }
}

/// Finds a session without an owner. An ended session is a record, and no fault.
fn orphan(session: &SessionFacts) -> Option<Diagnosis> {
    let says = match &session.state {
        RunState::Exited(_) => return None,
        RunState::Running => "the session runs and belongs to no raider or agent".to_owned(),
        RunState::Lost { why } => {
            format!(
                "the session belongs to no raider or agent, and some of its processes may be alive: {why}"
            )
        }
        RunState::Unknown { why } => {
            let says = format!(
                "the session belongs to no raider or agent, and its state cannot be read: {why}"
            );
            let hint = "it is left running until its state can be read";
            return Some(Finding::new(Kind::Unseen, &session.id, says, hint).into());
        }
    };
    let hint = "`hd doctor --fix` ends it";
    let finding = Finding::new(Kind::OrphanSession, &session.id, says, hint);
    Some(Diagnosis::mended_by(finding, Remedy::End(session.clone())))
}

/// Finds a session whose state cannot be observed: no session is started in its place meanwhile.
fn unseen_session(session: &SessionFacts) -> Option<Diagnosis> {
    let RunState::Unknown { why } = &session.state else {
        return None;
    };
    let says = format!("the state of the session cannot be read: {why}");
    let hint = "no session starts in its place until its state can be read; look at its directory \
    in `.horde/sessions`";
    Some(Finding::new(Kind::Unseen, &session.id, says, hint).into())
}

fn stray_sandbox(rig: &RigFacts, name: &SlotName, stray: &Stray) -> Diagnosis {
    let raider = RaiderId::new(rig.rig.clone(), name.clone());
    let finding =
        |says: String, hint: String| Finding::new(Kind::StraySandbox, &raider, says, hint);
    let says = "its sandbox exists, but its hook is empty; the slot stays taken";
    match stray {
        Stray::Spare => {
            let hint = "`hd doctor --fix` removes it; no work would be lost";
            let finding = finding(says.to_owned(), hint.to_owned());
            Diagnosis::mended_by(finding, Remedy::Nuke(raider.clone()))
        }
        Stray::Unowned => {
            let hint = "it is kept; look at its content and move it elsewhere";
            finding(format!("{says}: its owner is unknown"), hint.into()).into()
        }
        Stray::Unreadable(why) => {
            let says = format!("its hook is empty, and its sandbox cannot be read: {why}");
            let hint = "it is kept until it can be read; fix the cause of the error";
            Finding::new(Kind::Unseen, &raider, says, hint).into()
        }
        Stray::Kept(why) => {
            let hint = format!(
                "it is kept; `hd raider nuke {raider} --salvage` saves its work and then removes it"
            );
            finding(format!("{says}: {why}"), hint).into()
        }
    }
}

fn lost_sandbox(raider: &RaiderId, what: &Probed<SandboxFault>) -> Diagnosis {
    let (kind, says, hint) = match what {
        Probed::Known(what) => {
            let says = match what {
                SandboxFault::Gone => {
                    "it has a relic on its hook, but its sandbox is missing".to_owned()
                }
                SandboxFault::Broken(why) => {
                    format!("it has a relic on its hook, but git cannot use its sandbox: {why}")
                }
            };
            (Kind::LostSandbox, says, what.advice(raider))
        }
        Probed::Unknown(why) => (Kind::Unseen, why.clone(), AGAIN.to_owned()),
    };
    Finding::new(kind, raider, says, hint).into()
}

/// The witness reopens a relic when it removes the sandbox; here it finds none, or that of other work.
fn lost_relic((relic, raider): &(RelicId, RaiderId)) -> Diagnosis {
    let says = format!(
        "it is hooked to {raider}, which has neither hook nor sandbox for it: no raider works on it"
    );
    let hint = "`hd doctor --fix` reopens it; branches that were pushed for it are kept";
    let finding = Finding::new(Kind::LostRelic, relic, says, hint);
    Diagnosis::mended_by(finding, Remedy::Reopen(relic.clone(), raider.clone()))
}

/// No witness watches the raider, and only a person knows if the rig is to come back.
fn lost_rig((relic, raider): &(RelicId, RaiderId)) -> Diagnosis {
    let rig = &raider.rig;
    let says = format!(
        "it is hooked to {relic}, but its rig {rig} is not configured: it is not supervised"
    );
    let hint = format!(
        "add {rig} to `city.toml` again to continue its work, or abandon it with `hd relic close {relic}`"
    );
    Finding::new(Kind::LostRig, raider, says, hint).into()
}

/// Finds a branch whose raider is gone and whose relic is gone or closed. Branches of held slots, of queued work and of
/// relics that may be charged again are in use.
fn stray_branch(rig: &RigFacts, branch: &BranchFacts) -> Option<Diagnosis> {
    let (slot, work) = branch.name.strip_prefix("raider/")?.split_once('/')?;
    let relic = work
        .rsplit_once('-')
        .and_then(|(relic, _)| RelicId::new(relic).ok());
    let held = rig.held.iter().any(|name| name.as_str() == slot);
    let open = relic.is_some_and(|relic| rig.open.contains(&relic));
    if held || open || rig.queued.contains(&branch.name) {
        return None;
    }
    let subject = format!("{} {}", rig.rig, branch.name);
    let says = "no raider uses it, and its relic is closed or deleted";
    if branch.reachable {
        let hint = "`hd doctor --fix` deletes it: another ref reaches its commits";
        let finding = Finding::new(Kind::StrayBranch, subject, says, hint);
        let remedy = Remedy::Drop(rig.rig.clone(), branch.name.clone());
        return Some(Diagnosis::mended_by(finding, remedy));
    }
    let says = format!("{says}; no other ref holds its commits");
    let hint = "it is kept: merge what you need of it, then delete it in the rig's repo.git";
    Some(Finding::new(Kind::StrayBranch, subject, says, hint).into())
}

fn no_program(lacking: &Lacking) -> Diagnosis {
    let Lacking {
        of,
        program,
        users,
        unseen,
    } = lacking;
    if let Some(why) = unseen {
        let users = users.join(", ");
        let says = format!("cannot check whether {users} finds {program}: {why}");
        let hint = "check that path, or remove it from the PATH of sessions";
        return Finding::new(Kind::Unseen, of, says, hint).into();
    }
    let place = match program.starts_with('/') {
        true => "does not exist or is not executable",
        false => "is not in the PATH of sessions",
    };
    let says = format!(
        "{program} {place}: sessions of {} cannot start",
        users.join(", ")
    );
    let hint = "install it, or add its directory to the PATH of the supervisor, or set `command` to \
        another program";
    Finding::new(Kind::Program, of, says, hint).into()
}

fn trashed(entries: &[PathBuf]) -> Diagnosis {
    let (count, first) = (entries.len(), entries[0].display());
    let says =
        format!("{count} removed directories or files still in the trash, for example {first}");
    let hint =
        "`hd doctor --fix` deletes it, except what a process uses or what was written to since";
    Diagnosis::mended_by(
        Finding::new(Kind::Trash, "trash", says, hint),
        Remedy::Empty,
    )
}

fn waiting(file: &Path, written: Option<Timestamp>, now: Timestamp) -> Option<Diagnosis> {
    let old = written.is_none_or(|at| now.duration_since(at) > PATIENCE);
    let name = file.file_name()?.to_str().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let remove = "`hd doctor --fix` removes it; read it first if you need to know its writer";
    let (says, hint) = match ending {
        "json" if old => {
            let hint =
                "`hd doctor --fix` retries it; the supervisor's log has the reason for the delay";
            let finding = Finding::new(
                Kind::Outbox,
                file.display(),
                "an intent in the outbox has not been carried out",
                hint,
            );
            return Some(Diagnosis::mended_by(
                finding,
                Remedy::CarryOut(file.to_owned()),
            ));
        }
        "refused" => {
            let says = "it is not an intent, or its signature or origin is wrong; it was set aside";
            (says, remove)
        }
        _ if name.starts_with(".new-") && old => ("an intent was not written completely", remove),
        _ if name.starts_with(".new-") || ending == "json" => return None,
        _ => {
            let says = "it is not an intent, and the supervisor did not write it";
            return Some(
                Finding::new(Kind::Outbox, file.display(), says, "remove it yourself").into(),
            );
        }
    };
    let finding = Finding::new(Kind::Outbox, file.display(), says, hint);
    Some(Diagnosis::mended_by(
        finding,
        Remedy::Remove(file.to_owned()),
    ))
}

#[cfg(test)]
mod tests;
