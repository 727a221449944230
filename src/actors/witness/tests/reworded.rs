//! Stories that run twice: as they are, and on a store that rewords every text as soon as it is written. The courses are the
//! same, because no decision is read from a text.

use std::path::PathBuf;
use std::time::Duration;

use crate::actors::refusal::LASTING;
use crate::actors::store::StoreHandle;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::merge::{CheckoutBusy, MergeOutcome};
use crate::domain::relic::{Completion, RelicStatus};
use crate::ports::relics::EventFilter;
use crate::ports::repo::RepoError;
use crate::testing::fake_repo::gate_run;
use crate::testing::world::{Parts, Scenario, TestCity, completion, start_clock};

const PATROL: Duration = Duration::from_secs(31);

/// Returns the course of a story: all events without their data, and the ends of relics and merge requests. The order is
/// that of tasks that run side by side, and does not count. Evidence that is added to an open escalation does not either:
/// it is text for people, and new if its text is new.
async fn course(city: &TestCity) -> Vec<String> {
    let events = city.store(|txn| txn.events(&EventFilter::default())).await;
    let told = events
        .iter()
        .map(|event| format!("{} {} {}", event.kind, event.subject, event.cause));
    let adds_evidence = |told: &String| {
        ["message.sent shaman", "relic.updated esc-"]
            .iter()
            .any(|it| told.starts_with(it))
    };
    let mut course: Vec<String> = told.filter(|told| !adds_evidence(told)).collect();
    course.sort();
    let relics = city.store(|txn| txn.relics(&Default::default())).await;
    let ends = relics.iter();
    course.extend(ends.map(|relic| format!("{} {:?} {:?}", relic.id, relic.status, relic.labels)));
    let mrs = city.store(|txn| txn.mrs(None, false)).await;
    let ends = mrs.iter();
    course.extend(ends.map(|mr| format!("{} {:?} {:?}", mr.id, mr.state, mr.hold)));
    course
}

async fn courses(
    scenario: impl Fn() -> Scenario,
    story: impl AsyncFn(&TestCity),
) -> [Vec<String>; 2] {
    let mut courses = Vec::new();
    for is_reworded in [false, true] {
        let clock = start_clock();
        let mut parts = Parts::new(&clock);
        if is_reworded {
            parts.store = StoreHandle::reworded(&clock);
        }
        let city = scenario().start_on(parts, clock).await;
        story(&city).await;
        courses.push(course(&city).await);
    }
    courses.try_into().unwrap()
}

async fn is_the_same(scenario: impl Fn() -> Scenario, story: impl AsyncFn(&TestCity)) {
    let [plain, reworded] = courses(scenario, story).await;
    assert!(plain.len() > 5, "nothing happened: {plain:?}");
    assert_eq!(plain, reworded);
}

/// The comparison sees a decision that is taken from a text.
#[tokio::test(start_paused = true)]
async fn course_that_depends_on_a_text_differs_in_other_words() {
    let story = async |city: &TestCity| {
        let relic = city.relic("write the documents").await;
        let relic = city.relic_now(&relic).await;
        let cause = match relic.title.contains("documents") {
            true => Cause::Done,
            false => Cause::Stuck,
        };
        let event = NewEvent::new(EventType::RelicUpdated, &relic.id, cause);
        city.store(move |txn| txn.record(&event)).await;
    };
    let [plain, reworded] = courses(Scenario::new, story).await;
    assert_ne!(plain, reworded);
}

#[tokio::test(start_paused = true)]
async fn landing_has_the_same_course_in_other_words() {
    is_the_same(
        || Scenario::new().gate("test"),
        async |city| {
            let charged = city.worker("add the parser").await;
            city.completed(&charged.raider).await.unwrap();
            city.pass(PATROL * 2).await;
            assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn rework_after_a_conflict_and_a_red_gate_has_the_same_course_in_other_words() {
    is_the_same(
        || {
            let scenario = Scenario::new().gate("test");
            scenario.rig(|rig| rig.raiders.auto_charge = true)
        },
        async |city| {
            let conflict = MergeOutcome::Conflict(vec!["src/parser.rs".into()]);
            city.parts.repo.script_merge(conflict);
            city.parts.repo.script_gate("test", gate_run(Some(1)));
            let relic = city.relic("add the parser").await;
            for _ in 0..3 {
                city.pass(PATROL * 3).await;
                let hooks = city.store(|txn| txn.hooks(None)).await;
                for hook in hooks.iter().filter(|hook| hook.done.is_none()) {
                    city.parts.repo.commit(&hook.raider.name);
                    city.completed(&hook.raider).await.unwrap();
                }
            }
            city.pass(PATROL * 3).await;
            assert_eq!(city.status(&relic).await, RelicStatus::Closed);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_checkout_and_a_remote_have_the_same_course_in_other_words() {
    let busy = || RepoError::CheckoutBusy {
        path: PathBuf::from("/home/ada/the project"),
        why: CheckoutBusy::Underway("a rebase".into()),
    };
    is_the_same(Scenario::new, async move |city| {
        city.parts.repo.break_op("checkout_free", busy());
        let charged = city.worker("add the parser").await;
        city.completed(&charged.raider).await.unwrap();
        city.pass(Duration::from_secs(600)).await;
        city.parts.repo.mend("checkout_free");
        city.pass(PATROL * 3).await;
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
        let away = RepoError::Remote("permission denied by the host".into());
        city.parts.repo.break_op("push_branch", away);
        let charged = city.worker("write the documents").await;
        city.completed(&charged.raider).await.unwrap();
        city.pass(LASTING * 2).await;
        city.parts.repo.mend("push_branch");
        city.pass(PATROL * 3).await;
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn work_that_cannot_be_saved_or_finished_has_the_same_course_in_other_words() {
    is_the_same(Scenario::new, async |city| {
        let charged = city.worker("add the parser").await;
        city.parts
            .repo
            .dirty(&charged.raider.name, "notes of mine.txt");
        city.nuke(&charged.raider, false).await.unwrap_err();
        let broken = RepoError::Failed("the index is damaged".into());
        city.parts.repo.break_op("salvage", broken);
        city.nuke(&charged.raider, true).await.unwrap_err();
        city.pass(PATROL * 4).await;
        city.parts.repo.mend("salvage");
        city.nuke(&charged.raider, true).await.unwrap();
        city.pass(PATROL * 2).await;
        let charged = city.worker("write the documents").await;
        let mut stuck = completion(&charged.raider);
        (stuck.exit, stuck.reason) = (
            Completion::Escalated,
            Some("no test says what is right".into()),
        );
        city.done(stuck).await.unwrap();
        city.pass(PATROL * 4).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn deaths_and_their_quarantine_have_the_same_course_in_other_words() {
    is_the_same(Scenario::new, async |city| {
        let charged = city.worker("add the parser").await;
        for _ in 0..12 {
            if city.runs(&charged.session) {
                city.parts.sessions.print(&charged.session, "no such model");
                city.parts.sessions.exit(&charged.session, 1);
            }
            city.pass(PATROL).await;
        }
        city.pass_hours(Duration::from_secs(2 * 3600)).await;
    })
    .await;
}
