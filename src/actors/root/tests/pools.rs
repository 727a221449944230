//! Pools: grow at once, drain in their own time.

use crate::actors::mail::RootMail;
use std::time::Duration;

use crate::actors::claims::ClaimKey;
use crate::actors::mail::ChildState;
use crate::actors::{accounts, ask};
use crate::domain::account::{Trouble, Why};
use crate::domain::cause::Cause;
use crate::domain::city::{Pool, RestartType};
use crate::domain::event::EventType;
use crate::domain::ids::{HarnessName, SessionId};
use crate::domain::prompt::PoolNotice;
use crate::domain::restart::History;
use crate::ports::sessions::Input;
use crate::testing::world::{Scenario, Town, agent, asking};

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

fn member(town: &Town, number: u32) -> SessionId {
    town.session(&agent(&format!("worker-{number}")))
}

fn running(town: &Town) -> Vec<u32> {
    (1..=5).filter(|n| town.runs(&member(town, *n))).collect()
}

#[tokio::test(start_paused = true)]
async fn without_a_check_there_are_as_many_as_min() {
    let town = pool(None).start().await;
    town.pass(SECOND * 60).await;
    assert_eq!(running(&town), [1]);
    assert!(
        !town.runs(&town.session(&agent("worker"))),
        "nobody has the plain name"
    );
}

/// `check` prints the wanted size; more than `max` is `max`; a failing check means `min`.
#[tokio::test(start_paused = true)]
async fn the_check_decides_within_bounds() {
    let town = pool(Some(CHECK));
    let clock = town.start().await;
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
    let town = pool(Some(CHECK)).start().await;
    town.parts.runner.set_output(CHECK, "3");
    town.pass(SECOND * 6).await;
    let starts = |town: &Town| {
        (1..=3)
            .map(|n| town.starts(&member(town, n)))
            .sum::<usize>()
    };
    assert_eq!(starts(&town), 3);
    town.parts.runner.set_output(CHECK, "1");
    town.pass(SECOND * 6).await;
    assert_eq!(running(&town), [1, 2, 3], "they have their time");
    let draining = town.view(&agent("worker-3")).await.unwrap().draining;
    assert!(draining);
    town.parts.runner.set_output(CHECK, "3");
    town.pass(SECOND * 40).await;
    assert_eq!(
        (running(&town), starts(&town)),
        (vec![1, 2, 3], 3),
        "nobody was ended"
    );
    town.parts.runner.set_output(CHECK, "2");
    town.pass(SECOND * 6).await;
    let id = agent("worker-3");
    town.send_to_root(RootMail::DrainDue { id, drain: None })
        .unwrap();
    town.pass(SECOND).await;
    assert_eq!(running(&town), [1, 2], "it said that it is finished");
    town.parts.runner.set_output(CHECK, "1");
    town.pass(SECOND * 6).await;
    town.parts.sessions.exit(&member(&town, 2), 0);
    town.pass(SECOND * 60).await;
    assert_eq!(running(&town), [1], "it is not started again");
    assert_eq!(town.events(EventType::AgentDrained).await.len(), 2);
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
}

/// Raising a pool's max keeps every session; lowering it drains.
#[tokio::test(start_paused = true)]
async fn the_bounds_are_applied_live() {
    let town = pool(Some(CHECK)).start().await;
    town.parts.runner.set_output(CHECK, "9");
    town.pass(SECOND * 6).await;
    let bound = |max| {
        move |city: &mut crate::domain::city::City| {
            if let Some(pool) = &mut city.agents[0].pool {
                pool.max = max;
            }
        }
    };
    town.reload(bound(4)).await;
    assert_eq!(running(&town), [1, 2, 3, 4]);
    assert!((1..=4).all(|n| town.starts(&member(&town, n)) == 1));
    town.reload(bound(1)).await;
    town.pass(SECOND * 30).await;
    assert_eq!(running(&town).len(), 1);
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
    let town = pool(None).start().await;
    town.reload(min(3)).await;
    assert_eq!(running(&town), [1, 2, 3]);
    town.reload(min(1)).await;
    town.pass(SECOND * 30).await;
    assert_eq!(running(&town).len(), 1);
}

/// A draining member that ends needs no fresh session.
#[tokio::test(start_paused = true)]
async fn a_draining_member_that_is_cycled_is_gone() {
    let town = pool(Some(CHECK)).start().await;
    town.parts.runner.set_output(CHECK, "2");
    town.pass(SECOND * 6).await;
    town.parts.runner.set_output(CHECK, "1");
    town.pass(SECOND * 6).await;
    let id = agent("worker-2");
    assert!(town.view(&id).await.unwrap().draining);
    ask::cycle(&town.world, id, Cause::Operator).await.unwrap();
    town.pass(SECOND).await;
    assert_eq!(running(&town), [1]);
    assert_eq!(town.events(EventType::AgentDrained).await.len(), 1);
}

/// A pool that was removed and came back is asked at its own pace, not at both.
#[tokio::test(start_paused = true)]
async fn a_pool_that_came_back_is_asked_once_at_a_time() {
    let town = pool(Some(CHECK)).start().await;
    town.parts.runner.set_output(CHECK, "1");
    town.pass(SECOND * 6).await;
    let agents = town.world.newest().city.agents.clone();
    town.reload(|city| city.agents.clear()).await;
    town.reload(move |city| city.agents = agents).await;
    let before = town.parts.runner.started(CHECK).len();
    town.pass(SECOND * 51).await;
    let asked = town.parts.runner.started(CHECK).len() - before;
    assert!((10..=11).contains(&asked), "{asked}");
}

/// A restarted daemon drains no member before it knows the wanted size.
#[tokio::test(start_paused = true)]
async fn after_a_restart_members_are_kept_until_the_check_has_come_back() {
    let town = pool(Some(CHECK)).start().await;
    town.parts.runner.set_output(CHECK, "3");
    town.pass(SECOND * 6).await;
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    parts.runner.let_go(CHECK, SECOND * 2, 0);
    let town = pool(Some(CHECK)).start_on(parts, clock).await;
    assert_eq!(running(&town), [1, 2, 3]);
    town.pass(SECOND * 60).await;
    assert_eq!(running(&town), [1, 2, 3]);
    assert!((1..=3).all(|n| town.starts(&member(&town, n)) == 1));
}

/// A draining member may be busy: it is told once, in prose, if its program reads prose.
#[tokio::test(start_paused = true)]
async fn a_draining_member_is_told_if_it_has_a_harness() {
    for driven in [true, false] {
        let harness = driven.then(|| HarnessName::new("claude").unwrap());
        let town = pool(Some(CHECK)).with(|city| city.agents[0].harness = harness);
        let town = town.start().await;
        town.parts.runner.set_output(CHECK, "2");
        town.pass(SECOND * 6).await;
        let told = |n| town.parts.sessions.sent(&member(&town, n));
        assert_eq!([told(1), told(2)], [[], []], "nobody drains yet");
        town.parts.runner.set_output(CHECK, "1");
        town.pass(SECOND * 11).await;
        assert!(town.view(&agent("worker-2")).await.unwrap().draining);
        let words = Input::Submit(PoolNotice::Leave.text(&town.world.hd()));
        let expected = if driven { vec![words] } else { Vec::new() };
        assert_eq!((told(1), told(2)), (Vec::new(), expected));
        // Needed again: the member that was told to end is told so.
        town.parts.runner.set_output(CHECK, "2");
        town.pass(SECOND * 6).await;
        let last = Input::Submit(PoolNotice::Stay.text(&town.world.hd()));
        assert_eq!(told(2).pop(), driven.then_some(last));
        assert_eq!(told(2).len(), if driven { 2 } else { 0 });
    }
}

/// Nothing is typed into the sessions of an account at its limit.
#[tokio::test(start_paused = true)]
async fn draining_member_is_told_when_its_account_is_open_again() {
    let harness = HarnessName::new("script").unwrap();
    let named = harness.clone();
    let town = pool(Some(CHECK)).with(move |city| {
        let member = &mut city.agents[0];
        member.harness = Some(named.clone());
        let pool = member.pool.as_mut().unwrap();
        pool.drain_timeout = SECOND * 3600;
    });
    let town = town.start().await;
    town.parts.runner.set_output(CHECK, "2");
    town.pass(SECOND * 6).await;
    let trouble = Trouble {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: town.world.clock.now().checked_add(SECOND * 120).ok(),
        fresh: true,
    };
    accounts::report_trouble(&town.world, &agent("worker-1"), &harness, trouble);
    town.parts.runner.set_output(CHECK, "1");
    town.pass(SECOND * 60).await;
    assert!(town.view(&agent("worker-2")).await.unwrap().draining);
    assert!(town.parts.sessions.sent(&member(&town, 2)).is_empty());
    town.pass(SECOND * 180).await;
    let sent = town.parts.sessions.sent(&member(&town, 2));
    let words = Input::Submit(PoolNotice::Leave.text(&town.world.hd()));
    assert_eq!(sent, [words]);
}

/// Other text was being typed for too long.
#[tokio::test(start_paused = true)]
async fn draining_member_is_told_again_when_the_words_were_refused() {
    let harness = HarnessName::new("script").unwrap();
    let town = pool(Some(CHECK)).with(move |city| {
        let member = &mut city.agents[0];
        member.harness = Some(harness.clone());
        let pool = member.pool.as_mut().unwrap();
        pool.drain_timeout = SECOND * 3600;
    });
    let town = town.start().await;
    town.parts.runner.set_output(CHECK, "2");
    town.pass(SECOND * 6).await;
    let session = town.view(&agent("worker-2")).await.unwrap().session;
    let other = ClaimKey::Typing(session.unwrap().handle.token);
    let other = town.world.claims.claim(other).unwrap();
    town.parts.runner.set_output(CHECK, "1");
    town.pass(SECOND * 60).await;
    drop(other);
    town.pass(SECOND * 60).await;
    let sent = town.parts.sessions.sent(&member(&town, 2));
    let words = Input::Submit(PoolNotice::Leave.text(&town.world.hd()));
    assert_eq!(sent, [words]);
}

/// Failure counters belong to the agent: shrinking and growing a pool clears none.
#[tokio::test(start_paused = true)]
async fn a_member_that_crashes_is_not_pardoned_by_a_pool_that_goes_up_and_down() {
    for history in [History::Memory, History::Persistent] {
        let town = pool(Some(CHECK)).with(|city| city.daemon.restart.history = history);
        let town = town.start().await;
        let (second, id) = (member(&town, 2), agent("worker-2"));
        for _ in 0..20 {
            town.parts.runner.set_output(CHECK, "2");
            town.pass(SECOND * 6).await;
            if town.runs(&second) {
                town.parts.sessions.crash(&second, 9);
            }
            town.parts.runner.set_output(CHECK, "1");
            town.pass(SECOND * 6).await;
        }
        assert_eq!(town.starts(&second), 6, "max_restarts and the first");
        town.parts.runner.set_output(CHECK, "2");
        town.pass(SECOND * 6).await;
        assert_eq!(town.state(&id).await, Some(ChildState::Quarantined));
    }
}

/// The last good answer stays in force during the next check, whatever its result.
#[tokio::test(start_paused = true)]
async fn a_slow_check_changes_nothing_until_it_has_come_back() {
    let town = pool(Some(CHECK)).start().await;
    town.parts.runner.set_output(CHECK, "2");
    town.pass(SECOND * 6).await;
    assert_eq!(running(&town), [1, 2]);
    let asked = town.parts.runner.started(CHECK).len();
    town.parts.runner.let_go(CHECK, SECOND * 4, 1);
    let draining = async || town.view(&agent("worker-2")).await.unwrap().draining;
    while town.parts.runner.started(CHECK).len() == asked {
        town.pass(SECOND).await;
    }
    town.pass(SECOND * 2).await;
    assert!(!draining().await);
    town.pass(SECOND * 3).await;
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
    let town = scenario.start().await;
    town.parts.runner.set_output(CHECK, "2");
    town.pass(SECOND * 3600).await;
    assert_eq!(running(&town), [1, 2]);
    town.parts.runner.set_output(CHECK, "3");
    town.reload(|city| {
        if let Some(pool) = &mut city.agents[0].pool {
            pool.check_interval = SECOND * 5;
        }
    })
    .await;
    town.pass(SECOND * 6).await;
    assert_eq!(running(&town), [1, 2, 3]);
}

/// The view of a pool explains its size: the answer of its check, its time, and its error.
#[tokio::test(start_paused = true)]
async fn a_pool_says_why_it_has_its_size() {
    let town = pool(Some(CHECK)).start().await;
    let view = async || ask::pools(&town.world).await.unwrap().remove(0);
    town.parts.runner.set_output(CHECK, "9");
    town.pass(SECOND * 6).await;
    let sized = view().await;
    assert_eq!((sized.wanted, sized.failed), (Some(3), None));
    let first = sized.checked.unwrap();
    town.parts.runner.let_go(CHECK, Duration::ZERO, 1);
    town.pass(SECOND * 6).await;
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
        let town = pool(Some(CHECK)).with(|city| {
            asking(city);
            city.agents[0].harness = city.harnesses.keys().next().cloned();
            city.agents[0].pool.as_mut().unwrap().drain_timeout = SECOND * 600;
        });
        let town = town.start().await;
        town.parts.runner.set_output(CHECK, "2");
        town.pass(SECOND * 6).await;
        let second = member(&town, 2);
        let busy = |busy: bool| match attached {
            true => town.parts.sessions.set_attached(&second, busy),
            false => {
                let screen = if busy { "Delete it?\n> yes" } else { "" };
                town.parts.sessions.show(&second, Some(screen));
                town.parts.sessions.print(&second, "");
                // The least busy drain.
                town.parts.sessions.print(&member(&town, 1), "");
            }
        };
        let told = || town.parts.sessions.sent(&second);
        busy(true);
        town.parts.runner.set_output(CHECK, "1");
        town.pass(SECOND * 61).await;
        assert!(town.view(&agent("worker-2")).await.unwrap().draining);
        assert_eq!(told(), [], "attached: {attached}");
        town.parts.runner.set_output(CHECK, "2");
        town.pass(SECOND * 6).await;
        town.parts.runner.set_output(CHECK, "1");
        town.pass(SECOND * 6).await;
        busy(false);
        town.pass(SECOND * 61).await;
        assert_eq!(
            told(),
            [Input::Submit(PoolNotice::Leave.text(&town.world.hd()))]
        );
    }
}
