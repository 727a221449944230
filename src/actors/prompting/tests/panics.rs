//! A bug in the task that types a first prompt.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::actors::store::StoreHandle;
use crate::testing::tripwire::Tripwire;
use crate::testing::world::start_clock;

/// A log line of that task, which a store without room brings about.
const HERE: &str = "the escalation about a first prompt could not be stored; it is retried";

#[tokio::test(start_paused = true)]
async fn first_prompt_is_typed_once_although_its_task_panicked() {
    let clock = start_clock();
    let mut parts = Parts::new(&clock);
    let full = Arc::<AtomicBool>::default();
    parts.store = StoreHandle::full_while(&clock, &full);
    let city = Scenario::new().with(knows_its_input);
    let city = city.start_on(parts, clock).await;
    let charged = raider(&city, "What is new").await;
    city.parts.sessions.reads_keys(&charged.session);
    let tripwire = Tripwire::at(HERE);
    full.store(true, Ordering::SeqCst);
    city.pass(60 * SECOND).await;
    assert!(tripwire.is_torn());
    full.store(false, Ordering::SeqCst);
    city.pass(60 * SECOND).await;
    let called = one_call(&city, "").await;
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(city.status(&called.id).await, RelicStatus::Closed);
}

/// A log line of the task, which a session that takes no facts brings about.
const UNWRITTEN: &str = "the store does not accept how much of the first prompt was typed; no more of it is typed \
                         until it does";

/// Each try types it, and a fourth one would again: a person is told instead, also where three patrols are short.
#[tokio::test(start_paused = true)]
async fn person_is_called_when_the_task_of_a_first_prompt_panicked_three_times() {
    for patrol in [5, 30] {
        let city = Scenario::new().with(knows_its_input);
        let city = city.with(move |city| city.daemon.patrol_interval = patrol * SECOND);
        let city = city.start().await;
        let charged = raider(&city, "What is new").await;
        city.parts.sessions.refuse_meta(&charged.session, true);
        let tripwire = Tripwire::times(UNWRITTEN, 3);
        city.parts.sessions.show(&charged.session, Some("> "));
        city.pass(100 * SECOND).await;
        assert!(tripwire.is_torn());
        one_call(&city, "failed by a bug").await;
        assert_eq!(typed(&city, &charged), 3, "{patrol}");
        city.parts.sessions.refuse_meta(&charged.session, false);
        city.pass(100 * SECOND).await;
        assert_eq!(typed(&city, &charged), 3, "{patrol}");
    }
}

/// The report of the third panic panicked as well, and no person was told.
#[tokio::test(start_paused = true)]
async fn person_is_called_although_the_report_of_the_last_panic_panicked() {
    let clock = start_clock();
    let mut parts = Parts::new(&clock);
    let full = Arc::<AtomicBool>::default();
    parts.store = StoreHandle::full_while(&clock, &full);
    let city = Scenario::new().with(knows_its_input);
    let city = city.start_on(parts, clock).await;
    let charged = raider(&city, "What is new").await;
    city.parts.sessions.reads_keys(&charged.session);
    full.store(true, Ordering::SeqCst);
    // The task panics three times where its escalation cannot be stored, and so do the reports of that.
    let tripwire = Tripwire::times(HERE, 6);
    city.pass(300 * SECOND).await;
    full.store(false, Ordering::SeqCst);
    drop(tripwire);
    city.pass(60 * SECOND).await;
    one_call(&city, "failed by a bug").await;
}
