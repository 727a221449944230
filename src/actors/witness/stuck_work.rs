//! Pieces of work that failed: a transient failure is retried soon; a permanent or lasting one is escalated. The
//! escalation is closed when the piece is gone.

use crate::actors::refusal::LASTING;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::claims::ClaimKey;
use super::super::refusal::{Refusal, RefusalKind};
use super::WitnessArgs;
use super::inbox::{self, Handled};
use super::look::Piece;
use crate::actors::effects;
use crate::actors::records::escalations;
use crate::domain::ids::RaiderId;
use crate::domain::message::{self, Escalation};
use crate::domain::problem::{Identity, Problem, ProblemKind};
use crate::domain::restart::Mono;
use crate::domain::saga::SagaKind;
use crate::ports::relics::{StoreError, Txn};

/// Since when pieces have failed, by key. A new process begins to count when it starts.
#[derive(Default)]
pub(super) struct RetryLedger(Mutex<FailedWork>);

#[derive(Default)]
struct FailedWork {
    since: BTreeMap<ClaimKey, Mono>,
    /// Set when waiting work is known to be charged and no escalation about it is open.
    charges: bool,
}

impl RetryLedger {
    fn known(&self) -> MutexGuard<'_, FailedWork> {
        // A poisoned lock at most delays an escalation.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a failure. Returns for how long the piece has failed.
    fn failed(&self, piece: &Piece, now: Mono) -> Duration {
        let mut known = self.known();
        known.charges &= !matches!(piece, Piece::Charges(_));
        now.saturating_sub(*known.since.entry(piece.key()).or_insert(now))
    }

    /// Drops the time since when the piece has failed.
    fn forget(&self, piece: &Piece) {
        self.known().since.remove(&piece.key());
    }

    /// Notes a success. Returns true when an escalation may be open that no patrol closes.
    fn passed(&self, piece: &Piece) -> bool {
        let mut known = self.known();
        known.since.remove(&piece.key());
        matches!(piece, Piece::Charges(_)) && !known.charges
    }

    /// Notes that waiting work is charged, and that no escalation about it is open.
    fn charges(&self) {
        self.known().charges = true;
    }

    /// Drops all but these pieces.
    fn retain(&self, keys: &BTreeSet<ClaimKey>) {
        self.known().since.retain(|key, _| keys.contains(key));
    }
}

/// Returns the problem of a saga that needs another program version, or a repair of this one.
pub(super) fn of_another_version(kind: SagaKind) -> Problem {
    let kind = kind.as_str();
    let text = format!("its {kind} was started by another version and cannot continue");
    ProblemKind::SagaForeign.of(kind, text)
}

/// Returns the subject of the escalation about a piece, and its problem. Work that outlives its sandbox, as a message
/// about a landing does, is reported in the witness's own name: the raider's name may belong to another by then.
fn call(args: &WitnessArgs, piece: &Piece) -> (String, Problem) {
    let witness = || message::witness(&args.rig);
    match piece {
        Piece::Message(message) => {
            let of = match message.body.work() {
                Some((raider, relic)) => format!("{relic} of {raider}"),
                None => format!("message {}", message.id),
            };
            let text = format!("the message about {of} cannot be handled");
            (witness(), ProblemKind::MessageStuck.of(of, text))
        }
        Piece::Saga(saga) if saga.subject.parse::<RaiderId>().is_ok() => {
            let kind = saga.kind.as_str();
            let text = format!("its {kind} cannot continue");
            (saga.subject.clone(), ProblemKind::SagaStuck.of(kind, text))
        }
        Piece::Saga(saga) => {
            let of = format!("{} of {}", saga.kind.as_str(), saga.subject);
            let text = format!("the {of} cannot continue");
            (witness(), ProblemKind::SagaStuck.of(of, text))
        }
        Piece::Release(raider) => (raider.to_string(), ProblemKind::ReleaseStuck.into()),
        Piece::Suspect(raider) => (raider.to_string(), ProblemKind::ZombieStuck.into()),
        Piece::Charges(_) => (witness(), ProblemKind::ChargesStuck.into()),
    }
}

/// Decides the retry of a failed piece: soon after a transient failure or a conflict. A permanent failure is escalated,
/// and still retried at each look.
pub(super) async fn stopped(args: &WitnessArgs, piece: &Piece, error: Refusal) -> Handled {
    let world = &args.world;
    if error.is_for_the_patrol() || world.is_stopping() {
        return Handled::Soon;
    }
    if error.kind == RefusalKind::NoRoom {
        return Handled::AtPatrol;
    }
    let passes = error.is_passing();
    if passes && effects::is_held(world, &args.rig) {
        // A person was called for the rig, and its time is no time of failure.
        args.memory.retries.forget(piece);
        return Handled::Soon;
    }
    let lasts = args.memory.retries.failed(piece, world.clock.mono());
    // A nuke that keeps failing escalates itself.
    let says_so = matches!(piece, Piece::Saga(saga) if saga.kind == SagaKind::Nuke);
    if passes && (lasts < LASTING || says_so) {
        return Handled::Soon;
    }
    let (agent, problem) = call(args, piece);
    let mut evidence = vec![error.message];
    evidence.extend(error.losses);
    evidence.extend(error.hint);
    let body = Escalation::high(agent, problem, evidence.join("\n"));
    match inbox::raise(args, body).await {
        Ok(()) if !passes => Handled::AtPatrol,
        Ok(()) | Err(_) => Handled::Soon,
    }
}

/// Closes the escalation about a piece that succeeded.
pub(super) async fn passed(args: &WitnessArgs, piece: &Piece) {
    let world = &args.world;
    if !args.memory.retries.passed(piece) {
        return;
    }
    let (who, problem) = call(args, piece);
    let over = move |txn: &mut dyn Txn| {
        escalations::close_where(txn, |entry| {
            entry.about().0 == who && entry.problem().is_same(&problem)
        })
    };
    match world.store.run(over).await {
        Ok(()) => args.memory.retries.charges(),
        Err(error) => {
            tracing::warn!(
                rig = %args.rig,
                %error,
                "the escalation about waiting work could not be closed; it stays open although \
                the work is charged"
            );
        }
    }
}

/// Closes every escalation of this rig about a piece of work that is not in `pieces`, and about a look that
/// hung.
///
/// # Errors
/// The store's.
pub(super) async fn close_finished(args: &WitnessArgs, pieces: &[Piece]) -> Result<(), StoreError> {
    let keys: BTreeSet<ClaimKey> = pieces.iter().map(Piece::key).collect();
    args.memory.retries.retain(&keys);
    let mut still: BTreeSet<(String, Identity)> = BTreeSet::new();
    for piece in pieces {
        let (who, problem) = call(args, piece);
        if let Piece::Saga(saga) = piece {
            // Escalations about the reason of the saga, too.
            let others = [
                of_another_version(saga.kind),
                ProblemKind::ReleaseStuck.into(),
                ProblemKind::ZombieStuck.into(),
            ];
            still.extend(others.map(|other| (who.clone(), other.identity())));
        }
        still.insert((who, problem.identity()));
    }
    let (rig, witness) = (args.rig.clone(), message::witness(&args.rig));
    let settle = move |txn: &mut dyn Txn| {
        escalations::close_where(txn, |entry| {
            let (who, problem) = (entry.about().0.to_owned(), entry.problem());
            let own = who == witness;
            let ours = own
                || who
                    .parse::<RaiderId>()
                    .is_ok_and(|raider| raider.rig == rig);
            ours && is_trouble(problem.kind(), own) && !still.contains(&(who, problem.identity()))
        })
    };
    args.world.store.run(settle).await
}

/// Returns true when an escalation of this kind is a witness's about a piece: in its own name, or about a raider.
fn is_trouble(kind: ProblemKind, of_witness: bool) -> bool {
    use ProblemKind::{LookHangs, MessageStuck, ReleaseStuck, SagaForeign, SagaStuck, ZombieStuck};
    match of_witness {
        true => matches!(kind, SagaStuck | SagaForeign | MessageStuck | LookHangs),
        false => matches!(kind, SagaStuck | SagaForeign | ReleaseStuck | ZombieStuck),
    }
}
