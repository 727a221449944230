//! Pools: grow at once, drain in their own time.

use crate::actors::mail::RootMail;
use std::time::Duration;

use crate::actors::claims::ClaimKey;
use crate::actors::mail::ChildState;
use crate::actors::{accounts, ask};
use crate::domain::account::{AccountReport, Why};
use crate::domain::cause::Cause;
use crate::domain::city::{Pool, RestartType};
use crate::domain::event::EventType;
use crate::domain::ids::{HarnessName, SessionId};
use crate::domain::prompt::PoolNotice;
use crate::domain::restart::History;
use crate::ports::sessions::Input;
use crate::testing::world::{Scenario, TestCity, agent, asking};

const SECOND: Duration = Duration::from_secs(1);
const CHECK: &str = "wc -l < queue";

fn pool(check: Option<&str>) -> Scenario {
    let check = check.map(str::to_owned);
    Scenario::new()
        .agent("worker", RestartType::Permanent)
        .with(|city| {
            city.agents[0].pool = Some(Pool {
                min: 1,
                max: 3,
                check,
                check_interval: SECOND * 5,
                drain_timeout: SECOND * 20,
            });
        })
}

fn member(city: &TestCity, number: u32) -> SessionId {
    city.session(&agent(&format!("worker-{number}")))
}

fn running(city: &TestCity) -> Vec<u32> {
    (1..=5).filter(|n| city.runs(&member(city, *n))).collect()
}

#[tokio::test(start_paused = true)]
async fn without_a_check_there_are_as_many_as_min() {
    let city = pool(None).start().await;
    city.pass(SECOND * 60).await;
    assert_eq!(running(&city), [1]);
    assert!(
        !city.runs(&city.session(&agent("worker"))),
        "no member has the plain name"
    );
}

/// `check` prints the wanted size; more than `max` is `max`; a failing check means `min`.
#[tokio::test(start_paused = true)]
async fn the_check_decides_within_bounds() {
    let city = pool(Some(CHECK));
    let clock = city.start().await;
    let runner = &clock.parts.runner;
    runner.set_output(CHECK, "2\n");
    clock.pass(SECOND * 6).await;
    assert_eq!(running(&clock), [1, 2]);
    runner.set_output(CHECK, "9\n");
    clock.pass(SECOND * 6).await;
    assert_eq!(running(&clock), [1, 2, 3]);
    runner.let_go(CHECK, Duration::ZERO, 1);
    clock.pass(SECOND * 60).await;
    assert_eq!(running(&clock).len(), 1);
}

/// A member that is not needed gets time, stays when it is needed again, and may end earlier.
#[tokio::test(start_paused = true)]
async fn a_member_drains_in_its_own_time() {
    let city = pool(Some(CHECK)).start().await;
    city.parts.runner.set_output(CHECK, "3");
    city.pass(SECOND * 6).await;
    let starts = |city: &TestCity| {
        (1..=3)
            .map(|n| city.starts(&member(city, n)))
            .sum::<usize>()
    };
    assert_eq!(starts(&city), 3);
    city.parts.runner.set_output(CHECK, "1");
    city.pass(SECOND * 6).await;
    assert_eq!(running(&city), [1, 2, 3], "they have their time");
    let draining = city.view(&agent("worker-3")).await.unwrap().draining;
    assert!(draining);
    city.parts.runner.set_output(CHECK, "3");
    city.pass(SECOND * 40).await;
    assert_eq!(
        (running(&city), starts(&city)),
        (vec![1, 2, 3], 3),
        "no session was ended"
    );
    city.parts.runner.set_output(CHECK, "2");
    city.pass(SECOND * 6).await;
    let id = agent("worker-3");
    city.send_to_root(RootMail::DrainDue { id, drain: None })
        .unwrap();
    city.pass(SECOND).await;
    assert_eq!(running(&city), [1, 2], "it said that it is finished");
    city.parts.runner.set_output(CHECK, "1");
    city.pass(SECOND * 6).await;
    city.parts.sessions.exit(&member(&city, 2), 0);
    city.pass(SECOND * 60).await;
    assert_eq!(running(&city), [1], "it is not started again");
    assert_eq!(city.events(EventType::AgentDrained).await.len(), 2);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
}

/// Raising a pool's max keeps every session; lowering it drains.
#[tokio::test(start_paused = true)]
async fn the_bounds_are_applied_live() {
    let city = pool(Some(CHECK)).start().await;
    city.parts.runner.set_output(CHECK, "9");
    city.pass(SECOND * 6).await;
    let bound = |max| {
        move |city: &mut crate::domain::city::City| {
            if let Some(pool) = &mut city.agents[0].pool {
                pool.max = max;
            }
        }
    };
    city.reload(bound(4)).await;
    assert_eq!(running(&city), [1, 2, 3, 4]);
    assert!((1..=4).all(|n| city.starts(&member(&city, n)) == 1));
    city.reload(bound(1)).await;
    city.pass(SECOND * 30).await;
    assert_eq!(running(&city).len(), 1);
}

/// Applies without a check, and downwards, too.
#[tokio::test(start_paused = true)]
async fn a_lower_min_without_a_check_is_applied_live() {
    let min = |min| {
        move |city: &mut crate::domain::city::City| {
            if let Some(pool) = &mut city.agents[0].pool {
                pool.min = min;
            }
        }
    };
    let city = pool(None).start().await;
    city.reload(min(3)).await;
    assert_eq!(running(&city), [1, 2, 3]);
    city.reload(min(1)).await;
    city.pass(SECOND * 30).await;
    assert_eq!(running(&city).len(), 1);
}

/// A draining member that ends needs no fresh session.
#[tokio::test(start_paused = true)]
async fn a_draining_member_that_is_cycled_is_gone() {
    let city = pool(Some(CHECK)).start().await;
    city.parts.runner.set_output(CHECK, "2");
    city.pass(SECOND * 6).await;
    city.parts.runner.set_output(CHECK, "1");
    city.pass(SECOND * 6).await;
    let id = agent("worker-2");
    assert!(city.view(&id).await.unwrap().draining);
    ask::cycle(&city.world, id, Cause::Operator).await.unwrap();
    city.pass(SECOND).await;
    assert_eq!(running(&city), [1]);
    assert_eq!(city.events(EventType::AgentDrained).await.len(), 1);
}

/// A pool that was removed and came back is asked at its own pace, not at both.
#[tokio::test(start_paused = true)]
async fn a_pool_that_came_back_is_asked_once_at_a_time() {
    let city = pool(Some(CHECK)).start().await;
    city.parts.runner.set_output(CHECK, "1");
    city.pass(SECOND * 6).await;
    let agents = city.world.newest().city.agents.clone();
    city.reload(|city| city.agents.clear()).await;
    city.reload(move |city| city.agents = agents).await;
    let before = city.parts.runner.started(CHECK).len();
    city.pass(SECOND * 51).await;
    let asked = city.parts.runner.started(CHECK).len() - before;
    assert!((10..=11).contains(&asked), "{asked}");
}

/// A restarted daemon drains no member before it knows the wanted size.
#[tokio::test(start_paused = true)]
async fn after_a_restart_members_are_kept_until_the_check_has_come_back() {
    let city = pool(Some(CHECK)).start().await;
    city.parts.runner.set_output(CHECK, "3");
    city.pass(SECOND * 6).await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.runner.let_go(CHECK, SECOND * 2, 0);
    let city = pool(Some(CHECK)).start_on(parts, clock).await;
    assert_eq!(running(&city), [1, 2, 3]);
    city.pass(SECOND * 60).await;
    assert_eq!(running(&city), [1, 2, 3]);
    assert!((1..=3).all(|n| city.starts(&member(&city, n)) == 1));
}

/// A draining member may be busy: it is told once, in prose, if its program reads prose.
#[tokio::test(start_paused = true)]
async fn a_draining_member_is_told_if_it_has_a_harness() {
    for driven in [true, false] {
        let harness = driven.then(|| HarnessName::new("claude").unwrap());
        let city = pool(Some(CHECK)).with(|city| city.agents[0].harness = harness);
        let city = city.start().await;
        city.parts.runner.set_output(CHECK, "2");
        city.pass(SECOND * 6).await;
        let told = |n| city.parts.sessions.sent(&member(&city, n));
        assert_eq!([told(1), told(2)], [[], []], "no member drains yet");
        city.parts.runner.set_output(CHECK, "1");
        city.pass(SECOND * 11).await;
        assert!(city.view(&agent("worker-2")).await.unwrap().draining);
        let words = Input::Submit(PoolNotice::Leave.text(&city.world.hd()));
        let expected = if driven { vec![words] } else { Vec::new() };
        assert_eq!((told(1), told(2)), (Vec::new(), expected));
        // Needed again: the member that was told to end is told so.
        city.parts.runner.set_output(CHECK, "2");
        city.pass(SECOND * 6).await;
        let last = Input::Submit(PoolNotice::Stay.text(&city.world.hd()));
        assert_eq!(told(2).pop(), driven.then_some(last));
        assert_eq!(told(2).len(), if driven { 2 } else { 0 });
    }
}

/// Nothing is typed into the sessions of an account at its limit.
#[tokio::test(start_paused = true)]
async fn draining_member_is_told_when_its_account_is_open_again() {
    let harness = HarnessName::new("script").unwrap();
    let named = harness.clone();
    let city = pool(Some(CHECK)).with(move |city| {
        let member = &mut city.agents[0];
        member.harness = Some(named.clone());
        let pool = member.pool.as_mut().unwrap();
        pool.drain_timeout = SECOND * 3600;
    });
    let city = city.start().await;
    city.parts.runner.set_output(CHECK, "2");
    city.pass(SECOND * 6).await;
    let trouble = AccountReport {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: city.world.clock.now().checked_add(SECOND * 120).ok(),
        fresh: true,
    };
    accounts::report_trouble(&city.world, &agent("worker-1"), &harness, trouble);
    city.parts.runner.set_output(CHECK, "1");
    city.pass(SECOND * 60).await;
    assert!(city.view(&agent("worker-2")).await.unwrap().draining);
    assert!(city.parts.sessions.sent(&member(&city, 2)).is_empty());
    city.pass(SECOND * 180).await;
    let sent = city.parts.sessions.sent(&member(&city, 2));
    let words = Input::Submit(PoolNotice::Leave.text(&city.world.hd()));
    assert_eq!(sent, [words]);
}

/// Other text was being typed for too long.
#[tokio::test(start_paused = true)]
async fn draining_member_is_told_again_when_the_words_were_refused() {
    let harness = HarnessName::new("script").unwrap();
    let city = pool(Some(CHECK)).with(move |city| {
        let member = &mut city.agents[0];
        member.harness = Some(harness.clone());
        let pool = member.pool.as_mut().unwrap();
        pool.drain_timeout = SECOND * 3600;
    });
    let city = city.start().await;
    city.parts.runner.set_output(CHECK, "2");
    city.pass(SECOND * 6).await;
    let session = city.view(&agent("worker-2")).await.unwrap().session;
    let other = ClaimKey::Typing(session.unwrap().handle.token);
    let other = city.world.claims.claim(other).unwrap();
    city.parts.runner.set_output(CHECK, "1");
    city.pass(SECOND * 60).await;
    drop(other);
    city.pass(SECOND * 60).await;
    let sent = city.parts.sessions.sent(&member(&city, 2));
    let words = Input::Submit(PoolNotice::Leave.text(&city.world.hd()));
    assert_eq!(sent, [words]);
}

/// Failure counters belong to the agent: shrinking and growing a pool clears none.
#[tokio::test(start_paused = true)]
async fn a_member_that_crashes_is_not_pardoned_by_a_pool_that_goes_up_and_down() {
    for history in [History::Memory, History::Persistent] {
        let city = pool(Some(CHECK)).with(|city| city.daemon.restart.history = history);
        let city = city.start().await;
        let (second, id) = (member(&city, 2), agent("worker-2"));
        for _ in 0..20 {
            city.parts.runner.set_output(CHECK, "2");
            city.pass(SECOND * 6).await;
            if city.runs(&second) {
                city.parts.sessions.crash(&second, 9);
            }
            city.parts.runner.set_output(CHECK, "1");
            city.pass(SECOND * 6).await;
        }
        assert_eq!(city.starts(&second), 6, "max_restarts and the first");
        city.parts.runner.set_output(CHECK, "2");
        city.pass(SECOND * 6).await;
        assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    }
}

/// The last good answer stays in force during the next check, whatever its result.
#[tokio::test(start_paused = true)]
async fn a_slow_check_changes_nothing_until_it_has_come_back() {
    let city = pool(Some(CHECK)).start().await;
    city.parts.runner.set_output(CHECK, "2");
    city.pass(SECOND * 6).await;
    assert_eq!(running(&city), [1, 2]);
    let asked = city.parts.runner.started(CHECK).len();
    city.parts.runner.let_go(CHECK, SECOND * 4, 1);
    let draining = async || city.view(&agent("worker-2")).await.unwrap().draining;
    while city.parts.runner.started(CHECK).len() == asked {
        city.pass(SECOND).await;
    }
    city.pass(SECOND * 2).await;
    assert!(!draining().await);
    city.pass(SECOND * 3).await;
    assert!(draining().await, "it failed: `min`");
}

/// A new `check_interval` applies at once, and the known answer stays until the next.
#[tokio::test(start_paused = true)]
async fn a_pool_is_asked_at_its_new_pace() {
    let scenario = pool(Some(CHECK)).with(|city| {
        if let Some(pool) = &mut city.agents[0].pool {
            pool.check_interval = SECOND * 3600;
        }
    });
    let city = scenario.start().await;
    city.parts.runner.set_output(CHECK, "2");
    city.pass(SECOND * 3600).await;
    assert_eq!(running(&city), [1, 2]);
    city.parts.runner.set_output(CHECK, "3");
    city.reload(|city| {
        if let Some(pool) = &mut city.agents[0].pool {
            pool.check_interval = SECOND * 5;
        }
    })
    .await;
    city.pass(SECOND * 6).await;
    assert_eq!(running(&city), [1, 2, 3]);
}

/// The view of a pool explains its size: the answer of its check, its time, and its error.
#[tokio::test(start_paused = true)]
async fn a_pool_says_why_it_has_its_size() {
    let city = pool(Some(CHECK)).start().await;
    let view = async || ask::pools(&city.world).await.unwrap().remove(0);
    city.parts.runner.set_output(CHECK, "9");
    city.pass(SECOND * 6).await;
    let sized = view().await;
    assert_eq!((sized.wanted, sized.failed), (Some(3), None));
    let first = sized.checked.unwrap();
    city.parts.runner.let_go(CHECK, Duration::ZERO, 1);
    city.pass(SECOND * 6).await;
    let failed = view().await;
    assert_eq!(failed.wanted, Some(1));
    assert!(failed.failed.unwrap().starts_with("it failed"));
    assert!(failed.checked.unwrap() > first);
}

/// A return would answer the dialog: a draining member is told when the dialog has closed, and a member that is needed
/// again before that is told nothing.
#[tokio::test(start_paused = true)]
async fn no_input_into_an_open_question_or_under_a_persons_hands() {
    for attached in [true, false] {
        let city = pool(Some(CHECK)).with(|city| {
            asking(city);
            city.agents[0].harness = city.harnesses.keys().next().cloned();
            city.agents[0].pool.as_mut().unwrap().drain_timeout = SECOND * 600;
        });
        let city = city.start().await;
        city.parts.runner.set_output(CHECK, "2");
        city.pass(SECOND * 6).await;
        let second = member(&city, 2);
        let busy = |busy: bool| match attached {
            true => city.parts.sessions.set_attached(&second, busy),
            false => {
                let screen = if busy { "Delete it?\n> yes" } else { "" };
                city.parts.sessions.show(&second, Some(screen));
                city.parts.sessions.print(&second, "");
                // The least busy drain.
                city.parts.sessions.print(&member(&city, 1), "");
            }
        };
        let told = || city.parts.sessions.sent(&second);
        busy(true);
        city.parts.runner.set_output(CHECK, "1");
        city.pass(SECOND * 61).await;
        assert!(city.view(&agent("worker-2")).await.unwrap().draining);
        assert_eq!(told(), [], "attached: {attached}");
        city.parts.runner.set_output(CHECK, "2");
        city.pass(SECOND * 6).await;
        city.parts.runner.set_output(CHECK, "1");
        city.pass(SECOND * 6).await;
        busy(false);
        city.pass(SECOND * 61).await;
        assert_eq!(
            told(),
            [Input::Submit(PoolNotice::Leave.text(&city.world.hd()))]
        );
    }
}
