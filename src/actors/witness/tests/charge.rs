//! Charge: all or nothing, whatever fails.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::actors::mail::{Charged, ChildState};
use crate::actors::refusal::RefusalKind;
use crate::domain::city::PromptMode;
use crate::domain::default_branch::Change;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::merge::MrState;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::FaultPoint;
use crate::ports::repo::RepoError;
use crate::ports::sessions::StartError;
use crate::testing::world::{Interruption, Scenario, TestCity, raider};

async fn assert_charge_left_no_trace(city: &TestCity, relic: &crate::domain::ids::RelicId) {
    let now = city.relic_now(relic).await;
    assert_eq!(now.status, RelicStatus::Open);
    assert_eq!(now.assignee, None);
    assert_eq!(city.sagas().await, 0);
    assert!(city.parts.repo.names().is_empty());
    assert!(city.hook(&raider("Toast")).await.is_none());
    assert!(city.parts.sessions.running().is_empty());
    let id = ChildId::Raider(raider("Toast"));
    assert!(city.view(&id).await.is_none());
}

async fn works_now(city: &TestCity, relic: &crate::domain::ids::RelicId) {
    let charged = city.charge(relic).await.unwrap();
    assert_eq!(charged.raider, raider("Toast"), "the slot is free again");
    let id = ChildId::Raider(charged.raider);
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.sagas().await, 0);
    assert_eq!(city.relic_now(relic).await.status, RelicStatus::Hooked);
}

/// Weakness W15 of an earlier system: two charges at once could take the same name, and a charge that failed used its
/// name up.
#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_made_unwinds() {
    for error in [
        RepoError::Failed("no room".into()),
        RepoError::Remote("away".into()),
    ] {
        let city = Scenario::new().start().await;
        let relic = city.relic("a").await;
        city.parts.repo.fail("make_sandbox", error);
        city.charge(&relic).await.unwrap_err();
        assert_charge_left_no_trace(&city, &relic).await;
        works_now(&city, &relic).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_charge_that_a_stop_interrupts_is_left_to_the_next_start_and_says_so() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let world = city.world.clone();
    let stop = move || world.stopping.store(true, Ordering::Relaxed);
    city.parts.repo.interlude("make_sandbox", stop);
    let ended = RepoError::Failed("a signal ended it".into());
    city.parts.repo.fail("make_sandbox", ended);
    let refused = city.charge(&relic).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable);
    assert!(refused.message.contains("next start"), "{refused}");
    assert_eq!(city.sagas().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_set_up_that_fails_unwinds() {
    let (city, relic) = Scenario::whose_set_up_fails().await;
    let error = city.charge(&relic).await.unwrap_err();
    assert!(error.message.contains("no rule"), "{error}");
    assert_charge_left_no_trace(&city, &relic).await;
    city.parts.tasks.break_set_up(None);
    works_now(&city, &relic).await;
}

/// Weakness W16 of an earlier system: a session was prompted before its work was assigned to it, and ran on when the
/// charge failed.
#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_start_unwinds() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let error = StartError::Provider("no memory".into());
    let session = raider("Toast").session_id();
    city.parts.sessions.refuse_start(&session, error);
    city.charge(&relic).await.unwrap_err();
    assert_charge_left_no_trace(&city, &relic).await;
    works_now(&city, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn a_relic_closed_meanwhile_unwinds_and_stays_closed() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    city.closes_during("make_sandbox", &relic);
    let error = city.charge(&relic).await.unwrap_err();
    assert_eq!(error.kind, RefusalKind::Conflict);
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Closed);
    assert_eq!(city.sagas().await, 0);
    assert!(city.parts.repo.names().is_empty());
}

/// Weakness W1 of an earlier system: an agent whose start found no free workspace stayed `planning` for ever, and its
/// caller was told that it had started.
#[tokio::test(start_paused = true)]
async fn an_exhausted_pool_says_so_and_changes_nothing() {
    let city = Scenario::new().rig(|rig| rig.raiders.max = 1).start().await;
    let (first, second) = (city.relic("a").await, city.relic("b").await);
    city.charge(&first).await.unwrap();
    let before = city.store(|txn| txn.last_seq()).await;
    let error = city.charge(&second).await.unwrap_err();
    assert_eq!(error.kind, RefusalKind::Conflict);
    assert_eq!(city.store(|txn| txn.last_seq()).await, before);
    assert_eq!(city.parts.repo.count("make_sandbox"), 1);
    assert_eq!(city.relic_now(&second).await.status, RelicStatus::Open);
    let twice = city.charge(&first).await.unwrap_err();
    assert_eq!(twice.kind, RefusalKind::Conflict);
    // It is charged like any other relic when a slot is free.
    city.nuke(&raider("Toast"), true).await.unwrap();
    works_now(&city, &second).await;
}

/// Weakness W12 of an earlier system: merge requests were looked up with the highest priority only, and nothing kept
/// two from claiming the same work.
#[tokio::test(start_paused = true)]
async fn two_charges_of_one_relic_at_once_make_one_raider() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let both = tokio::join!(city.charge(&relic), city.charge(&relic));
    let (charged, refused) = match both {
        (Ok(charged), Err(refused)) | (Err(refused), Ok(charged)) => (charged, refused),
        both => panic!("{both:?}"),
    };
    assert_eq!(charged.raider, raider("Toast"));
    assert_eq!(refused.kind, RefusalKind::Conflict);
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(city.parts.sessions.running().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_charge_is_resumed_by_the_patrol() {
    let interruption = Interruption::at(FaultPoint::ChargeSessionBefore);
    let city = Scenario::new().fault(interruption.hook()).start().await;
    let relic = city.relic("a").await;
    city.charge(&relic).await.unwrap_err();
    assert_eq!(city.sagas().await, 1, "it waits to be resumed");
    interruption.end();
    city.pass(Duration::from_secs(31)).await;
    assert_eq!(city.sagas().await, 0);
    assert_eq!(city.starts(&raider("Toast").session_id()), 1);
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Hooked);
}

#[tokio::test(start_paused = true)]
async fn automatic_charge_that_always_fails_is_given_up() {
    let city = Scenario::new()
        .rig(|rig| {
            rig.raiders.auto_charge = true;
            rig.raiders.setup = vec!["make deps".into()];
        })
        .start()
        .await;
    city.parts.tasks.break_set_up(Some("make: no rule"));
    let relic = city.relic("a").await;
    let made = || city.parts.repo.count("make_sandbox");
    city.world.nudge("horde/witness");
    city.settle().await;
    assert_eq!(made(), 1);
    city.world.nudge("horde/witness");
    city.pass(Duration::from_secs(9)).await;
    assert_eq!(made(), 1, "it is left alone for a while");
    city.pass(Duration::from_secs(2)).await;
    assert_eq!(made(), 2);
    city.pass(Duration::from_secs(600)).await;
    assert_eq!(made(), 3);
    let now = city.relic_now(&relic).await;
    assert_eq!(now.status, RelicStatus::Blocked);
    assert_eq!(now.charge_failures, 3);
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].body.contains("no rule"));
    assert!(city.parts.repo.names().is_empty());
}

/// An agent that always dies is quarantined, tried once more at the end of each quarantine, and gives up its slot
/// after `keep_dirty`: its work waits for a person.
#[tokio::test(start_paused = true)]
async fn work_at_which_every_agent_dies_is_given_up() {
    let city = Scenario::new().with(|city| {
        // A day passes: patrols are rare.
        city.daemon.patrol_interval = Duration::from_secs(600);
        city.rigs[0].raiders.auto_charge = true;
        for harness in city.harnesses.values_mut() {
            harness.command = ["fake", "exits", "1"].map(String::from).to_vec();
            harness.prompt = PromptMode::Stdin;
        }
    });
    let city = city.start().await;
    let relic = city.relic("a").await;
    city.pass(Duration::from_secs(27 * 3600)).await;
    let now = city.relic_now(&relic).await;
    assert_eq!(now.status, RelicStatus::Blocked);
    assert_eq!(city.parts.repo.count("make_sandbox"), 1);
    assert_eq!(city.starts(&raider("Toast").session_id()), 6 + 24);
    assert_eq!(city.escalations().await.len(), 1);
    assert!(city.parts.repo.names().is_empty());
    // A person's charge gives it fresh attempts.
    city.charge(&relic).await.unwrap();
    assert_eq!(city.relic_now(&relic).await.charge_failures, 0);
}

/// A missing target fails before a slot is taken; other relics do not wait for it.
#[tokio::test(start_paused = true)]
async fn a_relic_that_cannot_be_charged_holds_up_no_other() {
    let city = Scenario::new().rig(|rig| rig.raiders.auto_charge = true);
    let city = city.start().await;
    let gone = RepoError::NotFound("branch release".into());
    city.parts.repo.fail_for("fetch_target", "release", gone);
    let (bad, good) = (city.relic("a").await, city.relic("b").await);
    let mut asked = city.relic_now(&bad).await;
    asked.target = Some("release".into());
    city.store(move |txn| txn.put_relic(&asked)).await;
    city.pass(Duration::from_secs(31)).await;
    assert_eq!(city.relic_now(&good).await.status, RelicStatus::Hooked);
    city.pass(Duration::from_secs(60)).await;
    assert_eq!(city.relic_now(&bad).await.status, RelicStatus::Blocked);
    assert_eq!(city.escalations().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn transient_failure_of_a_charge_is_not_counted() {
    let city = Scenario::new().rig(|rig| rig.raiders.auto_charge = true);
    let city = city.start().await;
    let relic = city.relic("a").await;
    let away = RepoError::Remote("no route".into());
    city.parts.repo.break_op("make_sandbox", away);
    city.pass(Duration::from_secs(300)).await;
    assert!(city.parts.repo.count("make_sandbox") > 3);
    assert_eq!(city.relic_now(&relic).await.charge_failures, 0);
    city.parts.repo.mend("make_sandbox");
    city.pass(Duration::from_secs(31)).await;
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Hooked);
    assert!(city.escalations().await.is_empty());
}

/// A person's charge is not counted, and clears the count when it succeeds.
#[tokio::test(start_paused = true)]
async fn only_consecutive_failures_of_automatic_charges_are_counted() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let session = raider("Toast").session_id();
    for _ in 0..4 {
        let error = StartError::Provider("no program".into());
        city.parts.sessions.refuse_start(&session, error);
        let error = city.charge(&relic).await.unwrap_err();
        assert_eq!(error.kind, RefusalKind::Failed);
        assert!(error.message.contains("no program") && error.hint.is_some());
    }
    let mut now = city.relic_now(&relic).await;
    assert_eq!(now.charge_failures, 0);
    now.charge_failures = 2;
    city.store(move |txn| txn.put_relic(&now)).await;
    works_now(&city, &relic).await;
    assert_eq!(city.relic_now(&relic).await.charge_failures, 0);
}

/// An agent may be done before its charge is completed: the journal keeps the order.
/// Weakness W16 of an earlier system: a session was prompted before its work was assigned to it, and ran on when the
/// charge failed.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_faster_than_its_charge_is_shown_in_order() {
    let interruption = Interruption::at(FaultPoint::ChargeSessionBefore);
    let city = Scenario::new().fault(interruption.hook()).start().await;
    let relic = city.relic("a").await;
    city.charge(&relic).await.unwrap_err();
    let hook = city.hook(&raider("Toast")).await.unwrap();
    city.parts.repo.commit(&hook.raider.name);
    city.completed(&hook.raider).await.unwrap();
    interruption.end();
    city.pass(Duration::from_secs(31)).await;
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Closed);
    let filter = crate::ports::relics::EventFilter::default();
    let all = city.store(move |txn| txn.events(&filter)).await;
    let told = ["raider.charged", "raider.working", "raider.done"];
    let story: Vec<_> = all
        .iter()
        .map(|event| event.kind.as_str())
        .filter(|kind| told.contains(kind))
        .collect();
    assert_eq!(story, told);
}

fn renamed(contains: bool, kept: bool) -> Change {
    Change {
        from: "main".into(),
        to: "trunk".into(),
        contains,
        kept,
    }
}

/// New charges follow a default branch that was only discovered; work in progress keeps its target.
#[tokio::test(start_paused = true)]
async fn new_charges_follow_a_default_branch_that_changed_at_the_remote() {
    let city = Scenario::new()
        .rig(|rig| rig.default_branch = None)
        .start()
        .await;
    let before = city.worker("before").await;
    city.parts.repo.change_default(renamed(true, true));
    let after = city.worker("after").await;
    let target = async |charged: &Charged| city.hook(&charged.raider).await.unwrap().target;
    assert_eq!(
        (target(&before).await, target(&after).await),
        ("main".into(), "trunk".into())
    );
    let again = city.worker("again").await;
    assert_eq!(target(&again).await, "trunk");
    let told = city.events(EventType::RigDefaultBranch).await;
    assert_eq!(told.len(), 1, "it is told once");
    let data = &told[0].data;
    assert_eq!(
        (&data["from"], &data["to"], &data["followed"]),
        (&"main".into(), &"trunk".into(), &true.into())
    );
    let raised = city.escalations().await;
    assert_eq!(raised.len(), 1);
    assert!(
        raised[0].title.contains("main") && raised[0].title.contains("trunk"),
        "{raised:?}"
    );
    city.completed(&before.raider).await.unwrap();
    city.pass(Duration::from_secs(31)).await;
    let mr = city.mr(&before.relic).await.unwrap();
    assert_eq!((mr.target.as_str(), mr.state), ("main", MrState::Merged));
}

/// Commits that landed on the former default branch would be missing.
#[tokio::test(start_paused = true)]
async fn default_branch_that_lacks_commits_of_the_former_one_is_not_followed() {
    let city = Scenario::new()
        .rig(|rig| rig.default_branch = None)
        .start()
        .await;
    city.parts.repo.change_default(renamed(false, true));
    for title in ["a", "b"] {
        let charged = city.charged(title).await;
        assert_eq!(city.hook(&charged.raider).await.unwrap().target, "main");
    }
    let told = city.events(EventType::RigDefaultBranch).await;
    assert_eq!((told.len(), &told[0].data["followed"]), (1, &false.into()));
    assert_eq!(city.parts.repo.count("follow_default"), 0);
    assert!(
        city.escalations().await[0]
            .body
            .contains("default_branch = \"trunk\"")
    );
}

/// Counts the escalations that are open.
async fn open(city: &TestCity) -> usize {
    let all = city.escalations().await.into_iter();
    all.filter(|one| one.status == RelicStatus::Open).count()
}

/// The notice ends with the change, and a later change is another one, also when it is the same.
#[tokio::test(start_paused = true)]
async fn default_branch_that_changes_back_and_again_is_told_again() {
    let city = Scenario::new().rig(|rig| rig.default_branch = None);
    let city = city.start().await;
    let back = Change {
        to: "main".into(),
        ..renamed(false, true)
    };
    for (change, told, waits) in [
        (renamed(false, true), 1, 1),
        (renamed(false, true), 1, 1),
        (back, 1, 0),
        (renamed(false, true), 2, 1),
    ] {
        city.parts.repo.change_default(change);
        let charged = city.charged("a").await;
        city.nuke(&charged.raider, true).await.unwrap();
        let events = city.events(EventType::RigDefaultBranch).await;
        assert_eq!(events.len(), told);
        assert_eq!(open(&city).await, waits, "{told}");
    }
    // A reload that decides nothing leaves the question open.
    city.reload(|city| city.daemon.wisp_gc = None).await;
    assert_eq!(open(&city).await, 1);
    city.reload(|city| city.rigs[0].default_branch = Some("trunk".into()))
        .await;
    assert_eq!(open(&city).await, 0);
}

/// A change that was followed wants nothing of a person but to be known.
#[tokio::test(start_paused = true)]
async fn notice_of_a_default_branch_that_was_followed_ends_with_the_next_reload() {
    let city = Scenario::new().rig(|rig| rig.default_branch = None);
    let city = city.start().await;
    city.parts.repo.change_default(renamed(true, true));
    for title in ["a", "b"] {
        city.worker(title).await;
        assert_eq!(open(&city).await, 1);
    }
    city.reload(|city| city.daemon.wisp_gc = None).await;
    assert_eq!(open(&city).await, 0);
}

/// The configuration was edited while no supervisor read it.
#[tokio::test(start_paused = true)]
async fn start_closes_the_notices_that_the_configuration_decides() {
    let undecided = || Scenario::new().rig(|rig| rig.default_branch = None);
    let removed = || Scenario::new().with(|city| city.rigs.clear());
    for (followed, next, waits) in [
        (false, Scenario::new(), 0),
        (true, Scenario::new(), 0),
        (false, removed(), 0),
        // Nobody has looked at the configuration since.
        (false, undecided(), 1),
        (true, undecided(), 1),
    ] {
        let city = undecided().start().await;
        city.parts.repo.change_default(renamed(followed, true));
        let charged = city.charged("a").await;
        city.nuke(&charged.raider, true).await.unwrap();
        assert_eq!(open(&city).await, 1);
        let clock = Arc::clone(&city.world.clock);
        let city = next.start_on(city.crash().await, clock).await;
        city.pass(Duration::from_secs(31)).await;
        assert_eq!(open(&city).await, waits, "{followed}");
    }
}

#[tokio::test(start_paused = true)]
async fn configured_target_is_never_changed_and_the_remote_is_not_asked() {
    let city = Scenario::new().start().await;
    city.parts.repo.change_default(renamed(true, false));
    let charged = city.charged("a").await;
    assert_eq!(city.hook(&charged.raider).await.unwrap().target, "main");
    assert_eq!(city.parts.repo.count("default_change"), 0);
}

/// A remote that does not tell its HEAD holds up no charge.
#[tokio::test(start_paused = true)]
async fn charge_uses_the_known_default_branch_while_the_remote_does_not_tell_it() {
    let city = Scenario::new()
        .rig(|rig| rig.default_branch = None)
        .start()
        .await;
    city.parts
        .repo
        .fail("default_change", RepoError::Remote("away".into()));
    let charged = city.charged("a").await;
    assert_eq!(city.hook(&charged.raider).await.unwrap().target, "main");
}
