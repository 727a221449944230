//! The objects that retention deletes, their times and their order, on the paused clock.

mod journal;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::prune;
use crate::domain::cause::Cause;
use crate::domain::city::{City, RetentionPolicy, WispGc};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::GitFacts;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::message::{Body, Handoff};
use crate::domain::other_work::OtherWork;
use crate::domain::relic::{RelicKind, RelicStatus};
use crate::domain::saga::SagaKind;
use crate::ports::clock::Clock as _;
use crate::ports::relics::{NewRelic, SalvageEntry, StoreError, Txn};
use crate::ports::repo::RepoError;
use crate::ports::tasks::Expired;
use crate::testing::jumpy_clock::JumpyClock;
use crate::testing::records;
use crate::testing::world::{Scenario, TestCity, rig};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Builds a city in which days pass: patrols are rare.
fn scenario() -> Scenario {
    Scenario::new().with(|city| city.daemon.patrol_interval = HOUR)
}

/// Configures the collection as the seed does.
fn collected(city: &mut City) {
    city.daemon.wisp_gc = Some(WispGc {
        interval: 5 * MINUTE,
        ttl: DAY,
    });
}

fn new_wisp(txn: &mut dyn Txn) -> Result<RelicId, StoreError> {
    let wisp = txn.create_relic(&NewRelic {
        kind: RelicKind::Wisp,
        ..records::task("merged")
    })?;
    Ok(wisp.id)
}

/// A wisp that is closed now.
async fn wisp(city: &TestCity) -> RelicId {
    city.store(|txn| {
        let id = new_wisp(txn)?;
        let mut wisp = txn.relic(&id)?;
        wisp.status = RelicStatus::Closed;
        wisp.closed = Some(txn.now());
        txn.put_relic(&wisp)?;
        Ok(id)
    })
    .await
}

async fn is_there(city: &TestCity, relic: &RelicId) -> bool {
    let relic = relic.clone();
    let read = city.world.store.run(move |txn| txn.relic(&relic));
    read.await.is_ok()
}

/// `health-patrol.md`: how long closed wisps survive.
#[tokio::test(start_paused = true)]
async fn wisp_ttl_is_how_long_a_closed_wisp_survives() {
    let city = scenario().with(collected).start().await;
    let (closed, open) = (wisp(&city).await, city.store(new_wisp).await);
    city.pass(DAY - HOUR).await;
    assert!(is_there(&city, &closed).await);
    city.pass(2 * HOUR).await;
    assert!(!is_there(&city, &closed).await);
    let said = city.events(EventType::WispCollected).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].subject, "city");
    let data = serde_json::json!({ "count": 1, "ids": [closed] });
    assert_eq!(said[0].data, data);
    city.pass(2 * DAY).await;
    assert!(is_there(&city, &open).await, "nothing open is collected");
}

/// `health-patrol.md`: how often; the first time is after the start.
#[tokio::test(start_paused = true)]
async fn wisp_gc_interval_is_how_often_expired_wisps_go() {
    let city = Scenario::new().with(|city| {
        let (interval, ttl) = (10 * MINUTE, MINUTE);
        city.daemon.wisp_gc = Some(WispGc { interval, ttl });
    });
    let city = city.start().await;
    let wisp = wisp(&city).await;
    city.pass(9 * MINUTE).await;
    assert!(is_there(&city, &wisp).await, "expired, and not looked for");
    city.pass(2 * MINUTE).await;
    assert!(!is_there(&city, &wisp).await);
}

/// `health-patrol.md`: disabled if unset; and an edit is in force with the next patrol.
#[tokio::test(start_paused = true)]
async fn wisp_gc_is_off_until_both_keys_are_set_and_follows_a_reload() {
    let city = scenario().start().await;
    let wisp = wisp(&city).await;
    city.pass(3 * DAY).await;
    assert!(is_there(&city, &wisp).await);
    city.reload(collected).await;
    assert!(!is_there(&city, &wisp).await);
}

/// `rules.md`, patrol order: reload, reconcile, wisp GC, dispatch.
#[tokio::test(start_paused = true)]
async fn wisps_are_collected_after_a_look_at_the_world() {
    let city = scenario().start().await;
    let wisp = wisp(&city).await;
    city.pass(2 * DAY).await;
    let clock = Arc::clone(&city.world.clock);
    let parts = city.crash().await;
    parts.sessions.hold_lists(true);
    let city = scenario().with(collected).begin_on(parts, clock).await;
    let looking = async {
        let held = || city.parts.sessions.lists_held() > 0;
        city.until("a look", held).await;
        assert!(is_there(&city, &wisp).await, "nothing is reconciled yet");
        city.parts.sessions.hold_lists(false);
    };
    tokio::join!(city.boot(), looking);
    assert!(!is_there(&city, &wisp).await);
}

/// The last two steps of the same order.
#[tokio::test(start_paused = true)]
async fn wisps_are_collected_before_due_work_is_done() {
    let city = scenario().start().await;
    wisp(&city).await;
    city.pass(2 * DAY).await;
    let work = city.relic("later").await;
    let defer = move |txn: &mut dyn Txn| {
        let mut relic = txn.relic(&work)?;
        relic.status = RelicStatus::Deferred;
        relic.until = Some(txn.now());
        txn.put_relic(&relic)
    };
    city.store(defer).await;
    city.reload(collected).await;
    let collected = city.events(EventType::WispCollected).await;
    let reopened = city.events(EventType::RelicUpdated).await;
    assert!(collected[0].seq < reopened[0].seq);
}

async fn journal_events(city: &TestCity, times: usize) {
    let event = NewEvent::new(EventType::RelicCreated, "gt-1", Cause::Operator);
    city.store(move |txn| (0..times).try_for_each(|_| txn.record(&event).map(drop)))
        .await;
}

async fn first(city: &TestCity) -> u64 {
    city.store(|txn| txn.first_seq()).await
}

/// `contract.md`, 2.2: deletes in parts, so this needs more than one part.
#[tokio::test(start_paused = true)]
async fn events_go_when_they_are_old_and_numbers_go_on() {
    let city = scenario().with(|city| city.retention.events = Some(9 * DAY));
    let city = city.start().await;
    let (handled, waiting) = city.store(message).await;
    journal_events(&city, 1200).await;
    let last = city.store(|txn| txn.last_seq()).await;
    city.pass(9 * DAY - 2 * HOUR).await;
    assert_eq!(first(&city).await, 1);
    city.pass(4 * HOUR).await;
    assert!(first(&city).await > last);
    journal_events(&city, 1).await;
    assert!(city.store(|txn| txn.last_seq()).await > last);
    let gone = city.world.store.run(move |txn| txn.handled(handled)).await;
    assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
    assert!(city.store(move |txn| txn.handled(waiting)).await);
}

/// Sends a handled message, and an unread one.
fn message(txn: &mut dyn Txn) -> Result<(u64, u64), StoreError> {
    let body = Body::Handoff(Handoff {
        note: None,
        relic: None,
        incarnation: None,
        totem_step: None,
        resume: false,
    });
    let handled = txn.send("someone", "nobody", body.clone())?;
    txn.handled(handled)?;
    Ok((handled, txn.send("someone", "nobody", body)?))
}

/// `[retention]` runs hourly, and at once when it changed.
#[tokio::test(start_paused = true)]
async fn an_edit_of_retention_is_followed_at_once() {
    let city = scenario().start().await;
    journal_events(&city, 5).await;
    city.pass(10 * DAY).await;
    assert_eq!(first(&city).await, 1);
    city.reload(|city| city.retention.events = Some(DAY)).await;
    assert!(first(&city).await > 5);
}

fn city_with(change: impl FnOnce(&mut RetentionPolicy)) -> Scenario {
    scenario().with(|city| change(&mut city.retention))
}

/// A raider with a file that no commit holds.
async fn precious(city: &TestCity) -> RaiderId {
    let raider = city.worker("work").await.raider;
    city.parts.repo.dirty(&raider.name, "precious");
    raider
}

async fn salvages(city: &TestCity) -> Vec<SalvageEntry> {
    city.store(|txn| txn.salvages()).await
}

#[tokio::test(start_paused = true)]
async fn expired_salvage_is_deleted_and_journalled() {
    let city = city_with(|keep| keep.salvage = Some(9 * DAY));
    let city = city.start().await;
    let raider = precious(&city).await;
    city.nuke(&raider, true).await.unwrap();
    let entry = salvages(&city).await.pop().unwrap();
    city.pass(9 * DAY - 2 * HOUR).await;
    assert_eq!(salvages(&city).await, std::slice::from_ref(&entry));
    city.pass(4 * HOUR).await;
    assert_eq!(salvages(&city).await, []);
    assert_eq!(city.parts.repo.salvages(), []);
    let said = city.events(EventType::SalvagePruned).await.pop().unwrap();
    assert_eq!(
        (&said.subject[..], &said.cause[..]),
        ("horde/raiders/Toast", "expired")
    );
    assert_eq!(said.data["id"], entry.id);
    assert!(said.data["refs"][&entry.refs[0]].is_string(), "{said:?}");
    assert_eq!(city.sagas().await, 0);
}

/// Restarts the city with a wall clock that can be set.
async fn jumpy(city: TestCity, scenario: Scenario) -> (TestCity, Arc<JumpyClock>) {
    let clock = JumpyClock::on(Arc::clone(&city.world.clock));
    let city = scenario.start_on(city.crash().await, clock.clone()).await;
    (city, clock)
}

/// The last holder of work must not be deleted because the clock was set.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_destroys_no_salvage() {
    const YEAR: i64 = 365 * 24 * 3600;
    let kept = || city_with(|keep| keep.salvage = Some(9 * DAY));
    let city = kept().start().await;
    let raider = precious(&city).await;
    city.nuke(&raider, true).await.unwrap();
    let (city, clock) = jumpy(city, kept()).await;
    city.pass(2 * HOUR).await;
    // A salvage that no look has seen yet.
    let late = precious(&city).await;
    city.nuke(&late, true).await.unwrap();
    clock.jump(YEAR);
    city.pass(9 * DAY - 4 * HOUR).await;
    assert_eq!(salvages(&city).await.len(), 2);
    city.pass(6 * HOUR).await;
    assert_eq!(salvages(&city).await, []);
}

/// Files that took the place of a link, logs and events are kept as long as if the clock had not been set.
#[tokio::test(start_paused = true)]
async fn jump_of_the_wall_clock_deletes_no_file_early() {
    const YEAR: i64 = 365 * 24 * 3600;
    let kept = || {
        city_with(|keep| {
            keep.salvage = Some(9 * DAY);
            keep.session_logs = Some(2 * DAY);
        })
    };
    let (city, clock) = jumpy(kept().start().await, kept()).await;
    city.pass(2 * HOUR).await;
    let made = clock.now();
    clock.jump(YEAR);
    let deleted = || {
        let pruned = city.parts.tasks.pruned();
        let newest = |time: fn(&Expired) -> Option<Timestamp>| {
            pruned
                .iter()
                .filter_map(|(_, expired, _)| time(expired))
                .max()
        };
        let [logs, replaced] = [newest(|it| it.before), newest(|it| it.replaced_before)];
        [logs, replaced].map(|newest| newest.is_some_and(|newest| newest > made))
    };
    city.pass(2 * DAY - 2 * HOUR).await;
    assert_eq!(deleted(), [false, false]);
    city.pass(4 * HOUR).await;
    assert_eq!(deleted(), [true, false]);
    city.pass(7 * DAY - 6 * HOUR).await;
    assert_eq!(deleted(), [true, false]);
    city.pass(6 * HOUR).await;
    assert_eq!(deleted(), [true, true]);
}

/// A wrong clock at the machine's start is soon corrected.
#[tokio::test(start_paused = true)]
async fn a_start_with_a_wrong_clock_destroys_no_salvage() {
    const YEAR: i64 = 365 * 24 * 3600;
    let kept = || city_with(|keep| keep.salvage = Some(9 * DAY));
    let city = kept().start().await;
    let raider = precious(&city).await;
    city.nuke(&raider, true).await.unwrap();
    let clock = JumpyClock::on(Arc::clone(&city.world.clock));
    clock.jump(YEAR);
    let city = kept().start_on(city.crash().await, clock.clone()).await;
    city.pass(HOUR / 2).await;
    clock.jump(-YEAR);
    city.pass(DAY).await;
    assert_eq!(salvages(&city).await.len(), 1);
    city.pass(8 * DAY).await;
    assert_eq!(salvages(&city).await, []);
}

/// The same rule for salvage written from what git still had of a deleted sandbox.
#[tokio::test(start_paused = true)]
async fn start_with_a_wrong_clock_destroys_no_salvage_of_a_deleted_sandbox() {
    const YEAR: i64 = 365 * 24 * 3600;
    let kept = || city_with(|keep| keep.salvage = Some(9 * DAY));
    let (city, clock) = jumpy(kept().start().await, kept()).await;
    city.pass(2 * HOUR).await;
    let raider = precious(&city).await;
    let rebase = |facts: &mut GitFacts| {
        facts
            .other_work
            .push(OtherWork::unfinished("a rebase in progress"))
    };
    city.parts.repo.change(&raider.name, rebase);
    city.parts.repo.lose(&raider.name);
    city.nuke(&raider, true).await.unwrap();
    clock.jump(YEAR);
    city.pass(9 * DAY - 4 * HOUR).await;
    assert_eq!(salvages(&city).await.len(), 1);
    city.pass(6 * HOUR).await;
    assert_eq!(salvages(&city).await, []);
}

/// Task files are deleted with the logs, except those of raiders at work.
#[tokio::test(start_paused = true)]
async fn task_files_go_with_the_logs_but_for_those_of_raiders_at_work() {
    let city = city_with(|keep| keep.session_logs = Some(DAY))
        .start()
        .await;
    let at_work = city.worker("work").await;
    city.pass(2 * HOUR).await;
    let dirs = &city.world.city;
    let own = dirs.task_dir(&at_work.raider, &at_work.relic, at_work.incarnation);
    let (dir, _, but) = city.parts.tasks.pruned().pop().unwrap();
    assert_eq!((dir, but), (dirs.tasks_dir(), vec![own]));
}

/// A moved ref does not hold what was saved: the whole salvage stays, and is tried again.
#[tokio::test(start_paused = true)]
async fn salvage_whose_refs_moved_stays_whole() {
    let city = city_with(|keep| keep.salvage = Some(DAY)).start().await;
    let raider = precious(&city).await;
    city.nuke(&raider, true).await.unwrap();
    let moved = || RepoError::Moved {
        name: "refs/horde/salvage/x".into(),
        expected: "a".into(),
        found: "b".into(),
    };
    city.parts.repo.fail("delete_refs", moved());
    city.pass(DAY + HOUR + MINUTE).await;
    assert_eq!(city.parts.repo.count("delete_refs"), 1);
    assert_eq!((salvages(&city).await.len(), city.sagas().await), (1, 0));
    city.pass(2 * HOUR).await;
    assert_eq!(salvages(&city).await, []);
}

/// A nuke may be about to remove a sandbox because this salvage holds its work.
#[tokio::test(start_paused = true)]
async fn salvage_is_not_pruned_while_something_is_under_way_with_its_raider() {
    let city = scenario().start().await;
    let raider = precious(&city).await;
    city.nuke(&raider, true).await.unwrap();
    let entry = salvages(&city).await.pop().unwrap();
    let open = move |txn: &mut dyn Txn| {
        let (kind, subject) = (SagaKind::Land, "horde/raiders/Toast");
        txn.open_saga(kind, &rig(), subject, "intent", &serde_json::json!({}))
    };
    let saga = city.store(open).await.id;
    let pruned = prune::prune(&city.world, entry.clone(), Cause::Operator).await;
    assert_eq!(pruned.unwrap_err().kind, RefusalKind::Conflict);
    city.store(move |txn| txn.close_saga(saga)).await;
    let pruned = prune::prune(&city.world, entry.clone(), Cause::Operator).await;
    assert_eq!(pruned, Ok(()));
    let again = prune::prune(&city.world, entry, Cause::Operator).await;
    assert_eq!(again.unwrap_err().kind, RefusalKind::NotFound);
}

/// The reverse: nothing relies on a salvage that is being pruned.
#[tokio::test(start_paused = true)]
async fn a_salvage_that_is_being_pruned_holds_nothing_any_more() {
    let city = scenario().start().await;
    let raider = precious(&city).await;
    let open = |txn: &mut dyn Txn| {
        let plan = serde_json::json!({});
        txn.open_saga(SagaKind::Prune, &rig(), "horde-Toast-1", "intent", &plan)
    };
    let saga = city.store(open).await.id;
    let refused = city.nuke(&raider, true).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Conflict);
    assert_eq!(city.parts.repo.discarded(), []);
    city.store(move |txn| txn.close_saga(saga)).await;
    city.nuke(&raider, true).await.unwrap();
}

/// `contract.md`, 2.2: above it the sandbox is kept and escalated, once.
#[tokio::test(start_paused = true)]
async fn salvage_max_keeps_a_sandbox_that_there_is_no_room_for() {
    let city = city_with(|keep| keep.salvage_max = Some(0)).start().await;
    let raider = precious(&city).await;
    for _ in 1..=2 {
        let refused = city.nuke(&raider, true).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NoRoom);
        city.settle().await;
    }
    assert_eq!(city.parts.repo.count("salvage"), 0, "nothing was written");
    assert_eq!(city.parts.repo.discarded(), []);
    let raised = city.escalations().await;
    assert_eq!(raised.len(), 1, "{raised:?}");
    assert!(raised[0].body.contains("salvage prune"), "{raised:?}");
    assert!(city.runs(&raider.session_id()), "its raider works again");
    city.reload(|city| city.retention.salvage_max = Some(1))
        .await;
    city.nuke(&raider, true).await.unwrap();
    assert_eq!(salvages(&city).await.len(), 1);
}

/// Repositories are looked after with the rest, for every rig.
#[tokio::test(start_paused = true)]
async fn packs_are_joined_hourly() {
    let city = scenario().start().await;
    city.pass(MINUTE).await;
    let first = city.parts.repo.count("maintain");
    assert_eq!(first, 1, "after the start");
    city.pass(3 * HOUR).await;
    let later = city.parts.repo.count("maintain");
    assert!((3..=4).contains(&later), "{later}");
}
