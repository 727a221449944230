//! OTP's restart strategies, on groups of agents.

use crate::actors::mail::RootMail;
use std::time::Duration;

use crate::actors::accounts;
use crate::actors::mail::ChildState;
use crate::domain::account::{AccountReport, Why};
use crate::domain::asker::Asker;
use crate::domain::city::{Group, RestartType, Strategy};
use crate::domain::event::EventType;
use crate::domain::ids::{AgentName, HarnessName, SessionId};
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);
const NAMES: [&str; 3] = ["a", "b", "c"];

fn group(strategy: Strategy) -> Scenario {
    let agents = NAMES.iter().fold(Scenario::new(), |scenario, name| {
        scenario.agent(name, RestartType::Permanent)
    });
    agents.with(|city| {
        city.groups = vec![Group {
            name: "three".into(),
            strategy,
            members: NAMES.map(|name| AgentName::new(name).unwrap()).to_vec(),
        }];
    })
}

fn sessions(city: &TestCity) -> [SessionId; 3] {
    NAMES.map(|name| city.session(&agent(name)))
}

fn counts(city: &TestCity) -> [usize; 3] {
    sessions(city).map(|id| city.starts(&id))
}

/// OTP supervisor_SUITE, one_for_one, one_for_all and rest_for_one: the members that restart with `b`.
#[tokio::test(start_paused = true)]
async fn group_strategy_decides_which_members_restart() {
    let table = [
        (Strategy::OneForOne, [1, 2, 1]),
        (Strategy::OneForAll, [2, 2, 2]),
        (Strategy::RestForOne, [1, 2, 2]),
    ];
    for (strategy, after) in table {
        let city = group(strategy).start().await;
        city.parts.sessions.crash(&sessions(&city)[1], 9);
        city.pass(SECOND).await;
        assert_eq!(counts(&city), after, "{strategy:?}");
        assert!(sessions(&city).iter().all(|id| city.runs(id)));
        let deaths = city.view(&agent("b")).await.unwrap().restarts;
        assert_eq!(deaths, 1);
        let innocent = city.view(&agent("c")).await.unwrap().restarts;
        assert_eq!(innocent, 0, "only the dead one's death counts");
    }
}

/// Siblings end in the reverse order of their start, and start in order.
#[tokio::test(start_paused = true)]
async fn the_others_end_last_first_and_start_first_first() {
    let city = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&city);
    let before = city.parts.sessions.starts().len();
    city.parts.sessions.crash(&b, 9);
    city.pass(SECOND).await;
    let stops: Vec<_> = city
        .parts
        .sessions
        .stops()
        .into_iter()
        .map(|(h, _)| h.id)
        .collect();
    assert_eq!(stops, [c.clone(), a.clone()]);
    let starts: Vec<_> = city
        .parts
        .sessions
        .starts()
        .into_iter()
        .map(|s| s.id)
        .collect();
    assert_eq!(starts[before..], [a, b, c]);
}

/// OTP: a resting child is not restarted with the others; a temporary child never is.
#[tokio::test(start_paused = true)]
async fn resting_member_is_not_started_by_its_group() {
    let city = group(Strategy::OneForAll);
    let city = city.with(|city| city.agents[2].restart = RestartType::Temporary);
    let city = city.start().await;
    let [a, b, _] = sessions(&city);
    city.rest(&agent("a")).await.unwrap();
    city.parts.sessions.crash(&b, 9);
    city.pass(SECOND).await;
    assert!(!city.runs(&a));
    assert_eq!(counts(&city), [1, 2, 1]);
    assert_eq!(city.state(&agent("c")).await, Some(ChildState::Stopped));
}

/// Makes the member die once too often, a minute apart.
async fn quarantine(city: &TestCity, name: &str) {
    let id = agent(name);
    for _ in 0..6 {
        city.pass(SECOND * 60).await;
        city.parts.sessions.crash(&city.session(&id), 9);
        city.settle().await;
    }
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
}

/// While the culprit is quarantined no member runs without it; afterwards all of them do.
#[tokio::test(start_paused = true)]
async fn a_quarantined_member_keeps_its_group_down() {
    let city = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&city);
    quarantine(&city, "b").await;
    city.pass(SECOND * 600).await;
    assert!(!city.runs(&a) && !city.runs(&b) && !city.runs(&c));
    city.pass(SECOND * 3600).await;
    assert!(city.runs(&a) && city.runs(&b) && city.runs(&c));
}

/// A member that is quarantined for its own deaths stays so, whatever its siblings do, and returns when its own
/// quarantine ends.
#[tokio::test(start_paused = true)]
async fn a_death_releases_no_sibling_from_its_quarantine() {
    let city = group(Strategy::RestForOne).start().await;
    let [_, b, c] = sessions(&city);
    quarantine(&city, "c").await;
    city.parts.sessions.crash(&b, 9);
    city.pass(SECOND * 60).await;
    assert_eq!(city.state(&agent("c")).await, Some(ChildState::Quarantined));
    assert!(city.runs(&b) && !city.runs(&c));
    city.pass(SECOND * 3600).await;
    assert!(city.runs(&c));
    assert_eq!(counts(&city), [1, 2, 7]);
}

/// A member that was started by hand while its group waits for a culprit dies: it restarts with the members that can,
/// and the culprit when its quarantine ends.
#[tokio::test(start_paused = true)]
async fn a_culprit_is_not_forgotten_when_another_dies_before_its_time() {
    let city = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&city);
    quarantine(&city, "b").await;
    city.wake(&agent("a")).await.unwrap();
    city.parts.sessions.crash(&a, 9);
    city.pass(SECOND * 60).await;
    assert_eq!(city.state(&agent("b")).await, Some(ChildState::Quarantined));
    assert!(city.runs(&a) && !city.runs(&b) && city.runs(&c));
    city.pass(SECOND * 3600).await;
    assert!(city.runs(&a) && city.runs(&b) && city.runs(&c));
}

/// OTP: a second death during the restart is counted, and the restart begins again.
#[tokio::test(start_paused = true)]
async fn a_second_death_meanwhile_begins_again() {
    let city = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&city);
    city.parts.sessions.crash(&b, 9);
    city.parts.sessions.crash(&c, 9);
    city.pass(SECOND * 5).await;
    for id in [&a, &b, &c] {
        assert!(city.runs(id));
    }
    city.pass(SECOND * 60).await;
    assert_eq!(city.parts.sessions.doubles(), 0);
}

/// A member that is stopped during the restart takes no part any more, and delays no other.
#[tokio::test(start_paused = true)]
async fn member_that_is_stopped_meanwhile_does_not_delay_its_group() {
    let city = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&city);
    city.parts.sessions.hold_start(&a);
    city.parts.sessions.crash(&b, 9);
    city.until("the first one is being started", || {
        city.world.starts.available_permits() < 16
    })
    .await;
    let (root, id) = (city.root.clone(), agent("a"));
    let rest = |reply| RootMail::Rest {
        id,
        by: None,
        reply,
    };
    let resting = tokio::spawn(async move { root.call(|reply| rest(reply).into(), None).await });
    crate::actors::ask::views(&city.world).await.unwrap();
    city.parts.sessions.release_start(&a);
    city.pass(SECOND).await;
    assert!(resting.await.unwrap().unwrap().is_success());
    assert_eq!(city.state(&agent("a")).await, Some(ChildState::Stopped));
    assert!(!city.runs(&a) && city.runs(&b) && city.runs(&c));
}

/// A start of the member that died waits until the others have ended. It is refused after a while rather than left
/// unanswered while their sessions cannot be observed; the member starts when it can.
#[tokio::test(start_paused = true)]
async fn start_that_waits_for_sessions_that_cannot_be_seen_is_answered() {
    let city = group(Strategy::OneForAll).start().await;
    let [a, b, c] = sessions(&city);
    city.parts.sessions.crash(&b, 9);
    city.parts.sessions.blind(Some("no answer"));
    city.until("its group is to be restarted", || !city.runs(&b))
        .await;
    city.settle().await;
    let refused = city.wake(&agent("b")).await.unwrap_err();
    assert!(refused.contains("starts with its group"), "{refused}");
    city.parts.sessions.blind(None);
    city.pass(SECOND * 120).await;
    assert!([a, b, c].iter().all(|id| city.runs(id)));
}

/// A member that waits for an agent outside the group delays no other member.
#[tokio::test(start_paused = true)]
async fn member_that_waits_for_another_agent_does_not_delay_its_group() {
    let city = group(Strategy::OneForAll).agent("other", RestartType::Permanent);
    let other = || AgentName::new("other").unwrap();
    let city = city.with(|city| city.agents[0].depends_on = vec![other()]);
    let city = city.start().await;
    let [a, b, c] = sessions(&city);
    city.rest(&agent("other")).await.unwrap();
    city.parts.sessions.crash(&c, 9);
    city.pass(SECOND * 5).await;
    assert_eq!(city.state(&agent("a")).await, Some(ChildState::Blocked));
    assert!(city.runs(&b) && city.runs(&c));
    city.wake(&agent("other")).await.unwrap();
    city.pass(SECOND).await;
    assert!(city.runs(&a));
    city.parts.sessions.crash(&c, 9);
    city.pass(SECOND * 60).await;
    assert!(city.runs(&a) && city.runs(&b) && city.runs(&c));
}

/// Parks the account of the first harness.
fn park(city: &TestCity) -> HarnessName {
    let harness = city.world.city.harnesses.keys().next().cloned().unwrap();
    let trouble = AccountReport {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: None,
        fresh: false,
    };
    accounts::report_trouble(&city.world, &agent("a"), &harness, trouble);
    harness
}

/// A group whose first member uses an account.
async fn with_account() -> TestCity {
    let city = group(Strategy::OneForAll);
    let city = city.with(|city| city.agents[0].harness = city.harnesses.keys().next().cloned());
    city.start().await
}

/// A member whose account is parked delays no other member. It starts when its account is open.
#[tokio::test(start_paused = true)]
async fn parked_member_does_not_delay_its_group() {
    let city = with_account().await;
    let [a, b, c] = sessions(&city);
    let harness = park(&city);
    city.parts.sessions.crash(&b, 9);
    city.pass(SECOND * 5).await;
    assert_eq!(city.state(&agent("a")).await, Some(ChildState::Stopped));
    assert!(!city.runs(&a) && city.runs(&b) && city.runs(&c));
    assert!(accounts::unpark(&city.world, &harness, Asker::person()));
    city.pass(SECOND * 300).await;
    assert!(all_run(&city));
}

/// The same when its account is parked while its start is put off.
#[tokio::test(start_paused = true)]
async fn member_that_is_parked_while_its_group_waits_for_it_does_not_delay_its_group() {
    let city = with_account().await;
    let [a, b, c] = sessions(&city);
    let full = StartError::Unwritable("no space left".into());
    city.parts.sessions.refuse_start(&a, full);
    city.parts.sessions.crash(&b, 9);
    city.pass(SECOND * 2).await;
    assert_eq!(city.state(&agent("a")).await, Some(ChildState::Backoff));
    assert!(!city.runs(&b) && !city.runs(&c), "they wait for their turn");
    park(&city);
    city.pass(SECOND * 10).await;
    assert_eq!(city.state(&agent("a")).await, Some(ChildState::Stopped));
    assert!(city.runs(&b) && city.runs(&c));
}

fn all_run(city: &TestCity) -> bool {
    sessions(city).iter().all(|id| city.runs(id))
}

/// Found by the storm: members waiting for a group that was removed from the configuration stop waiting.
#[tokio::test(start_paused = true)]
async fn removed_group_leaves_no_member_waiting() {
    let city = group(Strategy::OneForAll).start().await;
    for _ in 0..3 {
        city.parts.sessions.crash(&sessions(&city)[1], 9);
        city.settle().await;
    }
    assert!(!all_run(&city), "it backs off");
    city.reload(|city| city.groups.clear()).await;
    city.pass(SECOND).await;
    assert!(all_run(&city));
    // Also while a member is still ending.
    let city = group(Strategy::OneForAll).start().await;
    let [_, b, c] = sessions(&city);
    city.parts.sessions.hold_stop(&c);
    city.parts.sessions.crash(&b, 9);
    city.until("c is being ended", || {
        !city.parts.sessions.stops().is_empty()
    })
    .await;
    let then = async {
        // Answered after the reload.
        crate::actors::ask::views(&city.world).await.unwrap();
        city.parts.sessions.release_stop(&c);
    };
    tokio::join!(city.reload(|city| city.groups.clear()), then);
    city.pass(SECOND * 5).await;
    assert!(all_run(&city));
}

/// A member that leaves the group while that restarts still starts, although another member dies before the look that
/// applies the change.
#[tokio::test(start_paused = true)]
async fn member_that_leaves_its_group_during_a_restart_is_not_forgotten() {
    let city = group(Strategy::OneForAll).start().await;
    let [a, b, _] = sessions(&city);
    for _ in 0..3 {
        city.parts.sessions.crash(&b, 9);
        city.settle().await;
    }
    assert!(!all_run(&city), "it backs off");
    // Time stands still until the lists are released.
    city.parts.sessions.hold_lists(true);
    let list = async {
        city.until("the list of the new configuration", || {
            city.parts.sessions.lists_held() > 0
        })
        .await;
        city.parts.sessions.release_list();
    };
    let change = city.reconfigure(|city| city.groups[0].members.truncate(2));
    tokio::join!(change, list);
    city.wake(&agent("a")).await.unwrap();
    let before = city.starts(&a);
    city.parts.sessions.crash(&a, 9);
    city.until("it starts again", || city.starts(&a) > before)
        .await;
    city.parts.sessions.hold_lists(false);
    city.pass(SECOND * 60).await;
    assert!(all_run(&city));
}

/// The others wait with a quarantined member: its release releases them, too.
#[tokio::test(start_paused = true)]
async fn release_of_a_quarantined_member_releases_its_group() {
    let city = group(Strategy::OneForAll).start().await;
    quarantine(&city, "b").await;
    city.wake(&agent("b")).await.unwrap();
    city.pass(SECOND).await;
    assert!(all_run(&city));
    quarantine(&city, "b").await;
    let grace = SECOND * 77;
    city.reload(|city| city.agents[1].shutdown_timeout = grace)
        .await;
    city.pass(SECOND).await;
    assert!(all_run(&city));
    let released = EventType::AgentUnquarantined;
    assert_eq!(city.events(released).await.len(), 2);
}
