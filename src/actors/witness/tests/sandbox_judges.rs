//! Four decide about a sandbox: the judgement beforehand, the nuke, its rehearsal and the patrol. They agree, whatever
//! its contents and whatever room there is.

use super::{GROWN, PATROL, unhook};
use crate::actors::mail::Charged;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::nuke;
use crate::domain::answers::Would;
use crate::domain::cause::Cause;
use crate::domain::facts::GitFacts;
use crate::domain::other_work::OtherWork;
use crate::domain::problem::ProblemKind;
use crate::testing::tier::sampled;
use crate::testing::world::{Scenario, TestCity};

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Removed; nothing of it is needed.
    Goes,
    /// Removed; salvage has its contents.
    Saved,
    /// Kept: a person decides.
    Kept,
    /// Kept for lack of room.
    NoRoom,
}

use Fate::{Goes, Kept, NoRoom, Saved};

/// The contents, and the decision with room and without.
type Row = (fn(&mut GitFacts), Fate, Fate);

const TABLE: [Row; 7] = [
    (|_| {}, Goes, Goes),
    (
        |git| git.other_work.push(OtherWork::left_behind("abc")),
        Saved,
        NoRoom,
    ),
    (
        |git| {
            git.other_work
                .push(OtherWork::hidden("vendor/x", "changes"))
        },
        Saved,
        NoRoom,
    ),
    (|git| git.dirty.push("wip.txt".into()), Kept, Kept),
    (|git| git.untracked.push("new.txt".into()), Kept, Kept),
    (|git| git.stashes.push("WIP on it".into()), Kept, Kept),
    (
        |git| {
            git.other_work
                .push(OtherWork::unfinished("a rebase in progress"))
        },
        Kept,
        Kept,
    ),
];

/// Charges a raider with this sandbox.
async fn city(change: fn(&mut GitFacts), room: bool) -> (TestCity, Charged) {
    let most = if room { None } else { Some(0) };
    let scenario = Scenario::new().with(|city| city.retention.salvage_max = most);
    let city = scenario.start().await;
    let charged = city.charged("a").await;
    city.parts.repo.change(&charged.raider.name, change);
    (city, charged)
}

async fn target(city: &TestCity, charged: &Charged) -> NukeTarget {
    let hook = city.hook(&charged.raider).await.unwrap();
    NukeTarget::of(&hook, Cause::Operator)
}

fn refused(kind: RefusalKind) -> Fate {
    match kind {
        RefusalKind::WorkAtRisk => Kept,
        RefusalKind::NoRoom => NoRoom,
        other => panic!("{other:?}"),
    }
}

/// Returns the decision, from what is left.
fn done(city: &TestCity) -> Fate {
    match (
        city.parts.repo.names().is_empty(),
        city.parts.repo.count("salvage"),
    ) {
        (true, 0) => Goes,
        (true, _) => Saved,
        (false, _) => Kept,
    }
}

#[tokio::test(start_paused = true)]
async fn all_of_them_come_to_the_same() {
    let full = ProblemKind::SalvageFull.to_string();
    for (n, (change, with, without)) in TABLE.into_iter().enumerate() {
        for (room, fate) in [(true, with), (false, without)] {
            let (city, charged) = city(change, room).await;
            let target = target(&city, &charged).await;
            let row = format!("row {n}, room {room}");
            let judged = match nuke::permitted(&city.world, target.clone()).await {
                Err(why) => refused(why.kind),
                Ok(_) => match nuke::check(&city.world, &target).await.unwrap().is_empty() {
                    true => Goes,
                    false => Saved,
                },
            };
            assert_eq!(judged, fate, "the judgement, {row}");
            let told = nuke::rehearse(&city.world, &target, false).await.unwrap();
            let said = match told.would {
                Would::Nuke => Goes,
                Would::Salvage => Saved,
                Would::Refuse if told.message.unwrap().contains(&full) => NoRoom,
                Would::Refuse => Kept,
            };
            assert_eq!(said, fate, "the rehearsal, {row}");
            assert_eq!(told.safe, matches!(fate, Goes | Saved), "{row}");
            let nuked = match city.nuke(&charged.raider, false).await {
                Ok(nuked) if nuked.salvage.is_some() => Saved,
                Ok(_) => Goes,
                Err(why) => refused(why.kind),
            };
            assert_eq!(nuked, fate, "the nuke, {row}");
            let goes = matches!(fate, Goes | Saved);
            assert_eq!(city.runs(&charged.session), !goes, "{row}");
            assert_eq!(
                city.starts(&charged.session),
                1,
                "no session was ended, {row}"
            );
        }
    }
}

/// With `--salvage`, a sandbox at risk is removed if there is room, and keeps its session if not.
#[tokio::test(start_paused = true)]
async fn nuke_with_salvage_removes_a_sandbox_at_risk_only_where_there_is_room() {
    for (n, (change, with, _)) in TABLE.into_iter().enumerate() {
        for room in [true, false] {
            let fate = match (with, room) {
                (Goes, _) => Goes,
                (_, true) => Saved,
                (_, false) => NoRoom,
            };
            let (city, charged) = city(change, room).await;
            let target = target(&city, &charged).await;
            let row = format!("row {n}, room {room}");
            let told = nuke::rehearse(&city.world, &target, true).await.unwrap();
            let would = match fate {
                Goes => Would::Nuke,
                Saved => Would::Salvage,
                Kept | NoRoom => Would::Refuse,
            };
            assert_eq!(told.would, would, "the rehearsal, {row}");
            let nuked = match city.nuke(&charged.raider, true).await {
                Ok(_) => done(&city),
                Err(why) => refused(why.kind),
            };
            assert_eq!(nuked, fate, "the nuke, {row}");
            assert_eq!(city.starts(&charged.session), 1, "{row}");
        }
    }
}

/// The patrol decides unasked: it removes and keeps what the others would.
#[tokio::test(start_paused = true)]
async fn patrol_acts_as_the_rehearsal_announced() {
    for (n, (change, with, without)) in sampled(TABLE.into_iter().enumerate(), 3) {
        for (room, fate) in [(true, with), (false, without)] {
            let (city, charged) = city(change, room).await;
            unhook(&city, &charged).await;
            city.pass(GROWN + PATROL * 2).await;
            let stays = if fate == NoRoom { Kept } else { fate };
            assert_eq!(done(&city), stays, "row {n}, room {room}");
            let escalations = !city.escalations().await.is_empty();
            assert_eq!(escalations, stays == Kept, "row {n}, room {room}");
        }
    }
}
