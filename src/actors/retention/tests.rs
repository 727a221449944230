//! The objects that retention deletes, their times and their order, on the paused clock.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::prune;
use crate::domain::automation::Automation;
use crate::domain::cause::Cause;
use crate::domain::city::{City, RetentionPolicy, WispGc};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::GitFacts;
use crate::domain::gates::Gate;
use crate::domain::gates::event::Pattern;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::message::{Body, Handoff};
use crate::domain::other_work::OtherWork;
use crate::domain::relic::{RelicKind, RelicStatus};
use crate::domain::saga::SagaKind;
use crate::ports::relics::{NewRelic, SalvageEntry, StoreError, Txn};
use crate::ports::repo::RepoError;
use crate::testing::jumpy_clock::JumpyClock;
use crate::testing::records;
use crate::testing::world::{Scenario, Town, rig};

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
async fn wisp(town: &Town) -> RelicId {
    town.store(|txn| {
        let id = new_wisp(txn)?;
        let mut wisp = txn.relic(&id)?;
        wisp.status = RelicStatus::Closed;
        wisp.closed = Some(txn.now());
        txn.put_relic(&wisp)?;
        Ok(id)
    })
    .await
}

async fn is_there(town: &Town, relic: &RelicId) -> bool {
    let relic = relic.clone();
    let read = town.world.store.run(move |txn| txn.relic(&relic));
    read.await.is_ok()
}

/// `health-patrol.md`: how long closed wisps survive.
#[tokio::test(start_paused = true)]
async fn wisp_ttl_is_how_long_a_closed_wisp_survives() {
    let town = scenario().with(collected).start().await;
    let (closed, open) = (wisp(&town).await, town.store(new_wisp).await);
    town.pass(DAY - HOUR).await;
    assert!(is_there(&town, &closed).await);
    town.pass(2 * HOUR).await;
    assert!(!is_there(&town, &closed).await);
    let said = town.events(EventType::WispCollected).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].subject, "town");
    let data = serde_json::json!({ "count": 1, "ids": [closed] });
    assert_eq!(said[0].data, data);
    town.pass(2 * DAY).await;
    assert!(is_there(&town, &open).await, "nothing open is collected");
}

/// `health-patrol.md`: how often; the first time is after the start.
#[tokio::test(start_paused = true)]
async fn wisp_gc_interval_is_how_often_expired_wisps_go() {
    let town = Scenario::new().with(|city| {
        let (interval, ttl) = (10 * MINUTE, MINUTE);
        city.daemon.wisp_gc = Some(WispGc { interval, ttl });
    });
    let town = town.start().await;
    let wisp = wisp(&town).await;
    town.pass(9 * MINUTE).await;
    assert!(is_there(&town, &wisp).await, "expired, and not looked for");
    town.pass(2 * MINUTE).await;
    assert!(!is_there(&town, &wisp).await);
}

/// `health-patrol.md`: disabled if unset; and an edit is in force with the next patrol.
#[tokio::test(start_paused = true)]
async fn wisp_gc_is_off_until_both_keys_are_set_and_follows_a_reload() {
    let town = scenario().start().await;
    let wisp = wisp(&town).await;
    town.pass(3 * DAY).await;
    assert!(is_there(&town, &wisp).await);
    town.reload(collected).await;
    assert!(!is_there(&town, &wisp).await);
}

/// `rules.md`, patrol order: reload, reconcile, wisp GC, dispatch.
#[tokio::test(start_paused = true)]
async fn wisps_are_collected_after_a_look_at_the_world() {
    let town = scenario().start().await;
    let wisp = wisp(&town).await;
    town.pass(2 * DAY).await;
    let clock = Arc::clone(&town.world.clock);
    let parts = town.crash().await;
    parts.sessions.hold_lists(true);
    let town = scenario().with(collected).begin_on(parts, clock).await;
    let looking = async {
        let held = || town.parts.sessions.lists_held() > 0;
        town.until("a look", held).await;
        assert!(is_there(&town, &wisp).await, "nothing is reconciled yet");
        town.parts.sessions.hold_lists(false);
    };
    tokio::join!(town.boot(), looking);
    assert!(!is_there(&town, &wisp).await);
}

/// The last two steps of the same order.
#[tokio::test(start_paused = true)]
async fn wisps_are_collected_before_due_work_is_done() {
    let town = scenario().start().await;
    wisp(&town).await;
    town.pass(2 * DAY).await;
    let work = town.relic("later").await;
    let defer = move |txn: &mut dyn Txn| {
        let mut relic = txn.relic(&work)?;
        relic.status = RelicStatus::Deferred;
        relic.until = Some(txn.now());
        txn.put_relic(&relic)
    };
    town.store(defer).await;
    town.reload(collected).await;
    let collected = town.events(EventType::WispCollected).await;
    let reopened = town.events(EventType::RelicUpdated).await;
    assert!(collected[0].seq < reopened[0].seq);
}

async fn journal_events(town: &Town, times: usize) {
    let event = NewEvent::new(EventType::RelicCreated, "gt-1", Cause::Operator);
    town.store(move |txn| (0..times).try_for_each(|_| txn.record(&event).map(drop)))
        .await;
}

async fn first(town: &Town) -> u64 {
    town.store(|txn| txn.first_seq()).await
}

/// `contract.md`, 2.2: deletes in parts, so this needs more than one part.
#[tokio::test(start_paused = true)]
async fn events_go_when_they_are_old_and_numbers_go_on() {
    let town = scenario().with(|city| city.retention.events = Some(9 * DAY));
    let town = town.start().await;
    let (handled, waiting) = town.store(message).await;
    journal_events(&town, 1200).await;
    let last = town.store(|txn| txn.last_seq()).await;
    town.pass(9 * DAY - 2 * HOUR).await;
    assert_eq!(first(&town).await, 1);
    town.pass(4 * HOUR).await;
    assert!(first(&town).await > last);
    journal_events(&town, 1).await;
    assert!(town.store(|txn| txn.last_seq()).await > last);
    let gone = town.world.store.run(move |txn| txn.handled(handled)).await;
    assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
    assert!(town.store(move |txn| txn.handled(waiting)).await);
}

/// Sends a handled message, and an unread one.
fn message(txn: &mut dyn Txn) -> Result<(u64, u64), StoreError> {
    let body = Body::Handoff(Handoff {
        note: None,
        relic: None,
        totem_step: None,
        resume: false,
    });
    let handled = txn.send("someone", "nobody", body.clone())?;
    txn.handled(handled)?;
    Ok((handled, txn.send("someone", "nobody", body)?))
}

/// An event that an automation has not handled yet is kept, however old it is.
#[tokio::test(start_paused = true)]
async fn an_event_that_an_automation_waits_for_outlives_its_time() {
    let slow = Automation {
        id: "slow".parse().unwrap(),
        description: String::new(),
        exec: "slow".into(),
        gate: Gate::Event {
            on: Pattern::parse("relic.created").unwrap(),
        },
        timeout: 90 * DAY,
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    };
    let town = scenario().with(|city| {
        city.retention.events = Some(DAY);
        city.automations = vec![slow];
    });
    let town = town.start().await;
    // The first event's run takes long, and two events wait for it.
    town.parts.runner.let_go("slow", 3 * DAY, 0);
    journal_events(&town, 3).await;
    town.pass(2 * DAY).await;
    let kept = town.events(EventType::RelicCreated).await;
    assert_eq!(kept.len(), 2, "the one that is being run for may go");
    town.pass(5 * DAY).await;
    assert_eq!(town.parts.runner.started("slow").len(), 3);
    assert_eq!(town.events(EventType::RelicCreated).await, []);
}

/// A cursor may name a deleted event.
#[tokio::test(start_paused = true)]
async fn cursor_goes_on_behind_pruned_events() {
    let quick = Automation {
        id: "quick".parse().unwrap(),
        description: String::new(),
        exec: "quick".into(),
        gate: Gate::Event {
            on: Pattern::parse("relic.created").unwrap(),
        },
        timeout: MINUTE,
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    };
    let town = scenario().with(|city| {
        city.retention.events = Some(DAY);
        city.automations = vec![quick];
    });
    let town = town.start().await;
    journal_events(&town, 1).await;
    town.pass(3 * DAY).await;
    assert_eq!(town.events(EventType::RelicCreated).await, []);
    journal_events(&town, 1).await;
    town.settle().await;
    assert_eq!(town.parts.runner.started("quick").len(), 2);
}

/// `[retention]` runs hourly, and at once when it changed.
#[tokio::test(start_paused = true)]
async fn an_edit_of_retention_is_followed_at_once() {
    let town = scenario().start().await;
    journal_events(&town, 5).await;
    town.pass(10 * DAY).await;
    assert_eq!(first(&town).await, 1);
    town.reload(|city| city.retention.events = Some(DAY)).await;
    assert!(first(&town).await > 5);
}

fn town_with(change: impl FnOnce(&mut RetentionPolicy)) -> Scenario {
    scenario().with(|city| change(&mut city.retention))
}

/// A raider with a file that no commit holds.
async fn precious(town: &Town) -> RaiderId {
    let raider = town.worker("work").await.raider;
    town.parts.repo.dirty(&raider.name, "precious");
    raider
}

async fn salvages(town: &Town) -> Vec<SalvageEntry> {
    town.store(|txn| txn.salvages()).await
}

#[tokio::test(start_paused = true)]
async fn expired_salvage_is_deleted_and_journalled() {
    let town = town_with(|keep| keep.salvage = Some(9 * DAY));
    let town = town.start().await;
    let raider = precious(&town).await;
    town.nuke(&raider, true).await.unwrap();
    let entry = salvages(&town).await.pop().unwrap();
    town.pass(9 * DAY - 2 * HOUR).await;
    assert_eq!(salvages(&town).await, std::slice::from_ref(&entry));
    town.pass(4 * HOUR).await;
    assert_eq!(salvages(&town).await, []);
    assert_eq!(town.parts.repo.salvages(), []);
    let said = town.events(EventType::SalvagePruned).await.pop().unwrap();
    assert_eq!(
        (&said.subject[..], &said.cause[..]),
        ("horde/raiders/Toast", "expired")
    );
    assert_eq!(said.data["id"], entry.id);
    assert!(said.data["refs"][&entry.refs[0]].is_string(), "{said:?}");
    assert_eq!(town.sagas().await, 0);
}

/// Restarts the city with a wall clock that can be set.
async fn jumpy(town: Town, scenario: Scenario) -> (Town, Arc<JumpyClock>) {
    let clock = JumpyClock::on(Arc::clone(&town.world.clock));
    let town = scenario.start_on(town.crash().await, clock.clone()).await;
    (town, clock)
}

/// The last holder of work must not be deleted because the clock was set.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_destroys_no_salvage() {
    const YEAR: i64 = 365 * 24 * 3600;
    let kept = || town_with(|keep| keep.salvage = Some(9 * DAY));
    let town = kept().start().await;
    let raider = precious(&town).await;
    town.nuke(&raider, true).await.unwrap();
    let (town, clock) = jumpy(town, kept()).await;
    town.pass(2 * HOUR).await;
    // A salvage that no look has seen yet.
    let late = precious(&town).await;
    town.nuke(&late, true).await.unwrap();
    clock.jump(YEAR);
    town.pass(9 * DAY - 4 * HOUR).await;
    assert_eq!(salvages(&town).await.len(), 2);
    town.pass(6 * HOUR).await;
    assert_eq!(salvages(&town).await, []);
}

/// A wrong clock at the machine's start is soon corrected.
#[tokio::test(start_paused = true)]
async fn a_start_with_a_wrong_clock_destroys_no_salvage() {
    const YEAR: i64 = 365 * 24 * 3600;
    let kept = || town_with(|keep| keep.salvage = Some(9 * DAY));
    let town = kept().start().await;
    let raider = precious(&town).await;
    town.nuke(&raider, true).await.unwrap();
    let clock = JumpyClock::on(Arc::clone(&town.world.clock));
    clock.jump(YEAR);
    let town = kept().start_on(town.crash().await, clock.clone()).await;
    town.pass(HOUR / 2).await;
    clock.jump(-YEAR);
    town.pass(DAY).await;
    assert_eq!(salvages(&town).await.len(), 1);
    town.pass(8 * DAY).await;
    assert_eq!(salvages(&town).await, []);
}

/// The same rule for salvage written from what git still had of a deleted sandbox.
#[tokio::test(start_paused = true)]
async fn nor_that_of_a_deleted_sandbox() {
    const YEAR: i64 = 365 * 24 * 3600;
    let kept = || town_with(|keep| keep.salvage = Some(9 * DAY));
    let (town, clock) = jumpy(kept().start().await, kept()).await;
    town.pass(2 * HOUR).await;
    let raider = precious(&town).await;
    let rebase = |facts: &mut GitFacts| {
        facts
            .special
            .push(OtherWork::unfinished("a rebase in progress"))
    };
    town.parts.repo.change(&raider.name, rebase);
    town.parts.repo.lose(&raider.name);
    town.nuke(&raider, true).await.unwrap();
    clock.jump(YEAR);
    town.pass(9 * DAY - 4 * HOUR).await;
    assert_eq!(salvages(&town).await.len(), 1);
    town.pass(6 * HOUR).await;
    assert_eq!(salvages(&town).await, []);
}

/// Task files are deleted with the logs, except those of raiders at work.
#[tokio::test(start_paused = true)]
async fn task_files_go_with_the_logs_but_for_those_of_raiders_at_work() {
    let town = town_with(|keep| keep.session_logs = Some(DAY))
        .start()
        .await;
    let at_work = town.worker("work").await;
    town.pass(2 * HOUR).await;
    let city = &town.world.city;
    let own = city.task_dir(&at_work.raider, &at_work.relic, at_work.incarnation);
    let (dir, _, but) = town.parts.tasks.pruned().pop().unwrap();
    assert_eq!((dir, but), (city.tasks_dir(), vec![own]));
}

/// A moved ref does not hold what was saved: the whole salvage stays, and is tried again.
#[tokio::test(start_paused = true)]
async fn salvage_whose_refs_moved_stays_whole() {
    let town = town_with(|keep| keep.salvage = Some(DAY)).start().await;
    let raider = precious(&town).await;
    town.nuke(&raider, true).await.unwrap();
    let moved = || RepoError::Moved {
        name: "refs/horde/salvage/x".into(),
        expected: "a".into(),
        found: "b".into(),
    };
    town.parts.repo.fail("delete_refs", moved());
    town.pass(DAY + HOUR + MINUTE).await;
    assert_eq!(town.parts.repo.count("delete_refs"), 1);
    assert_eq!((salvages(&town).await.len(), town.sagas().await), (1, 0));
    town.pass(2 * HOUR).await;
    assert_eq!(salvages(&town).await, []);
}

/// A nuke may be about to remove a sandbox because this salvage holds its work.
#[tokio::test(start_paused = true)]
async fn salvage_is_not_pruned_while_something_is_under_way_with_its_raider() {
    let town = scenario().start().await;
    let raider = precious(&town).await;
    town.nuke(&raider, true).await.unwrap();
    let entry = salvages(&town).await.pop().unwrap();
    let open = move |txn: &mut dyn Txn| {
        let (kind, subject) = (SagaKind::Land, "horde/raiders/Toast");
        txn.open_saga(kind, &rig(), subject, "intent", &serde_json::json!({}))
    };
    let saga = town.store(open).await.id;
    let pruned = prune::prune(&town.world, entry.clone(), Cause::Operator).await;
    assert_eq!(pruned.unwrap_err().kind, RefusalKind::Conflict);
    town.store(move |txn| txn.close_saga(saga)).await;
    let pruned = prune::prune(&town.world, entry.clone(), Cause::Operator).await;
    assert_eq!(pruned, Ok(()));
    let again = prune::prune(&town.world, entry, Cause::Operator).await;
    assert_eq!(again.unwrap_err().kind, RefusalKind::NotFound);
}

/// The reverse: nothing relies on a salvage that is being pruned.
#[tokio::test(start_paused = true)]
async fn a_salvage_that_is_being_pruned_holds_nothing_any_more() {
    let town = scenario().start().await;
    let raider = precious(&town).await;
    let open = |txn: &mut dyn Txn| {
        let plan = serde_json::json!({});
        txn.open_saga(SagaKind::Prune, &rig(), "horde-Toast-1", "intent", &plan)
    };
    let saga = town.store(open).await.id;
    let refused = town.nuke(&raider, true).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Conflict);
    assert_eq!(town.parts.repo.discarded(), []);
    town.store(move |txn| txn.close_saga(saga)).await;
    town.nuke(&raider, true).await.unwrap();
}

/// `contract.md`, 2.2: above it the sandbox is kept and escalated, once.
#[tokio::test(start_paused = true)]
async fn salvage_max_keeps_a_sandbox_that_there_is_no_room_for() {
    let town = town_with(|keep| keep.salvage_max = Some(0)).start().await;
    let raider = precious(&town).await;
    for _ in 1..=2 {
        let refused = town.nuke(&raider, true).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NoRoom);
        town.settle().await;
    }
    assert_eq!(town.parts.repo.count("salvage"), 0, "nothing was written");
    assert_eq!(town.parts.repo.discarded(), []);
    let raised = town.escalations().await;
    assert_eq!(raised.len(), 1, "{raised:?}");
    assert!(raised[0].body.contains("salvage prune"), "{raised:?}");
    assert!(town.runs(&raider.session_id()), "its raider works again");
    town.reload(|city| city.retention.salvage_max = Some(1))
        .await;
    town.nuke(&raider, true).await.unwrap();
    assert_eq!(salvages(&town).await.len(), 1);
}

/// Repositories are looked after with the rest, for every rig.
#[tokio::test(start_paused = true)]
async fn packs_are_joined_hourly() {
    let town = scenario().start().await;
    town.pass(MINUTE).await;
    let first = town.parts.repo.count("maintain");
    assert_eq!(first, 1, "after the start");
    town.pass(3 * HOUR).await;
    let later = town.parts.repo.count("maintain");
    assert!((3..=4).contains(&later), "{later}");
}
