//! Compares the desired children with the observed ones: the decision that start-up and every patrol share
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
//!   keep        none             running      Adopt
//!   keep        -                -            nothing: it may have its session, and none is started
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
//! Idempotent: applied to its own result, it decides nothing (`health-patrol.md`, invariants).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::account::Why;
use super::cause::Cause;
use super::facts::{RunState, SessionFacts};
use super::ids::{ChildId, Incarnation, SessionId};

/// The desired state of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It has a session.
    Run,
    /// It may keep the session that it has; none is started.
    Keep,
    /// It has no session, for now.
    Suspended,
    /// No session is started, and a running one is ended, until its account is open again (`domain/account.rs`).
    Parked(Why),
    /// It ends in its own time: a pool has more members than it needs.
    Drain,
}

/// A child that should exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Id of the child.
    pub id: ChildId,
    /// Its session's id.
    pub session: SessionId,
    /// The incarnation that should run (0 for agents).
    pub incarnation: Incarnation,
    /// The desired state.
    pub mode: Mode,
    /// Fingerprint of the configuration for a fresh session; none where a change waits for the next session anyway
    /// (`rules.md`, drift hash: raiders).
    pub fingerprint: Option<String>,
    /// A session without terminal input or output for this long is replaced.
    pub idle_timeout: Option<Duration>,
}

/// A child that the root has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tended {
    /// Its session is up.
    Up {
        /// Fingerprint of the configuration that its session was started from, where it is on record.
        fingerprint: Option<String>,
        /// Set when it is to end in its own time.
        draining: bool,
    },
    /// It starts, backs off, is quarantined, waits for other children, or has finished.
    Waiting,
    /// It rests because it was suspended.
    Suspended,
    /// It rests because of an operator or of its restart type.
    Resting,
    /// It is being ended.
    Ending,
}

/// The observations that the decision is made from.
#[derive(Debug, Clone, Default)]
pub struct PlanInputs {
    /// All sessions that the provider knows.
    pub sessions: Vec<SessionFacts>,
    /// The desired children.
    pub wanted: Vec<Wanted>,
    /// Sessions that an open saga owns.
    pub busy: BTreeSet<SessionId>,
    /// Sessions that ask a question, or may ask one.
    pub asking: BTreeSet<SessionId>,
    /// The children that the root has.
    pub tended: BTreeMap<ChildId, Tended>,
    /// Time of the observation.
    pub now: Timestamp,
}

/// An action to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Take over the running session.
    Adopt(ChildId),
    /// Start a session.
    Start(ChildId),
    /// Start a session again after a suspension.
    Resume(ChildId),
    /// End its session until it is resumed, for this cause.
    Suspend(ChildId, Cause),
    /// Replace its session by a fresh one.
    Cycle(ChildId, Cause),
    /// Let it end in its own time.
    Drain(ChildId),
    /// Cancel the drain: it is needed after all.
    KeepOn(ChildId),
    /// End it for good.
    Remove(ChildId),
    /// End a session that no child should have. Carries the token, so that a successor is safe.
    StopOrphan {
        /// The session.
        session: SessionId,
        /// Token of the session.
        token: String,
        /// The owner, if there is one.
        owner: Option<ChildId>,
        /// Set when the owner is suspended.
        suspended: bool,
    },
}

/// Returns the decisions, in a stable order.
#[must_use]
pub fn plan(seen: &PlanInputs) -> Vec<Decision> {
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
            // Otherwise a saga owns the raider, or no session of it runs.
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

/// Decides for a desired child that the root does not have.
fn begin(wanted: &Wanted, facts: Option<&SessionFacts>) -> Vec<Decision> {
    let id = wanted.id.clone();
    let state = facts.map(|facts| (&facts.state, facts.incarnation));
    match (wanted.mode, state) {
        // A running session of a suspended child is handled with the orphans.
        (_, Some((RunState::Unknown { .. }, _))) | (Mode::Suspended, _) => Vec::new(),
        (mode, Some((RunState::Running, incarnation))) if incarnation == wanted.incarnation => {
            let drain = (mode == Mode::Drain).then(|| Decision::Drain(id.clone()));
            std::iter::once(Decision::Adopt(id)).chain(drain).collect()
        }
        // The start itself ends a session of another incarnation. A child whose account is parked is started too: the
        // start lays it to rest, so that it gets its turn.
        (Mode::Run | Mode::Parked(_), _) => vec![Decision::Start(id)],
        (Mode::Drain | Mode::Keep, _) => Vec::new(),
    }
}

/// Decides for a child that the root has.
fn adjust(
    wanted: &Wanted,
    tended: &Tended,
    facts: Option<&SessionFacts>,
    seen: &PlanInputs,
) -> Option<Decision> {
    let id = wanted.id.clone();
    match (wanted.mode, tended) {
        (_, Tended::Ending) | (Mode::Run | Mode::Suspended, Tended::Resting) => None,
        (Mode::Keep, Tended::Up { draining: true, .. }) => Some(Decision::KeepOn(id)),
        (Mode::Keep, _) => None,
        (Mode::Suspended, Tended::Suspended) => None,
        (Mode::Suspended, Tended::Up { .. } | Tended::Waiting) => {
            Some(Decision::Suspend(id, Cause::Suspended))
        }
        (Mode::Parked(why), Tended::Up { .. }) => Some(Decision::Suspend(id, why.cause())),
        // The start sees that the account is parked.
        (Mode::Parked(_), Tended::Waiting | Tended::Suspended | Tended::Resting) => None,
        (Mode::Drain, Tended::Up { draining, .. }) => (!draining).then_some(Decision::Drain(id)),
        // The child is being adopted: it receives the drain when it is up.
        (Mode::Drain, Tended::Waiting) if runs(facts) => Some(Decision::Drain(id)),
        (Mode::Drain, Tended::Waiting | Tended::Suspended | Tended::Resting) => {
            Some(Decision::Remove(id))
        }
        (Mode::Run, Tended::Suspended) => Some(Decision::Resume(id)),
        (Mode::Run, Tended::Waiting) => None,
        (Mode::Run, Tended::Up { draining: true, .. }) => Some(Decision::KeepOn(id)),
        (Mode::Run, Tended::Up { fingerprint, .. }) => {
            let facts = facts.filter(|_| runs(facts))?;
            // A fresh session would lose an attached person's input, or the answer to an open question; a later look
            // decides again.
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

/// Unknown activity is not inactivity: no kill (`health-patrol.md`, limitations).
fn is_idle(wanted: &Wanted, facts: &SessionFacts, now: Timestamp) -> bool {
    let due = idle_at(wanted, facts);
    due.is_some_and(|due| due <= now)
}

/// Returns when a session will have been idle for its timeout, if nothing happens until then.
#[must_use]
pub fn idle_at(wanted: &Wanted, facts: &SessionFacts) -> Option<Timestamp> {
    let timeout = wanted.idle_timeout?;
    let last = facts.last_activity?.max(facts.started_at);
    last.checked_add(timeout).ok()
}

/// A session without a recorded fingerprint is taken as unchanged, so an upgrade of the supervisor restarts no child.
fn has_drifted(wanted: &Wanted, fingerprint: Option<&String>) -> bool {
    match (&wanted.fingerprint, fingerprint) {
        (Some(wanted), Some(from)) => wanted != from,
        _ => false,
    }
}

fn orphans(seen: &PlanInputs, facts: &BTreeMap<&SessionId, &SessionFacts>) -> Vec<Decision> {
    let wanted: BTreeMap<_, _> = seen
        .wanted
        .iter()
        .map(|wanted| (&wanted.session, wanted))
        .collect();
    let rests = |wanted: &&Wanted, facts: &SessionFacts| match seen.tended.get(&wanted.id) {
        // No start ends the session of an earlier incarnation.
        None if wanted.mode == Mode::Keep => facts.incarnation != wanted.incarnation,
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
                .is_none_or(|owner| rests(&owner, facts))
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
