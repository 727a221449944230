//! What must run, against what runs: the decision that start-up and every patrol make alike
//! (`health-patrol.md`, reconciliation state machine).
//!
//! ```text
//!   wanted      child            session      decision
//!   ─────────   ──────────────   ──────────   ──────────────────────────────────────
//!   run         none             running      Adopt
//!   run         none             not          Start
//!   run         rests suspended  -            Resume
//!   run         draining         -            KeepOn
//!   run         up               idle         Cycle, unless attached or asking
//!   run         up               drifted      Cycle, unless attached or asking; raiders wait
//!   run         up               else         nothing: healthy
//!   run         tended           -            nothing: it starts, backs off, is quarantined ...
//!   suspended   up or tended     -            Suspend
//!   parked      up               -            Suspend
//!   parked      none             not          Start, which lays it to rest
//!   parked      tended           -            nothing: no session is started
//!   drain       none             running      Adopt, then Drain
//!   drain       up               -            Drain
//!   drain       tended           -            Remove
//!   no          an agent's       -            Remove
//!   no          a raider's, up   -            Remove: its hook is gone
//!   no          none             running      StopOrphan
//!   any         rests            running      StopOrphan: it could not be ended when it was to rest
//!   any         busy             -            nothing: a saga owns it
//!   any         none             unknown      nothing: never acted on
//! ```
//!
//! Idempotent: applied to its own result it decides nothing (`health-patrol.md`, invariants).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::account::Why;
use super::cause::Cause;
use super::facts::{RunState, SessionFacts};
use super::ids::{ChildId, Incarnation, SessionId};

/// What is wanted of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// That it has a session.
    Run,
    /// That it has none, for now.
    Suspended,
    /// That none is started, and one that runs is ended, until its account is open again
    /// (`domain/account.rs`).
    Parked(Why),
    /// That it comes to an end in its own time: a pool has more members than it needs.
    Drain,
}

/// A child that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Which child.
    pub id: ChildId,
    /// Its session's id.
    pub session: SessionId,
    /// The incarnation that should run (0 for agents).
    pub incarnation: Incarnation,
    /// What is wanted of it.
    pub mode: Mode,
    /// What a fresh session would be started from; none where a change waits for the next session
    /// anyway (`4-rules.md`, drift hash: raiders).
    pub fingerprint: Option<String>,
    /// No terminal input or output for this long asks for a fresh session.
    pub idle_timeout: Option<Duration>,
}

/// A child that the root has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tended {
    /// Its session is up.
    Up {
        /// What its session was started from, where that is on record.
        fingerprint: Option<String>,
        /// It is to come to an end in its own time.
        draining: bool,
    },
    /// It starts, backs off, is quarantined, waits for others, or finished.
    Waiting,
    /// It rests because it was suspended.
    Suspended,
    /// It rests: a person said so, or its restart type.
    Resting,
    /// It is being ended.
    Ending,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Every session that the provider knows.
    pub sessions: Vec<SessionFacts>,
    /// Who should be there.
    pub wanted: Vec<Wanted>,
    /// Sessions that an open saga takes care of.
    pub busy: BTreeSet<SessionId>,
    /// Sessions that ask something, or of which it cannot be told.
    pub asking: BTreeSet<SessionId>,
    /// Who is.
    pub tended: BTreeMap<ChildId, Tended>,
    /// When.
    pub now: Timestamp,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Take over the running session.
    Adopt(ChildId),
    /// Start a session.
    Start(ChildId),
    /// Start it again after a suspension.
    Resume(ChildId),
    /// End its session until it is resumed, and why.
    Suspend(ChildId, Cause),
    /// A fresh session.
    Cycle(ChildId, Cause),
    /// Let it come to an end.
    Drain(ChildId),
    /// It is needed after all.
    KeepOn(ChildId),
    /// End it for good.
    Remove(ChildId),
    /// End a session that nothing asks for. Carries the token, so that a successor is safe.
    StopOrphan {
        /// The session.
        session: SessionId,
        /// Which one of that name.
        token: String,
        /// Whose it is, where it is somebody's.
        owner: Option<ChildId>,
        /// The owner is suspended.
        suspended: bool,
    },
}

/// Decides, in a stable order.
#[must_use]
pub fn plan(seen: &Seen) -> Vec<Decision> {
    let facts: BTreeMap<_, _> = seen
        .sessions
        .iter()
        .map(|facts| (&facts.id, facts))
        .collect();
    let mut decisions = Vec::new();
    let free = seen
        .wanted
        .iter()
        .filter(|wanted| !seen.busy.contains(&wanted.session));
    for wanted in free {
        let facts = facts.get(&wanted.session).copied();
        match seen.tended.get(&wanted.id) {
            Some(tended) => decisions.extend(adjust(wanted, tended, facts, seen)),
            None => decisions.extend(begin(wanted, facts)),
        }
    }
    let wanted: BTreeSet<_> = seen.wanted.iter().map(|wanted| &wanted.id).collect();
    for (id, tended) in &seen.tended {
        let over = match id {
            ChildId::Agent(_) => *tended != Tended::Ending,
            // Otherwise somebody is at it, or nothing of it runs.
            ChildId::Raider(raider) => {
                let up = matches!(tended, Tended::Up { .. });
                up && !seen.busy.contains(&raider.session_id())
            }
        };
        if over && !wanted.contains(id) {
            decisions.push(Decision::Remove(id.clone()));
        }
    }
    decisions.extend(orphans(seen, &facts));
    decisions
}

/// For a child that nobody tends.
fn begin(wanted: &Wanted, facts: Option<&SessionFacts>) -> Vec<Decision> {
    let id = wanted.id.clone();
    let state = facts.map(|facts| (&facts.state, facts.incarnation));
    match (wanted.mode, state) {
        // Its session, if one runs, is looked at with those that nobody wants.
        (_, Some((RunState::Unknown { .. }, _))) | (Mode::Suspended, _) => Vec::new(),
        (mode, Some((RunState::Running, incarnation))) if incarnation == wanted.incarnation => {
            let drain = (mode == Mode::Drain).then(|| Decision::Drain(id.clone()));
            std::iter::once(Decision::Adopt(id)).chain(drain).collect()
        }
        // A session of another incarnation is ended by the start itself.
        // The start of one whose account is parked lays it to rest, so that it has its turn.
        (Mode::Run | Mode::Parked(_), _) => vec![Decision::Start(id)],
        (Mode::Drain, _) => Vec::new(),
    }
}

/// For a child that somebody tends.
fn adjust(
    wanted: &Wanted,
    tended: &Tended,
    facts: Option<&SessionFacts>,
    seen: &Seen,
) -> Option<Decision> {
    let id = wanted.id.clone();
    match (wanted.mode, tended) {
        (_, Tended::Ending) | (Mode::Run | Mode::Suspended, Tended::Resting) => None,
        (Mode::Suspended, Tended::Suspended) => None,
        (Mode::Suspended, Tended::Up { .. } | Tended::Waiting) => {
            Some(Decision::Suspend(id, Cause::Suspended))
        }
        (Mode::Parked(why), Tended::Up { .. }) => Some(Decision::Suspend(id, why.cause())),
        // Its start sees that the account is parked.
        (Mode::Parked(_), Tended::Waiting | Tended::Suspended | Tended::Resting) => None,
        (Mode::Drain, Tended::Up { draining, .. }) => (!draining).then_some(Decision::Drain(id)),
        // It is being adopted: it hears of its drain when it is up.
        (Mode::Drain, Tended::Waiting) if runs(facts) => Some(Decision::Drain(id)),
        (Mode::Drain, Tended::Waiting | Tended::Suspended | Tended::Resting) => {
            Some(Decision::Remove(id))
        }
        (Mode::Run, Tended::Suspended) => Some(Decision::Resume(id)),
        (Mode::Run, Tended::Waiting) => None,
        (Mode::Run, Tended::Up { draining: true, .. }) => Some(Decision::KeepOn(id)),
        (Mode::Run, Tended::Up { fingerprint, .. }) => {
            let facts = facts.filter(|_| runs(facts))?;
            // Whoever is attached would lose what they do, and whoever is asked what they would answer;
            // a later look decides again.
            if facts.attached || seen.asking.contains(&facts.id) {
                return None;
            }
            // In the order of the seed: idle, then drift.
            if is_idle(wanted, facts, seen.now) {
                return Some(Decision::Cycle(id, Cause::Idle));
            }
            has_drifted(wanted, fingerprint.as_ref()).then_some(Decision::Cycle(id, Cause::Drift))
        }
    }
}

fn runs(facts: Option<&SessionFacts>) -> bool {
    facts.is_some_and(|facts| facts.state == RunState::Running)
}

/// Unknown activity is no activity that one could miss: no kill (`health-patrol.md`, limitations).
fn is_idle(wanted: &Wanted, facts: &SessionFacts, now: Timestamp) -> bool {
    let due = idle_at(wanted, facts);
    due.is_some_and(|due| due <= now)
}

/// When a session has been idle for as long as it may, if nothing happens until then.
#[must_use]
pub fn idle_at(wanted: &Wanted, facts: &SessionFacts) -> Option<Timestamp> {
    let timeout = wanted.idle_timeout?;
    let last = facts.last_activity?.max(facts.started_at);
    last.checked_add(timeout).ok()
}

/// What is not on record is not known to differ: an upgrade of the supervisor restarts nobody.
fn has_drifted(wanted: &Wanted, fingerprint: Option<&String>) -> bool {
    match (&wanted.fingerprint, fingerprint) {
        (Some(wanted), Some(from)) => wanted != from,
        _ => false,
    }
}

fn orphans(seen: &Seen, facts: &BTreeMap<&SessionId, &SessionFacts>) -> Vec<Decision> {
    let wanted: BTreeMap<_, _> = seen
        .wanted
        .iter()
        .map(|wanted| (&wanted.session, wanted))
        .collect();
    let rests = |wanted: &&Wanted| match seen.tended.get(&wanted.id) {
        None => wanted.mode == Mode::Suspended,
        Some(Tended::Suspended | Tended::Resting) => true,
        Some(Tended::Up { .. } | Tended::Waiting | Tended::Ending) => false,
    };
    let running = facts
        .values()
        .filter(|facts| facts.state == RunState::Running && !seen.busy.contains(&facts.id));
    running
        .filter_map(|facts| {
            let owner = wanted.get(&facts.id).copied();
            owner
                .is_none_or(|owner| rests(&owner))
                .then(|| Decision::StopOrphan {
                    session: facts.id.clone(),
                    token: facts.token.clone(),
                    owner: owner.map(|owner| owner.id.clone()),
                    suspended: owner.is_some_and(|owner| owner.mode == Mode::Suspended),
                })
        })
        .collect()
}

#[cfg(test)]
mod tests;
