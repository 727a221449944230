//! Pieces of work that could not go on: what passes by itself is tried again soon, and what does not, or
//! has not for long, is a person's. What a person was called for is over when the piece is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::refusal::{Refusal, RefusalKind};
use super::super::shaman;
use super::WitnessArgs;
use super::inbox::{self, Handled};
use super::look::Piece;
use crate::domain::cause::Cause;
use crate::domain::ids::{RaiderId, RelicId, RigName};
use crate::domain::message::{self, Escalation, Severity};
use crate::domain::restart::Mono;
use crate::domain::saga::SagaKind;
use crate::ports::relics::{StoreError, Txn};

/// What passes by itself has passed by then: a remote that is away for longer may be one that does not
/// know us any more.
pub const LASTING: Duration = Duration::from_secs(30 * 60);

const MESSAGE: &str = "what became of its work cannot be dealt with";
const RELEASE: &str = "it has no work any more and cannot be removed";
const SUSPECT: &str = "it is a zombie that cannot be dealt with";
const CHARGES: &str = "waiting work cannot be charged";

/// Since when pieces have not gone on, by their keys. A new process begins to count when it starts.
#[derive(Default)]
pub struct Troubles(Mutex<BTreeMap<RigName, Rig>>);

#[derive(Default)]
struct Rig {
    since: BTreeMap<String, Mono>,
    /// Waiting work is known to be charged: nobody is called for it.
    charges: bool,
}

impl Troubles {
    fn rigs(&self) -> MutexGuard<'_, BTreeMap<RigName, Rig>> {
        // At worst a person is called later.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long this piece has not gone on.
    fn lasts(&self, rig: &RigName, piece: &Piece, now: Mono) -> Duration {
        let mut rigs = self.rigs();
        let rig = rigs.entry(rig.clone()).or_default();
        rig.charges &= !matches!(piece, Piece::Charges(_));
        now - *rig.since.entry(piece.key()).or_insert(now)
    }

    /// It went on; says whether somebody may have been called for it whom no patrol tells that it is over.
    fn passed(&self, rig: &RigName, piece: &Piece) -> bool {
        let mut rigs = self.rigs();
        let rig = rigs.entry(rig.clone()).or_default();
        rig.since.remove(&piece.key());
        matches!(piece, Piece::Charges(_)) && !std::mem::replace(&mut rig.charges, true)
    }

    /// Only these are there still.
    fn retain(&self, rig: &RigName, keys: &BTreeSet<String>) {
        if let Some(rig) = self.rigs().get_mut(rig) {
            rig.since.retain(|key, _| keys.contains(key));
        }
    }
}

fn stuck(kind: SagaKind) -> String {
    format!("its {} cannot go on", kind.as_str())
}

/// What a person is called for who updates or repairs the program.
pub(super) fn of_another_version(kind: SagaKind) -> String {
    let kind = kind.as_str();
    format!("its {kind} was begun by another version and cannot go on")
}

/// Whom a piece is about, and with which work.
fn about(piece: &Piece) -> (String, Option<RelicId>) {
    match piece {
        Piece::Message(message) => match message.body.work() {
            Some((raider, relic)) => (raider.to_string(), Some(relic.clone())),
            None => (message.from.clone(), None),
        },
        Piece::Saga(saga) => (saga.subject.clone(), None),
        Piece::Release(raider) | Piece::Suspect(raider) => (raider.to_string(), None),
        Piece::Charges(rig) => (message::witness(rig), None),
    }
}

/// What it means for people that it cannot go on.
fn problem(piece: &Piece) -> String {
    match piece {
        Piece::Message(_) => MESSAGE.to_owned(),
        Piece::Saga(saga) => stuck(saga.kind),
        Piece::Release(_) => RELEASE.to_owned(),
        Piece::Suspect(_) => SUSPECT.to_owned(),
        Piece::Charges(_) => CHARGES.to_owned(),
    }
}

/// When to try again what could not go on: soon, when it may pass by itself or somebody else was at it.
/// What will not pass is a person's, and is tried at each look all the same.
pub(super) async fn stopped(args: &WitnessArgs, piece: &Piece, error: Refusal) -> Handled {
    let world = &args.world;
    if error.kind == RefusalKind::Conflict || world.is_stopping() {
        return Handled::Soon;
    }
    if error.kind == RefusalKind::NoRoom {
        return Handled::AtPatrol;
    }
    let troubles = &world.directory.troubles;
    let lasts = troubles.lasts(&args.rig, piece, world.clock.mono());
    let passes = error.is_passing();
    if passes && lasts < LASTING {
        return Handled::Soon;
    }
    let (agent, relic) = about(piece);
    let mut evidence = vec![error.message];
    evidence.extend(error.losses);
    evidence.extend(error.hint);
    let body = Escalation {
        agent,
        relic,
        problem: problem(piece),
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
    if !world.directory.troubles.passed(&args.rig, piece) {
        return;
    }
    let (who, problem) = (about(piece).0, problem(piece));
    let over = move |txn: &mut dyn Txn| shaman::over(txn, &[&problem], |agent, _| agent == who);
    if let Err(error) = world.store.run(over).await {
        let rig = args.rig.clone();
        tracing::warn!(%rig, %error, "a call for help stays open although it is over");
        world
            .directory
            .troubles
            .lasts(&rig, piece, world.clock.mono());
    }
}

/// Of this rig, people are called for these pieces only: what is no more is dealt with.
///
/// # Errors
/// The store's.
pub(super) async fn over(args: &WitnessArgs, pieces: &[Piece]) -> Result<(), StoreError> {
    let keys: BTreeSet<String> = pieces.iter().map(Piece::key).collect();
    args.world.directory.troubles.retain(&args.rig, &keys);
    let mut still: BTreeSet<(String, String)> = BTreeSet::new();
    for piece in pieces {
        let who = about(piece).0;
        if let Piece::Saga(saga) = piece {
            still.insert((who.clone(), of_another_version(saga.kind)));
        }
        still.insert((who, problem(piece)));
    }
    let rig = args.rig.clone();
    let settle = move |txn: &mut dyn Txn| {
        let open = shaman::open(txn)?.into_iter();
        let over = open.filter(|entry| {
            let who = entry.about().0.to_owned();
            let raider = who.parse::<RaiderId>();
            let title = &entry.relic.title;
            raider.is_ok_and(|raider| raider.rig == rig)
                && is_trouble(title)
                && !still.contains(&(who, title.clone()))
        });
        let over = over.map(|entry| entry.relic).collect();
        shaman::settle(txn, over, Cause::Vanished)
    };
    args.world.store.run(settle).await
}

fn is_trouble(title: &str) -> bool {
    let saga = |kind: &SagaKind| title == stuck(*kind) || title == of_another_version(*kind);
    [MESSAGE, RELEASE, SUSPECT].contains(&title) || SagaKind::ALL.iter().any(saga)
}
