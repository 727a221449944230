//! Pieces of work that could not go on: what passes by itself is tried again soon, and what does not, or
//! has not for long, is a person's. What a person was called for is over when the piece is gone.

use crate::actors::refusal::LASTING;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::claims::ClaimKey;
use super::super::refusal::{Refusal, RefusalKind};
use super::WitnessArgs;
use super::inbox::{self, Handled};
use super::look::Piece;
use crate::actors::records::escalations;
use crate::domain::ids::RaiderId;
use crate::domain::message::{self, Escalation, Severity};
use crate::domain::problem::{Identity, Problem, ProblemKind};
use crate::domain::restart::Mono;
use crate::domain::saga::SagaKind;
use crate::ports::relics::{StoreError, Txn};

/// Since when pieces have not gone on, by their keys. A new process begins to count when it starts.
#[derive(Default)]
pub(super) struct Troubles(Mutex<Known>);

#[derive(Default)]
struct Known {
    since: BTreeMap<ClaimKey, Mono>,
    /// Waiting work is known to be charged: nobody is called for it.
    charges: bool,
}

impl Troubles {
    fn known(&self) -> MutexGuard<'_, Known> {
        // At worst a person is called later.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it did not go on. Returns for how long it has not.
    fn failed(&self, piece: &Piece, now: Mono) -> Duration {
        let mut known = self.known();
        known.charges &= !matches!(piece, Piece::Charges(_));
        now.saturating_sub(*known.since.entry(piece.key()).or_insert(now))
    }

    /// Notes that it went on. Returns whether a person may have been called for it whom no patrol tells that it is
    /// over.
    fn passed(&self, piece: &Piece) -> bool {
        let mut known = self.known();
        known.since.remove(&piece.key());
        matches!(piece, Piece::Charges(_)) && !known.charges
    }

    /// Notes that waiting work is charged, and nobody is called for it.
    fn charges(&self) {
        self.known().charges = true;
    }

    /// Forgets all but these.
    fn retain(&self, keys: &BTreeSet<ClaimKey>) {
        self.known().since.retain(|key, _| keys.contains(key));
    }
}

/// Returns the problem that a person is called for who updates or repairs the program.
pub(super) fn of_another_version(kind: SagaKind) -> Problem {
    let kind = kind.as_str();
    let text = format!("its {kind} was begun by another version and cannot go on");
    ProblemKind::SagaForeign.of(kind, text)
}

/// Whom a piece is about, and what it means for people that it cannot go on. What outlives the sandbox that it
/// began in, as a message about landed work does, is the witness's own trouble: the raider's name may be
/// another's by then.
fn call(args: &WitnessArgs, piece: &Piece) -> (String, Problem) {
    let witness = || message::witness(&args.rig);
    match piece {
        Piece::Message(message) => {
            let of = match message.body.work() {
                Some((raider, relic)) => format!("{relic} of {raider}"),
                None => format!("message {}", message.id),
            };
            let text = format!("what became of {of} cannot be dealt with");
            (witness(), ProblemKind::MessageStuck.of(of, text))
        }
        Piece::Saga(saga) if saga.subject.parse::<RaiderId>().is_ok() => {
            let kind = saga.kind.as_str();
            let text = format!("its {kind} cannot go on");
            (saga.subject.clone(), ProblemKind::SagaStuck.of(kind, text))
        }
        Piece::Saga(saga) => {
            let of = format!("{} of {}", saga.kind.as_str(), saga.subject);
            let text = format!("the {of} cannot go on");
            (witness(), ProblemKind::SagaStuck.of(of, text))
        }
        Piece::Release(raider) => (raider.to_string(), ProblemKind::ReleaseStuck.into()),
        Piece::Suspect(raider) => (raider.to_string(), ProblemKind::ZombieStuck.into()),
        Piece::Charges(_) => (witness(), ProblemKind::ChargesStuck.into()),
    }
}

/// When to try again what could not go on: soon, when it may pass by itself or somebody else was at it.
/// What will not pass is a person's, and is tried at each look all the same.
pub(super) async fn stopped(args: &WitnessArgs, piece: &Piece, error: Refusal) -> Handled {
    let world = &args.world;
    if error.is_for_the_patrol() || world.is_stopping() {
        return Handled::Soon;
    }
    if error.kind == RefusalKind::NoRoom {
        return Handled::AtPatrol;
    }
    let lasts = args.memory.troubles.failed(piece, world.clock.mono());
    let passes = error.is_passing();
    // A nuke that does not get on says so itself.
    let says_so = matches!(piece, Piece::Saga(saga) if saga.kind == SagaKind::Nuke);
    if passes && (lasts < LASTING || says_so) {
        return Handled::Soon;
    }
    let (agent, problem) = call(args, piece);
    let mut evidence = vec![error.message];
    evidence.extend(error.losses);
    evidence.extend(error.hint);
    let body = Escalation {
        agent,
        relic: None,
        problem,
        severity: Severity::High,
        evidence: evidence.join("\n"),
    };
    match inbox::raise(args, body).await {
        Ok(()) if !passes => Handled::AtPatrol,
        Ok(()) | Err(_) => Handled::Soon,
    }
}

/// It went on.
pub(super) async fn passed(args: &WitnessArgs, piece: &Piece) {
    let world = &args.world;
    if !args.memory.troubles.passed(piece) {
        return;
    }
    let (who, problem) = call(args, piece);
    let over = move |txn: &mut dyn Txn| {
        escalations::over_where(txn, |entry| {
            entry.about().0 == who && entry.problem().is_same(&problem)
        })
    };
    match world.store.run(over).await {
        Ok(()) => args.memory.troubles.charges(),
        Err(error) => {
            tracing::warn!(rig = %args.rig, %error, "a call for help stays open although it is over");
        }
    }
}

/// Of this rig, people are called for these pieces only: what is no more is dealt with.
///
/// # Errors
/// The store's.
pub(super) async fn over(args: &WitnessArgs, pieces: &[Piece]) -> Result<(), StoreError> {
    let keys: BTreeSet<ClaimKey> = pieces.iter().map(Piece::key).collect();
    args.memory.troubles.retain(&keys);
    let mut still: BTreeSet<(String, Identity)> = BTreeSet::new();
    for piece in pieces {
        let (who, problem) = call(args, piece);
        if let Piece::Saga(saga) = piece {
            // What it was begun for, too.
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
        escalations::over_where(txn, |entry| {
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

/// Whether a call for this kind of problem is a witness's about a piece: in its own name, or about a raider.
fn is_trouble(kind: ProblemKind, of_witness: bool) -> bool {
    use ProblemKind::{MessageStuck, ReleaseStuck, SagaForeign, SagaStuck, ZombieStuck};
    match of_witness {
        true => matches!(kind, SagaStuck | SagaForeign | MessageStuck),
        false => matches!(kind, SagaStuck | SagaForeign | ReleaseStuck | ZombieStuck),
    }
}
