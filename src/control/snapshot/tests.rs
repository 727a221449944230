//! Tests of the snapshot, in a city of fakes under the paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::actors::records::escalations;
use crate::domain::message::{Body, Escalation};
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::relic::RelicStatus;
use crate::testing::world::{Scenario, TestCity};

const SECOND: Duration = Duration::from_secs(1);

async fn taken(published: &Published, city: &TestCity) -> Arc<Snapshot> {
    published.now(&city.world.newest()).await.unwrap()
}

fn open(snapshot: &Snapshot) -> u64 {
    let counts = snapshot.records.relics.iter();
    let open = counts.filter(|((_, status), _)| *status == RelicStatus::Open);
    open.map(|(_, count)| count).sum()
}

#[tokio::test(start_paused = true)]
async fn clients_share_a_snapshot_until_something_changes() {
    let city = Scenario::new().start().await;
    let published = Published::default();
    let first = taken(&published, &city).await;
    assert!(Arc::ptr_eq(&first, &taken(&published, &city).await));
    city.relic("one").await;
    let second = taken(&published, &city).await;
    assert!(second.generation > first.generation);
    assert_eq!(
        open(&second),
        open(&first) + 1,
        "the answered request is in it"
    );
}

#[tokio::test(start_paused = true)]
async fn reading_the_store_is_no_change() {
    let city = Scenario::new().start().await;
    city.settle().await;
    let before = city.world.store.changes().count();
    city.store(|txn| txn.last_seq()).await;
    assert_eq!(city.world.store.changes().count(), before);
    city.store(|txn| txn.set("fact", Some("1"))).await;
    assert_eq!(city.world.store.changes().count(), before + 1);
}

/// Fifty changes in each second, and a reader that takes a tenth of a second for each item.
#[tokio::test(start_paused = true)]
async fn follower_gets_few_snapshots_however_often_something_changes() {
    let city = Scenario::new().start().await;
    let published = Arc::new(Published::default());
    let (world, done) = (city.world.newest(), Arc::new(AtomicBool::new(false)));
    let follower = {
        let (published, done) = (Arc::clone(&published), Arc::clone(&done));
        tokio::spawn(async move {
            let (mut seen, mut count) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let next = published.next(&world, seen, 5 * SECOND).await.unwrap();
                assert!(
                    next.generation > seen,
                    "each has a change that the last has not"
                );
                (seen, count) = (next.generation, count + 1);
                published.shown(Duration::from_millis(10));
            }
            count
        })
    };
    for _ in 0..500 {
        city.world.store.changes().note();
        city.pass(SECOND / 50).await;
    }
    done.store(true, Ordering::Relaxed);
    city.world.store.changes().note();
    city.pass(5 * SECOND).await;
    let count = follower.await.unwrap();
    // Ten milliseconds each, two hundred times that to rest: five in ten seconds, and those at the begin and at the end.
    assert!((5..=8).contains(&count), "{count} snapshots");
}

#[tokio::test(start_paused = true)]
async fn disk_that_hangs_holds_up_no_snapshot() {
    let city = Scenario::new().start().await;
    city.worker("a").await;
    let published = Arc::new(Published::default());
    taken(&published, &city).await;
    city.pass(60 * SECOND).await;
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    city.parts.repo.interlude("sandboxes", move || {
        // Returns when the test ends.
        let _told = wait.lock().unwrap().recv();
    });
    let world = city.world.newest();
    let next = tokio::spawn(async move { published.now(&world).await.unwrap() });
    // Time stands still while a blocking task runs.
    for _ in 0..100 {
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let shown = next.await.unwrap();
    assert_eq!(shown.records.hooks.len(), 1);
    drop(go);
}

/// A rig whose disk hangs holds up the first answer that needs a look at it, and none after that, although the
/// supervisor goes on with the sandboxes of other rigs.
#[tokio::test(start_paused = true)]
async fn look_that_hangs_is_waited_for_once_and_concerns_its_rig_alone() {
    let city = Scenario::new().start().await;
    city.worker("a").await;
    let (looks, world) = (Looks::default(), city.world.newest());
    let rig = &world.city.rigs[0];
    let first = looks.of(&world, rig).await;
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    city.parts.repo.interlude("sandboxes", move || {
        // Returns when the test ends.
        let _told = wait.lock().unwrap().recv();
    });
    let waited = async |limit: u64| {
        let begun = tokio::time::Instant::now();
        let mut look = std::pin::pin!(looks.of(&world, rig));
        // Time stands still while a blocking task runs.
        loop {
            tokio::select! {
                biased;
                look = &mut look => return (look, begun.elapsed()),
                () = tokio::time::advance(Duration::from_millis(1)) => {}
            }
            assert!(begun.elapsed() < Duration::from_millis(limit));
        }
    };
    city.world
        .directory
        .sandboxes
        .note(&RigName::new("other").unwrap());
    city.world.directory.sandboxes.note(&rig.name);
    let (look, took) = waited(3000).await;
    assert!(Arc::ptr_eq(&look, &first), "the last that ended");
    assert!(took >= 2 * SECOND, "{took:?}");
    for _ in 0..3 {
        let (_, took) = waited(100).await;
        assert!(took < Duration::from_millis(50), "{took:?}");
    }
    drop(go);
}

/// A change of another rig's sandboxes does not void the look at this one.
#[tokio::test(start_paused = true)]
async fn change_of_another_rig_voids_no_look() {
    let city = Scenario::new().start().await;
    city.worker("a").await;
    let (looks, world) = (Looks::default(), city.world.newest());
    let rig = &world.city.rigs[0];
    let first = looks.of(&world, rig).await;
    let before = city.parts.repo.count("sandboxes");
    city.world
        .directory
        .sandboxes
        .note(&RigName::new("other").unwrap());
    assert!(Arc::ptr_eq(&looks.of(&world, rig).await, &first));
    assert_eq!(city.parts.repo.count("sandboxes"), before);
    city.world.directory.sandboxes.note(&rig.name);
    assert!(!Arc::ptr_eq(&looks.of(&world, rig).await, &first));
}

/// The agent called for help about its relic, too, before the relic was blocked and more urgently.
#[tokio::test(start_paused = true)]
async fn row_of_a_blocked_relic_names_the_escalation_that_blocks_it() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let id = charged.relic.clone();
    let calls = [
        Problem::in_own_words("no key"),
        ProblemKind::AgentStuck.into(),
        Problem::in_own_words("no disk"),
    ];
    city.store(move |txn| {
        for problem in calls.clone() {
            let call = Escalation::high(&charged.raider, problem, "").on(id.clone());
            let call = match call.problem.kind() {
                ProblemKind::AgentStuck => call.medium(),
                _ => call,
            };
            escalations::send(txn, "test", Body::Help(call))?;
            escalations::read_inbox(txn)?;
        }
        let mut relic = txn.relic(&id)?;
        relic.status = RelicStatus::Blocked;
        txn.put_relic(&relic)
    })
    .await;
    let snapshot = taken(&Published::default(), &city).await;
    let row = &snapshot.records.blocked[0];
    let problem = row.escalation.as_ref().map(|(_, problem)| problem.as_str());
    assert_eq!(problem, Some(ProblemKind::AgentStuck.text()));
}
